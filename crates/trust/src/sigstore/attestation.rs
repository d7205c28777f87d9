//! in-toto attestations: finds the statement about this file with the wanted predicate type.
//!
//! A statement is trusted only after its bundle is verified. Refuses statements about other files
//! or with other predicates, and envelopes with several signatures.
//!
//! in-toto Attestation Framework: Statement v1; DSSE: protocol.md; SLSA v1.0 provenance.

use std::collections::HashSet;
use std::fs::File;

use serde_json::Value;
use sigstore_types::{PayloadBytes, Statement};

use super::{SigstoreRule, bundle, sanitize};
use crate::reading::refuse_unreadable;
use crate::{FileSubject, RefusalReason, SignatureRefusal, SignatureResult, last_segment};
use winimg_base::digest::{Algorithm, Digest};

const STATEMENTS: [&str; 2] = [
    "https://in-toto.io/Statement/v1",
    "https://in-toto.io/Statement/v0.1",
];
const PAYLOAD: &str = "application/vnd.in-toto+json";
/// Maximum number of bundles in one file. A release has at most one for each of its files.
const BUNDLES: usize = 1000;
/// Maximum number of names or types listed in a message.
const LISTED: usize = 4;

/// A statement with its bundle.
struct FoundStatement {
    value: Value,
    statement: Statement,
}

pub(super) fn judge(
    rule: &SigstoreRule,
    predicate: &str,
    subject: FileSubject<'_>,
    bytes: &[u8],
) -> SignatureResult {
    let all = parse_statements(bytes)?;
    let mut long = None;
    let mut about = Vec::new();
    let mut others = Vec::new();
    for found in all {
        if is_about(&found.statement, subject, &mut long)? {
            about.push(found)
        } else {
            others.push(found.statement)
        }
    }
    if about.is_empty() {
        return Err(of_another_file(subject, &others));
    }
    let kinds: Vec<String> = about
        .iter()
        .map(|f| f.statement.predicate_type.clone())
        .collect();
    about.retain(|f| f.statement.predicate_type == predicate);
    if about.is_empty() {
        return Err(RefusalReason::Missing
            .refusal("no attestation of this file has the wanted predicate")
            .expected(format!("predicate {predicate}"))
            .found(list(kinds)));
    }
    let many = about.len();
    let mut first = None;
    for found in about {
        match bundle::read(found.value).and_then(|b| bundle::judge(rule, subject, &b)) {
            Ok(signer) => return Ok(signer),
            Err(refusal) => first = first.or(Some(refusal)),
        }
    }
    let refusal =
        first.unwrap_or_else(|| RefusalReason::Missing.refusal("there is no attestation"));
    Err(match many {
        0 | 1 => refusal,
        _ => refusal.with_prefix(format_args!(
            "none of the {many} attestations of this file is valid; the first: "
        )),
    })
}

/// Parses the in-toto statements of a JSON bundle, or of concatenated bundles (JSONL).
fn parse_statements(bytes: &[u8]) -> Result<Vec<FoundStatement>, SignatureRefusal> {
    let bytes = bundle::strip_byte_order_mark(bytes);
    let mut found = Vec::new();
    let mut signatures = 0;
    let mut unread = None;
    let documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    for (at, document) in documents.enumerate() {
        if at == BUNDLES {
            return Err(RefusalReason::Malformed
                .refusal(format!("the file contains more than {BUNDLES} bundles")));
        }
        let value = document.map_err(|e| bundle::refuse_not_json(bytes, &e))?;
        if value.get("messageSignature").is_some() {
            signatures += 1;
        }
        match parse_statement(&value) {
            Ok(Some(statement)) => found.push(FoundStatement { value, statement }),
            Ok(None) => {}
            Err(refusal) => unread = unread.or(Some(refusal)),
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    Err(match unread {
        Some(refusal) => refusal,
        None if signatures > 0 => RefusalReason::WrongUse
            .refusal("it is a signature of a file, not an attestation")
            .cure("use kind = \"sigstore\""),
        None => RefusalReason::Missing
            .refusal("the file contains no attestation")
            .expected("Sigstore bundles with an in-toto statement in a DSSE envelope"),
    })
}

/// Parses a statement; `None` if the document is not an in-toto statement.
fn parse_statement(value: &Value) -> Result<Option<Statement>, SignatureRefusal> {
    let Some(envelope) = value.get("dsseEnvelope") else {
        return Ok(None);
    };
    if envelope.get("payloadType").and_then(Value::as_str) != Some(PAYLOAD) {
        return Ok(None);
    }
    let payload = envelope.get("payload").and_then(Value::as_str);
    let payload = PayloadBytes::from_base64(payload.unwrap_or_default())
        .map_err(|e| malformed(sanitize(e)))?;
    let statement: Statement =
        serde_json::from_slice(payload.as_bytes()).map_err(|e| malformed(sanitize(e)))?;
    if !STATEMENTS.contains(&statement.type_.as_str()) {
        return Err(malformed(format!("_type `{}`", sanitize(&statement.type_)))
            .expected(format!("_type `{}`", STATEMENTS[0])));
    }
    Ok(Some(statement))
}

fn malformed(found: String) -> SignatureRefusal {
    RefusalReason::Malformed
        .refusal("the statement in its envelope cannot be read")
        .found(found)
}

/// Returns true if a statement is about the file, by its digest. Names prove nothing.
///
/// `long`: the file's SHA-512, computed once and only if a statement has no SHA-256.
fn is_about(
    statement: &Statement,
    subject: FileSubject<'_>,
    long: &mut Option<Digest>,
) -> Result<bool, SignatureRefusal> {
    for known in &statement.subject {
        let digest = &known.digest;
        let short = digest.sha256.as_ref().map(|d| d.as_bytes().as_slice());
        let wide = digest.sha512.as_ref().map(|d| d.as_bytes().as_slice());
        let is = match (subject.digest.algorithm, short, wide) {
            (Algorithm::Sha256, Some(short), _) => short == subject.digest.bytes(),
            (Algorithm::Sha512, _, Some(wide)) => wide == subject.digest.bytes(),
            (Algorithm::Sha256, None, Some(wide)) => {
                let digest = match long {
                    Some(digest) => digest,
                    None => long.insert(compute_sha512(subject)?),
                };
                wide == digest.bytes()
            }
            _ => false,
        };
        if is {
            return Ok(true);
        }
    }
    Ok(false)
}

fn compute_sha512(subject: FileSubject<'_>) -> Result<Digest, SignatureRefusal> {
    let digest = File::open(subject.path)
        .and_then(|file| Digest::of_reader(Algorithm::Sha512, file))
        .map_err(refuse_unreadable)?;
    Ok(digest.0)
}

/// Returns the refusal if no statement is about this file. A statement may be about another version
/// of it, by its name.
fn of_another_file(subject: FileSubject<'_>, others: &[Statement]) -> SignatureRefusal {
    let subjects: Vec<_> = others.iter().flat_map(|s| &s.subject).collect();
    let named = subjects
        .iter()
        .find(|s| last_segment(&s.name) == last_segment(subject.name));
    if let Some(named) = named {
        return RefusalReason::Changed
            .refusal(format!(
                "it attests a different version of {}",
                sanitize(subject.name)
            ))
            .expected(digest_of(named))
            .found(subject.digest)
            .cure("use the attestations of this release as `url`");
    }
    let listed = subjects
        .iter()
        .map(|s| format!("{} {}", sanitize(&s.name), digest_of(s)));
    RefusalReason::OtherName
        .refusal("it attests other files")
        .expected(format!("{} {}", sanitize(subject.name), subject.digest))
        .found(list(listed.collect()))
}

fn digest_of(subject: &sigstore_types::Subject) -> String {
    let digest = &subject.digest;
    match (&digest.sha256, &digest.sha512) {
        (Some(short), _) => format!("sha256:{}", short.to_hex()),
        (None, Some(wide)) => format!("sha512:{}", wide.to_hex()),
        (None, None) => {
            let names: Vec<_> = digest.other.keys().map(sanitize).collect();
            format!("without SHA-256 (it has {})", list(names))
        }
    }
}

fn list(mut words: Vec<String>) -> String {
    // The number is limited only by the size of the file.
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    let more = words.len().saturating_sub(LISTED);
    let listed: Vec<String> = words.iter().take(LISTED).map(sanitize).collect();
    let mut text = listed.join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
