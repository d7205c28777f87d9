//! Keys that winimg itself holds while it builds.
//!
//! Encrypted minisign keys are opened with the password; other encrypted keys are refused with what opens them.

use std::io::Cursor;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign::{PublicKey, SecretKey, SecretKeyBox};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use super::super::key::Ecdsa;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::problem::Problem;
use winimg_base::text::Secret;

/// A minisign secret key: algorithm, KDF, checksum, salt, limits, key number, key, checksum (minisign: key format).
const MINISIGN_LENGTH: usize = 158;
/// scrypt's memory limit in it; a key that asks for more than minisign's own 1 GiB is not opened.
const MINISIGN_MEMORY: std::ops::Range<usize> = 46..54;
const MINISIGN_CHECKSUM: usize = 126;
const MOST_MEMORY: u64 = 1 << 30;

pub enum Key {
    Ec(EcKey, Ecdsa),
    Minisign(Minisign),
}

/// An EC P-256 private key.
pub struct EcKey(EcdsaKeyPair);

/// A minisign secret key, open. Not `Debug`: the library's own would show it.
pub struct Minisign {
    secret: SecretKey,
    public: PublicKey,
}

/// Reads a private key's text. A problem's fact fits after "the key ".
pub fn read(text: &Secret, password: Option<&Secret>) -> Result<Key, Problem> {
    if is_public(text.expose()) {
        return Err(Problem::new("is a public key: give the private one"));
    }
    match text.expose().contains("-----BEGIN") {
        true => ec(text),
        false => minisign(text, password),
    }
}

/// 42 bytes of minisign's, or a PEM section PUBLIC KEY and no other.
fn is_public(text: &str) -> bool {
    let minisign = |line: &str| line.len() == 56 && line.starts_with("RW");
    let pem = text.contains("BEGIN PUBLIC KEY") && !text.contains("PRIVATE KEY");
    pem || text.lines().map(str::trim).any(minisign)
}

fn ec(text: &Secret) -> Result<Key, Problem> {
    let pem = text.expose();
    if pem.contains("BEGIN ENCRYPTED ") {
        let sigstore = pem.contains("SIGSTORE PRIVATE KEY") || pem.contains("COSIGN PRIVATE KEY");
        let cure = match sigstore {
            true => "sign with cosign itself: --sign-command (docs/provenance.md)",
            false => {
                "write it without encryption: openssl pkcs8 -in KEY -out PLAIN; or sign with --sign-command"
            }
        };
        return Err(Problem::new("is encrypted in a way that winimg does not open").cure(cure));
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
    let wrong = || Problem::new("is not an EC key on the curve P-256");
    let pair = pair.ok_or_else(wrong)?;
    let public = pair.public_key().as_der().map_err(|_| wrong())?;
    let public = Ecdsa::from_der(public.as_ref()).map_err(Problem::new)?;
    Ok(Key::Ec(EcKey(pair), public))
}

impl EcKey {
    /// DER.
    pub fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let signature = self.0.sign(&SystemRandom::new(), bytes);
        signature
            .map(|s| s.as_ref().to_vec())
            .map_err(|_| Error::new(Kind::Failed, "the EC key does not sign"))
    }
}

fn minisign(text: &Secret, password: Option<&Secret>) -> Result<Key, Problem> {
    let mut lines = text.expose().lines().map(str::trim);
    let line = lines.find(|l| !l.is_empty() && !l.starts_with("untrusted comment:"));
    let bytes = line.and_then(|l| STANDARD.decode(l).ok());
    let bytes = bytes.filter(|b| b.len() == MINISIGN_LENGTH && b.starts_with(b"Ed"));
    let (Some(line), Some(bytes)) = (line, bytes) else {
        return Err(Problem::new("is neither a PEM nor a minisign private key"));
    };
    // The library takes the second line of a file.
    let whole = SecretKeyBox::from(format!("untrusted comment: minisign secret key\n{line}\n"));
    let secret = match (&bytes[2..4], password) {
        // minisign 0.11 and earlier write an open key without its checksum; the trial finds what it would have found.
        (b"\0\0", _) if bytes[MINISIGN_CHECKSUM..].iter().all(|b| *b == 0) => {
            SecretKey::from_bytes(&bytes).map_err(|_| Problem::new("is damaged"))?
        }
        (b"\0\0", _) => whole
            .into_unencrypted_secret_key()
            .map_err(|_| Problem::new("is damaged"))?,
        (_, None) => {
            return Err(Problem::new("is encrypted")
                .cure("give its password in the environment: WINIMG_SIGN_PASSWORD"));
        }
        (_, Some(password)) => {
            let memory = bytes[MINISIGN_MEMORY].iter().rev();
            if memory.fold(0, |sum, b| sum << 8 | u64::from(*b)) > MOST_MEMORY {
                return Err(Problem::new(
                    "asks for more than 1 GiB of memory to be opened",
                ));
            }
            whole
                .into_secret_key(Some(password.expose().to_owned()))
                .map_err(|_| {
                    Problem::new("does not open with the password in WINIMG_SIGN_PASSWORD")
                })?
        }
    };
    let public = PublicKey::from_secret_key(&secret).map_err(|_| Problem::new("is damaged"))?;
    Ok(Key::Minisign(Minisign { secret, public }))
}

impl Minisign {
    /// A signature file. The library verifies it with `public` before it gives it.
    pub fn sign(&self, bytes: &[u8], trusted_comment: &str) -> Result<String> {
        minisign::sign(
            Some(&self.public),
            &self.secret,
            Cursor::new(bytes),
            Some(trusted_comment),
            Some("signature by winimg"),
        )
        .map(|signature| signature.to_string())
        .map_err(|e| Error::new(Kind::Failed, "the minisign key does not sign").because(e))
    }
}
