//! The table of destinations: `s3://bucket/prefix`, `ami://bucket/prefix`,
//! `azblob://account/container/prefix`, `azure://subscription/group/account/container/prefix`,
//! `gs://bucket/folder`, `glance://name`, `vsphere://vcenter/library`, `https://host/folder`,
//! `oci://registry/repository:tag`.
//!
//! Each variant has the settings of its destination, with the flags that only it takes. Refuses
//! users, passwords and signed queries in an address, which appears in arguments, logs and records.

use std::fmt;
use std::sync::Arc;

use super::address::AddressFault;
use super::ami::{self, AmiObject, AmiPlace, AmiRegions};
use super::azure::{self, AzureBlob, AzureImage, AzureImages, AzurePlace, BlobFolder, BlobPlace};
use super::bucket::{BucketPlace, S3Bucket};
use super::flags::{DestinationFlag, FlagValues};
use super::gcs::{GcsFolder, GcsPlace, SeenGeneration};
use super::glance::{self, GlanceImage, GlancePlace, GlanceProject};
use super::repository::{RegistryRepository, RegistrySlot, RegistryTag};
use super::server::{FileServer, ServerFolder};
use super::vsphere::{self, LibraryObject, LibraryPlace, VcenterLibrary};
use super::{ObjectStatus, PublishHost, PublishImage, PublishObject, PublishedObject};
use crate::store::ProgressWatch;
use winimg_base::error::Result;
use winimg_recipe::OutputFormat;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Bucket(BucketPlace),
    /// An AMI, whose disk goes to a bucket first.
    Ami(AmiPlace),
    /// A folder of an Azure container.
    Blobs(BlobPlace),
    /// A managed image or a version in a gallery, whose disk goes to a container first.
    Azure(AzurePlace),
    /// A folder of a bucket of Google Cloud Storage.
    Gcs(GcsPlace),
    /// An image of an OpenStack project.
    Glance(GlancePlace),
    /// An item of a vCenter's content library.
    Vsphere(LibraryPlace),
    Server(ServerFolder),
    /// Every file of the image as one OCI artifact.
    Artifact(RegistryTag),
    /// The image's containerDisk as a container image.
    ContainerDisk(RegistryTag),
}

/// Outputs of a build that a destination accepts.
#[derive(Clone, Copy, Debug)]
pub enum AcceptedOutputs {
    All,
    /// This one, unless `--only` names others.
    First(OutputFormat),
    /// Only this one, with the disk that it refers to.
    Alone {
        output: OutputFormat,
        /// Why `--only` is refused.
        refusal: &'static str,
    },
    /// The first one that exists, or the one that `--only` names.
    One(&'static [OutputFormat]),
}

impl Destination {
    /// Lists the flags of all destinations in the order of `--help`.
    pub fn flags() -> impl Iterator<Item = &'static DestinationFlag> {
        [azure::FLAGS, ami::FLAGS, glance::FLAGS, vsphere::FLAGS]
            .into_iter()
            .flatten()
    }

    /// Parses an address with the flags that belong to it; other flags are refused.
    pub fn parse(text: &str, mut flags: FlagValues) -> Result<Self> {
        // The URL parser would ignore them.
        if text.chars().any(char::is_control) || text.trim() != text {
            let fault = AddressFault::from("has a line break, or spaces around it");
            return Err(fault.report(&text.escape_debug().to_string()));
        }
        let mut parsed = Self::parse_address(text).map_err(|fault| fault.report(text))?;
        parsed.take_flags(&mut flags)?;
        flags.refuse_rest(&parsed)?;
        Ok(parsed)
    }

    fn parse_address(text: &str) -> Result<Self, AddressFault> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("has no scheme".into());
        };
        Ok(match scheme {
            "s3" => Self::Bucket(BucketPlace::parse(rest)?),
            "ami" => Self::Ami(BucketPlace::parse(rest)?.into()),
            "azblob" => Self::Blobs(BlobPlace::parse(rest)?),
            "azure" => Self::Azure(AzurePlace::parse(rest)?),
            "gs" => Self::Gcs(GcsPlace::parse(rest)?),
            "glance" => Self::Glance(GlancePlace::parse(rest)?),
            "vsphere" => Self::Vsphere(LibraryPlace::parse(rest, false)?),
            "vsphere+http" => Self::Vsphere(LibraryPlace::parse(rest, true)?),
            "http" | "https" => Self::Server(ServerFolder::parse(text)?),
            "oci" => Self::Artifact(RegistryTag::parse(rest, false)?),
            "oci+http" => Self::Artifact(RegistryTag::parse(rest, true)?),
            "containerdisk" => Self::ContainerDisk(RegistryTag::parse(rest, false)?),
            "containerdisk+http" => Self::ContainerDisk(RegistryTag::parse(rest, true)?),
            _ => return Err("has an unknown scheme".into()),
        })
    }

    fn take_flags(&mut self, flags: &mut FlagValues) -> Result<()> {
        match self {
            Self::Ami(place) => place.take_flags(flags),
            Self::Azure(place) => place.take_flags(flags),
            Self::Glance(place) => place.take_flags(flags),
            Self::Vsphere(place) => place.take_flags(flags),
            Self::Bucket(_)
            | Self::Blobs(_)
            | Self::Gcs(_)
            | Self::Server(_)
            | Self::Artifact(_)
            | Self::ContainerDisk(_) => Ok(()),
        }
    }

    pub fn outputs(&self) -> AcceptedOutputs {
        match self {
            Self::Bucket(_)
            | Self::Blobs(_)
            | Self::Gcs(_)
            | Self::Server(_)
            | Self::Artifact(_) => AcceptedOutputs::All,
            Self::ContainerDisk(_) => AcceptedOutputs::First(OutputFormat::ContainerDisk),
            Self::Ami(_) => ami::OUTPUTS,
            Self::Azure(_) => azure::OUTPUTS,
            Self::Glance(_) => glance::OUTPUTS,
            Self::Vsphere(_) => vsphere::OUTPUTS,
        }
    }

    /// Reads the rest of the settings from the environment. Sends no request yet.
    pub(super) fn open(&self, host: &PublishHost) -> Result<PublishTarget> {
        Ok(match self {
            Self::Bucket(place) => PublishTarget::Bucket(Arc::new(S3Bucket::new(place, host)?)),
            Self::Ami(place) => PublishTarget::Ami(Arc::new(AmiRegions::new(place, host)?)),
            Self::Blobs(place) => PublishTarget::Blobs(BlobFolder::new(place, host)?),
            Self::Azure(place) => PublishTarget::Azure(Box::new(AzureImages::new(place, host)?)),
            Self::Gcs(place) => PublishTarget::Gcs(Arc::new(GcsFolder::new(place, host)?)),
            Self::Glance(place) => {
                PublishTarget::Glance(Arc::new(GlanceProject::new(place, host)?))
            }
            Self::Vsphere(place) => {
                PublishTarget::Vsphere(Arc::new(VcenterLibrary::new(place, host)?))
            }
            Self::Server(folder) => PublishTarget::Server(Arc::new(FileServer::new(folder, host)?)),
            Self::Artifact(tag) => {
                PublishTarget::Registry(Arc::new(RegistryRepository::new(tag, false, host)?))
            }
            Self::ContainerDisk(tag) => {
                PublishTarget::Registry(Arc::new(RegistryRepository::new(tag, true, host)?))
            }
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(place) => write!(f, "s3://{place}"),
            Self::Ami(place) => write!(f, "ami://{}", place.bucket),
            Self::Blobs(place) => write!(f, "azblob://{place}"),
            Self::Azure(place) => write!(f, "azure://{place}"),
            Self::Gcs(place) => place.fmt(f),
            Self::Glance(place) => place.fmt(f),
            Self::Vsphere(place) => place.fmt(f),
            Self::Server(folder) => folder.0.fmt(f),
            Self::Artifact(tag) => write!(f, "oci{}://{tag}", tag.scheme_suffix()),
            Self::ContainerDisk(tag) => write!(f, "containerdisk{}://{tag}", tag.scheme_suffix()),
        }
    }
}

/// A destination that this run has opened.
pub(super) enum PublishTarget {
    Bucket(Arc<S3Bucket>),
    Ami(Arc<AmiRegions>),
    Blobs(BlobFolder),
    Azure(Box<AzureImages>),
    Gcs(Arc<GcsFolder>),
    Glance(Arc<GlanceProject>),
    Vsphere(Arc<VcenterLibrary>),
    Server(Arc<FileServer>),
    Registry(Arc<RegistryRepository>),
}

impl PublishTarget {
    /// Lists the objects of an image.
    pub async fn list_objects(
        &self,
        image: &PublishImage,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        match self {
            Self::Bucket(bucket) => bucket.list_objects(&image.files, watch).await,
            Self::Ami(regions) => regions.list_objects(image, watch).await,
            Self::Blobs(folder) => Ok(folder.list_objects(image)),
            Self::Azure(images) => images.list_objects(image, watch).await,
            Self::Gcs(folder) => folder.list_objects(image, watch).await,
            Self::Glance(project) => project.list_objects(image),
            Self::Vsphere(library) => library.list_objects(image, watch).await,
            Self::Server(server) => server.list_objects(image),
            Self::Registry(repository) => repository.list_objects(image, watch).await,
        }
    }

    /// Called when this run needs the destination no longer.
    pub async fn close(&self) {
        if let Self::Vsphere(library) = self {
            library.close().await;
        }
    }
}

/// An object at its destination: what checks and sends it, with the destination's own data of it.
pub(super) enum RemoteObject {
    Bucket(Arc<S3Bucket>),
    Ami(Arc<AmiRegions>, AmiObject),
    Blob(AzureBlob),
    AzureImage(Box<AzureImage>),
    Gcs(Arc<GcsFolder>, SeenGeneration),
    Glance(Arc<GlanceProject>, GlanceImage),
    Library(Arc<VcenterLibrary>, LibraryObject),
    Server(Arc<FileServer>),
    Registry(Arc<RegistryRepository>, RegistrySlot),
}

impl RemoteObject {
    pub async fn check_status(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        match self {
            Self::Bucket(bucket) => bucket.check_status(object, watch).await,
            Self::Ami(regions, made) => regions.check_status(made, watch).await,
            Self::Blob(blob) => blob.check_status(watch).await,
            Self::AzureImage(image) => image.check_status(watch).await,
            Self::Gcs(folder, seen) => folder.check_status(object, seen, watch).await,
            Self::Glance(project, image) => project.check_status(object, image, watch).await,
            Self::Library(library, item) => library.check_status(item, watch).await,
            Self::Server(server) => server.check_status(object, watch).await,
            Self::Registry(repository, slot) => repository.check_status(object, slot, watch).await,
        }
    }

    pub async fn send(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        match self {
            Self::Bucket(bucket) => bucket.send(object, watch).await,
            Self::Ami(regions, made) => regions.send(made, watch).await,
            Self::Blob(blob) => blob.send(watch).await,
            Self::AzureImage(image) => image.send(watch).await,
            Self::Gcs(folder, seen) => folder.send(object, seen, watch).await,
            Self::Glance(project, image) => project.send(object, image, watch).await,
            Self::Library(library, item) => library.send(item, watch).await,
            Self::Server(server) => server.send(object, watch).await,
            Self::Registry(repository, slot) => repository.send(object, slot, watch).await,
        }
    }
}

#[cfg(test)]
mod tests;
