//! Which algorithm a signature is made with, as the libraries know it. Refuses MD5, SHA-1 and short RSA keys by name.
//! (RFC 3370; RFC 4055; RFC 5754; RFC 8419)

use der::asn1::ObjectIdentifier;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use webpki::EndEntityCert;
use webpki::aws_lc_rs as known;

use super::certificate::Certificate;
use super::hash::HashKind;
use super::tlv::{self, BIT_STRING, SEQUENCE, Tlv};
use super::{Reason, Refusal};

type Known = &'static dyn SignatureVerificationAlgorithm;

const PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");

pub(super) const SHORTEST_RSA: usize = 2048;

fn rsa(hash: HashKind) -> Vec<Known> {
    vec![match hash {
        HashKind::Sha256 => known::RSA_PKCS1_2048_8192_SHA256,
        HashKind::Sha384 => known::RSA_PKCS1_2048_8192_SHA384,
        HashKind::Sha512 => known::RSA_PKCS1_2048_8192_SHA512,
    }]
}

/// The curve is the key's; the libraries take the one that fits.
fn ecdsa(hash: HashKind) -> Vec<Known> {
    match hash {
        HashKind::Sha256 => {
            vec![
                known::ECDSA_P256_SHA256,
                known::ECDSA_P384_SHA256,
                known::ECDSA_P521_SHA256,
            ]
        }
        HashKind::Sha384 => {
            vec![
                known::ECDSA_P256_SHA384,
                known::ECDSA_P384_SHA384,
                known::ECDSA_P521_SHA384,
            ]
        }
        HashKind::Sha512 => {
            vec![
                known::ECDSA_P256_SHA512,
                known::ECDSA_P384_SHA512,
                known::ECDSA_P521_SHA512,
            ]
        }
    }
}

/// PSS says hash, mask and salt in its parameters, so those have to be one of the usual three, whole.
fn pss(identifier: &Tlv<'_>) -> Option<(HashKind, Known)> {
    let three: [(HashKind, Known); 3] = [
        (HashKind::Sha256, known::RSA_PSS_2048_8192_SHA256_LEGACY_KEY),
        (HashKind::Sha384, known::RSA_PSS_2048_8192_SHA384_LEGACY_KEY),
        (HashKind::Sha512, known::RSA_PSS_2048_8192_SHA512_LEGACY_KEY),
    ];
    let mut three = three.into_iter();
    three.find(|(_, k)| k.signature_alg_id().as_ref() == identifier.value)
}

/// `digest` stands in where the identifier names the key's kind only, as Authenticode's do. Where it names a hash, that has
/// to be the same one: readers differ in which of the two they go by. (RFC 5652 5.4)
fn candidates(identifier: &Tlv<'_>, digest: HashKind) -> Result<Vec<Known>, Refusal> {
    let oid = identifier.walk("its algorithm")?.oid()?;
    let same = |hash: HashKind| match hash == digest {
        true => Ok(hash),
        false => Err(Reason::Malformed
            .refusal("it is hashed with one algorithm and signed over another")
            .expected(digest)
            .found(hash)),
    };
    let found = match oid.to_string().as_str() {
        "1.2.840.113549.1.1.1" => rsa(digest),
        "1.2.840.113549.1.1.11" => rsa(same(HashKind::Sha256)?),
        "1.2.840.113549.1.1.12" => rsa(same(HashKind::Sha384)?),
        "1.2.840.113549.1.1.13" => rsa(same(HashKind::Sha512)?),
        "1.2.840.113549.1.1.10" => {
            let (hash, known) =
                pss(identifier).ok_or_else(|| refused("RSASSA-PSS with unusual parameters"))?;
            same(hash)?;
            vec![known]
        }
        "1.2.840.10045.2.1" => ecdsa(digest),
        "1.2.840.10045.4.3.2" => ecdsa(same(HashKind::Sha256)?),
        "1.2.840.10045.4.3.3" => ecdsa(same(HashKind::Sha384)?),
        "1.2.840.10045.4.3.4" => ecdsa(same(HashKind::Sha512)?),
        "1.3.101.112" => vec![known::ED25519],
        other => return Err(refused(other)),
    };
    if oid != PSS {
        tlv::plain_algorithm(identifier, "its algorithm")?;
    }
    Ok(found)
}

/// The refusal of a signature algorithm that is not taken, by its OID.
pub(super) fn refused(oid: &str) -> Refusal {
    let weak = match oid {
        "1.2.840.113549.1.1.4" => "MD5",
        "1.2.840.113549.1.1.5" | "1.3.14.3.2.29" | "1.2.840.10045.4.1" => "SHA-1",
        _ => {
            return Reason::Unsupported
                .refusal("its signature algorithm is not one that winimg knows")
                .expected("RSA (PKCS#1 or PSS), ECDSA or Ed25519")
                .found(oid);
        }
    };
    Reason::Weak
        .refusal(format!("it is made with {weak}, which others can forge"))
        .expected("SHA-256, SHA-384 or SHA-512")
        .found(weak)
}

pub(super) fn short_key(bits: usize) -> Refusal {
    Reason::Weak
        .refusal("an RSA key of it is so short that others can find it out")
        .expected(format_args!("at least {SHORTEST_RSA} bits"))
        .found(format_args!("{bits} bits"))
}

/// `value` is this certificate's signature over `message`.
pub(super) fn verify(
    certificate: &Certificate<'_>,
    identifier: &Tlv<'_>,
    digest: HashKind,
    message: &[u8],
    value: &[u8],
) -> Result<(), Refusal> {
    by_one_of(
        candidates(identifier, digest)?,
        certificate,
        identifier,
        message,
        value,
    )
}

/// What an authority issued, a certificate or a list of revoked ones, in its three parts. (RFC 5280 4.1.1, 5.1.1)
pub(super) struct Issued<'a> {
    pub(super) body: Tlv<'a>,
    identifier: Tlv<'a>,
    value: &'a [u8],
}

impl<'a> Issued<'a> {
    /// `what` is the subject of refusals.
    pub(super) fn read(der: &'a [u8], what: &'static str) -> Result<Self, Refusal> {
        let mut walk = tlv::only(der, SEQUENCE, what)?.walk(what)?;
        let (body, identifier) = (walk.expect(SEQUENCE)?, walk.expect(SEQUENCE)?);
        let bits = walk.expect(BIT_STRING)?.value;
        walk.finish()?;
        match bits {
            [0, value @ ..] => Ok(Self {
                body,
                identifier,
                value,
            }),
            _ => Err(tlv::malformed(what, "has a signature of no whole bytes")),
        }
    }

    /// Its signature is by this issuer's key. The identifier names the hash here too.
    pub(super) fn verify(&self, issuer: &Certificate<'_>) -> Result<(), Refusal> {
        let known = webpki::ALL_VERIFICATION_ALGS.iter().copied();
        let named = known.filter(|k| k.signature_alg_id().as_ref() == self.identifier.value);
        let named: Vec<Known> = named.collect();
        if named.is_empty() {
            let oid = self.identifier.walk("its algorithm")?.oid()?;
            return Err(refused(&oid.to_string()));
        }
        by_one_of(named, issuer, &self.identifier, self.body.raw, self.value)
    }
}

fn by_one_of(
    candidates: Vec<Known>,
    certificate: &Certificate<'_>,
    identifier: &Tlv<'_>,
    message: &[u8],
    value: &[u8],
) -> Result<(), Refusal> {
    if let Some(bits) = certificate.rsa_bits.filter(|bits| *bits < SHORTEST_RSA) {
        return Err(short_key(bits));
    }
    let der = CertificateDer::from(certificate.der);
    let key = EndEntityCert::try_from(&der).map_err(|e| {
        Reason::Unsupported
            .refusal(format!(
                "its certificate is not one that winimg can judge: {e:?}"
            ))
            .found(certificate.subject_text())
    })?;
    let mut fits = false;
    for algorithm in candidates {
        match key.verify_signature(algorithm, message, value) {
            Ok(()) => return Ok(()),
            Err(webpki::Error::InvalidSignatureForPublicKey) => fits = true,
            Err(_) => {}
        }
    }
    Err(if fits {
        Reason::Changed
            .refusal("its value was not made with its certificate's key: bytes of it were changed")
            .found(certificate.subject_text())
    } else {
        let oid = identifier.walk("its algorithm")?.oid()?;
        Reason::Unsupported
            .refusal("its algorithm does not fit its certificate's key")
            .found(oid)
    })
}
