//! Where a finished image goes: `s3://bucket/prefix`, `ami://bucket/prefix`, `azblob://account/container/prefix`,
//! `azure://subscription/group/account/container/prefix`, `gs://bucket/folder`, `glance://name`, `vsphere://vcenter/library`,
//! `https://host/folder`, `oci://registry/repository:tag`.
//!
//! Refuses users, passwords and signed queries in an address, which stands in arguments, logs and records.

use std::fmt;

use url::{Host, Url};

use super::azure::{AzurePlace, BlobPlace};
use super::folder::prefix;
use super::gcs::GcsPlace;
use super::glance::GlancePlace;
use super::vsphere::LibraryPlace;
use crate::fetch::client;
use crate::fetch::sharing::is_segment;
use winimg_base::error::{Error, Kind, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Bucket(BucketPlace),
    /// An AMI, whose disk goes to a bucket first.
    Ami(AmiPlace),
    /// A folder of a container of Azure's.
    Blobs(BlobPlace),
    /// A managed image or a version in a gallery, whose disk goes to a container first.
    Azure(AzurePlace),
    /// A folder of a bucket of Google Cloud Storage.
    Gcs(GcsPlace),
    /// An image of an OpenStack project.
    Glance(GlancePlace),
    /// An item of a vCenter's content library.
    Vsphere(LibraryPlace),
    /// A folder of a server that takes PUT. Ends with a slash.
    Server(Url),
    /// Every file of the image as one OCI artifact.
    Artifact(Tag),
    /// The image's containerDisk as a container image.
    ContainerDisk(Tag),
}

/// A folder of an S3 bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    pub bucket: String,
    /// What keys begin with: empty, or with a slash at its end.
    pub prefix: String,
}

/// The folder of a bucket from which AWS imports an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmiPlace(pub BucketPlace);

/// A tag of a registry's repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// `registry.example.com:5000`
    pub registry: String,
    /// `team/node`
    pub repository: String,
    pub tag: String,
    /// Over http.
    pub plain: bool,
    /// This machine's own.
    pub is_here: bool,
}

impl Destination {
    pub fn parse(text: &str) -> Result<Self> {
        // An address would be read without them.
        if text.chars().any(char::is_control) || text.trim() != text {
            let shown = text.escape_debug().to_string();
            return Err(wrong("has a line end or a blank around it", &shown));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong("has no scheme", text));
        };
        match scheme {
            "s3" => bucket(rest, text).map(Self::Bucket),
            "ami" => bucket(rest, text).map(|place| Self::Ami(AmiPlace(place))),
            "azblob" => {
                let place = BlobPlace::parse(rest).map_err(|fact| wrong(fact, text))?;
                Ok(Self::Blobs(place))
            }
            "azure" => {
                let place = AzurePlace::parse(rest).map_err(|fact| wrong(fact, text))?;
                Ok(Self::Azure(place))
            }
            "gs" => gcs(rest, text),
            "glance" => glance(rest, text),
            "vsphere" => vsphere(rest, text, false),
            "vsphere+http" => vsphere(rest, text, true),
            "http" | "https" => server(text).map(Self::Server),
            "oci" => tag(rest, text, false).map(Self::Artifact),
            "oci+http" => tag(rest, text, true).map(Self::Artifact),
            "containerdisk" => tag(rest, text, false).map(Self::ContainerDisk),
            "containerdisk+http" => tag(rest, text, true).map(Self::ContainerDisk),
            _ => Err(wrong("has a scheme that is not known", text)),
        }
    }
}

fn wrong(fact: &str, text: &str) -> Error {
    // What stands before an @ may be a password, what follows a question mark a signature.
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    let shown = match shown.rsplit_once('@') {
        Some((_, after)) => format!("…@{after}"),
        None => shown.to_owned(),
    };
    Error::new(Kind::Recipe, format!("the destination {fact}"))
        .at("--to")
        .expected(
            "such as s3://bucket/folder, ami://bucket/folder, azblob://account/container/folder, azure://subscription/group/account/container, gs://bucket/folder, glance://node-1.31, vsphere://vcenter.example.com/library, https://files.example.com/folder, oci://registry.example.com/team/node:1.31 or \
             containerdisk://registry.example.com/team/node:1.31",
        )
        .found(shown)
}

fn bucket(rest: &str, text: &str) -> Result<BucketPlace> {
    let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
    if let Err(fact) = judge_bucket(bucket) {
        return Err(wrong(&fact, text));
    }
    Ok(BucketPlace {
        bucket: bucket.to_owned(),
        prefix: prefix(folder).map_err(|fact| wrong(fact, text))?,
    })
}

/// Whether S3 can have a bucket of this name. (Amazon S3: general purpose bucket naming rules)
fn judge_bucket(bucket: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let length = bucket.chars().count();
    let fault = match length {
        0 => return Err("names no bucket".to_owned()),
        1..3 => "is too short: 3 to 63 characters",
        64.. => "is too long: 3 to 63 characters",
        _ if !bucket.chars().all(|c| is_plain(c) || ".-".contains(c)) => {
            "has other characters than small letters, digits, dots and hyphens"
        }
        _ if !bucket.starts_with(is_plain) || !bucket.ends_with(is_plain) => {
            "does not begin and end with a small letter or a digit"
        }
        _ => return Ok(()),
    };
    Err(format!(
        "has a bucket name that S3 does not allow: `{bucket}` {fault}"
    ))
}

fn gcs(rest: &str, text: &str) -> Result<Destination> {
    let place = GcsPlace::parse(rest).map_err(|fact| wrong(fact, text))?;
    Ok(Destination::Gcs(place))
}

fn glance(rest: &str, text: &str) -> Result<Destination> {
    let place = GlancePlace::parse(rest).map_err(|fact| wrong(fact, text))?;
    Ok(Destination::Glance(place))
}

fn vsphere(rest: &str, text: &str, plain: bool) -> Result<Destination> {
    let place = LibraryPlace::parse(rest, plain).map_err(|fact| wrong(fact, text))?;
    Ok(Destination::Vsphere(place))
}

fn server(text: &str) -> Result<Url> {
    let mut url = Url::parse(text).map_err(|e| wrong(&format!("is malformed: {e}"), text))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds a user", text).cure(
            "WINIMG_PUBLISH_USER and WINIMG_PUBLISH_PASSWORD, or WINIMG_PUBLISH_TOKEN, name them in secret",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has more than a host and a folder", text));
    }
    let folder = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&folder);
    Ok(url)
}

fn tag(rest: &str, text: &str, plain: bool) -> Result<Tag> {
    if rest.contains(['@', '?', '#']) {
        return Err(
            wrong("has more than a registry, a repository and a tag", text)
                .cure("`docker login`, or WINIMG_PUBLISH_USER and WINIMG_PUBLISH_PASSWORD, name a user in secret"),
        );
    }
    let (registry, path) = rest.split_once('/').unwrap_or((rest, ""));
    let Ok(url) = Url::parse(&format!("https://{registry}/")) else {
        return Err(wrong("names no registry", text));
    };
    let Some((repository, tag)) = path.split_once(':') else {
        return Err(wrong("names no tag", text));
    };
    if !repository.split('/').all(is_segment) {
        return Err(wrong(
            "names no repository: lower-case words between slashes",
            text,
        ));
    }
    if !is_tag(tag) {
        return Err(wrong(
            "has a tag that no registry takes: letters, digits and . _ -, 128 at most",
            text,
        ));
    }
    let is_here = url
        .host_str()
        .and_then(|host| Host::parse(host).ok())
        .is_some_and(|host| client::is_here(&host));
    Ok(Tag {
        registry: registry.to_owned(),
        repository: repository.to_owned(),
        tag: tag.to_owned(),
        plain,
        is_here,
    })
}

/// (OCI Distribution Specification: pulling manifests)
fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(word) && text.len() <= 128 && text.chars().all(|c| word(c) || ".-".contains(c))
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.repository, self.tag)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let http = |tag: &Tag| if tag.plain { "+http" } else { "" };
        match self {
            Self::Bucket(place) => write!(f, "s3://{}/{}", place.bucket, place.prefix),
            Self::Ami(AmiPlace(place)) => write!(f, "ami://{}/{}", place.bucket, place.prefix),
            Self::Blobs(place) => write!(f, "azblob://{place}"),
            Self::Azure(place) => write!(f, "azure://{place}"),
            Self::Gcs(place) => place.fmt(f),
            Self::Glance(place) => place.fmt(f),
            Self::Vsphere(place) => place.fmt(f),
            Self::Server(url) => url.fmt(f),
            Self::Artifact(tag) => write!(f, "oci{}://{tag}", http(tag)),
            Self::ContainerDisk(tag) => write!(f, "containerdisk{}://{tag}", http(tag)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_shown_as_it_is_typed() {
        for (text, shown) in [
            ("s3://images/windows", "s3://images/windows/"),
            ("s3://images", "s3://images/"),
            ("ami://images/winimg", "ami://images/winimg/"),
            ("azblob://team0/images", "azblob://team0/images/"),
            ("azblob://team0/images/a/b/", "azblob://team0/images/a/b/"),
            (
                "azure://11111111-2222-3333-4444-555555555555/node-images/team0/vhds/a",
                "azure://11111111-2222-3333-4444-555555555555/node-images/team0/vhds/a/",
            ),
            ("gs://im_ages/windows", "gs://im_ages/windows/"),
            ("glance://node-1.31/", "glance://node-1.31"),
            ("glance://", "glance://"),
            (
                "vsphere://vc.example.com:8443/node images/demo/",
                "vsphere://vc.example.com:8443/node images/demo",
            ),
            (
                "vsphere+http://127.0.0.1:8989/images",
                "vsphere+http://127.0.0.1:8989/images",
            ),
            (
                "https://files.example.com/images/",
                "https://files.example.com/images/",
            ),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
            (
                "oci://registry.example.com:5000/team/node:v1.31",
                "oci://registry.example.com:5000/team/node:v1.31",
            ),
            (
                "containerdisk+http://[::1]:5000/node:1",
                "containerdisk+http://[::1]:5000/node:1",
            ),
        ] {
            assert_eq!(Destination::parse(text).unwrap().to_string(), shown);
        }
        let Destination::ContainerDisk(tag) =
            Destination::parse("containerdisk+http://[::1]:5000/node:1").unwrap()
        else {
            panic!("another destination");
        };
        assert!(tag.plain && tag.is_here);
    }

    #[test]
    fn what_is_no_destination_is_reported_without_its_secrets() {
        for (text, fact, found) in [
            ("images", "has no scheme", "images"),
            (
                "ftp://host/x",
                "has a scheme that is not known",
                "ftp://host/x",
            ),
            (
                "s3://Images/x",
                "has a bucket name that S3 does not allow: `Images` has other characters than small letters, digits, dots and hyphens",
                "s3://Images/x",
            ),
            (
                "ami://b/f",
                "has a bucket name that S3 does not allow: `b` is too short: 3 to 63 characters",
                "ami://b/f",
            ),
            (
                "s3://-images/f",
                "has a bucket name that S3 does not allow: `-images` does not begin and end with a small letter or a digit",
                "s3://-images/f",
            ),
            (
                "https://files.example.com/images\n",
                "has a line end or a blank around it",
                "https://files.example.com/images\\n",
            ),
            (
                "https://files.exam\r\nple.com/images",
                "has a line end or a blank around it",
                "https://files.exam\\r\\nple.com/images",
            ),
            (
                "https://ci:hunter2@host/x\n",
                "has a line end or a blank around it",
                "…@host/x\\n",
            ),
            (
                " s3://images/x",
                "has a line end or a blank around it",
                " s3://images/x",
            ),
            ("s3:///x", "names no bucket", "s3:///x"),
            (
                "s3://images/a/../b",
                "has characters in its folder that object keys should not have",
                "s3://images/a/../b",
            ),
            ("https://user:hunter2@host/x", "holds a user", "…@host/x"),
            (
                "https://host/x?sig=hunter2",
                "has more than a host and a folder",
                "https://host/x",
            ),
            (
                "vsphere://root:hunter2@vc/images",
                "holds a user",
                "…@vc/images",
            ),
            (
                "vsphere+http://vc.example.com/images",
                "would send a password over http: that is for this machine's own alone",
                "vsphere+http://vc.example.com/images",
            ),
            (
                "vsphere://vc",
                "names no library, or has characters that names there should not have",
                "vsphere://vc",
            ),
            (
                "vsphere://vc/images/demo/1",
                "has more than a vCenter, a library and an item",
                "vsphere://vc/images/demo/1",
            ),
            (
                "azblob://team0:hunter2@host/images",
                "holds a user",
                "…@host/images",
            ),
            (
                "azblob://team0/images?sig=hunter2",
                "names no container: 3 to 63 small letters, digits and single hyphens",
                "azblob://team0/images",
            ),
            (
                "azblob://Team/images",
                "names no storage account: 3 to 24 small letters and digits",
                "azblob://Team/images",
            ),
            (
                "azblob://team0/images/a b",
                "has characters in its folder that names of blobs should not have",
                "azblob://team0/images/a b",
            ),
            (
                "azure://mine/group/team0/images",
                "names no subscription: its id, as `az account list` shows it",
                "azure://mine/group/team0/images",
            ),
            (
                "azure://11111111-2222-3333-4444-555555555555/group./team0/images",
                "names no resource group",
                "azure://11111111-2222-3333-4444-555555555555/group./team0/images",
            ),
            ("oci://registry/node", "names no tag", "oci://registry/node"),
            (
                "oci://registry/Node:1",
                "names no repository: lower-case words between slashes",
                "oci://registry/Node:1",
            ),
            (
                "oci://registry/node:.1",
                "has a tag that no registry takes: letters, digits and . _ -, 128 at most",
                "oci://registry/node:.1",
            ),
            (
                "oci://user:hunter2@registry/node:1",
                "has more than a registry, a repository and a tag",
                "…@registry/node:1",
            ),
        ] {
            let error = Destination::parse(text).unwrap_err();
            assert_eq!(error.fact(), format!("the destination {fact}"), "{text}");
            let shown = error.to_string();
            assert!(
                shown.contains(&format!("\n  found: {found}\n"))
                    || shown.ends_with(&format!("\n  found: {found}")),
                "{shown}"
            );
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
