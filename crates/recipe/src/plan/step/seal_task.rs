//! The seal as one task of SYSTEM: what the build set is taken back, sysprep runs, what it left is looked at, winimg's own traces
//! go, and Windows powers off. Once started it needs no session: generalize blanks the built-in Administrator's password
//! (Microsoft: Sysprep), and a session through it may end there.
//!
//! Whatever goes wrong ends the task before the power-off. Its log then becomes `seal-failed.log`, in one move: nothing reads
//! a file that is written to, and nothing holds one open that is to be deleted.

use std::time::Duration;

use super::super::batch::Script;
use super::super::seal::SEALED;
use super::super::site::{QUICK, Site};
use super::super::{ExitRule, Op, Planned};
use super::registry::REG;
use super::task::{AS_SERVICES, SCHTASKS, definition};
use super::{CMD, FIND, args};
use crate::recipe::verb::{TaskAction, TaskUser, Trigger};
use crate::recipe::{Encoding, GuestPath};
use winimg_base::text::{Located, crlf};

/// The task of `Op::Seal`. It deletes its registration when Windows is generalized.
const SEAL_TASK: &str = "winimg-seal";
/// What the task runs.
pub const SEAL_SCRIPT: &str = r"C:\winimg\seal.cmd";
/// Where the task stood when it gave up: its log, renamed once nothing more is written to it.
pub const SEAL_FAILED: &str = r"C:\winimg\seal-failed.log";
/// The same while it works. Its stages are lines that begin with `stage: `.
pub const SEAL_LOG: &str = r"C:\winimg\seal.log";

const PING: &str = r"C:\Windows\System32\ping.exe";
const SHUTDOWN: &str = r"C:\Windows\System32\shutdown.exe";

/// Tasks of winimg's: the seal's own, and those that PowerShell Direct ran programs in, with their folder.
const TASK_FILES: &str = r"C:\Windows\System32\Tasks\winimg-*";
const JOBS: &str = r"C:\ProgramData\winimg-jobs";

/// From sysprep's end to its tag, in looks that are 2 s apart.
const LOOKS: u32 = 15;

/// What the task does.
pub(super) struct Task {
    /// What is taken back: ends with 0 when it is gone.
    pub undo: Script,
    /// sysprep's command line.
    pub sysprep: String,
    /// What sysprep leaves when it went well.
    pub tag: &'static str,
}

/// What starts the task.
pub fn start_seal() -> (String, Vec<String>) {
    (SCHTASKS.to_owned(), args(["/run", "/tn", SEAL_TASK]))
}

/// Lays the task's files down, empties the drives, and starts it.
pub(super) fn seal(site: &mut Site<'_>, mut lay: Script, task: Task, timeout: Duration) {
    let place = site.step.place.clone();
    let action = TaskAction::Run {
        command: Located {
            value: GuestPath::known(CMD),
            place,
        },
        arguments: args(["/d", "/c", SEAL_SCRIPT]),
        trigger: Trigger::None,
        user: TaskUser::System,
        highest: true,
        delay: None,
        time_limit: None,
        description: None,
    };
    let definition = definition(&action, AS_SERVICES);
    let text = crlf(&batch(task));
    let own = site.text_entry("seal.cmd", text, Encoding::Utf8);
    let xml = site.text_entry("seal-task.xml", definition, Encoding::Utf16);
    lay.copy(&own, &format!("\"{SEAL_SCRIPT}\""));
    lay.copy(&xml, r#""C:\winimg\seal-task.xml""#);
    // Of an earlier try.
    lay.line(format!("if exist {SEAL_FAILED} del /f /q {SEAL_FAILED}"));
    lay.line(format!(
        "{SCHTASKS} /create /tn {SEAL_TASK} /xml C:\\winimg\\seal-task.xml /f || exit /b 1"
    ));
    site.put_judged(lay, ExitRule::Zero, QUICK);
    site.ops.push(Op::Eject);
    site.ops.push(Op::Seal { timeout });
    site.expect(Planned::Task {
        name: SEAL_TASK.to_owned(),
        present: false,
    });
    site.expect(Planned::Missing {
        path: GuestPath::known(JOBS),
    });
}

/// The batch file. `>>` stands before `echo`: a digit before it would name a stream.
fn batch(task: Task) -> String {
    let Task { undo, sysprep, tag } = task;
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
         if exist {tag} {REG} query {state} /v ImageState | {FIND} \"{SEALED}\" >nul && goto sealed\n\
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
         rd /s /q C:\\winimg & (if exist C:\\winimg\\ (>{SEAL_FAILED} echo stage: remove C:\\winimg) else {SHUTDOWN} /s /t 0) & exit\n\
         :failed\n\
         ren %log% seal-failed.log\n\
         exit /b 1\n\
         :undo\n\
         {undo}"
    )
}
