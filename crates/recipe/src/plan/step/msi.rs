//! Compiles `msi`: installs a package with Windows Installer, without a window and without a
//! restart.
//!
//! msiexec requires `NAME="a b"`, which the guest agent cannot pass, so a value with a blank or a
//! quote is passed in the step's `.cmd` (Microsoft: Windows Installer command-line options; a `"`
//! inside a value is doubled).

use std::collections::BTreeMap;

use super::super::ExitRule;
use super::super::batch::{self, BatchScript};
use super::super::step_compiler::{MINUTE, StepCompiler, exit_rule, on_disc};
use super::files::{content_place, single_file};
use super::script::{batch_file_after, run_batch_file};
use super::to_arguments;
use crate::recipe::{ExitCodes, GuestPath, StepContent};
use winimg_base::argv::has_blank;
use winimg_base::text::Place;

const MSIEXEC: &str = r"C:\Windows\System32\msiexec.exe";

pub(super) fn compile_msi(
    site: &mut StepCompiler<'_>,
    from: &StepContent,
    properties: &BTreeMap<String, String>,
    codes: &ExitCodes,
) -> Option<()> {
    let place = content_place(from).clone();
    let (entry, file) = single_file(site, from)?;
    let name = site.report_error(batch::escape(&file), &place)?;
    let folder = site.step_folder();
    let log =
        GuestPath::from_static(r"C:\winimg\logs").join(&format!("{:03}-msi.log", site.number));
    let index = site.add_entry(entry);
    let mut script = BatchScript::new();
    script.make_folder(&format!("\"{folder}\""));
    script.make_folder(r#""C:\winimg\logs""#);
    script.copy(&on_disc(index, &name), &format!("\"{folder}\\{name}\""));
    let rule = exit_rule(codes, ExitRule::Msi, &[3010, 1641]);
    let package = folder.join(&file);
    if properties.values().any(|v| has_blank(v) || v.contains('"')) {
        let line = batch_line(site, &folder.join(&name), &log, properties, &place)?;
        batch_file_after(site, &mut script, &line);
        site.put(script);
        run_batch_file(site, rule, 30 * MINUTE);
    } else {
        site.put(script);
        let mut arguments = to_arguments([
            "/i",
            package.as_str(),
            "/qn",
            "/norestart",
            "/l*v",
            log.as_str(),
        ]);
        arguments.extend(properties.iter().map(|(n, v)| format!("{n}={v}")));
        site.run(MSIEXEC, arguments, rule, 30 * MINUTE);
    }
    site.guest_log = Some(log);
    Some(())
}

fn batch_line(
    site: &mut StepCompiler<'_>,
    package: &GuestPath,
    log: &GuestPath,
    properties: &BTreeMap<String, String>,
    place: &Place,
) -> Option<String> {
    let mut line = format!("@echo off\n{MSIEXEC} /i \"{package}\" /qn /norestart /l*v {log}");
    for (name, value) in properties {
        // Quotes come in pairs here, so that cmd also treats the rest as quoted.
        let parts: Result<Vec<String>, String> = value.split('"').map(batch::escape).collect();
        let value = site.report_error(parts, place)?.join("\"\"");
        line.push_str(&format!(" {name}=\"{value}\""));
    }
    line.push_str("\nexit /b %errorlevel%\n");
    Some(line)
}
