//! Destinations of finished images: `s3://bucket/prefix`, `ami://bucket/prefix`,
//! `azblob://account/container/prefix`, `azure://subscription/group/account/container/prefix`,
//! `gs://bucket/folder`, `glance://name`, `vsphere://vcenter/library`, `https://host/folder`,
//! `oci://registry/repository:tag`.
//!
//! Refuses users, passwords and signed queries in an address, which appears in arguments, logs and
//! records.

use std::fmt;

use url::{Host, Url};

use super::azure::{AzurePlace, BlobPlace};
use super::gcs::GcsPlace;
use super::glance::GlancePlace;
use super::key_prefix::parse_prefix;
use super::vsphere::LibraryPlace;
use crate::fetch::client;
use crate::fetch::shared_cache::is_segment;
use winimg_base::error::{Error, Kind, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Bucket(BucketPlace),
    /// An AMI, whose disk goes to a bucket first.
    Ami(AmiPlace),
    /// A folder of an Azure container.
    Blobs(BlobPlace),
    /// A managed image or a version in a gallery, whose disk goes to a container first.
    Azure(AzurePlace),
    /// A folder of a bucket of Google Cloud Storage.
    Gcs(GcsPlace),
    /// An image of an OpenStack project.
    Glance(GlancePlace),
    /// An item of a vCenter's content library.
    Vsphere(LibraryPlace),
    /// A folder of a server that accepts PUT. Ends with a slash.
    Server(Url),
    /// Every file of the image as one OCI artifact.
    Artifact(RegistryTag),
    /// The image's containerDisk as a container image.
    ContainerDisk(RegistryTag),
}

/// A folder of an S3 bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    pub bucket: String,
    /// Prefix of keys: empty, or with a slash at its end.
    pub prefix: String,
}

/// The folder of a bucket from which AWS imports an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmiPlace(pub BucketPlace);

/// A tag of a registry's repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryTag {
    /// `registry.example.com:5000`
    pub registry: String,
    /// `team/node`
    pub repository: String,
    pub tag: String,
    /// Uses http.
    pub plain: bool,
    /// The registry runs on this machine.
    pub is_here: bool,
}

impl Destination {
    pub fn parse(text: &str) -> Result<Self> {
        // The URL parser would ignore them.
        if text.chars().any(char::is_control) || text.trim() != text {
            let shown = text.escape_debug().to_string();
            return Err(refuse_destination(
                "has a line break, or spaces around it",
                &shown,
            ));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(refuse_destination("has no scheme", text));
        };
        match scheme {
            "s3" => parse_bucket(rest, text).map(Self::Bucket),
            "ami" => parse_bucket(rest, text).map(|place| Self::Ami(AmiPlace(place))),
            "azblob" => BlobPlace::parse(rest)
                .map(Self::Blobs)
                .map_err(|fact| refuse_destination(fact, text)),
            "azure" => AzurePlace::parse(rest)
                .map(Self::Azure)
                .map_err(|fact| refuse_destination(fact, text)),
            "gs" => GcsPlace::parse(rest)
                .map(Self::Gcs)
                .map_err(|fact| refuse_destination(fact, text)),
            "glance" => GlancePlace::parse(rest)
                .map(Self::Glance)
                .map_err(|fact| refuse_destination(fact, text)),
            "vsphere" => parse_vsphere(rest, text, false),
            "vsphere+http" => parse_vsphere(rest, text, true),
            "http" | "https" => parse_server(text).map(Self::Server),
            "oci" => parse_tag(rest, text, false).map(Self::Artifact),
            "oci+http" => parse_tag(rest, text, true).map(Self::Artifact),
            "containerdisk" => parse_tag(rest, text, false).map(Self::ContainerDisk),
            "containerdisk+http" => parse_tag(rest, text, true).map(Self::ContainerDisk),
            _ => Err(refuse_destination("has an unknown scheme", text)),
        }
    }
}

fn refuse_destination(fact: &str, text: &str) -> Error {
    // The text before an @ may be a password, the text after a question mark a signature.
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    let shown = match shown.rsplit_once('@') {
        Some((_, after)) => format!("…@{after}"),
        None => shown.to_owned(),
    };
    Error::new(Kind::Recipe, format!("the destination {fact}"))
        .at("--to")
        .expected(
            "such as s3://bucket/folder, ami://bucket/folder, azblob://account/container/folder, \
             azure://subscription/group/account/container, gs://bucket/folder, glance://node-1.31, \
             vsphere://vcenter.example.com/library, https://files.example.com/folder, \
             oci://registry.example.com/team/node:1.31 or \
             containerdisk://registry.example.com/team/node:1.31",
        )
        .found(shown)
}

fn parse_bucket(rest: &str, text: &str) -> Result<BucketPlace> {
    let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
    if let Err(fact) = judge_bucket(bucket) {
        return Err(refuse_destination(&fact, text));
    }
    Ok(BucketPlace {
        bucket: bucket.to_owned(),
        prefix: parse_prefix(folder).map_err(|fact| refuse_destination(fact, text))?,
    })
}

/// Checks the name of an S3 bucket. (Amazon S3: general purpose bucket naming rules)
fn judge_bucket(bucket: &str) -> Result<(), String> {
    let length = bucket.chars().count();
    let fault = match length {
        0 => return Err("names no bucket".to_owned()),
        1..3 => "is too short: 3 to 63 characters",
        64.. => "is too long: 3 to 63 characters",
        _ if !bucket
            .chars()
            .all(|c| is_lower_alphanumeric(c) || ".-".contains(c)) =>
        {
            "has characters other than lower-case letters, digits, dots and hyphens"
        }
        _ if !bucket.starts_with(is_lower_alphanumeric)
            || !bucket.ends_with(is_lower_alphanumeric) =>
        {
            "does not start and end with a lower-case letter or a digit"
        }
        _ => return Ok(()),
    };
    Err(format!(
        "has a bucket name that S3 does not allow: `{bucket}` {fault}"
    ))
}

fn is_lower_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn parse_vsphere(rest: &str, text: &str, plain: bool) -> Result<Destination> {
    let place = LibraryPlace::parse(rest, plain).map_err(|fact| refuse_destination(fact, text))?;
    Ok(Destination::Vsphere(place))
}

fn parse_server(text: &str) -> Result<Url> {
    let mut url =
        Url::parse(text).map_err(|e| refuse_destination(&format!("is malformed: {e}"), text))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse_destination("contains a user name or password", text).cure(
            "set WINIMG_PUBLISH_USER and WINIMG_PUBLISH_PASSWORD, or WINIMG_PUBLISH_TOKEN, instead",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse_destination(
            "has more than a host and a folder",
            text,
        ));
    }
    let folder = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&folder);
    Ok(url)
}

fn parse_tag(rest: &str, text: &str, plain: bool) -> Result<RegistryTag> {
    if rest.contains(['@', '?', '#']) {
        return Err(
            refuse_destination("has more than a registry, a repository and a tag", text).cure(
                "to log in, run `docker login`, or set WINIMG_PUBLISH_USER and \
                     WINIMG_PUBLISH_PASSWORD",
            ),
        );
    }
    let (registry, path) = rest.split_once('/').unwrap_or((rest, ""));
    let Ok(url) = Url::parse(&format!("https://{registry}/")) else {
        return Err(refuse_destination("names no registry", text));
    };
    let Some((repository, tag)) = path.split_once(':') else {
        return Err(refuse_destination("names no tag", text));
    };
    if !repository.split('/').all(is_segment) {
        return Err(refuse_destination(
            "names no repository: lower-case words between slashes",
            text,
        ));
    }
    if !is_tag(tag) {
        return Err(refuse_destination(
            "has an invalid tag: letters, digits and . _ -, 128 at most",
            text,
        ));
    }
    let is_here = url
        .host_str()
        .and_then(|host| Host::parse(host).ok())
        .is_some_and(|host| client::is_here(&host));
    Ok(RegistryTag {
        registry: registry.to_owned(),
        repository: repository.to_owned(),
        tag: tag.to_owned(),
        plain,
        is_here,
    })
}

/// (OCI Distribution Specification: pulling manifests)
fn is_tag(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

impl fmt::Display for RegistryTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.repository, self.tag)
    }
}

fn scheme_suffix(tag: &RegistryTag) -> &'static str {
    if tag.plain { "+http" } else { "" }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(place) => write!(f, "s3://{}/{}", place.bucket, place.prefix),
            Self::Ami(AmiPlace(place)) => write!(f, "ami://{}/{}", place.bucket, place.prefix),
            Self::Blobs(place) => write!(f, "azblob://{place}"),
            Self::Azure(place) => write!(f, "azure://{place}"),
            Self::Gcs(place) => place.fmt(f),
            Self::Glance(place) => place.fmt(f),
            Self::Vsphere(place) => place.fmt(f),
            Self::Server(url) => url.fmt(f),
            Self::Artifact(tag) => write!(f, "oci{}://{tag}", scheme_suffix(tag)),
            Self::ContainerDisk(tag) => write!(f, "containerdisk{}://{tag}", scheme_suffix(tag)),
        }
    }
}

#[cfg(test)]
mod tests;
