//! A signature's table: dispatches on its kind, and reads the kinds that use a bare key.

use serde::Deserialize;

use super::make_signature;
use super::pins::{self, PinnedKey};
use super::{SignedFile, address_beside, keyless, x509};
use crate::recipe::SignatureSpec;
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::TomlValue;
use winimg_base::text::Located;
use winimg_trust::{self, Scheme, cosign, minisign, openpgp, signify};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SignatureKind {
    /// No signature. Not allowed as one of several alternatives.
    None,
    /// Authenticode signatures of the drivers' catalog files.
    Catalogs,
    #[serde(untagged)]
    Of(Scheme),
}

pub fn read_signature(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    what: &str,
    signed: &SignedFile<'_>,
) -> Option<SignatureSpec> {
    let fields = TableReader::open_unchecked(cx, value, "signature", what.into())?;
    fields.ask();
    let kind = fields.read_choice("kind")?;
    let scheme = match kind.value {
        SignatureKind::Of(scheme) => scheme,
        SignatureKind::Catalogs => {
            let fields = TableReader::open_as(cx, value, "signature.catalogs", what.into())?;
            return x509::read_catalogs(&fields, signed);
        }
        SignatureKind::None => {
            let fact = "`none` cannot be an alternative";
            let help = "use it alone: `signature = { kind = \"none\", reason = \"…\" }`";
            cx.error(fact, &kind.place, "", help);
            return None;
        }
    };
    let keys = match scheme {
        Scheme::Openpgp if signed.is_checksum_file => "checksum_signature.openpgp".into(),
        _ => format!("signature.{scheme}"),
    };
    let fields = &TableReader::open_as(cx, value, &keys, what.into())?;
    let read = match scheme {
        Scheme::Openpgp => read_openpgp(fields, signed),
        Scheme::Minisign => {
            let key = pins::short_key(fields);
            by_key(fields, signed, key, ".minisig", |key| {
                minisign::MinisignRule::new(key).map(winimg_trust::SignatureRule::Minisign)
            })
        }
        Scheme::Signify => {
            let key = pins::short_key(fields);
            by_key(fields, signed, key, ".sig", |key| {
                signify::SignifyRule::new(key).map(winimg_trust::SignatureRule::Signify)
            })
        }
        Scheme::Cosign => {
            let key = pins::key_file(fields, "key");
            by_key(fields, signed, key, ".sig", |key| {
                cosign::CosignRule::new(key).map(winimg_trust::SignatureRule::Cosign)
            })
        }
        Scheme::Sigstore => keyless::read_keyless(fields, signed),
        Scheme::Attestation => keyless::read_attestation(fields, signed),
        Scheme::Authenticode => x509::read_authenticode(fields, signed),
        Scheme::Cms => x509::read_cms(fields, signed),
    };
    if signed.is_checksum_file && scheme == Scheme::Authenticode {
        let fact = "a checksum file cannot have an Authenticode signature";
        fields
            .cx
            .error(fact, &kind.place, "", "use `cms` for a detached signature");
        return None;
    }
    read
}

/// Returns the rule, or reports the error at its key.
fn report_rule<T>(
    fields: &TableReader<'_>,
    rule: Result<T, String>,
    key: &Located<PinnedKey>,
    what: &str,
) -> Option<T> {
    match rule {
        Ok(rule) => Some(rule),
        Err(why) => {
            let fact = format!("{}: {what} {why}", fields.what);
            fields.cx.error(fact, &key.place, "", "");
            None
        }
    }
}

fn read_openpgp(fields: &TableReader<'_>, signed: &SignedFile<'_>) -> Option<SignatureSpec> {
    let key = pins::key_file(fields, "key");
    let fingerprints = fields.read_texts("fingerprints");
    let is_clear = signed.is_checksum_file && fields.is("form", "clearsigned");
    if is_clear && fields.has("url") {
        let fact = "a clearsigned file has no separate signature file";
        fields.cx.error(fact, &fields.place, "", "remove `url`");
        return None;
    }
    let url = if is_clear {
        None
    } else {
        Some(address_beside(fields, "url", signed, ".asc")?)
    };
    let key = key?;
    if fingerprints.is_empty() {
        return None;
    }
    let rule = report_rule(
        fields,
        openpgp::OpenPgpRule::new(&key.value.bytes, &fingerprints),
        &key,
        "the OpenPGP key",
    )?;
    let form = if is_clear { ", clearsigned" } else { "" };
    let description = format!(
        "openpgp{form}, key {} of {}",
        fingerprints.join(" or "),
        key.value.words
    );
    let rule = winimg_trust::SignatureRule::Openpgp(rule);
    Some(SignatureSpec {
        url,
        keys: key.value.record(rule.key_content()),
        ..make_signature(fields, rule, description)
    })
}

/// Reads a detached signature that is verified with a single key.
fn by_key(
    fields: &TableReader<'_>,
    signed: &SignedFile<'_>,
    key: Option<Located<PinnedKey>>,
    suffix: &str,
    rule: impl Fn(&str) -> Result<winimg_trust::SignatureRule, String>,
) -> Option<SignatureSpec> {
    let url = address_beside(fields, "url", signed, suffix);
    let key = key?;
    let rule = report_rule(fields, rule(&key.value.to_text()), &key, "the key")?;
    let description = format!("{}, key {}", rule.scheme(), key.value.words);
    Some(SignatureSpec {
        url: Some(url?),
        keys: key.value.record(rule.key_content()),
        ..make_signature(fields, rule, description)
    })
}
