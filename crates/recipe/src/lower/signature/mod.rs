//! `signature` and `checksum_signature`: the required signatures of a download.
//!
//! Reads the pins and the key files, so that a bad key is reported at its line and not an hour
//! later. Trusts only what the recipe names; no key is downloaded.

mod authenticode;
mod chain;
mod cms;
mod key_file;
mod openpgp;
mod scheme;
mod sigstore;

use super::address::parse_address;
use crate::document::value::{TomlData, TomlValue};
use crate::fields::TableReader;
use crate::{ArchiveKind, FileAddress, SignatureScope, SignatureSpec};
use winimg_base::text::Located;
use winimg_trust::SignatureRule;

/// The file to be signed.
pub struct SignedFile<'a> {
    pub url: Option<&'a Located<FileAddress>>,
    /// Its archive format, if the recipe unpacks it.
    pub archive: Option<ArchiveKind>,
    pub is_checksum_file: bool,
    /// True for the medium that drivers are taken from.
    pub has_drivers: bool,
}

/// The required signatures of a file.
#[derive(Default)]
pub struct SignatureRequirements {
    /// Every group must be satisfied, by one of its alternatives.
    pub signatures: Vec<Vec<SignatureSpec>>,
    /// A requirement could not be read, and was reported.
    pub broken: bool,
}

/// Reads `signature = { … }`, or a list of such tables.
pub fn read_signatures(
    fields: &TableReader<'_>,
    key: &str,
    signed: &SignedFile<'_>,
) -> SignatureRequirements {
    let Some(value) = fields.get(key) else {
        return SignatureRequirements::default();
    };
    let tables = match &value.data {
        TomlData::Array(items) => items.as_slice(),
        TomlData::Unknown => &[],
        _ => std::slice::from_ref(value),
    };
    if tables.is_empty() {
        let help = "to drop the signature that an included file requires, write `kind = \"none\"` \
                    with a `reason`";
        if !matches!(value.data, TomlData::Unknown) {
            fields
                .cx
                .error(format!("`{key}` is an empty list"), &value.place, "", help);
        }
        return SignatureRequirements {
            broken: true,
            ..SignatureRequirements::default()
        };
    }
    let only_one = tables.len() == 1;
    let what = format!("the {} of {}", key.replace('_', " "), fields.what);
    let mut asked = SignatureRequirements::default();
    for value in tables {
        match group(fields, value, &what, signed, only_one) {
            Some(group) if group.is_empty() => {}
            Some(group) => asked.signatures.push(group),
            None => asked.broken = true,
        }
    }
    asked
}

/// Reads one table and returns its alternatives; an empty list for `kind = "none"`.
fn group(
    outer: &TableReader<'_>,
    value: &TomlValue,
    what: &str,
    signed: &SignedFile<'_>,
    only_one: bool,
) -> Option<Vec<SignatureSpec>> {
    let cx = outer.cx;
    let table = value.as_table();
    if table.and_then(|t| t.get("kind")?.as_str()) == Some("none") {
        let fields = TableReader::open_as(cx, value, "signature.none", what.into())?;
        return read_dropped(&fields, only_one);
    }
    if !table.is_some_and(|t| t.contains("any")) {
        return Some(vec![scheme::read_signature(cx, value, what, signed)?]);
    }
    let fields = TableReader::open_as(cx, value, "signature.any", what.into())?;
    // Collected in two steps, so that all problems are reported at once.
    let read: Vec<Option<SignatureSpec>> = fields
        .list("any")?
        .iter()
        .map(|item| scheme::read_signature(cx, item, what, signed))
        .collect();
    read.into_iter().collect()
}

/// Reads `kind = "none"`, which drops the signature that an included file requires.
fn read_dropped(fields: &TableReader<'_>, only_one: bool) -> Option<Vec<SignatureSpec>> {
    let reason = fields.read_string("reason");
    if !only_one {
        let fact = "`none` is listed with other signatures";
        fields
            .cx
            .error(fact, &fields.place, "", "keep one or the other");
        return None;
    }
    reason.map(|_| Vec::new())
}

/// Returns the address of a file published alongside: the value of the key, or the file's own
/// address with `suffix` before the query. Without a suffix only the key names it.
fn address_beside(
    fields: &TableReader<'_>,
    key: &str,
    signed: &SignedFile<'_>,
    suffix: Option<&str>,
) -> Option<Located<FileAddress>> {
    if fields.has(key) {
        return parse_address(fields, key, fields.read_string(key)?);
    }
    let beside = signed.url?.value.with_suffix(suffix?);
    Some(Located::new(beside, fields.place.clone()))
}

/// Makes a signature with only a rule and its description.
fn make_signature(fields: &TableReader<'_>, rule: SignatureRule, words: String) -> SignatureSpec {
    SignatureSpec {
        place: fields.place.clone(),
        rule,
        words,
        url: None,
        certificate: None,
        log: None,
        covers: SignatureScope::File,
        crls: Vec::new(),
        keys: Vec::new(),
    }
}
