//! What of an X.509 certificate has to be known besides its chain: whose it is, when it holds, and what it is for.
//!
//! Refuses to say whether it is to be believed: `chain` does. (RFC 5280)

use der::asn1::ObjectIdentifier;

use super::Refusal;
use super::moment::Moment;
use super::name;
use super::oid::Oid;
use super::tlv::{self, BIT_STRING, BOOLEAN, INTEGER, OCTET_STRING, SEQUENCE, Tlv, Walk, context};

const WHAT: &str = "a certificate";
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const SUBJECT_KEY_IDENTIFIER: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.14");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");

#[derive(Clone, Debug)]
pub(super) struct Certificate<'a> {
    pub(super) der: &'a [u8],
    pub(super) serial: &'a [u8],
    /// DER of the Name.
    pub(super) issuer: &'a [u8],
    /// DER of the Name.
    pub(super) subject: &'a [u8],
    pub(super) not_before: Moment,
    pub(super) not_after: Moment,
    pub(super) key_identifier: Option<&'a [u8]>,
    /// The extended key usages; `None` when the certificate is silent about its use.
    pub(super) purposes: Option<Vec<Oid<'a>>>,
    /// The first octet of keyUsage, whose highest bit is digitalSignature.
    key_usage: Option<u8>,
    /// Of an RSA key.
    pub(super) rsa_bits: Option<usize>,
}

impl<'a> Certificate<'a> {
    pub(super) fn read(der: &'a [u8]) -> Result<Self, Refusal> {
        let mut outer = tlv::only(der, SEQUENCE, WHAT)?.walk(WHAT)?;
        let mut body = outer.expect(SEQUENCE)?.walk(WHAT)?;
        body.optional(context(0))?;
        let serial = body.expect(INTEGER)?.value;
        body.expect(SEQUENCE)?;
        let issuer = body.expect(SEQUENCE)?.raw;
        let mut validity = body.expect(SEQUENCE)?.walk(WHAT)?;
        let ended = || tlv::malformed(WHAT, "ends early");
        let not_before = Moment::read(&validity.next()?.ok_or_else(ended)?, WHAT)?;
        let not_after = Moment::read(&validity.next()?.ok_or_else(ended)?, WHAT)?;
        let subject = body.expect(SEQUENCE)?.raw;
        let rsa_bits = rsa_bits(&body.expect(SEQUENCE)?)?;
        let mut certificate = Self {
            der,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            key_identifier: None,
            purposes: None,
            key_usage: None,
            rsa_bits,
        };
        while let Some(field) = body.next()? {
            if field.tag == context(3) {
                certificate.extensions(&field)?;
            }
        }
        Ok(certificate)
    }

    fn extensions(&mut self, field: &Tlv<'a>) -> Result<(), Refusal> {
        let mut all = tlv::only(field.value, SEQUENCE, WHAT)?.walk(WHAT)?;
        while let Some(extension) = all.next()? {
            let mut parts = extension.walk(WHAT)?;
            let oid = parts.oid()?;
            parts.optional(BOOLEAN)?;
            let value = parts.expect(OCTET_STRING)?.value;
            if oid == SUBJECT_KEY_IDENTIFIER {
                self.key_identifier = Some(tlv::only(value, OCTET_STRING, WHAT)?.value);
            } else if oid == KEY_USAGE {
                let bits = tlv::only(value, BIT_STRING, WHAT)?.value;
                self.key_usage = Some(bits.get(1).copied().unwrap_or(0));
            } else if oid == EXTENDED_KEY_USAGE {
                let mut walk = tlv::only(value, SEQUENCE, WHAT)?.walk(WHAT)?;
                let mut purposes = Vec::new();
                while let Some(purpose) = walk.next()? {
                    purposes.push(purpose.oid(WHAT)?);
                }
                self.purposes = Some(purposes);
            }
        }
        Ok(())
    }

    pub(super) fn is_for(&self, purpose: ObjectIdentifier) -> bool {
        self.purposes
            .as_ref()
            .is_some_and(|all| all.iter().any(|allowed| *allowed == purpose))
    }

    /// Its key may sign (digitalSignature, or nothing said).
    pub(super) fn may_sign(&self) -> bool {
        self.key_usage.is_none_or(|bits| bits & 0x80 != 0)
    }

    /// Its key may sign certificates (keyCertSign, or nothing said).
    pub(super) fn may_certify(&self) -> bool {
        self.key_usage.is_none_or(|bits| bits & 0x04 != 0)
    }

    /// Its key may sign lists of revoked certificates (cRLSign, or nothing said).
    pub(super) fn may_sign_lists(&self) -> bool {
        self.key_usage.is_none_or(|bits| bits & 0x02 != 0)
    }

    /// Its serial number, a whole number: leading zeros do not count.
    pub(super) fn has_serial(&self, serial: &[u8]) -> bool {
        let plain = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            bytes[zeros..].to_vec()
        };
        plain(self.serial) == plain(serial)
    }

    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    pub(super) fn subject_text(&self) -> String {
        name::shown(self.subject)
    }
}

/// The length of an RSA modulus in bits.
fn rsa_bits(key: &Tlv<'_>) -> Result<Option<usize>, Refusal> {
    let mut parts = key.walk(WHAT)?;
    let algorithm = parts.expect(SEQUENCE)?.walk(WHAT)?.oid()?;
    if algorithm != RSA {
        return Ok(None);
    }
    let bits = parts.expect(BIT_STRING)?.value;
    let key = tlv::only(bits.get(1..).unwrap_or_default(), SEQUENCE, WHAT)?;
    let modulus = Walk::new(key.value, WHAT)?.expect(INTEGER)?.value;
    let zeros = modulus.iter().take_while(|b| **b == 0).count();
    let modulus = modulus.get(zeros..).unwrap_or_default();
    let spare = modulus.first().map_or(0, |b| b.leading_zeros() as usize);
    Ok(Some(modulus.len() * 8 - spare))
}
