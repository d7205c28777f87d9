//! Deciding what an installation writes: features, components, directories, and the content of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};

use super::Log;
use super::condition::holds;
use super::database::{Database, Properties};
use super::install::{Row, fail, number};
use crate::windows::process::Process;

/// What an installation will do.
#[derive(Default)]
pub(super) struct Plan {
    /// Target path and content.
    pub files: Vec<(String, Vec<u8>)>,
    pub folders: Vec<String>,
    pub paths: BTreeMap<String, String>,
    pub components: BTreeMap<String, String>,
    pub selected: BTreeSet<String>,
}

pub(super) fn plan(
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
pub(super) fn directories(
    database: &Database,
    properties: &Properties,
) -> BTreeMap<String, String> {
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
pub(super) fn contents(
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

/// The files of a cabinet, by their names.
pub fn cabinet(bytes: Vec<u8>, found: &mut BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
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
