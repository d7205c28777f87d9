//! `cleanup`: what an image need not carry.
//!
//! What is not there is fine. What the recipe names itself (`paths`) must be gone or empty afterwards, and so must the
//! four logs that every Windows has be cleared; a temporary file or a download that is in use is only listed.

use super::super::ExitRule;
use super::super::batch::{self, Script};
use super::super::site::{MINUTE, Site};
use super::account::NET;
use super::service::SC;
use super::windows_image::{DISM, DISM_LOG, restart_if_pending, rule};
use super::{FIND, args};
use crate::recipe::verb::Cleanup;

const WEVTUTIL: &str = r"C:\Windows\System32\wevtutil.exe";
const DOWNLOADS: &str = r"C:\Windows\SoftwareDistribution\Download";

pub(super) fn cleanup(site: &mut Site<'_>, cleanup: &Cleanup) -> Option<()> {
    let mut script = Script::new();
    for path in &cleanup.paths {
        if path.value.is_vital() {
            let message = format!("Windows does not run without what is in `{}`", path.value);
            let help = "name the folder in it that can go";
            site.error_with_help(&path.place, message, "refused", help);
            return None;
        }
        let quoted = site.judged(batch::quoted_twice(path.value.as_str()), &path.place)?;
        named(&mut script, &quoted);
    }
    if cleanup.temp {
        empty(&mut script, r#""C:\Windows\Temp""#);
        temporary(&mut script);
    }
    if cleanup.update_cache {
        downloads(&mut script);
    }
    if cleanup.event_logs {
        event_logs(&mut script);
    }
    if cleanup.setup_logs {
        setup_logs(&mut script);
    }
    if cleanup.component_store {
        let mut arguments = args(["/online", "/cleanup-image", "/startcomponentcleanup"]);
        if cleanup.reset_base {
            arguments.push("/resetbase".to_owned());
        }
        arguments.push("/quiet".to_owned());
        arguments.push("/norestart".to_owned());
        // DISM refuses to clean over pending operations (0x800f0806).
        restart_if_pending(site);
        site.run(DISM, arguments, rule(), 120 * MINUTE);
        site.guest_log = Some(DISM_LOG);
    }
    if !script.is_empty() {
        site.put_judged(script, ExitRule::Zero, 60 * MINUTE);
    }
    Some(())
}

/// Everything in the folder, hidden files too; links are removed, not followed. The folder stays, with who may use it.
fn empty(script: &mut Script, folder: &str) {
    let bare = folder.trim_matches('"');
    script.line(format!(
        "if exist \"{bare}\\\" for /f \"delims=\" %%e in ('dir /b /a:d {folder} 2^>nul') do rd /s /q \"{bare}\\%%e\"\n\
         if exist \"{bare}\\\" del /f /q /a \"{bare}\\*\""
    ));
}

/// A file or folder that the recipe names.
fn named(script: &mut Script, path: &str) {
    let bare = path.trim_matches('"');
    empty(script, path);
    script.line(format!(
        "if not exist \"{bare}\\\" if exist {path} del /f /q /a {path}\n\
         set left=\n\
         if exist {path} for /f \"delims=\" %%e in ('dir /b /a {path} 2^>nul') do set left=1\n\
         if defined left dir /a {path}\n\
         if defined left echo {path} still holds what is listed above\n\
         if defined left exit /b 1"
    ));
}

/// Each profile's own.
fn temporary(script: &mut Script) {
    for (switch, remove) in [(" /d", "rd /s /q"), ("", "del /f /q /a")] {
        script.line(format!(
            r#"for /d %%u in ("C:\Users\*") do if exist "%%u\AppData\Local\Temp\" for{switch} %%e in ("%%u\AppData\Local\Temp\*") do {remove} "%%e""#
        ));
    }
}

/// The two services that write there are stopped, and started again if they ran.
fn downloads(script: &mut Script) {
    let services = ["wuauserv", "bits"];
    for service in services {
        script.line(format!(
            "set {service}=\n\
             {SC} query {service} | {FIND} \"RUNNING\" >nul && set {service}=1\n\
             if defined {service} {NET} stop {service} /y\n\
             if defined {service} if errorlevel 1 echo {service} does not stop"
        ));
    }
    empty(script, &format!("\"{DOWNLOADS}\""));
    script.line(format!("if exist \"{DOWNLOADS}\\\" dir /a \"{DOWNLOADS}\""));
    script.line("set failed=");
    for service in services {
        script.line(format!(
            "if defined {service} {NET} start {service}\n\
             set running=\n\
             {SC} query {service} | {FIND} \"RUNNING\" >nul && set running=1\n\
             if defined {service} if not defined running set failed={service}"
        ));
    }
    script.line(
        "if defined failed echo %failed% ran before and does not start again\n\
         if defined failed exit /b 1",
    );
}

/// Analytic and debug logs that are switched on cannot be cleared; the four of every Windows can.
fn event_logs(script: &mut Script) {
    script.line(format!(
        r#"for /f "delims=" %%l in ('{WEVTUTIL} el') do {WEVTUTIL} cl "%%l" >nul 2>&1"#
    ));
    for log in ["Application", "Security", "Setup", "System"] {
        script.line(format!("{WEVTUTIL} cl {log} || exit /b 1"));
    }
}

/// Of Setup, of servicing and of device installation. A log that is being written stays.
fn setup_logs(script: &mut Script) {
    for files in [
        r"C:\Windows\Panther\*.log",
        r"C:\Windows\Panther\*.etl",
        r"C:\Windows\Logs\CBS\*",
        r"C:\Windows\Logs\DISM\*",
        r"C:\Windows\INF\setupapi.*.log",
    ] {
        script.line(format!("if exist \"{files}\" del /f /q /a \"{files}\""));
    }
}
