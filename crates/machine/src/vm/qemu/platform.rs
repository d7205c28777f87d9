//! QEMU's row in the table of hypervisors.

use std::path::Path;

use super::doctor;
use crate::vm::Hypervisor;
use crate::vm::platform::{PlatformSpec, PlatformWording};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::error::Result;
use winimg_formats::disk::MachineDiskFormat;
use winimg_formats::iso::{self, BootMedium, CdImage};
use winimg_recipe::{Firmware, Recipe};

/// Driver of the guest agent's port, by the name of its folder in virtio-win.
const AGENTS_DRIVER: &str = "vioserial";

pub const PLATFORM: PlatformSpec = PlatformSpec {
    name: "qemu",
    title: "QEMU",
    disk_form: MachineDiskFormat::Qcow2,
    needs_virtio: true,
    kept_password: None,
    clone_refusal: None,
    open,
    inspect_host: doctor::inspect_host,
    find_refusals: |_| Vec::new(),
    find_missing_agent,
    find_lockouts: |_| Diagnostics::default(),
    prepare_medium,
    wording: PlatformWording {
        expected: "Windows to continue without input and its guest agent to answer",
        stuck_boot: "Windows does not start: \
                     it is stuck at a screen and its guest agent does not answer",
        stuck_steps: "Windows is stuck at a screen and its guest agent does not answer",
        restart_cause: Some(
            "the virtual processor lacks a feature that this Windows needs \
             (Server 2025: SSE4.2 and POPCNT)",
        ),
        no_contact: Some("the guest agent never answered"),
    },
};

#[cfg(unix)]
fn open(cache: &Path) -> Result<Box<dyn Hypervisor>> {
    let qemu = super::QemuHypervisor::find()?;
    Ok(Box::new(qemu.with_cache(cache)))
}

#[cfg(not(unix))]
fn open(_: &Path) -> Result<Box<dyn Hypervisor>> {
    use winimg_base::error::{Error, Kind};

    let fact = "winimg does not support QEMU on Windows hosts";
    Err(Error::new(Kind::Host, fact)
        .at("--hypervisor")
        .cure("omit --hypervisor to use Hyper-V, or build on Linux"))
}

fn prepare_medium(iso: &Path, firmware: Firmware, folder: &Path) -> Result<BootMedium> {
    match firmware {
        Firmware::Bios => Ok(BootMedium {
            disc: CdImage::raw(iso),
            remark: None,
        }),
        Firmware::Uefi => iso::overlay_without_prompt(iso, &folder.join("install.qcow2")),
    }
}

/// Reports why no guest agent would answer; there is no other channel. A custom answer file may
/// bring its own agent and driver.
fn find_missing_agent(recipe: &Recipe) -> Option<Diagnostic> {
    if recipe.setup.answer_file.is_some() {
        return None;
    }
    let Some(virtio) = &recipe.media.virtio else {
        let place = &recipe.media.iso.url.place;
        return Some(
            Diagnostic::error(
                "the QEMU machine would have no guest agent: \
                 winimg could not reach the installed Windows",
            )
            .at(place, "the recipe names no other medium")
            .help(
                "include packs/virtio.toml, or name the virtio-win ISO under `[media.virtio]`: \
                 it has the agent and its driver",
            )
            .help("or use Hyper-V, which needs no agent: --hypervisor hyperv"),
        );
    };
    let setup = &recipe.setup;
    let is_there = setup.own_drivers.is_some() || setup.drivers.iter().any(|d| d == AGENTS_DRIVER);
    (!is_there).then(|| {
        let said = recipe.effective.iter().find(|e| e.path == "setup.drivers");
        let said = said.map_or_else(String::new, |e| format!(": {}", e.origin));
        let fact = format!("`setup.drivers` omits {AGENTS_DRIVER}, which QEMU's guest agent needs");
        Diagnostic::error(fact)
            .at(&virtio.url.place, "this medium contains it")
            .help(format!(
                "add \"{AGENTS_DRIVER}\" to `drivers` under `[setup]`{said}"
            ))
    })
}
