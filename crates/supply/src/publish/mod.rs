//! How a finished image gets to where a platform takes it: a bucket, an AMI, Azure, a vCenter, a server, a registry.
//!
//! One file after the other, each asked for first: what is there already is not sent again, what is another file is not replaced
//! unless that was asked for. A try that breaks off is made again. Refuses nothing of an image: whether its files are what the build
//! wrote is judged before.

mod ami;
mod asks;
mod azure;
mod body;
mod bucket;
mod container_disk;
mod destination;
mod documents;
mod folder;
mod gcs;
mod glance;
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

pub use ami::Import;
pub use azure::{AccountLogin, AzureSettings, Version};
pub use destination::{AmiPlace, BucketPlace, Destination, Tag};
pub use gcs::GcsPlace;
pub use glance::{Cloud, GlancePlace};
pub use vsphere::{LibraryPlace, TemplatePlace};

use crate::fetch::client::{Answer, Client};
use crate::fetch::failure::Failure;
use crate::fetch::registry::Places;
use crate::fetch::retry::Tries;
use crate::fetch::{self, FetchOptions};
use crate::store::Watch;
use body::Body;
use bucket::Bucket;
use repository::Repository;
use server::Server;
use target::{Open, Place, Target};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::recipe::Firmware;

/// A finished image, as its manifest lists it.
pub struct Image {
    /// The recipe's name.
    pub name: String,
    /// Of Windows.
    pub version: String,
    /// RFC 3339.
    pub created: String,
    /// Of the machine; `None`: the manifest does not say.
    pub firmware: Option<Firmware>,
    pub files: Vec<File>,
}

/// One file of an image, or of its records.
pub struct File {
    pub name: String,
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
    pub media_type: &'static str,
    pub role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Artifact,
    /// A containerDisk: an OCI layout in a tar.
    ContainerDisk,
    /// A disk that AWS imports, with the export's request for it.
    Imported(Box<Import>),
    Ova,
    /// A disk in a format that clouds take as it is.
    Disk(DiskFormat),
    /// What says of the image what it is.
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
    /// As OpenStack calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
            Self::Vhd => "vhd",
        }
    }
}

/// What lies at the destination when all is done, in the order in which it is sent: the last one says that all is there.
pub struct Object {
    /// As people know it.
    pub name: String,
    /// Where it will be.
    pub at: String,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
    /// What is done about it: "to be …".
    pub done: &'static str,
    media_type: String,
    body: Body,
    place: Box<dyn Place>,
}

/// What is at the place of an object now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Absent,
    /// The object itself, with the platform's name of it.
    Same(Option<String>),
    /// Something else, in a few words.
    Other(String),
    /// Something of this size in bytes, whose digest nobody names.
    Unknown {
        size: Option<u64>,
    },
}

/// What is known of an object at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The far end computed its digest, and it is ours.
    Digest,
    /// Its size.
    Size,
}

/// An object that is at the far end now.
pub struct Arrived {
    pub known: Known,
    /// The platform's name of it, such as `ami-0abc`.
    pub id: Option<String>,
}

impl From<Known> for Arrived {
    fn from(known: Known) -> Self {
        Self { known, id: None }
    }
}

impl Object {
    /// What the destination itself makes, of no bytes that are sent for it.
    fn made(name: String, at: String, sha256: Digest, place: Box<dyn Place>) -> Self {
        Self {
            name,
            at,
            size: 0,
            sha256,
            done: "sent",
            media_type: String::new(),
            body: Body::Made(Bytes::new()),
            place,
        }
    }
}

/// What a destination is reached with.
pub struct Settings {
    /// What of a registry's credentials the host's configuration names.
    pub places: Places,
    /// Of AWS or of what speaks its protocol; `None`: us-east-1.
    pub region: Option<String>,
    /// Of what speaks S3's protocol and is not AWS.
    pub endpoint: Option<String>,
    /// Of what speaks EC2's protocol and is not AWS.
    pub compute: Option<String>,
    pub azure: AzureSettings,
    /// Regions that get a copy of the AMI or of the gallery's version.
    pub copies: Vec<String>,
    /// Accounts that may start the AMI.
    pub accounts: Vec<String>,
    /// Of Cloud Storage, where it is asked at another host than storage.googleapis.com.
    pub storage: Option<String>,
    /// For OpenStack.
    pub cloud: Option<Cloud>,
    /// Of an image in OpenStack, by their names.
    pub properties: BTreeMap<String, String>,
    /// For a vCenter.
    pub vcenter: Option<server::Login>,
    /// To be made of an item of a content library.
    pub template: Option<TemplatePlace>,
    /// For a server or a registry.
    pub login: Option<server::Login>,
    pub options: FetchOptions,
}

pub use server::Login;

/// A destination, for one run.
pub struct Publisher {
    target: Box<dyn Open>,
    runtime: Runtime,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
}

impl Publisher {
    /// Nothing is asked yet.
    pub fn open(
        destination: &Destination,
        settings: Settings,
        sink: &Arc<dyn Sink>,
        cancel: &Cancel,
    ) -> Result<Self> {
        Ok(Self {
            target: target(destination, settings)?,
            runtime: fetch::runtime("publish")?,
            sink: Arc::clone(sink),
            cancel: cancel.clone(),
        })
    }

    /// What the image is at this destination.
    pub fn objects(&self, image: &Image) -> Result<Vec<Object>> {
        self.run(self.target.objects(image, &self.watch("")))
    }

    pub fn standing(&self, object: &Object) -> Result<Standing> {
        self.run(object.place.standing(object, &self.watch(&object.name)))
    }

    pub fn send(&self, object: &Object) -> Result<Arrived> {
        self.run(object.place.send(object, &self.watch(&object.name)))
    }

    /// Ends what the destination holds open for this run.
    pub fn close(self) {
        self.runtime.block_on(self.target.leave());
    }

    fn watch(&self, what: &str) -> Watch {
        Watch::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }

    /// Runs one task to its end, or until the run is cancelled.
    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = fetch::cancelled(&self.cancel) => Err(Error::cancelled()),
                ended = work => ended,
            }
        });
        // What fetching calls its own is publishing here.
        ended.map_err(|error| match error.kind() {
            Kind::Fetch => error.of_kind(Kind::Publish),
            _ => error,
        })
    }
}

fn target(destination: &Destination, settings: Settings) -> Result<Box<dyn Open>> {
    Ok(match destination {
        Destination::Bucket(place) => Box::new(Arc::new(Bucket::new(place, &settings)?)),
        Destination::Ami(place) => Box::new(Arc::new(ami::Regions::new(place, &settings)?)),
        Destination::Blobs(place) => Box::new(Arc::new(azure::Blobs::new(place, &settings)?)),
        Destination::Azure(place) => Box::new(Arc::new(azure::Images::new(place, &settings)?)),
        Destination::Gcs(place) => Box::new(Arc::new(gcs::Folder::new(place, &settings)?)),
        Destination::Glance(place) => Box::new(Arc::new(glance::Project::new(place, settings)?)),
        Destination::Vsphere(place) => Box::new(Arc::new(vsphere::Library::new(place, settings)?)),
        Destination::Server(url) => Box::new(Arc::new(Server::new(url, settings)?)),
        Destination::Artifact(tag) => Box::new(Arc::new(Repository::new(tag, false, settings)?)),
        Destination::ContainerDisk(tag) => {
            Box::new(Arc::new(Repository::new(tag, true, settings)?))
        }
    })
}

/// For an address that is spoken to over http on this machine alone.
fn client(address: &Url, options: &FetchOptions) -> Client {
    let client = Client::new(&options.proxies, options.patience);
    match address.scheme() {
        // A proxy would read the password, and has another machine for localhost.
        "http" => client.direct(),
        _ => client,
    }
}

/// Does it again as long as its failures pass.
async fn patiently<T>(
    options: &FetchOptions,
    watch: &Watch,
    mut work: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T> {
    let mut tries = Tries::default();
    loop {
        match work().await {
            Ok(done) => return Ok(done),
            Err(failure) => tries.wait(failure, 0, options, watch).await?,
        }
    }
}

/// Asks, and once more behind a new token where the one that was held has run out.
async fn renewed(
    ask: impl AsyncFn() -> Result<Answer, Failure>,
    forget: impl AsyncFnOnce(),
) -> Result<Answer, Failure> {
    let answer = ask().await?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return Ok(answer);
    }
    forget().await;
    ask().await
}

/// What was read of the file `name` is what the manifest names.
fn unchanged(name: &str, expected: &Digest, read: &Digest) -> Result<()> {
    if read == expected {
        return Ok(());
    }
    let fact = format!("{name} was changed while it was sent");
    Err(Error::new(Kind::Publish, fact)
        .expected(expected)
        .found(read))
}

/// Every file of the image under a folder's address; the manifest is the last one.
fn files<T: Target<Slot: Default>>(
    target: &Arc<T>,
    image: &Image,
    at: impl Fn(&str) -> Result<String>,
) -> Result<Vec<Object>> {
    let objects = image.files.iter().map(|file| {
        Ok(Object {
            name: file.name.clone(),
            at: at(&file.name)?,
            size: file.size,
            sha256: file.sha256.clone(),
            done: "sent",
            media_type: file.media_type.to_owned(),
            body: Body::file(&file.path),
            place: target.slot(T::Slot::default()),
        })
    });
    objects.collect()
}
