//! Carrying out a plan: directories, files, registry, environment, services, and the programs of custom actions.

use std::path::PathBuf;

use super::Log;
use super::condition::holds;
use super::database::{Database, Formatter};
use super::install::{Row, custom, number, sequence};
use super::plan::Plan;
use super::remove::Record;
use crate::windows::process::Process;
use crate::windows::regf::{REG_BINARY, REG_EXPAND_SZ, same};
use crate::windows::registry::{Registry, dword_value, expand_sz, multi_sz, sz};
use crate::windows::service;

pub(super) fn apply(
    p: &mut Process,
    database: &Database,
    plan: &Plan,
    formatter: &Formatter,
    record: &mut Record,
    log: &mut Log,
) -> Result<(), String> {
    for folder in &plan.folders {
        make_dir(p, folder, record)?;
        log.line(format!("CreateFolders: Folder: {folder}"));
    }
    for (path, content) in &plan.files {
        let (dir, _) = path.rsplit_once('\\').ok_or("a file without a directory")?;
        make_dir(p, dir, record)?;
        let target = p
            .locate(path)
            .and_then(|found| found.writable())
            .map_err(|error| {
                format!("Error 1304. Error writing to file {path}: {}", error.text())
            })?;
        if target.meta.is_none() {
            record.files.push(path.clone());
        }
        std::fs::write(&target.host, content)
            .map_err(|e| format!("Error 1304. Error writing to file {path}: {e}"))?;
        log.line(format!(
            "InstallFiles: File: {path}, Size: {}",
            content.len()
        ));
    }
    let mine = |row: &&Row| plan.selected.contains(&row["Component_"]);
    for row in database.rows("Registry").iter().filter(mine) {
        let narrow = component_is_32_bit(database, &row["Component_"]);
        registry_value(&mut p.machine.registry(), row, narrow, formatter, record)?;
    }
    for row in database.rows("Environment").iter().filter(mine) {
        environment(&mut p.machine.registry(), row, formatter, record)?;
    }
    let unsequenced = |action: &str| !sequence(database).any(|row| row["Action"] == action);
    for row in database.rows("ServiceControl").iter().filter(mine) {
        if number(row, "Event") & 2 != 0 {
            let _ = service::stop(&p.machine, &formatter.text(&row["Name"]));
        }
    }
    for row in database
        .rows("ServiceInstall")
        .iter()
        .filter(mine)
        .filter(|_| !unsequenced("InstallServices"))
    {
        install_service(p, database, row, formatter, record)?;
        log.line(format!(
            "InstallServices: Service: {}",
            formatter.text(&row["Name"])
        ));
    }
    for row in database
        .rows("ServiceControl")
        .iter()
        .filter(mine)
        .filter(|_| !unsequenced("StartServices"))
    {
        let name = formatter.text(&row["Name"]);
        if number(row, "Event") & 1 != 0 {
            log.line(format!("StartServices: Service: {name}"));
            match service::start(&p.machine, &name) {
                Ok(_) => {}
                Err(error) if error.0 == 1056 => {}
                Err(error) => {
                    return Err(format!(
                        "Error 1920. Service '{name}' ({name}) failed to start: {}",
                        error.text()
                    ));
                }
            }
        }
    }
    Ok(())
}

fn component_is_32_bit(database: &Database, component: &str) -> bool {
    let row = database
        .rows("Component")
        .iter()
        .find(|row| row["Component"] == component);
    row.is_none_or(|row| number(row, "Attributes") & 0x100 == 0)
}

pub(super) fn make_dir(p: &Process, path: &str, record: &mut Record) -> Result<(), String> {
    let path = path.trim_end_matches('\\');
    let found = p
        .locate(path)
        .map_err(|error| format!("Error 1303. {path}: {}", error.text()))?;
    if found.read_only {
        return Err(format!("Error 1303. {path}: the drive can't be written"));
    }
    if found.meta.is_some() {
        return if found.is_dir() {
            Ok(())
        } else {
            Err(format!("Error 1301. Cannot create the file '{path}'."))
        };
    }
    if let Some((above, _)) = path.rsplit_once('\\').filter(|(above, _)| above.len() > 2) {
        make_dir(p, above, record)?;
    }
    let host: PathBuf = p.locate(path).map_err(|error| error.text())?.host;
    std::fs::create_dir(&host).map_err(|e| format!("Error 1303. {path}: {e}"))?;
    record.folders.push(path.to_owned());
    Ok(())
}

fn registry_value(
    registry: &mut Registry,
    row: &Row,
    narrow: bool,
    formatter: &Formatter,
    record: &mut Record,
) -> Result<(), String> {
    // -1: per user or per machine by ALLUSERS, which is always 1 here.
    let root = match number(row, "Root") {
        0 => "HKCR",
        1 => "HKCU",
        2 | -1 => "HKLM",
        3 => "HKU",
        other => return Err(format!("registry root {other}")),
    };
    let below = formatter.text(&row["Key"]);
    let mut key = format!("{root}\\{below}");
    if narrow && root == "HKLM" && below.len() > 9 && same(&below[..9], "SOFTWARE\\") {
        key = format!("HKLM\\SOFTWARE\\WOW6432Node\\{}", &below[9..]);
    }
    let (name, value) = (formatter.text(&row["Name"]), &row["Value"]);
    let existed = registry.key(&key).is_some();
    if value.is_empty() && ["+", "-", "*"].contains(&name.as_str()) {
        if name != "-" {
            registry
                .make(&key)
                .map_err(|fault| format!("{key}: {fault:?}"))?;
        }
    } else {
        let data = registry_data(&formatter.text(value))?;
        registry.set(&key, &name, data)?;
        record.values.push(format!("{key}\u{1f}{name}"));
    }
    if !existed {
        record.keys.push(key);
    }
    Ok(())
}

/// `#x` binary, `#%` expandable, `#` number, `##` a text with a `#`, `[~]` (here NUL) a list; otherwise text.
fn registry_data(value: &str) -> Result<(u32, Vec<u8>), String> {
    if value.contains('\0') {
        return Ok(multi_sz(
            &value
                .split('\0')
                .filter(|item| !item.is_empty())
                .collect::<Vec<_>>(),
        ));
    }
    let Some(rest) = value.strip_prefix('#') else {
        return Ok(sz(value));
    };
    match rest.chars().next() {
        Some('x') => {
            let digits = &rest[1..];
            let byte = |at: usize| {
                digits
                    .get(at..at + 2)
                    .and_then(|two| u8::from_str_radix(two, 16).ok())
            };
            let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
            Ok((
                REG_BINARY,
                bytes.ok_or_else(|| format!("registry value {value}"))?,
            ))
        }
        Some('%') => Ok(expand_sz(&rest[1..])),
        Some('#') => Ok(sz(rest)),
        _ => rest
            .parse::<i64>()
            .map(|number| dword_value(number as u32))
            .map_err(|_| format!("registry value {value}")),
    }
}

const ENVIRONMENT: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";

/// Name prefixes: `=` set always, `+` set when absent, `-` remove at removal, `*` the machine's; `!` remove now.
fn environment(
    registry: &mut Registry,
    row: &Row,
    formatter: &Formatter,
    record: &mut Record,
) -> Result<(), String> {
    let name = row["Name"].trim_start_matches(['=', '+', '-', '!', '*']);
    let prefix = &row["Name"][..row["Name"].len() - name.len()];
    if !prefix.contains('*') {
        return Err(format!(
            "environment variable {name} of a user: there is no user"
        ));
    }
    let have = registry.text(ENVIRONMENT, name);
    if prefix.contains('!') {
        registry.key_mut(ENVIRONMENT).map(|key| key.unset(name));
        return Ok(());
    }
    if prefix.contains('+') && !prefix.contains('=') && have.is_some() {
        return Ok(());
    }
    let value = formatter.text(&row["Value"]);
    let have = have.unwrap_or_default();
    let present = |part: &str| have.split(';').any(|item| same(item, part));
    let (value, part) = if let Some(part) = value.strip_prefix("\0;") {
        (
            if present(part) {
                have.clone()
            } else {
                format!("{have};{part}")
            },
            part.to_owned(),
        )
    } else if let Some(part) = value.strip_suffix(";\0") {
        (
            if present(part) {
                have.clone()
            } else {
                format!("{part};{have}")
            },
            part.to_owned(),
        )
    } else {
        (value.clone(), String::new())
    };
    let expandable = registry
        .get(ENVIRONMENT, name)
        .map_or(value.contains('%'), |old| {
            old.kind == REG_EXPAND_SZ || value.contains('%')
        });
    registry.set(
        ENVIRONMENT,
        name,
        if expandable {
            expand_sz(&value)
        } else {
            sz(&value)
        },
    )?;
    if prefix.contains('-') {
        record.variables.push(format!("{name}\u{1f}{part}"));
    }
    Ok(())
}

fn install_service(
    p: &mut Process,
    database: &Database,
    row: &Row,
    formatter: &Formatter,
    record: &mut Record,
) -> Result<(), String> {
    let name = formatter.text(&row["Name"]);
    let component = database
        .rows("Component")
        .iter()
        .find(|component| component["Component"] == row["Component_"]);
    let key_path = component
        .map(|component| component["KeyPath"].clone())
        .unwrap_or_default();
    let exe = formatter
        .files
        .get(&key_path)
        .ok_or_else(|| format!("service {name} has no program"))?;
    let quoted = if exe.contains(' ') {
        format!("\"{exe}\"")
    } else {
        exe.clone()
    };
    let arguments = formatter.text(&row["Arguments"]);
    let path = if arguments.is_empty() {
        quoted
    } else {
        format!("{quoted} {arguments}")
    };
    let key = service::key(&name);
    let mut registry = p.machine.registry();
    let account = Some(formatter.text(&row["StartName"])).filter(|account| !account.is_empty());
    let mut values = vec![
        (
            "Type",
            dword_value(number(row, "ServiceType") as u32 & 0xff),
        ),
        ("Start", dword_value(number(row, "StartType") as u32)),
        (
            "ErrorControl",
            dword_value(number(row, "ErrorControl") as u32 & 0xf),
        ),
        ("ImagePath", expand_sz(&path)),
        (
            "ObjectName",
            sz(account.as_deref().unwrap_or("LocalSystem")),
        ),
    ];
    let display = formatter.text(&row["DisplayName"]);
    if !display.is_empty() {
        values.push(("DisplayName", sz(&display)));
    }
    let depends: Vec<String> = formatter
        .text(&row["Dependencies"])
        .split('\0')
        .filter(|on| !on.is_empty())
        .map(str::to_owned)
        .collect();
    if !depends.is_empty() {
        values.push(("DependOnService", multi_sz(&depends)));
    }
    if let Some(description) = row.get("Description").filter(|text| !text.is_empty()) {
        values.push(("Description", sz(&formatter.text(description))));
    }
    values
        .into_iter()
        .try_for_each(|(value, data)| registry.set(&key, value, data))?;
    record.services.push(name);
    Ok(())
}

/// Custom actions that run a program: an installed file (18), a directory and a command line (34), a property (50).
pub(super) fn custom_actions(
    p: &mut Process,
    database: &Database,
    formatter: &Formatter,
    log: &mut Log,
) -> Result<(), String> {
    for row in sequence(database) {
        let Some(action) = custom(database, &row["Action"]) else {
            continue;
        };
        let kind = number(action, "Type");
        if matches!(kind & 0x3f, 51 | 35 | 19) || !holds(&row["Condition"], formatter.properties)? {
            continue;
        }
        let target = formatter.text(&action["Target"]);
        let line = match kind & 0x3f {
            18 => formatter
                .files
                .get(&action["Source"])
                .map(|exe| format!("\"{exe}\" {target}")),
            34 => Some(target),
            50 => Some(format!(
                "\"{}\" {target}",
                formatter.properties.get(&action["Source"])
            )),
            _ => None,
        };
        // Rollback actions (0x100) run only when an installation fails.
        if kind & 0x500 == 0x500 {
            continue;
        }
        let code = line.map(|line| p.create(&line));
        log.line(format!("CustomAction {} returned {code:?}", row["Action"]));
        // Bit 6: what it returns does not count.
        if code != Some(Ok(0)) && kind & 0x40 == 0 {
            return Err(format!(
                "Error 1722. There is a problem with this Windows Installer package. A program run as part of the setup did not finish as expected. Action {}",
                row["Action"]
            ));
        }
    }
    Ok(())
}
