//! Detached CMS: a `.p7s` in DER or PEM, as written by `openssl cms -sign -binary`; with `-stream`
//! in BER, in which case openssl also embeds the file in the signature.
//!
//! Refuses other signatures with embedded content, because the file would not be what was signed,
//! and signatures of content other than a file. (RFC 5652)

use std::borrow::Cow;
use std::time::SystemTime;

use super::authenticode::CertificatePins;
use super::reading::SubjectReader;
use crate::x509::oid::Oid;
use crate::x509::policy::CertificatePolicy;
use crate::x509::purpose::CertificateUse;
use crate::x509::signed_data::{DATA, SignedData};
use crate::x509::{ber, pem, tlv};
use crate::{
    FileSubject, RefusalReason, Scheme, SignatureEvidence, SignatureRefusal, SignatureResult,
};

#[derive(Clone, Debug)]
pub struct CmsRule {
    pub pins: CertificatePins,
}

pub fn judge(
    rule: &CmsRule,
    subject: FileSubject<'_>,
    evidence: &SignatureEvidence,
    now: SystemTime,
) -> SignatureResult {
    let Some(bytes) = evidence.signature.as_deref().filter(|b| !b.is_empty()) else {
        return Err(RefusalReason::Missing.refusal("there is none for the file"));
    };
    let written = decode_der(bytes)?;
    let der = ber::to_der(&written)?;
    let signed = SignedData::read(&der)?;
    let is_streamed = matches!(der, Cow::Owned(_));
    if !signed.is_detached() && !is_streamed {
        return Err(RefusalReason::Unsupported
            .refusal("it has embedded content instead of a detached signature")
            .cure("create a detached signature: `openssl cms -sign -binary` without `-nodetach`"));
    }
    let policy = CertificatePolicy {
        scheme: Scheme::Cms,
        pins: &rule.pins,
        needs_timestamp: false,
        wanted: CertificateUse::Message,
        now: now.into(),
        lists: evidence.lists.as_ref(),
    };
    let judged = policy.judge(&signed, |signed| {
        if signed.content_type() != DATA {
            return Err(RefusalReason::Unsupported
                .refusal("its content type is not that of a file")
                .expected(DATA)
                .found(signed.content_type()));
        }
        if !signed.is_detached() {
            signed.check_content()?;
        }
        let mut hash = signed.signer.hash()?.start();
        SubjectReader::visit(subject, |piece| hash.update(piece))?;
        let digest = hash.finish();
        signed
            .signer
            .check_attributes(Oid::from_known(&DATA), digest.as_ref())
    });
    judged.map(|met| met.signer)
}

fn decode_der(bytes: &[u8]) -> Result<Vec<u8>, SignatureRefusal> {
    let mut blocks = pem::decode_blocks(bytes, &["CMS", "PKCS7"])
        .map_err(|why| tlv::refuse_malformed("the signature", &why))?;
    match (blocks.pop(), blocks.is_empty()) {
        (Some(der), true) => Ok(der),
        (None, _) => Err(tlv::refuse_malformed(
            "the signature",
            "has no PEM block CMS or PKCS7",
        )),
        _ => Err(tlv::refuse_malformed(
            "the signature",
            "has more than one PEM block",
        )),
    }
}
