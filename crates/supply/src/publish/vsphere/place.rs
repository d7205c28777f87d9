//! Destination in a vCenter: a library, and an item in it. Pure.
//!
//! Refuses users and passwords in an address.

use std::fmt;

use url::Url;

use crate::fetch::client::is_here;

/// An item of a content library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryPlace {
    /// `https://vcenter.example.com/`
    pub vcenter: Url,
    pub library: String,
    /// `None`: the recipe's name.
    pub item: Option<String>,
}

impl LibraryPlace {
    /// Parses the text after the scheme. The error describes the fault and follows "the
    /// destination".
    pub fn parse(rest: &str, use_http: bool) -> Result<Self, &'static str> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("contains a user name or password");
        }
        let scheme = if use_http { "http" } else { "https" };
        let vcenter = Url::parse(&format!("{scheme}://{authority}/"));
        let vcenter = vcenter.map_err(|_| "has no valid vCenter address")?;
        if use_http && !vcenter.host().is_some_and(|host| is_here(&host)) {
            return Err("would send a password over http, which is allowed only for localhost");
        }
        let mut names = path.trim_end_matches('/').split('/');
        let library = names.next().unwrap_or_default();
        let item = names.next();
        if names.next().is_some() {
            return Err("has more parts than a vCenter, a library and an item");
        }
        if !std::iter::once(library).chain(item).all(is_name) {
            return Err("has no library, or a name with characters that are not allowed");
        }
        Ok(Self {
            vcenter,
            library: library.to_owned(),
            item: item.map(str::to_owned),
        })
    }
}

/// Returns true for a name that needs no escaping in a library or an address.
pub fn is_name(text: &str) -> bool {
    let has_special = text.contains(|c: char| c.is_control() || r#"\%?#*"<>|:@"#.contains(c));
    !text.is_empty() && !text.starts_with('.') && text.trim() == text && !has_special
}

impl fmt::Display for LibraryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = if self.vcenter.scheme() == "http" {
            "+http"
        } else {
            ""
        };
        let authority = self.vcenter.authority();
        write!(f, "vsphere{plain}://{authority}/{}", self.library)?;
        match &self.item {
            Some(item) => write!(f, "/{item}"),
            None => Ok(()),
        }
    }
}
