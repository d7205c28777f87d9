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

pub use arm::{AzureImage, AzurePlace, FLAGS};
pub use blob::AzureBlob;
pub use place::BlobPlace;

use super::{AcceptedOutputs, PublishFile, PublishHost, PublishImage, PublishObject, RemoteObject};
use crate::store::ProgressWatch;
use arm::{ArmClient, AzureImageSpec};
use storage::{BlobStorage, BlobType};
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::OutputFormat;

pub const OUTPUTS: AcceptedOutputs = AcceptedOutputs::Alone {
    output: OutputFormat::Vhd,
    refusal: "an Azure image is created from the VHD",
};

/// A folder of a container.
pub struct BlobFolder(Arc<BlobStorage>);

/// A resource group in which images are made.
pub struct AzureImages {
    blobs: BlobFolder,
    arm: Arc<ArmClient>,
    place: AzurePlace,
}

impl BlobFolder {
    pub fn new(place: &BlobPlace, host: &PublishHost) -> Result<Self> {
        Ok(Self(Arc::new(BlobStorage::new(place, &host.fetch)?)))
    }

    pub fn list_objects(&self, image: &PublishImage) -> Vec<PublishObject> {
        image.files.iter().map(|file| self.object(file)).collect()
    }

    fn object(&self, file: &PublishFile) -> PublishObject {
        let blob = AzureBlob {
            storage: Arc::clone(&self.0),
            kept: if file.is_output(OutputFormat::Vhd) {
                BlobType::Pages
            } else {
                BlobType::Blocks
            },
            name: file.name.clone(),
            path: file.path.clone(),
            size: file.size,
            sha256: file.sha256.clone(),
            media_type: file.media_type,
        };
        let at = format!("azblob://{}{}", self.0.place, file.name);
        PublishObject::from_file(file, at, RemoteObject::Blob(blob))
    }
}

impl AzureImages {
    pub fn new(place: &AzurePlace, host: &PublishHost) -> Result<Self> {
        Ok(Self {
            blobs: BlobFolder::new(&place.blobs, host)?,
            arm: Arc::new(ArmClient::new(&host.fetch)?),
            place: place.clone(),
        })
    }

    /// Checks first that an image can be made there, since its disk is large.
    pub async fn list_objects(
        &self,
        image: &PublishImage,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        let file = image
            .files
            .iter()
            .find(|file| file.is_output(OutputFormat::Vhd));
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
            },
        };
        made.admitted(watch).await?;
        let name = match &self.place.version {
            None => format!("image {}", image.name),
            Some(version) => format!("version {} of {}", version.version, version.definition),
        };
        let at = format!("azure:/{}", made.about.id());
        let remote = RemoteObject::AzureImage(Box::new(made));
        let made = PublishObject {
            size: file.size,
            done: "made",
            ..PublishObject::from_remote(name, at, file.sha256.clone(), remote)
        };
        Ok(vec![self.blobs.object(file), made])
    }
}
