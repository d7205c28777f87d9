//! One signature's table: its kind, and the keys of those kinds that a bare key judges.

use super::pins::{self, Key};
use super::plain;
use super::{Signed, beside, keyless, x509};
use crate::recipe::Signature;
use crate::recipe::fields::Fields;
use winimg_base::text::Located;
use winimg_trust::{self, Scheme, cosign, minisign, openpgp, signify};

/// `kind`, as recipes call the schemes. `none` is one that a table of its own may name.
const KINDS: &[(&str, Option<Scheme>)] = &[
    ("openpgp", Some(Scheme::Openpgp)),
    ("minisign", Some(Scheme::Minisign)),
    ("signify", Some(Scheme::Signify)),
    ("cosign", Some(Scheme::Cosign)),
    ("sigstore", Some(Scheme::Sigstore)),
    ("attestation", Some(Scheme::Attestation)),
    ("authenticode", Some(Scheme::Authenticode)),
    ("cms", Some(Scheme::Cms)),
    ("none", None),
];

pub fn signature(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let help = "it is one of: openpgp, minisign, signify, cosign, sigstore, attestation, authenticode, cms, none";
    fields.need("kind", help);
    let kind = fields.choice("kind", KINDS)?;
    let Some(scheme) = kind.value else {
        let fact = "`none` is no signature that could be met";
        let help = "it stands alone: `signature = { kind = \"none\", reason = \"…\" }`";
        fields.cx.error(fact, &kind.place, "", help);
        return None;
    };
    let read = match scheme {
        Scheme::Openpgp => openpgp(fields, signed),
        Scheme::Minisign => {
            let rule = |key: &str| minisign::Rule::new(key).map(winimg_trust::Rule::Minisign);
            by_key(fields, signed, pins::short_key(fields), ".minisig", rule)
        }
        Scheme::Signify => {
            let rule = |key: &str| signify::Rule::new(key).map(winimg_trust::Rule::Signify);
            by_key(fields, signed, pins::short_key(fields), ".sig", rule)
        }
        Scheme::Cosign => {
            let key = pins::key_file(fields, "key", "write `key = \"keys/cosign.pub\"`");
            let rule = |key: &str| cosign::Rule::new(key).map(winimg_trust::Rule::Cosign);
            by_key(fields, signed, key, ".sig", rule)
        }
        Scheme::Sigstore => keyless::signature(fields, signed),
        Scheme::Attestation => keyless::attestation(fields, signed),
        Scheme::Authenticode => x509::authenticode(fields, signed),
        Scheme::Cms => x509::cms(fields, signed),
    };
    fields.finish();
    if signed.is_checksum_file && scheme == Scheme::Authenticode {
        let fact = "a checksum file has no place for an Authenticode signature";
        fields
            .cx
            .error(fact, &kind.place, "", "take `cms` for a detached one");
        return None;
    }
    read
}

/// The rule, or a complaint at the key that it was made from.
fn made<T>(
    fields: &Fields<'_>,
    rule: Result<T, String>,
    key: &Located<Key>,
    what: &str,
) -> Option<T> {
    match rule {
        Ok(rule) => Some(rule),
        Err(why) => {
            let fact = format!("{what} of {} {why}", fields.what);
            fields.cx.error(fact, &key.place, "", "");
            None
        }
    }
}

fn openpgp(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let key = pins::key_file(
        fields,
        "key",
        "write `key = \"keys/publisher.asc\"`: the publisher's public key",
    );
    let help = "write `fingerprints = [\"…\"]`: all digits of the primary key's fingerprint, as `gpg --fingerprint` shows it";
    fields.need("fingerprints", help);
    let fingerprints = fields.texts("fingerprints");
    if fields.has("fingerprints") && fingerprints.is_empty() {
        let fact = format!("{} pins no key", fields.what);
        fields.cx.error(fact, &fields.place, "", help);
        return None;
    }
    let is_clear = signed.is_checksum_file
        && fields
            .choice("form", &[("detached", false), ("clearsigned", true)])
            .is_some_and(|f| f.value);
    if is_clear && fields.has("url") {
        fields.get("url");
        let fact = "a clearsigned file holds its own signature";
        fields.cx.error(fact, &fields.place, "", "take `url` out");
        return None;
    }
    let url = match is_clear {
        true => None,
        false => Some(beside(fields, "url", signed, ".asc")?),
    };
    let key = key?;
    if fingerprints.is_empty() {
        return None;
    }
    let rule = openpgp::Rule::new(&key.value.bytes, &fingerprints);
    let rule = made(fields, rule, &key, "the OpenPGP key")?;
    let form = if is_clear { ", clearsigned" } else { "" };
    let words = format!(
        "openpgp{form}, key {} of {}",
        fingerprints.join(" or "),
        key.value.words
    );
    Some(Signature {
        url,
        ..plain(fields, winimg_trust::Rule::Openpgp(rule), words)
    })
}

/// One key, and a signature beside the file.
fn by_key(
    fields: &Fields<'_>,
    signed: &Signed<'_>,
    key: Option<Located<Key>>,
    suffix: &str,
    rule: impl Fn(&str) -> Result<winimg_trust::Rule, String>,
) -> Option<Signature> {
    let url = beside(fields, "url", signed, suffix);
    let key = key?;
    let rule = made(fields, rule(&key.value.text()), &key, "the key")?;
    let words = format!("{}, key {}", rule.scheme(), key.value.words);
    Some(Signature {
        url: Some(url?),
        ..plain(fields, rule, words)
    })
}
