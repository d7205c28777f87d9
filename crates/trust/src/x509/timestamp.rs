//! Timestamps of signatures: RFC 3161 tokens, and the countersignatures of older files.
//!
//! A timestamp needs its own chain, valid at its own time, to a root for timestamps. Refuses tokens
//! for a different signature, and MD5 and SHA-1 in them. (RFC 3161; RFC 5652 11.4; Microsoft:
//! Authenticode PE, "Timestamp")

use der::asn1::ObjectIdentifier;

use super::certificate::Certificate;
use super::chain::{self, CheckTime, TimeSource, VerifiedChain};
use super::hash::HashKind;
use super::moment::Moment;
use super::oid::Oid;
use super::purpose::CertificateUse;
use super::signed_data::{DATA, SignedData, SignerInfo};
use super::tlv::{self, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, SEQUENCE, Tlv, UTC_TIME};
use crate::uncovered::{self, UncoveredPlace, UncoveredRange};
use crate::{RefusalReason, SignatureRefusal};

const MAX_TIMESTAMPS: usize = 8;
const WHAT: &str = "its timestamp";

/// Attribute types of a token in Authenticode and in CMS.
pub const TOKENS: [ObjectIdentifier; 2] = [
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.3.3.1"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.2.14"),
];
pub const COUNTERSIGNATURE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.6");
/// id-ct-TSTInfo
pub const TST_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.1.4");
const SIGNING_TIME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.5");

/// The time at which an authority saw a signature, and the authority's chain.
#[derive(Debug)]
pub struct VerifiedTimestamp {
    pub moment: Moment,
    pub chain: VerifiedChain,
    /// Ranges that are not signed, in it and in other timestamps of the signature.
    pub uncovered: Vec<UncoveredRange>,
}

/// Verifies the timestamp of a signature; `None` if it has none. With several, the first valid one
/// is used.
pub fn verify_timestamp(
    signed: &SignedData<'_>,
    roots: &[Vec<u8>],
) -> Result<Option<VerifiedTimestamp>, SignatureRefusal> {
    let signer = &signed.signer;
    let mut refused = None;
    for oid in TOKENS {
        for value in signer.find_unsigned(oid, MAX_TIMESTAMPS)? {
            match verify_token(&value, signed, roots) {
                Ok(stamp) => return Ok(Some(stamp.beside_others(signed, &value)?)),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
    }
    for value in signer.find_unsigned(COUNTERSIGNATURE, MAX_TIMESTAMPS)? {
        match verify_countersignature(&value, signed, roots) {
            Ok(stamp) => return Ok(Some(stamp.beside_others(signed, &value)?)),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    match refused {
        None => Ok(None),
        Some(refusal) => Err(refusal.with_prefix("its timestamp is not valid: ")),
    }
}

/// Returns all timestamps of a signature.
pub fn find_timestamps<'a>(signed: &SignedData<'a>) -> Result<Vec<Tlv<'a>>, SignatureRefusal> {
    let [token, cms_token] = TOKENS;
    let mut all = Vec::new();
    for oid in [token, cms_token, COUNTERSIGNATURE] {
        all.extend(signed.signer.find_unsigned(oid, MAX_TIMESTAMPS)?);
    }
    Ok(all)
}

impl VerifiedTimestamp {
    fn beside_others(
        mut self,
        signed: &SignedData<'_>,
        own: &Tlv<'_>,
    ) -> Result<Self, SignatureRefusal> {
        let by = uncovered::find_offset(signed.der, own.raw);
        self.uncovered = self
            .uncovered
            .into_iter()
            .map(|uncovered| uncovered.shift(by))
            .collect();
        self.uncovered.extend(find_unused(signed, Some(own))?);
        Ok(self)
    }
}

/// Returns the ranges of the timestamps of a signature except for the one in use.
pub fn find_unused(
    signed: &SignedData<'_>,
    taken: Option<&Tlv<'_>>,
) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
    Ok(find_timestamps(signed)?
        .into_iter()
        .filter(|one| taken.is_none_or(|own| !std::ptr::eq(own.raw, one.raw)))
        .map(|one| UncoveredRange::for_part(UncoveredPlace::UntakenTimestamp, signed.der, one.raw))
        .collect())
}

fn verify_token(
    value: &Tlv<'_>,
    of: &SignedData<'_>,
    roots: &[Vec<u8>],
) -> Result<VerifiedTimestamp, SignatureRefusal> {
    let stamp = SignedData::read(value.raw)?;
    if stamp.content_type() != TST_INFO {
        return Err(RefusalReason::Unsupported
            .refusal("it is not an RFC 3161 token")
            .expected(TST_INFO)
            .found(stamp.content_type()));
    }
    stamp.check_content()?;
    let moment = parse_info(stamp.content(), of.signer.value)?;
    let certificate = stamp.signer_certificate()?;
    stamp.signer.check_value(&certificate)?;
    let mut set = stamp.certificates.clone();
    set.extend(&of.certificates);
    verify_authority(&certificate, &set, roots, moment, |chain| {
        stamp.list_uncovered(&chain.hash_certificates(roots), &of.certificates)
    })
}

/// Returns the time in a TSTInfo after checking that it is for this signature value. (RFC 3161
/// 2.4.2)
fn parse_info(der: &[u8], signature: &[u8]) -> Result<Moment, SignatureRefusal> {
    let mut walk = tlv::parse_only(der, SEQUENCE, WHAT)?.walk(WHAT)?;
    tlv::read_version(&mut walk, &[1])?;
    walk.expect(OID)?;
    let mut imprint = walk.expect(SEQUENCE)?.walk(WHAT)?;
    let hash = HashKind::from_oid(tlv::plain_algorithm(&imprint.expect(SEQUENCE)?, WHAT)?)?;
    let claimed = imprint.expect(OCTET_STRING)?.value;
    imprint.finish()?;
    let found = hash.compute(signature);
    if claimed != found {
        return Err(RefusalReason::Changed
            .refusal("it is for a different signature")
            .expected(hex::encode(claimed))
            .found(hex::encode(found)));
    }
    walk.expect(INTEGER)?;
    Moment::read(&walk.expect(GENERALIZED_TIME)?, WHAT)
}

/// Verifies a bare SignerInfo, whose certificates are in the set of the signature.
fn verify_countersignature(
    value: &Tlv<'_>,
    of: &SignedData<'_>,
    roots: &[Vec<u8>],
) -> Result<VerifiedTimestamp, SignatureRefusal> {
    let counter = SignerInfo::read(value)?;
    counter.check_attributes(
        Oid::from_known(&DATA),
        &counter.hash()?.compute(of.signer.value),
    )?;
    let certificate = counter.find_certificate(&of.certificates)?;
    counter.check_value(&certificate)?;
    let time = counter
        .find_signed(SIGNING_TIME, UTC_TIME)
        .or_else(|_| counter.find_signed(SIGNING_TIME, GENERALIZED_TIME))?;
    let moment = Moment::read(&time, WHAT)?;
    verify_authority(&certificate, &of.certificates, roots, moment, |_| {
        Ok(Vec::new())
    })
}

/// Verifies the authority's chain. `uncovered` returns the ranges of its timestamp that are not
/// signed.
fn verify_authority(
    authority: &Certificate<'_>,
    set: &[&[u8]],
    roots: &[Vec<u8>],
    moment: Moment,
    uncovered: impl FnOnce(&VerifiedChain) -> Result<Vec<UncoveredRange>, SignatureRefusal>,
) -> Result<VerifiedTimestamp, SignatureRefusal> {
    let by = TimeSource::Timestamp;
    let at = CheckTime { moment, by };
    let chain = chain::verify(
        authority,
        set,
        roots,
        at,
        CertificateUse::TimeStamping,
        None,
    )?;
    Ok(VerifiedTimestamp {
        moment,
        uncovered: uncovered(&chain)?,
        chain,
    })
}
