//! An image in a vCenter: an item of a content library.
//!
//! What is there is known by a mark in the item's description and by its files. The session is ended with the run. Makes no machine and
//! no template, and refuses to speak over http to another machine than this one.

mod answers;
mod item;
mod mark;
mod members;
mod place;
mod session;
mod update;

use std::time::Duration;

use bytes::Bytes;

pub use item::Item;
pub use place::LibraryPlace;

use super::{Arrived, Image, Object, Role, Settings, Slot, Standing};
use crate::store::Watch;
use members::members;
use session::Session;
use winimg_base::error::{Error, Kind, Result};

/// The end of a session is not waited for longer.
const LEAVING: Duration = Duration::from_secs(5);

pub struct Door {
    session: Session,
    place: LibraryPlace,
}

impl Door {
    pub fn new(place: &LibraryPlace, settings: Settings) -> Result<Self> {
        Ok(Self {
            session: Session::new(&place.vcenter, settings.vcenter, &settings.options)?,
            place: place.clone(),
        })
    }

    /// Asks for the library first: without it there is nothing to compare with.
    pub async fn objects(&self, image: &Image, watch: &Watch) -> Result<Vec<Object>> {
        let file = image.files.iter().find(|file| file.role == Role::Ova);
        let file = file.ok_or_else(|| Error::new(Kind::Publish, "the image has no OVA"))?;
        let members = members(&file.path)?;
        let library = &self.place.library;
        let library = item::library(&self.session, library, watch).await?;
        let name = self.place.item.as_ref().unwrap_or(&image.name).clone();
        let at = LibraryPlace {
            item: Some(name.clone()),
            ..self.place.clone()
        };
        Ok(vec![Object {
            name: format!("item {name}"),
            at: at.to_string(),
            size: file.size,
            sha256: file.sha256.clone(),
            media_type: String::new(),
            body: super::Body::Made(Bytes::new()),
            slot: Slot::Item(Box::new(Item {
                library,
                name,
                build: image.version.clone(),
                path: file.path.clone(),
                sha256: file.sha256.clone(),
                members,
            })),
        }])
    }

    pub async fn standing(&self, object: &Object, watch: &Watch) -> Result<Standing> {
        item(object)?.standing(&self.session, watch).await
    }

    pub async fn send(&self, object: &Object, watch: &Watch) -> Result<Arrived> {
        let (id, known) = item(object)?.send(&self.session, watch).await?;
        Ok(Arrived {
            known,
            id: Some(id),
        })
    }

    /// Ends the session with vCenter.
    pub async fn leave(&self) {
        if tokio::time::timeout(LEAVING, self.session.log_out())
            .await
            .is_err()
        {
            tracing::debug!("vCenter does not answer; the session runs out");
        }
    }
}

fn item(object: &Object) -> Result<&Item> {
    match &object.slot {
        Slot::Item(item) => Ok(item),
        _ => Err(Error::failed("this object is none of a vCenter")),
    }
}
