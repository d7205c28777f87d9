//! The verb `cleanup` removes what an image does not need.
//!
//! Missing files are not an error. Paths that the recipe names must be gone or empty afterwards,
//! and the four logs that every Windows has must be cleared; temporary files and downloads in use
//! are only listed.

use crate::GuestPath;
use crate::document::value::{TomlData, TomlValue};
use crate::fields::{LoweringContext, TableReader};
use crate::ops::ExitRule;
use crate::ops::batch::{self, BatchScript};
use crate::ops::compiler::{MINUTE, StepCompiler};
use crate::ops::programs::{DISM, FIND, NET, SC, to_arguments};
use crate::verbs::dism::{DISM_LOG, dism_rule, restart_if_pending};
use winimg_base::diag::Diagnostic;
use winimg_base::text::Located;

/// `cleanup`: removes files that an image does not need.
#[derive(Clone, Debug, Default)]
pub struct CleanupSpec {
    pub component_store: bool,
    /// Superseded components cannot be restored.
    pub reset_base: bool,
    pub temp: bool,
    pub update_cache: bool,
    pub event_logs: bool,
    pub setup_logs: bool,
    /// Files, or folders whose content is removed.
    pub paths: Vec<Located<GuestPath>>,
}

const WEVTUTIL: &str = r"C:\Windows\System32\wevtutil.exe";

const DOWNLOADS: &str = r"C:\Windows\SoftwareDistribution\Download";

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<CleanupSpec> {
    let fields = TableReader::open(cx, value, "cleanup")?;
    let paths = fields.guest_paths("paths");
    let paths_valid = paths.is_some();
    let cleanup = CleanupSpec {
        component_store: fields.flag("component_store"),
        reset_base: fields.flag("reset_base"),
        temp: fields.flag("temp"),
        update_cache: fields.flag("update_cache"),
        event_logs: fields.flag("event_logs"),
        setup_logs: fields.flag("setup_logs"),
        paths: paths.unwrap_or_default(),
    };
    if cleanup.reset_base && !cleanup.component_store {
        let place = fields.table.find_entry("reset_base").map(|e| &e.key_place);
        let fact = "`reset_base` without `component_store`";
        let help = "add `component_store = true`: `reset_base` is part of that cleanup";
        cx.error(fact, place.unwrap_or(&fields.place), "", help);
        return None;
    }
    let is_empty = paths_valid
        && cleanup.paths.is_empty()
        && ![
            cleanup.component_store,
            cleanup.temp,
            cleanup.update_cache,
            cleanup.event_logs,
            cleanup.setup_logs,
        ]
        .contains(&true);
    // Wrong values and keys have been reported already.
    if is_empty
        && fields
            .table
            .entries
            .iter()
            .all(|e| matches!(e.value.data, TomlData::Bool(_)))
    {
        let diagnostic = Diagnostic::error("`cleanup` has nothing to do")
            .at(&fields.place, "")
            .help(
                "choose what to remove: \
                 `cleanup = { component_store = true, temp = true, update_cache = true }`",
            );
        cx.report(diagnostic);
    }
    (!is_empty && paths_valid).then_some(cleanup)
}

pub fn compile(site: &mut StepCompiler<'_>, cleanup: &CleanupSpec) -> Option<()> {
    let mut script = BatchScript::new();
    for path in &cleanup.paths {
        if path.value.is_vital() {
            let message = format!("Windows cannot run without the content of `{}`", path.value);
            let help = "name the folder in it that can be removed";
            site.error_with_help(&path.place, message, "refused", help);
            return None;
        }
        let quoted = site.report_error(batch::quoted_twice(path.value.as_str()), &path.place)?;
        remove_path(&mut script, &quoted);
    }
    if cleanup.temp {
        empty_folder(&mut script, r#""C:\Windows\Temp""#);
        remove_temporary_files(&mut script);
    }
    if cleanup.update_cache {
        remove_downloads(&mut script);
    }
    if cleanup.event_logs {
        event_logs(&mut script);
    }
    if cleanup.setup_logs {
        setup_logs(&mut script);
    }
    if cleanup.component_store {
        let mut arguments = to_arguments(["/online", "/cleanup-image", "/startcomponentcleanup"]);
        if cleanup.reset_base {
            arguments.push("/resetbase".to_owned());
        }
        arguments.push("/quiet".to_owned());
        arguments.push("/norestart".to_owned());
        // DISM refuses to clean over pending operations (0x800f0806).
        restart_if_pending(site);
        site.run(DISM, arguments, dism_rule(), 120 * MINUTE);
        site.guest_log = Some(DISM_LOG);
    }
    if !script.is_empty() {
        site.put_judged(script, ExitRule::Zero, 60 * MINUTE);
    }
    Some(())
}

/// Removes everything in the folder, including hidden files; links are removed, not followed. The
/// folder itself stays, with its access list.
fn empty_folder(script: &mut BatchScript, folder: &str) {
    let bare = folder.trim_matches('"');
    script.add_line(format!(
        "if exist \"{bare}\\\" for /f \"delims=\" %%e in ('dir /b /a:d {folder} 2^>nul') do rd /s \
         /q \"{bare}\\%%e\"\n\
         if exist \"{bare}\\\" del /f /q /a \"{bare}\\*\""
    ));
}

/// Removes a file, or the content of a folder, that the recipe names.
fn remove_path(script: &mut BatchScript, path: &str) {
    let bare = path.trim_matches('"');
    empty_folder(script, path);
    script.add_line(format!(
        "if not exist \"{bare}\\\" if exist {path} del /f /q /a {path}\n\
         set left=\n\
         if exist {path} for /f \"delims=\" %%e in ('dir /b /a {path} 2^>nul') do set left=1\n\
         if defined left dir /a {path}\n\
         if defined left echo {path} still holds what is listed above\n\
         if defined left exit /b 1"
    ));
}

/// Removes the temporary files of each profile.
fn remove_temporary_files(script: &mut BatchScript) {
    for (switch, remove) in [(" /d", "rd /s /q"), ("", "del /f /q /a")] {
        let folder = r"%%u\AppData\Local\Temp";
        script.add_line(format!(
            r#"for /d %%u in ("C:\Users\*") do if exist "{folder}\" {}"#,
            format_args!(r#"for{switch} %%e in ("{folder}\*") do {remove} "%%e""#)
        ));
    }
}

/// Removes downloaded updates. The two services that write there are stopped, and started again if
/// they were running.
fn remove_downloads(script: &mut BatchScript) {
    let services = ["wuauserv", "bits"];
    for service in services {
        script.add_line(format!(
            "set {service}=\n\
             {SC} query {service} | {FIND} \"RUNNING\" >nul && set {service}=1\n\
             if defined {service} {NET} stop {service} /y\n\
             if defined {service} if errorlevel 1 echo {service} does not stop"
        ));
    }
    empty_folder(script, &format!("\"{DOWNLOADS}\""));
    script.add_line(format!("if exist \"{DOWNLOADS}\\\" dir /a \"{DOWNLOADS}\""));
    script.add_line("set failed=");
    for service in services {
        script.add_line(format!(
            "if defined {service} {NET} start {service}\n\
             set running=\n\
             {SC} query {service} | {FIND} \"RUNNING\" >nul && set running=1\n\
             if defined {service} if not defined running set failed={service}"
        ));
    }
    script.add_line(
        "if defined failed echo %failed% ran before and does not start again\n\
         if defined failed exit /b 1",
    );
}

/// Clears all event logs. Enabled analytic and debug logs cannot be cleared; the four of every
/// Windows can.
fn event_logs(script: &mut BatchScript) {
    script.add_line(format!(
        r#"for /f "delims=" %%l in ('{WEVTUTIL} el') do {WEVTUTIL} cl "%%l" >nul 2>&1"#
    ));
    for log in ["Application", "Security", "Setup", "System"] {
        script.add_line(format!("{WEVTUTIL} cl {log} || exit /b 1"));
    }
}

/// Removes logs of Setup, servicing and device installation. A log in use stays.
fn setup_logs(script: &mut BatchScript) {
    for files in [
        r"C:\Windows\Panther\*.log",
        r"C:\Windows\Panther\*.etl",
        r"C:\Windows\Logs\CBS\*",
        r"C:\Windows\Logs\DISM\*",
        r"C:\Windows\INF\setupapi.*.log",
    ] {
        script.add_line(format!("if exist \"{files}\" del /f /q /a \"{files}\""));
    }
}
