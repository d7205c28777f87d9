//! Signatures by a certificate's key: Authenticode inside a file or by a catalog, and detached CMS.
//!
//! Refuses `members` of what is no archive, patterns that are none, and Authenticode of an archive as a whole: it is the
//! signature of a program, which an archive may be hidden in.

use super::pins;
use super::plain;
use super::{Signed, beside};
use crate::recipe::Signature;
use crate::recipe::fields::Fields;
use winimg_trust::{self, authenticode, cms};

pub fn authenticode(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let chain = pins::chain(fields);
    let stamp = match fields.has("timestamp") {
        true => fields
            .choice("timestamp", &[("required", true), ("optional", false)])
            .map(|t| t.value),
        false => {
            fields.get("timestamp");
            Some(true)
        }
    };
    let extended = match fields.has("extended") {
        true => fields
            .choice("extended", &[("required", true), ("optional", false)])
            .map(|e| e.value),
        false => {
            fields.get("extended");
            Some(true)
        }
    };
    let catalog = match fields.has("catalog") {
        true => Some(beside(fields, "catalog", signed, "")?),
        false => {
            fields.get("catalog");
            None
        }
    };
    let members = members(fields, signed);
    let (mut pins, mut words) = chain?;
    pins::timestamp_roots(fields, &mut pins, &mut words)?;
    let needs_timestamp = stamp?;
    let needs_extended = extended?;
    let members = members?;
    if signed.archive.is_some() && members.is_empty() {
        let kind = fields.table.entry("kind").map(|e| &e.value.place);
        let fact = format!(
            "{} is of an archive, and Authenticode proves none",
            fields.what
        );
        let help = "pin the archive with `sha256`, take another kind of signature, or name the programs in it that are signed: `members = [\"**/*.exe\"]`";
        let place = kind.unwrap_or(&fields.place);
        fields
            .cx
            .error(fact, place, "signs programs, not what is unpacked", help);
        return None;
    }
    let mut whole = format!("authenticode, {words}");
    if !needs_timestamp {
        whole.push_str(", timestamp optional");
    }
    if !needs_extended {
        whole.push_str(", extended optional");
    }
    if catalog.is_some() {
        whole.push_str(", by catalog");
    }
    if !members.is_empty() {
        whole.push_str(&format!(", members {}", members.join(" ")));
    }
    let rule = authenticode::Rule {
        pins,
        needs_timestamp,
        needs_extended,
    };
    Some(Signature {
        url: catalog,
        members,
        ..plain(fields, winimg_trust::Rule::Authenticode(rule), whole)
    })
}

/// Patterns over the paths in an archive.
fn members(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Vec<String>> {
    let texts = fields.strings("members");
    let complain = |fact: &str, place, help: &str| fields.cx.error(fact, place, "", help);
    if fields.has("members") && texts.is_empty() {
        let help = "patterns over the paths in the archive: `members = [\"**/*.exe\"]`";
        complain("`members` names nothing", &fields.place, help);
        return None;
    }
    if let (Some(first), None) = (texts.first(), signed.archive) {
        let fact = "`members` are files of an archive, and nothing says that this is one";
        let help = "only a component with `unpack = \"zip\"` (or \"tar.gz\" …) has members";
        complain(fact, &first.place, help);
        return None;
    }
    let mut right = true;
    for text in &texts {
        if let Err(e) = glob::Pattern::new(&text.value) {
            let fact = format!(
                "`members` has an invalid pattern: \"{}\": {}",
                text.value, e.msg
            );
            complain(&fact, &text.place, "`*` within a folder, `**` over folders");
            right = false;
        }
    }
    right.then(|| texts.into_iter().map(|t| t.value).collect())
}

pub fn cms(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let chain = pins::chain(fields);
    let url = beside(fields, "url", signed, ".p7s");
    let (pins, words) = chain?;
    let rule = cms::Rule { pins };
    Some(Signature {
        url: Some(url?),
        ..plain(
            fields,
            winimg_trust::Rule::Cms(rule),
            format!("cms, {words}"),
        )
    })
}
