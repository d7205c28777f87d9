//! cosign with a key (cosign: `sign-blob --key`; Sigstore: bundle v0.3 with `publicKey`).
//!
//! Only the pinned key is checked. Log entries in a bundle are neither needed nor checked, and a
//! key's hint is only used in messages. Refuses keyless signatures and attestations, which are
//! other schemes.

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

use super::reading::{self, SubjectReader};
use super::{
    FileSubject, KeyFileContent, RefusalReason, Scheme, SignatureEvidence, SignatureRefusal,
    SignatureResult, Signer,
};

/// Maximum size of a file that is loaded into memory for Ed25519, which signs the whole file.
pub const LIMIT: u64 = 256 << 20;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EDWARDS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CosignKeyKind {
    P256,
    P384,
    /// The modulus' length in bits.
    Rsa(usize),
    Ed25519,
}

impl CosignKeyKind {
    /// Returns the algorithms that a key of this kind may have used.
    fn algorithms(self) -> Vec<(&'static dyn VerificationAlgorithm, CosignInput)> {
        match self {
            Self::P256 => vec![(&ECDSA_P256_SHA256_ASN1, CosignInput::Sha256)],
            // Earlier versions of cosign used SHA-256 with every key.
            Self::P384 => vec![
                (&ECDSA_P384_SHA256_ASN1, CosignInput::Sha256),
                (&ECDSA_P384_SHA384_ASN1, CosignInput::Sha384),
            ],
            Self::Rsa(_) => vec![(&RSA_PKCS1_2048_8192_SHA256, CosignInput::Sha256)],
            Self::Ed25519 => vec![(&ED25519, CosignInput::Whole)],
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
pub struct CosignRule {
    kind: CosignKeyKind,
    /// The key for each algorithm that this kind of key may have used.
    keys: Vec<(ParsedPublicKey, CosignInput)>,
    /// SHA-256 of the SubjectPublicKeyInfo, which cosign uses as a bundle's hint.
    digest: [u8; 32],
}

impl CosignRule {
    /// Parses the text of a public key. The error fits after "the key".
    pub fn new(key: &str) -> Result<Self, String> {
        const NONE: &str =
            "is not a public key in PEM, which starts with -----BEGIN PUBLIC KEY-----";
        if key.contains("PRIVATE KEY-----") {
            return Err("is a private key; a recipe needs the public key, cosign.pub".into());
        }
        if key.contains("-----BEGIN CERTIFICATE-----") {
            return Err("is a certificate; cosign's rule needs its public key \
                        (openssl x509 -in FILE -noout -pubkey)"
                .into());
        }
        let der = SubjectPublicKeyInfoDer::from_pem_slice(key.as_bytes()).map_err(|_| NONE)?;
        let spki = SubjectPublicKeyInfoOwned::from_der(&der).map_err(|_| NONE)?;
        let parameters = spki.algorithm.parameters.as_ref();
        let curve =
            parameters.and_then(|parameters| parameters.decode_as::<ObjectIdentifier>().ok());
        let bits = spki.subject_public_key.raw_bytes();
        let kind = match (spki.algorithm.oid, curve) {
            (EC, Some(P256)) => CosignKeyKind::P256,
            (EC, Some(P384)) => CosignKeyKind::P384,
            (RSA, _) => CosignKeyKind::Rsa(modulus_bits(bits).ok_or("is damaged")?),
            (EDWARDS, _) => CosignKeyKind::Ed25519,
            (EC, Some(curve)) => return Err(format!("uses the curve {curve}; {TAKEN}")),
            (other, _) => return Err(format!("is of the kind {other}; {TAKEN}")),
        };
        let mut digest = [0; 32];
        digest.copy_from_slice(winimg_base::digest::Digest::sha256_of(&der).bytes());
        // The library checks the length only when it verifies.
        if let CosignKeyKind::Rsa(bits) = kind
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

    pub(super) fn key_content(&self) -> KeyFileContent {
        KeyFileContent {
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

    /// Returns true if the bytes have the form of a signature by this kind of key.
    fn is_whole(&self, signature: &[u8]) -> bool {
        match self.kind {
            CosignKeyKind::P256 | CosignKeyKind::P384 => two_integers(signature).is_some(),
            CosignKeyKind::Rsa(bits) => bits.div_ceil(8) == signature.len(),
            CosignKeyKind::Ed25519 => signature.len() == 64,
        }
    }

    /// Returns true if the key signed this file.
    fn verifies(
        &self,
        subject: FileSubject<'_>,
        signature: &[u8],
    ) -> Result<bool, SignatureRefusal> {
        for (key, hash) in &self.keys {
            let verified = match hash {
                CosignInput::Whole => {
                    let file = SubjectReader::read_whole(subject, LIMIT, "an Ed25519 key")?;
                    key.verify_sig(&file, signature)
                }
                CosignInput::Sha256 => {
                    let digest = reading::compute_sha256(subject)?;
                    let digest = Digest::import_less_safe(&digest, &SHA256);
                    digest.and_then(|digest| key.verify_digest_sig(&digest, signature))
                }
                CosignInput::Sha384 => {
                    let mut context = aws_lc_rs::digest::Context::new(&SHA384);
                    SubjectReader::visit(subject, |piece| context.update(piece))?;
                    key.verify_digest_sig(&context.finish(), signature)
                }
            };
            if verified.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

const TAKEN: &str =
    "cosign's rule supports ECDSA on P-256 or P-384, Ed25519, and RSA from 2048 to 8192 bits";

/// Parses SEQUENCE { INTEGER, INTEGER } without trailing bytes: an ECDSA signature (RFC 3279,
/// 2.2.3) or an RSA key (RFC 8017, A.1.1).
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

/// The signed input: a digest of the file, or the file itself.
#[derive(Clone, Copy, Debug)]
enum CosignInput {
    Sha256,
    Sha384,
    Whole,
}

/// A signature with the other fields of its file.
struct CosignSignature {
    signature: Vec<u8>,
    /// SHA-256 of the signed file.
    digest: Option<Vec<u8>>,
    /// The signer's hint that identifies the key.
    hint: Option<String>,
    remark: Option<&'static str>,
}

/// Output of `cosign sign-blob --bundle` before Sigstore's bundle format.
#[derive(Deserialize)]
struct CosignBundle {
    #[serde(rename = "base64Signature")]
    signature: String,
    #[serde(default)]
    cert: String,
}

fn read(evidence: &SignatureEvidence) -> Result<CosignSignature, SignatureRefusal> {
    let bytes = reading::read_signature(evidence)?;
    // A SEQUENCE in DER; base64 of it starts with a different character.
    if bytes.starts_with(&[0x30]) && std::str::from_utf8(bytes).is_err() {
        return Ok(from_bytes(bytes.to_vec()));
    }
    let text = reading::signature_text(evidence)?.trim();
    if text.starts_with('{') {
        return parse_bundle(text);
    }
    decode(text).map(from_bytes)
}

fn from_bytes(signature: Vec<u8>) -> CosignSignature {
    CosignSignature {
        signature,
        digest: None,
        hint: None,
        remark: None,
    }
}

fn decode(text: &str) -> Result<Vec<u8>, SignatureRefusal> {
    let bytes = reading::decode_base64(text.as_bytes()).filter(|bytes| !bytes.is_empty());
    let fact = "it is neither base64 nor a bundle, or it is cut off";
    bytes.ok_or_else(|| RefusalReason::Malformed.refusal(fact))
}

fn parse_bundle(text: &str) -> Result<CosignSignature, SignatureRefusal> {
    if let Ok(old) = serde_json::from_str::<CosignBundle>(text) {
        let cert = BASE64_STANDARD.decode(&old.cert).unwrap_or_default();
        if cert.starts_with(b"-----BEGIN CERTIFICATE") || old.cert.contains("BEGIN CERTIFICATE") {
            return Err(refuse_keyless());
        }
        return decode(&old.signature).map(from_bytes);
    }
    let bundle = Bundle::from_json(&without_empty_digest(text)).map_err(|e| {
        let fact = "it is not a Sigstore bundle, or it is cut off";
        RefusalReason::Malformed
            .refusal(fact)
            .found(reading::sanitize(e))
    })?;
    let hint = match &bundle.verification_material.content {
        VerificationMaterialContent::PublicKey(key) => key.hint.clone(),
        _ => return Err(refuse_keyless()),
    };
    let SignatureContent::MessageSignature(message) = &bundle.content else {
        let fact = "it is an attestation, not a signature of the file itself";
        return Err(RefusalReason::Unsupported
            .refusal(fact)
            .cure("sign the file with cosign sign-blob --key"));
    };
    let logged = !bundle.verification_material.tlog_entries.is_empty();
    Ok(CosignSignature {
        signature: message.signature.as_bytes().to_vec(),
        digest: signed_digest(message)?,
        hint: Some(hint).filter(|h| !h.is_empty()),
        remark: logged.then_some("the bundle's log entry was not checked: the key is pinned"),
    })
}

fn refuse_keyless() -> SignatureRefusal {
    let fact = "it was made with a certificate, without a key (keyless)";
    RefusalReason::OtherKey
        .refusal(fact)
        .cure("if keyless signing is intended, use kind = \"sigstore\" with identity and issuer")
}

/// Removes the empty digest that cosign writes if an Ed25519 key signed the file itself, because
/// the library requires its members.
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

fn signed_digest(message: &MessageSignature) -> Result<Option<Vec<u8>>, SignatureRefusal> {
    let Some(digest) = &message.message_digest else {
        return Ok(None);
    };
    let bytes = digest.digest.as_bytes();
    match (digest.algorithm, bytes.len()) {
        (sigstore_types::HashAlgorithm::Sha2256, 32) => Ok(Some(bytes.to_vec())),
        // For a P-384 key, whose signature covers it.
        (sigstore_types::HashAlgorithm::Sha2384, 48) => Ok(None),
        (other, n) => Err(RefusalReason::Unsupported.refusal(format!(
            "its bundle names a digest of {n} bytes as {other:?}"
        ))),
    }
}

pub fn judge(
    rule: &CosignRule,
    subject: FileSubject<'_>,
    evidence: &SignatureEvidence,
) -> SignatureResult {
    let found = read(evidence)?;
    if let Some(signed) = &found.digest {
        let file = reading::compute_sha256(subject)?;
        if *signed != file {
            return Err(RefusalReason::Changed
                .refusal("its bundle is for a different file")
                .expected(format!("sha256:{}", hex::encode(signed)))
                .found(format!("sha256:{}", hex::encode(file))));
        }
    }
    if !rule.is_whole(&found.signature) {
        let fact = format!(
            "it is cut off, or not a signature by a key of type {}",
            rule.kind.name()
        );
        return Err(RefusalReason::Malformed.refusal(fact));
    }
    if !rule.verifies(subject, &found.signature)? {
        return Err(refuse_signature(rule, &found));
    }
    Ok(Signer {
        scheme: Scheme::Cosign,
        signer: rule.name(),
        pinned_by: rule.name_and_kind(),
        signed_at: None,
        remarks: found.remark.into_iter().map(Into::into).collect(),
    })
}

/// Returns the refusal of a signature that does not verify. A bare signature names neither its key
/// nor its file, so the cause is unknown.
fn refuse_signature(rule: &CosignRule, found: &CosignSignature) -> SignatureRefusal {
    let ours = BASE64_STANDARD.encode(rule.digest);
    let other = found.hint.as_ref().filter(|hint| **hint != ours);
    let refusal = match (other, &found.digest) {
        (None, None) => {
            let fact = "the pinned key did not sign this file: the file or its signature was \
                changed, or a different key signed it";
            RefusalReason::Changed.refusal(fact)
        }
        _ => RefusalReason::OtherKey.refusal("the pinned key did not sign its bundle"),
    };
    let refusal = refusal.expected(rule.name_and_kind());
    match other {
        Some(hint) => refusal.found(format!("a key with the hint {}", reading::sanitize(hint))),
        None => refusal,
    }
}
