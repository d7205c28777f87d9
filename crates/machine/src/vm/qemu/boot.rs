//! What to tell about an installed Windows whose guest agent does not answer, or no more: when it is booted from a layer, and while steps run.
//!
//! Pure: from what was seen to the whole message. Says nothing of Setup and its answer file, which are long over.

use std::time::Duration;

use crate::vm::seen::{Purpose, Seen, Standing, time};
use winimg_base::error::{Error, Kind};

/// A Windows that stands at a screen.
pub fn stands_still(seen: &Seen) -> Error {
    let fact = match seen.purpose {
        Purpose::Steps => "Windows stopped at a screen and its guest agent is silent",
        _ => "Windows does not start: it stands at a screen and its guest agent does not answer",
    };
    seen.standing(
        Kind::Machine,
        Standing {
            who: "Windows",
            fact,
            expected: "a Windows that goes on by itself, with its guest agent",
            causes: causes(seen),
        },
    )
}

fn causes(seen: &Seen) -> &'static [&'static str] {
    if !seen.started {
        return &[
            "the boot loader waits for a person: its variables or its files do not fit the disk",
        ];
    }
    match seen.purpose {
        Purpose::Steps => &[
            "a stop error (blue screen), or Windows' recovery after one",
            "an update or a driver that waits for a person when Windows restarts",
            "a step that stopped the guest agent, or removed its driver",
        ],
        _ => &[
            "a stop error (blue screen), or Windows' recovery after one: the disk's driver does not start",
            "the guest agent's service QEMU-GA or its driver vioserial does not start",
        ],
    }
}

/// The firmware found nothing to boot.
pub fn nothing_boots(seen: &Seen) -> Error {
    let (fact, cure) = match (seen.purpose, seen.restarts) {
        (Purpose::Steps, _) | (_, 1..) => (
            "the disk does not boot after Windows restarted",
            "a step changed the partitions, the boot loader or its entries: bcdedit, bcdboot, diskpart",
        ),
        _ => (
            "the firmware finds no Windows on the disk",
            "firmware, disk bus and UEFI variables have to be those that Windows was installed with",
        ),
    };
    let error = Error::new(Kind::Machine, fact)
        .found(seen.when())
        .lines(&seen.failed_options);
    seen.shown(error).cure(cure)
}

pub fn powered_off(seen: &Seen) -> Error {
    Error::new(
        Kind::Machine,
        "the machine powered off while Windows was starting",
    )
    .found(seen.when())
    .cure("a service, a task or a command that runs when Windows starts shut it down")
}

pub fn restart_loop(seen: &Seen) -> Error {
    let error = Error::new(Kind::Machine, "Windows restarts again and again")
        .found(format!(
            "{} within {}, the guest agent never answered",
            seen.restarts(),
            time(seen.elapsed)
        ))
        .lines([
            "likely: a stop error (blue screen), after which Windows restarts by itself",
            "likely: an update or a driver that fails and is rolled back",
        ]);
    seen.shown(error)
        .cure("the last pictures in screens/ show what comes before each restart")
}

pub fn too_late(seen: &Seen, limit: Duration) -> Error {
    let error = Error::new(
        Kind::Machine,
        format!("the guest agent did not answer within {}", time(limit)),
    )
    .found(match seen.started {
        true => format!("a Windows that still works, {}", seen.restarts()),
        false => format!("firmware that still works, {}", seen.restarts()),
    });
    seen.shown(error)
        .cure("see in the screenshot what it is doing, or give [setup] a longer timeout")
}

/// The firmware neither starts anything nor gives up.
pub fn firmware_late(seen: &Seen, limit: Duration) -> Error {
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

    #[test]
    fn an_agent_that_never_comes_is_told_without_a_word_of_setup() {
        assert_eq!(
            stands_still(&seen(Purpose::Boot, 0)).to_string(),
            "Windows does not start: it stands at a screen and its guest agent does not answer\n  \
             at: /run/w/screens/stopped.png\n  \
             expected: a Windows that goes on by itself, with its guest agent\n  \
             found: nothing moved since 50 s after power-on, for 45 s, before the first restart\n  \
             | likely: a stop error (blue screen), or Windows' recovery after one: the disk's driver does not start\n  \
             | likely: the guest agent's service QEMU-GA or its driver vioserial does not start\n  \
             cure: look at the screenshot: its text names the cause"
        );
        for purpose in [Purpose::Boot, Purpose::Steps] {
            for text in [
                stands_still(&seen(purpose, 1)),
                nothing_boots(&seen(purpose, 0)),
                nothing_boots(&seen(purpose, 1)),
                powered_off(&seen(purpose, 1)),
                restart_loop(&seen(purpose, 5)),
                firmware_late(&seen(purpose, 0), Duration::from_secs(120)),
            ] {
                let text = text.to_string();
                assert!(
                    !text.contains("Setup") && !text.contains("answer file"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_disk_that_never_booted_and_one_that_boots_no_more_differ() {
        let facts = [(Purpose::Boot, 0), (Purpose::Boot, 1), (Purpose::Steps, 0)]
            .map(|(purpose, restarts)| nothing_boots(&seen(purpose, restarts)).fact().to_string());
        assert_eq!(
            facts,
            [
                "the firmware finds no Windows on the disk",
                "the disk does not boot after Windows restarted",
                "the disk does not boot after Windows restarted",
            ]
        );
    }
}
