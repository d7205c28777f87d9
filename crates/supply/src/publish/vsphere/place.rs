//! Where an image goes in a vCenter: a library, and an item of it. Pure.
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
    /// `None`: by the recipe's name.
    pub item: Option<String>,
}

impl LibraryPlace {
    /// What follows the scheme. The error is what is wrong with it: "the destination …".
    pub fn parse(rest: &str, plain: bool) -> Result<Self, &'static str> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("holds a user");
        }
        let scheme = if plain { "http" } else { "https" };
        let vcenter = Url::parse(&format!("{scheme}://{authority}/"));
        let vcenter = vcenter.map_err(|_| "names no vCenter")?;
        if plain && !vcenter.host().is_some_and(|host| is_here(&host)) {
            return Err("would send a password over http: that is for this machine's own alone");
        }
        let mut names = path.trim_end_matches('/').split('/');
        let library = names.next().unwrap_or_default();
        let item = names.next();
        if names.next().is_some() {
            return Err("has more than a vCenter, a library and an item");
        }
        if !std::iter::once(library).chain(item).all(is_name) {
            return Err("names no library, or has characters that names there should not have");
        }
        Ok(Self {
            vcenter,
            library: library.to_owned(),
            item: item.map(str::to_owned),
        })
    }
}

/// What stands unescaped in a library and in an address.
pub fn is_name(text: &str) -> bool {
    let odd = |c: char| c.is_control() || r#"\%?#*"<>|:@"#.contains(c);
    !text.is_empty() && !text.starts_with('.') && text.trim() == text && !text.contains(odd)
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
