//! Publishes an image to Azure: its files as blobs, and a managed image or a gallery version made
//! from its VHD.
//!
//! Azure accepts a fixed VHD only from a page blob (Azure: prepare a Windows VHD to upload).
//! Existing blobs are recognized by their metadata, images by their tags.

mod answers;
mod arm;
mod blob;
mod failures;
mod login;
mod pages;
mod place;
mod storage;

use std::sync::Arc;

pub use arm::{AzurePlace, GalleryVersion};
pub use login::AccountLogin;
pub use place::BlobPlace;

use super::{
    DiskFormat, FileRole, KnownBy, ObjectBody, ObjectStatus, PublishFile, PublishImage,
    PublishObject, PublishTarget, PublishedObject, PublisherSettings,
};
use crate::store::ProgressWatch;
use arm::{ArmClient, AzureImage, AzureImageSpec};
use blob::AzureBlob;
use storage::{BlobStorage, BlobType};
use winimg_base::error::{Error, Kind, Result};

/// Settings to reach Azure.
#[derive(Clone, Debug)]
pub struct AzureSettings {
    /// The address of the account's blobs; `None`: the one in the public cloud.
    pub blobs: Option<String>,
    /// The address of the resource manager; `None`: the public cloud's.
    pub manager: Option<String>,
    /// Login for the account only; `None`: Azure's credential chain.
    pub account: Option<AccountLogin>,
    /// Gallery version to make from the disk; `None`: a managed image.
    pub version: Option<GalleryVersion>,
    /// Replicas of the version in each region.
    pub replicas: u32,
}

/// A folder of a container.
pub struct BlobFolder(Arc<BlobStorage>);

/// A resource group in which images are made.
pub struct AzureImages {
    blobs: Arc<BlobFolder>,
    arm: Arc<ArmClient>,
    place: AzurePlace,
    version: Option<GalleryVersion>,
    regions: Vec<String>,
    replicas: u32,
}

impl PublishTarget for BlobFolder {
    type Slot = AzureBlob;

    async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        _: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        Ok(image.files.iter().map(|file| self.object(file)).collect())
    }

    async fn check_status(
        &self,
        _: &PublishObject,
        blob: &AzureBlob,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        blob.check_status(watch).await
    }

    async fn send(
        &self,
        _: &PublishObject,
        blob: &AzureBlob,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        blob.send(watch).await?;
        Ok(KnownBy::Size.into())
    }
}

impl BlobFolder {
    pub fn new(place: &BlobPlace, settings: &PublisherSettings) -> Result<Self> {
        Ok(Self(Arc::new(BlobStorage::new(place, settings)?)))
    }

    fn object(self: &Arc<Self>, file: &PublishFile) -> PublishObject {
        let blob = AzureBlob {
            storage: Arc::clone(&self.0),
            kept: match file.role {
                FileRole::Disk(DiskFormat::Vhd) => BlobType::Pages,
                _ => BlobType::Blocks,
            },
            name: file.name.clone(),
            path: file.path.clone(),
            size: file.size,
            sha256: file.sha256.clone(),
            media_type: file.media_type,
        };
        PublishObject {
            name: file.name.clone(),
            at: format!("azblob://{}{}", self.0.place, file.name),
            size: file.size,
            sha256: file.sha256.clone(),
            done: "sent",
            media_type: file.media_type.to_owned(),
            body: ObjectBody::from_file(&file.path),
            place: self.bind_slot(blob),
        }
    }
}

impl PublishTarget for AzureImages {
    /// The container publishes the disk.
    type Slot = AzureImage;

    /// Checks first that an image can be made there, since its disk is large.
    async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        let file = image
            .files
            .iter()
            .find(|file| file.role == FileRole::Disk(DiskFormat::Vhd));
        let file = file.ok_or_else(|| Error::new(Kind::Publish, "the image has no fixed VHD"))?;
        let firmware = image.firmware.ok_or_else(|| {
            let fact = "the manifest does not name the firmware of the machine";
            Error::new(Kind::Publish, fact).cure("build the image again")
        })?;
        let made = AzureImage {
            arm: Arc::clone(&self.arm),
            about: AzureImageSpec {
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
        let made = PublishObject {
            size: file.size,
            done: "made",
            ..PublishObject::from_remote(name, at, file.sha256.clone(), self.bind_slot(made))
        };
        Ok(vec![self.blobs.object(file), made])
    }

    async fn check_status(
        &self,
        _: &PublishObject,
        made: &AzureImage,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        made.check_status(watch).await
    }

    async fn send(
        &self,
        _: &PublishObject,
        made: &AzureImage,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        made.send(watch).await
    }
}

impl AzureImages {
    pub fn new(place: &AzurePlace, settings: &PublisherSettings) -> Result<Self> {
        Ok(Self {
            blobs: Arc::new(BlobFolder::new(&place.blobs, settings)?),
            arm: Arc::new(ArmClient::new(settings)?),
            place: place.clone(),
            version: settings.azure.version.clone(),
            regions: settings.copies.clone(),
            replicas: settings.azure.replicas,
        })
    }
}
