//! OpenPGP: detached and clearsigned (RFC 9580; RFC 4880).
//!
//! A rule pins full fingerprints of primary keys; the key file determines which subkeys may sign. A
//! key must be valid at the time that the signature claims and also now, because the signer chooses
//! that time and a stolen key would use an old one. A revoked key is refused regardless of reason
//! and date. Also refuses digests weaker than SHA-256, even in self-signatures, short RSA keys and
//! DSA, and text signatures of files, which do not cover line ends.

mod key;
mod packets;

use std::io::{BufReader, Read};
use std::time::SystemTime;

use pgp::composed::CleartextSignedMessage;
use pgp::packet::{Signature, SignatureType};
use pgp::types::{Fingerprint, Timestamp};
use rpgpie::certificate::Certificate;
use winimg_base::digest::Digest;

use self::key::OpenPgpKey;
use super::reading::{self, SubjectReader, malformed};
use super::{
    FileSubject, KeyFileContent, RefusalReason, Scheme, SignatureEvidence, SignatureRefusal,
    SignatureResult, Signer, checksum,
};

/// Maximum number of lines of a clearsigned text, because the parser takes quadratic time.
const MAX_LINES: usize = 10_000;

#[derive(Clone, Debug)]
pub struct OpenPgpRule {
    keys: Vec<OpenPgpKey>,
}

impl OpenPgpRule {
    /// Creates a rule from the bytes of a key file (armored or binary, one certificate or more) and
    /// full fingerprints in hex, with or without blanks, which must all be in the file. The error
    /// is worded to follow "the OpenPGP key".
    pub fn new(keys: &[u8], fingerprints: &[String]) -> Result<Self, String> {
        let certificates = packets::parse_certificates(keys)?;
        if fingerprints.is_empty() {
            return Err("is pinned by no fingerprint".into());
        }
        let mut pinned: Vec<OpenPgpKey> = Vec::new();
        let mut problems = Vec::new();
        for fingerprint in fingerprints {
            match key::find_pinned(&certificates, fingerprint) {
                Ok(key) if pinned.iter().any(|k| k.name() == key.name()) => {}
                Ok(key) => pinned.push(key),
                Err(fact) => problems.push(fact),
            }
        }
        if problems.is_empty() {
            Ok(Self { keys: pinned })
        } else {
            Err(problems.join("; "))
        }
    }

    pub(super) fn key_content(&self) -> KeyFileContent {
        let mut contents: Vec<String> = self.keys.iter().map(OpenPgpKey::content_digest).collect();
        contents.sort();
        KeyFileContent {
            key: format!("key {}", self.describe_pins()),
            digest: Digest::sha256_of(contents.concat().as_bytes()),
        }
    }

    fn describe_pins(&self) -> String {
        let pins: Vec<String> = self.keys.iter().map(OpenPgpKey::name).collect();
        pins.join(", ")
    }
}

pub fn judge(
    rule: &OpenPgpRule,
    subject: FileSubject<'_>,
    evidence: &SignatureEvidence,
    now: SystemTime,
) -> SignatureResult {
    let signatures = packets::parse_signatures(reading::read_signature(evidence)?)?;
    let ours = find_pinned_signatures(rule, &signatures, now, OpenPgpForm::Detached)?;
    let mut reader = SubjectReader::open(subject)?;
    let data = BufReader::with_capacity(1 << 20, &mut reader);
    let judged = verify_signatures(rule, &ours, signatures.len(), data);
    reader.finish(subject)?;
    judged
}

const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";

/// Verifies a clearsigned file. Returns its signed text, with Unix line ends, and its signer.
pub fn signed_text(
    rule: &OpenPgpRule,
    file: &[u8],
    now: SystemTime,
) -> Result<(String, Signer), SignatureRefusal> {
    let file = reading::check_bounds(file, checksum::LIMIT as usize)?;
    let text = std::str::from_utf8(file).map_err(|_| malformed("its file is not text"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with(BEGIN) {
        return Err(if text.contains(BEGIN) {
            malformed("there is unsigned text before the signed text")
        } else {
            RefusalReason::Missing
                .refusal("there is none: the file is not clearsigned")
                .cure("if its signature is a separate file, remove `form`")
        });
    }
    if text.lines().count() > MAX_LINES {
        return Err(malformed("its file has more than 10000 lines"));
    }
    if !text.contains(packets::END) {
        return Err(packets::refuse_truncated());
    }
    check_headers(text)?;
    let (message, _) = CleartextSignedMessage::from_string(text.trim_start()).map_err(|_| {
        malformed("it is not valid clearsigned text, or there is unsigned text around it")
    })?;
    let signatures = message.signatures();
    let ours = find_pinned_signatures(rule, signatures, now, OpenPgpForm::Clear)?;
    let signed = message.signed_text();
    let signer = verify_signatures(rule, &ours, signatures.len(), signed.as_bytes())?;
    Ok((signed.replace("\r\n", "\n"), signer))
}

/// Refuses headers other than `Hash` above the text, because they are not signed but look as if
/// they were. (RFC 9580, 7.1)
fn check_headers(text: &str) -> Result<(), SignatureRefusal> {
    let lines = text.trim_start().lines().skip(1);
    let mut headers = lines.take_while(|line| !line.trim().is_empty());
    match headers.find(|line| !line.starts_with("Hash:")) {
        None => Ok(()),
        Some(header) => Err(RefusalReason::Uncovered
            .refusal("there is an unsigned header above the text")
            .expected("`Hash: …` and an empty line")
            .found(reading::sanitize(header))),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum OpenPgpForm {
    Detached,
    Clear,
}

/// A signature that names a pinned key, which was allowed to make it.
struct PinnedSignature<'a> {
    signature: &'a Signature,
    key: &'a OpenPgpKey,
    /// The primary key or subkey that was allowed to sign. A signature may name several issuers.
    part: Fingerprint,
}

/// Returns the signatures by pinned keys. Fails if such a key was not allowed to make one of them.
fn find_pinned_signatures<'a>(
    rule: &'a OpenPgpRule,
    signatures: &'a [Signature],
    now: SystemTime,
    form: OpenPgpForm,
) -> Result<Vec<PinnedSignature<'a>>, SignatureRefusal> {
    let now = Timestamp::try_from(now)
        .map_err(|_| RefusalReason::Expired.refusal("the clock is beyond the range of OpenPGP"))?;
    let mut ours = Vec::new();
    for signature in signatures {
        let Some(key) = rule.keys.iter().find(|k| k.is_named_by(signature)) else {
            continue;
        };
        packets::check_signature(signature)?;
        if form == OpenPgpForm::Detached && signature.typ() == Some(SignatureType::Text) {
            let fact = "it is a text signature, which does not cover line ends";
            return Err(RefusalReason::Uncovered
                .refusal(fact)
                .cure("sign without --textmode"));
        }
        let part = key.check_allowed(signature, now)?;
        ours.push(PinnedSignature {
            signature,
            key,
            part,
        });
    }
    if ours.is_empty() {
        return Err(refuse_foreign(rule, signatures));
    }
    Ok(ours)
}

fn refuse_foreign(rule: &OpenPgpRule, signatures: &[Signature]) -> SignatureRefusal {
    let refusal = RefusalReason::OtherKey
        .refusal("no pinned key made it")
        .expected(format!("fingerprint {}", rule.describe_pins()));
    let mut issuers: Vec<String> = signatures.iter().flat_map(packets::list_issuers).collect();
    issuers.dedup();
    if issuers.is_empty() {
        refusal.found("a signature that does not name its key")
    } else {
        refusal.found(issuers.join(", "))
    }
}

/// Checks that the keys made these signatures over this data.
fn verify_signatures(
    rule: &OpenPgpRule,
    ours: &[PinnedSignature<'_>],
    all: usize,
    data: impl Read,
) -> SignatureResult {
    let signatures: Vec<Signature> = ours.iter().map(|pinned| pinned.signature.clone()).collect();
    let certificates: Vec<Certificate> =
        rule.keys.iter().map(|k| k.certificate().clone()).collect();
    let verified = rpgpie::detached::verify(data, &signatures, &certificates)
        .map_err(|e| malformed(format!("it cannot be verified: {e}")))?;
    for pinned in ours {
        let is_verified = verified
            .iter()
            .any(|v| *v.sig == *pinned.signature && v.component == pinned.part);
        if !is_verified {
            return Err(
                reading::other_bytes().expected(format!("a signature by {}", pinned.key.name()))
            );
        }
    }
    let Some(first) = ours.first() else {
        return Err(RefusalReason::Missing.refusal("there is none"));
    };
    let mut remarks = Vec::new();
    if first.part != first.key.fingerprint() {
        remarks.push(format!(
            "made by the subkey {}",
            packets::render_fingerprint(&first.part)
        ));
    }
    if let Some(time) = first.signature.created() {
        remarks.push(format!(
            "dated {} by its signer",
            packets::render_time(time.as_secs().into())
        ));
    }
    if all > ours.len() {
        remarks.push(format!("{} more by other keys", all - ours.len()));
    }
    Ok(Signer {
        scheme: Scheme::Openpgp,
        signer: first.key.name(),
        pinned_by: format!("fingerprint {}", first.key.name()),
        signed_at: None,
        remarks,
    })
}
