//! SignedData as it stands in files: PKCS#7 (Authenticode) and CMS (detached signatures, timestamp tokens).
//!
//! Reads slices of the DER as it was transmitted, for those are what was hashed and signed. Refuses more than one signer, a
//! signer without signed attributes, revocation lists, and sets without a bound: what stands in those nobody signed. Whether
//! the certificates are to be believed is `chain`'s.
//! (RFC 2315; RFC 5652; Microsoft: Authenticode PE)

mod set;

use der::asn1::ObjectIdentifier;

use super::algorithm;
use super::certificate::Certificate;
use super::hash::HashKind;
use super::oid::Oid;
use super::place::{self, Open, Place};
use super::tlv::{self, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, Tlv, context};
use super::{Reason, Refusal};
use winimg_base::digest::Digest;

const WHAT: &str = "the signature";
/// Bytes of the certificates that are in no chain that was proved.
const MOST_SPARE: usize = 16 << 10;
const MAX_ATTRIBUTES: usize = 64;

/// id-data: a file's bytes, and nothing that another format reads something into. (RFC 5652 4)
pub(super) const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");

/// A SignedData with exactly one signer.
#[derive(Clone, Debug)]
pub(super) struct SignedData<'a> {
    /// As it was read.
    pub(super) der: &'a [u8],
    version: &'a [u8],
    /// The list of hash algorithms.
    algorithms: &'a [u8],
    content_type: Oid<'a>,
    content: Option<&'a [u8]>,
    /// DER of each X.509 certificate, once each.
    pub(super) certificates: Vec<&'a [u8]>,
    /// Attribute certificates, and certificates that were there before.
    others: Vec<&'a [u8]>,
    pub(super) signer: SignerInfo<'a>,
}

#[derive(Clone, Debug)]
enum SignerId<'a> {
    IssuerAndSerial { issuer: &'a [u8], serial: &'a [u8] },
    KeyIdentifier(&'a [u8]),
}

/// An attribute: its type, and its values one after the other.
#[derive(Clone, Copy, Debug)]
struct Attribute<'a> {
    oid: Oid<'a>,
    values: Tlv<'a>,
}

#[derive(Clone, Debug)]
pub(super) struct SignerInfo<'a> {
    id: SignerId<'a>,
    digest: Oid<'a>,
    /// The `[0]` as transmitted, and what is in it.
    signed: Option<(&'a [u8], Vec<Attribute<'a>>)>,
    /// The AlgorithmIdentifier.
    algorithm: Tlv<'a>,
    /// The signature value: what timestamps are about.
    pub(super) value: &'a [u8],
    unsigned: Vec<Attribute<'a>>,
}

impl<'a> SignedData<'a> {
    /// From a ContentInfo and nothing after it.
    pub(super) fn read(der: &'a [u8]) -> Result<Self, Refusal> {
        let mut outer = tlv::only(der, SEQUENCE, WHAT)?.walk(WHAT)?;
        let kind = outer.oid()?;
        if kind != SIGNED_DATA {
            return Err(Reason::Unsupported
                .refusal("it is not a SignedData")
                .expected(SIGNED_DATA)
                .found(kind));
        }
        let inside = outer.expect(context(0))?;
        outer.finish()?;
        let mut walk = tlv::only(inside.value, SEQUENCE, WHAT)?.walk(WHAT)?;
        let version = walk.clone().expect(INTEGER)?.value;
        tlv::version(&mut walk, &[1, 2, 3, 4, 5])?;
        let algorithms = walk.expect(SET)?;
        let mut encapsulated = walk.expect(SEQUENCE)?.walk(WHAT)?;
        let content_type = encapsulated.oid()?;
        let content = match encapsulated.optional(context(0))? {
            Some(explicit) => Some(one_inside(&explicit)?.value),
            None => None,
        };
        encapsulated.finish()?;
        let (certificates, others) = match walk.optional(context(0))? {
            Some(all) => set::certificates(&all, der)?,
            None => Default::default(),
        };
        if let Some(lists) = walk.optional(context(1))? {
            return Err(Reason::Uncovered
                .refusal("revocation lists stand in the signature, and nobody signed that they do")
                .found(at(der, lists.raw)));
        }
        let mut signers = walk.expect(SET)?.walk("the list of signers")?;
        walk.finish()?;
        let signer = SignerInfo::read(&signers.expect(SEQUENCE)?)?;
        if signers.peek().is_some() {
            return Err(Reason::Unsupported
                .refusal("it has more than one signer in one place")
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

    /// What of it no signature covers, once it was found good by a chain of these certificates. Refuses too much of it.
    /// `elsewhere`: certificates that stand beside it as well.
    pub(super) fn open(&self, used: &[Digest], elsewhere: &[&[u8]]) -> Result<Vec<Open>, Refusal> {
        // Of one that is there twice either would do.
        let is_spare = |der: &&&[u8]| {
            let again = self.others.contains(der) || elsewhere.contains(der);
            again || !used.contains(&Digest::sha256_of(der))
        };
        let certificates = self.certificates.iter().filter(is_spare);
        let spare: Vec<&[u8]> = certificates.chain(&self.others).copied().collect();
        let bytes: usize = spare.iter().map(|der| der.len()).sum();
        if let (true, Some(first)) = (bytes > MOST_SPARE, spare.first()) {
            return Err(Reason::Uncovered
                .refusal("certificates that vouch for nobody stand in the signature")
                .expected(format_args!("{MOST_SPARE} bytes of them at most"))
                .found(format_args!(
                    "{bytes} bytes, the first {}",
                    at(self.der, first)
                )));
        }
        let part = |place, part: &[u8]| Open::part(place, self.der, part);
        let mut open = vec![
            part(Place::SignatureVersion, self.version),
            part(Place::SignatureAlgorithm, self.algorithms),
            part(Place::SignatureAlgorithm, self.signer.algorithm.raw),
        ];
        open.extend(spare.iter().map(|der| part(Place::SpareCertificates, der)));
        Ok(open)
    }

    /// What the content is: SPC_INDIRECT_DATA, a CTL, a TSTInfo, plain data.
    pub(super) fn content_type(&self) -> Oid<'a> {
        self.content_type
    }

    /// The value octets of the content (of an OCTET STRING: what is in it; of a SEQUENCE: its members, without its header);
    /// empty when the signature is detached.
    pub(super) fn content(&self) -> &'a [u8] {
        self.content.unwrap_or_default()
    }

    pub(super) fn is_detached(&self) -> bool {
        self.content.is_none()
    }

    /// The content is the one that was signed.
    pub(super) fn check_content(&self) -> Result<(), Refusal> {
        let hash = self.signer.hash()?;
        self.signer
            .check_attributes(self.content_type, &hash.of(self.content()))
    }

    pub(super) fn signer_certificate(&self) -> Result<Certificate<'a>, Refusal> {
        self.signer.certificate(&self.certificates)
    }
}

impl<'a> SignerInfo<'a> {
    pub(super) fn read(tlv: &Tlv<'a>) -> Result<Self, Refusal> {
        const WHAT: &str = "its signer";
        let mut walk = tlv.walk(WHAT)?;
        let version = tlv::version(&mut walk, &[1, 3])?;
        let id = if let Some(key) = walk.optional(0x80)? {
            SignerId::KeyIdentifier(key.value)
        } else {
            let mut pair = walk.expect(SEQUENCE)?.walk(WHAT)?;
            let issuer = pair.expect(SEQUENCE)?.raw;
            let serial = pair.expect(INTEGER)?.value;
            SignerId::IssuerAndSerial { issuer, serial }
        };
        if (version == 3) != matches!(id, SignerId::KeyIdentifier(_)) {
            return Err(tlv::malformed(
                WHAT,
                "is named in another way than its version says",
            ));
        }
        let digest = tlv::plain_algorithm(&walk.expect(SEQUENCE)?, WHAT)?;
        let signed = match walk.optional(context(0))? {
            Some(set) => Some((set.raw, attributes(&set)?)),
            None => None,
        };
        let algorithm = walk.expect(SEQUENCE)?;
        let value = walk.expect(OCTET_STRING)?.value;
        let unsigned = match walk.optional(context(1))? {
            Some(set) => attributes(&set)?,
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

    /// What it was hashed with. MD5 and SHA-1 are refused here.
    pub(super) fn hash(&self) -> Result<HashKind, Refusal> {
        HashKind::from_oid(self.digest)
    }

    /// The one certificate of a set that this signer says is his.
    pub(super) fn certificate(&self, set: &[&'a [u8]]) -> Result<Certificate<'a>, Refusal> {
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
        Err(tlv::malformed(
            WHAT,
            "does not carry its signer's certificate",
        ))
    }

    /// contentType and messageDigest are those of what is signed. (RFC 5652 5.4, 11.1, 11.2)
    pub(super) fn check_attributes(
        &self,
        content_type: Oid<'_>,
        digest: &[u8],
    ) -> Result<(), Refusal> {
        let claimed = self.signed(CONTENT_TYPE, OID)?.oid(WHAT)?;
        if claimed != content_type {
            return Err(Reason::Changed
                .refusal("it was made for another kind of content")
                .expected(content_type)
                .found(claimed));
        }
        let claimed = self.signed(MESSAGE_DIGEST, OCTET_STRING)?.value;
        if claimed != digest {
            return Err(Reason::Changed
                .refusal("it is of other bytes than these")
                .expected(hex::encode(claimed))
                .found(hex::encode(digest)));
        }
        Ok(())
    }

    /// The signature value is that certificate's, over the signed attributes as they were transmitted.
    pub(super) fn check_value(&self, certificate: &Certificate<'_>) -> Result<(), Refusal> {
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

    /// Without signed attributes a signature over someone else's attributes would pass for one over a file of those bytes.
    fn signed_attributes(&self) -> Result<&(&'a [u8], Vec<Attribute<'a>>), Refusal> {
        self.signed.as_ref().ok_or_else(|| {
            Reason::Unsupported
                .refusal("it has no signed attributes, so it does not say what it is about")
                .cure("sign with signed attributes: `openssl cms -sign` does so without `-noattr`")
        })
    }

    /// The only value of the only signed attribute of that type.
    pub(super) fn signed(&self, oid: ObjectIdentifier, tag: u8) -> Result<Tlv<'a>, Refusal> {
        let bad = |fact: String| tlv::malformed(WHAT, &fact);
        let mut all = self.signed_attributes()?.1.iter().filter(|a| a.oid == oid);
        match (all.next(), all.next()) {
            (Some(one), None) => tlv::only(one.values.value, tag, "a signed attribute"),
            (None, _) => Err(bad(format!("lacks the signed attribute {oid}"))),
            _ => Err(bad(format!("has the signed attribute {oid} twice"))),
        }
    }

    /// Unsigned attributes of other types than these, and what each holds.
    pub(super) fn other_unsigned(&self, known: &[ObjectIdentifier]) -> Vec<(Oid<'a>, &'a [u8])> {
        let others = self
            .unsigned
            .iter()
            .filter(|a| !known.iter().any(|k| a.oid == *k));
        others.map(|a| (a.oid, a.values.value)).collect()
    }

    /// The values of all unsigned attributes of that type, at most `limit`.
    pub(super) fn unsigned(
        &self,
        oid: ObjectIdentifier,
        limit: usize,
    ) -> Result<Vec<Tlv<'a>>, Refusal> {
        let mut found = Vec::new();
        for attribute in self.unsigned.iter().filter(|a| a.oid == oid) {
            let mut values = attribute.values.walk("an unsigned attribute")?;
            while let Some(value) = values.next()? {
                if found.len() == limit {
                    let fact = format!("has more than {limit} values of the attribute {oid}");
                    return Err(tlv::malformed(WHAT, &fact));
                }
                found.push(value);
            }
        }
        Ok(found)
    }
}

/// What the `[0]` holds: an OCTET STRING in CMS, a SEQUENCE in PKCS#7.
fn one_inside<'a>(explicit: &Tlv<'a>) -> Result<Tlv<'a>, Refusal> {
    const WHAT: &str = "its content";
    let mut walk = explicit.walk(WHAT)?;
    let inside = match walk.optional(OCTET_STRING)? {
        Some(octets) => octets,
        None => walk.expect(SEQUENCE)?,
    };
    walk.finish()?;
    Ok(inside)
}

/// `700 bytes at offset 0x1a0 of the signature`
pub(super) fn at(whole: &[u8], part: &[u8]) -> String {
    let offset = place::offset(whole, part);
    format!(
        "{} bytes at offset {offset:#x} of the signature",
        part.len()
    )
}

fn attributes<'a>(set: &Tlv<'a>) -> Result<Vec<Attribute<'a>>, Refusal> {
    const WHAT: &str = "its list of attributes";
    let mut walk = set.walk(WHAT)?;
    let mut found = Vec::new();
    while walk.peek().is_some() {
        let tlv = walk.expect(SEQUENCE)?;
        if found.len() == MAX_ATTRIBUTES {
            let fact = format!("has more than {MAX_ATTRIBUTES} in it");
            return Err(tlv::malformed(WHAT, &fact));
        }
        let mut parts = tlv.walk(WHAT)?;
        let oid = parts.oid()?;
        let values = parts.expect(SET)?;
        parts.finish()?;
        found.push(Attribute { oid, values });
    }
    Ok(found)
}
