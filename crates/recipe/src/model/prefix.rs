//! Prefixes of addresses, as in the rules of `[mirrors]` and `[trust]`.
//!
//! Refuses a prefix without a trailing slash, so that `https://a.example` does not match
//! `https://a.example.net`.

use url::Url;

use crate::model::address::FileAddress;

/// A prefix of addresses, up to a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressPrefix {
    /// http or https, without user and query.
    Web(Url),
    /// Repositories of a registry: `registry.k8s.io/`; over http if it is `plain`.
    Registry { plain: bool, place: String },
}

impl AddressPrefix {
    pub fn as_text(&self) -> &str {
        match self {
            Self::Web(url) => url.as_str(),
            Self::Registry { place, .. } => place,
        }
    }

    /// Returns true for plain http to another machine, which can be modified in transit.
    pub fn is_exposed(&self) -> bool {
        match self {
            Self::Web(url) => FileAddress::Remote(url.clone()).is_exposed(),
            Self::Registry { plain, place } => {
                let url = format!("http://{place}").parse();
                *plain && url.is_ok_and(|url| FileAddress::Remote(url).is_exposed())
            }
        }
    }

    pub fn is_secure(&self) -> bool {
        match self {
            Self::Web(url) => url.scheme() == "https",
            Self::Registry { plain, .. } => !plain,
        }
    }
}

pub const EXAMPLE: &str = "such as \"https://dl.k8s.io/\" = \"https://mirror.example.com/k8s/\"";

/// Parses a prefix of http(s) addresses.
pub fn web_prefix(text: &str) -> Result<Url, (String, &'static str)> {
    match parse_prefix(text)? {
        AddressPrefix::Web(url) => Ok(url),
        AddressPrefix::Registry { .. } => Err((
            "container images have no `signature`".into(),
            "their digests are the proof",
        )),
    }
}

/// Parses a prefix. The error is a fact and its cure, without the address: it may contain a
/// password.
pub fn parse_prefix(text: &str) -> Result<AddressPrefix, (String, &'static str)> {
    if !text.ends_with('/') {
        return refuse("it does not end with `/`", EXAMPLE);
    }
    let (is_registry, plain) = match text.split_once("://") {
        Some(("http" | "https", _)) => (false, false),
        Some(("oci", _)) => (true, false),
        Some(("oci+http", _)) => (true, true),
        _ => return refuse("it is neither http(s):// nor oci://", EXAMPLE),
    };
    let Some(url) = Url::parse(text)
        .ok()
        .filter(|url| url.host_str().is_some_and(|h| !h.is_empty()))
    else {
        return refuse("it is not a URL", EXAMPLE);
    };
    if !url.username().is_empty() || url.password().is_some() {
        let help = "remove it; rules do not apply to addresses with a login";
        return refuse("it contains a user name or password", help);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("it has a query", "end it with a path");
    }
    Ok(if is_registry {
        AddressPrefix::Registry {
            plain,
            place: text
                .split_once("://")
                .map_or("", |(_, place)| place)
                .to_owned(),
        }
    } else {
        AddressPrefix::Web(url)
    })
}

fn refuse<T>(fact: &str, help: &'static str) -> Result<T, (String, &'static str)> {
    Err((format!("this is not a prefix of addresses: {fact}"), help))
}
