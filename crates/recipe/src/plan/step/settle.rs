//! Windows at rest before it is sealed: sysprep refuses a pending restart, and an image sealed under servicing at work is not whole.
//!
//! A pending restart is carried out, once. What is still at work then is waited for, and named when the time is over. Asking changes
//! nothing in the guest but a list of processes in winimg's own folder, which goes with it.

use super::super::ExitRule;
use super::super::batch::Script;
use super::super::site::{MINUTE, QUICK, Site};
use super::FIND;
use super::registry::REG;
use super::service::SC;
use super::windows_image::{PENDING, rule};

const TASKLIST: &str = r"C:\Windows\System32\tasklist.exe";
/// tasklist's exit code would be lost in a pipe, and a list that could not be made names nothing.
const LIST: &str = r"C:\winimg\processes.txt";

/// There as long as packages wait to be installed (Microsoft: Sysprep; image-builder and others look for it).
const PACKAGES: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\PackagesPending";
/// There while Windows Update waits for a restart.
const UPDATE: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired";

/// What servicing works in, and the service that starts it.
const WORKER: &str = "TiWorker.exe";
const INSTALLER: &str = "TrustedInstaller";

/// A restart where one is pending, then the wait. The step's `timeout` counts for the wait.
pub(super) fn settle(site: &mut Site<'_>) {
    let mut restart = Script::of("set pending=");
    for key in [PENDING, UPDATE] {
        restart.line(format!("{REG} query \"{key}\" >nul 2>&1 && set pending=1"));
    }
    restart
        .line("if not defined pending exit /b 0\necho Windows waits for a restart\nexit /b 3010");
    site.put_judged(restart, rule(), QUICK);
    site.put_judged(at_rest(), ExitRule::Settled, 20 * MINUTE);
}

/// Names all that is at work. 1618 is Windows Installer's code for "another installation is in progress".
fn at_rest() -> Script {
    let mut script = Script::of("set busy=");
    for (key, why) in [
        (PENDING, "servicing waits for a restart"),
        (PACKAGES, "packages wait to be installed"),
        (UPDATE, "Windows Update waits for a restart"),
    ] {
        script.line(format!(
            "{REG} query \"{key}\" >nul 2>&1 && set busy=1&& echo {why}: {key}"
        ));
    }
    script.line(format!(
        "{TASKLIST} /fi \"imagename eq {WORKER}\" /nh >{LIST} 2>&1 || (type {LIST}& exit /b 1)\n\
         {FIND} /i \"{WORKER}\" {LIST} >nul && set busy=1&& echo servicing is at work: process {WORKER}\n\
         {SC} query {INSTALLER} | {FIND} \"STOPPED\" >nul || set busy=1&& echo servicing is at work: service {INSTALLER}"
    ));
    script.line("if defined busy exit /b 1618");
    script
}
