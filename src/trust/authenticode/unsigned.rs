//! Unsigned attributes: the one place inside a signature where bytes may stand that it does not cover.
//!
//! Whoever has a signed file can add to them without breaking the signature, an archive or a program for example. Refuses
//! attributes of types that winimg does not read, and values that are not what their type says.
//! (Microsoft: Authenticode PE; RFC 5652 11.4; RFC 3161 appendix A)

use der::asn1::ObjectIdentifier;

use super::super::signed_data::{SignedData, SignerInfo};
use super::super::timestamp::{COUNTERSIGNATURE, TOKENS};
use super::super::{Reason, Refusal};
use super::{MAX_SIGNATURES, NESTED};

/// Only nested signatures, which are judged like the outer one, and timestamps that carry nothing unsigned themselves.
pub(super) fn check(signed: &SignedData<'_>) -> Result<(), Refusal> {
    let [token, cms_token] = TOKENS;
    only(
        &signed.signer,
        &[NESTED, token, cms_token, COUNTERSIGNATURE],
    )?;
    for oid in TOKENS {
        for value in signed.signer.unsigned(oid, MAX_SIGNATURES)? {
            only(&SignedData::read(value.raw)?.signer, &[])?;
        }
    }
    for value in signed.signer.unsigned(COUNTERSIGNATURE, MAX_SIGNATURES)? {
        only(&SignerInfo::read(&value)?, &[])?;
    }
    Ok(())
}

fn only(signer: &SignerInfo<'_>, known: &[ObjectIdentifier]) -> Result<(), Refusal> {
    let others = signer.other_unsigned(known);
    if others.is_empty() {
        return Ok(());
    }
    let found: Vec<String> = others
        .iter()
        .map(|(oid, bytes)| format!("{oid} with {bytes} bytes"))
        .collect();
    Err(Refusal::new(
        Reason::Uncovered,
        "an unsigned attribute of an unknown type stands in its signature, and nobody signed what it holds",
    )
    .expected("nested signatures and timestamps at most")
    .found(found.join(", "))
    .cure("fetch the file from its publisher again, or prove it by a digest that the publisher names"))
}
