//! `msi`: a package installed by Windows Installer, without a window and without a restart of its own.
//!
//! msiexec wants `NAME="a b"`, which the guest agent cannot write, so a value with a blank or a quote goes through the
//! step's `.cmd` (Microsoft: Windows Installer command-line options; a `"` inside a value is doubled).

use std::collections::BTreeMap;

use super::super::ExitRule;
use super::super::batch::{self, Script};
use super::super::site::{MINUTE, Site, exit_rule, on_disc};
use super::args;
use super::files::{content_place, single_file};
use super::script::{batch_file_after, run_batch_file};
use crate::recipe::{Content, ExitCodes, GuestPath};
use winimg_base::argv::has_blank;
use winimg_base::text::Place;

const MSIEXEC: &str = r"C:\Windows\System32\msiexec.exe";

pub(super) fn msi(
    site: &mut Site<'_>,
    from: &Content,
    properties: &BTreeMap<String, String>,
    codes: &ExitCodes,
) -> Option<()> {
    let place = content_place(from).clone();
    let (entry, file) = single_file(site, from)?;
    let name = site.judged(batch::literal(&file), &place)?;
    let folder = site.folder();
    let log = GuestPath::known(r"C:\winimg\logs").join(&format!("{:03}-msi.log", site.number));
    let index = site.entry(entry);
    let mut script = Script::new();
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
        let mut arguments = args([
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
    site: &mut Site<'_>,
    package: &GuestPath,
    log: &GuestPath,
    properties: &BTreeMap<String, String>,
    place: &Place,
) -> Option<String> {
    let mut line = format!("@echo off\n{MSIEXEC} /i \"{package}\" /qn /norestart /l*v {log}");
    for (name, value) in properties {
        // Quotes come in pairs here, so that what follows stands inside quotes for cmd, too.
        let parts: Result<Vec<String>, String> = value.split('"').map(batch::literal).collect();
        let value = site.judged(parts, place)?.join("\"\"");
        line.push_str(&format!(" {name}=\"{value}\""));
    }
    line.push_str("\nexit /b %errorlevel%\n");
    Some(line)
}
