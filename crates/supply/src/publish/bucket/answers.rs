//! What S3 says in XML, and the one thing that is said to it so. (Amazon S3: API Reference)

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roxmltree::{Document, Node};

use super::super::xml::{named, value};
use crate::fetch::failure::Failure;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind};
use winimg_base::markup::escape_xml;

/// A part that the bucket has.
#[derive(Debug, PartialEq, Eq)]
pub struct Listed {
    /// Bytes.
    pub size: u64,
    pub etag: String,
    /// Base64, where the bucket computed it.
    pub sha256: Option<String>,
}

/// A page of them by their numbers.
pub struct Page {
    pub parts: BTreeMap<u64, Listed>,
    pub truncated: bool,
}

/// A part that was sent.
pub struct Part {
    pub number: u64,
    pub etag: String,
    pub digest: Digest,
}

/// `ListMultipartUploads`: the newest upload of this key.
pub fn upload(text: &str, key: &str) -> Result<Option<String>, Failure> {
    let document = read(text)?;
    let uploads = named(document.root_element(), "Upload");
    let mut found: Vec<_> = uploads
        .filter(|node| value(*node, "Key") == Some(key))
        .filter_map(|node| Some((value(node, "Initiated"), value(node, "UploadId")?)))
        .collect();
    found.sort_unstable();
    Ok(found.pop().map(|(_, id)| id.to_owned()))
}

/// `CreateMultipartUpload`: the upload's name.
pub fn begun(text: &str) -> Result<String, Failure> {
    let document = read(text)?;
    let id = value(document.root_element(), "UploadId");
    id.map(str::to_owned)
        .ok_or_else(|| unexpected("it begins an upload without a name"))
}

/// `ListParts`
pub fn parts(text: &str) -> Result<Page, Failure> {
    let document = read(text)?;
    let root = document.root_element();
    let part = |node: Node<'_, '_>| {
        let listed = Listed {
            size: value(node, "Size")?.parse().ok()?,
            etag: value(node, "ETag")?.to_owned(),
            sha256: value(node, "ChecksumSHA256").map(str::to_owned),
        };
        Some((value(node, "PartNumber")?.parse().ok()?, listed))
    };
    Ok(Page {
        parts: named(root, "Part").filter_map(part).collect(),
        truncated: value(root, "IsTruncated") == Some("true"),
    })
}

/// What `CompleteMultipartUpload` is asked with.
pub fn completion(parts: &[Part]) -> String {
    let mut text = String::from("<CompleteMultipartUpload>");
    for part in parts {
        let _ = write!(
            text,
            "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag><ChecksumSHA256>{}</ChecksumSHA256></Part>",
            part.number,
            escape_xml(&part.etag),
            STANDARD.encode(part.digest.bytes()),
        );
    }
    text + "</CompleteMultipartUpload>"
}

/// Its answer: the checksum of the object, where the bucket computed it.
pub fn completed(text: &str) -> Result<Option<String>, Failure> {
    let document = read(text)?;
    let checksum = value(document.root_element(), "ChecksumSHA256");
    Ok(checksum.map(str::to_owned))
}

/// What an `Error` says.
#[derive(Debug, Default)]
pub struct Said {
    pub code: String,
    pub words: String,
    /// The bucket's region, where another one was signed for.
    pub region: Option<String>,
}

/// The error of an answer, if it is one.
pub fn error(text: &str) -> Option<Said> {
    let document = Document::parse(text).ok()?;
    let root = document.root_element();
    let is_error = root.tag_name().name() == "Error";
    is_error.then(|| Said {
        code: value(root, "Code").unwrap_or_default().to_owned(),
        words: value(root, "Message").unwrap_or_default().to_owned(),
        region: value(root, "Region").map(str::to_owned),
    })
}

pub fn unexpected(words: &str) -> Failure {
    let fact = "the bucket sent an answer that is not S3's";
    Error::new(Kind::Publish, fact).found(words).into()
}

fn read(text: &str) -> Result<Document<'_>, Failure> {
    Document::parse(text).map_err(|e| unexpected(&e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_continued_by_its_whole_key() {
        let text = r#"<ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Upload><Key>a/node.vhd.old</Key><UploadId>3</UploadId><Initiated>2026-03-01T00:00:00.000Z</Initiated></Upload>
            <Upload><Key>a/node.vhd</Key><UploadId>2</UploadId><Initiated>2026-02-01T00:00:00.000Z</Initiated></Upload>
            <Upload><Key>a/node.vhd</Key><UploadId>1</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>
        </ListMultipartUploadsResult>"#;
        let found = |key| upload(text, key).ok().unwrap();
        assert_eq!(found("a/node.vhd").as_deref(), Some("2"));
        assert_eq!(found("a/node"), None);
    }

    #[test]
    fn parts_are_listed_with_what_the_bucket_knows_of_them() {
        let text = r#"<ListPartsResult><IsTruncated>true</IsTruncated>
            <Part><PartNumber>1</PartNumber><Size>16</Size><ETag>"x"</ETag><ChecksumSHA256>c2hh</ChecksumSHA256></Part>
            <Part><PartNumber>2</PartNumber><Size>3</Size><ETag>"y"</ETag></Part></ListPartsResult>"#;
        let page = parts(text).ok().unwrap();
        assert!(page.truncated);
        let first = Listed {
            size: 16,
            etag: "\"x\"".into(),
            sha256: Some("c2hh".into()),
        };
        assert_eq!(page.parts[&1], first);
        assert_eq!(page.parts[&2].sha256, None);
    }
}
