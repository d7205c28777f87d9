//! What to tell about a machine of Hyper-V whose watch ended badly: Setup, a Windows that starts, and one that runs steps.
//!
//! Pure: from what was seen to the whole message. The causes are those that fit a machine without drivers and an agent of its own: all it needs
//! is in Windows (Microsoft: PowerShell Direct; Windows Setup log files and event logs).

use std::time::Duration;

use crate::vm::seen::{Purpose, Seen, Standing, time};
use crate::vm::watch::Verdict;
use winimg_base::error::{Error, Kind};

use super::figures;

/// The error for a verdict; `None` where there is nothing to say.
pub fn error(verdict: &Verdict, seen: &Seen, name: &str) -> Option<Error> {
    Some(match verdict {
        Verdict::Fine => return None,
        Verdict::Paused { why } => seen.shown(figures::paused(why)),
        Verdict::Crashed { .. } => figures::vanished(name),
        Verdict::PoweredOff => powered_off(seen),
        Verdict::RestartLoop { .. } => restart_loop(seen),
        Verdict::NoBootDevice | Verdict::FirmwareLate | Verdict::DiskFailed => return None,
        Verdict::StandsStill { .. } => stands_still(seen),
    })
}

fn stands_still(seen: &Seen) -> Error {
    let installs = seen.purpose == Purpose::Install;
    let fact = match seen.purpose {
        Purpose::Install => "Windows Setup stopped at a screen and waits for a person",
        Purpose::Boot => "Windows does not start: it stands at a screen and takes no session",
        Purpose::Steps => "Windows stopped at a screen and takes no session any more",
    };
    seen.standing(
        if installs { Kind::Setup } else { Kind::Machine },
        Standing {
            who: seen.purpose.words(),
            fact,
            expected: match installs {
                true => "a Setup that goes on by itself",
                false => "a Windows that goes on by itself and takes sessions of PowerShell Direct",
            },
            causes: causes(seen),
        },
    )
}

fn causes(seen: &Seen) -> &'static [&'static str] {
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

fn powered_off(seen: &Seen) -> Error {
    match seen.purpose {
        Purpose::Install => Error::new(
            Kind::Setup,
            "the machine powered off while Windows was being installed",
        )
        .found(seen.when())
        .cure("an answer file, SetupComplete.cmd or a first command that shuts down must not: winimg does"),
        _ => Error::new(
            Kind::Machine,
            "the machine powered off while Windows was starting",
        )
        .found(seen.when())
        .cure("a service, a task or a command that runs when Windows starts shut it down"),
    }
}

fn restart_loop(seen: &Seen) -> Error {
    let within = format!("{} within {}", seen.restarts(), time(seen.elapsed));
    match seen.purpose {
        Purpose::Install => {
            let error = Error::new(Kind::Setup, "Windows Setup restarts again and again")
                .found(within)
                .lines(["likely: a driver or a command of the specialize pass that fails"]);
            seen.shown(error)
                .cure("keep the disk (--on-error keep) and read C:\\Windows\\Panther\\setuperr.log")
        }
        _ => {
            let error = Error::new(Kind::Machine, "Windows restarts again and again")
                .found(within)
                .lines([
                    "likely: a stop error (blue screen), after which Windows restarts by itself",
                    "likely: an update or a driver that fails and is rolled back",
                ]);
            seen.shown(error)
                .cure("the last pictures in screens/ show what comes before each restart")
        }
    }
}

/// No session within the limit. `said`: what the last attempt was told.
pub fn too_late(seen: &Seen, limit: Duration, heartbeat: &str, said: &str) -> Error {
    let kind = match seen.purpose {
        Purpose::Install => Kind::Setup,
        _ => Kind::Machine,
    };
    let fact = format!(
        "Windows took no session of PowerShell Direct within {}",
        time(limit)
    );
    let heartbeat = match heartbeat {
        "" => "no heartbeat".to_string(),
        other => format!("heartbeat {other}"),
    };
    let error = Error::new(kind, fact)
        .found(format!("{heartbeat}, {}", seen.restarts()))
        .lines((!said.is_empty()).then(|| format!("the last attempt was told: {said}")));
    seen.shown(error)
        .cure("give [setup] a longer timeout, or see in the screenshot what it is doing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(purpose: Purpose) -> Seen {
        Seen {
            purpose,
            elapsed: Duration::from_secs(246),
            still_since: Some(Duration::from_secs(216)),
            restarts: 2,
            started: true,
            screenshot: Some("/run/w/screens/stopped.png".into()),
            ..Seen::default()
        }
    }

    #[test]
    fn a_setup_that_waits_is_told_with_its_phase() {
        let verdict = Verdict::StandsStill {
            since: Duration::from_secs(216),
        };
        let told = error(&verdict, &seen(Purpose::Install), "winimg-1").expect("an error");
        assert_eq!(
            told.to_string(),
            "Windows Setup stopped at a screen and waits for a person\n  \
             at: /run/w/screens/stopped.png\n  \
             expected: a Setup that goes on by itself\n  \
             found: nothing moved since 3 min 36 s after power-on, for 30 s, after 2 restarts\n  \
             | likely: an out-of-box page waits: locale (International-Core) or the Administrator's password is missing\n  \
             | likely: an unplanned restart during the specialize or oobeSystem pass\n  \
             cure: look at the screenshot: its text names the cause"
        );
    }

    #[test]
    fn a_late_session_says_what_it_was_told() {
        let told = too_late(
            &seen(Purpose::Boot),
            Duration::from_secs(600),
            "OkApplicationsUnknown",
            "The credential is invalid.",
        );
        assert_eq!(
            told.to_string(),
            "Windows took no session of PowerShell Direct within 10 min 0 s\n  \
             at: /run/w/screens/stopped.png\n  \
             found: heartbeat OkApplicationsUnknown, after 2 restarts\n  \
             | the last attempt was told: The credential is invalid.\n  \
             cure: give [setup] a longer timeout, or see in the screenshot what it is doing"
        );
    }
}
