//! `oci://registry/repository:tag`, and `containerdisk://…`: a tag of a repository. Pure.

use std::fmt;

use url::{Host, Url};

use super::super::address::AddressFault;
use crate::fetch::client;
use crate::fetch::shared_cache::is_segment;

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

impl RegistryTag {
    /// Parses the text after the scheme.
    pub fn parse(rest: &str, plain: bool) -> Result<Self, AddressFault> {
        if rest.contains(['@', '?', '#']) {
            let fact = "has more than a registry, a repository and a tag";
            return Err(AddressFault::from(fact).cure(
                "to log in, run `docker login`, or set WINIMG_PUBLISH_USER and \
                 WINIMG_PUBLISH_PASSWORD",
            ));
        }
        let (registry, path) = rest.split_once('/').unwrap_or((rest, ""));
        let Ok(url) = Url::parse(&format!("https://{registry}/")) else {
            return Err("names no registry".into());
        };
        let Some((repository, tag)) = path.split_once(':') else {
            return Err("names no tag".into());
        };
        if !repository.split('/').all(is_segment) {
            return Err("names no repository: lower-case words between slashes".into());
        }
        if !is_tag(tag) {
            return Err("has an invalid tag: letters, digits and . _ -, 128 at most".into());
        }
        let is_here = url
            .host_str()
            .and_then(|host| Host::parse(host).ok())
            .is_some_and(|host| client::is_here(&host));
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            plain,
            is_here,
        })
    }

    pub fn scheme_suffix(&self) -> &'static str {
        if self.plain { "+http" } else { "" }
    }
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
