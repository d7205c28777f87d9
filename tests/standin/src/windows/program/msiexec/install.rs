//! Installing a package, and unpacking one (`/a`).
//!
//! Everything is decided before anything is written; what fails while writing is rolled back.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use std::path::PathBuf;

use super::condition::holds;
use super::database::{Database, Formatter, Properties};
use super::remove::{self, Record};
use super::{FAILURE, Log};
use crate::windows::cmd::civil;
use crate::windows::process::Process;
use crate::windows::regf::{REG_BINARY, REG_EXPAND_SZ, same};
use crate::windows::registry::{Registry, dword_value, expand_sz, multi_sz, sz};
use crate::windows::service;

type Row = BTreeMap<String, String>;

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

/// What an installation will do.
#[derive(Default)]
struct Plan {
    /// Target path and content.
    files: Vec<(String, Vec<u8>)>,
    folders: Vec<String>,
    paths: BTreeMap<String, String>,
    components: BTreeMap<String, String>,
    selected: BTreeSet<String>,
}

fn number(row: &Row, column: &str) -> i64 {
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

fn fail<T>(log: &mut Log, why: &str) -> Result<T, u32> {
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

fn sequence(database: &Database) -> impl Iterator<Item = &Row> {
    let mut rows: Vec<&Row> = database
        .rows("InstallExecuteSequence")
        .iter()
        .filter(|row| number(row, "Sequence") > 0)
        .collect();
    rows.sort_by_key(|row| number(row, "Sequence"));
    rows.into_iter()
}

fn custom<'a>(database: &'a Database, action: &str) -> Option<&'a Row> {
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

// ------------------------------------------------------------------------------------------------------------ deciding

fn plan(
    p: &Process,
    database: &Database,
    properties: &mut Properties,
    log: &mut Log,
) -> Result<Plan, u32> {
    let directories = directories(database, properties);
    for (key, path) in &directories {
        properties.set(key, path);
    }
    let mut plan = Plan {
        selected: selected(database, properties, log)?,
        ..Plan::default()
    };
    for component in database.rows("Component") {
        let dir = directories
            .get(&component["Directory_"])
            .cloned()
            .unwrap_or_default();
        plan.components.insert(component["Component"].clone(), dir);
    }
    for row in database.rows("CreateFolder") {
        if plan.selected.contains(&row["Component_"]) {
            plan.folders.push(
                directories
                    .get(&row["Directory_"])
                    .cloned()
                    .unwrap_or_default(),
            );
        }
    }
    let mut contents = contents(p, database, log)?;
    for row in database.rows("File") {
        let Some(dir) = plan.components.get(&row["Component_"]) else {
            return fail(log, "a file without a component");
        };
        let name = row["FileName"].rsplit('|').next().unwrap_or("");
        let path = format!("{dir}{name}");
        plan.paths.insert(row["File"].clone(), path.clone());
        if plan.selected.contains(&row["Component_"]) {
            let Some(content) = contents.remove(&row["File"]) else {
                return fail(
                    log,
                    &format!(
                        "Error 1334. The file '{}' cannot be installed because the file cannot be found in the package.",
                        row["File"]
                    ),
                );
            };
            if content.len() as i64 != number(row, "FileSize") {
                return fail(
                    log,
                    &format!(
                        "Error 1335. The cabinet file holds {} bytes for {}, the table says {}.",
                        content.len(),
                        row["File"],
                        row["FileSize"]
                    ),
                );
            }
            plan.files.push((path, content));
        }
    }
    Ok(plan)
}

/// Every directory's path with a backslash at its end.
fn directories(database: &Database, properties: &Properties) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for row in database.rows("Directory") {
        resolve(database, properties, &row["Directory"], &mut found, 0);
    }
    found
}

fn resolve(
    database: &Database,
    properties: &Properties,
    key: &str,
    found: &mut BTreeMap<String, String>,
    depth: usize,
) -> String {
    if let Some(path) = found.get(key) {
        return path.clone();
    }
    let row = database
        .rows("Directory")
        .iter()
        .find(|row| row["Directory"] == key);
    let given = properties.get(key);
    let path = match row {
        _ if !given.is_empty() => format!("{}\\", given.trim_end_matches('\\')),
        Some(row)
            if depth < 64
                && !row["Directory_Parent"].is_empty()
                && row["Directory_Parent"] != key =>
        {
            let parent = resolve(
                database,
                properties,
                &row["Directory_Parent"],
                found,
                depth + 1,
            );
            let target = row["DefaultDir"].split(':').next().unwrap_or("").to_owned();
            let name = target.rsplit('|').next().unwrap_or("");
            if name == "." {
                parent
            } else {
                format!("{parent}{name}\\")
            }
        }
        _ => properties.get("ROOTDRIVE").to_owned(),
    };
    found.insert(key.to_owned(), path.clone());
    path
}

/// Components of the features that are to be installed.
fn selected(
    database: &Database,
    properties: &Properties,
    log: &mut Log,
) -> Result<BTreeSet<String>, u32> {
    let level: i64 = properties.get("INSTALLLEVEL").parse().unwrap_or(1);
    let add = properties.get("ADDLOCAL");
    let names: Vec<&str> = add.split(',').filter(|name| !name.is_empty()).collect();
    let features = database.rows("Feature");
    if let Some(odd) = names
        .iter()
        .find(|name| **name != "ALL" && !features.iter().any(|row| row["Feature"] == **name))
    {
        return fail(
            log,
            &format!(
                "Error 2711. The specified feature name ('{odd}') not found in Feature table."
            ),
        );
    }
    let wanted = |row: &Row| {
        let named = names.contains(&row["Feature"].as_str());
        let level_fits = (1..=level).contains(&number(row, "Level"));
        if names.is_empty() {
            level_fits
        } else {
            named || names.contains(&"ALL")
        }
    };
    let on: BTreeSet<&str> = features
        .iter()
        .filter(|row| wanted(row))
        .map(|row| row["Feature"].as_str())
        .collect();
    let mut found = BTreeSet::new();
    for row in database
        .rows("FeatureComponents")
        .iter()
        .filter(|row| on.contains(row["Feature_"].as_str()))
    {
        let component = database
            .rows("Component")
            .iter()
            .find(|component| component["Component"] == row["Component_"]);
        let Some(component) = component else {
            return fail(log, &format!("no component {}", row["Component_"]));
        };
        if holds(&component["Condition"], properties).or_else(|why| fail(log, &why))? {
            found.insert(row["Component_"].clone());
        }
    }
    Ok(found)
}

/// The content of every file of the package by File key.
fn contents(
    p: &Process,
    database: &Database,
    log: &mut Log,
) -> Result<BTreeMap<String, Vec<u8>>, u32> {
    let mut found = BTreeMap::new();
    for media in database
        .rows("Media")
        .iter()
        .filter(|media| !media["Cabinet"].is_empty())
    {
        let name = &media["Cabinet"];
        let bytes = match name.strip_prefix('#') {
            Some(stream) => database.stream(stream).map(<[u8]>::to_vec),
            None => beside(p, database, name),
        };
        let Some(bytes) = bytes else {
            return fail(
                log,
                &format!(
                    "Error 1311. Source file not found: {name}. Verify that the file exists and that you can access it."
                ),
            );
        };
        if let Err(e) = cabinet(bytes, &mut found) {
            return fail(
                log,
                &format!(
                    "Error 1335. The cabinet file '{name}' required for this installation is corrupt and cannot be used: {e}"
                ),
            );
        }
    }
    for row in database.rows("File") {
        let loose = database.loose && number(row, "Attributes") & 0x4000 == 0
            || number(row, "Attributes") & 0x2000 != 0;
        if loose && !found.contains_key(&row["File"]) {
            let name = row["FileName"].rsplit('|').next().unwrap_or("");
            if let Some(bytes) = beside(p, database, name) {
                found.insert(row["File"].clone(), bytes);
            }
        }
    }
    Ok(found)
}

fn beside(p: &Process, database: &Database, name: &str) -> Option<Vec<u8>> {
    let found = p.locate(&format!("{}\\{name}", database.source)).ok()?;
    std::fs::read(found.host).ok()
}

fn cabinet(bytes: Vec<u8>, found: &mut BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    let mut cabinet = cab::Cabinet::new(Cursor::new(bytes))?;
    let names: Vec<String> = cabinet
        .folder_entries()
        .flat_map(|folder| {
            folder
                .file_entries()
                .map(|file| file.name().to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    for name in names {
        let mut content = Vec::new();
        cabinet.read_file(&name)?.read_to_end(&mut content)?;
        found.insert(name, content);
    }
    Ok(())
}

// ----------------------------------------------------------------------------------------------------------- applying

fn apply(
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

fn make_dir(p: &Process, path: &str, record: &mut Record) -> Result<(), String> {
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
fn custom_actions(
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
