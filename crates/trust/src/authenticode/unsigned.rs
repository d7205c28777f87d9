//! Unsigned attributes, the only part of a signature that it does not cover.
//!
//! Anyone can add data to them, such as an archive or a program, without breaking the signature.
//! Refuses attributes of types that winimg does not read, and values that do not match their type.
//! (Microsoft: Authenticode PE; RFC 5652 11.4; RFC 3161 appendix A)

use der::asn1::ObjectIdentifier;

use super::super::{RefusalReason, SignatureRefusal};
use super::indirect::SPC_INDIRECT_DATA;
use super::{CERTIFICATE_TRUST_LIST, MAX_SIGNATURES, NESTED_SIGNATURE, visit_signatures};
use crate::x509::oid::Oid;
use crate::x509::signed_data::{SignedData, SignerInfo, describe_range};
use crate::x509::timestamp::{self, COUNTERSIGNATURE, TOKENS, TST_INFO};

/// Maximum size of an unused signature, without those nested in it.
pub(super) const MAX_UNUSED_SIGNATURE: u64 = 64 << 10;
/// Maximum size of a timestamp with its certificates.
const MAX_TOKEN_SIZE: usize = 32 << 10;
/// Maximum size of a timestamp's content: a digest, a serial number, a time and a name. (RFC 3161
/// 2.4.2)
const MAX_TIMESTAMP_SIZE: usize = 4096;

/// Allows only nested signatures, which are checked like the outer one, and timestamps without
/// unsigned attributes. Each must have the content of its type, even if it is not needed because
/// another one of the same type is valid.
pub(super) fn check(signed: &SignedData<'_>) -> Result<(), SignatureRefusal> {
    let [token, cms_token] = TOKENS;
    let whole = signed.der;
    let known = [NESTED_SIGNATURE, token, cms_token, COUNTERSIGNATURE];
    check_attributes(whole, &signed.signer, &known)?;
    for stamp in timestamp::find_timestamps(signed)? {
        if stamp.raw.len() > MAX_TOKEN_SIZE {
            let fact = "a timestamp of its signature exceeds the maximum size";
            return Err(refuse_uncovered(fact)
                .expected(format_args!("at most {MAX_TOKEN_SIZE} bytes"))
                .found(describe_range(whole, stamp.raw)));
        }
    }
    for oid in TOKENS {
        for value in signed.signer.find_unsigned(oid, MAX_SIGNATURES)? {
            let token = SignedData::read(value.raw)?;
            check_attributes(whole, &token.signer, &[])?;
            is_of("a timestamp", token.content_type(), &[TST_INFO])?;
            if token.content().len() > MAX_TIMESTAMP_SIZE {
                let fact = "the content of a timestamp of its signature exceeds the maximum size";
                return Err(refuse_uncovered(fact)
                    .expected(format_args!("at most {MAX_TIMESTAMP_SIZE} bytes"))
                    .found(describe_range(whole, token.content())));
            }
        }
    }
    for value in signed
        .signer
        .find_unsigned(NESTED_SIGNATURE, MAX_SIGNATURES)?
    {
        let nested = SignedData::read(value.raw)?;
        let kinds = [SPC_INDIRECT_DATA, CERTIFICATE_TRUST_LIST];
        is_of("a signature nested in it", nested.content_type(), &kinds)?;
    }
    for value in signed
        .signer
        .find_unsigned(COUNTERSIGNATURE, MAX_SIGNATURES)?
    {
        check_attributes(whole, &SignerInfo::read(&value)?, &[])?;
    }
    Ok(())
}

/// Checks the unused signature in a program that a catalog proves: it may contain nothing else.
pub(super) fn check_unused(der: &[u8]) -> Result<(), SignatureRefusal> {
    if der.len() as u64 > MAX_UNUSED_SIGNATURE {
        return Err(refuse_unused(der.len() as u64, 0));
    }
    visit_signatures(der, check)
}

/// Returns the refusal of an unused signature that is too large.
pub(super) fn refuse_unused(bytes: u64, at: u64) -> SignatureRefusal {
    refuse_uncovered("an unused signature exceeds the maximum size")
        .expected(format_args!("at most {MAX_UNUSED_SIGNATURE} bytes"))
        .found(format_args!(
            "{bytes} bytes at offset {at:#x} of the signature"
        ))
}

fn is_of(what: &str, found: Oid<'_>, kinds: &[ObjectIdentifier]) -> Result<(), SignatureRefusal> {
    if kinds.iter().any(|kind| found == *kind) {
        return Ok(());
    }
    let kinds: Vec<String> = kinds.iter().map(ObjectIdentifier::to_string).collect();
    let fact = format!("{what} has content of a different type");
    Err(refuse_uncovered(&fact)
        .expected(kinds.join(" or "))
        .found(found))
}

fn refuse_uncovered(fact: &str) -> SignatureRefusal {
    RefusalReason::Uncovered.refusal(fact).cure(
        "download the file from its publisher again, or prove it by a digest from the publisher",
    )
}

fn check_attributes(
    whole: &[u8],
    signer: &SignerInfo<'_>,
    known: &[ObjectIdentifier],
) -> Result<(), SignatureRefusal> {
    let others = signer.other_unsigned(known);
    if others.is_empty() {
        return Ok(());
    }
    let found: Vec<String> = others
        .iter()
        .map(|(oid, bytes)| format!("{oid} with {}", describe_range(whole, bytes)))
        .collect();
    let fact = "its signature contains an unsigned attribute of an unknown type";
    Err(refuse_uncovered(fact)
        .expected("only nested signatures and timestamps")
        .found(found.join(", ")))
}
