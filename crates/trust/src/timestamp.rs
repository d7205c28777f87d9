//! When a third party saw a signature: RFC 3161 tokens, and the countersignatures of older files.
//!
//! A timestamp counts only with a chain of its own, at its own time, to a root for timestamps. Refuses a token about another
//! signature, and MD5 and SHA-1 in it. (RFC 3161; RFC 5652 11.4; Microsoft: Authenticode PE, "Timestamp")

use der::asn1::ObjectIdentifier;

use super::certificate::Certificate;
use super::chain::{self, At, Chain, Clock};
use super::hash::HashKind;
use super::moment::Moment;
use super::oid::Oid;
use super::place::{self, Open, Place};
use super::purpose::Use;
use super::signed_data::{DATA, SignedData, SignerInfo};
use super::tlv::{self, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, SEQUENCE, Tlv, UTC_TIME};
use super::{Reason, Refusal};

const MAX_TIMESTAMPS: usize = 8;
const WHAT: &str = "its timestamp";

/// As Authenticode carries a token, and as CMS does.
pub(super) const TOKENS: [ObjectIdentifier; 2] = [
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.3.3.1"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.2.14"),
];
pub(super) const COUNTERSIGNATURE: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.6");
/// id-ct-TSTInfo
pub(super) const TST_INFO: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.1.4");
const SIGNING_TIME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.5");

/// When a third party saw a signature, and the chain of that party.
#[derive(Debug)]
pub(super) struct Stamp {
    pub(super) moment: Moment,
    pub(super) chain: Chain,
    /// What no signature covers, in it and of the other timestamps of the signature.
    pub(super) open: Vec<Open>,
}

/// What a timestamp of this signature proves; `None` when it has none. With several, the first that holds.
pub(super) fn stamp(signed: &SignedData<'_>, roots: &[Vec<u8>]) -> Result<Option<Stamp>, Refusal> {
    let signer = &signed.signer;
    let mut refused = None;
    for oid in TOKENS {
        for value in signer.unsigned(oid, MAX_TIMESTAMPS)? {
            match token(&value, signed, roots) {
                Ok(stamp) => return Ok(Some(stamp.beside_others(signed, &value)?)),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
    }
    for value in signer.unsigned(COUNTERSIGNATURE, MAX_TIMESTAMPS)? {
        match countersignature(&value, signed, roots) {
            Ok(stamp) => return Ok(Some(stamp.beside_others(signed, &value)?)),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    match refused {
        None => Ok(None),
        Some(mut refusal) => {
            refusal.problem = refusal.problem.prefixed("its timestamp was not taken: ");
            Err(refusal)
        }
    }
}

/// The timestamps of a signature, whole.
pub(super) fn all<'a>(signed: &SignedData<'a>) -> Result<Vec<Tlv<'a>>, Refusal> {
    let [token, cms_token] = TOKENS;
    let mut all = Vec::new();
    for oid in [token, cms_token, COUNTERSIGNATURE] {
        all.extend(signed.signer.unsigned(oid, MAX_TIMESTAMPS)?);
    }
    Ok(all)
}

impl Stamp {
    fn beside_others(mut self, signed: &SignedData<'_>, own: &Tlv<'_>) -> Result<Self, Refusal> {
        let by = place::offset(signed.der, own.raw);
        self.open = self.open.into_iter().map(|open| open.moved(by)).collect();
        self.open.extend(untaken(signed, Some(own))?);
        Ok(self)
    }
}

/// The timestamps of a signature but for the one that was taken.
pub(super) fn untaken(
    signed: &SignedData<'_>,
    taken: Option<&Tlv<'_>>,
) -> Result<Vec<Open>, Refusal> {
    let others = all(signed)?.into_iter();
    let others = others.filter(|one| taken.is_none_or(|own| !std::ptr::eq(own.raw, one.raw)));
    let open = |one: Tlv<'_>| Open::part(Place::UntakenTimestamp, signed.der, one.raw);
    Ok(others.map(open).collect())
}

fn token(value: &Tlv<'_>, of: &SignedData<'_>, roots: &[Vec<u8>]) -> Result<Stamp, Refusal> {
    let stamp = SignedData::read(value.raw)?;
    if stamp.content_type() != TST_INFO {
        return Err(Reason::Unsupported
            .refusal("it is no RFC 3161 token")
            .expected(TST_INFO)
            .found(stamp.content_type()));
    }
    stamp.check_content()?;
    let moment = info(stamp.content(), of.signer.value)?;
    let certificate = stamp.signer_certificate()?;
    stamp.signer.check_value(&certificate)?;
    let mut set = stamp.certificates.clone();
    set.extend(&of.certificates);
    vouched(&certificate, &set, roots, moment, |chain| {
        stamp.open(&chain.used(roots), &of.certificates)
    })
}

/// The time in a TSTInfo about this signature value. (RFC 3161 2.4.2)
fn info(der: &[u8], signature: &[u8]) -> Result<Moment, Refusal> {
    let mut walk = tlv::only(der, SEQUENCE, WHAT)?.walk(WHAT)?;
    tlv::version(&mut walk, &[1])?;
    walk.expect(OID)?;
    let mut imprint = walk.expect(SEQUENCE)?.walk(WHAT)?;
    let hash = HashKind::from_oid(tlv::plain_algorithm(&imprint.expect(SEQUENCE)?, WHAT)?)?;
    let claimed = imprint.expect(OCTET_STRING)?.value;
    imprint.finish()?;
    let found = hash.of(signature);
    if claimed != found {
        return Err(Reason::Changed
            .refusal("it is of another signature")
            .expected(hex::encode(claimed))
            .found(hex::encode(found)));
    }
    walk.expect(INTEGER)?;
    Moment::read(&walk.expect(GENERALIZED_TIME)?, WHAT)
}

/// A bare SignerInfo, whose certificates stand in the set of the signature.
fn countersignature(
    value: &Tlv<'_>,
    of: &SignedData<'_>,
    roots: &[Vec<u8>],
) -> Result<Stamp, Refusal> {
    let counter = SignerInfo::read(value)?;
    counter.check_attributes(Oid::of(&DATA), &counter.hash()?.of(of.signer.value))?;
    let certificate = counter.certificate(&of.certificates)?;
    counter.check_value(&certificate)?;
    let time = counter
        .signed(SIGNING_TIME, UTC_TIME)
        .or_else(|_| counter.signed(SIGNING_TIME, GENERALIZED_TIME))?;
    let moment = Moment::read(&time, WHAT)?;
    vouched(&certificate, &of.certificates, roots, moment, |_| {
        Ok(Vec::new())
    })
}

/// Whether somebody vouches for the authority; `open` says what of its timestamp no signature covers.
fn vouched(
    authority: &Certificate<'_>,
    set: &[&[u8]],
    roots: &[Vec<u8>],
    moment: Moment,
    open: impl FnOnce(&Chain) -> Result<Vec<Open>, Refusal>,
) -> Result<Stamp, Refusal> {
    let by = Clock::Timestamp;
    let at = At { moment, by };
    let chain = chain::verify(authority, set, roots, at, Use::TimeStamping, None)?;
    Ok(Stamp {
        moment,
        open: open(&chain)?,
        chain,
    })
}
