//! The external inputs of a build. [`InputId`] identifies them in every lock, manifest and message;
//! [`Recipe::inputs`] lists them.
//!
//! All other code matches on the id. Its text is parsed in only two places: names of components and
//! images in a recipe, and files that winimg wrote.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{
    ComponentSpec, ContainerImage, DownloadSpec, FileAddress, ImageProof, ProofSpec, Recipe,
};
use winimg_base::digest::Digest;
use winimg_base::text::Place;

/// Identifies an input. As text: `media.iso`, `media.virtio`, a component's name, `image NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InputId {
    /// `[media.iso]`: the Windows installation medium.
    Iso,
    /// `[media.virtio]`: the medium with QEMU's drivers and guest agent.
    Virtio,
    /// `[components.NAME]`
    Component(String),
    /// `[images.NAME]`: a container image.
    Image(String),
}

const ISO: &str = "media.iso";
const VIRTIO: &str = "media.virtio";
/// Prefix of a container image's name. No component has a space in its name.
const IMAGE: &str = "image ";

/// Error: a text is not the name of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputIdError;

impl fmt::Display for InputIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected media.iso, media.virtio, the name of a component, or `image NAME`")
    }
}

impl std::error::Error for InputIdError {}

impl InputId {
    /// Returns the path of its table in the recipe, outermost first.
    pub fn table_path(&self) -> [&str; 2] {
        match self {
            Self::Iso => ["media", "iso"],
            Self::Virtio => ["media", "virtio"],
            Self::Component(name) => ["components", name],
            Self::Image(name) => ["images", name],
        }
    }

    /// Renders it for a command line.
    pub fn to_argument(&self) -> String {
        match self {
            Self::Image(_) => format!("\"{self}\""),
            Self::Iso | Self::Virtio | Self::Component(_) => self.to_string(),
        }
    }

    /// Renders it for a message: `[media.iso]`, ``component `kubelet` ``, ``image `pause` ``.
    pub fn describe(&self) -> String {
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
    type Err = InputIdError;

    fn from_str(text: &str) -> Result<Self, InputIdError> {
        match (text, text.strip_prefix(IMAGE)) {
            (ISO, _) => Ok(Self::Iso),
            (VIRTIO, _) => Ok(Self::Virtio),
            (_, Some(name)) if is_name(name) => Ok(Self::Image(name.into())),
            (name, None) if is_name(name) => Ok(Self::Component(name.into())),
            _ => Err(InputIdError),
        }
    }
}

impl TryFrom<String> for InputId {
    type Error = InputIdError;

    fn try_from(text: String) -> Result<Self, InputIdError> {
        text.parse()
    }
}

impl From<InputId> for String {
    fn from(id: InputId) -> Self {
        id.to_string()
    }
}

/// Returns true if the name is safe in file names and command lines.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['.', '-'])
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// One input of a recipe.
#[derive(Clone, Debug)]
pub struct RecipeInput<'r> {
    pub id: InputId,
    pub source: InputSource<'r>,
}

/// The recipe's definition of an input.
#[derive(Clone, Copy, Debug)]
pub enum InputSource<'r> {
    Medium(&'r DownloadSpec),
    Component(&'r ComponentSpec),
    Image(&'r ContainerImage),
}

impl<'r> RecipeInput<'r> {
    /// Returns the origin of a file; `None` for a container image, which comes from a registry.
    pub fn origin(&self) -> Option<&'r DownloadSpec> {
        match self.source {
            InputSource::Medium(origin) => Some(origin),
            InputSource::Component(component) => Some(&component.origin),
            InputSource::Image(_) => None,
        }
    }

    /// Returns the addresses of the file and of its proofs; empty for a container image.
    pub fn addresses(&self) -> Vec<&'r FileAddress> {
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

    /// Returns the place of its URL or reference in the recipe.
    pub fn place(&self) -> &'r Place {
        match self.source {
            InputSource::Medium(origin) => &origin.url.place,
            InputSource::Component(component) => &component.origin.url.place,
            InputSource::Image(image) => &image.reference.place,
        }
    }

    /// Returns the digest in the lock: of the file, or of the image's manifest.
    pub fn locked_digest(&self) -> Option<&'r Digest> {
        match self.source {
            InputSource::Image(image) => image.locked.as_ref().map(|l| &l.manifest),
            _ => self.origin()?.locked.as_ref().map(|l| &l.digest),
        }
    }

    /// Returns the digest in the recipe itself.
    pub fn pinned_digest(&self) -> Option<&'r Digest> {
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
    /// Lists all inputs: the media, the components (also unused ones), the container images.
    pub fn inputs(&self) -> impl Iterator<Item = RecipeInput<'_>> {
        let media = std::iter::once((InputId::Iso, &self.media.iso)).chain(
            self.media
                .virtio
                .iter()
                .map(|origin| (InputId::Virtio, origin)),
        );
        let components = self.components.iter().map(|component| RecipeInput {
            id: InputId::Component(component.name.value.clone()),
            source: InputSource::Component(component),
        });
        let images = self.images.iter().map(|image| RecipeInput {
            id: InputId::Image(image.name.value.clone()),
            source: InputSource::Image(image),
        });
        media
            .map(|(id, origin)| RecipeInput {
                id,
                source: InputSource::Medium(origin),
            })
            .chain(components)
            .chain(images)
    }

    pub fn find_input(&self, id: &InputId) -> Option<RecipeInput<'_>> {
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
            assert_eq!(text.parse::<InputId>(), Err(InputIdError), "{text}");
        }
    }
}
