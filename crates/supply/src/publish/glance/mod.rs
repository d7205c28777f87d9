//! Publishes an image to OpenStack's Glance, with properties for Nova.
//!
//! The image stays hidden until it is complete and Glance's digest matches. Images are recognized
//! by a property with the digest of the file; an interrupted upload is continued. A replaced image
//! is hidden and not deleted: machines may use it. (OpenStack: Image API v2; image lifecycle and
//! os_hidden)

mod answers;
mod cloud;
mod clouds_file;
mod image;
mod place;
mod session;
mod setting_names;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub use cloud::OpenStackCloud;
pub use image::GlanceImage;
pub use place::GlancePlace;

use super::{
    FileRole, ObjectStatus, PublishImage, PublishObject, PublishTarget, PublishedObject,
    PublisherSettings,
};
use crate::store::ProgressWatch;
use session::GlanceSession;
use winimg_base::error::{Error, Kind, Result};

pub struct GlanceProject {
    session: GlanceSession,
    place: GlancePlace,
    properties: BTreeMap<String, String>,
}

impl GlanceProject {
    pub fn new(place: &GlancePlace, settings: PublisherSettings) -> Result<Self> {
        let Some(cloud) = settings.cloud else {
            return Err(Error::failed("no OpenStack cloud is configured"));
        };
        Ok(Self {
            session: GlanceSession::new(cloud, &settings.options),
            place: place.clone(),
            properties: settings.properties,
        })
    }
}

impl PublishTarget for GlanceProject {
    type Slot = GlanceImage;

    async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        _: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        let disk = image.files.iter().find_map(|file| match file.role {
            FileRole::Disk(format) => Some((file, format)),
            _ => None,
        });
        let Some((file, format)) = disk else {
            return Err(Error::new(
                Kind::Publish,
                "the image has no disk in a format that Glance accepts",
            ));
        };
        let name = self.place.name.as_ref().unwrap_or(&image.name).clone();
        let at = GlancePlace {
            name: Some(name.clone()),
        };
        let slot = GlanceImage {
            name: name.clone(),
            format,
            path: file.path.clone(),
            properties: self.properties.clone(),
            previous_ids: Mutex::default(),
        };
        let sha256 = file.sha256.clone();
        Ok(vec![PublishObject {
            size: file.size,
            ..PublishObject::from_remote(
                format!("image {name}"),
                at.to_string(),
                sha256,
                self.bind_slot(slot),
            )
        }])
    }

    async fn check_status(
        &self,
        object: &PublishObject,
        slot: &GlanceImage,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        slot.check_status(&self.session, object, watch).await
    }

    async fn send(
        &self,
        object: &PublishObject,
        slot: &GlanceImage,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        slot.send(&self.session, object, watch).await
    }
}
