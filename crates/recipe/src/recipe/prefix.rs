//! The beginning of addresses, which rules of `[mirrors]` and `[trust]` are for.
//!
//! Refuses one that does not end with a slash, so that `https://a.example` is not the beginning of `https://a.example.net`.

use url::Url;

use super::address::Address;

/// The beginning of addresses, up to a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// http or https, without user and query.
    Web(Url),
    /// Of a registry's repositories: `registry.k8s.io/`; over http where it is `plain`.
    Registry { plain: bool, place: String },
}

impl Prefix {
    pub fn text(&self) -> &str {
        match self {
            Self::Web(url) => url.as_str(),
            Self::Registry { place, .. } => place,
        }
    }

    /// Anyone on the way could change what comes.
    pub fn is_exposed(&self) -> bool {
        match self {
            Self::Web(url) => Address::Remote(url.clone()).is_exposed(),
            Self::Registry { plain, place } => {
                let url = format!("http://{place}").parse();
                *plain && url.is_ok_and(|url| Address::Remote(url).is_exposed())
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

/// The beginning of http(s) addresses.
pub fn web_prefix(text: &str) -> Result<Url, (String, &'static str)> {
    match prefix(text)? {
        Prefix::Web(url) => Ok(url),
        Prefix::Registry { .. } => Err((
            "container images have no `signature`".into(),
            "they are proved by their digests",
        )),
    }
}

/// The fact, and the cure. No address is shown: it may hold a password.
pub fn prefix(text: &str) -> Result<Prefix, (String, &'static str)> {
    let wrong =
        |fact: &str, help| Err((format!("this is no beginning of addresses: {fact}"), help));
    if !text.ends_with('/') {
        return wrong("it does not end with `/`", EXAMPLE);
    }
    let (is_registry, plain) = match text.split_once("://") {
        Some(("http" | "https", _)) => (false, false),
        Some(("oci", _)) => (true, false),
        Some(("oci+http", _)) => (true, true),
        _ => return wrong("it is neither http(s):// nor oci://", EXAMPLE),
    };
    let Some(url) = Url::parse(text)
        .ok()
        .filter(|url| url.host_str().is_some_and(|h| !h.is_empty()))
    else {
        return wrong("it cannot be read", EXAMPLE);
    };
    if !url.username().is_empty() || url.password().is_some() {
        let help = "take it out; what needs a login is not asked for with one";
        return wrong("it holds a user name or password", help);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("it has a query", "end it with a path");
    }
    Ok(match is_registry {
        false => Prefix::Web(url),
        true => Prefix::Registry {
            plain,
            place: text
                .split_once("://")
                .map_or("", |(_, place)| place)
                .to_owned(),
        },
    })
}
