//! Parses SignedData: PKCS#7 (Authenticode) and CMS (detached signatures, timestamp tokens).
//!
//! Works on slices of the transmitted DER, because those were hashed and signed. Refuses more than
//! one signer, a signer without signed attributes, revocation lists, and large sets, whose content
//! is not signed. The certificates are verified in `chain`. (RFC 2315; RFC 5652; Microsoft:
//! Authenticode PE)

mod set;

use der::asn1::ObjectIdentifier;

use super::algorithm;
use super::certificate::Certificate;
use super::hash::HashKind;
use super::oid::Oid;
use super::tlv::{self, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, Tlv, context_tag};
use crate::uncovered::{self, UncoveredPlace, UncoveredRange};
use crate::{RefusalReason, SignatureRefusal};
use winimg_base::digest::Digest;

const WHAT: &str = "the signature";
/// Maximum size of the certificates that are in no verified chain.
const MAX_SPARE: usize = 16 << 10;
const MAX_ATTRIBUTES: usize = 64;

/// id-data: opaque bytes of a file. (RFC 5652 4)
pub const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");

/// A SignedData with exactly one signer.
#[derive(Clone, Debug)]
pub struct SignedData<'a> {
    /// The whole DER.
    pub der: &'a [u8],
    version: &'a [u8],
    /// The list of hash algorithms.
    algorithms: &'a [u8],
    content_type: Oid<'a>,
    content: Option<&'a [u8]>,
    /// DER of each distinct X.509 certificate.
    pub certificates: Vec<&'a [u8]>,
    /// Attribute certificates, and repeated certificates.
    others: Vec<&'a [u8]>,
    pub signer: SignerInfo<'a>,
}

#[derive(Clone, Debug)]
enum SignerId<'a> {
    IssuerAndSerial { issuer: &'a [u8], serial: &'a [u8] },
    KeyIdentifier(&'a [u8]),
}

/// An attribute: its type, and the concatenated values.
#[derive(Clone, Copy, Debug)]
struct CmsAttribute<'a> {
    oid: Oid<'a>,
    values: Tlv<'a>,
}

#[derive(Clone, Debug)]
pub struct SignerInfo<'a> {
    id: SignerId<'a>,
    digest: Oid<'a>,
    /// The `[0]` as transmitted, and the attributes in it.
    signed: Option<(&'a [u8], Vec<CmsAttribute<'a>>)>,
    /// The AlgorithmIdentifier.
    algorithm: Tlv<'a>,
    /// The signature value, which timestamps cover.
    pub value: &'a [u8],
    unsigned: Vec<CmsAttribute<'a>>,
}

impl<'a> SignedData<'a> {
    /// Parses a ContentInfo without trailing bytes.
    pub fn read(der: &'a [u8]) -> Result<Self, SignatureRefusal> {
        let mut outer = tlv::parse_only(der, SEQUENCE, WHAT)?.walk(WHAT)?;
        let kind = outer.read_oid()?;
        if kind != SIGNED_DATA {
            return Err(RefusalReason::Unsupported
                .refusal("it is not a SignedData")
                .expected(SIGNED_DATA)
                .found(kind));
        }
        let inside = outer.expect(context_tag(0))?;
        outer.finish()?;
        let mut walk = tlv::parse_only(inside.value, SEQUENCE, WHAT)?.walk(WHAT)?;
        let version = walk.clone().expect(INTEGER)?.value;
        tlv::read_version(&mut walk, &[1, 2, 3, 4, 5])?;
        let algorithms = walk.expect(SET)?;
        let mut encapsulated = walk.expect(SEQUENCE)?.walk(WHAT)?;
        let content_type = encapsulated.read_oid()?;
        let content = match encapsulated.next_if(context_tag(0))? {
            Some(explicit) => Some(one_inside(&explicit)?.value),
            None => None,
        };
        encapsulated.finish()?;
        let (certificates, others) = match walk.next_if(context_tag(0))? {
            Some(all) => set::read_certificates(&all, der)?,
            None => Default::default(),
        };
        if let Some(lists) = walk.next_if(context_tag(1))? {
            return Err(RefusalReason::Uncovered
                .refusal("the signature contains unsigned revocation lists")
                .found(describe_range(der, lists.raw)));
        }
        let mut signers = walk.expect(SET)?.walk("the list of signers")?;
        walk.finish()?;
        let signer = SignerInfo::read(&signers.expect(SEQUENCE)?)?;
        if signers.peek().is_some() {
            return Err(RefusalReason::Unsupported
                .refusal("it has more than one signer")
                .expected("exactly one"));
        }
        set::hash_algorithms(&algorithms, signer.digest)?;
        Ok(Self {
            der,
            version,
            algorithms: algorithms.raw,
            content_type,
            content,
            certificates,
            others,
            signer,
        })
    }

    /// Returns the ranges that are not signed, for a signature verified by a chain of these
    /// certificates, and refuses too many of them. `elsewhere`: certificates that are also beside
    /// it.
    pub fn list_uncovered(
        &self,
        used: &[Digest],
        elsewhere: &[&[u8]],
    ) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
        let mut spare: Vec<&[u8]> = Vec::new();
        for der in &self.certificates {
            // Either copy of a repeated certificate could be removed.
            let is_repeated = self.others.contains(der) || elsewhere.contains(der);
            if is_repeated || !used.contains(&Digest::sha256_of(der)) {
                spare.push(der);
            }
        }
        spare.extend(&self.others);
        let bytes: usize = spare.iter().map(|der| der.len()).sum();
        if let (true, Some(first)) = (bytes > MAX_SPARE, spare.first()) {
            return Err(RefusalReason::Uncovered
                .refusal("the signature contains too many unused certificates")
                .expected(format_args!("at most {MAX_SPARE} bytes of them"))
                .found(format_args!(
                    "{bytes} bytes, the first {}",
                    describe_range(self.der, first)
                )));
        }
        let mut parts = vec![
            (UncoveredPlace::SignatureVersion, self.version),
            (UncoveredPlace::SignatureAlgorithm, self.algorithms),
            (
                UncoveredPlace::SignatureAlgorithm,
                self.signer.algorithm.raw,
            ),
        ];
        parts.extend(
            spare
                .iter()
                .map(|der| (UncoveredPlace::SpareCertificates, *der)),
        );
        Ok(parts
            .into_iter()
            .map(|(place, part)| UncoveredRange::for_part(place, self.der, part))
            .collect())
    }

    /// Returns the type of the content: SPC_INDIRECT_DATA, a CTL, a TSTInfo, plain data.
    pub fn content_type(&self) -> Oid<'a> {
        self.content_type
    }

    /// Returns the value octets of the content, without the header of its OCTET STRING or SEQUENCE;
    /// empty if the signature is detached.
    pub fn content(&self) -> &'a [u8] {
        self.content.unwrap_or_default()
    }

    pub fn is_detached(&self) -> bool {
        self.content.is_none()
    }

    /// Checks that the content is the one that was signed.
    pub fn check_content(&self) -> Result<(), SignatureRefusal> {
        let hash = self.signer.hash()?;
        self.signer
            .check_attributes(self.content_type, &hash.compute(self.content()))
    }

    pub fn signer_certificate(&self) -> Result<Certificate<'a>, SignatureRefusal> {
        self.signer.find_certificate(&self.certificates)
    }
}

impl<'a> SignerInfo<'a> {
    pub fn read(tlv: &Tlv<'a>) -> Result<Self, SignatureRefusal> {
        const WHAT: &str = "its signer";
        let mut walk = tlv.walk(WHAT)?;
        let version = tlv::read_version(&mut walk, &[1, 3])?;
        let id = if let Some(key) = walk.next_if(0x80)? {
            SignerId::KeyIdentifier(key.value)
        } else {
            let mut pair = walk.expect(SEQUENCE)?.walk(WHAT)?;
            let issuer = pair.expect(SEQUENCE)?.raw;
            let serial = pair.expect(INTEGER)?.value;
            SignerId::IssuerAndSerial { issuer, serial }
        };
        if (version == 3) != matches!(id, SignerId::KeyIdentifier(_)) {
            return Err(tlv::refuse_malformed(
                WHAT,
                "has an identifier that does not match its version",
            ));
        }
        let digest = tlv::plain_algorithm(&walk.expect(SEQUENCE)?, WHAT)?;
        let signed = match walk.next_if(context_tag(0))? {
            Some(set) => Some((set.raw, read_attributes(&set)?)),
            None => None,
        };
        let algorithm = walk.expect(SEQUENCE)?;
        let value = walk.expect(OCTET_STRING)?.value;
        let unsigned = match walk.next_if(context_tag(1))? {
            Some(set) => read_attributes(&set)?,
            None => Vec::new(),
        };
        walk.finish()?;
        Ok(Self {
            id,
            digest,
            signed,
            algorithm,
            value,
            unsigned,
        })
    }

    /// Returns the hash algorithm. MD5 and SHA-1 are refused.
    pub fn hash(&self) -> Result<HashKind, SignatureRefusal> {
        HashKind::from_oid(self.digest)
    }

    /// Finds the signer's certificate in a set.
    pub fn find_certificate(&self, set: &[&'a [u8]]) -> Result<Certificate<'a>, SignatureRefusal> {
        for der in set {
            let certificate = Certificate::read(der)?;
            let is_it = match self.id {
                SignerId::IssuerAndSerial { issuer, serial } => {
                    certificate.issuer == issuer && certificate.serial == serial
                }
                SignerId::KeyIdentifier(key) => certificate.key_identifier == Some(key),
            };
            if is_it {
                return Ok(certificate);
            }
        }
        Err(tlv::refuse_malformed(
            WHAT,
            "does not contain its signer's certificate",
        ))
    }

    /// Checks contentType and messageDigest against the signed content. (RFC 5652 5.4, 11.1, 11.2)
    pub fn check_attributes(
        &self,
        content_type: Oid<'_>,
        digest: &[u8],
    ) -> Result<(), SignatureRefusal> {
        let claimed = self.find_signed(CONTENT_TYPE, OID)?.read_oid(WHAT)?;
        if claimed != content_type {
            return Err(RefusalReason::Changed
                .refusal("it was made for a different kind of content")
                .expected(content_type)
                .found(claimed));
        }
        let claimed = self.find_signed(MESSAGE_DIGEST, OCTET_STRING)?.value;
        if claimed != digest {
            return Err(RefusalReason::Changed
                .refusal("it does not match the content")
                .expected(hex::encode(claimed))
                .found(hex::encode(digest)));
        }
        Ok(())
    }

    /// Checks the signature value, which covers the signed attributes as transmitted.
    pub fn check_value(&self, certificate: &Certificate<'_>) -> Result<(), SignatureRefusal> {
        let mut message = self.signed_attributes()?.0.to_vec();
        if let Some(tag) = message.first_mut() {
            *tag = SET;
        }
        algorithm::verify(
            certificate,
            &self.algorithm,
            self.hash()?,
            &message,
            self.value,
        )
    }

    /// Returns the signed attributes. They are required, because a signature over the attributes of
    /// another signature would otherwise be valid for a file with those bytes.
    fn signed_attributes(&self) -> Result<&(&'a [u8], Vec<CmsAttribute<'a>>), SignatureRefusal> {
        self.signed.as_ref().ok_or_else(|| {
            RefusalReason::Unsupported
                .refusal("it has no signed attributes")
                .cure("sign with signed attributes: `openssl cms -sign` without `-noattr`")
        })
    }

    /// Returns the only value of the only signed attribute of that type.
    pub fn find_signed(&self, oid: ObjectIdentifier, tag: u8) -> Result<Tlv<'a>, SignatureRefusal> {
        let mut all = self.signed_attributes()?.1.iter().filter(|a| a.oid == oid);
        let fact = match (all.next(), all.next()) {
            (Some(one), None) => {
                return tlv::parse_only(one.values.value, tag, "a signed attribute");
            }
            (None, _) => format!("is missing the signed attribute {oid}"),
            _ => format!("has the signed attribute {oid} twice"),
        };
        Err(tlv::refuse_malformed(WHAT, &fact))
    }

    /// Returns the unsigned attributes of types other than these, with their values.
    pub fn other_unsigned(&self, known: &[ObjectIdentifier]) -> Vec<(Oid<'a>, &'a [u8])> {
        self.unsigned
            .iter()
            .filter(|a| !known.iter().any(|k| a.oid == *k))
            .map(|a| (a.oid, a.values.value))
            .collect()
    }

    /// Returns the values of all unsigned attributes of that type, at most `limit`.
    pub fn find_unsigned(
        &self,
        oid: ObjectIdentifier,
        limit: usize,
    ) -> Result<Vec<Tlv<'a>>, SignatureRefusal> {
        let mut found = Vec::new();
        for attribute in self.unsigned.iter().filter(|a| a.oid == oid) {
            let mut values = attribute.values.walk("an unsigned attribute")?;
            while let Some(value) = values.next()? {
                if found.len() == limit {
                    let fact = format!("has more than {limit} values of the attribute {oid}");
                    return Err(tlv::refuse_malformed(WHAT, &fact));
                }
                found.push(value);
            }
        }
        Ok(found)
    }
}

/// Returns the content of the `[0]`: an OCTET STRING in CMS, a SEQUENCE in PKCS#7.
fn one_inside<'a>(explicit: &Tlv<'a>) -> Result<Tlv<'a>, SignatureRefusal> {
    const WHAT: &str = "its content";
    let mut walk = explicit.walk(WHAT)?;
    let inside = match walk.next_if(OCTET_STRING)? {
        Some(octets) => octets,
        None => walk.expect(SEQUENCE)?,
    };
    walk.finish()?;
    Ok(inside)
}

/// Describes a range: `700 bytes at offset 0x1a0 of the signature`.
pub fn describe_range(whole: &[u8], part: &[u8]) -> String {
    let offset = uncovered::find_offset(whole, part);
    format!(
        "{} bytes at offset {offset:#x} of the signature",
        part.len()
    )
}

fn read_attributes<'a>(set: &Tlv<'a>) -> Result<Vec<CmsAttribute<'a>>, SignatureRefusal> {
    const WHAT: &str = "its list of attributes";
    let mut walk = set.walk(WHAT)?;
    let mut found = Vec::new();
    while walk.peek().is_some() {
        let tlv = walk.expect(SEQUENCE)?;
        if found.len() == MAX_ATTRIBUTES {
            let fact = format!("has more than {MAX_ATTRIBUTES} members");
            return Err(tlv::refuse_malformed(WHAT, &fact));
        }
        let mut parts = tlv.walk(WHAT)?;
        let oid = parts.read_oid()?;
        let values = parts.expect(SET)?;
        parts.finish()?;
        found.push(CmsAttribute { oid, values });
    }
    Ok(found)
}
