//! Publishes an image to a vCenter: an item of a content library, and optionally a template made
//! from it.
//!
//! Items are recognized by a mark in their description and by their files. The session ends with
//! the run. Leaves no machine behind, and refuses http, except to this machine.

mod answers;
mod item;
mod mark;
mod ova_content;
mod place;
mod session;
mod template;
mod template_place;
mod update;

use std::sync::Arc;
use std::time::Duration;

pub use place::{FLAGS, LibraryPlace};

use super::{
    AcceptedOutputs, ObjectStatus, PublishFile, PublishHost, PublishImage, PublishObject,
    PublishedObject, RemoteObject,
};
use crate::store::ProgressWatch;
use item::LibraryItem;
use ova_content::package;
use session::VcenterSession;
use template::VcenterTemplate;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::OutputFormat;

pub const OUTPUTS: AcceptedOutputs = AcceptedOutputs::Alone {
    output: OutputFormat::Ova,
    refusal: "a content library accepts only the OVA",
};

/// Time limit to end a session.
const LEAVING: Duration = Duration::from_secs(5);

pub struct VcenterLibrary {
    session: VcenterSession,
    place: LibraryPlace,
}

/// Kind of an object in the library.
pub enum LibraryObject {
    Item(LibraryItem),
    Template(VcenterTemplate),
}

impl VcenterLibrary {
    pub fn new(place: &LibraryPlace, host: &PublishHost) -> Result<Self> {
        Ok(Self {
            session: VcenterSession::new(&place.vcenter, host)?,
            place: place.clone(),
        })
    }

    /// Formats the address of an item.
    fn at(&self, name: &str) -> String {
        let place = LibraryPlace {
            item: Some(name.to_owned()),
            ..self.place.clone()
        };
        place.to_string()
    }

    fn object(
        self: &Arc<Self>,
        what: &str,
        name: &str,
        file: &PublishFile,
        slot: LibraryObject,
    ) -> PublishObject {
        PublishObject {
            size: file.size,
            ..PublishObject::from_remote(
                format!("{what} {name}"),
                self.at(name),
                file.sha256.clone(),
                RemoteObject::Library(Arc::clone(self), slot),
            )
        }
    }

    /// Resolves the library and the template's location first, since the comparison needs them.
    pub async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        let file = image
            .files
            .iter()
            .find(|file| file.is_output(OutputFormat::Ova));
        let file = file.ok_or_else(|| Error::new(Kind::Publish, "the image has no OVA"))?;
        let package = package(&file.path)?;
        let name = self.place.item.as_ref().unwrap_or(&image.name).clone();
        if let Some(place) = &self.place.template {
            template::refuse_name(place, &name)?;
        }
        let library = &self.place.library;
        let library = item::library(&self.session, library, watch).await?;
        let item = LibraryItem {
            library,
            name,
            build: image.version.clone(),
            path: file.path.clone(),
            sha256: file.sha256.clone(),
            members: package.members,
        };
        let made = match &self.place.template {
            None => None,
            Some(place) => {
                let of = (&item, package.networks.as_slice());
                Some(VcenterTemplate::placed(&self.session, place, of, watch).await?)
            }
        };
        let name = item.name.clone();
        let mut objects = vec![self.object("item", &name, file, LibraryObject::Item(item))];
        if let Some(template) = made {
            let name = template.name.clone();
            objects.push(PublishObject {
                done: "made",
                ..self.object("template", &name, file, LibraryObject::Template(template))
            });
        }
        Ok(objects)
    }

    pub async fn check_status(
        &self,
        slot: &LibraryObject,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        match slot {
            LibraryObject::Item(item) => item.standing(&self.session, watch).await,
            LibraryObject::Template(template) => template.check_status(&self.session, watch).await,
        }
    }

    pub async fn send(
        &self,
        slot: &LibraryObject,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        match slot {
            LibraryObject::Item(item) => {
                let (id, known) = item.send(&self.session, watch).await?;
                Ok(PublishedObject {
                    known,
                    id: Some(id),
                })
            }
            LibraryObject::Template(template) => template.send(&self.session, watch).await,
        }
    }

    /// Ends the session with vCenter.
    pub async fn close(&self) {
        if tokio::time::timeout(LEAVING, self.session.log_out())
            .await
            .is_err()
        {
            tracing::debug!("vCenter does not answer; the session will expire");
        }
    }
}
