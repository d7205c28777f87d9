//! What to tell about a Windows Setup that ended otherwise than with a guest that answers.
//!
//! Pure: from what was seen to the whole message. The causes are those that fit the phase (Microsoft: Windows Setup log files and event logs;
//! the texts of Setup's own boxes).

use std::time::Duration;

use crate::vm::seen::{Seen, Standing, time};
use winimg_base::error::{Error, Kind};

/// Bytes on the disk from which on an image was being applied: partitions and their file systems are far below.
const IMAGE_STARTED: u64 = 64 << 20;

/// A Setup that stands at a screen.
pub fn stands_still(seen: &Seen) -> Error {
    seen.standing(
        Kind::Setup,
        Standing {
            who: "Windows Setup",
            fact: "Windows Setup stopped at a screen and waits for a person",
            expected: "a Setup that goes on by itself",
            causes: causes(seen),
        },
    )
}

/// The firmware found nothing to boot.
pub fn nothing_boots(seen: &Seen, retries: u32) -> Error {
    let fact = match (seen.restarts, retries) {
        (0, 0) => "the firmware finds nothing to boot".to_string(),
        (0, n) => format!(
            "the install disc's key prompt was not answered in {} attempts",
            n + 1
        ),
        _ => "the disk does not boot after Windows Setup's restart".to_string(),
    };
    let error = Error::new(Kind::Setup, fact)
        .found(seen.when())
        .lines(&seen.failed_options);
    let cure = match seen.restarts {
        0 => {
            "check that the ISO boots with this firmware: not every disc has a UEFI and a BIOS entry"
        }
        _ => {
            "the answer file's disk layout must fit the firmware: GPT with an EFI partition for UEFI, an active partition for BIOS"
        }
    };
    seen.shown(error).cure(cure)
}

pub fn powered_off(seen: &Seen) -> Error {
    let error = Error::new(
        Kind::Setup,
        "the machine powered off while Windows was being installed",
    )
    .found(seen.when());
    error.cure("an answer file, SetupComplete.cmd or a first command that shuts down must not: winimg does")
}

pub fn restart_loop(seen: &Seen) -> Error {
    let error = Error::new(Kind::Setup, "Windows Setup restarts again and again")
        .found(format!("{} within {}", seen.restarts(), time(seen.elapsed)))
        .lines([
            "likely: a driver or a command of the specialize pass that fails",
            "likely: a processor without what this Windows needs (Server 2025: SSE4.2 and POPCNT)",
        ]);
    seen.shown(error)
        .cure("keep the disk (--on-error keep) and read C:\\Windows\\Panther\\setuperr.log")
}

pub fn too_late(seen: &Seen, limit: Duration) -> Error {
    let error = Error::new(
        Kind::Setup,
        format!("the guest agent did not answer within {}", time(limit)),
    )
    .found(format!("a machine that still works, {}", seen.restarts()));
    seen.shown(error)
        .cure("give [setup] a longer timeout, or see in the screenshot what it is doing")
}

/// What stops a Setup in this phase, likeliest first.
fn causes(seen: &Seen) -> &'static [&'static str] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::seen::Purpose;

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

    #[test]
    fn a_wrong_image_name_is_told_with_screen_time_and_causes() {
        assert_eq!(
            stands_still(&seen(0, 5 << 20)).to_string(),
            "Windows Setup stopped at a screen and waits for a person\n  \
             at: /run/w/screens/stopped.png\n  \
             expected: a Setup that goes on by itself\n  \
             found: nothing moved since 3 min 36 s after power-on, for 30 s, before the first restart\n  \
             | likely: the image that the answer file names is not in install.wim\n  \
             | likely: a product key that does not fit the image, or an empty one\n  \
             | likely: DiskConfiguration failed half-way: a partition too small or a wrong order\n  \
             cure: look at the screenshot: its text names the cause"
        );
    }

    #[test]
    fn a_box_that_could_be_read_is_named_before_anything_is_guessed() {
        let read = Seen {
            text: vec![
                "Install Windows".into(),
                "Windows could n0t parse or process the unattend answer".into(),
                "file for pass [windowsPE].".into(),
            ],
            ..seen(0, 0)
        };
        assert_eq!(
            stands_still(&read).to_string(),
            "Windows Setup stopped: the answer file cannot be read\n  \
             at: /run/w/screens/stopped.png\n  \
             expected: a Setup that goes on by itself\n  \
             found: nothing moved since 3 min 36 s after power-on, for 30 s, before the first restart\n  \
             | likely: its syntax, an unknown component or element, a letter that is no ASCII, or a setting in the wrong pass\n  \
             | the screen says: Install Windows\n  \
             | the screen says: Windows could n0t parse or process the unattend answer\n  \
             | the screen says: file for pass [windowsPE].\n  \
             cure: the box names the pass, and often the component and the line"
        );
        let blue = Seen {
            blue: true,
            ..seen(1, 1 << 30)
        };
        assert!(
            stands_still(&blue)
                .to_string()
                .contains("| the screen has the colours of a stop error")
        );
    }

    #[test]
    fn each_phase_has_its_own_first_cause() {
        let first = |seen: &Seen| causes(seen)[0];
        let mut texts = vec![
            first(&seen(0, 0)),
            first(&seen(0, 1)),
            first(&seen(0, 1 << 30)),
            first(&seen(1, 1 << 30)),
            first(&seen(2, 1 << 30)),
            first(&Seen {
                started: false,
                ..seen(0, 0)
            }),
        ];
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), 6);
    }

    #[test]
    fn a_missed_prompt_a_blank_disc_and_a_wrong_layout_differ() {
        let facts = [(0, 0), (0, 5), (1, 0)].map(|(restarts, retries)| {
            let error = nothing_boots(&seen(restarts, 0), retries);
            error.fact().to_string()
        });
        assert_eq!(
            facts,
            [
                "the firmware finds nothing to boot",
                "the install disc's key prompt was not answered in 6 attempts",
                "the disk does not boot after Windows Setup's restart",
            ]
        );
    }
}
