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

use std::sync::{Arc, Mutex};

pub use image::GlanceImage;
pub use place::{FLAGS, GlancePlace};

use super::{
    AcceptedOutputs, ObjectStatus, PublishHost, PublishImage, PublishObject, PublishedObject,
    RemoteObject,
};
use crate::store::ProgressWatch;
use cloud::OpenStackCloud;
use session::GlanceSession;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::OutputFormat;

/// Glance's names of the formats are the same.
const FORMATS: &[OutputFormat] = &[OutputFormat::Qcow2, OutputFormat::Raw];
pub const OUTPUTS: AcceptedOutputs = AcceptedOutputs::One(FORMATS);

pub struct GlanceProject {
    session: GlanceSession,
    place: GlancePlace,
}

impl GlanceProject {
    pub fn new(place: &GlancePlace, host: &PublishHost) -> Result<Self> {
        let cloud = OpenStackCloud::from_environment(&read_variable)?;
        if cloud.is_unheeded {
            host.sink.warn(
                "ignoring the certificate settings of clouds.yaml and OS_CACERT: \
                 certificates are verified against the system's roots or SSL_CERT_FILE",
            );
        }
        Ok(Self {
            session: GlanceSession::new(cloud, &host.fetch),
            place: place.clone(),
        })
    }

    pub fn list_objects(self: &Arc<Self>, image: &PublishImage) -> Result<Vec<PublishObject>> {
        let disk = image.files.iter().find_map(|file| {
            let format = FORMATS.iter().find(|format| file.is_output(**format))?;
            Some((file, *format))
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
            ..GlancePlace::default()
        };
        let mut properties = image.properties.clone();
        for (property, value) in &self.place.properties {
            match value.as_str() {
                "" => properties.remove(property),
                value => properties.insert(property.clone(), value.to_owned()),
            };
        }
        let slot = GlanceImage {
            name: name.clone(),
            format,
            path: file.path.clone(),
            properties,
            previous_ids: Mutex::default(),
        };
        let sha256 = file.sha256.clone();
        Ok(vec![PublishObject {
            size: file.size,
            ..PublishObject::from_remote(
                format!("image {name}"),
                at.to_string(),
                sha256,
                RemoteObject::Glance(Arc::clone(self), slot),
            )
        }])
    }

    pub async fn check_status(
        &self,
        object: &PublishObject,
        slot: &GlanceImage,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        slot.check_status(&self.session, object, watch).await
    }

    pub async fn send(
        &self,
        object: &PublishObject,
        slot: &GlanceImage,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        slot.send(&self.session, object, watch).await
    }
}
