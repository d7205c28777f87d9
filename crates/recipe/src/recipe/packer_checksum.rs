//! Packer's forms of a checksum, where a variable brings one into a digest's key: `file:ADDRESS` and `sha512:HEX`.
//!
//! `sha256 = "{{iso_checksum}}"` takes every form that image-builder's users write. A digest that a recipe spells out is taken
//! as its key says.

use super::merge::is_download;
use super::value::{Data, Entry, Table, Value};
use winimg_base::digest::{Algorithm, Digest};

/// Moves each such value under the key that it belongs to.
pub fn settle(tree: &mut Table) {
    for outer in &mut tree.entries {
        let Data::Table(tables) = &mut outer.value.data else {
            continue;
        };
        for entry in &mut tables.entries {
            if let (true, Data::Table(download)) = (
                is_download(&[outer.key.clone(), entry.key.clone()]),
                &mut entry.value.data,
            ) {
                moved(download);
            }
        }
    }
}

fn moved(download: &mut Table) {
    let is_variable = |entry: &&mut Entry| entry.key == "sha256" && entry.value.template.is_some();
    let Some(entry) = download.entries.iter_mut().find(is_variable) else {
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
        entry.value = Value {
            data: Data::String(address),
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
