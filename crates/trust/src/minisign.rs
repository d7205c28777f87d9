//! minisign: Ed25519 over a file's BLAKE2b digest (minisign: "Signature format").
//!
//! The file is streamed. Refuses legacy signatures, which cover the file itself, and trusted
//! comments that name a different file. Reports the trusted comment, which is signed; the untrusted
//! one is never shown.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use minisign_verify::{PublicKey, Signature};

use super::reading::{self, SubjectReader, malformed};
use super::short_format;
use super::{
    FileSubject, KeyFileContent, RefusalReason, Scheme, SignatureEvidence, SignatureRefusal,
    SignatureResult, Signer,
};
use winimg_base::digest::Digest;

#[derive(Clone, Debug)]
pub struct MinisignRule {
    key: PublicKey,
    parts: short_format::ShortKey,
}

impl MinisignRule {
    /// Parses the text of a public key: the 56 characters or a file with them. The error fits after
    /// "the key".
    pub fn new(key: &str) -> Result<Self, String> {
        let parts = short_format::parse_key(key, "minisign", "minisign.pub")?;
        let key =
            PublicKey::from_base64(&parts.text).map_err(|_| short_format::no_key("minisign"))?;
        Ok(Self { key, parts })
    }

    pub(super) fn key_content(&self) -> KeyFileContent {
        KeyFileContent {
            key: format!("key {}", key_id(self.parts.number)),
            digest: Digest::sha256_of(self.parts.text.as_bytes()),
        }
    }

    /// Returns the key in the library's type.
    pub fn into_key(self) -> PublicKey {
        self.key
    }
}

/// Renders a key's number like minisign, as a little-endian value.
fn key_id(id: [u8; 8]) -> String {
    format!("{:016X}", u64::from_le_bytes(id))
}

/// The parsed four lines, including fields that minisign-verify does not expose.
struct MinisignSignature {
    signature: Signature,
    algorithm: [u8; 2],
    id: [u8; 8],
    /// Input of the global signature: the signature's bytes and the trusted comment.
    sealed: Vec<u8>,
    seal: Vec<u8>,
}

fn read(text: &str) -> Result<MinisignSignature, SignatureRefusal> {
    let lines = short_format::ShortSignatureFile::parse(text)
        .ok_or_else(|| malformed("it is not a minisign signature"))?;
    let line = lines
        .parse_signature()
        .ok_or_else(|| malformed("it is damaged or cut off in line 2"))?;
    let blank_at_end = lines
        .rest
        .iter()
        .rev()
        .take_while(|line| line.trim().is_empty());
    let written = lines.rest.len() - blank_at_end.count();
    let (trusted, seal) = match &lines.rest[..written] {
        [trusted, seal] => (*trusted, *seal),
        [] if line.algorithm == *b"Ed" => {
            return Err(malformed("it is a signify signature").cure("use kind = \"signify\""));
        }
        rest @ ([] | [_]) => {
            return Err(malformed(format!(
                "it is cut off: it has {} of 4 lines",
                2 + rest.len()
            )));
        }
        _ => return Err(malformed("it has more than 4 lines")),
    };
    let seal = BASE64_STANDARD
        .decode(seal.trim_end())
        .ok()
        .filter(|bytes| bytes.len() == 64)
        .ok_or_else(|| malformed("it is damaged or cut off in line 4"))?;
    let decoded = Signature::decode(text).map_err(|_| malformed("it is damaged in line 2 or 3"))?;
    let comment = trusted
        .strip_prefix("trusted comment: ")
        .unwrap_or_default();
    Ok(MinisignSignature {
        signature: decoded,
        algorithm: line.algorithm,
        id: line.number,
        sealed: [&line.bytes[..], comment.as_bytes()].concat(),
        seal,
    })
}

/// Checks the file name in a trusted comment such as
/// `timestamp:1700000000\tfile:kubelet.exe\thashed`. Free text names no file.
fn check_file_name(comment: &str, subject: FileSubject<'_>) -> Result<(), SignatureRefusal> {
    let mut parts = comment.split('\t');
    let name = parts
        .find_map(|part| part.strip_prefix("file:"))
        .map(str::trim)
        // Free text has no tabs, but blanks.
        .filter(|name| comment.contains('\t') || !name.contains(' '));
    match name {
        Some(name) if !subject.is_called(name) => Err(RefusalReason::OtherName
            .refusal("its trusted comment, which is signed, names a different file")
            .expected(reading::sanitize(name))
            .found(reading::sanitize(subject.name))
            .cure(
                "keep the publisher's name of the file (`file = \"…\"`), or check what `url` leads \
                 to",
            )),
        _ => Ok(()),
    }
}

pub fn judge(
    rule: &MinisignRule,
    subject: FileSubject<'_>,
    evidence: &SignatureEvidence,
) -> SignatureResult {
    let parts = read(reading::signature_text(evidence)?)?;
    if parts.id != rule.parts.number {
        return Err(RefusalReason::OtherKey
            .refusal("it was made with a different minisign key")
            .expected(format!("key {}", key_id(rule.parts.number)))
            .found(format!("key {}", key_id(parts.id))));
    }
    if parts.algorithm != *b"ED" {
        let fact =
            "it is a legacy signature, which covers the file itself instead of its BLAKE2b digest";
        return Err(RefusalReason::Unsupported
            .refusal(fact)
            .cure("sign the file again with minisign 0.10 or newer, or with -H"));
    }
    UnparsedPublicKey::new(&ED25519, rule.parts.point)
        .verify(&parts.sealed, &parts.seal)
        .map_err(|_| {
            RefusalReason::Changed
                .refusal("the pinned key did not sign its trusted comment: it was changed")
        })?;
    let mut verifier = rule
        .key
        .verify_stream(&parts.signature)
        .map_err(|e| malformed(format!("it cannot be read: {e}")))?;
    SubjectReader::visit(subject, |piece| verifier.update(piece))?;
    verifier.finalize().map_err(|_| reading::other_bytes())?;
    check_file_name(parts.signature.trusted_comment(), subject)?;
    let comment = reading::sanitize(parts.signature.trusted_comment().trim());
    Ok(Signer {
        scheme: Scheme::Minisign,
        signer: format!("key {}", key_id(rule.parts.number)),
        pinned_by: format!("key {}", rule.parts.text),
        signed_at: None,
        remarks: (!comment.is_empty())
            .then(|| format!("trusted comment: {comment}"))
            .into_iter()
            .collect(),
    })
}
