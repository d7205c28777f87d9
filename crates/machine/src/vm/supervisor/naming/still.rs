//! The error of a machine that stands at a screen, with the causes that fit its phase.
//!
//! Pure. Under Hyper-V the causes are those of a machine without drivers and an agent of its own: all it needs is in Windows (Microsoft: Windows
//! Setup log files and event logs; the texts of Setup's own boxes; PowerShell Direct).

use crate::vm::Platform;
use crate::vm::seen::{Purpose, Seen, Standing};
use winimg_base::error::Error;

/// Bytes on the disk from which on an image was being applied: partitions and their file systems are far below.
const IMAGE_STARTED: u64 = 64 << 20;

pub fn stands_still(seen: &Seen, platform: Platform) -> Error {
    let (fact, expected) = words(seen.purpose, platform);
    seen.standing(Standing {
        who: seen.purpose.words(),
        fact,
        expected,
        causes: match platform {
            Platform::Qemu => causes_on_qemu(seen),
            Platform::HyperV => causes_on_hyperv(seen),
        },
    })
}

/// The fact, and what was expected.
fn words(purpose: Purpose, platform: Platform) -> (&'static str, &'static str) {
    const ON_QEMU: &str = "a Windows that continues by itself, with its guest agent";
    const ON_HYPERV: &str =
        "a Windows that continues by itself and takes sessions of PowerShell Direct";
    match (purpose, platform) {
        (Purpose::Install, _) => (
            "Windows Setup stopped at a screen and waits for a person",
            "a Setup that continues by itself",
        ),
        (Purpose::Clone, _) => (
            "Windows stopped at a screen when it started as a clone",
            "a start that needs nobody",
        ),
        (Purpose::Boot, Platform::Qemu) => (
            "Windows does not start: it stays at a screen and its guest agent does not answer",
            ON_QEMU,
        ),
        (Purpose::Boot, Platform::HyperV) => (
            "Windows does not start: it stays at a screen and takes no session",
            ON_HYPERV,
        ),
        (Purpose::Steps, Platform::Qemu) => (
            "Windows stopped at a screen and its guest agent is silent",
            ON_QEMU,
        ),
        (Purpose::Steps, Platform::HyperV) => (
            "Windows stopped at a screen and takes no session any more",
            ON_HYPERV,
        ),
    }
}

fn causes_on_qemu(seen: &Seen) -> &'static [&'static str] {
    match seen.purpose {
        Purpose::Install => setup_causes(seen),
        _ if !seen.started => {
            &["the boot loader waits for a person: its variables or its files do not fit the disk"]
        }
        Purpose::Clone => clone_causes(seen.restarts),
        Purpose::Steps => &[
            "a stop error (blue screen), or Windows' recovery after one",
            "an update or a driver that waits for a person when Windows restarts",
            "a step that stopped the guest agent, or removed its driver",
        ],
        Purpose::Boot => &[
            "a stop error (blue screen), or Windows' recovery after one: the disk's driver does not start",
            "the guest agent's service QEMU-GA or its driver vioserial does not start",
        ],
    }
}

/// What stops a sealed Windows that starts: the specialize pass runs before its first restart, the out-of-box experience and the
/// platform's agent after it (Microsoft: How configuration passes work).
fn clone_causes(restarts: u32) -> &'static [&'static str] {
    match restarts {
        0 => &[
            "a stop error (blue screen): the image has no driver that starts at boot for this controller",
            "a command of the specialize pass failed, or waits for a person",
        ],
        _ => &[
            "an out-of-box page waits: the seal's answer file leaves its setting out, or the platform's own was not found",
            "the platform's agent, or a command of the oobeSystem pass, failed or waits for a person",
            "a stop error (blue screen), or Windows' recovery after one",
        ],
    }
}

/// What stops a Setup in this phase, likeliest first.
fn setup_causes(seen: &Seen) -> &'static [&'static str] {
    if !seen.started && seen.restarts == 0 {
        return &["the disc's loader waits, or found no Windows to start"];
    }
    match (seen.restarts, seen.disk_written) {
        (0, 0) => &[
            "the answer file was not found, or is not valid for this Windows",
            "the disk was not found: its driver is missing from the answer file's DriverPaths",
            "DiskConfiguration does not fit the firmware (GPT for UEFI, MBR for BIOS)",
            "no AcceptEula, or a product key that does not fit the image",
            "a media driver is missing: the CD is not on AHCI",
        ],
        (0, written) if written < IMAGE_STARTED => &[
            "the image that the answer file names is not in install.wim",
            "a product key that does not fit the image, or an empty one",
            "DiskConfiguration failed half-way: a partition too small or a wrong order",
        ],
        (0, _) => &[
            "applying the image failed: the disk is too small, or the medium is damaged",
            "Server 2025 chose CompactOS (0x80071160): set <Compact>false</Compact> or a larger disk",
        ],
        (1, _) => &[
            "a command of the specialize pass failed",
            "a driver, the computer name or the product key of the specialize pass is wrong",
        ],
        _ => &[
            "an out-of-box page waits: locale (International-Core) or the Administrator's password is missing",
            "an unplanned restart during the specialize or oobeSystem pass",
            "Windows is installed, but SetupComplete.cmd did not start the guest agent (driver vioserial, service QEMU-GA)",
        ],
    }
}

fn causes_on_hyperv(seen: &Seen) -> &'static [&'static str] {
    match (seen.purpose, seen.restarts) {
        (Purpose::Install, 0) => &[
            "the firmware found nothing to boot, or the medium's key prompt was missed",
            "the answer file was not found, or is not valid for this Windows",
            "DiskConfiguration does not fit the firmware (GPT for generation 2, MBR for generation 1)",
            "the image that the answer file names is not in install.wim, or the product key does not fit it",
        ],
        (Purpose::Install, 1) => &[
            "a command of the specialize pass failed",
            "the computer name or the product key of the specialize pass is wrong",
        ],
        (Purpose::Install, _) => &[
            "an out-of-box page waits: locale (International-Core) or the Administrator's password is missing",
            "an unplanned restart during the specialize or oobeSystem pass",
        ],
        (Purpose::Clone, restarts) => clone_causes(restarts),
        (Purpose::Boot, _) => &[
            "a stop error (blue screen), or Windows' recovery after one",
            "firmware or Secure Boot are not those that Windows was installed with",
        ],
        (Purpose::Steps, _) => &[
            "a stop error (blue screen), or Windows' recovery after one",
            "an update or a driver that waits for a person when Windows restarts",
            "a step that stopped the service vmicvmsession (Hyper-V PowerShell Direct Service)",
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn seen(restarts: u32, disk_written: u64) -> Seen {
        Seen {
            purpose: Purpose::Install,
            elapsed: Duration::from_secs(246),
            still_since: Some(Duration::from_secs(216)),
            restarts,
            started: true,
            disk_written,
            screenshot: Some("/run/w/screens/stopped.png".into()),
            ..Seen::default()
        }
    }

    /// The whole message; the lines between its place and its cure that all share are given once.
    fn text(fact: &str, expected: &str, restarts: &str, lines: &[&str], cure: &str) -> String {
        let lines: String = lines.iter().map(|line| format!("\n  | {line}")).collect();
        format!(
            "{fact}\n  at: /run/w/screens/stopped.png\n  expected: {expected}\n  \
             found: nothing moved since 3 min 36 s after power-on, for 30 s, {restarts}{lines}\n  cure: {cure}"
        )
    }

    const WAITS: &str = "Windows Setup stopped at a screen and waits for a person";
    const GOES_ON: &str = "a Setup that continues by itself";
    const BEFORE: &str = "before the first restart";
    const LOOK: &str = "look at the screenshot: its text names the cause";

    #[test]
    fn a_wrong_image_name_is_reported_with_screen_time_and_causes() {
        let causes = [
            "likely: the image that the answer file names is not in install.wim",
            "likely: a product key that does not fit the image, or an empty one",
            "likely: DiskConfiguration failed half-way: a partition too small or a wrong order",
        ];
        assert_eq!(
            stands_still(&seen(0, 5 << 20), Platform::Qemu).to_string(),
            text(WAITS, GOES_ON, BEFORE, &causes, LOOK)
        );
    }

    #[test]
    fn a_box_that_could_be_read_is_named_before_anything_is_guessed() {
        let screen = [
            "Install Windows",
            "Windows could n0t parse or process the unattend answer",
            "file for pass [windowsPE].",
        ];
        let read = Seen {
            text: screen.map(String::from).to_vec(),
            ..seen(0, 0)
        };
        let likely = "likely: its syntax, an unknown component or element, a letter that is no ASCII, a setting in the wrong pass, or a value that Windows refuses, such as a simple password";
        let says = screen.map(|line| format!("the screen says: {line}"));
        let fact = "Windows Setup stopped: the answer file cannot be read";
        let cure = "the box names the pass, and often the component and the line";
        assert_eq!(
            stands_still(&read, Platform::Qemu).to_string(),
            text(
                fact,
                GOES_ON,
                BEFORE,
                &[likely, &says[0], &says[1], &says[2]],
                cure
            )
        );
        let blue = Seen {
            blue: true,
            ..seen(1, 1 << 30)
        };
        let rendered = stands_still(&blue, Platform::Qemu).to_string();
        assert!(rendered.contains("| the screen has the colours of a stop error"));
    }

    #[test]
    fn each_phase_has_its_own_first_cause() {
        let firmware = Seen {
            started: false,
            ..seen(0, 0)
        };
        let phases = [(0, 0), (0, 1), (0, 1 << 30), (1, 1 << 30), (2, 1 << 30)];
        let phases = phases.map(|(restarts, written)| seen(restarts, written));
        let first = phases.iter().chain([&firmware]).map(|s| setup_causes(s)[0]);
        let different: std::collections::BTreeSet<&str> = first.collect();
        assert_eq!(different.len(), 6);
    }

    #[test]
    fn under_hyper_v_a_setup_that_waits_is_reported_with_its_phase() {
        let causes = [
            "likely: an out-of-box page waits: locale (International-Core) or the Administrator's password is missing",
            "likely: an unplanned restart during the specialize or oobeSystem pass",
        ];
        assert_eq!(
            stands_still(&seen(2, 0), Platform::HyperV).to_string(),
            text(WAITS, GOES_ON, "after 2 restarts", &causes, LOOK)
        );
    }

    #[test]
    fn a_clone_at_a_stop_error_is_reported_by_its_pass() {
        let clone = Seen {
            purpose: Purpose::Clone,
            blue: true,
            ..seen(0, 0)
        };
        let fact = "Windows stopped at a screen when it started as a clone";
        let lines = [
            "the screen has the colours of a stop error (blue screen)",
            "likely: a stop error (blue screen): the image has no driver that starts at boot for this controller",
            "likely: a command of the specialize pass failed, or waits for a person",
        ];
        assert_eq!(
            stands_still(&clone, Platform::Qemu).to_string(),
            text(fact, "a start that needs nobody", BEFORE, &lines, LOOK)
        );
        let page = seen_text(2, "Hi there");
        assert_eq!(
            stands_still(&page, Platform::Qemu).fact(),
            "Windows stopped: the page for country and language"
        );
    }

    fn seen_text(restarts: u32, text: &str) -> Seen {
        Seen {
            purpose: Purpose::Clone,
            text: vec![text.into()],
            ..seen(restarts, 1 << 30)
        }
    }

    #[test]
    fn an_agent_that_never_comes_is_reported_with_what_keeps_it_away() {
        let booted = Seen {
            purpose: Purpose::Boot,
            ..seen(0, 0)
        };
        let fact =
            "Windows does not start: it stays at a screen and its guest agent does not answer";
        let expected = "a Windows that continues by itself, with its guest agent";
        let causes = [
            "likely: a stop error (blue screen), or Windows' recovery after one: the disk's driver does not start",
            "likely: the guest agent's service QEMU-GA or its driver vioserial does not start",
        ];
        assert_eq!(
            stands_still(&booted, Platform::Qemu).to_string(),
            text(fact, expected, BEFORE, &causes, LOOK)
        );
    }
}
