//! Public keys that records are judged by: EC P-256 in PEM, as cosign and openssl write them, and minisign's.
//!
//! Refuses other curves, RSA, and minisign's legacy signatures over bytes that were not hashed.

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
use winimg_trust::{minisign, short};

/// No key is longer.
const LONGEST: u64 = 64 << 10;

/// ECDSA on P-256 over SHA-256.
#[derive(Clone, Debug)]
pub struct Ecdsa {
    key: ParsedPublicKey,
    /// Base64 of the SHA-256 of the key's SubjectPublicKeyInfo: how Sigstore's clients name a key.
    pub id: String,
}

impl Ecdsa {
    /// From a SubjectPublicKeyInfo (RFC 5280 4.1); the error fits after "the key ".
    pub fn from_der(der: &[u8]) -> Result<Self, String> {
        let wrong = |_| "is not an EC key on the curve P-256".to_owned();
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, der).map_err(wrong)?;
        // As it is written again, so that two forms of one key have one name.
        let info = key
            .as_der()
            .map_err(|_| "cannot be written again".to_owned())?;
        let id = STANDARD.encode(Digest::sha256_of(info.as_ref()).bytes());
        Ok(Self { key, id })
    }

    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem)
            .map_err(|_| "has no PEM section PUBLIC KEY".to_owned())?;
        Self::from_der(&der)
    }

    /// Whether `signature` (DER) is this key's over `bytes`.
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.key.verify_sig(bytes, signature).is_ok()
    }
}

/// What `--key` names.
#[derive(Debug)]
pub enum PublicKey {
    Ecdsa(Ecdsa),
    Minisign(minisign_verify::PublicKey),
}

impl PublicKey {
    /// `--key`: a file, or the key's text itself.
    pub fn given(text: &str) -> Result<Self> {
        if is_key(text) {
            return Self::parse(text).map_err(|why| refused("--key", &why));
        }
        let path = Path::new(text);
        let read = read_bounded(path)?;
        Self::parse(&read).map_err(|why| refused(path.display(), &why))
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.contains("PRIVATE KEY-----") || text.contains("secret key") {
            return Err("is a private key: give the public one".into());
        }
        if text.contains("-----BEGIN") {
            return Ecdsa::from_pem(text.as_bytes()).map(Self::Ecdsa);
        }
        minisign::Rule::new(text)
            .map(|rule| Self::Minisign(rule.into_key()))
            .map_err(|_| "is neither a PEM public key nor a minisign public key".into())
    }
}

fn is_key(text: &str) -> bool {
    text.contains("-----BEGIN") || text.contains('\n') || short::is_key(text)
}

/// A small text file.
pub fn read_bounded(path: &Path) -> Result<String> {
    io::read_text_given(path, LONGEST).map_err(|e| Error::io("read", path, e))
}

/// A key that cannot be used, with where it was said.
pub fn refused(at: impl fmt::Display, why: &str) -> Error {
    Error::new(Kind::Recipe, format!("the key {why}"))
        .at(at)
        .expected("an EC P-256 key in PEM, or a minisign key")
}
