//! SpcIndirectDataContent: the statement in a signature that a file has a digest. (Microsoft: Authenticode PE)

use der::asn1::ObjectIdentifier;

use super::super::hash::HashKind;
use super::super::oid::Oid;
use super::super::signed_data::SignedData;
use super::super::tlv::{self, INTEGER, OCTET_STRING, SEQUENCE, Tlv, Walk};
use super::super::{Reason, Refusal};

const WHAT: &str = "the statement that was signed";
pub(super) const SPC_INDIRECT_DATA: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.4");

pub(super) const SPC_SIPINFO: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.30");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Indirect<'a> {
    /// What kind of file it is about.
    pub(super) kind: Oid<'a>,
    /// Of SPC_SIPINFO: which kind of file, as Windows' registry of subject interfaces has it.
    pub(super) interface: Option<&'a [u8]>,
    pub(super) algorithm: HashKind,
    pub(super) digest: &'a [u8],
}

/// The statement of a signature. MD5 and SHA-1 are refused.
pub(super) fn read<'a>(signed: &SignedData<'a>) -> Result<Indirect<'a>, Refusal> {
    if signed.content_type() != SPC_INDIRECT_DATA {
        return Err(Reason::Unsupported
            .refusal("it is not of a file's digest")
            .expected(SPC_INDIRECT_DATA)
            .found(signed.content_type()));
    }
    let mut walk = Walk::new(signed.content(), WHAT)?;
    let mut about = walk.expect(SEQUENCE)?.walk(WHAT)?;
    let kind = about.oid()?;
    let interface = match kind == SPC_SIPINFO {
        true => Some(sip(&about.expect(SEQUENCE)?)?),
        false => None,
    };
    let mut info = walk.expect(SEQUENCE)?.walk(WHAT)?;
    walk.finish()?;
    let algorithm = HashKind::from_oid(tlv::plain_algorithm(&info.expect(SEQUENCE)?, WHAT)?)?;
    let digest = info.expect(OCTET_STRING)?.value;
    info.finish()?;
    Ok(Indirect {
        kind,
        interface,
        algorithm,
        digest,
    })
}

/// The identifier in a SpcSipInfo: a version, the identifier, and five numbers that are zero.
fn sip<'a>(info: &Tlv<'a>) -> Result<&'a [u8], Refusal> {
    let mut info = info.walk(WHAT)?;
    info.expect(INTEGER)?;
    Ok(info.expect(OCTET_STRING)?.value)
}
