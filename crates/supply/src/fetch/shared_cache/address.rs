//! Address of a shared cache: `oci://registry.example.com/team/winimg-cache`.
//!
//! Refuses users and passwords in an address, which appears in arguments and logs, and tags, which
//! winimg assigns itself.

use std::fmt;

use url::{Host, Url};

use crate::fetch::client;
use winimg_base::error::{Error, Kind, Result};

/// A repository of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheAddress {
    /// `registry.example.com:5000`
    pub registry: String,
    /// `team/winimg-cache`
    pub repository: String,
    /// Uses http: pulled files are verified anyway, but passwords are not sent.
    pub plain: bool,
    /// The registry runs on this machine.
    pub is_here: bool,
}

impl CacheAddress {
    pub fn parse(text: &str) -> Result<Self> {
        let (scheme, _) = text
            .split_once("://")
            .ok_or_else(|| refuse_address(text, "has no scheme"))?;
        let plain = match scheme {
            "oci" => false,
            "oci+http" => true,
            _ => return Err(refuse_address(text, "has a scheme other than oci")),
        };
        let url =
            Url::parse(text).map_err(|e| refuse_address(text, &format!("is malformed: {e}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse_address(text, "contains a user name or password").cure(
                "set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or run `docker login`, instead",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            let fact = "has more than a registry and a repository";
            return Err(refuse_address(text, fact));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| refuse_address(text, "names no registry"))?;
        let registry = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let repository = url.path().trim_matches('/').to_owned();
        if !repository.split('/').all(is_segment) {
            return Err(refuse_address(
                text,
                "names no repository: lower-case words between slashes, no tag",
            ));
        }
        // For the scheme `oci` the URL parser does not parse hosts as IP addresses.
        let is_here = Host::parse(host).is_ok_and(|host| client::is_here(&host));
        Ok(Self {
            registry,
            repository,
            plain,
            is_here,
        })
    }
}

fn refuse_address(text: &str, fact: &str) -> Error {
    // The text before an @ may be a password.
    let shown = match text.rsplit_once('@') {
        Some((_, after)) => format!("…@{after}"),
        None => text.to_owned(),
    };
    Error::new(
        Kind::Recipe,
        format!("the address of the shared cache {fact}"),
    )
    .expected("such as oci://registry.example.com/team/winimg-cache")
    .found(shown)
}

/// Returns true for a valid path component of a repository name (OCI Distribution Specification:
/// pulling manifests).
pub(crate) fn is_segment(word: &str) -> bool {
    word.starts_with(is_lower_alphanumeric)
        && word.ends_with(is_lower_alphanumeric)
        && word
            .chars()
            .all(|c| is_lower_alphanumeric(c) || "._-".contains(c))
}

fn is_lower_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

impl fmt::Display for CacheAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.plain { "oci+http" } else { "oci" };
        write!(f, "{scheme}://{}/{}", self.registry, self.repository)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_registry_and_a_repository() {
        let address =
            CacheAddress::parse("oci://registry.example.com:5000/team/winimg-cache/").unwrap();
        assert_eq!(address.registry, "registry.example.com:5000");
        assert_eq!(address.repository, "team/winimg-cache");
        assert!(!address.plain && !address.is_here);
        let here = [
            "oci+http://localhost:5000/a",
            "oci+http://127.0.0.1:5000/a",
            "oci+http://[::1]:5000/a",
        ];
        for text in here {
            let address = CacheAddress::parse(text).unwrap();
            assert!(address.plain && address.is_here, "{text}");
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_reported_without_its_password() {
        let refused = |text: &str| CacheAddress::parse(text).unwrap_err().to_string();
        assert_eq!(
            refused("oci://user:hunter2@registry.example.com/cache"),
            "the address of the shared cache contains a user name or password\n  \
             expected: such as oci://registry.example.com/team/winimg-cache\n  found: …@registry.example.com/cache\n  \
             cure: set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or run `docker login`, instead"
        );
        for (text, fact) in [
            ("registry.example.com/cache", "has no scheme"),
            (
                "https://registry.example.com/cache",
                "has a scheme other than oci",
            ),
            ("oci:///cache", "names no registry"),
            (
                "oci://registry.example.com",
                "names no repository: lower-case words between slashes, no tag",
            ),
            (
                "oci://registry.example.com/a:latest",
                "names no repository: lower-case words between slashes, no tag",
            ),
            (
                "oci://registry.example.com/a/../b?c",
                "has more than a registry and a repository",
            ),
        ] {
            let first = format!("the address of the shared cache {fact}");
            assert_eq!(refused(text).lines().next(), Some(first.as_str()), "{text}");
        }
    }
}
