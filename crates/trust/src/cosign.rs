//! cosign with a key (cosign: `sign-blob --key`; Sigstore: bundle v0.3 with `publicKey`).
//!
//! The pinned key alone decides. Log entries in a bundle are not needed and not judged, and a key's hint is only used to
//! say whose signature it is instead. Refuses keyless signatures and attestations, which are other schemes.

use std::borrow::Cow;

use aws_lc_rs::digest::{Digest, SHA256, SHA384};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use der::asn1::UintRef;
use der::{Decode as _, Reader as _, SliceReader};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::Value;
use sigstore_types::bundle::{
    Bundle, MessageSignature, SignatureContent, VerificationMaterialContent,
};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::reading::{self, Reading};
use super::{Evidence, Judged, Pinned, Reason, Refusal, Scheme, Signer, Subject};

/// Bytes of a file that are held in memory for Ed25519, which signs it whole.
pub const LIMIT: u64 = 256 << 20;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EDWARDS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    P256,
    P384,
    /// The modulus' length in bits.
    Rsa(usize),
    Ed25519,
}

impl Kind {
    /// How a key of this kind may have signed.
    fn algorithms(self) -> Vec<(&'static dyn VerificationAlgorithm, Hash)> {
        match self {
            Self::P256 => vec![(&ECDSA_P256_SHA256_ASN1, Hash::Sha256)],
            // cosign signed over SHA-256 with every key before it chose by the key.
            Self::P384 => vec![
                (&ECDSA_P384_SHA256_ASN1, Hash::Sha256),
                (&ECDSA_P384_SHA384_ASN1, Hash::Sha384),
            ],
            Self::Rsa(_) => vec![(&RSA_PKCS1_2048_8192_SHA256, Hash::Sha256)],
            Self::Ed25519 => vec![(&ED25519, Hash::Whole)],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::P256 => "ECDSA P-256",
            Self::P384 => "ECDSA P-384",
            Self::Rsa(_) => "RSA",
            Self::Ed25519 => "Ed25519",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Rule {
    kind: Kind,
    /// The key for each way in which one of this kind may have signed.
    keys: Vec<(ParsedPublicKey, Hash)>,
    /// SHA-256 of the SubjectPublicKeyInfo, which cosign writes as a bundle's hint.
    digest: [u8; 32],
}

impl Rule {
    /// `key`: the public key's text. The error fits after "the key".
    pub fn new(key: &str) -> Result<Self, String> {
        const NONE: &str =
            "is not a public key in PEM, which begins with -----BEGIN PUBLIC KEY-----";
        if key.contains("PRIVATE KEY-----") {
            return Err("is a private key; a recipe needs the public one, cosign.pub".into());
        }
        if key.contains("-----BEGIN CERTIFICATE-----") {
            return Err(
                "is a certificate; cosign's rule needs the public key alone \
                        (openssl x509 -in FILE -noout -pubkey)"
                    .into(),
            );
        }
        let der = SubjectPublicKeyInfoDer::from_pem_slice(key.as_bytes()).map_err(|_| NONE)?;
        let spki = SubjectPublicKeyInfoOwned::from_der(&der).map_err(|_| NONE)?;
        let curve = || {
            let parameters = spki.algorithm.parameters.as_ref()?;
            parameters.decode_as::<ObjectIdentifier>().ok()
        };
        let bits = spki.subject_public_key.raw_bytes();
        let kind = match (spki.algorithm.oid, curve()) {
            (EC, Some(P256)) => Kind::P256,
            (EC, Some(P384)) => Kind::P384,
            (RSA, _) => Kind::Rsa(modulus_bits(bits).ok_or("is damaged")?),
            (EDWARDS, _) => Kind::Ed25519,
            (EC, Some(curve)) => return Err(format!("is on the curve {curve}; {TAKEN}")),
            (other, _) => return Err(format!("is of the kind {other}; {TAKEN}")),
        };
        let mut digest = [0; 32];
        digest.copy_from_slice(winimg_base::digest::Digest::sha256_of(&der).bytes());
        // The library looks at the length only when it verifies.
        if let Kind::Rsa(bits) = kind
            && !(2048..=8192).contains(&bits)
        {
            return Err(format!("is an RSA key of {bits} bits; {TAKEN}"));
        }
        let mut keys = Vec::new();
        for (algorithm, hash) in kind.algorithms() {
            let key = ParsedPublicKey::new(algorithm, bits).map_err(|_| "is damaged")?;
            keys.push((key, hash));
        }
        Ok(Self { kind, keys, digest })
    }

    pub(super) fn pinned(&self) -> Pinned {
        Pinned {
            key: self.name(),
            digest: winimg_base::digest::Digest::sha256_of(&self.digest),
        }
    }

    fn name(&self) -> String {
        format!("key sha256:{}", hex::encode(self.digest))
    }

    fn name_and_kind(&self) -> String {
        format!("{} ({})", self.name(), self.kind.name())
    }

    /// Whether the bytes can be a signature of this kind of key at all.
    fn is_whole(&self, signature: &[u8]) -> bool {
        match self.kind {
            Kind::P256 | Kind::P384 => two_integers(signature).is_some(),
            Kind::Rsa(bits) => bits.div_ceil(8) == signature.len(),
            Kind::Ed25519 => signature.len() == 64,
        }
    }

    /// Whether the key signed this file.
    fn signed(&self, subject: Subject<'_>, signature: &[u8]) -> Result<bool, Refusal> {
        for (key, hash) in &self.keys {
            let held = match hash {
                Hash::Whole => {
                    let file = Reading::whole(subject, LIMIT, "an Ed25519 key")?;
                    key.verify_sig(&file, signature)
                }
                Hash::Sha256 => {
                    let digest = reading::sha256(subject)?;
                    let digest = Digest::import_less_safe(&digest, &SHA256);
                    digest.and_then(|digest| key.verify_digest_sig(&digest, signature))
                }
                Hash::Sha384 => {
                    let mut context = aws_lc_rs::digest::Context::new(&SHA384);
                    Reading::each(subject, |piece| context.update(piece))?;
                    key.verify_digest_sig(&context.finish(), signature)
                }
            };
            if held.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

const TAKEN: &str =
    "cosign's rule takes ECDSA on P-256 or P-384, Ed25519, and RSA from 2048 to 8192 bits";

/// SEQUENCE { INTEGER, INTEGER }, to the end: an ECDSA signature (RFC 3279, 2.2.3), an RSA key (RFC 8017, A.1.1).
fn two_integers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = SliceReader::new(der).ok()?;
    let two = reader
        .sequence(|r| Ok((UintRef::decode(r)?, UintRef::decode(r)?)))
        .ok()?;
    reader
        .is_finished()
        .then(|| (two.0.as_bytes(), two.1.as_bytes()))
}

fn modulus_bits(der: &[u8]) -> Option<usize> {
    let (modulus, _) = two_integers(der)?;
    let [first, rest @ ..] = modulus else {
        return None;
    };
    Some(rest.len() * 8 + (8 - first.leading_zeros() as usize))
}

/// What is signed: a digest of the file, or the file itself.
#[derive(Clone, Copy, Debug)]
enum Hash {
    Sha256,
    Sha384,
    Whole,
}

/// A signature and what its file says besides.
struct Found {
    signature: Vec<u8>,
    /// SHA-256 of the signed file.
    digest: Option<Vec<u8>>,
    /// Whose key it is, in the signer's words.
    hint: Option<String>,
    remark: Option<&'static str>,
}

/// What `cosign sign-blob --bundle` wrote before Sigstore's bundle.
#[derive(Deserialize)]
struct OldBundle {
    #[serde(rename = "base64Signature")]
    signature: String,
    #[serde(default)]
    cert: String,
}

fn read(evidence: &Evidence) -> Result<Found, Refusal> {
    let bytes = reading::signature(evidence)?;
    // DER's SEQUENCE, which the same character begins in no base64 of it.
    if bytes.starts_with(&[0x30]) && std::str::from_utf8(bytes).is_err() {
        return Ok(bare(bytes.to_vec()));
    }
    let text = reading::signature_text(evidence)?.trim();
    if text.starts_with('{') {
        return bundle(text);
    }
    decode(text).map(bare)
}

fn bare(signature: Vec<u8>) -> Found {
    Found {
        signature,
        digest: None,
        hint: None,
        remark: None,
    }
}

fn decode(text: &str) -> Result<Vec<u8>, Refusal> {
    let bytes = reading::base64(text.as_bytes()).filter(|bytes| !bytes.is_empty());
    let fact = "it is neither base64 nor a bundle, or it is cut off";
    bytes.ok_or_else(|| Reason::Malformed.refusal(fact))
}

fn bundle(text: &str) -> Result<Found, Refusal> {
    let keyless = || {
        let fact = "it was made with a certificate, without a key (keyless)";
        Reason::OtherKey
            .refusal(fact)
            .cure("kind = \"sigstore\", with identity and issuer, if that is who should sign")
    };
    if let Ok(old) = serde_json::from_str::<OldBundle>(text) {
        let cert = BASE64_STANDARD.decode(&old.cert).unwrap_or_default();
        if cert.starts_with(b"-----BEGIN CERTIFICATE") || old.cert.contains("BEGIN CERTIFICATE") {
            return Err(keyless());
        }
        return decode(&old.signature).map(bare);
    }
    let bundle = Bundle::from_json(&without_empty_digest(text)).map_err(|e| {
        let fact = "it is no Sigstore bundle, or it is cut off";
        Reason::Malformed.refusal(fact).found(reading::shown(e))
    })?;
    let hint = match &bundle.verification_material.content {
        VerificationMaterialContent::PublicKey(key) => key.hint.clone(),
        _ => return Err(keyless()),
    };
    let SignatureContent::MessageSignature(message) = &bundle.content else {
        let fact = "it is an attestation, not a signature of the file itself";
        return Err(Reason::Unsupported
            .refusal(fact)
            .cure("sign the file with cosign sign-blob --key"));
    };
    let logged = !bundle.verification_material.tlog_entries.is_empty();
    Ok(Found {
        signature: message.signature.as_bytes().to_vec(),
        digest: signed_digest(message)?,
        hint: Some(hint).filter(|h| !h.is_empty()),
        remark: logged.then_some("the bundle's log entry was not judged: the key is the pin"),
    })
}

/// cosign writes an empty digest where an Ed25519 key signed the file itself, and the library asks for its members.
fn without_empty_digest(text: &str) -> Cow<'_, str> {
    let bundle = serde_json::from_str::<Value>(text).ok();
    let emptied = bundle.and_then(|mut bundle| {
        let message = bundle.get_mut("messageSignature")?.as_object_mut()?;
        let is_empty = message.get("messageDigest")?.as_object()?.is_empty();
        is_empty.then(|| message.remove("messageDigest"))?;
        Some(bundle.to_string())
    });
    emptied.map_or(Cow::Borrowed(text), Cow::Owned)
}

fn signed_digest(message: &MessageSignature) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(digest) = &message.message_digest else {
        return Ok(None);
    };
    let bytes = digest.digest.as_bytes();
    match (digest.algorithm, bytes.len()) {
        (sigstore_types::HashAlgorithm::Sha2256, 32) => Ok(Some(bytes.to_vec())),
        // Of a P-384 key; the signature itself is over it.
        (sigstore_types::HashAlgorithm::Sha2384, 48) => Ok(None),
        (other, n) => Err(Reason::Unsupported.refusal(format!(
            "its bundle names a digest of {n} bytes as {other:?}"
        ))),
    }
}

pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence) -> Judged {
    let found = read(evidence)?;
    if let Some(signed) = &found.digest {
        let file = reading::sha256(subject)?;
        if *signed != file {
            return Err(Reason::Changed
                .refusal("its bundle speaks of another file")
                .expected(format!("sha256:{}", hex::encode(signed)))
                .found(format!("sha256:{}", hex::encode(file))));
        }
    }
    if !rule.is_whole(&found.signature) {
        let fact = format!(
            "it is cut off, or not a signature by a key of the kind {}",
            rule.kind.name()
        );
        return Err(Reason::Malformed.refusal(fact));
    }
    if !rule.signed(subject, &found.signature)? {
        return Err(unmet(rule, &found));
    }
    Ok(Signer {
        scheme: Scheme::Cosign,
        signer: rule.name(),
        pinned_by: rule.name_and_kind(),
        signed_at: None,
        remarks: found.remark.into_iter().map(Into::into).collect(),
    })
}

/// A bare signature names neither its key nor its file, so it cannot be said which of them is another.
fn unmet(rule: &Rule, found: &Found) -> Refusal {
    let ours = BASE64_STANDARD.encode(rule.digest);
    let other = found.hint.as_ref().filter(|hint| **hint != ours);
    let refusal = match (other, &found.digest) {
        (None, None) => {
            let fact = "the pinned key did not sign this file: the file or its signature was changed, or another key signed";
            Reason::Changed.refusal(fact)
        }
        _ => Reason::OtherKey.refusal("the pinned key did not sign its bundle"),
    };
    let refusal = refusal.expected(rule.name_and_kind());
    match other {
        Some(hint) => refusal.found(format!("a key with the hint {}", reading::shown(hint))),
        None => refusal,
    }
}
