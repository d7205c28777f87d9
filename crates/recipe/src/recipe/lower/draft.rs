//! What stands in a draft for a table with mistakes: values that planning says nothing about. A draft is planned for its
//! complaints alone, and never built.

use std::time::Duration;

use crate::recipe::{Address, DiskBus, Firmware, MachineSpec, Media, Origin, ProofSpec, SetupSpec};
use winimg_base::text::{Located, Place};

pub fn text(place: &Place) -> Located<String> {
    Located::new(String::new(), place.clone())
}

pub fn origin(place: &Place) -> Origin {
    let url = Address::Local("draft".into());
    Origin::new(Located::new(url, place.clone()), ProofSpec::Signed)
}

pub fn media(place: &Place) -> Media {
    Media {
        iso: origin(place),
        virtio: None,
        image: text(place),
        product_key: None,
        language: text(place),
        time_zone: text(place),
    }
}

pub fn machine() -> MachineSpec {
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
