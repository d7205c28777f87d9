//! An image in a vCenter: an item of a content library, and a template made of it where one is wanted.
//!
//! What is there is known by a mark in the item's description and by its files. The session is ended with the run. Leaves no machine,
//! and refuses to speak over http to another machine than this one.

mod answers;
mod item;
mod mark;
mod members;
mod place;
mod session;
mod template;
mod update;

use std::sync::Arc;
use std::time::Duration;

pub use item::Item;
pub use place::LibraryPlace;
pub use template::{Template, TemplatePlace};

use super::{Arrived, Image, Object, Role, Settings, Standing, Target};
use crate::store::Watch;
use members::package;
use session::Session;
use winimg_base::error::{Error, Kind, Result};

/// The end of a session is not waited for longer.
const LEAVING: Duration = Duration::from_secs(5);

pub struct Library {
    session: Session,
    place: LibraryPlace,
    template: Option<TemplatePlace>,
}

/// What an object is in the library.
pub enum Slot {
    Item(Item),
    Template(Template),
}

impl Library {
    pub fn new(place: &LibraryPlace, settings: Settings) -> Result<Self> {
        Ok(Self {
            session: Session::new(&place.vcenter, settings.vcenter, &settings.options)?,
            place: place.clone(),
            template: settings.template,
        })
    }

    /// The address of an item.
    fn at(&self, name: &str) -> String {
        let place = LibraryPlace {
            item: Some(name.to_owned()),
            ..self.place.clone()
        };
        place.to_string()
    }
}

impl Target for Library {
    type Slot = Slot;

    /// Asks for the library and the template's place first: without them there is nothing to compare with.
    async fn objects(self: &Arc<Self>, image: &Image, watch: &Watch) -> Result<Vec<Object>> {
        let file = image.files.iter().find(|file| file.role == Role::Ova);
        let file = file.ok_or_else(|| Error::new(Kind::Publish, "the image has no OVA"))?;
        let package = package(&file.path)?;
        let name = self.place.item.as_ref().unwrap_or(&image.name).clone();
        if let Some(place) = &self.template {
            template::refuse_name(place, &name)?;
        }
        let library = &self.place.library;
        let library = item::library(&self.session, library, watch).await?;
        let item = Item {
            library,
            name,
            build: image.version.clone(),
            path: file.path.clone(),
            sha256: file.sha256.clone(),
            members: package.members,
        };
        let made = match &self.template {
            None => None,
            Some(place) => {
                let of = (&item, package.networks.as_slice());
                Some(Template::placed(&self.session, place, of, watch).await?)
            }
        };
        let object = |what: &str, name: &str, slot: Slot| Object {
            size: file.size,
            ..Object::made(
                format!("{what} {name}"),
                self.at(name),
                file.sha256.clone(),
                self.slot(slot),
            )
        };
        let name = item.name.clone();
        let mut objects = vec![object("item", &name, Slot::Item(item))];
        if let Some(template) = made {
            let name = template.name.clone();
            objects.push(Object {
                done: "made",
                ..object("template", &name, Slot::Template(template))
            });
        }
        Ok(objects)
    }

    async fn standing(&self, _: &Object, slot: &Slot, watch: &Watch) -> Result<Standing> {
        match slot {
            Slot::Item(item) => item.standing(&self.session, watch).await,
            Slot::Template(template) => template.standing(&self.session, watch).await,
        }
    }

    async fn send(&self, _: &Object, slot: &Slot, watch: &Watch) -> Result<Arrived> {
        match slot {
            Slot::Item(item) => {
                let (id, known) = item.send(&self.session, watch).await?;
                Ok(Arrived {
                    known,
                    id: Some(id),
                })
            }
            Slot::Template(template) => template.send(&self.session, watch).await,
        }
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
