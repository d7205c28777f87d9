//! How a finished image gets to where a platform takes it: a bucket, an AMI, a vCenter, a server, a registry.
//!
//! One file after the other, each asked for first: what is there already is not sent again, what is another file is not replaced
//! unless that was asked for. A try that breaks off is made again. Refuses nothing of an image: whether its files are what the build
//! wrote is judged before.

mod ami;
mod body;
mod bucket;
mod container_disk;
mod destination;
mod documents;
mod repository;
mod server;
mod signing;
mod vsphere;
mod xml;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Runtime;

pub use ami::Import;
pub use destination::{AmiPlace, BucketPlace, Destination, Tag};
pub use vsphere::LibraryPlace;

use crate::fetch::failure::Failure;
use crate::fetch::registry::Places;
use crate::fetch::retry::Tries;
use crate::fetch::{self, FetchOptions};
use crate::store::Watch;
use body::Body;
use bucket::Bucket;
use repository::Repository;
use server::Server;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};

/// A finished image, as its manifest lists it.
pub struct Image {
    /// The recipe's name.
    pub name: String,
    /// Of Windows.
    pub version: String,
    /// RFC 3339.
    pub created: String,
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
    /// What says of the image what it is.
    Record,
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
    media_type: String,
    body: Body,
    slot: Slot,
}

/// What a registry has an object as; of the others all are files.
enum Slot {
    File,
    Blob,
    /// Under a tag or a digest.
    Manifest(String),
    /// The tag that lists what refers to a manifest, with what belongs into the list.
    Referrers(String),
    /// An AMI, or who may start it.
    Made(ami::Made),
    /// An item of a content library.
    Item(Box<vsphere::Item>),
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
    /// What is done about it: "to be …".
    pub fn done(&self) -> &'static str {
        match &self.slot {
            Slot::Made(made) => made.done(),
            _ => "sent",
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
    /// Regions that get a copy of the AMI.
    pub copies: Vec<String>,
    /// Accounts that may start the AMI.
    pub accounts: Vec<String>,
    /// For a vCenter.
    pub vcenter: Option<server::Login>,
    /// For a server or a registry.
    pub login: Option<server::Login>,
    pub options: FetchOptions,
}

pub use server::Login;

/// A destination, for one run.
pub struct Publisher {
    door: Door,
    runtime: Runtime,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
}

enum Door {
    Bucket(Bucket),
    Ami(ami::Door),
    Vsphere(Box<vsphere::Door>),
    Server(Server),
    Repository(Repository),
}

impl Publisher {
    /// Nothing is asked yet.
    pub fn open(
        destination: &Destination,
        settings: Settings,
        sink: &Arc<dyn Sink>,
        cancel: &Cancel,
    ) -> Result<Self> {
        let door = match destination {
            Destination::Bucket(place) => Door::Bucket(Bucket::new(place, &settings)?),
            Destination::Ami(place) => Door::Ami(ami::Door::new(place, &settings)?),
            Destination::Vsphere(place) => {
                Door::Vsphere(Box::new(vsphere::Door::new(place, settings)?))
            }
            Destination::Server(url) => Door::Server(Server::new(url, settings)?),
            Destination::Artifact(tag) => Door::Repository(Repository::new(tag, false, settings)?),
            Destination::ContainerDisk(tag) => {
                Door::Repository(Repository::new(tag, true, settings)?)
            }
        };
        Ok(Self {
            door,
            runtime: fetch::runtime("publish")?,
            sink: Arc::clone(sink),
            cancel: cancel.clone(),
        })
    }

    /// What the image is at this destination.
    pub fn objects(&self, image: &Image) -> Result<Vec<Object>> {
        self.run(async {
            match &self.door {
                Door::Bucket(bucket) => bucket.objects(image, &self.watch("")).await,
                Door::Ami(ami) => ami.objects(image, &self.watch("")).await,
                Door::Vsphere(vcenter) => vcenter.objects(image, &self.watch("")).await,
                Door::Server(server) => server.objects(image),
                Door::Repository(repository) => repository.objects(image, &self.watch("")).await,
            }
        })
    }

    pub fn standing(&self, object: &Object) -> Result<Standing> {
        let watch = self.watch(&object.name);
        self.run(async {
            match &self.door {
                Door::Bucket(bucket) => bucket.standing(object, &watch).await,
                Door::Ami(ami) => ami.standing(object, &watch).await,
                Door::Vsphere(vcenter) => vcenter.standing(object, &watch).await,
                Door::Server(server) => server.standing(object, &watch).await,
                Door::Repository(repository) => repository.standing(object, &watch).await,
            }
        })
    }

    pub fn send(&self, object: &Object) -> Result<Arrived> {
        let watch = self.watch(&object.name);
        self.run(async {
            match &self.door {
                Door::Bucket(bucket) => bucket.send(object, &watch).await.map(Arrived::from),
                Door::Ami(ami) => ami.send(object, &watch).await,
                Door::Vsphere(vcenter) => vcenter.send(object, &watch).await,
                Door::Server(server) => server.send(object, &watch).await.map(Arrived::from),
                Door::Repository(repository) => {
                    repository.send(object, &watch).await.map(Arrived::from)
                }
            }
        })
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

impl Drop for Publisher {
    fn drop(&mut self) {
        if let Door::Vsphere(vcenter) = &self.door {
            self.runtime.block_on(vcenter.leave());
        }
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

/// Every file of the image under a folder's address; the manifest is the last one.
fn files(image: &Image, at: impl Fn(&str) -> String) -> Vec<Object> {
    let objects = image.files.iter().map(|file| Object {
        name: file.name.clone(),
        at: at(&file.name),
        size: file.size,
        sha256: file.sha256.clone(),
        media_type: file.media_type.to_owned(),
        body: Body::file(&file.path),
        slot: Slot::File,
    });
    objects.collect()
}
