//! Where a recipe's `url` leads: over http(s), or to a file.

use std::path::PathBuf;

use url::Url;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::{Located, redact};

/// An address, decided.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// http or https. May hold secrets: shown by [`redact`] only, and not `Debug` for that reason.
    Remote(Url),
    Local(PathBuf),
}

impl Address {
    /// Reads `http://`, `https://`, `file://`, or a path, which the recipe has already resolved
    /// against the file that says it.
    pub fn read(url: &Located<String>) -> Result<Self> {
        let text = url.value.trim();
        let refuse = |fact: String| {
            Error::new(Kind::Recipe, fact)
                .at(redact(text))
                .from_place(&url.place)
        };
        let scheme = text.split_once("://").map(|(s, _)| s.to_ascii_lowercase());
        match scheme.as_deref() {
            None => Ok(Self::Local(PathBuf::from(text))),
            Some("http" | "https") => match Url::parse(text) {
                Ok(parsed) => Ok(Self::Remote(parsed)),
                Err(e) => Err(refuse(format!("a URL is malformed: {e}"))),
            },
            Some("file") => Url::parse(text)
                .ok()
                .and_then(|u| u.to_file_path().ok())
                .map(Self::Local)
                .ok_or_else(|| {
                    refuse("a file URL does not name a file of this machine".into())
                        .cure("write file:///folder/name, or just the path")
                }),
            Some(other) => Err(refuse(format!("{other} addresses are not supported"))
                .cure("use https, http with a digest, file:// or a path")),
        }
    }

    /// Whether anyone on the way may change the bytes.
    pub fn is_plain_http(&self) -> bool {
        matches!(self, Self::Remote(url) if url.scheme() == "http")
    }

    /// For messages and records.
    pub fn shown(&self) -> String {
        match self {
            Self::Remote(url) => redact(url.as_str()),
            Self::Local(path) => path.display().to_string(),
        }
    }

    /// For what is shared with other machines: a local file stands in another folder there.
    pub fn recorded(&self) -> String {
        match self {
            Self::Remote(_) => self.shown(),
            Self::Local(_) => self.file_name(),
        }
    }

    /// The last segment of the path.
    pub fn file_name(&self) -> String {
        match self {
            Self::Remote(url) => url
                .path_segments()
                .and_then(|mut s| s.next_back())
                .unwrap_or_default()
                .to_string(),
            Self::Local(path) => path
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use winimg_base::text::{Place, Source};

    use super::*;

    fn read(url: &str) -> String {
        let source = Arc::new(Source {
            name: "recipes/packs/a.toml".into(),
            text: "x".into(),
        });
        let place = Place::new(&source, 0..1);
        match Address::read(&Located::new(url.to_string(), place)) {
            Ok(address) => address.shown(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn addresses_are_read_as_the_recipe_means_them() {
        for (url, shown) in [
            ("https://h.example/a?sig=s", "https://h.example/a?…"),
            ("HTTP://h.example/a", "http://h.example/a"),
            #[cfg(unix)]
            ("file:///srv/a%20b.iso", "/srv/a b.iso"),
            // A file URL names its drive there.
            #[cfg(windows)]
            ("file:///C:/srv/a%20b.iso", r"C:\srv\a b.iso"),
            ("packs/a.iso", "packs/a.iso"),
            ("/srv/a.iso", "/srv/a.iso"),
            (
                "ftp://u:p@h.example/a",
                "ftp addresses are not supported\n  at: ftp://h.example/a\n  recipe: recipes/packs/a.toml:1:1\n  \
                 cure: use https, http with a digest, file:// or a path",
            ),
            (
                "https://u:p@[h/a",
                "a URL is malformed: invalid IPv6 address\n  at: https:[h/a\n  recipe: recipes/packs/a.toml:1:1",
            ),
        ] {
            assert_eq!(read(url), shown, "{url}");
        }
    }
}
