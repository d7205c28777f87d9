//! signify: Ed25519 over the raw file (OpenBSD: signify(1)).
//!
//! Ed25519 needs the whole message at once, so a file is read into memory, and one that is longer than 256 MiB is refused.
//! Refuses signatures that carry their message (`signify -e`): only a detached one speaks of the file that is there.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::reading::{self, Reading};
use super::{Evidence, Judged, Reason, Refusal, Scheme, Signer, Subject};

const UNTRUSTED: &str = "untrusted comment:";

/// Bytes of a file that are held in memory.
pub const LIMIT: u64 = 256 << 20;

#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    number: [u8; 8],
    point: [u8; 32],
}

impl Rule {
    /// `key`: the public key's text, the base64 line or a file with it. The error fits after "the key".
    pub fn new(key: &str) -> Result<Self, String> {
        const NONE: &str =
            "is not a signify public key, which is a line of 56 characters that begins with RW";
        let mut lines = key
            .trim_start_matches('\u{feff}')
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with(UNTRUSTED));
        let (Some(text), None) = (lines.next(), lines.next()) else {
            return Err(NONE.into());
        };
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| NONE)?;
        // Algorithm, KDF, its rounds, salt, checksum, number, key.
        if bytes.len() == 104 && bytes.starts_with(b"Ed") {
            return Err("is a signify secret key; a recipe needs the public one, KEY.pub".into());
        }
        let Ok([b'E', b'd', body @ ..]) = <[u8; 42]>::try_from(bytes) else {
            return Err(NONE.into());
        };
        let (mut number, mut point) = ([0; 8], [0; 32]);
        number.copy_from_slice(&body[..8]);
        point.copy_from_slice(&body[8..]);
        Ok(Self {
            text: text.to_string(),
            number,
            point,
        })
    }
}

struct Parts {
    number: [u8; 8],
    signature: [u8; 64],
}

fn read(text: &str) -> Result<Parts, Refusal> {
    let malformed = |fact: &str| Refusal::new(Reason::Malformed, fact);
    let lines: Vec<&str> = text.lines().collect();
    let [comment, signature, rest @ ..] = lines.as_slice() else {
        return Err(malformed("it is not a signify signature, or it is cut off"));
    };
    if !comment.starts_with(UNTRUSTED) {
        return Err(malformed("it is not a signify signature, or it is cut off"));
    }
    if rest
        .first()
        .is_some_and(|l| l.starts_with("trusted comment:"))
    {
        return Err(malformed("it is a minisign signature").cure("kind = \"minisign\""));
    }
    if !rest.is_empty() {
        let fact = "it carries its message (signify -e), so it does not speak of the file";
        return Err(Refusal::new(Reason::Unsupported, fact).cure("sign without -e"));
    }
    let bytes = BASE64_STANDARD
        .decode(signature.trim_end())
        .map_err(|_| malformed("it is damaged or cut off in line 2"))?;
    let Ok([a, b, body @ ..]) = <[u8; 74]>::try_from(bytes) else {
        return Err(malformed("it is damaged or cut off in line 2"));
    };
    if [a, b] != *b"Ed" {
        let fact = "it is not an Ed25519 signature, and signify has no other";
        return Err(Refusal::new(Reason::Unsupported, fact));
    }
    let (mut number, mut signature) = ([0; 8], [0; 64]);
    number.copy_from_slice(&body[..8]);
    signature.copy_from_slice(&body[8..]);
    Ok(Parts { number, signature })
}

pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence) -> Judged {
    let parts = read(reading::signature_text(evidence)?)?;
    if parts.number != rule.number {
        return Err(
            Refusal::new(Reason::OtherKey, "it was made with another signify key")
                .expected(format!("key number {}", hex::encode(rule.number)))
                .found(format!("key number {}", hex::encode(parts.number))),
        );
    }
    let file = Reading::whole(subject, LIMIT, "signify")?;
    UnparsedPublicKey::new(&ED25519, rule.point)
        .verify(&file, &parts.signature)
        .map_err(|_| {
            Refusal::new(
                Reason::Changed,
                "it is of other bytes than this file has: the file was changed, cut off, or is another one",
            )
        })?;
    Ok(Signer {
        scheme: Scheme::Signify,
        signer: format!("key number {}", hex::encode(rule.number)),
        pinned_by: format!("key {}", rule.text),
        signed_at: None,
        remarks: Vec::new(),
    })
}
