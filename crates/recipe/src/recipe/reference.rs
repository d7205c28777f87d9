//! A container image's reference, read once where the recipe is.

use std::fmt;

use oci_spec::distribution::Reference;

/// `registry.k8s.io/pause:3.10.2`, with its registry; `http://` before it asks over plain http.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageReference {
    /// As the recipe writes it.
    text: String,
    reference: Reference,
}

const PLAIN: &str = "http://";

impl ImageReference {
    /// The error is one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix(PLAIN).unwrap_or(text);
        Ok(Self {
            text: text.into(),
            reference: bare.parse().map_err(|e| format!("{e}"))?,
        })
    }

    /// What the registry is asked for.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Over plain http.
    pub fn is_plain_http(&self) -> bool {
        self.text.starts_with(PLAIN)
    }

    /// Over plain http, and not to this machine.
    pub fn is_exposed(&self) -> bool {
        let registry = format!("{PLAIN}{}", self.reference.registry());
        let address = registry.parse().map(super::Address::Remote);
        self.is_plain_http() && address.is_ok_and(|a| a.is_exposed())
    }

    /// The name that containerd keeps it under: the tag where there is one, as the kubelet asks for it, and the digest
    /// otherwise.
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

/// As the recipe writes it.
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
