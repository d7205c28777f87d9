//! signify: Ed25519 over the raw file (OpenBSD: signify(1)).
//!
//! Ed25519 needs the whole message at once, so a file is read into memory, and one that is longer than 256 MiB is refused.
//! Refuses signatures that carry their message (`signify -e`): only a detached one speaks of the file that is there.

use super::reading::{self, Reading};
use super::short;
use super::{Evidence, Judged, Pinned, Reason, Refusal, Scheme, Signer, Subject};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use winimg_base::digest::Digest;

/// Ed25519, the only one that signify has.
const ALGORITHM: [u8; 2] = *b"Ed";

/// Bytes of a file that are held in memory.
pub const LIMIT: u64 = 256 << 20;

#[derive(Clone, Debug)]
pub struct Rule {
    key: short::Key,
}

impl Rule {
    /// `key`: the public key's text, the base64 line or a file with it. The error fits after "the key".
    pub fn new(key: &str) -> Result<Self, String> {
        let key = short::key(key, "signify", "KEY.pub")?;
        match key.algorithm == ALGORITHM {
            true => Ok(Self { key }),
            false => Err(short::no_key("signify")),
        }
    }

    pub(super) fn pinned(&self) -> Pinned {
        Pinned {
            key: format!("key number {}", hex::encode(self.key.number)),
            digest: Digest::sha256_of(self.key.text.as_bytes()),
        }
    }
}

fn read(text: &str) -> Result<short::Signature, Refusal> {
    let malformed = |fact: &str| Reason::Malformed.refusal(fact);
    let lines = short::Lines::of(text)
        .ok_or_else(|| malformed("it is not a signify signature, or it is cut off"))?;
    if let Some(first) = lines.rest.first() {
        if first.starts_with("trusted comment:") {
            return Err(malformed("it is a minisign signature").cure("kind = \"minisign\""));
        }
        let fact = "it carries its message (signify -e), so it does not speak of the file";
        return Err(Reason::Unsupported.refusal(fact).cure("sign without -e"));
    }
    let signature = lines
        .signature()
        .ok_or_else(|| malformed("it is damaged or cut off in line 2"))?;
    if signature.algorithm != ALGORITHM {
        let fact = "it is not an Ed25519 signature, and signify has no other";
        return Err(Reason::Unsupported.refusal(fact));
    }
    Ok(signature)
}

pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence) -> Judged {
    let signature = read(reading::signature_text(evidence)?)?;
    if signature.number != rule.key.number {
        return Err(Reason::OtherKey
            .refusal("it was made with another signify key")
            .expected(format!("key number {}", hex::encode(rule.key.number)))
            .found(format!("key number {}", hex::encode(signature.number))));
    }
    let file = Reading::whole(subject, LIMIT, "signify")?;
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
