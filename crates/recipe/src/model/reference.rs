//! Reference of a container image, parsed once when the recipe is read.

use std::fmt;

use oci_spec::distribution::Reference;

/// `registry.k8s.io/pause:3.10.2`, with its registry; a leading `http://` means plain http.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageReference {
    /// Text as written in the recipe.
    text: String,
    reference: Reference,
}

const PLAIN: &str = "http://";

impl ImageReference {
    /// Parses a reference. The error is one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix(PLAIN).unwrap_or(text);
        Ok(Self {
            text: text.into(),
            reference: bare.parse().map_err(|e| format!("{e}"))?,
        })
    }

    /// Returns the reference for the registry.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Returns true for plain http.
    pub fn is_plain_http(&self) -> bool {
        self.text.starts_with(PLAIN)
    }

    /// Returns true for plain http to another machine.
    pub fn is_exposed(&self) -> bool {
        let registry = format!("{PLAIN}{}", self.reference.registry());
        let address = registry.parse().map(crate::FileAddress::Remote);
        self.is_plain_http() && address.is_ok_and(|a| a.is_exposed())
    }

    /// Returns the name in containerd: with the tag if there is one, as the kubelet uses it,
    /// otherwise with the digest.
    pub fn kept_as(&self) -> String {
        let reference = &self.reference;
        let place = format!("{}/{}", reference.registry(), reference.repository());
        match (reference.tag(), reference.digest()) {
            (Some(tag), _) => format!("{place}:{tag}"),
            (None, Some(digest)) => format!("{place}@{digest}"),
            (None, None) => place,
        }
    }
}

/// Shows the text as written in the recipe.
impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
