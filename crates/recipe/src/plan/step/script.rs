//! `cmd` and `powershell`: the team's own text, run from a file so that nothing has to be quoted.

use std::time::Duration;

use super::super::ExitRule;
use super::super::batch::Script;
use super::super::site::{MINUTE, Site, exit_rule};
use super::{CMD, POWERSHELL, args};
use crate::recipe::{Encoding, ExitCodes};
use winimg_base::text::crlf;

/// What stands before the script's path.
pub(super) const POWERSHELL_OPTIONS: [&str; 6] = [
    "-NoLogo",
    "-NoProfile",
    "-NonInteractive",
    "-ExecutionPolicy",
    "Bypass",
    "-File",
];
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Calls a script so that its first error ends it with 1, and its exit code, or that of the last program it ran, is
/// the code of PowerShell itself (Microsoft: about_Automatic_Variables, about_Preference_Variables). Its text never
/// changes with the script, so parse errors, here-strings and line numbers are the script's own.
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

pub(super) fn cmd(site: &mut Site<'_>, text: &str, codes: &ExitCodes) -> Option<()> {
    if let Some(c) = text.chars().find(|c| !c.is_ascii()) {
        let place = &site.step.place;
        site.warning(
            place,
            format!("the script holds `{c}`, which cmd reads in the console's code page"),
            "",
            "keep batch text in ASCII, or use `powershell`, whose file is UTF-8",
        );
    }
    let rule = exit_rule(codes, ExitRule::Zero, &[]);
    batch_file(site, text, rule, HOUR);
    Some(())
}

/// Lays the text down as the step's `.cmd` and runs it.
pub(super) fn batch_file(site: &mut Site<'_>, text: &str, rule: ExitRule, timeout: Duration) {
    let mut script = Script::new();
    batch_file_after(site, &mut script, text);
    site.put(script);
    run_batch_file(site, rule, timeout);
}

pub(super) fn batch_file_after(site: &mut Site<'_>, script: &mut Script, text: &str) {
    let from = site.text_entry("step.cmd", crlf(&ended(text)), Encoding::Utf8);
    script.make_folder(r#""C:\winimg\steps""#);
    script.copy(&from, &format!("\"{}\"", site.file("cmd")));
}

pub(super) fn run_batch_file(site: &mut Site<'_>, rule: ExitRule, timeout: Duration) {
    let file = site.file("cmd");
    site.run(CMD, args(["/d", "/c", &file]), rule, timeout);
}

pub(super) fn powershell(site: &mut Site<'_>, text: &str, codes: &ExitCodes) -> Option<()> {
    // Windows PowerShell 5.1 reads a file without a byte order mark in the ANSI code page.
    let wrapper = site.text_entry("run.ps1", crlf(WRAPPER), Encoding::Utf8Bom);
    let own = site.text_entry("step.ps1", crlf(&ended(text)), Encoding::Utf8Bom);
    let file = site.file("ps1");
    let mut script = Script::new();
    script.make_folder(r#""C:\winimg\steps""#);
    script.copy(&wrapper, r#""C:\winimg\steps\run.ps1""#);
    script.copy(&own, &format!("\"{file}\""));
    site.put(script);
    site.run(
        POWERSHELL,
        [
            args(POWERSHELL_OPTIONS),
            args([r"C:\winimg\steps\run.ps1", &file]),
        ]
        .concat(),
        exit_rule(codes, ExitRule::Zero, &[]),
        60 * MINUTE,
    );
    Some(())
}

fn ended(text: &str) -> String {
    let mut text = text.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
