//! What a build needs from outside, and how each of it is called: [`InputId`] in every lock, manifest and message,
//! [`Recipe::inputs`] the one list.
//!
//! Everything else matches on the id. Its text is read in two places alone: where a recipe names its components and
//! images, and where a file that winimg wrote is read again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Address, Component, ContainerImage, ImageProof, Origin, ProofSpec, Recipe};
use winimg_base::digest::Digest;
use winimg_base::text::Place;

/// Which input. As text `media.iso`, `media.virtio`, a component's name, `image NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InputId {
    /// `[media.iso]`: the medium that Windows is installed from.
    Iso,
    /// `[media.virtio]`: the medium of QEMU's drivers and guest agent.
    Virtio,
    /// `[components.NAME]`
    Component(String),
    /// `[images.NAME]`: a container image.
    Image(String),
}

const ISO: &str = "media.iso";
const VIRTIO: &str = "media.virtio";
/// Before the name of a container image. No component has a space in its name.
const IMAGE: &str = "image ";

/// Why a text names no input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoInput;

impl fmt::Display for NoInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an input is called media.iso, media.virtio, as its component, or `image NAME`")
    }
}

impl std::error::Error for NoInput {}

impl InputId {
    /// The tables of the recipe that describe it, the outermost first.
    pub fn table(&self) -> [&str; 2] {
        match self {
            Self::Iso => ["media", "iso"],
            Self::Virtio => ["media", "virtio"],
            Self::Component(name) => ["components", name],
            Self::Image(name) => ["images", name],
        }
    }

    /// For a command line.
    pub fn argument(&self) -> String {
        match self {
            Self::Image(_) => format!("\"{self}\""),
            Self::Iso | Self::Virtio | Self::Component(_) => self.to_string(),
        }
    }

    /// For a sentence about the recipe: `[media.iso]`, ``component `kubelet` ``, ``image `pause` ``.
    pub fn described(&self) -> String {
        match self {
            Self::Iso | Self::Virtio => format!("[{self}]"),
            Self::Component(name) => format!("component `{name}`"),
            Self::Image(name) => format!("image `{name}`"),
        }
    }
}

impl fmt::Display for InputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iso => f.write_str(ISO),
            Self::Virtio => f.write_str(VIRTIO),
            Self::Component(name) => f.write_str(name),
            Self::Image(name) => write!(f, "{IMAGE}{name}"),
        }
    }
}

impl FromStr for InputId {
    type Err = NoInput;

    fn from_str(text: &str) -> Result<Self, NoInput> {
        match (text, text.strip_prefix(IMAGE)) {
            (ISO, _) => Ok(Self::Iso),
            (VIRTIO, _) => Ok(Self::Virtio),
            (_, Some(name)) if is_name(name) => Ok(Self::Image(name.into())),
            (name, None) if is_name(name) => Ok(Self::Component(name.into())),
            _ => Err(NoInput),
        }
    }
}

impl TryFrom<String> for InputId {
    type Error = NoInput;

    fn try_from(text: String) -> Result<Self, NoInput> {
        text.parse()
    }
}

impl From<InputId> for String {
    fn from(id: InputId) -> Self {
        id.to_string()
    }
}

/// It becomes a part of file names and command lines.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(plain) && !name.starts_with(['.', '-'])
}

/// One input of a recipe.
#[derive(Clone, Debug)]
pub struct Input<'r> {
    pub id: InputId,
    pub source: InputSource<'r>,
}

/// What the recipe says of an input.
#[derive(Clone, Copy, Debug)]
pub enum InputSource<'r> {
    Medium(&'r Origin),
    Component(&'r Component),
    Image(&'r ContainerImage),
}

impl<'r> Input<'r> {
    /// Of a file; a container image comes from a registry.
    pub fn origin(&self) -> Option<&'r Origin> {
        match self.source {
            InputSource::Medium(origin) => Some(origin),
            InputSource::Component(component) => Some(&component.origin),
            InputSource::Image(_) => None,
        }
    }

    /// Where the file and all that proves it are; none of a container image.
    pub fn addresses(&self) -> Vec<&'r Address> {
        let Some(origin) = self.origin() else {
            return Vec::new();
        };
        let mut all = vec![&origin.url.value];
        let mut groups = vec![&origin.signatures];
        if let ProofSpec::ChecksumFile {
            url, signatures, ..
        } = &origin.proof
        {
            all.push(&url.value);
            groups.push(signatures);
        }
        for signature in groups.into_iter().flatten().flatten() {
            let own = signature.url.iter().chain(&signature.certificate);
            all.extend(own.chain(&signature.crls).map(|url| &url.value));
        }
        all
    }

    /// Where the recipe says where it comes from.
    pub fn place(&self) -> &'r Place {
        match self.source {
            InputSource::Medium(origin) => &origin.url.place,
            InputSource::Component(component) => &component.origin.url.place,
            InputSource::Image(image) => &image.reference.place,
        }
    }

    /// What the lock names: the file, or the image's manifest.
    pub fn locked(&self) -> Option<&'r Digest> {
        match self.source {
            InputSource::Image(image) => image.locked.as_ref().map(|l| &l.manifest),
            _ => self.origin()?.locked.as_ref().map(|l| &l.digest),
        }
    }

    /// What the recipe itself names.
    pub fn pinned(&self) -> Option<&'r Digest> {
        match self.source {
            InputSource::Image(image) => match &image.proof {
                ImageProof::Digest(digest) => Some(&digest.value),
                ImageProof::Unverified { .. } => None,
            },
            _ => match &self.origin()?.proof {
                ProofSpec::Digest(digest) => Some(&digest.value),
                _ => None,
            },
        }
    }
}

impl Recipe {
    /// All that a build may need: the media, the components (those that no step uses too), the container images.
    pub fn inputs(&self) -> impl Iterator<Item = Input<'_>> {
        let medium = |id, origin| Input {
            id,
            source: InputSource::Medium(origin),
        };
        let virtio = self.media.virtio.iter();
        let components = self.components.iter().map(|component| Input {
            id: InputId::Component(component.name.value.clone()),
            source: InputSource::Component(component),
        });
        let images = self.images.iter().map(|image| Input {
            id: InputId::Image(image.name.value.clone()),
            source: InputSource::Image(image),
        });
        std::iter::once(medium(InputId::Iso, &self.media.iso))
            .chain(virtio.map(move |origin| medium(InputId::Virtio, origin)))
            .chain(components)
            .chain(images)
    }

    pub fn input(&self, id: &InputId) -> Option<Input<'_>> {
        self.inputs().find(|input| input.id == *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_one_text() {
        for (text, id) in [
            ("media.iso", InputId::Iso),
            ("media.virtio", InputId::Virtio),
            ("media.other", InputId::Component("media.other".into())),
            ("kubelet", InputId::Component("kubelet".into())),
            ("image", InputId::Component("image".into())),
            ("image pause", InputId::Image("pause".into())),
            ("image media.iso", InputId::Image("media.iso".into())),
        ] {
            assert_eq!(text.parse(), Ok(id.clone()), "{text}");
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "a b",
            "image ",
            "image a b",
            " media.iso",
            ".a",
            "-a",
            "a/b",
        ] {
            assert_eq!(text.parse::<InputId>(), Err(NoInput), "{text}");
        }
    }
}
