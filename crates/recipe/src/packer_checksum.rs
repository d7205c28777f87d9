//! Packer's forms of a checksum in a variable: `file:ADDRESS` and `sha512:HEX`.
//!
//! `sha256 = "{{iso_checksum}}"` accepts every form that image-builder accepts. A literal digest in
//! a recipe must fit its key.

use crate::document::merge::is_download;
use crate::document::value::{TomlData, TomlTable, TomlValue};
use winimg_base::digest::{Algorithm, Digest};

/// Moves each such value to the matching key.
pub fn move_checksums(tree: &mut TomlTable) {
    for outer in &mut tree.entries {
        let TomlData::Table(tables) = &mut outer.value.data else {
            continue;
        };
        for entry in &mut tables.entries {
            if let (true, TomlData::Table(download)) = (
                is_download(&[outer.key.clone(), entry.key.clone()]),
                &mut entry.value.data,
            ) {
                move_checksum(download);
            }
        }
    }
}

fn move_checksum(download: &mut TomlTable) {
    let Some(entry) = download
        .entries
        .iter_mut()
        .find(|entry| entry.key == "sha256" && entry.value.template.is_some())
    else {
        return;
    };
    let Some(text) = entry.value.as_str().map(str::trim) else {
        return;
    };
    let file = text
        .get(..5)
        .filter(|start| start.eq_ignore_ascii_case("file:"));
    if file.is_some() {
        let address = text[5..].to_string();
        // `file:///srv/SUMS` is a URL itself.
        let address = if address.starts_with("//") {
            format!("file:{address}")
        } else {
            address
        };
        entry.value = TomlValue {
            data: TomlData::String(address),
            ..entry.value.clone()
        };
        entry.key = "checksum_url".into();
    } else if text
        .parse::<Digest>()
        .is_ok_and(|digest| digest.algorithm == Algorithm::Sha512)
    {
        entry.key = "sha512".into();
    }
}
