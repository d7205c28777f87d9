//! `[lock]`: the required signature and serial of a lock.
//!
//! Refuses signatures that do not apply to a lock: those that are not a file beside it, such as
//! Authenticode.

use std::path::PathBuf;

use super::signature::{SignedFile, read_signatures};
use crate::document::value::{TomlData, TomlTable};
use crate::fields::TableReader;
use crate::{FileAddress, LockPolicy};
use winimg_base::text::Located;
use winimg_trust::Scheme;

/// Reads `[lock]` of a recipe or of a host; `None` if it has an error.
pub fn read_lock_policy(top: &TableReader<'_>) -> Option<LockPolicy> {
    if !top.has("lock") {
        return Some(LockPolicy::default());
    }
    let fields = top.read_table("lock")?;
    let serial = fields.read_integer("serial");
    // The name of the lock is not known yet, so only the suffix of its signature is.
    let nowhere = FileAddress::Local(PathBuf::new());
    let signed = SignedFile {
        url: Some(&Located::new(nowhere, fields.place.clone())),
        archive: None,
        is_checksum_file: false,
        has_drivers: false,
    };
    let is_beside = are_all_beside(&fields);
    let asked = read_signatures(&fields, "signature", &signed);
    (is_beside && !asked.broken && fields.is_whole()).then(|| LockPolicy {
        signatures: asked.signatures,
        serial: serial.and_then(|serial| u64::try_from(serial.value).ok()),
    })
}

/// Checks that every signature is a separate file beside the lock.
fn are_all_beside(fields: &TableReader<'_>) -> bool {
    let mut tables = Vec::new();
    if let Some(value) = fields.get("signature") {
        match &value.data {
            TomlData::Array(items) => {
                tables.extend(items.iter().filter_map(|item| item.as_table()))
            }
            _ => tables.extend(value.as_table()),
        }
    }
    let any = tables
        .iter()
        .filter_map(|table| match &table.get("any")?.data {
            TomlData::Array(items) => Some(items),
            _ => None,
        });
    let alternatives: Vec<&TomlTable> = any.flatten().filter_map(|item| item.as_table()).collect();
    tables.extend(alternatives);
    let (beside, others): (Vec<Scheme>, Vec<Scheme>) = Scheme::ALL
        .into_iter()
        .partition(|scheme| scheme.signature_suffix().is_some());
    let mut all_are = true;
    for table in tables {
        let kind = table.find_entry("kind").filter(|kind| {
            let kind = kind.value.as_str();
            kind.is_some_and(|kind| others.iter().any(|scheme| scheme.to_string() == kind))
        });
        let elsewhere = ["url", "certificate", "log", "crls"]
            .iter()
            .find_map(|key| table.find_entry(key));
        if let Some(entry) = kind.or(elsewhere) {
            let fact = "a lock's signature is a file beside it";
            let kinds: Vec<String> = beside.iter().map(Scheme::to_string).collect();
            let help = format!(
                "use one of {}, without `url`, `certificate`, `log` and `crls`",
                kinds.join(", ")
            );
            fields.cx.error(fact, &entry.value.place, "", &help);
            all_are = false;
        }
    }
    all_are
}
