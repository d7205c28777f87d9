//! `signature` and `checksum_signature`: whose word a download has to have.
//!
//! The pins and the key files are read here, so that a bad key is a complaint at its line and not an hour later.
//! Nothing is trusted that the recipe does not name, and no key is fetched.

mod keyless;
mod pins;
mod scheme;
mod x509;

use super::address::address;
use crate::recipe::fields::Fields;
use crate::recipe::value::{Data, Value};
use crate::recipe::{Address, Archive, Covers, Signature};
use winimg_base::text::Located;

/// What is signed.
pub struct Signed<'a> {
    pub url: Option<&'a Located<Address>>,
    /// How it is packed, where the recipe says so.
    pub archive: Option<Archive>,
    pub is_checksum_file: bool,
    /// It is the medium that drivers are taken from.
    pub has_drivers: bool,
}

/// What a recipe asks of a file's signatures.
#[derive(Default)]
pub struct Asked {
    /// Each has to be met, by one of its alternatives.
    pub signatures: Vec<Vec<Signature>>,
    /// Something was asked for that could not be read, and was complained about.
    pub broken: bool,
}

/// `signature = { … }`, or a list of such tables.
pub fn signatures(fields: &Fields<'_>, key: &str, signed: &Signed<'_>) -> Asked {
    let Some(value) = fields.get(key) else {
        return Asked::default();
    };
    let tables = match &value.data {
        Data::Array(items) => items.as_slice(),
        Data::Unknown => &[],
        _ => std::slice::from_ref(value),
    };
    if tables.is_empty() {
        let help =
            "to drop what an included file asks for, write `kind = \"none\"` with a `reason`";
        if !matches!(value.data, Data::Unknown) {
            fields
                .cx
                .error(format!("`{key}` asks for nothing"), &value.place, "", help);
        }
        return Asked {
            broken: true,
            ..Asked::default()
        };
    }
    let only_one = tables.len() == 1;
    let what = format!("the {} of {}", key.replace('_', " "), fields.what);
    let mut asked = Asked::default();
    for value in tables {
        match group(fields, value, &what, signed, only_one) {
            Some(group) if group.is_empty() => {}
            Some(group) => asked.signatures.push(group),
            None => asked.broken = true,
        }
    }
    asked
}

/// One table: its alternatives; none of them for `kind = "none"`.
fn group(
    outer: &Fields<'_>,
    value: &Value,
    what: &str,
    signed: &Signed<'_>,
    only_one: bool,
) -> Option<Vec<Signature>> {
    let cx = outer.cx;
    let table = value.as_table();
    if table.and_then(|t| t.get("kind")?.as_str()) == Some("none") {
        let fields = Fields::called(cx, value, "signature.none", what.into())?;
        return dropped(&fields, only_one);
    }
    if !table.is_some_and(|t| t.contains("any")) {
        return Some(vec![scheme::signature(cx, value, what, signed)?]);
    }
    let fields = Fields::called(cx, value, "signature.any", what.into())?;
    let items = fields.list("any")?.iter();
    let read = items.map(|item| scheme::signature(cx, item, what, signed));
    // Each is read, so that all complaints come at once.
    let read: Vec<Option<Signature>> = read.collect();
    read.into_iter().collect()
}

/// `kind = "none"`: what an included file asks for is not asked for.
fn dropped(fields: &Fields<'_>, only_one: bool) -> Option<Vec<Signature>> {
    let reason = fields.string("reason");
    if !only_one {
        let fact = "`none` is listed with other signatures";
        fields
            .cx
            .error(fact, &fields.place, "", "keep one or the other");
        return None;
    }
    reason.map(|_| Vec::new())
}

/// Where something stands that is published beside the file: as the key says, or the file's own address with `suffix`
/// before the query.
fn beside(
    fields: &Fields<'_>,
    key: &str,
    signed: &Signed<'_>,
    suffix: &str,
) -> Option<Located<Address>> {
    if fields.has(key) {
        return address(fields, key, fields.string(key)?);
    }
    let url = signed.url?;
    Some(Located::new(
        url.value.with_suffix(suffix),
        fields.place.clone(),
    ))
}

/// A signature of which only rule and words are known.
fn plain(fields: &Fields<'_>, rule: winimg_trust::Rule, words: String) -> Signature {
    Signature {
        place: fields.place.clone(),
        rule,
        words,
        url: None,
        certificate: None,
        log: None,
        covers: Covers::File,
        crls: Vec::new(),
        keys: Vec::new(),
    }
}
