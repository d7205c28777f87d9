//! Builds the error for a machine that is stuck at a screen, with the likely causes for its phase.
//!
//! Pure. The causes are rows of the catalogue of symptoms.

use crate::vm::HypervisorKind;
use crate::vm::observation::{MachineObservation, StuckScreen};
use crate::vm::purpose::MachinePurpose;
use crate::vm::symptoms::{self, StuckMachine};
use winimg_base::error::Error;

pub fn stands_still(seen: &MachineObservation, platform: HypervisorKind) -> Error {
    let wording = &platform.spec().wording;
    let (fact, expected) = match seen.purpose {
        MachinePurpose::Install => (
            "Windows Setup is waiting for input",
            "Setup to continue without input",
        ),
        MachinePurpose::Clone => (
            "Windows is stuck at a screen while starting as a clone",
            "Windows to start without input",
        ),
        MachinePurpose::Boot => (wording.stuck_boot, wording.expected),
        MachinePurpose::Steps => (wording.stuck_steps, wording.expected),
    };
    let known = symptoms::find_stuck(&StuckMachine {
        purpose: seen.purpose,
        hypervisor: platform,
        started: seen.started,
        restarts: seen.restarts,
        disk_written: seen.disk_written,
    });
    seen.stuck_screen_error(StuckScreen {
        who: seen.purpose.label(),
        fact,
        expected,
        causes: known.map_or(&[], |row| &row.causes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn seen(restarts: u32, disk_written: u64) -> MachineObservation {
        MachineObservation {
            purpose: MachinePurpose::Install,
            elapsed: Duration::from_secs(246),
            still_since: Some(Duration::from_secs(216)),
            restarts,
            started: true,
            disk_written,
            screenshot: Some("/run/w/screens/stopped.png".into()),
            ..MachineObservation::default()
        }
    }

    /// Builds the whole message from the parts that vary.
    fn text(fact: &str, expected: &str, restarts: &str, lines: &[&str], cure: &str) -> String {
        let lines: String = lines.iter().map(|line| format!("\n  | {line}")).collect();
        format!(
            "{fact}\n  at: /run/w/screens/stopped.png\n  expected: {expected}\n  \
             found: no activity since 3 min 36 s after power-on, for 30 s, {restarts}{lines}\n  cure: {cure}"
        )
    }

    const WAITS: &str = "Windows Setup is waiting for input";
    const GOES_ON: &str = "Setup to continue without input";
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
            stands_still(&seen(0, 5 << 20), HypervisorKind::Qemu).to_string(),
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
        let read = MachineObservation {
            text: screen.map(String::from).to_vec(),
            ..seen(0, 0)
        };
        let likely = "likely: its syntax, an unknown component or element, a non-ASCII character, a setting in the wrong pass, or a value that Windows rejects, such as a simple password";
        let says = screen.map(|line| format!("the screen says: {line}"));
        let fact = "Windows Setup stopped: the answer file cannot be read";
        let cure = "look at the dialog: it names the pass, and often the component and the line";
        assert_eq!(
            stands_still(&read, HypervisorKind::Qemu).to_string(),
            text(
                fact,
                GOES_ON,
                BEFORE,
                &[likely, &says[0], &says[1], &says[2]],
                cure
            )
        );
        let blue = MachineObservation {
            blue: true,
            ..seen(1, 1 << 30)
        };
        let rendered = stands_still(&blue, HypervisorKind::Qemu).to_string();
        assert!(rendered.contains("| the screen has the colours of a stop error"));
    }

    #[test]
    fn under_hyper_v_a_setup_that_waits_is_reported_with_its_phase() {
        let causes = [
            "likely: an out-of-box page is waiting for input: locale (International-Core) or the Administrator's password is missing",
            "likely: an unplanned restart during the specialize or oobeSystem pass",
        ];
        assert_eq!(
            stands_still(&seen(2, 0), HypervisorKind::HyperV).to_string(),
            text(WAITS, GOES_ON, "after 2 restarts", &causes, LOOK)
        );
    }

    #[test]
    fn a_clone_at_a_stop_error_is_reported_by_its_pass() {
        let clone = MachineObservation {
            purpose: MachinePurpose::Clone,
            blue: true,
            ..seen(0, 0)
        };
        let fact = "Windows is stuck at a screen while starting as a clone";
        let lines = [
            "the screen has the colours of a stop error (blue screen)",
            "likely: a stop error (blue screen): the image has no driver that starts at boot for this controller",
            "likely: a command of the specialize pass failed or is waiting for input",
        ];
        assert_eq!(
            stands_still(&clone, HypervisorKind::Qemu).to_string(),
            text(fact, "Windows to start without input", BEFORE, &lines, LOOK)
        );
        let page = seen_text(2, "Hi there");
        assert_eq!(
            stands_still(&page, HypervisorKind::Qemu).fact(),
            "Windows stopped: the page for country and language"
        );
    }

    fn seen_text(restarts: u32, text: &str) -> MachineObservation {
        MachineObservation {
            purpose: MachinePurpose::Clone,
            text: vec![text.into()],
            ..seen(restarts, 1 << 30)
        }
    }

    #[test]
    fn an_agent_that_never_comes_is_reported_with_what_keeps_it_away() {
        let booted = MachineObservation {
            purpose: MachinePurpose::Boot,
            ..seen(0, 0)
        };
        let fact =
            "Windows does not start: it is stuck at a screen and its guest agent does not answer";
        let expected = "Windows to continue without input and its guest agent to answer";
        let causes = [
            "likely: a stop error (blue screen), or Windows' recovery after one: the disk's driver does not start",
            "likely: the guest agent's service QEMU-GA or its driver vioserial does not start",
        ];
        assert_eq!(
            stands_still(&booted, HypervisorKind::Qemu).to_string(),
            text(fact, expected, BEFORE, &causes, LOOK)
        );
    }
}
