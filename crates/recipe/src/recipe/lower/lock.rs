//! `[lock]`: the signature and the serial that a lock has to have.
//!
//! Refuses what has no place for a lock's signature: a program's own, an attestation, and one that stands elsewhere.

use std::path::PathBuf;

use super::signature::{Signed, signatures};
use crate::recipe::fields::Fields;
use crate::recipe::value::{Data, Table};
use crate::recipe::{Address, LockRule};
use winimg_base::text::Located;

/// Of a recipe or of a host; `None` where something in it was complained about.
pub fn rule(top: &Fields<'_>) -> Option<LockRule> {
    if !top.has("lock") {
        return Some(LockRule::default());
    }
    let fields = top.table("lock")?;
    let serial = fields.integer("serial");
    // The name of the lock is not known yet: what stands beside it is its suffix.
    let nowhere = Address::Local(PathBuf::new());
    let signed = Signed {
        url: Some(&Located::new(nowhere, fields.place.clone())),
        archive: None,
        is_checksum_file: false,
        has_drivers: false,
    };
    let is_beside = stands_beside(&fields);
    let asked = signatures(&fields, "signature", &signed);
    (is_beside && !asked.broken && fields.is_whole()).then(|| LockRule {
        signatures: asked.signatures,
        serial: serial.and_then(|serial| u64::try_from(serial.value).ok()),
    })
}

/// Whether every signature is a file of its own beside the lock.
fn stands_beside(fields: &Fields<'_>) -> bool {
    let mut tables = Vec::new();
    if let Some(value) = fields.get("signature") {
        match &value.data {
            Data::Array(items) => tables.extend(items.iter().filter_map(|item| item.as_table())),
            _ => tables.extend(value.as_table()),
        }
    }
    let any = tables
        .iter()
        .filter_map(|table| match &table.get("any")?.data {
            Data::Array(items) => Some(items),
            _ => None,
        });
    let alternatives: Vec<&Table> = any.flatten().filter_map(|item| item.as_table()).collect();
    tables.extend(alternatives);
    let mut all_are = true;
    for table in tables {
        let kind = table.entry("kind").filter(|kind| {
            let kind = kind.value.as_str();
            kind.is_some_and(|kind| ["authenticode", "attestation"].contains(&kind))
        });
        let elsewhere = ["url", "certificate", "log", "crls"];
        let elsewhere = elsewhere.iter().find_map(|key| table.entry(key));
        if let Some(entry) = kind.or(elsewhere) {
            let fact = "a lock's signature is one file beside it";
            let help = "take minisign, cosign, openpgp, signify, cms, or sigstore with a bundle, without `url` and `crls`";
            fields.cx.error(fact, &entry.value.place, "", help);
            all_are = false;
        }
    }
    all_are
}
