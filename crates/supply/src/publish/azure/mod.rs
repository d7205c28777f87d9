//! An image in Azure: its files as blobs, and a managed image or a version in a gallery made of its VHD.
//!
//! Azure takes a fixed VHD from a page blob alone (Azure: prepare a Windows VHD to upload). What is there is known by marks of ours: a
//! blob's metadata, an image's tags.

mod answers;
mod arm;
mod blob;
mod login;
mod pages;
mod place;
mod refused;
mod storage;

use std::sync::Arc;

pub use arm::{AzurePlace, Version};
pub use login::AccountLogin;
pub use place::BlobPlace;

use super::{
    Arrived, Body, DiskFormat, File, Image, Known, Object, Role, Settings, Standing, Target,
};
use crate::store::Watch;
use arm::{About, Arm, Made};
use blob::Blob;
use storage::{Kept, Storage};
use winimg_base::error::{Error, Kind, Result};

/// What Azure is reached with.
#[derive(Clone, Debug)]
pub struct AzureSettings {
    /// The address of the account's blobs; `None`: the one in the public cloud.
    pub blobs: Option<String>,
    /// The address of the resource manager; `None`: the public cloud's.
    pub manager: Option<String>,
    /// For the account alone; `None`: Azure's own chain of credentials.
    pub account: Option<AccountLogin>,
    /// What is made of the disk; `None`: a managed image.
    pub version: Option<Version>,
    /// Of the version in each region.
    pub replicas: u32,
}

/// A folder of a container.
pub struct Blobs(Arc<Storage>);

/// A resource group in which images are made.
pub struct Images {
    blobs: Arc<Blobs>,
    arm: Arc<Arm>,
    place: AzurePlace,
    version: Option<Version>,
    regions: Vec<String>,
    replicas: u32,
}

impl Target for Blobs {
    type Slot = Blob;

    async fn objects(self: &Arc<Self>, image: &Image, _: &Watch) -> Result<Vec<Object>> {
        Ok(image.files.iter().map(|file| self.object(file)).collect())
    }

    async fn standing(&self, _: &Object, blob: &Blob, watch: &Watch) -> Result<Standing> {
        blob.standing(watch).await
    }

    async fn send(&self, _: &Object, blob: &Blob, watch: &Watch) -> Result<Arrived> {
        blob.send(watch).await?;
        Ok(Known::Size.into())
    }
}

impl Blobs {
    pub fn new(place: &BlobPlace, settings: &Settings) -> Result<Self> {
        Ok(Self(Arc::new(Storage::new(place, settings)?)))
    }

    fn object(self: &Arc<Self>, file: &File) -> Object {
        let blob = Blob {
            storage: Arc::clone(&self.0),
            kept: match file.role {
                Role::Disk(DiskFormat::Vhd) => Kept::Pages,
                _ => Kept::Blocks,
            },
            name: file.name.clone(),
            path: file.path.clone(),
            size: file.size,
            sha256: file.sha256.clone(),
            media_type: file.media_type,
        };
        Object {
            name: file.name.clone(),
            at: format!("azblob://{}{}", self.0.place, file.name),
            size: file.size,
            sha256: file.sha256.clone(),
            done: "sent",
            media_type: file.media_type.to_owned(),
            body: Body::file(&file.path),
            place: self.slot(blob),
        }
    }
}

impl Target for Images {
    /// The disk is the container's own.
    type Slot = Made;

    /// Asks first whether an image can be made there: its disk is large.
    async fn objects(self: &Arc<Self>, image: &Image, watch: &Watch) -> Result<Vec<Object>> {
        let file = image
            .files
            .iter()
            .find(|file| file.role == Role::Disk(DiskFormat::Vhd));
        let file = file.ok_or_else(|| Error::new(Kind::Publish, "the image has no fixed VHD"))?;
        let firmware = image.firmware.ok_or_else(|| {
            let fact = "the manifest does not say whether the machine has UEFI";
            Error::new(Kind::Publish, fact).cure("build the image again")
        })?;
        let made = Made {
            arm: Arc::clone(&self.arm),
            about: About {
                place: self.place.clone(),
                name: image.name.clone(),
                build: image.version.clone(),
                sha256: file.sha256.hex(),
                firmware,
                disk: self.blobs.0.url(&file.name),
                version: self.version.clone(),
                regions: self.regions.clone(),
                replicas: self.replicas,
            },
        };
        made.admitted(watch).await?;
        let name = match &self.version {
            None => format!("image {}", image.name),
            Some(version) => format!("version {} of {}", version.version, version.definition),
        };
        let at = format!("azure:/{}", made.about.id());
        let made = Object {
            size: file.size,
            done: "made",
            ..Object::made(name, at, file.sha256.clone(), self.slot(made))
        };
        Ok(vec![self.blobs.object(file), made])
    }

    async fn standing(&self, _: &Object, made: &Made, watch: &Watch) -> Result<Standing> {
        made.standing(watch).await
    }

    async fn send(&self, _: &Object, made: &Made, watch: &Watch) -> Result<Arrived> {
        made.send(watch).await
    }
}

impl Images {
    pub fn new(place: &AzurePlace, settings: &Settings) -> Result<Self> {
        Ok(Self {
            blobs: Arc::new(Blobs::new(&place.blobs, settings)?),
            arm: Arc::new(Arm::new(settings)?),
            place: place.clone(),
            version: settings.azure.version.clone(),
            regions: settings.copies.clone(),
            replicas: settings.azure.replicas,
        })
    }
}
