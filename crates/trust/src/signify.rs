//! signify: Ed25519 over the raw file (OpenBSD: signify(1)).
//!
//! Ed25519 needs the whole message at once, so the file is read into memory, and files over 256 MiB
//! are refused. Refuses signatures with an embedded message (`signify -e`), because only a detached
//! signature is about the file.

use super::reading::{self, SubjectReader, malformed};
use super::short_format;
use super::{
    FileSubject, KeyFileContent, RefusalReason, Scheme, SignatureEvidence, SignatureRefusal,
    SignatureResult, Signer,
};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use winimg_base::digest::Digest;

/// Ed25519, the only algorithm of signify.
const ALGORITHM: [u8; 2] = *b"Ed";

/// Maximum size of a file, which is read into memory.
pub const LIMIT: u64 = 256 << 20;

#[derive(Clone, Debug)]
pub struct SignifyRule {
    key: short_format::ShortKey,
}

impl SignifyRule {
    /// Parses the text of a public key: the base64 line or a file with it. The error fits after
    /// "the key".
    pub fn new(key: &str) -> Result<Self, String> {
        let key = short_format::parse_key(key, "signify", "KEY.pub")?;
        if key.algorithm == ALGORITHM {
            Ok(Self { key })
        } else {
            Err(short_format::no_key("signify"))
        }
    }

    pub(super) fn key_content(&self) -> KeyFileContent {
        KeyFileContent {
            key: format!("key number {}", hex::encode(self.key.number)),
            digest: Digest::sha256_of(self.key.text.as_bytes()),
        }
    }
}

fn read(text: &str) -> Result<short_format::ShortSignature, SignatureRefusal> {
    let lines = short_format::ShortSignatureFile::parse(text)
        .ok_or_else(|| malformed("it is not a signify signature, or it is cut off"))?;
    if let Some(first) = lines.rest.first() {
        if first.starts_with("trusted comment:") {
            return Err(malformed("it is a minisign signature").cure("use kind = \"minisign\""));
        }
        let fact = "it has an embedded message (signify -e) instead of being detached";
        return Err(RefusalReason::Unsupported
            .refusal(fact)
            .cure("sign without -e"));
    }
    let signature = lines
        .parse_signature()
        .ok_or_else(|| malformed("it is damaged or cut off in line 2"))?;
    if signature.algorithm != ALGORITHM {
        let fact = "it is not an Ed25519 signature";
        return Err(RefusalReason::Unsupported.refusal(fact));
    }
    Ok(signature)
}

pub fn judge(
    rule: &SignifyRule,
    subject: FileSubject<'_>,
    evidence: &SignatureEvidence,
) -> SignatureResult {
    let signature = read(reading::signature_text(evidence)?)?;
    if signature.number != rule.key.number {
        return Err(RefusalReason::OtherKey
            .refusal("it was made with a different signify key")
            .expected(format!("key number {}", hex::encode(rule.key.number)))
            .found(format!("key number {}", hex::encode(signature.number))));
    }
    let file = SubjectReader::read_whole(subject, LIMIT, "signify")?;
    UnparsedPublicKey::new(&ED25519, rule.key.point)
        .verify(&file, &signature.bytes)
        .map_err(|_| reading::other_bytes())?;
    Ok(Signer {
        scheme: Scheme::Signify,
        signer: format!("key number {}", hex::encode(rule.key.number)),
        pinned_by: format!("key {}", rule.key.text),
        signed_at: None,
        remarks: Vec::new(),
    })
}
