//! The error of a machine whose watch ended badly: a Windows Setup, a Windows that starts, one that runs steps, and a clone.
//!
//! Pure: from what was seen to the whole message. Only while Windows is being installed is anything said of Setup and its answer file; what is
//! said of the guest's channel is the hypervisor's.

mod still;

use std::time::Duration;

use super::judge::Verdict;
use super::room;
use crate::vm::Platform;
use crate::vm::driver::Late;
use crate::vm::seen::{Purpose, Seen, time};
use winimg_base::error::{Error, Kind};

/// What a message needs besides what was seen.
#[derive(Clone, Copy, Debug)]
pub struct About {
    pub platform: Platform,
    /// How long the firmware may take.
    pub firmware: Duration,
    /// How often the install disc was started over for its key prompt.
    pub retries: u32,
}

/// The error for a verdict. `None` where there is nothing to say, or only the driver knows what.
pub fn ending(verdict: &Verdict, seen: &Seen, about: &About) -> Option<Error> {
    Some(match verdict {
        Verdict::Fine | Verdict::Stopped(_) | Verdict::Gone(_) => return None,
        Verdict::PoweredOff => powered_off(seen),
        Verdict::RestartLoop { .. } => restart_loop(seen, about.platform),
        Verdict::NoBootDevice if seen.purpose == Purpose::Install => {
            disc_does_not_boot(seen, about.retries)
        }
        Verdict::NoBootDevice => disk_does_not_boot(seen),
        Verdict::FirmwareLate => firmware_late(seen, about.firmware),
        Verdict::DiskFailed => seen.shown(room::write_failed(&seen.disk_folder)),
        Verdict::StandsStill { .. } => still::stands_still(seen, about.platform),
        Verdict::Hangs { .. } => hangs(seen),
    })
}

/// The install disc leads nowhere, or after a restart the disk does.
fn disc_does_not_boot(seen: &Seen, retries: u32) -> Error {
    if seen.refused {
        return refused(seen);
    }
    let fact = match (seen.restarts, retries) {
        (0, 0) => "the firmware finds nothing to boot".to_string(),
        (0, n) => format!(
            "the install disc's key prompt was not answered in {} attempts",
            n + 1
        ),
        _ => "the disk does not boot after Windows Setup's restart".to_string(),
    };
    let cure = match seen.restarts {
        0 => {
            "check that the ISO boots with this firmware: not every disc has a UEFI and a BIOS entry"
        }
        _ => {
            "the answer file's disk layout must fit the firmware: GPT with an EFI partition for UEFI, an active partition for BIOS"
        }
    };
    nothing_boots(seen, fact, cure)
}

fn disk_does_not_boot(seen: &Seen) -> Error {
    if seen.refused {
        return refused(seen);
    }
    let (fact, cure) = match (seen.purpose, seen.restarts) {
        (Purpose::Clone, 0) => (
            "the firmware finds no Windows on the disk",
            "a new machine starts \\EFI\\BOOT\\BOOTX64.EFI, or with BIOS the active partition: the image needs what fits its firmware",
        ),
        (Purpose::Clone, _) => (
            "the disk does not boot after Windows restarted",
            "the specialize pass, the platform's agent or what it ran changed the partitions or the boot loader",
        ),
        (Purpose::Steps, _) | (_, 1..) => (
            "the disk does not boot after Windows restarted",
            "a step changed the partitions, the boot loader or its entries: bcdedit, bcdboot, diskpart",
        ),
        _ => (
            "the firmware finds no Windows on the disk",
            "firmware, disk bus and UEFI variables have to be those that Windows was installed with",
        ),
    };
    nothing_boots(seen, fact.to_string(), cure)
}

/// Secure Boot took none of what could have been started.
fn refused(seen: &Seen) -> Error {
    let (whose, cure) = match (seen.purpose, seen.restarts) {
        (Purpose::Install, 0) => (
            "the install disc's boot loader",
            "take a medium whose boot loader is Microsoft's own, or set secure_boot = false",
        ),
        (Purpose::Clone, _) => (
            "the boot loader on the disk",
            "the image needs Microsoft's own \\EFI\\BOOT\\BOOTX64.EFI and bootmgfw.efi; an older Windows' may be revoked",
        ),
        _ => (
            "the boot loader on the disk",
            "a medium, an update or a step brought one that is not Microsoft's own, or set secure_boot = false",
        ),
    };
    let fact = format!("Secure Boot refuses {whose}: none of the firmware's keys has signed it");
    nothing_boots(seen, fact, cure)
}

fn nothing_boots(seen: &Seen, fact: String, cure: &str) -> Error {
    let error = Error::new(seen.purpose.into(), fact)
        .found(seen.when())
        .lines(&seen.failed_options);
    seen.shown(error).cure(cure)
}

fn powered_off(seen: &Seen) -> Error {
    let (doing, cure) = match seen.purpose {
        Purpose::Install => (
            "being installed",
            "an answer file, SetupComplete.cmd or a first command that shuts down must not: winimg does",
        ),
        Purpose::Clone => (
            "starting as a clone",
            "a command of the answer file, the platform's agent or its user data shut it down",
        ),
        Purpose::Boot | Purpose::Steps => (
            "starting",
            "a service, a task or a command that runs when Windows starts shut it down",
        ),
    };
    let fact = format!("the machine powered off while Windows was {doing}");
    Error::new(seen.purpose.into(), fact)
        .found(seen.when())
        .cure(cure)
}

fn restart_loop(seen: &Seen, platform: Platform) -> Error {
    let fact = format!("{} restarts again and again", seen.purpose.words());
    let within = format!("{} within {}", seen.restarts(), time(seen.elapsed));
    let is_qemu = platform == Platform::Qemu;
    let error = Error::new(seen.purpose.into(), fact);
    if seen.purpose == Purpose::Install {
        let error = error
            .found(within)
            .lines(["likely: a driver or a command of the specialize pass that fails"])
            .lines(is_qemu.then_some(
                "likely: a processor without what this Windows needs (Server 2025: SSE4.2 and POPCNT)",
            ));
        return seen
            .shown(error)
            .cure("keep the disk (--on-error keep) and read C:\\Windows\\Panther\\setuperr.log");
    }
    if seen.purpose == Purpose::Clone {
        let error = error.found(within).lines([
            "likely: a command of the specialize pass, or the platform's agent, that fails and asks for a restart each time",
            "likely: a stop error (blue screen), after which Windows restarts by itself",
        ]);
        return seen
            .shown(error)
            .cure("the pictures beside it show what comes before each restart");
    }
    let error = error
        .found(match is_qemu {
            true => format!("{within}, the guest agent never answered"),
            false => within,
        })
        .lines([
            "likely: a stop error (blue screen), after which Windows restarts by itself",
            "likely: an update or a driver that fails and is rolled back",
        ]);
    seen.shown(error)
        .cure("the last pictures in screens/ show what comes before each restart")
}

fn firmware_late(seen: &Seen, limit: Duration) -> Error {
    let error = Error::new(
        Kind::Machine,
        format!("the firmware started nothing within {}", time(limit)),
    )
    .found(seen.when())
    .lines(&seen.failed_options);
    seen.shown(error).cure(
        "see in the screenshot what it waits for; a firmware that hangs is often an OVMF that does not fit this QEMU",
    )
}

/// A loop of the loader or the kernel: no program runs yet that could be at work.
fn hangs(seen: &Seen) -> Error {
    let since = seen.still_since.unwrap_or(seen.elapsed);
    let error = Error::new(
        Kind::Machine,
        format!("{} hangs before it draws anything", seen.purpose.words()),
    )
    .expected("a start that reads from a drive or draws")
    .found(format!(
        "a busy processor, no drive in use and nothing drawn since {} after power-on, for {}, {}",
        time(since),
        time(seen.elapsed.saturating_sub(since)),
        seen.restarts()
    ));
    seen.shown(error)
        .cure("build again; where it happens each time, the machine's processor or firmware does not suit this Windows")
}

pub fn too_late(seen: &Seen, limit: Duration, late: Late) -> Error {
    let found = late.found.unwrap_or_else(|| {
        let works = match (seen.purpose, seen.started) {
            (Purpose::Install, _) => "a machine that still works",
            (_, true) => "a Windows that still works",
            (_, false) => "firmware that still works",
        };
        works.to_string()
    });
    let error = Error::new(
        seen.purpose.into(),
        format!("{} within {}", late.fact, time(limit)),
    )
    .found(format!("{found}, {}", seen.restarts()))
    .lines(late.lines);
    seen.shown(error).cure(match seen.purpose {
        Purpose::Clone => "see in the screenshot what it is doing",
        _ => "give [setup] a longer timeout, or see in the screenshot what it is doing",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(purpose: Purpose, restarts: u32) -> Seen {
        Seen {
            purpose,
            elapsed: Duration::from_secs(95),
            still_since: Some(Duration::from_secs(50)),
            restarts,
            started: true,
            screenshot: Some("/run/w/screens/stopped.png".into()),
            ..Seen::default()
        }
    }

    fn about(platform: Platform, retries: u32) -> About {
        About {
            platform,
            firmware: Duration::from_secs(120),
            retries,
        }
    }

    fn verdicts() -> [Verdict; 7] {
        [
            Verdict::PoweredOff,
            Verdict::RestartLoop { restarts: 6 },
            Verdict::NoBootDevice,
            Verdict::FirmwareLate,
            Verdict::DiskFailed,
            Verdict::StandsStill {
                since: Duration::from_secs(50),
            },
            Verdict::Hangs {
                since: Duration::from_secs(50),
            },
        ]
    }

    /// Every message there is under these platforms, for these purposes.
    fn messages(platforms: &[Platform], purposes: &[Purpose]) -> Vec<String> {
        let mut texts = Vec::new();
        for (platform, purpose) in platforms
            .iter()
            .flat_map(|p| purposes.iter().map(move |q| (p, q)))
        {
            for (verdict, restarts) in verdicts().iter().flat_map(|v| [(v, 0), (v, 2), (v, 5)]) {
                let rendered = ending(verdict, &seen(*purpose, restarts), &about(*platform, 0));
                texts.push(rendered.expect("an error").to_string());
            }
        }
        texts
    }

    #[test]
    fn an_installed_windows_is_reported_without_a_word_of_setup() {
        let purposes = [Purpose::Boot, Purpose::Steps];
        for text in messages(&[Platform::Qemu, Platform::HyperV], &purposes) {
            assert!(
                !text.contains("Setup") && !text.contains("answer file"),
                "{text}"
            );
        }
    }

    #[test]
    fn nobody_looks_for_a_guest_agent_under_hyper_v() {
        let purposes = [Purpose::Install, Purpose::Boot, Purpose::Steps];
        for text in messages(&[Platform::HyperV], &purposes) {
            assert!(
                !text.contains("guest agent") && !text.contains("QEMU-GA"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_clone_that_restarts_for_ever_is_reported_with_what_asks_for_it() {
        let looping = Verdict::RestartLoop { restarts: 9 };
        let rendered = ending(
            &looping,
            &seen(Purpose::Clone, 9),
            &about(Platform::Qemu, 0),
        );
        assert_eq!(
            rendered.expect("an error").to_string(),
            "Windows restarts again and again\n  at: /run/w/screens/stopped.png\n  found: after 9 restarts within 1 min 35 s\n  \
             | likely: a command of the specialize pass, or the platform's agent, that fails and asks for a restart each time\n  \
             | likely: a stop error (blue screen), after which Windows restarts by itself\n  \
             cure: the pictures beside it show what comes before each restart"
        );
    }

    #[test]
    fn a_start_in_a_loop_is_reported_with_what_it_does_not_do() {
        let hangs = Verdict::Hangs {
            since: Duration::from_secs(50),
        };
        let rendered = ending(&hangs, &seen(Purpose::Clone, 1), &about(Platform::Qemu, 0));
        assert_eq!(
            rendered.expect("an error").to_string(),
            "Windows hangs before it draws anything\n  at: /run/w/screens/stopped.png\n  \
             expected: a start that reads from a drive or draws\n  \
             found: a busy processor, no drive in use and nothing drawn since 50 s after power-on, for 45 s, after 1 restart\n  \
             cure: build again; where it happens each time, the machine's processor or firmware does not suit this Windows"
        );
    }

    #[test]
    fn what_does_not_boot_is_told_apart() {
        let fact = |purpose, restarts, retries| {
            let about = about(Platform::Qemu, retries);
            let rendered = ending(&Verdict::NoBootDevice, &seen(purpose, restarts), &about);
            rendered.expect("an error").fact().to_string()
        };
        let nothing = "the firmware finds nothing to boot";
        assert_eq!(fact(Purpose::Install, 0, 0), nothing);
        let prompt = "the install disc's key prompt was not answered in 6 attempts";
        assert_eq!(fact(Purpose::Install, 0, 5), prompt);
        let setup = "the disk does not boot after Windows Setup's restart";
        assert_eq!(fact(Purpose::Install, 1, 0), setup);
        let no_windows = "the firmware finds no Windows on the disk";
        assert_eq!(fact(Purpose::Boot, 0, 0), no_windows);
        let again = "the disk does not boot after Windows restarted";
        assert_eq!(fact(Purpose::Boot, 1, 0), again);
        assert_eq!(fact(Purpose::Steps, 0, 0), again);
        assert_eq!(fact(Purpose::Clone, 0, 0), no_windows);
        assert_eq!(fact(Purpose::Clone, 1, 0), again);
    }

    #[test]
    fn what_secure_boot_refuses_is_named() {
        let message = |purpose, restarts| {
            let seen = Seen {
                refused: true,
                failed_options: vec!["failed to load Boot0001: Access Denied".into()],
                ..seen(purpose, restarts)
            };
            let rendered = ending(&Verdict::NoBootDevice, &seen, &about(Platform::Qemu, 0));
            rendered.expect("an error").to_string()
        };
        assert_eq!(
            message(Purpose::Install, 0),
            "Secure Boot refuses the install disc's boot loader: none of the firmware's keys has signed it\n  \
             at: /run/w/screens/stopped.png\n  found: 1 min 35 s after power-on, before the first restart\n  \
             | failed to load Boot0001: Access Denied\n  \
             cure: take a medium whose boot loader is Microsoft's own, or set secure_boot = false"
        );
        let disk = "Secure Boot refuses the boot loader on the disk: none of the firmware's keys has signed it\n";
        for (purpose, restarts) in [
            (Purpose::Install, 1),
            (Purpose::Boot, 0),
            (Purpose::Clone, 0),
        ] {
            let message = message(purpose, restarts);
            assert!(message.starts_with(disk), "{message}");
        }
    }

    #[test]
    fn a_guest_that_came_too_late_says_what_it_was_told() {
        let late = Late {
            fact: "Windows took no session of PowerShell Direct",
            found: Some("heartbeat OkApplicationsUnknown".into()),
            lines: vec!["the last attempt failed: The credential is invalid.".into()],
        };
        let rendered = too_late(&seen(Purpose::Boot, 2), Duration::from_secs(600), late);
        assert_eq!(
            rendered.to_string(),
            "Windows took no session of PowerShell Direct within 10 min 0 s\n  \
             at: /run/w/screens/stopped.png\n  \
             found: heartbeat OkApplicationsUnknown, after 2 restarts\n  \
             | the last attempt failed: The credential is invalid.\n  \
             cure: give [setup] a longer timeout, or see in the screenshot what it is doing"
        );
        let late = Late {
            fact: "the guest agent did not answer",
            ..Late::default()
        };
        let rendered = too_late(&seen(Purpose::Install, 0), Duration::from_secs(60), late);
        let text = rendered.to_string();
        assert!(
            text.contains("found: a machine that still works, before the first restart\n"),
            "{text}"
        );
    }
}
