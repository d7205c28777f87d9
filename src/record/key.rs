//! Public keys for verifying records: EC P-256 in PEM, as cosign and openssl write them, and
//! minisign keys.
//!
//! Rejects other curves, RSA, and minisign's legacy signatures (not prehashed).

use std::fmt;
use std::path::Path;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_trust::{minisign, short_format};

/// Maximum length of a key file in bytes.
const MAX_KEY_FILE_SIZE: u64 = 64 << 10;

/// ECDSA on P-256 over SHA-256.
#[derive(Clone, Debug)]
pub struct EcdsaPublicKey {
    key: ParsedPublicKey,
    /// Base64 of the SHA-256 of the key's SubjectPublicKeyInfo: the key id of Sigstore's clients.
    pub id: String,
}

impl EcdsaPublicKey {
    /// Parses a DER SubjectPublicKeyInfo (RFC 5280 4.1). The error text continues "the key …".
    pub fn from_der(der: &[u8]) -> Result<Self, String> {
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, der)
            .map_err(|_| "is not an EC key on the curve P-256".to_owned())?;
        // Re-encode, so that the id does not depend on how the key was encoded.
        let info = key.as_der().map_err(|_| "cannot be encoded".to_owned())?;
        let id = STANDARD.encode(Digest::sha256_of(info.as_ref()).bytes());
        Ok(Self { key, id })
    }

    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem)
            .map_err(|_| "has no PEM section PUBLIC KEY".to_owned())?;
        Self::from_der(&der)
    }

    /// Returns true if `signature` (DER) over `bytes` was made with this key.
    pub fn is_valid_signature(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.key.verify_sig(bytes, signature).is_ok()
    }
}

/// The key given with `--key`.
#[derive(Debug)]
pub enum RecordKey {
    Ecdsa(EcdsaPublicKey),
    Minisign(minisign_verify::PublicKey),
}

impl RecordKey {
    /// Parses the value of `--key`: a file, or the key's text itself.
    pub fn parse_argument(text: &str) -> Result<Self> {
        if is_key(text) {
            return Self::parse(text).map_err(|why| unusable_key_error("--key", &why));
        }
        let path = Path::new(text);
        let read = read_bounded(path)?;
        Self::parse(&read).map_err(|why| unusable_key_error(path.display(), &why))
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.contains("PRIVATE KEY-----") || text.contains("secret key") {
            return Err("is a private key: use the public one".into());
        }
        if text.contains("-----BEGIN") {
            return EcdsaPublicKey::from_pem(text.as_bytes()).map(Self::Ecdsa);
        }
        minisign::MinisignRule::new(text)
            .map(|rule| Self::Minisign(rule.into_key()))
            .map_err(|_| "is neither a PEM public key nor a minisign public key".into())
    }
}

fn is_key(text: &str) -> bool {
    text.contains("-----BEGIN") || text.contains('\n') || short_format::is_key(text)
}

/// Reads a small text file.
pub fn read_bounded(path: &Path) -> Result<String> {
    io::read_text_argument(path, MAX_KEY_FILE_SIZE).map_err(|e| Error::io("read", path, e))
}

/// Returns the error for an unusable key; `at` is its origin.
pub fn unusable_key_error(at: impl fmt::Display, why: &str) -> Error {
    Error::new(Kind::Recipe, format!("the key {why}"))
        .at(at)
        .expected("an EC P-256 key in PEM, or a minisign key")
}
