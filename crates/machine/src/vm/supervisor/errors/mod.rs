//! Builds the errors for failures seen while watching Windows Setup, a boot, provisioning steps or
//! a clone.
//!
//! Pure. Setup and its answer file are only mentioned while Windows is being installed; messages
//! about the guest's channel come from the hypervisor.

mod stuck_screen;

use std::time::Duration;

use super::disk_space;
use super::judge::MachineVerdict;
use crate::vm::HypervisorKind;
use crate::vm::observation::{MachineObservation, format_time};
use crate::vm::purpose::MachinePurpose;
use crate::vm::supervisor::driver::GuestTimeout;
use winimg_base::error::{Error, Kind};

/// Context of a message besides the observations.
#[derive(Clone, Copy, Debug)]
pub struct WatchContext {
    pub platform: HypervisorKind,
    /// Limit for the firmware.
    pub firmware: Duration,
    /// Number of resets because of a missed key prompt.
    pub retries: u32,
}

/// Returns the error for a verdict; `None` if there is none, or only the driver can build it.
pub fn explain_verdict(
    verdict: &MachineVerdict,
    observation: &MachineObservation,
    context: &WatchContext,
) -> Option<Error> {
    Some(match verdict {
        MachineVerdict::Fine | MachineVerdict::Stopped(_) | MachineVerdict::Gone(_) => return None,
        MachineVerdict::PoweredOff => powered_off(observation),
        MachineVerdict::RestartLoop { .. } => restart_loop(observation, context.platform),
        MachineVerdict::NoBootDevice if observation.purpose == MachinePurpose::Install => {
            disc_does_not_boot(observation, context.retries)
        }
        MachineVerdict::NoBootDevice => disk_does_not_boot(observation),
        MachineVerdict::FirmwareLate => firmware_late(observation, context.firmware),
        MachineVerdict::DiskFailed => {
            observation.attach_screen(disk_space::write_failed(&observation.disk_folder))
        }
        MachineVerdict::Stalled { .. } => stuck_screen::stands_still(observation, context.platform),
        MachineVerdict::Hangs { .. } => hang_error(observation),
    })
}

/// The install disc does not boot, or after a restart the disk does not.
fn disc_does_not_boot(observation: &MachineObservation, retries: u32) -> Error {
    if observation.refused {
        return secure_boot_error(observation);
    }
    let fact = match (observation.restarts, retries) {
        (0, 0) => "the firmware finds nothing to boot".to_string(),
        (0, n) => format!(
            "the install disc's key prompt was not answered in {} attempts",
            n + 1
        ),
        _ => "the disk does not boot after Windows Setup's restart".to_string(),
    };
    let cure = match observation.restarts {
        0 => {
            "check that the ISO boots with this firmware: \
             not every disc has both a UEFI and a BIOS entry"
        }
        _ => {
            "the answer file's disk layout must fit the firmware: \
             GPT with an EFI partition for UEFI, an active partition for BIOS"
        }
    };
    nothing_boots(observation, fact, cure)
}

fn disk_does_not_boot(observation: &MachineObservation) -> Error {
    if observation.refused {
        return secure_boot_error(observation);
    }
    let (fact, cure) = match (observation.purpose, observation.restarts) {
        (MachinePurpose::Clone, 0) => (
            "the firmware finds no Windows on the disk",
            "a new machine boots \\EFI\\BOOT\\BOOTX64.EFI, or with BIOS the active partition: \
             the image needs the one that its firmware uses",
        ),
        (MachinePurpose::Clone, _) => (
            "the disk does not boot after Windows restarted",
            "the specialize pass, the platform's agent or a script that it ran \
             changed the partitions or the boot loader",
        ),
        (MachinePurpose::Steps, _) | (_, 1..) => (
            "the disk does not boot after Windows restarted",
            "a step changed the partitions, the boot loader or its entries: \
             bcdedit, bcdboot, diskpart",
        ),
        _ => (
            "the firmware finds no Windows on the disk",
            "firmware, disk bus and UEFI variables must be those that Windows was installed with",
        ),
    };
    nothing_boots(observation, fact.to_string(), cure)
}

/// Secure Boot rejected all boot loaders.
fn secure_boot_error(observation: &MachineObservation) -> Error {
    let (loader, cure) = match (observation.purpose, observation.restarts) {
        (MachinePurpose::Install, 0) => (
            "the install disc's boot loader",
            "use a medium with Microsoft's own boot loader, or set secure_boot = false",
        ),
        (MachinePurpose::Clone, _) => (
            "the boot loader on the disk",
            "the image needs Microsoft's own \\EFI\\BOOT\\BOOTX64.EFI and bootmgfw.efi; \
             those of an older Windows may be revoked",
        ),
        _ => (
            "the boot loader on the disk",
            "find the medium, update or step that replaced Microsoft's boot loader, \
             or set secure_boot = false",
        ),
    };
    let fact =
        format!("Secure Boot rejects {loader}: it is not signed by any of the firmware's keys");
    nothing_boots(observation, fact, cure)
}

fn nothing_boots(observation: &MachineObservation, fact: String, cure: &str) -> Error {
    let error = Error::new(observation.purpose.into(), fact)
        .found(observation.describe_time())
        .lines(&observation.failed_options);
    observation.attach_screen(error).cure(cure)
}

fn powered_off(observation: &MachineObservation) -> Error {
    let (doing, cure) = match observation.purpose {
        MachinePurpose::Install => (
            "being installed",
            "remove the shutdown command from the answer file, SetupComplete.cmd or the \
             first-logon commands: winimg shuts the machine down itself",
        ),
        MachinePurpose::Clone => (
            "starting as a clone",
            "check the commands of the answer file, the platform's agent and its user data \
             for a shutdown",
        ),
        MachinePurpose::Boot | MachinePurpose::Steps => (
            "starting",
            "check whether a service, task or startup command shuts Windows down",
        ),
    };
    let fact = format!("the machine powered off while Windows was {doing}");
    Error::new(observation.purpose.into(), fact)
        .found(observation.describe_time())
        .cure(cure)
}

fn restart_loop(observation: &MachineObservation, platform: HypervisorKind) -> Error {
    let fact = format!("{} keeps restarting", observation.purpose.label());
    let within = format!(
        "{} within {}",
        observation.describe_restarts(),
        format_time(observation.elapsed)
    );
    let wording = &platform.spec().wording;
    let error = Error::new(observation.purpose.into(), fact);
    if observation.purpose == MachinePurpose::Install {
        let error = error
            .found(within)
            .lines(["likely: a driver or a command of the specialize pass fails"])
            .lines(
                wording
                    .restart_cause
                    .map(|cause| format!("likely: {cause}")),
            );
        return observation
            .attach_screen(error)
            .cure("keep the disk (--on-error keep) and read C:\\Windows\\Panther\\setuperr.log");
    }
    if observation.purpose == MachinePurpose::Clone {
        let error = error.found(within).lines([
            "likely: a command of the specialize pass, or the platform's agent, fails \
             and requests a restart each time",
            "likely: a stop error (blue screen), after which Windows restarts by itself",
        ]);
        return observation.attach_screen(error).cure(
            "see the other screenshots in the same folder: \
                 they show the screen before each restart",
        );
    }
    let error = error
        .found(match wording.no_contact {
            Some(never) => format!("{within}, {never}"),
            None => within,
        })
        .lines([
            "likely: a stop error (blue screen), after which Windows restarts by itself",
            "likely: an update or a driver that fails and is rolled back",
        ]);
    observation
        .attach_screen(error)
        .cure("see the last screenshots in screens/: they show the screen before each restart")
}

fn firmware_late(observation: &MachineObservation, limit: Duration) -> Error {
    let error = Error::new(
        Kind::Machine,
        format!(
            "the firmware did not boot anything within {}",
            format_time(limit)
        ),
    )
    .found(observation.describe_time())
    .lines(&observation.failed_options);
    observation.attach_screen(error).cure(
        "check in the screenshot what the firmware is waiting for; \
         if it hangs, the OVMF build may not match this QEMU version",
    )
}

/// Builds the error for a boot loader or kernel in an endless loop: no program that could be busy
/// is running yet.
fn hang_error(observation: &MachineObservation) -> Error {
    let since = observation.still_since.unwrap_or(observation.elapsed);
    let error = Error::new(
        Kind::Machine,
        format!(
            "{} hangs before it draws anything",
            observation.purpose.label()
        ),
    )
    .expected("Windows to read from a drive or draw something")
    .found(format!(
        "processor busy, no drive activity and no screen output for {} \
         (since {} after power-on, {})",
        format_time(observation.elapsed.saturating_sub(since)),
        format_time(since),
        observation.describe_restarts()
    ));
    observation.attach_screen(error).cure(
        "build again; if it happens every time, \
         the machine's CPU model or firmware is not compatible with this Windows",
    )
}

pub fn too_late(observation: &MachineObservation, limit: Duration, late: GuestTimeout) -> Error {
    let found = late.found.unwrap_or_else(|| {
        let works = match (observation.purpose, observation.started) {
            (MachinePurpose::Install, _) => "the machine is still working",
            (_, true) => "Windows is still working",
            (_, false) => "the firmware is still working",
        };
        works.to_string()
    });
    let error = Error::new(
        observation.purpose.into(),
        format!("{} within {}", late.fact, format_time(limit)),
    )
    .found(format!("{found}, {}", observation.describe_restarts()))
    .lines(late.lines);
    observation
        .attach_screen(error)
        .cure(match observation.purpose {
            MachinePurpose::Clone => "check in the screenshot what Windows is doing",
            _ => "check the screenshot; if Windows is still busy, set a longer timeout in [setup]",
        })
}

#[cfg(test)]
mod tests;
