//! A destination, for one run of `winimg publish`.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Destination, ObjectStatus, PublishImage, PublishObject, PublishTarget, PublishedObject,
};
use crate::fetch::registry::RegistryConfig;
use crate::fetch::{FetchOptions, Proxies, Timeouts};
use crate::runtime;
use crate::store::ProgressWatch;
use winimg_base::error::{Kind, Result};
use winimg_base::event::{Cancel, Sink};

/// A part of 16 MiB is one request, answered once it is complete.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(30),
    answer: Duration::from_secs(300),
    stall: Duration::from_secs(60),
    slow: Duration::from_secs(600),
};

/// Settings of this host for every destination.
pub struct PublishHost {
    pub fetch: FetchOptions,
    /// Configuration for registry credentials.
    pub registries: RegistryConfig,
    pub sink: Arc<dyn Sink>,
}

impl PublishHost {
    pub fn new(proxies: Proxies, registries: RegistryConfig, sink: &Arc<dyn Sink>) -> Self {
        Self {
            fetch: FetchOptions {
                proxies,
                patience: TIMEOUTS,
                ..FetchOptions::default()
            },
            registries,
            sink: Arc::clone(sink),
        }
    }
}

pub struct Publisher {
    target: PublishTarget,
    cancel: Cancel,
    sink: Arc<dyn Sink>,
}

impl Publisher {
    /// Reads the destination's settings from the environment. Sends no request yet.
    pub fn open(destination: &Destination, host: PublishHost, cancel: &Cancel) -> Result<Self> {
        Ok(Self {
            target: destination.open(&host)?,
            cancel: cancel.clone(),
            sink: host.sink,
        })
    }

    /// Lists the objects of an image at this destination.
    pub fn list_objects(&self, image: &PublishImage) -> Result<Vec<PublishObject>> {
        self.run(self.target.list_objects(image, &self.watch("")))
    }

    pub fn check_status(&self, object: &PublishObject) -> Result<ObjectStatus> {
        let watch = self.watch(&object.name);
        self.run(object.remote.check_status(object, &watch))
    }

    pub fn send(&self, object: &PublishObject) -> Result<PublishedObject> {
        self.run(object.remote.send(object, &self.watch(&object.name)))
    }

    /// Closes the sessions of this run at the destination.
    pub fn close(self) {
        if let Err(error) = runtime::block_on(self.target.close()) {
            tracing::debug!("the sessions were not closed: {error}");
        }
    }

    fn watch(&self, what: &str) -> ProgressWatch {
        ProgressWatch::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }

    /// Runs one task until it ends or the run is cancelled. Errors of the shared HTTP code count as
    /// publishing errors here.
    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = runtime::run(&self.cancel, work).flatten();
        ended.map_err(|error| match error.kind() {
            Kind::Fetch => error.with_kind(Kind::Publish),
            _ => error,
        })
    }
}
