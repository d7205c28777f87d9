//! Maps signature algorithms to those of the libraries. Refuses MD5, SHA-1 and short RSA keys with
//! a specific message. (RFC 3370; RFC 4055; RFC 5754; RFC 8419)

use der::asn1::ObjectIdentifier;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use webpki::EndEntityCert;
use webpki::aws_lc_rs as known;

use super::certificate::Certificate;
use super::hash::HashKind;
use super::tlv::{self, BIT_STRING, SEQUENCE, Tlv};
use crate::{RefusalReason, SignatureRefusal};

type KnownAlgorithm = &'static dyn SignatureVerificationAlgorithm;

const PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");

pub const SHORTEST_RSA: usize = 2048;

fn rsa(hash: HashKind) -> Vec<KnownAlgorithm> {
    vec![match hash {
        HashKind::Sha256 => known::RSA_PKCS1_2048_8192_SHA256,
        HashKind::Sha384 => known::RSA_PKCS1_2048_8192_SHA384,
        HashKind::Sha512 => known::RSA_PKCS1_2048_8192_SHA512,
    }]
}

/// Returns the candidates of all curves; the libraries select the one of the key.
fn ecdsa(hash: HashKind) -> Vec<KnownAlgorithm> {
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

/// Recognizes PSS by its complete parameters (hash, mask and salt), which must be one of the usual
/// three.
fn find_pss(identifier: &Tlv<'_>) -> Option<(HashKind, KnownAlgorithm)> {
    let three: [(HashKind, KnownAlgorithm); 3] = [
        (HashKind::Sha256, known::RSA_PSS_2048_8192_SHA256_LEGACY_KEY),
        (HashKind::Sha384, known::RSA_PSS_2048_8192_SHA384_LEGACY_KEY),
        (HashKind::Sha512, known::RSA_PSS_2048_8192_SHA512_LEGACY_KEY),
    ];
    let mut three = three.into_iter();
    three.find(|(_, k)| k.signature_alg_id().as_ref() == identifier.value)
}

/// Returns the algorithms for an identifier. `digest` is the hash if the identifier only names the
/// kind of key, as in Authenticode. If it names a hash, that must be the same one, because readers
/// differ in which of the two they use. (RFC 5652 5.4)
fn find_candidates(
    identifier: &Tlv<'_>,
    digest: HashKind,
) -> Result<Vec<KnownAlgorithm>, SignatureRefusal> {
    let oid = identifier.walk("its algorithm")?.read_oid()?;
    let found = match oid.to_string().as_str() {
        "1.2.840.113549.1.1.1" => rsa(digest),
        "1.2.840.113549.1.1.11" => rsa(expect_hash(HashKind::Sha256, digest)?),
        "1.2.840.113549.1.1.12" => rsa(expect_hash(HashKind::Sha384, digest)?),
        "1.2.840.113549.1.1.13" => rsa(expect_hash(HashKind::Sha512, digest)?),
        "1.2.840.113549.1.1.10" => {
            let (hash, known) = find_pss(identifier)
                .ok_or_else(|| refuse_algorithm("RSASSA-PSS with unusual parameters"))?;
            expect_hash(hash, digest)?;
            vec![known]
        }
        "1.2.840.10045.2.1" => ecdsa(digest),
        "1.2.840.10045.4.3.2" => ecdsa(expect_hash(HashKind::Sha256, digest)?),
        "1.2.840.10045.4.3.3" => ecdsa(expect_hash(HashKind::Sha384, digest)?),
        "1.2.840.10045.4.3.4" => ecdsa(expect_hash(HashKind::Sha512, digest)?),
        "1.3.101.112" => vec![known::ED25519],
        other => return Err(refuse_algorithm(other)),
    };
    if oid != PSS {
        tlv::plain_algorithm(identifier, "its algorithm")?;
    }
    Ok(found)
}

/// Checks that the hash of a signature algorithm is the hash of the content.
fn expect_hash(hash: HashKind, digest: HashKind) -> Result<HashKind, SignatureRefusal> {
    if hash == digest {
        Ok(hash)
    } else {
        Err(RefusalReason::Malformed
            .refusal("its hash algorithm differs from that of its signature algorithm")
            .expected(digest)
            .found(hash))
    }
}

/// Returns the refusal of an unsupported or weak signature algorithm by its OID.
pub fn refuse_algorithm(oid: &str) -> SignatureRefusal {
    let weak = match oid {
        "1.2.840.113549.1.1.4" => "MD5",
        "1.2.840.113549.1.1.5" | "1.3.14.3.2.29" | "1.2.840.10045.4.1" => "SHA-1",
        _ => {
            return RefusalReason::Unsupported
                .refusal("its signature algorithm is not supported")
                .expected("RSA (PKCS#1 or PSS), ECDSA or Ed25519")
                .found(oid);
        }
    };
    RefusalReason::Weak
        .refusal(format!("it uses {weak}, which can be forged"))
        .expected("SHA-256, SHA-384 or SHA-512")
        .found(weak)
}

pub fn short_key(bits: usize) -> SignatureRefusal {
    RefusalReason::Weak
        .refusal("one of its RSA keys is too short to be secure")
        .expected(format_args!("at least {SHORTEST_RSA} bits"))
        .found(format_args!("{bits} bits"))
}

/// Checks that `value` is this certificate's signature over `message`.
pub fn verify(
    certificate: &Certificate<'_>,
    identifier: &Tlv<'_>,
    digest: HashKind,
    message: &[u8],
    value: &[u8],
) -> Result<(), SignatureRefusal> {
    by_one_of(
        find_candidates(identifier, digest)?,
        certificate,
        identifier,
        message,
        value,
    )
}

/// A certificate or a revocation list in its three parts. (RFC 5280 4.1.1, 5.1.1)
pub struct IssuedData<'a> {
    pub body: Tlv<'a>,
    identifier: Tlv<'a>,
    value: &'a [u8],
}

impl<'a> IssuedData<'a> {
    /// Parses the parts. `what` is the subject of refusals.
    pub fn read(der: &'a [u8], what: &'static str) -> Result<Self, SignatureRefusal> {
        let mut walk = tlv::parse_only(der, SEQUENCE, what)?.walk(what)?;
        let (body, identifier) = (walk.expect(SEQUENCE)?, walk.expect(SEQUENCE)?);
        let bits = walk.expect(BIT_STRING)?.value;
        walk.finish()?;
        match bits {
            [0, value @ ..] => Ok(Self {
                body,
                identifier,
                value,
            }),
            _ => Err(tlv::refuse_malformed(
                what,
                "has a signature of no whole bytes",
            )),
        }
    }

    /// Checks that its signature is by this issuer's key. The identifier also names the hash here.
    pub fn verify(&self, issuer: &Certificate<'_>) -> Result<(), SignatureRefusal> {
        let named: Vec<KnownAlgorithm> = webpki::ALL_VERIFICATION_ALGS
            .iter()
            .copied()
            .filter(|known| known.signature_alg_id().as_ref() == self.identifier.value)
            .collect();
        if named.is_empty() {
            let oid = self.identifier.walk("its algorithm")?.read_oid()?;
            return Err(refuse_algorithm(&oid.to_string()));
        }
        by_one_of(named, issuer, &self.identifier, self.body.raw, self.value)
    }
}

fn by_one_of(
    candidates: Vec<KnownAlgorithm>,
    certificate: &Certificate<'_>,
    identifier: &Tlv<'_>,
    message: &[u8],
    value: &[u8],
) -> Result<(), SignatureRefusal> {
    if let Some(bits) = certificate.rsa_bits.filter(|bits| *bits < SHORTEST_RSA) {
        return Err(short_key(bits));
    }
    let der = CertificateDer::from(certificate.der);
    let key = EndEntityCert::try_from(&der).map_err(|e| {
        RefusalReason::Unsupported
            .refusal(format!("its certificate is not supported: {e:?}"))
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
        RefusalReason::Changed
            .refusal("its value was not made with its certificate's key: it was modified")
            .found(certificate.subject_text())
    } else {
        let oid = identifier.walk("its algorithm")?.read_oid()?;
        RefusalReason::Unsupported
            .refusal("its algorithm does not match its certificate's key")
            .found(oid)
    })
}
