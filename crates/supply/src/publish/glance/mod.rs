//! An image in OpenStack's Glance, with what Nova has to know of it as properties.
//!
//! It is hidden until all of it is there and Glance's digest of it is ours. What is there is known by a property with the digest of the
//! file; what a killed run left of it is gone on with. An image that is replaced is hidden and not deleted: machines may be of it.
//! (OpenStack: Image API v2; image lifecycle and os_hidden)

mod answers;
mod cloud;
mod clouds_file;
mod image;
mod names;
mod place;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub use cloud::Cloud;
pub use image::Slot;
pub use place::GlancePlace;

use super::{Arrived, Image, Object, Role, Settings, Standing, Target};
use crate::store::Watch;
use session::Session;
use winimg_base::error::{Error, Kind, Result};

pub struct Project {
    session: Session,
    place: GlancePlace,
    properties: BTreeMap<String, String>,
}

impl Project {
    pub fn new(place: &GlancePlace, settings: Settings) -> Result<Self> {
        let Some(cloud) = settings.cloud else {
            return Err(Error::failed("no cloud was read for Glance"));
        };
        Ok(Self {
            session: Session::new(cloud, &settings.options),
            place: place.clone(),
            properties: settings.properties,
        })
    }
}

impl Target for Project {
    type Slot = Slot;

    async fn objects(self: &Arc<Self>, image: &Image, _: &Watch) -> Result<Vec<Object>> {
        let disk = image.files.iter().find_map(|file| match file.role {
            Role::Disk(format) => Some((file, format)),
            _ => None,
        });
        let Some((file, format)) = disk else {
            return Err(Error::new(
                Kind::Publish,
                "the image has no disk that Glance takes",
            ));
        };
        let name = self.place.name.as_ref().unwrap_or(&image.name).clone();
        let at = GlancePlace {
            name: Some(name.clone()),
        };
        let slot = Slot {
            name: name.clone(),
            format,
            path: file.path.clone(),
            properties: self.properties.clone(),
            others: Mutex::default(),
        };
        let sha256 = file.sha256.clone();
        Ok(vec![Object {
            size: file.size,
            ..Object::made(
                format!("image {name}"),
                at.to_string(),
                sha256,
                self.slot(slot),
            )
        }])
    }

    async fn standing(&self, object: &Object, slot: &Slot, watch: &Watch) -> Result<Standing> {
        slot.standing(&self.session, object, watch).await
    }

    async fn send(&self, object: &Object, slot: &Slot, watch: &Watch) -> Result<Arrived> {
        slot.send(&self.session, object, watch).await
    }
}
