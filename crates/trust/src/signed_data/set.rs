//! The two sets of a SignedData that no signature covers: its hash algorithms, and its certificates.
//!
//! Refuses what is in them and is neither, and more of it than signers put there: an archive, or a program's settings.

use super::super::certificate::Certificate;
use super::super::hash::HashKind;
use super::super::oid::Oid;
use super::super::tlv::{self, SEQUENCE, Tlv, context};
use super::super::{Reason, Refusal};
use super::at;

const MAX_CERTIFICATES: usize = 64;
/// Bytes of a certificate; one of RSA with 4096 bits has 2.5 KiB.
const LONGEST_CERTIFICATE: usize = 4 << 10;
/// Bytes of all certificates of a signature: a publisher's chain and an authority's for timestamps have 15 KiB.
const LARGEST_SET: usize = 32 << 10;

/// Every algorithm of the list is a hash's name and nothing more, and the signer's is among them.
pub(super) fn hash_algorithms(list: &Tlv<'_>, signers: Oid<'_>) -> Result<(), Refusal> {
    const WHAT: &str = "its list of hash algorithms";
    let mut walk = list.walk(WHAT)?;
    let mut found = Vec::new();
    while let Some(algorithm) = walk.next()? {
        let oid = tlv::plain_algorithm(&algorithm, WHAT)?;
        if found.contains(&oid) || !HashKind::is_known(oid) {
            return Err(Reason::Uncovered
                .refusal("its list of hash algorithms, which nobody signed, names something else")
                .expected("each hash that it is made with, once")
                .found(oid));
        }
        found.push(oid);
    }
    match found.contains(&signers) {
        true => Ok(()),
        false => Err(tlv::malformed(WHAT, "does not name its signer's")),
    }
}

/// The X.509 certificates, and what else there is: attribute certificates, as Microsoft's timestamps carry them, and copies.
pub(super) type Set<'a> = (Vec<&'a [u8]>, Vec<&'a [u8]>);

pub(super) fn certificates<'a>(set: &Tlv<'a>, der: &[u8]) -> Result<Set<'a>, Refusal> {
    const WHAT: &str = "its set of certificates";
    let mut walk = set.walk(WHAT)?;
    let (mut found, mut others) = (Vec::new(), Vec::new());
    if set.value.len() > LARGEST_SET {
        return Err(Reason::Uncovered
            .refusal("its set of certificates, which nobody signed, is larger than any is")
            .expected(format_args!("{LARGEST_SET} bytes at most"))
            .found(at(der, set.raw)));
    }
    while let Some(tlv) = walk.next()? {
        if tlv.raw.len() > LONGEST_CERTIFICATE {
            return Err(Reason::Uncovered
                .refusal(
                    "a certificate in it is longer than any is, and nobody signed that it is there",
                )
                .expected(format_args!("{LONGEST_CERTIFICATE} bytes at most"))
                .found(at(der, tlv.raw)));
        }
        let is_certificate = tlv.tag == SEQUENCE;
        if is_certificate {
            // Bytes that are none would stand there for another reader.
            Certificate::read(tlv.raw)?;
        } else if ![context(1), context(2)].contains(&tlv.tag) {
            return Err(tlv::malformed(
                WHAT,
                "has something in it that is no certificate",
            ));
        }
        if found.len() + others.len() == MAX_CERTIFICATES {
            let fact = format!("has more than {MAX_CERTIFICATES} in it");
            return Err(tlv::malformed(WHAT, &fact));
        }
        match is_certificate && !found.contains(&tlv.raw) {
            true => found.push(tlv.raw),
            false => others.push(tlv.raw),
        }
    }
    Ok((found, others))
}
