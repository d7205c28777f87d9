//! The trait of all destinations, which are independent of each other.
//!
//! Each destination keeps its own data of an object in a type of its own; each object has a
//! reference to the destination that made it.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::{ObjectStatus, PublishImage, PublishObject, PublishedObject};
use crate::store::ProgressWatch;
use winimg_base::error::Result;

/// A destination, implemented in its own module.
pub trait PublishTarget: Sized + 'static {
    /// The destination's own data of an object.
    type Slot: 'static;

    /// Lists the objects of an image.
    async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>>;

    async fn check_status(
        &self,
        object: &PublishObject,
        slot: &Self::Slot,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus>;

    async fn send(
        &self,
        object: &PublishObject,
        slot: &Self::Slot,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject>;

    /// Called when this run needs the destination no longer.
    async fn close(&self) {}

    /// Binds the destination's data of an object to the destination.
    fn bind_slot(self: &Arc<Self>, slot: Self::Slot) -> Box<dyn RemoteObject> {
        Box::new(TargetObject {
            target: Arc::clone(self),
            slot,
        })
    }
}

/// A destination behind a dynamic type, for the publisher.
pub trait TargetHandle {
    fn list_objects<'a>(
        &'a self,
        image: &'a PublishImage,
        watch: &'a ProgressWatch,
    ) -> LocalBoxFuture<'a, Result<Vec<PublishObject>>>;

    fn close(&self) -> LocalBoxFuture<'_, ()>;
}

/// An object at its destination.
pub trait RemoteObject {
    fn check_status<'a>(
        &'a self,
        object: &'a PublishObject,
        watch: &'a ProgressWatch,
    ) -> LocalBoxFuture<'a, Result<ObjectStatus>>;

    fn send<'a>(
        &'a self,
        object: &'a PublishObject,
        watch: &'a ProgressWatch,
    ) -> LocalBoxFuture<'a, Result<PublishedObject>>;
}

struct TargetObject<T: PublishTarget> {
    target: Arc<T>,
    slot: T::Slot,
}

impl<T: PublishTarget> TargetHandle for Arc<T> {
    fn list_objects<'a>(
        &'a self,
        image: &'a PublishImage,
        watch: &'a ProgressWatch,
    ) -> LocalBoxFuture<'a, Result<Vec<PublishObject>>> {
        PublishTarget::list_objects(self, image, watch).boxed_local()
    }

    fn close(&self) -> LocalBoxFuture<'_, ()> {
        PublishTarget::close(self.as_ref()).boxed_local()
    }
}

impl<T: PublishTarget> RemoteObject for TargetObject<T> {
    fn check_status<'a>(
        &'a self,
        object: &'a PublishObject,
        watch: &'a ProgressWatch,
    ) -> LocalBoxFuture<'a, Result<ObjectStatus>> {
        self.target
            .check_status(object, &self.slot, watch)
            .boxed_local()
    }

    fn send<'a>(
        &'a self,
        object: &'a PublishObject,
        watch: &'a ProgressWatch,
    ) -> LocalBoxFuture<'a, Result<PublishedObject>> {
        self.target.send(object, &self.slot, watch).boxed_local()
    }
}
