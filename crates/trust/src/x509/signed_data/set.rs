//! Checks the two unsigned sets of a SignedData: hash algorithms and certificates.
//!
//! Refuses anything else in them, such as an archive or a program's settings, and more entries than
//! signers need.

use super::super::certificate::Certificate;
use super::super::hash::HashKind;
use super::super::oid::Oid;
use super::super::tlv::{self, SEQUENCE, Tlv, context_tag};
use super::describe_range;
use crate::{RefusalReason, SignatureRefusal};

const MAX_CERTIFICATES: usize = 64;
/// Maximum size of a certificate; one with a 4096-bit RSA key has 2.5 KiB.
const MAX_CERTIFICATE_SIZE: usize = 4 << 10;
/// Maximum size of all certificates of a signature: the chains of a publisher and of a timestamp
/// authority take about 15 KiB together.
const MAX_SET_SIZE: usize = 32 << 10;

/// Checks that the list contains only identifiers of hash algorithms, including the signer's.
pub(super) fn hash_algorithms(list: &Tlv<'_>, signers: Oid<'_>) -> Result<(), SignatureRefusal> {
    const WHAT: &str = "its list of hash algorithms";
    let mut walk = list.walk(WHAT)?;
    let mut found = Vec::new();
    while let Some(algorithm) = walk.next()? {
        let oid = tlv::plain_algorithm(&algorithm, WHAT)?;
        if found.contains(&oid) || !HashKind::is_known(oid) {
            return Err(RefusalReason::Uncovered
                .refusal(
                    "its unsigned list of hash algorithms contains an unknown or repeated entry",
                )
                .expected("each hash algorithm of the signature, once")
                .found(oid));
        }
        found.push(oid);
    }
    if found.contains(&signers) {
        Ok(())
    } else {
        let fact = "does not contain the signer's algorithm";
        Err(tlv::refuse_malformed(WHAT, fact))
    }
}

/// X.509 certificates, and everything else: attribute certificates (as in Microsoft's timestamps)
/// and duplicates.
pub(super) type CertificateSet<'a> = (Vec<&'a [u8]>, Vec<&'a [u8]>);

pub(super) fn read_certificates<'a>(
    set: &Tlv<'a>,
    der: &[u8],
) -> Result<CertificateSet<'a>, SignatureRefusal> {
    const WHAT: &str = "its set of certificates";
    let mut walk = set.walk(WHAT)?;
    let (mut found, mut others) = (Vec::new(), Vec::new());
    if set.value.len() > MAX_SET_SIZE {
        return Err(RefusalReason::Uncovered
            .refusal("its unsigned set of certificates exceeds the maximum size")
            .expected(format_args!("at most {MAX_SET_SIZE} bytes"))
            .found(describe_range(der, set.raw)));
    }
    while let Some(tlv) = walk.next()? {
        if tlv.raw.len() > MAX_CERTIFICATE_SIZE {
            return Err(RefusalReason::Uncovered
                .refusal("a certificate in its unsigned set exceeds the maximum size")
                .expected(format_args!("at most {MAX_CERTIFICATE_SIZE} bytes"))
                .found(describe_range(der, tlv.raw)));
        }
        let is_certificate = tlv.tag == SEQUENCE;
        if is_certificate {
            // Other data could be hidden here.
            Certificate::read(tlv.raw)?;
        } else if ![context_tag(1), context_tag(2)].contains(&tlv.tag) {
            return Err(tlv::refuse_malformed(
                WHAT,
                "contains something that is not a certificate",
            ));
        }
        if found.len() + others.len() == MAX_CERTIFICATES {
            let fact = format!("has more than {MAX_CERTIFICATES} members");
            return Err(tlv::refuse_malformed(WHAT, &fact));
        }
        if is_certificate && !found.contains(&tlv.raw) {
            found.push(tlv.raw)
        } else {
            others.push(tlv.raw)
        }
    }
    Ok((found, others))
}
