//! What each destination does: one trait, behind which the destinations know nothing of each other.
//!
//! Each keeps what it has to know of an object in a type of its own, and each object carries the destination that made it.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::{Arrived, Image, Object, Standing};
use crate::store::Watch;
use winimg_base::error::Result;

/// A destination as its own file writes it.
pub trait Target: Sized + 'static {
    /// What it knows of an object beside what everybody knows.
    type Slot: 'static;

    /// What an image is here.
    async fn objects(self: &Arc<Self>, image: &Image, watch: &Watch) -> Result<Vec<Object>>;

    async fn standing(&self, object: &Object, slot: &Self::Slot, watch: &Watch)
    -> Result<Standing>;

    async fn send(&self, object: &Object, slot: &Self::Slot, watch: &Watch) -> Result<Arrived>;

    /// Nothing more is asked of it in this run.
    async fn leave(&self) {}

    /// This place of it, for an object.
    fn slot(self: &Arc<Self>, slot: Self::Slot) -> Box<dyn Place> {
        Box::new(Slotted {
            target: Arc::clone(self),
            slot,
        })
    }
}

/// A destination as its publisher holds it.
pub trait Open {
    fn objects<'a>(
        &'a self,
        image: &'a Image,
        watch: &'a Watch,
    ) -> LocalBoxFuture<'a, Result<Vec<Object>>>;

    fn leave(&self) -> LocalBoxFuture<'_, ()>;
}

/// The place of an object at its destination.
pub trait Place {
    fn standing<'a>(
        &'a self,
        object: &'a Object,
        watch: &'a Watch,
    ) -> LocalBoxFuture<'a, Result<Standing>>;

    fn send<'a>(
        &'a self,
        object: &'a Object,
        watch: &'a Watch,
    ) -> LocalBoxFuture<'a, Result<Arrived>>;
}

struct Slotted<T: Target> {
    target: Arc<T>,
    slot: T::Slot,
}

impl<T: Target> Open for Arc<T> {
    fn objects<'a>(
        &'a self,
        image: &'a Image,
        watch: &'a Watch,
    ) -> LocalBoxFuture<'a, Result<Vec<Object>>> {
        Target::objects(self, image, watch).boxed_local()
    }

    fn leave(&self) -> LocalBoxFuture<'_, ()> {
        Target::leave(self.as_ref()).boxed_local()
    }
}

impl<T: Target> Place for Slotted<T> {
    fn standing<'a>(
        &'a self,
        object: &'a Object,
        watch: &'a Watch,
    ) -> LocalBoxFuture<'a, Result<Standing>> {
        self.target
            .standing(object, &self.slot, watch)
            .boxed_local()
    }

    fn send<'a>(
        &'a self,
        object: &'a Object,
        watch: &'a Watch,
    ) -> LocalBoxFuture<'a, Result<Arrived>> {
        self.target.send(object, &self.slot, watch).boxed_local()
    }
}
