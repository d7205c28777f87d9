//! minisign: Ed25519 over a file's BLAKE2b digest (minisign: "Signature format").
//!
//! The file is streamed. Refuses legacy signatures, which are over the file itself, and reports the trusted comment,
//! which is signed; the untrusted one is never shown. Refuses a trusted comment that names another file.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use minisign_verify::{PublicKey, Signature};

use super::reading::{self, Reading};
use super::short;
use super::{Evidence, Judged, Pinned, Reason, Refusal, Scheme, Signer, Subject};
use winimg_base::digest::Digest;

#[derive(Clone, Debug)]
pub struct Rule {
    key: PublicKey,
    parts: short::Key,
}

impl Rule {
    /// `key`: the public key's text, the 56 characters or a file with them. The error fits after "the key".
    pub fn new(key: &str) -> Result<Self, String> {
        let parts = short::key(key, "minisign", "minisign.pub")?;
        let key = PublicKey::from_base64(&parts.text).map_err(|_| short::no_key("minisign"))?;
        Ok(Self { key, parts })
    }

    pub(super) fn pinned(&self) -> Pinned {
        Pinned {
            key: format!("key {}", key_id(self.parts.number)),
            digest: Digest::sha256_of(self.parts.text.as_bytes()),
        }
    }

    /// As the library takes it.
    pub fn into_key(self) -> PublicKey {
        self.key
    }
}

/// As minisign shows it: the number's little-endian value.
fn key_id(id: [u8; 8]) -> String {
    format!("{:016X}", u64::from_le_bytes(id))
}

/// The four lines, and what minisign-verify does not give out of them.
struct Parts {
    signature: Signature,
    algorithm: [u8; 2],
    id: [u8; 8],
    /// Over the signature's bytes and the trusted comment.
    sealed: Vec<u8>,
    seal: Vec<u8>,
}

fn read(text: &str) -> Result<Parts, Refusal> {
    let malformed = |fact: String| Reason::Malformed.refusal(fact);
    let lines =
        short::Lines::of(text).ok_or_else(|| malformed("it is not a minisign signature".into()))?;
    let line = lines
        .signature()
        .ok_or_else(|| malformed("it is damaged or cut off in line 2".into()))?;
    let blank_at_end = lines.rest.iter().rev();
    let blank_at_end = blank_at_end.take_while(|line| line.trim().is_empty());
    let written = lines.rest.len() - blank_at_end.count();
    let (trusted, seal) = match &lines.rest[..written] {
        [trusted, seal] => (*trusted, *seal),
        [] if line.algorithm == *b"Ed" => {
            return Err(malformed("it is a signify signature".into()).cure("kind = \"signify\""));
        }
        rest @ ([] | [_]) => {
            return Err(malformed(format!(
                "it is cut off: it has {} of 4 lines",
                2 + rest.len()
            )));
        }
        _ => return Err(malformed("it has more than 4 lines".into())),
    };
    let seal = BASE64_STANDARD
        .decode(seal.trim_end())
        .ok()
        .filter(|bytes| bytes.len() == 64)
        .ok_or_else(|| malformed("it is damaged or cut off in line 4".into()))?;
    let decoded =
        Signature::decode(text).map_err(|_| malformed("it is damaged in line 2 or 3".into()))?;
    let comment = trusted
        .strip_prefix("trusted comment: ")
        .unwrap_or_default();
    Ok(Parts {
        signature: decoded,
        algorithm: line.algorithm,
        id: line.number,
        sealed: [&line.bytes[..], comment.as_bytes()].concat(),
        seal,
    })
}

/// `timestamp:1700000000\tfile:kubelet.exe\thashed` speaks of that file. A comment of the signer's own words names none.
fn called(comment: &str, subject: Subject<'_>) -> Result<(), Refusal> {
    let mut parts = comment.split('\t');
    let name = parts.find_map(|part| part.strip_prefix("file:"));
    // Words of the signer's own have no tabs, and their blanks say that they are words.
    let is_field = |name: &&str| comment.contains('\t') || !name.trim().contains(' ');
    match name.map(str::trim).filter(is_field) {
        Some(name) if !subject.is_called(name) => Err(Reason::OtherName
            .refusal("its trusted comment, which is signed, names another file")
            .expected(reading::shown(name))
            .found(reading::shown(subject.name))
            .cure("keep the file under the name that its publisher gave it (`file = \"…\"`), or see what `url` leads to")),
        _ => Ok(()),
    }
}

pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence) -> Judged {
    let parts = read(reading::signature_text(evidence)?)?;
    if parts.id != rule.parts.number {
        return Err(Reason::OtherKey
            .refusal("it was made with another minisign key")
            .expected(format!("key {}", key_id(rule.parts.number)))
            .found(format!("key {}", key_id(parts.id))));
    }
    if parts.algorithm != *b"ED" {
        let fact =
            "it is of minisign's legacy kind, over the file itself and not over its BLAKE2b digest";
        return Err(Reason::Unsupported
            .refusal(fact)
            .cure("sign the file again with minisign 0.10 or newer, or with -H"));
    }
    UnparsedPublicKey::new(&ED25519, rule.parts.point)
        .verify(&parts.sealed, &parts.seal)
        .map_err(|_| {
            Reason::Changed
                .refusal("the pinned key did not sign its trusted comment: it was changed")
        })?;
    let mut verifier = rule
        .key
        .verify_stream(&parts.signature)
        .map_err(|e| Reason::Malformed.refusal(format!("it cannot be read: {e}")))?;
    Reading::each(subject, |piece| verifier.update(piece))?;
    verifier.finalize().map_err(|_| reading::other_bytes())?;
    called(parts.signature.trusted_comment(), subject)?;
    let comment = reading::shown(parts.signature.trusted_comment().trim());
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
