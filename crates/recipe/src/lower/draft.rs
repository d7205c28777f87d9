//! Placeholders in a draft for tables with errors; planning does not complain about them. A draft
//! is planned only for its diagnostics, and never built.

use std::time::Duration;

use crate::{
    DiskBus, DownloadSpec, FileAddress, Firmware, MachineSpec, MediaSpec, ProofSpec, SetupSpec,
};
use winimg_base::text::{Located, Place};

pub fn make_text(place: &Place) -> Located<String> {
    Located::new(String::new(), place.clone())
}

pub fn make_origin(place: &Place) -> DownloadSpec {
    let url = FileAddress::Local("draft".into());
    DownloadSpec::new(Located::new(url, place.clone()), ProofSpec::Signed)
}

pub fn make_media(place: &Place) -> MediaSpec {
    MediaSpec {
        iso: make_origin(place),
        virtio: None,
        image: make_text(place),
        product_key: None,
        language: make_text(place),
        time_zone: make_text(place),
    }
}

pub fn make_machine() -> MachineSpec {
    MachineSpec {
        firmware: Firmware::Uefi,
        secure_boot: false,
        disk_bus: DiskBus::Nvme,
        disk_size: 0,
        cpus: 1,
        memory: 0,
        network: true,
        tpm: false,
    }
}

pub fn setup() -> SetupSpec {
    SetupSpec {
        answer_file: None,
        lint_is_advice: false,
        computer_name: String::new(),
        timeout: Duration::ZERO,
        still_limit: Duration::ZERO,
        settle_time: Duration::ZERO,
        drivers: Vec::new(),
        own_drivers: None,
    }
}
