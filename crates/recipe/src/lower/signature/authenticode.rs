//! `kind = "authenticode"` (embedded, or by a catalog) and `kind = "catalogs"` (by the catalogs of
//! a driver medium).
//!
//! Refuses `members` of a file that is not an archive, invalid patterns, catalogs of a file without
//! drivers, and Authenticode of an archive as a whole: it signs a program, which may contain an
//! archive.

use super::chain::read_chain;
use super::{SignedFile, address_beside, make_signature};
use crate::fields::TableReader;
use crate::{SignatureScope, SignatureSpec};
use winimg_trust::SignatureRule;
use winimg_trust::authenticode::{AuthenticodeRule, FileVersion, PinnedProperties};

pub fn read_authenticode(
    fields: &TableReader<'_>,
    signed: &SignedFile<'_>,
) -> Option<SignatureSpec> {
    let chain = read_chain(fields);
    let needs_timestamp = fields.is("timestamp", "required");
    let needs_extended = fields.is("extended", "required");
    let by_catalog = fields.has("catalog");
    let catalog = address_beside(fields, "catalog", signed, None);
    let members = read_members(fields, signed);
    let about = read_about(fields);
    let (chain, members, about) = (chain?, members?, about?);
    if !fields.is_whole() || by_catalog && catalog.is_none() {
        return None;
    }
    if signed.archive.is_some() && members.is_empty() {
        of_an_archive(fields);
        return None;
    }
    let mut whole = format!("authenticode, {}", chain.words);
    if !needs_timestamp {
        whole.push_str(", timestamp optional");
    }
    if !needs_extended {
        whole.push_str(", extended optional");
    }
    for word in about.describe() {
        whole.push_str(&format!(", {word}"));
    }
    if by_catalog {
        whole.push_str(", by catalog");
    }
    if !members.is_empty() {
        whole.push_str(&format!(", members {}", members.join(" ")));
    }
    let rule = AuthenticodeRule {
        pins: chain.pins,
        needs_timestamp,
        needs_extended,
        about,
    };
    Some(SignatureSpec {
        url: catalog,
        covers: if members.is_empty() {
            SignatureScope::File
        } else {
            SignatureScope::Members(members)
        },
        crls: chain.crls,
        keys: chain.files,
        ..make_signature(fields, SignatureRule::Authenticode(rule), whole)
    })
}

/// Reads `kind = "catalogs"`. The drivers are filled in when `[setup]` has been read.
pub fn read_catalogs(fields: &TableReader<'_>, signed: &SignedFile<'_>) -> Option<SignatureSpec> {
    let chain = read_chain(fields);
    let needs_timestamp = fields.is("timestamp", "required");
    if !signed.has_drivers {
        let kind = fields.table.find_entry("kind").map(|e| &e.value.place);
        let fact = format!(
            "{} is by catalogs, but no driver comes from this file",
            fields.what
        );
        let help = "`catalogs` is for `[media.virtio]`; for another file use \
                    `kind = \"authenticode\"` with `catalog`";
        fields
            .cx
            .error(fact, kind.unwrap_or(&fields.place), "", help);
        return None;
    }
    let chain = chain?;
    let optional = if needs_timestamp {
        ""
    } else {
        ", timestamp optional"
    };
    let rule = AuthenticodeRule {
        pins: chain.pins,
        needs_timestamp,
        needs_extended: true,
        about: PinnedProperties::default(),
    };
    let words = format!("catalogs of its drivers, {}{optional}", chain.words);
    Some(SignatureSpec {
        covers: SignatureScope::Drivers(Vec::new()),
        crls: chain.crls,
        keys: chain.files,
        ..make_signature(fields, SignatureRule::Authenticode(rule), words)
    })
}

fn of_an_archive(fields: &TableReader<'_>) {
    let kind = fields.table.find_entry("kind").map(|e| &e.value.place);
    let fact = format!(
        "{} is for an archive, which Authenticode cannot sign",
        fields.what
    );
    let help = "pin the archive with `sha256`, use another kind of signature, or list its signed \
                programs: `members = [\"**/*.exe\"]`";
    let place = kind.unwrap_or(&fields.place);
    fields
        .cx
        .error(fact, place, "signs programs, not archives", help);
}

/// Reads the required version information of the file.
fn read_about(fields: &TableReader<'_>) -> Option<PinnedProperties> {
    let product = fields.read_text("product");
    let original_filename = fields.read_text("original_filename");
    let text = fields.read_string("min_version");
    let min_version = match &text {
        None => None,
        Some(text) => match FileVersion::parse(&text.value) {
            Some(version) => Some(version),
            None => {
                let fact = format!("`min_version` is not a version: \"{}\"", text.value);
                let help = "write one to four numbers separated by dots, such as \"1.33.2\"";
                fields.cx.error(fact, &text.place, "", help);
                return None;
            }
        },
    };
    Some(PinnedProperties {
        product,
        original_filename,
        min_version,
    })
}

/// Reads the patterns of paths in an archive.
fn read_members(fields: &TableReader<'_>, signed: &SignedFile<'_>) -> Option<Vec<String>> {
    let texts = fields.read_strings("members");

    if fields.has("members") && texts.is_empty() {
        return None;
    }
    if let (Some(first), None) = (texts.first(), signed.archive) {
        let fact = "`members` are files of an archive, but this is not unpacked";
        let help = "only a component with `unpack = \"zip\"` (or \"tar.gz\" …) has members";
        fields.cx.error(fact, &first.place, "", help);
        return None;
    }
    let mut is_valid = true;
    for text in &texts {
        if let Err(e) = glob::Pattern::new(&text.value) {
            let fact = format!(
                "`members` has an invalid pattern: \"{}\": {}",
                text.value, e.msg
            );
            let help = "`*` matches within a folder, `**` across folders";
            fields.cx.error(fact, &text.place, "", help);
            is_valid = false;
        }
    }
    is_valid.then(|| texts.into_iter().map(|t| t.value).collect())
}
