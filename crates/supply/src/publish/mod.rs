//! Publishes a finished image to a bucket, an AMI, Azure, OpenStack, a vCenter, a server or a
//! registry.
//!
//! Sends one file after the other and checks the destination first: files that are there are not
//! sent again, and different files are only replaced if requested. Failed attempts are retried.
//! Does not validate the image; the caller has checked its files before.

mod ami;
mod azure;
mod body;
mod bucket;
mod container_disk;
mod credential_access;
mod destination;
mod gcs;
mod glance;
mod key_prefix;
mod oci_documents;
mod repository;
mod server;
mod signing;
mod target;
mod vsphere;
mod xml;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::StatusCode;
use tokio::runtime::Runtime;
use url::Url;

pub use ami::ImportRequest;
pub use azure::{AccountLogin, AzureSettings, GalleryVersion};
pub use destination::{AmiPlace, BucketPlace, Destination, RegistryTag};
pub use gcs::GcsPlace;
pub use glance::{GlancePlace, OpenStackCloud};
pub use vsphere::{LibraryPlace, TemplatePlace};

use crate::fetch::client::{HttpAnswer, HttpClient};
use crate::fetch::failure::FetchFailure;
use crate::fetch::registry::RegistryConfig;
use crate::fetch::retry::RetryCounter;
use crate::fetch::{self, FetchOptions};
use crate::store::ProgressWatch;
use body::ObjectBody;
use bucket::S3Bucket;
use repository::RegistryRepository;
use server::FileServer;
use target::{PublishTarget, RemoteObject, TargetHandle};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::recipe::Firmware;

/// A finished image, as its manifest lists it.
pub struct PublishImage {
    /// The recipe's name.
    pub name: String,
    /// Windows version.
    pub version: String,
    /// RFC 3339.
    pub created: String,
    /// Firmware of the machine; `None`: the manifest does not say.
    pub firmware: Option<Firmware>,
    pub files: Vec<PublishFile>,
}

/// One file of an image, or of its records.
pub struct PublishFile {
    pub name: String,
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
    pub media_type: &'static str,
    pub role: FileRole,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRole {
    Artifact,
    /// A containerDisk: an OCI layout in a tar.
    ContainerDisk,
    /// A disk that AWS imports, with the export's request for it.
    Imported(Box<ImportRequest>),
    Ova,
    /// A disk in a format that clouds accept directly.
    Disk(DiskFormat),
    /// A record that describes the image.
    Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFormat {
    Qcow2,
    Raw,
    /// A fixed VHD.
    Vhd,
}

impl DiskFormat {
    /// Returns the name of the format in OpenStack.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
            Self::Vhd => "vhd",
        }
    }
}

/// An object to publish. Objects are sent in order; the last one marks the image as complete.
pub struct PublishObject {
    /// Name for users.
    pub name: String,
    /// Address at the destination.
    pub at: String,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
    /// Action in messages: "to be …".
    pub done: &'static str,
    media_type: String,
    body: ObjectBody,
    place: Box<dyn RemoteObject>,
}

/// Current state of an object at the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectStatus {
    Absent,
    /// The same object, with the platform's name of it.
    Same(Option<String>),
    /// A different object; a short description.
    Other(String),
    /// An object of this size in bytes and unknown digest.
    Unknown {
        size: Option<u64>,
    },
}

/// Verification of an object at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// The destination computed its digest, which matches.
    Digest,
    /// Only its size matches.
    Size,
}

/// An object that was published.
pub struct PublishedObject {
    pub known: KnownBy,
    /// The platform's name of it, such as `ami-0abc`.
    pub id: Option<String>,
}

impl From<KnownBy> for PublishedObject {
    fn from(known: KnownBy) -> Self {
        Self { known, id: None }
    }
}

impl PublishObject {
    /// Creates an object without a body: its destination makes it, or reads the bytes itself.
    fn from_remote(name: String, at: String, sha256: Digest, place: Box<dyn RemoteObject>) -> Self {
        Self {
            name,
            at,
            size: 0,
            sha256,
            done: "sent",
            media_type: String::new(),
            body: ObjectBody::Made(Bytes::new()),
            place,
        }
    }
}

/// Settings to reach a destination.
pub struct PublisherSettings {
    /// Host configuration for registry credentials.
    pub places: RegistryConfig,
    /// Region of AWS or a compatible service; `None`: us-east-1.
    pub region: Option<String>,
    /// Endpoint of an S3-compatible service other than AWS.
    pub endpoint: Option<String>,
    /// Endpoint of an EC2-compatible service other than AWS.
    pub compute: Option<String>,
    pub azure: AzureSettings,
    /// Regions that get a copy of the AMI or of the gallery's version.
    pub copies: Vec<String>,
    /// Accounts that may start the AMI.
    pub accounts: Vec<String>,
    /// Endpoint of Cloud Storage, if not storage.googleapis.com.
    pub storage: Option<String>,
    /// For OpenStack.
    pub cloud: Option<OpenStackCloud>,
    /// Properties of an image in OpenStack by name.
    pub properties: BTreeMap<String, String>,
    /// For a vCenter.
    pub vcenter: Option<server::ServerLogin>,
    /// Template to make from an item of a content library.
    pub template: Option<TemplatePlace>,
    /// For a server or a registry.
    pub login: Option<server::ServerLogin>,
    pub options: FetchOptions,
}

pub use server::ServerLogin;

/// A destination, for one run.
pub struct Publisher {
    target: Box<dyn TargetHandle>,
    runtime: Runtime,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
}

impl Publisher {
    /// Sends no request yet.
    pub fn open(
        destination: &Destination,
        settings: PublisherSettings,
        sink: &Arc<dyn Sink>,
        cancel: &Cancel,
    ) -> Result<Self> {
        Ok(Self {
            target: open_target(destination, settings)?,
            runtime: fetch::build_runtime("publish")?,
            sink: Arc::clone(sink),
            cancel: cancel.clone(),
        })
    }

    /// Lists the objects of an image at this destination.
    pub fn list_objects(&self, image: &PublishImage) -> Result<Vec<PublishObject>> {
        self.run(self.target.list_objects(image, &self.watch("")))
    }

    pub fn check_status(&self, object: &PublishObject) -> Result<ObjectStatus> {
        self.run(object.place.check_status(object, &self.watch(&object.name)))
    }

    pub fn send(&self, object: &PublishObject) -> Result<PublishedObject> {
        self.run(object.place.send(object, &self.watch(&object.name)))
    }

    /// Closes the sessions of this run at the destination.
    pub fn close(self) {
        self.runtime.block_on(self.target.close());
    }

    fn watch(&self, what: &str) -> ProgressWatch {
        ProgressWatch::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }

    /// Runs one task until it ends or the run is cancelled.
    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = fetch::wait_until_cancelled(&self.cancel) => Err(Error::cancelled()),
                ended = work => ended,
            }
        });
        // Errors of the shared HTTP code count as publishing errors here.
        ended.map_err(|error| match error.kind() {
            Kind::Fetch => error.with_kind(Kind::Publish),
            _ => error,
        })
    }
}

fn open_target(
    destination: &Destination,
    settings: PublisherSettings,
) -> Result<Box<dyn TargetHandle>> {
    Ok(match destination {
        Destination::Bucket(place) => Box::new(Arc::new(S3Bucket::new(place, &settings)?)),
        Destination::Ami(place) => Box::new(Arc::new(ami::AmiRegions::new(place, &settings)?)),
        Destination::Blobs(place) => Box::new(Arc::new(azure::BlobFolder::new(place, &settings)?)),
        Destination::Azure(place) => Box::new(Arc::new(azure::AzureImages::new(place, &settings)?)),
        Destination::Gcs(place) => Box::new(Arc::new(gcs::GcsFolder::new(place, &settings)?)),
        Destination::Glance(place) => {
            Box::new(Arc::new(glance::GlanceProject::new(place, settings)?))
        }
        Destination::Vsphere(place) => {
            Box::new(Arc::new(vsphere::VcenterLibrary::new(place, settings)?))
        }
        Destination::Server(url) => Box::new(Arc::new(FileServer::new(url, settings)?)),
        Destination::Artifact(tag) => {
            Box::new(Arc::new(RegistryRepository::new(tag, false, settings)?))
        }
        Destination::ContainerDisk(tag) => {
            Box::new(Arc::new(RegistryRepository::new(tag, true, settings)?))
        }
    })
}

/// Builds the client for an address, which uses http only on this machine.
fn build_client(address: &Url, options: &FetchOptions) -> HttpClient {
    let client = HttpClient::new(&options.proxies, options.patience);
    match address.scheme() {
        // A proxy would see the password, and localhost is another machine there.
        "http" => client.skip_proxies(),
        _ => client,
    }
}

/// Runs the work and retries transient failures.
async fn with_retries<T>(
    options: &FetchOptions,
    watch: &ProgressWatch,
    mut work: impl AsyncFnMut() -> Result<T, FetchFailure>,
) -> Result<T> {
    let mut tries = RetryCounter::default();
    loop {
        match work().await {
            Ok(done) => return Ok(done),
            Err(failure) => tries.wait(failure, 0, options, watch).await?,
        }
    }
}

/// Sends a request, and once more with a new token if the stored one has expired.
async fn retry_with_token(
    ask: impl AsyncFn() -> Result<HttpAnswer, FetchFailure>,
    forget: impl AsyncFnOnce(),
) -> Result<HttpAnswer, FetchFailure> {
    let answer = ask().await?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return Ok(answer);
    }
    forget().await;
    ask().await
}

/// Checks that the bytes read from the file `name` match the manifest's digest.
fn check_unchanged(name: &str, expected: &Digest, read: &Digest) -> Result<()> {
    if read == expected {
        return Ok(());
    }
    let fact = format!("{name} changed while it was being sent");
    Err(Error::new(Kind::Publish, fact)
        .expected(expected)
        .found(read))
}

/// Lists every file of the image as an object in a folder; the manifest comes last.
fn list_files<T: PublishTarget<Slot: Default>>(
    target: &Arc<T>,
    image: &PublishImage,
    at: impl Fn(&str) -> Result<String>,
) -> Result<Vec<PublishObject>> {
    let objects = image.files.iter().map(|file| {
        Ok(PublishObject {
            name: file.name.clone(),
            at: at(&file.name)?,
            size: file.size,
            sha256: file.sha256.clone(),
            done: "sent",
            media_type: file.media_type.to_owned(),
            body: ObjectBody::from_file(&file.path),
            place: target.bind_slot(T::Slot::default()),
        })
    });
    objects.collect()
}
