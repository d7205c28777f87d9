//! The verb `powershell`: a script for Windows PowerShell. It is run from a file, so that nothing
//! has to be quoted, and it is parsed before any machine is started.

use crate::document::value::{TomlData, TomlValue};
use crate::fields::{FileRequirement, LoweringContext};
use crate::ops::batch::BatchScript;
use crate::ops::compiler::StepCompiler;
use crate::ops::programs::{POWERSHELL, to_arguments};
use crate::ops::{Encoding, ExitRule};
use crate::verbs::exit_codes::{ExitCodes, exit_rule};
use crate::verbs::items::RecipeItems;
use crate::verbs::script::{HOUR, POWERSHELL_OPTIONS, ensure_newline, read_script};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, to_crlf};

/// Values of `powershell`.
#[derive(Clone, Debug)]
pub struct PowershellSpec {
    pub script: String,
    pub exit_codes: ExitCodes,
}

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

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<PowershellSpec> {
    let (script, exit_codes) = read_script(cx, value, "powershell", Some(items.local_files))?;
    let is_skipped = items.local_files == FileRequirement::MayBeMissing;
    if !(script.is_empty() && is_skipped) {
        judge(cx, value, &script, is_skipped);
    }
    Some(PowershellSpec { script, exit_codes })
}

/// Warns about a script that does not parse, at its line: the guest would fail an hour later.
fn judge(cx: &LoweringContext<'_>, value: &TomlValue, script: &str, is_skipped: bool) {
    let (key, given) = ["script", "inline", "file"]
        .into_iter()
        .find_map(|key| value.as_table()?.find_entry(key))
        .map_or(("script", value), |entry| {
            (entry.key.as_str(), &entry.value)
        });
    if key == "file" && is_skipped {
        return;
    }
    for fault in crate::powershell::find_faults(script) {
        let (line, column) = (fault.line, fault.column);
        let place = match &given.data {
            TomlData::Array(lines) => lines.get(line - 1).map(|l| l.place.clone()),
            _ if key == "file" => None,
            _ => line_of(given, line),
        };
        let label = match &fault.missing {
            Some(what) => {
                format!("`{what}` is missing at line {line}, column {column} of the script")
            }
            None => format!("line {line}, column {column} of the script"),
        };
        cx.report(
            Diagnostic::warning("this PowerShell does not parse")
                .at(place.as_ref().unwrap_or(&given.place), label)
                .help(
                    "checked with a grammar, not with PowerShell; docs/steps.md lists the few \
                     valid forms that it misreads",
                ),
        );
    }
}

/// Finds a line of a string's content in its file. Variables are assumed to have no line ends.
fn line_of(value: &TomlValue, line: usize) -> Option<Place> {
    let source = &value.place.source;
    let written = source.text.get(value.place.span.clone())?;
    let long = written.starts_with("'''") || written.starts_with("\"\"\"");
    let mut from = if long { 3 } else { 1 };
    if long && let Some(rest) = written.get(from..) {
        from += rest.len()
            - rest
                .trim_start_matches('\r')
                .strip_prefix('\n')
                .unwrap_or(rest)
                .len();
    }
    for _ in 1..line {
        from += written.get(from..)?.find('\n')? + 1;
    }
    let text = written.get(from..)?.lines().next().unwrap_or_default();
    let start = value.place.span.start + from + (text.len() - text.trim_start().len());
    let end = value.place.span.start + from + text.trim_end().len();
    Some(Place::new(source, start..end.max(start)))
}

pub fn compile(site: &mut StepCompiler<'_>, powershell: &PowershellSpec) -> Option<()> {
    // Windows PowerShell 5.1 reads a file without a byte order mark in the ANSI code page.
    let wrapper = site.text_entry("run.ps1", to_crlf(WRAPPER), Encoding::Utf8Bom);
    let own = site.text_entry(
        "step.ps1",
        to_crlf(&ensure_newline(&powershell.script)),
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
        exit_rule(&powershell.exit_codes, ExitRule::Zero, &[]),
        HOUR,
    );
    Some(())
}
