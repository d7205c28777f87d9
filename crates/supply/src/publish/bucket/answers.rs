//! XML answers of S3, and its one XML request. (Amazon S3: API Reference)

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roxmltree::{Document, Node};

use super::super::xml::{find_children, read_text};
use crate::fetch::failure::FetchFailure;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind};
use winimg_base::markup::escape_xml;

/// A part that the bucket has.
#[derive(Debug, PartialEq, Eq)]
pub struct S3ListedPart {
    /// Bytes.
    pub size: u64,
    pub etag: String,
    /// Base64, if the bucket computed it.
    pub sha256: Option<String>,
}

/// A page of parts, keyed by part number.
pub struct S3PartPage {
    pub parts: BTreeMap<u64, S3ListedPart>,
    pub truncated: bool,
}

/// An uploaded part.
pub struct S3Part {
    pub number: u64,
    pub etag: String,
    pub digest: Digest,
}

/// Parses `ListMultipartUploads`: the newest upload of this key.
pub fn upload(text: &str, key: &str) -> Result<Option<String>, FetchFailure> {
    let document = read(text)?;
    let uploads = find_children(document.root_element(), "Upload");
    let mut found: Vec<_> = uploads
        .filter(|node| read_text(*node, "Key") == Some(key))
        .filter_map(|node| Some((read_text(node, "Initiated"), read_text(node, "UploadId")?)))
        .collect();
    found.sort_unstable();
    Ok(found.pop().map(|(_, id)| id.to_owned()))
}

/// Parses `CreateMultipartUpload`: the upload's ID.
pub fn parse_upload_id(text: &str) -> Result<String, FetchFailure> {
    let document = read(text)?;
    let id = read_text(document.root_element(), "UploadId");
    id.map(str::to_owned)
        .ok_or_else(|| report_unexpected("a new upload has no ID"))
}

/// Parses `ListParts`.
pub fn parse_parts(text: &str) -> Result<S3PartPage, FetchFailure> {
    let document = read(text)?;
    let root = document.root_element();
    Ok(S3PartPage {
        parts: find_children(root, "Part").filter_map(parse_part).collect(),
        truncated: read_text(root, "IsTruncated") == Some("true"),
    })
}

fn parse_part(node: Node<'_, '_>) -> Option<(u64, S3ListedPart)> {
    let listed = S3ListedPart {
        size: read_text(node, "Size")?.parse().ok()?,
        etag: read_text(node, "ETag")?.to_owned(),
        sha256: read_text(node, "ChecksumSHA256").map(str::to_owned),
    };
    Some((read_text(node, "PartNumber")?.parse().ok()?, listed))
}

/// Renders the body of `CompleteMultipartUpload`.
pub fn render_completion(parts: &[S3Part]) -> String {
    let mut text = String::from("<CompleteMultipartUpload>");
    for part in parts {
        let _ = write!(
            text,
            "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>\
             <ChecksumSHA256>{}</ChecksumSHA256></Part>",
            part.number,
            escape_xml(&part.etag),
            STANDARD.encode(part.digest.bytes()),
        );
    }
    text + "</CompleteMultipartUpload>"
}

/// Parses the response to `CompleteMultipartUpload`: the checksum of the object, if the bucket
/// computed it.
pub fn parse_completion(text: &str) -> Result<Option<String>, FetchFailure> {
    let document = read(text)?;
    let checksum = read_text(document.root_element(), "ChecksumSHA256");
    Ok(checksum.map(str::to_owned))
}

/// Content of an `Error`.
#[derive(Debug, Default)]
pub struct S3Error {
    pub code: String,
    pub message: String,
    /// The bucket's region, if the request was signed for another one.
    pub region: Option<String>,
}

/// Parses the error of an answer, if it is one.
pub fn error(text: &str) -> Option<S3Error> {
    let document = Document::parse(text).ok()?;
    let root = document.root_element();
    let is_error = root.tag_name().name() == "Error";
    is_error.then(|| S3Error {
        code: read_text(root, "Code").unwrap_or_default().to_owned(),
        message: read_text(root, "Message").unwrap_or_default().to_owned(),
        region: read_text(root, "Region").map(str::to_owned),
    })
}

pub fn report_unexpected(words: &str) -> FetchFailure {
    let fact = "the bucket sent an unexpected response";
    Error::new(Kind::Publish, fact).found(words).into()
}

fn read(text: &str) -> Result<Document<'_>, FetchFailure> {
    Document::parse(text).map_err(|e| report_unexpected(&e.to_string()))
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
        let page = parse_parts(text).ok().unwrap();
        assert!(page.truncated);
        let first = S3ListedPart {
            size: 16,
            etag: "\"x\"".into(),
            sha256: Some("c2hh".into()),
        };
        assert_eq!(page.parts[&1], first);
        assert_eq!(page.parts[&2].sha256, None);
    }
}
