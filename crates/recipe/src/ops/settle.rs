//! Waits until Windows is idle: no restart is pending and servicing has finished.
//!
//! The engine waits before the seal, because sysprep refuses a pending restart and an image that is
//! sealed during servicing is damaged. It also waits after each restart or start that follows
//! servicing, because Windows already responds while it configures a feature or an update, and may
//! then restart by itself (reported: hashicorp/packer#6799; 60 to 90 s after the first start by the
//! authors of cofoundry). The query changes nothing in the guest except for a list of processes in
//! winimg's own folder, which is removed with it.

use std::time::Duration;

use super::batch::BatchScript;
use super::programs::{FIND, REG, SC};
use super::{ExitRule, PayloadScript};
use crate::Recipe;

const TASKLIST: &str = r"C:\Windows\System32\tasklist.exe";
/// A file, because a pipe would lose tasklist's exit code, and a failed list would look empty.
const LIST: &str = r"C:\winimg\processes.txt";

/// Exists while servicing waits for a restart.
pub(crate) const PENDING: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending";
/// Exists while packages wait to be installed (Microsoft: Sysprep; image-builder and others check
/// it).
const PACKAGES: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\PackagesPending";
/// Exists while Windows Update waits for a restart.
const UPDATE: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired";

/// The servicing worker process, and the service that starts it.
const WORKER: &str = "TiWorker.exe";
const INSTALLER: &str = "TrustedInstaller";

/// Limit for one query.
const QUICK: Duration = Duration::from_secs(5 * 60);

/// Minimum limit of the wait.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Parameters of the wait until Windows is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettleWait {
    /// Time that Windows must stay up after a restart before it is queried.
    pub steady: Duration,
    /// Limit for the whole wait.
    pub timeout: Duration,
}

impl SettleWait {
    /// Returns the wait after a restart. The step's `timeout`, `own`, can extend but not shorten
    /// it.
    pub(crate) fn after_restart(recipe: &Recipe, own: Option<Duration>) -> Self {
        Self {
            steady: recipe.setup.settle_time,
            timeout: own.map_or(TIMEOUT, |own| own.max(TIMEOUT)),
        }
    }

    /// Returns the wait that a step itself requests, limited by its `timeout`, `own`.
    pub(crate) fn asked_for(recipe: &Recipe, own: Option<Duration>) -> Self {
        Self {
            steady: recipe.setup.settle_time,
            timeout: own.unwrap_or(TIMEOUT),
        }
    }

    /// Returns the script that queries Windows, which each payload disc has as `s\000-2.cmd`. It
    /// prints everything that is active. 1618 is Windows Installer's code for "another installation
    /// is in progress".
    pub fn question() -> PayloadScript {
        let mut script = BatchScript::from_lines("set pending=\nset busy=\nset working=");
        for (key, flag, why) in [
            (PENDING, "pending", "servicing waits for a restart"),
            (UPDATE, "pending", "Windows Update waits for a restart"),
            (PACKAGES, "busy", "packages wait to be installed"),
        ] {
            script.add_line(format!(
                "{REG} query \"{key}\" >nul 2>&1 && set {flag}=1&& echo {why}: {key}"
            ));
        }
        script.add_line(format!(
            "{TASKLIST} /fi \"imagename eq {WORKER}\" /nh >{LIST} 2>&1 || (type {LIST}& exit /b \
             1)\n\
             {FIND} /i \"{WORKER}\" {LIST} >nul && set working=1&& echo servicing is at work: \
             process {WORKER}\n\
             {SC} query {INSTALLER} | {FIND} \"STOPPED\" >nul || set busy=1&& echo servicing is at \
             work: service {INSTALLER}"
        ));
        script.add_line(
            "if defined working exit /b 1618\nif defined pending exit /b 3010\nif defined busy \
             exit /b 1618",
        );
        PayloadScript {
            script: 0,
            part: 1,
            text: script.finish(),
            exit: ExitRule::Settled,
            timeout: QUICK,
        }
    }
}
