//! The computer as the stand-in's Setup and its installed system see it, on a Linux kernel: devices, volumes, screen.
//!
//! Only effects live here; what to do with them is decided elsewhere.

pub mod devices;
pub mod drivers;
pub mod drives;
pub mod firmware;
pub mod keys;
pub mod label;
pub mod network;
pub mod screen;
pub mod sys;

use std::path::Path;

/// What started the computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    Bios,
    Uefi,
}

impl Firmware {
    pub fn running() -> Firmware {
        if Path::new("/sys/firmware/efi").exists() {
            Firmware::Uefi
        } else {
            Firmware::Bios
        }
    }
}

/// A virtual machine of Hyper-V, by what its firmware says of itself (Microsoft: Win32_ComputerSystem of a virtual machine).
pub fn on_hyper_v() -> bool {
    let says = |name: &str, what: &str| {
        std::fs::read_to_string(Path::new("/sys/class/dmi/id").join(name))
            .is_ok_and(|text| text.trim() == what)
    };
    says("sys_vendor", "Microsoft Corporation") && says("product_name", "Virtual Machine")
}

/// The kernel command line holds `word`.
pub fn asked(word: &str) -> bool {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    line.split_whitespace().any(|held| held == word)
}

/// A line for the developer, on the first serial port. Off unless the medium was built with `--debug`: real Windows
/// writes nothing there.
pub fn debug(line: &str) {
    if asked("standin.debug") {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let uptime = uptime.split(' ').next().unwrap_or_default();
        let _ = std::fs::write("/dev/ttyS0", format!("[standin {uptime}] {line}\r\n"));
    }
}
