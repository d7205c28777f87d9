//! Signatures by a certificate's key: Authenticode inside a file, by a catalog or by those of a driver medium, and detached CMS.
//!
//! Refuses `members` of what is no archive, patterns that are none, catalogs of what no driver is taken from, and Authenticode
//! of an archive as a whole: it is the signature of a program, which an archive may be hidden in.

use super::pins;
use super::plain;
use super::{Signed, beside};
use crate::recipe::fields::Fields;
use crate::recipe::lower::address::address;
use crate::recipe::{Address, Covers, Signature};
use winimg_base::text::Located;
use winimg_trust::authenticode::{self, About, Version};
use winimg_trust::{self, cms};

pub fn authenticode(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let chain = pins::chain(fields);
    let needs_timestamp = fields.is("timestamp", "required");
    let needs_extended = fields.is("extended", "required");
    let by_catalog = fields.has("catalog");
    let catalog = match by_catalog {
        true => beside(fields, "catalog", signed, ""),
        false => None,
    };
    let stamps = pins::timestamp_roots(fields);
    let members = members(fields, signed);
    let about = about(fields);
    let crls = crls(fields);
    let pins::Chain {
        mut pins,
        mut words,
        files: mut keys,
    } = chain?;
    let ((stamps, members), about) = stamps.zip(members).zip(about)?;
    keys.extend(stamps.files);
    let crls = crls?;
    if !fields.is_whole() || by_catalog && catalog.is_none() {
        return None;
    }
    for word in &stamps.words {
        words.push_str(&format!(", timestamp root {word}"));
    }
    pins.timestamp_roots = stamps.certificates;
    if signed.archive.is_some() && members.is_empty() {
        of_an_archive(fields);
        return None;
    }
    let mut whole = format!("authenticode, {words}");
    if !needs_timestamp {
        whole.push_str(", timestamp optional");
    }
    if !needs_extended {
        whole.push_str(", extended optional");
    }
    for word in about.words() {
        whole.push_str(&format!(", {word}"));
    }
    if by_catalog {
        whole.push_str(", by catalog");
    }
    if !members.is_empty() {
        whole.push_str(&format!(", members {}", members.join(" ")));
    }
    let rule = authenticode::Rule {
        pins,
        needs_timestamp,
        needs_extended,
        about,
    };
    Some(Signature {
        url: catalog,
        covers: match members.is_empty() {
            true => Covers::File,
            false => Covers::Members(members),
        },
        crls,
        keys,
        ..plain(fields, winimg_trust::Rule::Authenticode(rule), whole)
    })
}

/// `kind = "catalogs"`. Which drivers are taken is known when `[setup]` has been read.
pub fn catalogs(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let chain = pins::chain(fields);
    let needs_timestamp = fields.is("timestamp", "required");
    let stamps = pins::timestamp_roots(fields);
    let crls = crls(fields);
    if !signed.has_drivers {
        let kind = fields.table.entry("kind").map(|e| &e.value.place);
        let fact = format!(
            "{} is by catalogs, and no driver is taken from it",
            fields.what
        );
        let help = "it is for `[media.virtio]`; of another file a catalog is named by `kind = \"authenticode\"` with `catalog`";
        fields
            .cx
            .error(fact, kind.unwrap_or(&fields.place), "", help);
        return None;
    }
    let pins::Chain {
        mut pins,
        mut words,
        files: mut keys,
    } = chain?;
    let stamps = stamps?;
    keys.extend(stamps.files);
    for word in &stamps.words {
        words.push_str(&format!(", timestamp root {word}"));
    }
    pins.timestamp_roots = stamps.certificates;
    let optional = match needs_timestamp {
        true => "",
        false => ", timestamp optional",
    };
    let rule = authenticode::Rule {
        pins,
        needs_timestamp,
        needs_extended: true,
        about: About::default(),
    };
    let words = format!("catalogs of its drivers, {words}{optional}");
    Some(Signature {
        covers: Covers::Drivers(Vec::new()),
        crls: crls?,
        keys,
        ..plain(fields, winimg_trust::Rule::Authenticode(rule), words)
    })
}

fn of_an_archive(fields: &Fields<'_>) {
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
}

/// What the file has to say of itself.
fn about(fields: &Fields<'_>) -> Option<About> {
    let product = fields.text("product");
    let original_filename = fields.text("original_filename");
    let text = fields.string("min_version");
    let min_version = match &text {
        None => None,
        Some(text) => match Version::parse(&text.value) {
            Some(version) => Some(version),
            None => {
                let fact = format!("`min_version` is no version: \"{}\"", text.value);
                let help = "one to four numbers with dots, such as \"1.33.2\"";
                fields.cx.error(fact, &text.place, "", help);
                return None;
            }
        },
    };
    Some(About {
        product,
        original_filename,
        min_version,
    })
}

/// Where lists of revoked certificates are; none where the recipe names none.
fn crls(fields: &Fields<'_>) -> Option<Vec<Located<Address>>> {
    let texts = fields.strings("crls");
    let addresses = texts.into_iter().map(|text| address(fields, "crls", text));
    // Each is read, so that all complaints come at once.
    let addresses: Vec<Option<Located<Address>>> = addresses.collect();
    let addresses: Option<Vec<Located<Address>>> = addresses.into_iter().collect();
    addresses.filter(|all| !all.is_empty() || !fields.has("crls"))
}

/// Patterns over the paths in an archive.
fn members(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Vec<String>> {
    let texts = fields.strings("members");
    let complain = |fact: &str, place, help: &str| fields.cx.error(fact, place, "", help);
    if fields.has("members") && texts.is_empty() {
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
    let crls = crls(fields);
    let pins::Chain { pins, words, files } = chain?;
    let rule = cms::Rule { pins };
    Some(Signature {
        url: Some(url?),
        crls: crls?,
        keys: files,
        ..plain(
            fields,
            winimg_trust::Rule::Cms(rule),
            format!("cms, {words}"),
        )
    })
}
