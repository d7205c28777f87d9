//! From power-on to a guest that is ready to be provisioned.
//!
//! Ready means four things at once: the guest responds, our bootstrap succeeded, Windows reports a
//! complete installation, and Setup's own programs have ended. A response alone is not enough: the
//! guest also responds behind Setup's error dialogs. Nor are the next two: windeploy.exe may still
//! run after SetupComplete.cmd.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, trace};

use super::image_state::{SetupStatus, image_state, setup};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Phase, Sink};
use winimg_machine::guest::{Guest, GuestCommand};
use winimg_machine::vm::VirtualMachine;

/// Written last by the bootstrap's SetupComplete.cmd: `name=code` lines, then `result=ok` or
/// `result=failed`.
const MARKER: &str = r"C:\winimg\bootstrap.done";
/// Time from the guest's first response to a finished Setup.
const READY_TIMEOUT: Duration = Duration::from_secs(900);
const COMPLETE: &str = "IMAGE_STATE_COMPLETE";

pub fn install(
    machine: &mut dyn VirtualMachine,
    slowness: u32,
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
) -> Result<Box<dyn Guest>> {
    let mut guest = machine.wait_for_guest()?;
    sink.emit(&Event::Progress {
        phase: Phase::Install,
        text: format!(
            "{} responds; waiting for Setup to finish",
            guest.describe_channel()
        ),
    });
    wait_ready(guest.as_mut(), READY_TIMEOUT, slowness, cancel)?;
    Ok(guest)
}

fn wait_ready(
    guest: &mut dyn Guest,
    timeout: Duration,
    slowness: u32,
    cancel: &Cancel,
) -> Result<()> {
    debug!(timeout = ?timeout * slowness, "waiting for Setup");
    let deadline = guest.now() + timeout * slowness;
    let mut seen = SetupProgress::default();
    loop {
        seen.update(guest, slowness)?;
        if seen.is_ready() {
            return Ok(());
        }
        if guest.now() > deadline {
            return Err(seen.timed_out(guest.describe_channel()));
        }
        cancel.sleep(Duration::from_secs(1))?;
    }
}

/// Answer files that Setup leaves in the guest, possibly with the build's password (Microsoft:
/// Windows Setup automation overview; newer versions of Setup keep the installation's file
/// unchanged).
pub(super) const ANSWER_FILES: [&str; 4] = [
    r"C:\Windows\Panther\unattend.xml",
    r"C:\Windows\Panther\unattend-original.xml",
    r"C:\Windows\Panther\Unattend\unattend.xml",
    r"C:\Windows\Panther\Unattend\Autounattend.xml",
];

/// Removes the answer files from a finished installation, so that no layer contains them. Checks
/// that they are gone, because `del` succeeds even if it deletes nothing.
pub fn remove_answer_files(guest: &mut dyn Guest, slowness: u32) -> Result<()> {
    for file in ANSWER_FILES {
        if guest.get(file, 1 << 20)?.is_none() {
            continue;
        }
        guest.run(&build_removal(file, slowness), &mut |_| {})?;
        if guest.get(file, 1 << 20)?.is_some() {
            return Err(Error::new(
                Kind::Machine,
                "an answer file of the installation cannot be removed from the guest",
            )
            .at(file));
        }
    }
    Ok(())
}

pub(super) fn build_removal(file: &str, slowness: u32) -> GuestCommand {
    GuestCommand {
        program: r"C:\Windows\System32\cmd.exe".into(),
        arguments: ["/d", "/c", "del", "/f", "/q", file]
            .map(String::from)
            .into(),
        timeout: Duration::from_secs(60) * slowness,
    }
}

#[derive(Debug, Default)]
struct SetupProgress {
    marker: Option<String>,
    state: String,
    /// Queried only once the other two are complete.
    setup: Option<SetupStatus>,
}

impl SetupProgress {
    fn update(&mut self, guest: &mut dyn Guest, slowness: u32) -> Result<()> {
        self.marker = guest
            .get(MARKER, 64 << 10)?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        self.state = image_state(guest, slowness)?;
        self.setup = if self.is_complete()? {
            Some(setup(guest, slowness)?)
        } else {
            None
        };
        trace!(
            marker = self.marker,
            state = self.state,
            setup = ?self.setup,
            "checked Setup"
        );
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.setup.is_some_and(SetupStatus::has_ended)
    }

    /// Returns true if both the bootstrap and Windows report completion. Fails if the bootstrap
    /// failed.
    fn is_complete(&self) -> Result<bool> {
        let mut lines = self.marker.iter().flat_map(|marker| marker.lines());
        let result = lines.find_map(|line| line.trim().strip_prefix("result="));
        match result.map(str::trim) {
            Some("ok") => Ok(self.state == COMPLETE),
            None => Ok(false),
            Some(_) => Err(
                Error::new(Kind::Setup, "the bootstrap inside Windows failed")
                    .at(MARKER)
                    .expected("result=ok")
                    .lines(self.marker.iter().flat_map(|marker| marker.lines()))
                    .cure("the line with an exit code other than 0 names what failed"),
            ),
        }
    }

    fn timed_out(&self, channel: &str) -> Error {
        let error = Error::new(
            Kind::Setup,
            format!("{channel} responds, but Windows Setup does not finish"),
        )
        .expected(format!(
            "{MARKER} with result=ok, {COMPLETE}, SystemSetupInProgress = 0 and SetupType = 0"
        ));
        let marker = match &self.marker {
            Some(_) => "the marker is there",
            None => "no marker",
        };
        let state = match self.state.as_str() {
            "" => "no ImageState",
            state => state,
        };
        let setup = self.setup.map_or(String::new(), |s| format!(", {s}"));
        error.found(format!("{marker}, {state}{setup}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::frozen_guest::FrozenGuest;

    fn judged(marker: Option<&str>, state: &str) -> String {
        let progress = SetupProgress {
            marker: marker.map(String::from),
            state: state.into(),
            setup: None,
        };
        match progress.is_complete() {
            Ok(true) => "complete".into(),
            Ok(false) => "not yet".into(),
            Err(error) => error.fact().to_string(),
        }
    }

    #[test]
    fn a_setup_that_does_not_finish_is_reported_with_what_answers() {
        let late = SetupProgress::default().timed_out("PowerShell Direct");
        assert_eq!(
            late.to_string(),
            "PowerShell Direct responds, but Windows Setup does not finish\n  \
             expected: C:\\winimg\\bootstrap.done with result=ok, IMAGE_STATE_COMPLETE, SystemSetupInProgress = 0 \
             and SetupType = 0\n  \
             found: no marker, no ImageState"
        );
    }

    #[test]
    fn time_in_which_the_machine_stands_is_not_counted() {
        let mut guest = FrozenGuest::new();
        let limit = Duration::from_millis(1500);
        let waited = wait_ready(&mut guest, limit, 1, &Cancel::default());
        assert!(waited.is_ok(), "{waited:?}");
        assert_eq!(guest.looks, 3);
    }

    #[test]
    fn a_windeploy_that_goes_on_is_named() {
        let mut guest = FrozenGuest::new();
        guest.setup = "    SystemSetupInProgress    REG_DWORD    0x1\r\n    SetupType    REG_DWORD    0x2\r\n";
        let mut seen = SetupProgress::default();
        // The marker is there at the third look.
        for _ in 0..3 {
            seen.update(&mut guest, 1).expect("a look");
        }
        assert!(!seen.is_ready());
        assert_eq!(
            seen.timed_out("the guest agent").to_string(),
            "the guest agent responds, but Windows Setup does not finish\n  \
             expected: C:\\winimg\\bootstrap.done with result=ok, IMAGE_STATE_COMPLETE, SystemSetupInProgress = 0 \
             and SetupType = 0\n  \
             found: the marker is there, IMAGE_STATE_COMPLETE, SystemSetupInProgress = 1, SetupType = 2"
        );
    }

    #[test]
    fn complete_is_the_marker_and_windows_own_word() {
        assert_eq!(judged(None, COMPLETE), "not yet");
        assert_eq!(
            judged(Some("qga=0\r\nresult=ok\r\n"), "IMAGE_STATE_UNDEPLOYABLE"),
            "not yet"
        );
        assert_eq!(judged(Some("qga=0\r\n"), COMPLETE), "not yet");
        assert_eq!(
            judged(Some("qga=0\r\nresult=ok \r\n"), COMPLETE),
            "complete"
        );
        assert_eq!(
            judged(Some("qga=1603\r\nresult=failed\r\n"), COMPLETE),
            "the bootstrap inside Windows failed"
        );
    }
}
