//! Installing a package, and unpacking one (`/a`).
//!
//! Everything is decided before anything is written; what fails while writing is rolled back.

use std::collections::BTreeMap;

use super::apply::{apply, custom_actions, make_dir};
use super::condition::holds;
use super::database::{Database, Formatter, Properties};
use super::plan::{contents, directories, plan};
use super::remove::{self, Record};
use super::{FAILURE, Log};
use crate::windows::cmd::civil;
use crate::windows::process::Process;
use crate::windows::registry::{dword_value, expand_sz, sz};
use crate::windows::service;

pub(super) type Row = BTreeMap<String, String>;

/// Tables whose rows have an effect that is not modelled.
const NOT_MODELLED: [&str; 22] = [
    "AppId",
    "BindImage",
    "Class",
    "Complus",
    "DuplicateFile",
    "Extension",
    "Font",
    "IniFile",
    "IsolatedComponent",
    "LockPermissions",
    "MoveFile",
    "MsiAssembly",
    "MsiLockPermissionsEx",
    "MsiPackageCertificate",
    "ODBCDataSource",
    "ODBCDriver",
    "ProgId",
    "PublishComponent",
    "RemoveIniFile",
    "SelfReg",
    "TypeLib",
    "Verb",
];

pub(super) fn number(row: &Row, column: &str) -> i64 {
    row.get(column)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// Installs; whether a reboot is wanted.
pub fn product(
    p: &mut Process,
    database: &Database,
    mut properties: Properties,
    log: &mut Log,
) -> Result<bool, u32> {
    for row in database.rows("Property") {
        properties.fill(&row["Property"], &row["Value"]);
    }
    let code = database.product_code();
    let version = database.property("ProductVersion");
    if code.is_empty() || version.is_empty() {
        return fail(log, "the package has no ProductCode or ProductVersion");
    }
    let installed = p
        .machine
        .registry()
        .text(&remove::uninstall_key(&code), "DisplayVersion");
    if let Some(have) = installed {
        log.line(format!("Product {code} is installed: version {have}"));
        return if have == version {
            Ok(false)
        } else {
            Err(1638)
        };
    }
    if let Some(table) = database.filled().find(|table| NOT_MODELLED.contains(table)) {
        return fail(
            log,
            &format!("the stand-in's Windows Installer does not know the table {table}"),
        );
    }
    let related = related(p, database, &mut properties);
    conditions(database, &properties, log)?;
    set_properties(database, &mut properties, log)?;
    let plan = plan(p, database, &mut properties, log)?;
    let (files, components) = (plan.paths.clone(), plan.components.clone());
    let formatter = Formatter {
        properties: &properties,
        files: &files,
        components: &components,
    };

    let before = p.machine.registry().snapshot();
    let mut record = Record::default();
    let done = related.iter().try_for_each(|old| {
        remove::product(p, old, log)
            .map(|_| ())
            .map_err(|code| format!("removing {old}: {code}"))
    });
    let done = done.and_then(|()| apply(p, database, &plan, &formatter, &mut record, log));
    let done = done.and_then(|()| custom_actions(p, database, &formatter, log));
    if let Err(why) = done {
        log.line(format!("Error: {why}"));
        log.line("Action ended: Rollback. Return value 1.");
        remove::files(p, &record);
        for name in &record.services {
            let _ = service::stop(&p.machine, name);
        }
        p.machine.registry().restore(before);
        return Err(FAILURE);
    }
    publish(p, database, &formatter, &record).map_err(|e| {
        log.line(e);
        FAILURE
    })?;
    log.line(format!(
        "Product: {} -- Installation completed successfully.",
        database.property("ProductName")
    ));
    reboot(database, &properties, log)
}

pub(super) fn fail<T>(log: &mut Log, why: &str) -> Result<T, u32> {
    log.line(format!("Error: {why}"));
    Err(FAILURE)
}

/// The Upgrade table: products to be replaced; the properties that tell of them are set.
fn related(p: &Process, database: &Database, properties: &mut Properties) -> Vec<String> {
    let registry = p.machine.registry();
    let mut old = Vec::new();
    for row in database.rows("Upgrade") {
        let flags = number(row, "Attributes");
        for (code, version) in remove::with_upgrade_code(&registry, &row["UpgradeCode"]) {
            let version = parts(&version);
            let low = row["VersionMin"].is_empty()
                || version > parts(&row["VersionMin"])
                || (flags & 0x100 != 0 && version == parts(&row["VersionMin"]));
            let high = row["VersionMax"].is_empty()
                || version < parts(&row["VersionMax"])
                || (flags & 0x200 != 0 && version == parts(&row["VersionMax"]));
            if low && high {
                properties.set(&row["ActionProperty"], &code);
                // Bit 1: only detect.
                if flags & 2 == 0 {
                    old.push(code);
                }
            }
        }
    }
    let replaced = sequence(database).any(|row| row["Action"] == "RemoveExistingProducts");
    if replaced { old } else { Vec::new() }
}

/// The three parts of a version that Windows Installer compares.
fn parts(version: &str) -> Vec<u32> {
    version
        .split('.')
        .take(3)
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

fn conditions(database: &Database, properties: &Properties, log: &mut Log) -> Result<(), u32> {
    for row in database.rows("LaunchCondition") {
        match holds(&row["Condition"], properties) {
            Ok(true) => {}
            Ok(false) => {
                let none = BTreeMap::new();
                let text = Formatter {
                    properties,
                    files: &none,
                    components: &none,
                }
                .text(&row["Description"]);
                log.line(format!(
                    "Product: {} -- {text}",
                    database.property("ProductName")
                ));
                log.line("Action ended: LaunchConditions. Return value 3.");
                return Err(FAILURE);
            }
            Err(why) => return fail(log, &why),
        }
    }
    Ok(())
}

pub(super) fn sequence(database: &Database) -> impl Iterator<Item = &Row> {
    let mut rows: Vec<&Row> = database
        .rows("InstallExecuteSequence")
        .iter()
        .filter(|row| number(row, "Sequence") > 0)
        .collect();
    rows.sort_by_key(|row| number(row, "Sequence"));
    rows.into_iter()
}

pub(super) fn custom<'a>(database: &'a Database, action: &str) -> Option<&'a Row> {
    database
        .rows("CustomAction")
        .iter()
        .find(|row| row["Action"] == action)
}

/// Custom actions that set a property or a directory (types 51 and 35), in sequence order.
fn set_properties(
    database: &Database,
    properties: &mut Properties,
    log: &mut Log,
) -> Result<(), u32> {
    let none = BTreeMap::new();
    for row in sequence(database) {
        let Some(action) = custom(database, &row["Action"]) else {
            continue;
        };
        let kind = number(action, "Type") & 0x3f;
        let wanted = holds(&row["Condition"], properties).or_else(|why| fail(log, &why))?;
        match kind {
            51 | 35 if wanted => {
                let value = Formatter {
                    properties,
                    files: &none,
                    components: &none,
                }
                .text(&action["Target"]);
                properties.set(&action["Source"], &value);
            }
            19 if wanted => return fail(log, &action["Target"]),
            _ => {}
        }
    }
    Ok(())
}

// --------------------------------------------------------------------------------------------------------- publishing

fn publish(
    p: &Process,
    database: &Database,
    formatter: &Formatter,
    record: &Record,
) -> Result<(), String> {
    let code = database.product_code();
    let key = remove::uninstall_key(&code);
    let days = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| now.as_secs() / 86400);
    let (year, month, day) = civil(days as i64);
    let version = database.property("ProductVersion");
    let number = parts(&version)
        .iter()
        .zip([24, 16, 0])
        .fold(0, |sum, (part, shift)| sum | part << shift);
    let mut registry = p.machine.registry();
    let remove = format!("MsiExec.exe /X{code}");
    let mut set = |name: &str, data| registry.set(&key, name, data);
    set("DisplayName", sz(&database.property("ProductName")))?;
    set("DisplayVersion", sz(&version))?;
    set("Publisher", sz(&database.property("Manufacturer")))?;
    set("InstallDate", sz(&format!("{year}{month:02}{day:02}")))?;
    set("InstallSource", sz(&format!("{}\\", database.source)))?;
    set(
        "InstallLocation",
        sz(formatter.properties.get("ARPINSTALLLOCATION")),
    )?;
    set("UninstallString", expand_sz(&remove))?;
    set("ModifyPath", expand_sz(&remove))?;
    set("WindowsInstaller", dword_value(1))?;
    set("Version", dword_value(number))?;
    set(
        "Language",
        dword_value(database.property("ProductLanguage").parse().unwrap_or(0)),
    )?;
    if formatter.properties.get("ARPSYSTEMCOMPONENT") == "1" {
        set("SystemComponent", dword_value(1))?;
    }
    record.write(
        &mut registry,
        &code,
        &database.property("UpgradeCode"),
        &version,
    )
}

/// ScheduleReboot and ForceReboot in the sequence, or `REBOOT=Force`; not when the reboot is suppressed for real.
fn reboot(database: &Database, properties: &Properties, log: &mut Log) -> Result<bool, u32> {
    let asked = properties.get("REBOOT");
    let mut wanted = asked.starts_with(['F', 'f']);
    for row in sequence(database)
        .filter(|row| ["ScheduleReboot", "ForceReboot"].contains(&row["Action"].as_str()))
    {
        wanted |= holds(&row["Condition"], properties).or_else(|why| fail(log, &why))?;
    }
    Ok(wanted)
}

/// `/a`: every file into TARGETDIR, in the package's directories.
pub fn unpack(
    p: &mut Process,
    database: &Database,
    mut properties: Properties,
    log: &mut Log,
) -> Result<bool, u32> {
    let target = properties.get("TARGETDIR").to_owned();
    if target.is_empty() {
        return fail(log, "an administrative installation needs TARGETDIR here");
    }
    let mut own = Properties::default();
    own.set("TARGETDIR", &target);
    own.set("ROOTDRIVE", &target);
    std::mem::swap(&mut own, &mut properties);
    let directories = directories(database, &properties);
    let contents = contents(p, database, log)?;
    let mut record = Record::default();
    for row in database.rows("File") {
        let component = database
            .rows("Component")
            .iter()
            .find(|component| component["Component"] == row["Component_"]);
        let dir = component
            .and_then(|component| directories.get(&component["Directory_"]))
            .cloned()
            .unwrap_or_default();
        let path = format!("{dir}{}", row["FileName"].rsplit('|').next().unwrap_or(""));
        let Some(content) = contents.get(&row["File"]) else {
            return fail(log, &format!("no content for {path}"));
        };
        let written = make_dir(p, &dir, &mut record).and_then(|()| {
            let found = p
                .locate(&path)
                .and_then(|found| found.writable())
                .map_err(|error| error.text())?;
            std::fs::write(found.host, content).map_err(|e| e.to_string())
        });
        if let Err(why) = written {
            return fail(log, &why);
        }
    }
    Ok(false)
}
