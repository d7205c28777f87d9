//! Parses the fields of an X.509 certificate that are needed besides its chain: subject, validity
//! and usage.
//!
//! Does not decide if it is trusted: `chain` does. (RFC 5280)

use der::asn1::ObjectIdentifier;

use super::moment::Moment;
use super::name;
use super::oid::Oid;
use super::tlv::{
    self, BIT_STRING, BOOLEAN, INTEGER, OCTET_STRING, SEQUENCE, Tlv, TlvWalk, context_tag,
};
use crate::SignatureRefusal;

const WHAT: &str = "a certificate";
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const SUBJECT_KEY_IDENTIFIER: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.14");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");

#[derive(Clone, Debug)]
pub struct Certificate<'a> {
    pub der: &'a [u8],
    pub serial: &'a [u8],
    /// DER of the Name.
    pub issuer: &'a [u8],
    /// DER of the Name.
    pub subject: &'a [u8],
    pub not_before: Moment,
    pub not_after: Moment,
    pub key_identifier: Option<&'a [u8]>,
    /// The extended key usages; `None` if the certificate has no such extension.
    pub purposes: Option<Vec<Oid<'a>>>,
    pub extensions: Vec<CertificateExtension<'a>>,
    /// The first octet of keyUsage, whose highest bit is digitalSignature.
    key_usage: Option<u8>,
    /// Size of an RSA key in bits.
    pub rsa_bits: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub struct CertificateExtension<'a> {
    pub oid: Oid<'a>,
    pub is_critical: bool,
    /// Its DER.
    pub value: &'a [u8],
}

impl<'a> Certificate<'a> {
    pub fn read(der: &'a [u8]) -> Result<Self, SignatureRefusal> {
        let mut outer = tlv::parse_only(der, SEQUENCE, WHAT)?.walk(WHAT)?;
        let mut body = outer.expect(SEQUENCE)?.walk(WHAT)?;
        body.next_if(context_tag(0))?;
        let serial = body.expect(INTEGER)?.value;
        body.expect(SEQUENCE)?;
        let issuer = body.expect(SEQUENCE)?.raw;
        let mut validity = body.expect(SEQUENCE)?.walk(WHAT)?;
        let not_before = Moment::read(&validity.next()?.ok_or_else(cut_off)?, WHAT)?;
        let not_after = Moment::read(&validity.next()?.ok_or_else(cut_off)?, WHAT)?;
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
            extensions: Vec::new(),
            key_usage: None,
            rsa_bits,
        };
        while let Some(field) = body.next()? {
            if field.tag == context_tag(3) {
                certificate.read_extensions(&field)?;
            }
        }
        Ok(certificate)
    }

    fn read_extensions(&mut self, field: &Tlv<'a>) -> Result<(), SignatureRefusal> {
        let mut all = tlv::parse_only(field.value, SEQUENCE, WHAT)?.walk(WHAT)?;
        while let Some(extension) = all.next()? {
            let mut parts = extension.walk(WHAT)?;
            let oid = parts.read_oid()?;
            let is_critical = parts.next_if(BOOLEAN)?.is_some_and(|b| b.value != [0]);
            let value = parts.expect(OCTET_STRING)?.value;
            self.extensions.push(CertificateExtension {
                oid,
                is_critical,
                value,
            });
            if oid == SUBJECT_KEY_IDENTIFIER {
                self.key_identifier = Some(tlv::parse_only(value, OCTET_STRING, WHAT)?.value);
            } else if oid == KEY_USAGE {
                let bits = tlv::parse_only(value, BIT_STRING, WHAT)?.value;
                self.key_usage = Some(bits.get(1).copied().unwrap_or(0));
            } else if oid == EXTENDED_KEY_USAGE {
                let mut walk = tlv::parse_only(value, SEQUENCE, WHAT)?.walk(WHAT)?;
                let mut purposes = Vec::new();
                while let Some(purpose) = walk.next()? {
                    purposes.push(purpose.read_oid(WHAT)?);
                }
                self.purposes = Some(purposes);
            }
        }
        Ok(())
    }

    pub fn is_for(&self, purpose: ObjectIdentifier) -> bool {
        self.purposes
            .as_ref()
            .is_some_and(|all| all.iter().any(|allowed| *allowed == purpose))
    }

    /// Returns true if its key may sign (digitalSignature, or no keyUsage).
    pub fn may_sign(&self) -> bool {
        self.key_usage.is_none_or(|bits| bits & 0x80 != 0)
    }

    /// Returns true if its key may sign certificates (keyCertSign, or no keyUsage).
    pub fn may_certify(&self) -> bool {
        self.key_usage.is_none_or(|bits| bits & 0x04 != 0)
    }

    /// Returns true if its key may sign revocation lists (cRLSign, or no keyUsage).
    pub fn may_sign_lists(&self) -> bool {
        self.key_usage.is_none_or(|bits| bits & 0x02 != 0)
    }

    /// Compares its serial number, ignoring leading zeros.
    pub fn has_serial(&self, serial: &[u8]) -> bool {
        let significant = self.serial.iter().skip_while(|byte| **byte == 0);
        significant.eq(serial.iter().skip_while(|byte| **byte == 0))
    }

    pub fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    pub fn subject_text(&self) -> String {
        name::render_name(self.subject)
    }
}

fn cut_off() -> SignatureRefusal {
    tlv::refuse_malformed(WHAT, "is cut off")
}

/// Returns the length of an RSA modulus in bits.
fn rsa_bits(key: &Tlv<'_>) -> Result<Option<usize>, SignatureRefusal> {
    let mut parts = key.walk(WHAT)?;
    let algorithm = parts.expect(SEQUENCE)?.walk(WHAT)?.read_oid()?;
    if algorithm != RSA {
        return Ok(None);
    }
    let bits = parts.expect(BIT_STRING)?.value;
    let key = tlv::parse_only(bits.get(1..).unwrap_or_default(), SEQUENCE, WHAT)?;
    let modulus = TlvWalk::new(key.value, WHAT)?.expect(INTEGER)?.value;
    let zeros = modulus.iter().take_while(|b| **b == 0).count();
    let modulus = modulus.get(zeros..).unwrap_or_default();
    let spare = modulus.first().map_or(0, |b| b.leading_zeros() as usize);
    Ok(Some(modulus.len() * 8 - spare))
}
