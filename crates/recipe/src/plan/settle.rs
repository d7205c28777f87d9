//! Windows at rest: no restart is pending and servicing has ended.
//!
//! The engine waits for it before the seal, because sysprep refuses a pending restart and an image that is sealed while
//! servicing works is damaged; and after each restart or start that follows servicing, because Windows answers while it
//! still configures a feature or an update and may then restart by itself (reported: hashicorp/packer#6799; 60 to 90 s
//! after the first start by the authors of cofoundry). Asking changes nothing in the guest but a list of processes in
//! winimg's own folder, which is removed with it.

use std::time::Duration;

use super::batch::Script;
use super::{ExitRule, Put};
use crate::recipe::Recipe;

const REG: &str = r"C:\Windows\System32\reg.exe";
const SC: &str = r"C:\Windows\System32\sc.exe";
const FIND: &str = r"C:\Windows\System32\find.exe";
const TASKLIST: &str = r"C:\Windows\System32\tasklist.exe";
/// tasklist's exit code would be lost in a pipe, and a list that could not be made names nothing.
const LIST: &str = r"C:\winimg\processes.txt";

/// Exists while servicing waits for a restart.
pub(super) const PENDING: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending";
/// Exists while packages wait to be installed (Microsoft: Sysprep; image-builder and others look for it).
const PACKAGES: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\PackagesPending";
/// Exists while Windows Update waits for a restart.
const UPDATE: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired";

/// The program that servicing works in, and the service that starts it.
const WORKER: &str = "TiWorker.exe";
const INSTALLER: &str = "TrustedInstaller";

/// For one question.
const QUICK: Duration = Duration::from_secs(5 * 60);

/// The least time that Windows gets to come to rest.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// How the engine waits until Windows is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// How long Windows has to stay up after a restart before it is asked.
    pub steady: Duration,
    /// Limit for the whole wait.
    pub timeout: Duration,
}

impl Settle {
    /// `own`: the step's `timeout`, which can extend the wait after a restart but not shorten it.
    pub(super) fn after_restart(recipe: &Recipe, own: Option<Duration>) -> Self {
        Self {
            steady: recipe.setup.settle_time,
            timeout: own.map_or(TIMEOUT, |own| own.max(TIMEOUT)),
        }
    }

    /// `own`: the step's `timeout`, which is the limit of a wait that the step itself asks for.
    pub(super) fn asked_for(recipe: &Recipe, own: Option<Duration>) -> Self {
        Self {
            steady: recipe.setup.settle_time,
            timeout: own.unwrap_or(TIMEOUT),
        }
    }

    /// Returns the script that asks Windows, which each payload disc has as `s\000-2.cmd`. It names everything that is
    /// at work. 1618 is Windows Installer's code for "another installation is in progress".
    pub fn question() -> Put {
        let mut script = Script::of("set pending=\nset busy=\nset working=");
        for (key, flag, why) in [
            (PENDING, "pending", "servicing waits for a restart"),
            (UPDATE, "pending", "Windows Update waits for a restart"),
            (PACKAGES, "busy", "packages wait to be installed"),
        ] {
            script.line(format!(
                "{REG} query \"{key}\" >nul 2>&1 && set {flag}=1&& echo {why}: {key}"
            ));
        }
        script.line(format!(
            "{TASKLIST} /fi \"imagename eq {WORKER}\" /nh >{LIST} 2>&1 || (type {LIST}& exit /b 1)\n\
             {FIND} /i \"{WORKER}\" {LIST} >nul && set working=1&& echo servicing is at work: process {WORKER}\n\
             {SC} query {INSTALLER} | {FIND} \"STOPPED\" >nul || set busy=1&& echo servicing is at work: service {INSTALLER}"
        ));
        script.line(
            "if defined working exit /b 1618\nif defined pending exit /b 3010\nif defined busy exit /b 1618",
        );
        Put {
            script: 0,
            part: 1,
            text: script.finish(),
            exit: ExitRule::Settled,
            timeout: QUICK,
        }
    }
}
