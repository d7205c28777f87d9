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

use std::sync::Arc;
use std::time::Duration;

pub use item::Item;
pub use place::LibraryPlace;

use super::{Arrived, Image, Object, Role, Settings, Standing, Target};
use crate::store::Watch;
use members::members;
use session::Session;
use winimg_base::error::{Error, Kind, Result};

/// The end of a session is not waited for longer.
const LEAVING: Duration = Duration::from_secs(5);

pub struct Library {
    session: Session,
    place: LibraryPlace,
}

impl Library {
    pub fn new(place: &LibraryPlace, settings: Settings) -> Result<Self> {
        Ok(Self {
            session: Session::new(&place.vcenter, settings.vcenter, &settings.options)?,
            place: place.clone(),
        })
    }
}

impl Target for Library {
    type Slot = Item;

    /// Asks for the library first: without it there is nothing to compare with.
    async fn objects(self: &Arc<Self>, image: &Image, watch: &Watch) -> Result<Vec<Object>> {
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
        let item = Item {
            library,
            name: name.clone(),
            build: image.version.clone(),
            path: file.path.clone(),
            sha256: file.sha256.clone(),
            members,
        };
        let name = format!("item {name}");
        let sha256 = file.sha256.clone();
        Ok(vec![Object {
            size: file.size,
            ..Object::made(name, at.to_string(), sha256, self.slot(item))
        }])
    }

    async fn standing(&self, _: &Object, item: &Item, watch: &Watch) -> Result<Standing> {
        item.standing(&self.session, watch).await
    }

    async fn send(&self, _: &Object, item: &Item, watch: &Watch) -> Result<Arrived> {
        let (id, known) = item.send(&self.session, watch).await?;
        Ok(Arrived {
            known,
            id: Some(id),
        })
    }

    /// Ends the session with vCenter.
    async fn leave(&self) {
        if tokio::time::timeout(LEAVING, self.session.log_out())
            .await
            .is_err()
        {
            tracing::debug!("vCenter does not answer; the session runs out");
        }
    }
}
