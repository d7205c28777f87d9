//! What a trial is asked for, and what follows from the image and from this host.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use winimg_base::event::{Cancel, Sink};
use winimg_formats::disk::Disk;
use winimg_machine::vm::{Accel, Hypervisor, Probe};
use winimg_recipe::recipe::Firmware;
use winimg_recipe::recipe::target::Target;

use super::hardware::{Extras, Hardware};
use super::result::Network;
use super::user_data::UserData;
use crate::engine::Scratch;
use crate::record::Manifest;

/// What is tried, as what, and where.
pub struct Request<'a> {
    /// The image's file. Never written.
    pub image: &'a Path,
    /// What is in it.
    pub disk: &'a Arc<dyn Disk>,
    /// What it starts from.
    pub firmware: Firmware,
    /// What this host does for machines with that firmware.
    pub probe: &'a Probe,
    pub target: &'a Target,
    pub manifest: Option<&'a Manifest>,
    /// Of a person, for each clone, in place of winimg's own.
    pub user_data: Option<&'a UserData>,
    pub network: Network,
    /// For results and screens.
    pub folder: &'a Path,
    pub scratch: &'a Scratch,
    pub hypervisor: &'a dyn Hypervisor,
    pub accel: Accel,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// How long nothing may move until a clone counts as settled.
    pub quiet: Duration,
    /// For each boot, with hardware acceleration.
    pub timeout: Duration,
    pub sink: &'a Arc<dyn Sink>,
    pub cancel: &'a Cancel,
}

impl Request<'_> {
    /// Without a manifest nothing is known of it.
    pub fn built_on(&self) -> Extras {
        let machine = self.manifest.and_then(|m| m.machine.as_ref());
        machine.map_or_else(Extras::default, |machine| Extras {
            secure_boot: machine.secure_boot,
            tpm: machine.tpm,
        })
    }
}

/// A request with what follows from it.
pub struct Prepared<'a> {
    pub request: &'a Request<'a>,
    pub hardware: Hardware,
}
