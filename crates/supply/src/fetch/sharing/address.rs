//! Where a shared cache is: `oci://registry.example.com/team/winimg-cache`.
//!
//! Refuses users and passwords in an address, which stands in arguments and logs, and tags, which are winimg's own.

use std::fmt;

use url::{Host, Url};

use crate::fetch::client;
use winimg_base::error::{Error, Kind, Result};

/// A repository of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `registry.example.com:5000`
    pub registry: String,
    /// `team/winimg-cache`
    pub repository: String,
    /// Over http: what is pulled proves itself, but passwords do not go that way.
    pub plain: bool,
    /// This machine's own.
    pub is_here: bool,
}

impl Address {
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |fact: &str| {
            // What stands before an @ may be a password.
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
        };
        let (scheme, _) = text
            .split_once("://")
            .ok_or_else(|| wrong("has no scheme"))?;
        let plain = match scheme {
            "oci" => false,
            "oci+http" => true,
            _ => return Err(wrong("has another scheme than oci")),
        };
        let url = Url::parse(text).map_err(|e| wrong(&format!("is malformed: {e}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("holds a user").cure(
                "WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or `docker login`, name them in secret",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has more than a registry and a repository"));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("names no registry"))?;
        let registry = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let repository = url.path().trim_matches('/').to_owned();
        if !repository.split('/').all(is_segment) {
            return Err(wrong(
                "names no repository: lower-case words between slashes, no tag",
            ));
        }
        // `oci` is no scheme whose hosts the parser knows as addresses.
        let is_here = Host::parse(host).is_ok_and(|host| client::is_here(&host));
        Ok(Self {
            registry,
            repository,
            plain,
            is_here,
        })
    }
}

/// A word of a repository's name (OCI Distribution Specification: pulling manifests).
pub(crate) fn is_segment(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    word.starts_with(plain)
        && word.ends_with(plain)
        && word.chars().all(|c| plain(c) || "._-".contains(c))
}

impl fmt::Display for Address {
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
        let address = Address::parse("oci://registry.example.com:5000/team/winimg-cache/").unwrap();
        assert_eq!(address.registry, "registry.example.com:5000");
        assert_eq!(address.repository, "team/winimg-cache");
        assert!(!address.plain && !address.is_here);
        let here = [
            "oci+http://localhost:5000/a",
            "oci+http://127.0.0.1:5000/a",
            "oci+http://[::1]:5000/a",
        ];
        for text in here {
            let address = Address::parse(text).unwrap();
            assert!(address.plain && address.is_here, "{text}");
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_reported_without_its_password() {
        let refused = |text: &str| Address::parse(text).unwrap_err().to_string();
        assert_eq!(
            refused("oci://user:hunter2@registry.example.com/cache"),
            "the address of the shared cache holds a user\n  \
             expected: such as oci://registry.example.com/team/winimg-cache\n  found: …@registry.example.com/cache\n  \
             cure: WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or `docker login`, name them in secret"
        );
        for (text, fact) in [
            ("registry.example.com/cache", "has no scheme"),
            (
                "https://registry.example.com/cache",
                "has another scheme than oci",
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
