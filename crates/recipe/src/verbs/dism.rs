//! Servicing by `dism.exe /online` (Microsoft: DISM Windows features and DISM capabilities package
//! servicing command-line options).
//!
//! Only 0 and 3010 count as success: an unknown name, a missing source or a damaged store is always
//! an error. With a source the step's script runs on the payload disc, so that nothing is copied
//! into the image.

use crate::GuestPath;
use crate::ops::ExitRule;
use crate::ops::batch::BatchScript;
use crate::ops::compiler::{MINUTE, QUICK, StepCompiler, on_disc};
use crate::ops::programs::{DISM, REG};
use crate::ops::settle::PENDING;
use crate::verbs::content::{StepContent, find_folder};

pub const DISM_LOG: GuestPath = GuestPath::from_static(r"C:\Windows\Logs\DISM\dism.log");

/// Returns the rule for DISM: success, or success after a restart.
pub fn dism_rule() -> ExitRule {
    ExitRule::Listed {
        ok: vec![0],
        reboot: vec![3010],
    }
}

/// Exits with 3010 while servicing waits for a restart, so that the engine restarts the guest
/// first.
pub fn restart_if_pending(site: &mut StepCompiler<'_>) {
    let script = BatchScript::from_lines(format!(
        "{REG} query \"{PENDING}\" >nul 2>&1 || exit /b 0\necho Windows waits for a restart\nexit \
         /b 3010"
    ));
    site.put_judged(script, dism_rule(), QUICK);
}

/// Runs DISM; with a source, it uses only the source's files. The names in `arguments` are safe in
/// batch text.
pub fn run_dism(
    site: &mut StepCompiler<'_>,
    arguments: Vec<String>,
    source: Option<&StepContent>,
) -> Option<()> {
    let Some(source) = source else {
        site.run(DISM, arguments, dism_rule(), 60 * MINUTE);
        return Some(());
    };
    let entry = find_folder(site, source, &[])?;
    let entry = site.add_entry(entry);
    let script = BatchScript::from_lines(format!(
        "{DISM} {} /source:{} /limitaccess\nexit /b %errorlevel%",
        arguments.join(" "),
        on_disc(entry, "")
    ));
    site.put_judged(script, dism_rule(), 60 * MINUTE);
    Some(())
}
