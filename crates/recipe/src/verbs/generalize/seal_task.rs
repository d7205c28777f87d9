//! Seals Windows in one scheduled task that runs as SYSTEM: it reverts the build's settings, runs
//! sysprep, checks the result, removes winimg's own traces and powers off. Once started it needs no
//! session: generalize clears the built-in Administrator's password (Microsoft: Sysprep), which may
//! end a session of that account.
//!
//! Any error ends the task before the power-off. Its log is then renamed to `seal-failed.log`:
//! nothing reads a file that is being written, and nothing keeps a file open that is to be deleted.

use std::time::Duration;

use super::answer::SEALED;
use crate::GuestPath;
use crate::ops::batch::BatchScript;
use crate::ops::compiler::{QUICK, StepCompiler};
use crate::ops::programs::{CMD, FIND, REG, SCHTASKS, to_arguments};
use crate::ops::{Encoding, ExitRule, PlannedCheck, PlannedOp};
use crate::verbs::task_definition::{
    AS_SERVICES, TaskAction, TaskTrigger, TaskUser, render_definition,
};
use winimg_base::text::{Located, to_crlf};

/// The task of `Op::Seal`. It deletes its registration once Windows is generalized.
const SEAL_TASK: &str = "winimg-seal";

/// The script that the task runs.
pub const SEAL_SCRIPT: &str = r"C:\winimg\seal.cmd";

/// Log of a failed task, renamed once nothing more is written to it.
pub const SEAL_FAILED: &str = r"C:\winimg\seal-failed.log";

/// Log of the running task. Its stages are lines that begin with `stage: `.
pub const SEAL_LOG: &str = r"C:\winimg\seal.log";

const PING: &str = r"C:\Windows\System32\ping.exe";

const SHUTDOWN: &str = r"C:\Windows\System32\shutdown.exe";

/// Tasks of winimg: the seal's own, and those that run programs for PowerShell Direct, with their
/// folder.
const TASK_FILES: &str = r"C:\Windows\System32\Tasks\winimg-*";

const JOBS: &str = r"C:\ProgramData\winimg-jobs";

/// Number of checks for sysprep's tag after it has exited, 2 s apart.
const LOOKS: u32 = 15;

/// The parts of the task's script.
pub struct SealTask {
    /// Reverts the build's settings; exits with 0 on success.
    pub undo: BatchScript,
    /// Command line of sysprep.
    pub sysprep: String,
    /// The file that sysprep creates on success.
    pub tag: &'static str,
}

/// Returns the command that starts the task.
pub fn start_seal() -> (String, Vec<String>) {
    (
        SCHTASKS.to_owned(),
        to_arguments(["/run", "/tn", SEAL_TASK]),
    )
}

/// Writes the task's files, ejects the discs, and starts the task.
pub fn seal(site: &mut StepCompiler<'_>, mut lay: BatchScript, task: SealTask, timeout: Duration) {
    let place = site.step.place.clone();
    let action = TaskAction::Run {
        command: Located {
            value: GuestPath::from_static(CMD),
            place,
        },
        arguments: to_arguments(["/d", "/c", SEAL_SCRIPT]),
        trigger: TaskTrigger::None,
        user: TaskUser::System,
        highest: true,
        delay: None,
        time_limit: None,
        description: None,
    };
    let definition = render_definition(&action, AS_SERVICES);
    let text = to_crlf(&render_batch(task));
    let own = site.text_entry("seal.cmd", text, Encoding::Utf8);
    let xml = site.text_entry("seal-task.xml", definition, Encoding::Utf16);
    lay.copy(&own, &format!("\"{SEAL_SCRIPT}\""));
    lay.copy(&xml, r#""C:\winimg\seal-task.xml""#);
    // Left by an earlier try.
    lay.add_line(format!("if exist {SEAL_FAILED} del /f /q {SEAL_FAILED}"));
    lay.add_line(format!(
        "{SCHTASKS} /create /tn {SEAL_TASK} /xml C:\\winimg\\seal-task.xml /f || exit /b 1"
    ));
    site.put_judged(lay, ExitRule::Zero, QUICK);
    site.ops.push(PlannedOp::Eject);
    site.ops.push(PlannedOp::Seal { timeout });
    site.expect(PlannedCheck::Task {
        name: SEAL_TASK.to_owned(),
        present: false,
    });
    site.expect(PlannedCheck::Missing {
        path: GuestPath::from_static(JOBS),
    });
}

/// Renders the batch file. `>>` comes before `echo`, because a digit before it would name a stream.
fn render_batch(task: SealTask) -> String {
    let SealTask { undo, sysprep, tag } = task;
    let state = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State";
    let undo = undo.finish();
    let undo = undo.trim_start_matches("@echo off\n");
    format!(
        "@echo off\n\
         set log={SEAL_LOG}\n\
         >%log% echo stage: take back what the build set\n\
         call :undo >>%log% 2>&1 || goto failed\n\
         >>%log% echo stage: sysprep\n\
         {sysprep}\n\
         >>%log% echo sysprep ended with %errorlevel%\n\
         set looks=0\n\
         :look\n\
         if exist {tag} {REG} query {state} /v ImageState | {FIND} \"{SEALED}\" >nul && goto \
         sealed\n\
         set /a looks+=1\n\
         if %looks% gtr {LOOKS} goto failed\n\
         {PING} -n 3 127.0.0.1 >nul\n\
         goto look\n\
         :sealed\n\
         >>%log% echo stage: remove winimg's tasks\n\
         for %%G in ({TASK_FILES}) do {SCHTASKS} /delete /tn %%~nxG /f >>%log% 2>&1\n\
         if exist {TASK_FILES} goto failed\n\
         if exist {JOBS}\\ rd /s /q {JOBS} >>%log% 2>&1\n\
         if exist {JOBS}\\ goto failed\n\
         rem The rest is one line: the file that it stands in goes.\n\
         rd /s /q C:\\winimg & (if exist C:\\winimg\\ (>{SEAL_FAILED} echo stage: remove \
         C:\\winimg) else {SHUTDOWN} /s /t 0) & exit\n\
         :failed\n\
         ren %log% seal-failed.log\n\
         exit /b 1\n\
         :undo\n\
         {undo}"
    )
}
