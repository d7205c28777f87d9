//! The seal, as it is waited for: a Windows that does not come to rest, and what sysprep leaves.

use std::time::Duration;

use tracing::trace;

use super::image_state::image_state;
use super::step_log::{LAST_LINES, StepLog};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_machine::guest::Guest;

/// From the first error in sysprep's log, after its end, to its tag.
const SYSPREP_GRACE: Duration = Duration::from_secs(30);

/// The log's last attempt names what is at work.
pub(super) fn restless(timeout: Duration, log: &StepLog) -> Error {
    let minutes = timeout.as_secs() / 60;
    Error::new(
        Kind::Step,
        format!("Windows was still at work after {minutes} min, and is not sealed"),
    )
    .expected("no pending restart and no servicing at work")
    .found(log.said())
    .cure("let the update end that does it, with a `reboot` step after it, or give `generalize` a longer `timeout`")
}

/// Sysprep's exit code and a power-off are both weak evidence: its tag and ImageState are asked
/// (Microsoft: Sysprep process overview; Windows Setup states). The program has ended by now, so errors in its log
/// and no tag are believed soon.
pub(super) fn generalized(
    guest: &mut dyn Guest,
    timeout: Duration,
    slowness: u32,
    cancel: &Cancel,
) -> Result<()> {
    const LOG: &str = r"C:\Windows\System32\Sysprep\Panther\setuperr.log";
    let mut deadline = guest.now() + timeout * slowness;
    loop {
        let state = image_state(guest, slowness)?;
        trace!(state, "Sysprep is waited for");
        let tag = guest
            .get(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag", 4096)?
            .is_some();
        if tag && state == "IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE" {
            return Ok(());
        }
        let log = guest.get(LOG, 1 << 20)?.unwrap_or_default();
        if !tag && !log.is_empty() {
            deadline = deadline.min(guest.now() + SYSPREP_GRACE);
        }
        if guest.now() > deadline {
            let log = String::from_utf8_lossy(&log).into_owned();
            let lines: Vec<&str> = log.lines().collect();
            return Err(
                Error::new(Kind::Step, "sysprep did not generalize the image")
                    .expected("Sysprep_succeeded.tag and IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE")
                    .found(format!("{} tag and {state}", if tag { "a" } else { "no" }))
                    .lines(lines.iter().rev().take(LAST_LINES).rev().copied())
                    .cure("the lines above are from Sysprep\\Panther\\setuperr.log in the guest"),
            );
        }
        cancel.sleep(Duration::from_secs(2))?;
    }
}
