//! SpcIndirectDataContent: the signed digest of a file. (Microsoft: Authenticode PE)

use der::asn1::ObjectIdentifier;

use super::super::{RefusalReason, SignatureRefusal};
use crate::x509::hash::HashKind;
use crate::x509::oid::Oid;
use crate::x509::signed_data::SignedData;
use crate::x509::tlv::{self, INTEGER, OCTET_STRING, SEQUENCE, Tlv, TlvWalk};

const WHAT: &str = "the statement that was signed";
pub(super) const SPC_INDIRECT_DATA: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.4");

pub(super) const SPC_SIPINFO: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.30");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndirectData<'a> {
    /// Kind of the file.
    pub(super) kind: Oid<'a>,
    /// For SPC_SIPINFO: the subject interface package of Windows for that kind of file.
    pub(super) interface: Option<&'a [u8]>,
    pub(super) algorithm: HashKind,
    pub(super) digest: &'a [u8],
}

/// Parses the signed digest. MD5 and SHA-1 are refused.
pub(super) fn read<'a>(signed: &SignedData<'a>) -> Result<IndirectData<'a>, SignatureRefusal> {
    if signed.content_type() != SPC_INDIRECT_DATA {
        return Err(RefusalReason::Unsupported
            .refusal("it does not sign a file's digest")
            .expected(SPC_INDIRECT_DATA)
            .found(signed.content_type()));
    }
    let mut walk = TlvWalk::new(signed.content(), WHAT)?;
    let mut about = walk.expect(SEQUENCE)?.walk(WHAT)?;
    let kind = about.read_oid()?;
    let interface = if kind == SPC_SIPINFO {
        Some(read_interface(&about.expect(SEQUENCE)?)?)
    } else {
        None
    };
    let mut info = walk.expect(SEQUENCE)?.walk(WHAT)?;
    walk.finish()?;
    let algorithm = HashKind::from_oid(tlv::plain_algorithm(&info.expect(SEQUENCE)?, WHAT)?)?;
    let digest = info.expect(OCTET_STRING)?.value;
    info.finish()?;
    Ok(IndirectData {
        kind,
        interface,
        algorithm,
        digest,
    })
}

/// Parses the identifier in a SpcSipInfo: a version, the identifier, and five numbers that are
/// zero.
fn read_interface<'a>(info: &Tlv<'a>) -> Result<&'a [u8], SignatureRefusal> {
    let mut info = info.walk(WHAT)?;
    info.expect(INTEGER)?;
    Ok(info.expect(OCTET_STRING)?.value)
}
