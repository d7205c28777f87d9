//! CMS beside a file: a `.p7s` in DER or PEM, as `openssl cms -sign -binary` writes it; with `-stream` in BER, where openssl
//! writes the file into the signature as well.
//!
//! Refuses a signature that carries content of its own, for then the file would not be what was signed, and one that is of
//! something else than a file. (RFC 5652)

use std::borrow::Cow;
use std::time::SystemTime;

use super::authenticode::Pins;
use super::oid::Oid;
use super::policy::Policy;
use super::purpose::Use;
use super::reading::Reading;
use super::signed_data::{DATA, SignedData};
use super::tlv;
use super::{Evidence, Judged, Reason, Refusal, Scheme, Subject, ber, pem};

#[derive(Clone, Debug)]
pub struct Rule {
    pub pins: Pins,
}

pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence, now: SystemTime) -> Judged {
    let Some(bytes) = evidence.signature.as_deref().filter(|b| !b.is_empty()) else {
        return Err(Reason::Missing.refusal("there is none beside the file"));
    };
    let written = der(bytes)?;
    let der = ber::to_der(&written)?;
    let signed = SignedData::read(&der)?;
    let is_streamed = matches!(der, Cow::Owned(_));
    if !signed.is_detached() && !is_streamed {
        return Err(Reason::Unsupported
            .refusal("it carries content of its own, and not the signature of a file alone")
            .cure("sign detached: `openssl cms -sign -binary` does so without `-nodetach`"));
    }
    let policy = Policy {
        scheme: Scheme::Cms,
        pins: &rule.pins,
        needs_timestamp: false,
        wanted: Use::Message,
        now: now.into(),
        lists: evidence.lists.as_ref(),
    };
    let judged = policy.judge(&signed, |signed| {
        if signed.content_type() != DATA {
            return Err(Reason::Unsupported
                .refusal("it is of something else than a file, which may have a meaning of its own")
                .expected(DATA)
                .found(signed.content_type()));
        }
        if !signed.is_detached() {
            signed.check_content()?;
        }
        let mut hash = signed.signer.hash()?.start();
        Reading::each(subject, |piece| hash.update(piece))?;
        let digest = hash.finish();
        signed
            .signer
            .check_attributes(Oid::of(&DATA), digest.as_ref())
    });
    judged.map(|met| met.signer)
}

fn der(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if text.contains("-----BEGIN ") => text,
        _ => return Ok(bytes.to_vec()),
    };
    let bad = |why: String| tlv::malformed("the signature", &why);
    let mut blocks = pem::blocks(text, &["CMS", "PKCS7"]).map_err(bad)?;
    match (blocks.pop(), blocks.is_empty()) {
        (Some(der), true) => Ok(der),
        (None, _) => Err(bad("has no PEM block CMS or PKCS7".into())),
        _ => Err(bad("has more than one PEM block".into())),
    }
}
