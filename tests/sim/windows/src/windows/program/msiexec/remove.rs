//! What an installed product owns, and taking it away again.

use super::{Log, UNKNOWN_PRODUCT};
use crate::windows::boot::{delete_later, strings};
use crate::windows::process::Process;
use crate::windows::regf::{REG_EXPAND_SZ, same};
use crate::windows::registry::{Registry, expand_sz, multi_sz, sz};
use crate::windows::service;

const PRODUCTS: &str = r"HKLM\SOFTWARE\winimg-standin\Msi";
const ENVIRONMENT: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";

/// Everything an installation made. Pairs are joined by U+001F.
#[derive(Default)]
pub struct Record {
    pub files: Vec<String>,
    pub folders: Vec<String>,
    /// Key and value name.
    pub values: Vec<String>,
    pub keys: Vec<String>,
    pub services: Vec<String>,
    /// Variable and the part that was put into it; an empty part is the whole value.
    pub variables: Vec<String>,
}

pub fn uninstall_key(code: &str) -> String {
    format!(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall\{code}")
}

impl Record {
    pub fn write(
        &self,
        registry: &mut Registry,
        code: &str,
        upgrade: &str,
        version: &str,
    ) -> Result<(), String> {
        let key = format!("{PRODUCTS}\\{code}");
        registry.set(&key, "UpgradeCode", sz(upgrade))?;
        registry.set(&key, "Version", sz(version))?;
        for (name, list) in [
            ("Files", &self.files),
            ("Folders", &self.folders),
            ("Values", &self.values),
            ("Keys", &self.keys),
            ("Services", &self.services),
            ("Variables", &self.variables),
        ] {
            registry.set(&key, name, multi_sz(list))?;
        }
        Ok(())
    }

    fn read(registry: &Registry, code: &str) -> Record {
        let list = |name: &str| strings(registry, &format!("{PRODUCTS}\\{code}"), name);
        Record {
            files: list("Files"),
            folders: list("Folders"),
            values: list("Values"),
            keys: list("Keys"),
            services: list("Services"),
            variables: list("Variables"),
        }
    }
}

/// Installed products with this upgrade code: product code and version.
pub fn with_upgrade_code(registry: &Registry, upgrade: &str) -> Vec<(String, String)> {
    let Some(products) = registry.key(PRODUCTS) else {
        return Vec::new();
    };
    let text = |code: &str, name: &str| {
        registry
            .text(&format!("{PRODUCTS}\\{code}"), name)
            .unwrap_or_default()
    };
    let codes = products.subkeys.values().map(|key| key.name.clone());
    codes
        .filter(|code| same(&text(code, "UpgradeCode"), upgrade))
        .map(|code| (code.clone(), text(&code, "Version")))
        .collect()
}

/// Removes an installed product; whether a reboot is wanted.
pub fn product(p: &mut Process, code: &str, log: &mut Log) -> Result<bool, u32> {
    let machine = p.machine.clone();
    if machine.registry().key(&uninstall_key(code)).is_none() {
        log.line(format!("Product {code} is not installed"));
        return Err(UNKNOWN_PRODUCT);
    }
    let record = Record::read(&machine.registry(), code);
    for name in &record.services {
        let _ = service::stop(&machine, name);
        machine.registry().remove(&service::key(name));
        log.line(format!("DeleteServices: Service: {name}"));
    }
    let later = files(p, &record);
    let mut registry = machine.registry();
    for pair in &record.values {
        if let Some((key, name)) = pair.split_once('\u{1f}') {
            registry.key_mut(key).map(|key| key.unset(name));
        }
    }
    for key in record.keys.iter().rev() {
        if registry
            .key(key)
            .is_some_and(|key| key.values.is_empty() && key.subkeys.is_empty())
        {
            registry.remove(key);
        }
    }
    record
        .variables
        .iter()
        .for_each(|pair| variable(&mut registry, pair));
    later
        .iter()
        .for_each(|path| drop(delete_later(&mut registry, path)));
    registry.remove(&uninstall_key(code));
    registry.remove(&format!("{PRODUCTS}\\{code}"));
    log.line(format!(
        "Product: {code} -- Removal completed successfully."
    ));
    Ok(!later.is_empty())
}

/// Deletes files, then directories that are empty; gives the files that could not go now.
pub fn files(p: &Process, record: &Record) -> Vec<String> {
    let mut later = Vec::new();
    for path in &record.files {
        match p.locate(path) {
            Ok(found) if found.is_file() && std::fs::remove_file(&found.host).is_err() => {
                later.push(path.clone())
            }
            _ => {}
        }
    }
    for path in record.folders.iter().rev() {
        if let Ok(found) = p.locate(path) {
            // One that still holds something stays.
            let _ = std::fs::remove_dir(found.host);
        }
    }
    later
}

fn variable(registry: &mut Registry, pair: &str) {
    let Some((name, part)) = pair.split_once('\u{1f}') else {
        return;
    };
    let Some(value) = registry.get(ENVIRONMENT, name) else {
        return;
    };
    let (kind, text) = (value.kind, crate::windows::registry::text(&value.data));
    let rest: Vec<&str> = text.split(';').filter(|item| !same(item, part)).collect();
    if part.is_empty() || rest.is_empty() {
        registry.key_mut(ENVIRONMENT).map(|key| key.unset(name));
    } else {
        let text = rest.join(";");
        let data = if kind == REG_EXPAND_SZ {
            expand_sz(&text)
        } else {
            sz(&text)
        };
        let _ = registry.set(ENVIRONMENT, name, data);
    }
}
