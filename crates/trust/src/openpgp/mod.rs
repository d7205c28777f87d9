//! OpenPGP: detached and clearsigned (RFC 9580; RFC 4880).
//!
//! Pinned are full fingerprints of primary keys; which of its subkeys may sign, the key file says. A key has to be good at
//! the time that the signature claims and now as well: that time is the signer's own word, and a stolen key would use an
//! old one. A revoked key is refused whatever the reason and the date. Refused are digests below SHA-256, also where they
//! bind a key's parts, short RSA and DSA, and text signatures of files, which cover no line ends.

mod key;
mod packets;

use std::io::{BufReader, Read};
use std::time::SystemTime;

use pgp::composed::CleartextSignedMessage;
use pgp::packet::{Signature, SignatureType};
use pgp::types::{Fingerprint, Timestamp};
use rpgpie::certificate::Certificate;
use winimg_base::digest::Digest;

use self::key::Key;
use super::reading::{self, Reading};
use super::{Evidence, Judged, Pinned, Reason, Refusal, Scheme, Signer, Subject, checksum};

/// Lines of a clearsigned text; the reader goes over all that came before at each one.
const LINES: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Rule {
    keys: Vec<Key>,
}

impl Rule {
    /// `keys`: the bytes of a key file (armoured or binary, one certificate or more). `fingerprints`: full ones, in hex,
    /// with or without blanks; each must be in the file. The error fits after "the OpenPGP key".
    pub fn new(keys: &[u8], fingerprints: &[String]) -> Result<Self, String> {
        let certificates = packets::certificates(keys)?;
        if fingerprints.is_empty() {
            return Err("is pinned by no fingerprint".into());
        }
        let mut pinned: Vec<Key> = Vec::new();
        let mut wrong = Vec::new();
        for asked in fingerprints {
            match key::pinned(&certificates, asked) {
                Ok(key) if pinned.iter().any(|k| k.name() == key.name()) => {}
                Ok(key) => pinned.push(key),
                Err(fact) => wrong.push(fact),
            }
        }
        match wrong.is_empty() {
            true => Ok(Self { keys: pinned }),
            false => Err(wrong.join("; ")),
        }
    }

    pub(super) fn pinned(&self) -> Pinned {
        let mut contents: Vec<String> = self.keys.iter().map(Key::content).collect();
        contents.sort();
        Pinned {
            key: format!("key {}", self.pins()),
            digest: Digest::sha256_of(contents.concat().as_bytes()),
        }
    }

    fn pins(&self) -> String {
        let pins: Vec<String> = self.keys.iter().map(Key::name).collect();
        pins.join(", ")
    }
}

pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence, now: SystemTime) -> Judged {
    let signatures = packets::detached(reading::signature(evidence)?)?;
    let ours = ours(rule, &signatures, now, Form::Detached)?;
    let mut reading = Reading::open(subject)?;
    let data = BufReader::with_capacity(1 << 20, &mut reading);
    let judged = met(rule, &ours, signatures.len(), data);
    reading.finish(subject)?;
    judged
}

const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";

/// The signed text of a clearsigned file, with plain line ends, and who signed it.
pub fn signed_text(rule: &Rule, file: &[u8], now: SystemTime) -> Result<(String, Signer), Refusal> {
    let malformed = |fact: &str| Reason::Malformed.refusal(fact);
    let file = reading::bounded(file, checksum::LIMIT as usize)?;
    let text = std::str::from_utf8(file).map_err(|_| malformed("its file is not text"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with(BEGIN) {
        return Err(match text.contains(BEGIN) {
            true => malformed("text stands before what is signed"),
            false => Reason::Missing
                .refusal("there is none: the file is not clearsigned")
                .cure("leave form out, if its signature is a file of its own"),
        });
    }
    if text.lines().count() > LINES {
        return Err(malformed("its file has more than 10000 lines"));
    }
    if !text.contains(packets::END) {
        return Err(packets::cut_off());
    }
    only_hashes_above(text)?;
    let (message, _) = CleartextSignedMessage::from_string(text.trim_start()).map_err(|_| {
        malformed("it cannot be read as clearsigned text, or text stands around what is signed")
    })?;
    let signatures = message.signatures();
    let ours = ours(rule, signatures, now, Form::Clear)?;
    let signed = message.signed_text();
    let signer = met(rule, &ours, signatures.len(), signed.as_bytes())?;
    Ok((signed.replace("\r\n", "\n"), signer))
}

/// Refuses headers between the first line and the text other than `Hash`: no signature covers them, and a reader takes them for what was
/// signed. (RFC 9580, 7.1)
fn only_hashes_above(text: &str) -> Result<(), Refusal> {
    let lines = text.trim_start().lines().skip(1);
    let mut headers = lines.take_while(|line| !line.trim().is_empty());
    match headers.find(|line| !line.starts_with("Hash:")) {
        None => Ok(()),
        Some(header) => Err(Reason::Uncovered
            .refusal("a header stands above the text that no signature covers")
            .expected("`Hash: …` and an empty line")
            .found(reading::shown(header))),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Detached,
    Clear,
}

/// A signature that claims a pinned key, which may have made it.
struct Ours<'a> {
    signature: &'a Signature,
    key: &'a Key,
    /// The primary key or subkey that was found able. A signature may name several makers.
    part: Fingerprint,
}

/// The signatures by pinned keys. One that such a key may not have made condemns all.
fn ours<'a>(
    rule: &'a Rule,
    signatures: &'a [Signature],
    now: SystemTime,
    form: Form,
) -> Result<Vec<Ours<'a>>, Refusal> {
    let now = Timestamp::try_from(now)
        .map_err(|_| Reason::Expired.refusal("the clock is beyond what OpenPGP can say"))?;
    let mut ours = Vec::new();
    for signature in signatures {
        let Some(key) = rule.keys.iter().find(|k| k.claimed_by(signature)) else {
            continue;
        };
        packets::sound(signature)?;
        if form == Form::Detached && signature.typ() == Some(SignatureType::Text) {
            let fact = "it is over text, whose line ends it does not cover";
            return Err(Reason::Uncovered
                .refusal(fact)
                .cure("sign without --textmode"));
        }
        let part = key.may_have_made(signature, now)?;
        ours.push(Ours {
            signature,
            key,
            part,
        });
    }
    if ours.is_empty() {
        return Err(foreign(rule, signatures));
    }
    Ok(ours)
}

fn foreign(rule: &Rule, signatures: &[Signature]) -> Refusal {
    let refusal = Reason::OtherKey
        .refusal("no pinned key made it")
        .expected(format!("fingerprint {}", rule.pins()));
    let mut makers: Vec<String> = signatures.iter().flat_map(packets::makers).collect();
    makers.dedup();
    match makers.is_empty() {
        true => refusal.found("a signature that does not name its key"),
        false => refusal.found(makers.join(", ")),
    }
}

/// Whether the keys made these signatures over these bytes.
fn met(rule: &Rule, ours: &[Ours<'_>], all: usize, data: impl Read) -> Judged {
    let signatures: Vec<Signature> = ours.iter().map(|o| o.signature.clone()).collect();
    let certificates: Vec<Certificate> =
        rule.keys.iter().map(|k| k.certificate().clone()).collect();
    let verified = rpgpie::detached::verify(data, &signatures, &certificates)
        .map_err(|e| Reason::Malformed.refusal(format!("it cannot be judged: {e}")))?;
    for one in ours {
        let held = verified
            .iter()
            .any(|v| *v.sig == *one.signature && v.component == one.part);
        if !held {
            return Err(
                reading::other_bytes().expected(format!("a signature by {}", one.key.name()))
            );
        }
    }
    let Some(first) = ours.first() else {
        return Err(Reason::Missing.refusal("there is none"));
    };
    let mut remarks = Vec::new();
    if first.part != first.key.fingerprint() {
        remarks.push(format!(
            "made by the subkey {}",
            packets::hex_of(&first.part)
        ));
    }
    if let Some(time) = first.signature.created() {
        remarks.push(format!(
            "dated {} by its signer",
            packets::shown(time.as_secs().into())
        ));
    }
    if all > ours.len() {
        remarks.push(format!(
            "{} more by keys that are not pinned",
            all - ours.len()
        ));
    }
    Ok(Signer {
        scheme: Scheme::Openpgp,
        signer: first.key.name(),
        pinned_by: format!("fingerprint {}", first.key.name()),
        signed_at: None,
        remarks,
    })
}
