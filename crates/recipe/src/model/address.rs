//! Addresses of a recipe's `url` keys: http(s) URLs, or files. Parsed once, when the recipe is
//! read.

use std::fmt;
use std::path::PathBuf;

use url::{Host, Url};

use winimg_base::io;
use winimg_base::text::redact;

/// A resolved address. May contain secrets: `{}` and `{:?}` show it without them.
#[derive(Clone, PartialEq, Eq)]
pub enum FileAddress {
    /// http or https.
    Remote(Url),
    Local(PathBuf),
}

impl FileAddress {
    /// Returns true for http, where anyone on the network path can change the bytes.
    pub fn is_plain_http(&self) -> bool {
        matches!(self, Self::Remote(url) if url.scheme() == "http")
    }

    /// Returns true for http to another machine.
    pub fn is_exposed(&self) -> bool {
        let Self::Remote(url) = self else {
            return false;
        };
        let is_here = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        url.scheme() == "http" && !is_here
    }

    /// Renders the address for files shared with other machines: a local file is reduced to its
    /// name, because its folder differs there.
    pub fn to_recorded(&self) -> String {
        match self {
            Self::Remote(_) => self.to_string(),
            Self::Local(_) => self.file_name(),
        }
    }

    /// Returns the last segment of the path, percent-decoded; empty if the path names a folder.
    pub fn file_name(&self) -> String {
        match self {
            Self::Remote(url) => {
                let last = url.path_segments().and_then(|mut all| all.next_back());
                percent_decoded(last.unwrap_or_default())
            }
            Self::Local(path) => {
                let text = path.to_string_lossy();
                text.rsplit(['/', '\\']).next().unwrap_or_default().into()
            }
        }
    }

    /// Returns the percent-decoded path with `/` separators, to compare with the lines of a
    /// checksum file.
    pub fn path(&self) -> String {
        match self {
            Self::Remote(url) => percent_decoded(url.path()),
            Self::Local(path) => path.to_string_lossy().replace('\\', "/"),
        }
    }

    /// Returns the address of a file published alongside: `https://h/a.exe?x` and `.asc` make
    /// `https://h/a.exe.asc?x`.
    pub fn with_suffix(&self, suffix: &str) -> Self {
        match self {
            Self::Remote(url) => {
                let mut url = url.clone();
                let path = format!("{}{suffix}", url.path());
                url.set_path(&path);
                Self::Remote(url)
            }
            Self::Local(path) => Self::Local(io::with_suffix(path, suffix)),
        }
    }

    /// Returns the part after the `?`.
    pub fn query(&self) -> Option<&str> {
        match self {
            Self::Remote(url) => url.query(),
            Self::Local(_) => None,
        }
    }
}

/// Omits the user name, password, query string and fragment.
impl fmt::Display for FileAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(url) => f.write_str(&redact(url.as_str())),
            Self::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Debug for FileAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

/// Decodes `%20` and the like in a part of a URL's path.
pub fn percent_decoded(text: &str) -> String {
    // The form-encoding parser is the only percent decoder of the URL library; `+` is not a space
    // in a path, so it is escaped first.
    let guarded = text
        .replace('+', "%2B")
        .replace('&', "%26")
        .replace('=', "%3D");
    let mut pairs = url::form_urlencoded::parse(guarded.as_bytes());
    pairs
        .next()
        .map(|(name, _)| name.into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(url: &str) -> FileAddress {
        FileAddress::Remote(url.parse().expect("a URL"))
    }

    #[test]
    fn names_are_those_of_the_files() {
        for (address, name) in [
            (remote("https://h.example/x/a%20b.exe?sig=s"), "a b.exe"),
            (remote("https://h.example/a+b&c=d.exe"), "a+b&c=d.exe"),
            (remote("https://h.example/x/"), ""),
            (FileAddress::Local("/srv/a%20b.iso".into()), "a%20b.iso"),
            (FileAddress::Local("/srv/".into()), ""),
        ] {
            assert_eq!(address.file_name(), name, "{address}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let address = remote("https://u:p@h.example/a?sig=s#f");
        assert_eq!(address.to_string(), "https://h.example/a?…");
        assert_eq!(format!("{address:?}"), "\"https://h.example/a?…\"");
    }

    #[test]
    fn a_suffix_comes_before_the_query() {
        let beside = |address: FileAddress| match address.with_suffix(".asc") {
            FileAddress::Remote(url) => url.to_string(),
            FileAddress::Local(path) => path.display().to_string(),
        };
        for (url, expected) in [
            ("https://h/a.exe", "https://h/a.exe.asc"),
            ("https://h/a%20b.exe", "https://h/a%20b.exe.asc"),
            ("https://h/a.exe?sig=S#f", "https://h/a.exe.asc?sig=S#f"),
        ] {
            assert_eq!(beside(remote(url)), expected);
        }
        assert_eq!(
            beside(FileAddress::Local("/srv/a?b.exe".into())),
            "/srv/a?b.exe.asc"
        );
    }
}
