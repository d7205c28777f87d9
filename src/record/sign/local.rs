//! Signing keys in winimg's own memory.
//!
//! Encrypted minisign keys are decrypted with the password; other encrypted keys are refused, with
//! the command that decrypts them.

use std::io::Cursor;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign::{PublicKey, SecretKey, SecretKeyBox};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use super::super::key::EcdsaPublicKey;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::problem::Problem;
use winimg_base::text::Secret;

/// A minisign secret key: algorithm, KDF, checksum, salt, limits, key number, key, checksum
/// (minisign: key format).
const MINISIGN_LENGTH: usize = 158;
/// Position of scrypt's memory limit; a key that needs more than minisign's own 1 GiB is refused.
const MINISIGN_MEMORY: std::ops::Range<usize> = 46..54;
const MINISIGN_CHECKSUM: usize = 126;
const MAX_MEMORY: u64 = 1 << 30;

pub enum SigningKey {
    Ec(EcKey, EcdsaPublicKey),
    Minisign(MinisignKey),
}

/// An EC P-256 private key.
pub struct EcKey(EcdsaKeyPair);

/// A decrypted minisign secret key. Not `Debug`: the library's own would show it.
pub struct MinisignKey {
    secret: SecretKey,
    public: PublicKey,
}

/// Parses a private key. A problem's fact is a predicate that follows "the key ".
pub fn parse_key(text: &Secret, password: Option<&Secret>) -> Result<SigningKey, Problem> {
    if is_public(text.expose()) {
        return Err(Problem::new("is a public key: use the private one"));
    }
    if text.expose().contains("-----BEGIN") {
        parse_ec(text)
    } else {
        parse_minisign(text, password)
    }
}

/// Returns true for a minisign public key of 42 bytes, and for PEM with a PUBLIC KEY section only.
fn is_public(text: &str) -> bool {
    let is_pem = text.contains("BEGIN PUBLIC KEY") && !text.contains("PRIVATE KEY");
    is_pem
        || text
            .lines()
            .map(str::trim)
            .any(|line| line.len() == 56 && line.starts_with("RW"))
}

fn parse_ec(text: &Secret) -> Result<SigningKey, Problem> {
    let pem = text.expose();
    if pem.contains("BEGIN ENCRYPTED ") {
        let sigstore = pem.contains("SIGSTORE PRIVATE KEY") || pem.contains("COSIGN PRIVATE KEY");
        let cure = if sigstore {
            "sign with cosign itself: --sign-command (docs/provenance.md)"
        } else {
            "remove the encryption: openssl pkcs8 -in KEY -out PLAIN; or sign with \
             --sign-command"
        };
        return Err(Problem::new("is encrypted in a format that winimg cannot decrypt").cure(cure));
    }
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| Problem::new("has no PEM section PRIVATE KEY"))?;
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let pair = match &der {
        PrivateKeyDer::Pkcs8(der) => {
            EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der()).ok()
        }
        PrivateKeyDer::Sec1(der) => {
            EcdsaKeyPair::from_private_key_der(algorithm, der.secret_sec1_der()).ok()
        }
        _ => None,
    };
    let pair = pair.ok_or_else(not_p256)?;
    let public = pair.public_key().as_der().map_err(|_| not_p256())?;
    let public = EcdsaPublicKey::from_der(public.as_ref()).map_err(Problem::new)?;
    Ok(SigningKey::Ec(EcKey(pair), public))
}

fn not_p256() -> Problem {
    Problem::new("is not an EC key on the curve P-256")
}

impl EcKey {
    /// Returns a signature in DER.
    pub fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let signature = self.0.sign(&SystemRandom::new(), bytes);
        signature
            .map(|s| s.as_ref().to_vec())
            .map_err(|_| Error::new(Kind::Failed, "the EC key cannot sign"))
    }
}

fn parse_minisign(text: &Secret, password: Option<&Secret>) -> Result<SigningKey, Problem> {
    let line = text
        .expose()
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.starts_with("untrusted comment:"));
    let bytes = line
        .and_then(|l| STANDARD.decode(l).ok())
        .filter(|b| b.len() == MINISIGN_LENGTH && b.starts_with(b"Ed"));
    let (Some(line), Some(bytes)) = (line, bytes) else {
        return Err(Problem::new("is neither a PEM nor a minisign private key"));
    };
    // The library reads the second line of a file.
    let whole = SecretKeyBox::from(format!("untrusted comment: minisign secret key\n{line}\n"));
    let secret = match (&bytes[2..4], password) {
        // minisign 0.11 and earlier write unencrypted keys without a checksum; the trial signature
        // finds a damaged key instead.
        (b"\0\0", _) if bytes[MINISIGN_CHECKSUM..].iter().all(|b| *b == 0) => {
            SecretKey::from_bytes(&bytes).map_err(|_| Problem::new("is damaged"))?
        }
        (b"\0\0", _) => whole
            .into_unencrypted_secret_key()
            .map_err(|_| Problem::new("is damaged"))?,
        (_, None) => {
            return Err(Problem::new("is encrypted")
                .cure("set its password in the environment variable WINIMG_SIGN_PASSWORD"));
        }
        (_, Some(password)) => {
            let memory = bytes[MINISIGN_MEMORY].iter().rev();
            if memory.fold(0, |sum, b| sum << 8 | u64::from(*b)) > MAX_MEMORY {
                return Err(Problem::new("needs more than 1 GiB of memory to decrypt"));
            }
            whole
                .into_secret_key(Some(password.expose().to_owned()))
                .map_err(|_| {
                    Problem::new("cannot be decrypted with the password in WINIMG_SIGN_PASSWORD")
                })?
        }
    };
    let public = PublicKey::from_secret_key(&secret).map_err(|_| Problem::new("is damaged"))?;
    Ok(SigningKey::Minisign(MinisignKey { secret, public }))
}

impl MinisignKey {
    /// Returns a signature file. The library verifies it with `public` first.
    pub fn sign(&self, bytes: &[u8], trusted_comment: &str) -> Result<String> {
        minisign::sign(
            Some(&self.public),
            &self.secret,
            Cursor::new(bytes),
            Some(trusted_comment),
            Some("signature by winimg"),
        )
        .map(|signature| signature.to_string())
        .map_err(|e| Error::new(Kind::Failed, "the minisign key cannot sign").because(e))
    }
}
