//! A signature's table: dispatches on its kind, and reads the schemes that use a bare key.

use serde::Deserialize;

use super::key_file::{PinnedKey, read_key_file, read_short_key, report_rule};
use super::{SignedFile, address_beside, authenticode, cms, make_signature, openpgp, sigstore};
use crate::SignatureSpec;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use winimg_base::text::Located;
use winimg_trust::cosign::CosignRule;
use winimg_trust::minisign::MinisignRule;
use winimg_trust::signify::SignifyRule;
use winimg_trust::{Scheme, SignatureRule};

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
            return authenticode::read_catalogs(&fields, signed);
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
        Scheme::Openpgp => openpgp::read_openpgp(fields, signed),
        Scheme::Minisign => by_key(fields, signed, scheme, read_short_key(fields), |key| {
            MinisignRule::new(key).map(SignatureRule::Minisign)
        }),
        Scheme::Signify => by_key(fields, signed, scheme, read_short_key(fields), |key| {
            SignifyRule::new(key).map(SignatureRule::Signify)
        }),
        Scheme::Cosign => by_key(
            fields,
            signed,
            scheme,
            read_key_file(fields, "key"),
            |key| CosignRule::new(key).map(SignatureRule::Cosign),
        ),
        Scheme::Sigstore => sigstore::read_keyless(fields, signed),
        Scheme::Attestation => sigstore::read_attestation(fields, signed),
        Scheme::Authenticode => authenticode::read_authenticode(fields, signed),
        Scheme::Cms => cms::read_cms(fields, signed),
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

/// Reads a detached signature that is verified with a single key.
fn by_key(
    fields: &TableReader<'_>,
    signed: &SignedFile<'_>,
    scheme: Scheme,
    key: Option<Located<PinnedKey>>,
    parse: impl Fn(&str) -> Result<SignatureRule, String>,
) -> Option<SignatureSpec> {
    let url = address_beside(fields, "url", signed, scheme.signature_suffix());
    let key = key?;
    let text = String::from_utf8_lossy(&key.value.bytes);
    let rule = report_rule(fields, parse(&text), &key, "the key")?;
    let description = format!("{scheme}, key {}", key.value.words);
    Some(SignatureSpec {
        url: Some(url?),
        keys: key.value.record(rule.key_content()),
        ..make_signature(fields, rule, description)
    })
}
