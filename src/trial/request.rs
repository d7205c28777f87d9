//! The request for a trial, with facts about the image and this host.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use winimg_base::event::{Cancel, Sink};
use winimg_formats::disk::Disk;
use winimg_machine::vm::{Accel, Hypervisor, HypervisorProbe};
use winimg_recipe::Firmware;
use winimg_recipe::target::TargetSpec;

use super::hardware::{MachineExtras, TrialHardware};
use super::result::TrialNetwork;
use super::user_data::UserData;
use crate::engine::ScratchDirs;
use crate::record::BuildManifest;

/// The image to try, the target and the parameters.
pub struct TrialRequest<'a> {
    /// The image's file. Never written.
    pub image: &'a Path,
    /// The image's disk.
    pub disk: &'a Arc<dyn Disk>,
    /// The firmware that boots it.
    pub firmware: Firmware,
    /// The host's capabilities for that firmware.
    pub probe: &'a HypervisorProbe,
    pub target: &'a TargetSpec,
    pub manifest: Option<&'a BuildManifest>,
    /// The user's data for each clone, instead of winimg's own.
    pub user_data: Option<&'a UserData>,
    pub network: TrialNetwork,
    /// The folder for results and screens.
    pub folder: &'a Path,
    pub scratch: &'a ScratchDirs,
    pub hypervisor: &'a dyn Hypervisor,
    pub accel: Accel,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// Time without activity until a clone counts as settled.
    pub quiet: Duration,
    /// Timeout of each boot, with hardware acceleration.
    pub timeout: Duration,
    pub sink: &'a Arc<dyn Sink>,
    pub cancel: &'a Cancel,
}

impl TrialRequest<'_> {
    /// Returns the extras of the build VM, or none without a manifest.
    pub fn built_on(&self) -> MachineExtras {
        let machine = self.manifest.and_then(|m| m.machine.as_ref());
        machine.map_or_else(MachineExtras::default, |machine| MachineExtras {
            secure_boot: machine.secure_boot,
            tpm: machine.tpm,
        })
    }
}

/// A request with the hardware derived from it.
pub struct PreparedTrial<'a> {
    pub request: &'a TrialRequest<'a>,
    pub hardware: TrialHardware,
}
