//! Compiles `cmd` and `powershell`. The script is run from a file, so that nothing has to be
//! quoted.

use std::time::Duration;

use super::super::ExitRule;
use super::super::batch::BatchScript;
use super::super::step_compiler::{MINUTE, StepCompiler, exit_rule};
use super::{CMD, POWERSHELL, to_arguments};
use crate::recipe::{Encoding, ExitCodes};
use winimg_base::text::to_crlf;

/// Options before the script's path.
pub(super) const POWERSHELL_OPTIONS: [&str; 6] = [
    "-NoLogo",
    "-NoProfile",
    "-NonInteractive",
    "-ExecutionPolicy",
    "Bypass",
    "-File",
];
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Calls a script so that its first error ends it with 1, and PowerShell exits with its exit code
/// or that of the last program it ran (Microsoft: about_Automatic_Variables,
/// about_Preference_Variables). The wrapper is the same for every script, so parse errors,
/// here-strings and line numbers are those of the script.
pub const WRAPPER: &str = "\
param([Parameter(Mandatory = $true)][string] $Script)
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
$global:LASTEXITCODE = 0
try {
    & $Script
}
catch {
    [Console]::Error.WriteLine(($_ | Out-String).Trim())
    [Console]::Error.WriteLine($_.ScriptStackTrace)
    exit 1
}
exit $global:LASTEXITCODE
";

pub(super) fn compile_cmd(
    site: &mut StepCompiler<'_>,
    text: &str,
    codes: &ExitCodes,
) -> Option<()> {
    if let Some(c) = text.chars().find(|c| !c.is_ascii()) {
        let place = &site.step.place;
        site.warn(
            place,
            format!("the script contains `{c}`, which cmd reads in the console's code page"),
            "",
            "keep batch text in ASCII, or use `powershell`, whose file is UTF-8",
        );
    }
    let rule = exit_rule(codes, ExitRule::Zero, &[]);
    batch_file(site, text, rule, HOUR);
    Some(())
}

/// Writes the text as the step's `.cmd` and runs it.
pub(super) fn batch_file(
    site: &mut StepCompiler<'_>,
    text: &str,
    rule: ExitRule,
    timeout: Duration,
) {
    let mut script = BatchScript::new();
    batch_file_after(site, &mut script, text);
    site.put(script);
    run_batch_file(site, rule, timeout);
}

pub(super) fn batch_file_after(site: &mut StepCompiler<'_>, script: &mut BatchScript, text: &str) {
    let from = site.text_entry("step.cmd", to_crlf(&ensure_newline(text)), Encoding::Utf8);
    script.make_folder(r#""C:\winimg\steps""#);
    script.copy(&from, &format!("\"{}\"", site.step_file("cmd")));
}

pub(super) fn run_batch_file(site: &mut StepCompiler<'_>, rule: ExitRule, timeout: Duration) {
    let file = site.step_file("cmd");
    site.run(CMD, to_arguments(["/d", "/c", &file]), rule, timeout);
}

pub(super) fn compile_powershell(
    site: &mut StepCompiler<'_>,
    text: &str,
    codes: &ExitCodes,
) -> Option<()> {
    // Windows PowerShell 5.1 reads a file without a byte order mark in the ANSI code page.
    let wrapper = site.text_entry("run.ps1", to_crlf(WRAPPER), Encoding::Utf8Bom);
    let own = site.text_entry(
        "step.ps1",
        to_crlf(&ensure_newline(text)),
        Encoding::Utf8Bom,
    );
    let file = site.step_file("ps1");
    let mut script = BatchScript::new();
    script.make_folder(r#""C:\winimg\steps""#);
    script.copy(&wrapper, r#""C:\winimg\steps\run.ps1""#);
    script.copy(&own, &format!("\"{file}\""));
    site.put(script);
    site.run(
        POWERSHELL,
        [
            to_arguments(POWERSHELL_OPTIONS),
            to_arguments([r"C:\winimg\steps\run.ps1", &file]),
        ]
        .concat(),
        exit_rule(codes, ExitRule::Zero, &[]),
        60 * MINUTE,
    );
    Some(())
}

fn ensure_newline(text: &str) -> String {
    let mut text = text.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
