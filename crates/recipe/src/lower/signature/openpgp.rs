//! `kind = "openpgp"`: a detached signature, or a clearsigned checksum file.

use super::key_file::{read_key_file, report_rule};
use super::{SignedFile, address_beside, make_signature};
use crate::SignatureSpec;
use crate::fields::TableReader;
use winimg_trust::openpgp::OpenPgpRule;
use winimg_trust::{Scheme, SignatureRule};

pub fn read_openpgp(fields: &TableReader<'_>, signed: &SignedFile<'_>) -> Option<SignatureSpec> {
    let key = read_key_file(fields, "key");
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
        let suffix = Scheme::Openpgp.signature_suffix();
        Some(address_beside(fields, "url", signed, suffix)?)
    };
    let key = key?;
    if fingerprints.is_empty() {
        return None;
    }
    let rule = report_rule(
        fields,
        OpenPgpRule::new(&key.value.bytes, &fingerprints),
        &key,
        "the OpenPGP key",
    )?;
    let form = if is_clear { ", clearsigned" } else { "" };
    let description = format!(
        "openpgp{form}, key {} of {}",
        fingerprints.join(" or "),
        key.value.words
    );
    let rule = SignatureRule::Openpgp(rule);
    Some(SignatureSpec {
        url,
        keys: key.value.record(rule.key_content()),
        ..make_signature(fields, rule, description)
    })
}
