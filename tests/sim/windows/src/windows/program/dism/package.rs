//! Updates: `dism /add-package` and wusa.exe. A package is a file that really is a cabinet; of what is inside only a cumulative
//! update's version is read, which is Windows' revision once it is installed.
//!
//! Its record is where Windows has it, `Component Based Servicing\Packages`, as `Package_for_KB…` when the file is
//! named after its KB: install pending until the next boot, installed then.

use std::collections::BTreeMap;

use super::super::Arguments;
use super::super::msiexec::cabinet;
use super::super::small::unknown;
use super::{Options, failed, finish, record_reboot};
use crate::windows::boot::CBS;
use crate::windows::process::Process;
use crate::windows::registry::{Registry, dword_value};
use crate::windows::volume::Located;
use crate::windows::{NT, Power};

const INSTALL_PENDING: u32 = 0x60;
const INSTALLED: u32 = 0x70;
/// A cumulative update's package, before its version.
const ROLLUP: &str = "Package_for_RollupFix~31bf3856ad364e35~amd64~~";
/// WU_E_NOT_APPLICABLE.
const NOT_APPLICABLE: u32 = 0x8024_0017;
/// "The update is already installed" (WU_S_ALREADY_INSTALLED).
const ALREADY: u32 = 0x0024_0006;

/// At boot, packages that waited are installed.
pub fn finish_pending(registry: &mut Registry) -> Result<(), String> {
    let Some(known) = registry.key(&packages()) else {
        return Ok(());
    };
    let names: Vec<String> = known.subkeys.values().map(|key| key.name.clone()).collect();
    for name in names {
        let key = format!("{}\\{name}", packages());
        if registry.dword(&key, "CurrentState") == Some(INSTALL_PENDING) {
            registry.set(&key, "CurrentState", dword_value(INSTALLED))?;
            let version = name.strip_prefix(ROLLUP).map(|version| version.split('.'));
            let revision = version.and_then(|mut parts| parts.nth(1)?.parse::<u32>().ok());
            if let Some(revision) = revision {
                registry.set(NT, "UBR", dword_value(revision))?;
            }
        }
    }
    Ok(())
}

fn packages() -> String {
    format!(r"{CBS}\Packages")
}

/// The name that a package of this file has in the list of packages.
fn identity(file: &str) -> String {
    let lower = file.to_ascii_lowercase();
    let number = lower.match_indices("kb").find_map(|(at, _)| {
        let digits: String = lower[at + 2..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        (digits.len() >= 6).then_some(digits)
    });
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    number.map_or_else(
        || format!("{stem}~31bf3856ad364e35~amd64~~10.0.1.0"),
        |number| format!("Package_for_KB{number}~31bf3856ad364e35~amd64~~10.0.1.0"),
    )
}

/// Records a package; false when it was there already.
fn install(p: &Process, file: &Located) -> Result<bool, (u32, String)> {
    let head = std::fs::read(&file.host).unwrap_or_default();
    if !head.starts_with(b"MSCF") {
        return Err((0x8007_000d, "The data is invalid.".into()));
    }
    let key = format!("{}\\{}", packages(), identity(file.file_name()));
    let mut registry = p.machine.registry();
    if registry.key(&key).is_some() {
        return Ok(false);
    }
    let mut keys = vec![key];
    if let Some(version) = rollup(&head) {
        if version.split('.').next() != registry.text(NT, "CurrentBuild").as_deref() {
            return Err((
                NOT_APPLICABLE,
                "The update is not applicable to your computer.".into(),
            ));
        }
        keys.push(format!("{}\\{ROLLUP}{version}", packages()));
    }
    keys.iter()
        .try_for_each(|key| registry.set(key, "CurrentState", dword_value(INSTALL_PENDING)))
        .map_err(|e| (0x8000_4005, e))?;
    Ok(true)
}

/// The version of the cumulative update in an `.msu`: `update.mum` in one of its cabinets names it.
fn rollup(msu: &[u8]) -> Option<String> {
    let outer = unpacked(msu)?;
    let cabinets = outer.iter().filter(|(name, _)| name.ends_with(".cab"));
    let manifest = cabinets
        .filter_map(|(_, inner)| unpacked(inner)?.remove("update.mum"))
        .next()?;
    let text = String::from_utf8(manifest).ok()?;
    let document = roxmltree::Document::parse(&text).ok()?;
    let identity = document
        .descendants()
        .find(|node| node.attribute("name") == Some("Package_for_RollupFix"))?;
    identity.attribute("version").map(str::to_owned)
}

fn unpacked(bytes: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    cabinet(bytes.to_vec(), &mut files).ok()?;
    Some(files)
}

pub fn add(p: &mut Process, options: &Options) -> u32 {
    if options.packages.is_empty() {
        return failed(p, 87, "The package-path option is missing");
    }
    let mut new = false;
    for path in options.packages.clone() {
        let found = match p.locate(&path).and_then(|found| found.existing()) {
            Ok(found) if found.is_file() => found,
            Ok(_) => {
                return failed(
                    p,
                    0x8007_0002,
                    "The stand-in takes a package file, no folder.",
                );
            }
            Err(error) => return failed(p, error.0, &error.text()),
        };
        match install(p, &found) {
            Ok(added) => new |= added,
            Err((code, text)) => return failed(p, code, &text),
        }
    }
    p.print("The operation completed successfully.\n");
    finish(p, options, new)
}

/// `wusa X.msu /quiet /norestart`. Without `/quiet` it shows a window that nobody can answer.
pub fn wusa(p: &mut Process, args: &Arguments) -> u32 {
    let (switches, files): (Vec<&String>, Vec<&String>) =
        args.list.iter().partition(|word| word.starts_with('/'));
    let switches: Vec<String> = switches
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .collect();
    let known = |word: &&String| {
        matches!(word.as_str(), "/quiet" | "/norestart" | "/forcerestart")
            || word.starts_with("/log:")
    };
    if let Some(odd) = switches.iter().find(|word| !known(word)) {
        return unknown(p, "wusa", odd, 87);
    }
    let has = |wanted: &str| switches.iter().any(|word| word == wanted);
    let [file] = files[..] else {
        return unknown(p, "wusa", "not one file", 87);
    };
    if !has("/quiet") {
        return unknown(p, "wusa", "a window (give /quiet)", 87);
    }
    let found = match p.locate(file).and_then(|found| found.existing()) {
        Ok(found) => found,
        Err(error) => return error.0,
    };
    if !found.name.to_ascii_lowercase().ends_with(".msu") {
        return 87;
    }
    match install(p, &found) {
        Ok(false) => ALREADY,
        Err((code, _)) => code,
        Ok(true) => {
            if record_reboot(p).is_err() {
                return 0x8000_4005;
            }
            if !has("/norestart") {
                p.machine
                    .ask_power(Power::Reboot, std::time::Duration::from_secs(1));
            }
            3010
        }
    }
}
