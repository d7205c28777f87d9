//! Unsigned attributes: the one place inside a signature where bytes may stand that it does not cover.
//!
//! Whoever has a signed file can add to them without breaking the signature, an archive or a program for example. Refuses
//! attributes of types that winimg does not read, and values that are not what their type says.
//! (Microsoft: Authenticode PE; RFC 5652 11.4; RFC 3161 appendix A)

use der::asn1::ObjectIdentifier;

use super::super::oid::Oid;
use super::super::signed_data::{SignedData, SignerInfo, at};
use super::super::timestamp::{self, COUNTERSIGNATURE, TOKENS, TST_INFO};
use super::super::{Reason, Refusal};
use super::indirect::SPC_INDIRECT_DATA;
use super::{CERTIFICATE_TRUST_LIST, MAX_SIGNATURES, NESTED, each_signature};

/// Bytes of a signature that was not taken, without those nested in it.
pub(super) const LARGEST_UNTAKEN: u64 = 64 << 10;
/// Bytes of a timestamp with its certificates.
const LONGEST_TOKEN: usize = 32 << 10;
/// Bytes of a timestamp's statement: a digest, a serial number, a time and a name. (RFC 3161 2.4.2)
const LONGEST_TIMESTAMP: usize = 4096;

/// Only nested signatures, which are judged like the outer one, and timestamps that carry nothing unsigned themselves. Each
/// holds what its kind holds, for it may be one that nobody has to believe: another of the same kind is enough.
pub(super) fn check(signed: &SignedData<'_>) -> Result<(), Refusal> {
    let [token, cms_token] = TOKENS;
    let whole = signed.der;
    let known = [NESTED, token, cms_token, COUNTERSIGNATURE];
    only(whole, &signed.signer, &known)?;
    for stamp in timestamp::all(signed)? {
        if stamp.raw.len() > LONGEST_TOKEN {
            let fact = "a timestamp of its signature is longer than any is";
            return Err(uncovered(fact)
                .expected(format_args!("{LONGEST_TOKEN} bytes at most"))
                .found(at(whole, stamp.raw)));
        }
    }
    for oid in TOKENS {
        for value in signed.signer.unsigned(oid, MAX_SIGNATURES)? {
            let token = SignedData::read(value.raw)?;
            only(whole, &token.signer, &[])?;
            is_of("a timestamp", token.content_type(), &[TST_INFO])?;
            if token.content().len() > LONGEST_TIMESTAMP {
                let fact = "a timestamp of its signature holds more than any timestamp says";
                return Err(uncovered(fact)
                    .expected(format_args!("{LONGEST_TIMESTAMP} bytes at most"))
                    .found(at(whole, token.content())));
            }
        }
    }
    for value in signed.signer.unsigned(NESTED, MAX_SIGNATURES)? {
        let nested = SignedData::read(value.raw)?;
        let kinds = [SPC_INDIRECT_DATA, CERTIFICATE_TRUST_LIST];
        is_of("a signature nested in it", nested.content_type(), &kinds)?;
    }
    for value in signed.signer.unsigned(COUNTERSIGNATURE, MAX_SIGNATURES)? {
        only(whole, &SignerInfo::read(&value)?, &[])?;
    }
    Ok(())
}

/// The signature in a program that another one proves, a catalog: it is not judged, and may hold nothing else.
pub(super) fn check_untaken(der: &[u8]) -> Result<(), Refusal> {
    if der.len() as u64 > LARGEST_UNTAKEN {
        return Err(untaken(der.len() as u64, 0));
    }
    each_signature(der, check)
}

/// Of a signature that was not taken and has room for more than one.
pub(super) fn untaken(bytes: u64, at: u64) -> Refusal {
    uncovered("a signature that was not taken is longer than any is")
        .expected(format_args!("{LARGEST_UNTAKEN} bytes at most"))
        .found(format_args!(
            "{bytes} bytes at offset {at:#x} of the signature"
        ))
}

fn is_of(what: &str, found: Oid<'_>, kinds: &[ObjectIdentifier]) -> Result<(), Refusal> {
    if kinds.iter().any(|kind| found == *kind) {
        return Ok(());
    }
    let kinds: Vec<String> = kinds.iter().map(ObjectIdentifier::to_string).collect();
    let fact = format!("{what} holds something else than its kind does");
    Err(uncovered(&fact).expected(kinds.join(" or ")).found(found))
}

fn uncovered(fact: &str) -> Refusal {
    Reason::Uncovered.refusal(fact).cure(
        "fetch the file from its publisher again, or prove it by a digest that the publisher names",
    )
}

fn only(whole: &[u8], signer: &SignerInfo<'_>, known: &[ObjectIdentifier]) -> Result<(), Refusal> {
    let others = signer.other_unsigned(known);
    if others.is_empty() {
        return Ok(());
    }
    let found: Vec<String> = others
        .iter()
        .map(|(oid, bytes)| format!("{oid} with {}", at(whole, bytes)))
        .collect();
    let fact = "an unsigned attribute of an unknown type stands in its signature, and nobody signed what it holds";
    Err(uncovered(fact)
        .expected("nested signatures and timestamps at most")
        .found(found.join(", ")))
}
