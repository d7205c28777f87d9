//! One signature's table: its kind, and the keys of those kinds that a bare key judges.

use serde::Deserialize;

use super::pins::{self, Key};
use super::plain;
use super::{Signed, beside, keyless, x509};
use crate::recipe::Signature;
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::Value;
use winimg_base::text::Located;
use winimg_trust::{self, Scheme, cosign, minisign, openpgp, signify};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// What a table of its own may name.
    None,
    /// Authenticode, of the catalogs beside drivers.
    Catalogs,
    #[serde(untagged)]
    Of(Scheme),
}

pub fn signature(
    cx: &Context<'_>,
    value: &Value,
    what: &str,
    signed: &Signed<'_>,
) -> Option<Signature> {
    let fields = Fields::unchecked(cx, value, "signature", what.into())?;
    fields.ask();
    let kind = fields.choice("kind")?;
    let scheme = match kind.value {
        Kind::Of(scheme) => scheme,
        Kind::Catalogs => {
            let fields = Fields::called(cx, value, "signature.catalogs", what.into())?;
            return x509::catalogs(&fields, signed);
        }
        Kind::None => {
            let fact = "`none` is no signature that could be met";
            let help = "it stands alone: `signature = { kind = \"none\", reason = \"…\" }`";
            cx.error(fact, &kind.place, "", help);
            return None;
        }
    };
    let keys = match scheme {
        Scheme::Openpgp if signed.is_checksum_file => "checksum_signature.openpgp".into(),
        _ => format!("signature.{scheme}"),
    };
    let fields = &Fields::called(cx, value, &keys, what.into())?;
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
            let key = pins::key_file(fields, "key");
            let rule = |key: &str| cosign::Rule::new(key).map(winimg_trust::Rule::Cosign);
            by_key(fields, signed, key, ".sig", rule)
        }
        Scheme::Sigstore => keyless::signature(fields, signed),
        Scheme::Attestation => keyless::attestation(fields, signed),
        Scheme::Authenticode => x509::authenticode(fields, signed),
        Scheme::Cms => x509::cms(fields, signed),
    };
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
    let key = pins::key_file(fields, "key");
    let fingerprints = fields.texts("fingerprints");
    let is_clear = signed.is_checksum_file && fields.is("form", "clearsigned");
    if is_clear && fields.has("url") {
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
    let rule = winimg_trust::Rule::Openpgp(rule);
    Some(Signature {
        url,
        keys: key.value.recorded(rule.pinned()),
        ..plain(fields, rule, words)
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
        keys: key.value.recorded(rule.pinned()),
        ..plain(fields, rule, words)
    })
}
