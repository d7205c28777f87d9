//! in-toto attestations: of all statements in hand the one about this file, and of the kind that is wanted.
//!
//! What a statement says is believed only once its bundle is judged. Refuses statements about other files, of other
//! predicates, and envelopes with several signatures.
//!
//! in-toto Attestation Framework: Statement v1; DSSE: protocol.md; SLSA v1.0 provenance.

use std::collections::HashSet;
use std::fs::File;

use serde_json::Value;
use sigstore_types::{PayloadBytes, Statement};

use super::{Rule, bundle, shown};
use crate::reading::unreadable;
use crate::{Judged, Reason, Refusal, Subject};
use winimg_base::digest::{Algorithm, Digest};

const STATEMENTS: [&str; 2] = [
    "https://in-toto.io/Statement/v1",
    "https://in-toto.io/Statement/v0.1",
];
const PAYLOAD: &str = "application/vnd.in-toto+json";
/// Bundles in one file. A release has one for each of its files, at most.
const BUNDLES: usize = 1000;
/// Names or kinds that a message lists.
const LISTED: usize = 4;

/// One statement with the bundle around it.
struct Found {
    value: Value,
    statement: Statement,
}

pub(super) fn judge(rule: &Rule, predicate: &str, subject: Subject<'_>, bytes: &[u8]) -> Judged {
    let all = statements(bytes)?;
    let mut long = None;
    let mut about = Vec::new();
    let mut others = Vec::new();
    for found in all {
        match is_about(&found.statement, subject, &mut long)? {
            true => about.push(found),
            false => others.push(found.statement),
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
        return Err(Reason::Missing
            .refusal("no attestation of this file is of the wanted kind")
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
    let mut refusal = first.unwrap_or_else(|| Reason::Missing.refusal("there is no attestation"));
    if many > 1 {
        refusal.problem = refusal.problem.prefixed(format_args!(
            "none of the {many} attestations of this file is met; of the first, "
        ));
    }
    Err(refusal)
}

/// Every in-toto statement of a JSON bundle, or of bundles one after another (JSONL).
fn statements(bytes: &[u8]) -> Result<Vec<Found>, Refusal> {
    let bytes = bundle::without_mark(bytes);
    let mut found = Vec::new();
    let mut signatures = 0;
    let mut unread = None;
    let documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    for (at, document) in documents.enumerate() {
        if at == BUNDLES {
            return Err(
                Reason::Malformed.refusal(format!("the file holds more than {BUNDLES} bundles"))
            );
        }
        let value = document.map_err(|e| bundle::not_json(bytes, &e))?;
        if value.get("messageSignature").is_some() {
            signatures += 1;
        }
        match statement(&value) {
            Ok(Some(statement)) => found.push(Found { value, statement }),
            Ok(None) => {}
            Err(refusal) => unread = unread.or(Some(refusal)),
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    Err(match unread {
        Some(refusal) => refusal,
        None if signatures > 0 => Reason::WrongUse
            .refusal("it is a signature of a file, and no attestation")
            .cure("write kind = \"sigstore\""),
        None => Reason::Missing
            .refusal("the file holds no attestation")
            .expected("Sigstore bundles with a DSSE envelope around an in-toto statement"),
    })
}

/// `None`: something else than an in-toto statement.
fn statement(value: &Value) -> Result<Option<Statement>, Refusal> {
    let Some(envelope) = value.get("dsseEnvelope") else {
        return Ok(None);
    };
    let field = |name| envelope.get(name).and_then(Value::as_str);
    if field("payloadType") != Some(PAYLOAD) {
        return Ok(None);
    }
    let malformed = |found: String| {
        Reason::Malformed
            .refusal("the statement in its envelope cannot be read")
            .found(found)
    };
    let payload = PayloadBytes::from_base64(field("payload").unwrap_or_default())
        .map_err(|e| malformed(shown(e)))?;
    let statement: Statement =
        serde_json::from_slice(payload.as_bytes()).map_err(|e| malformed(shown(e)))?;
    if !STATEMENTS.contains(&statement.type_.as_str()) {
        return Err(malformed(format!("_type `{}`", shown(&statement.type_)))
            .expected(format!("_type `{}`", STATEMENTS[0])));
    }
    Ok(Some(statement))
}

/// Whether a statement knows the file by its digest. Names are the publisher's, and prove nothing.
///
/// `long`: the file's SHA-512, read once and only where a statement has no SHA-256.
fn is_about(
    statement: &Statement,
    subject: Subject<'_>,
    long: &mut Option<Digest>,
) -> Result<bool, Refusal> {
    let same = |bytes: Option<&[u8]>, digest: &Digest| bytes == Some(digest.bytes());
    for known in &statement.subject {
        let digest = &known.digest;
        let short = digest.sha256.as_ref().map(|d| d.as_bytes().as_slice());
        let wide = digest.sha512.as_ref().map(|d| d.as_bytes().as_slice());
        let is = match (subject.digest.algorithm, short, wide) {
            (Algorithm::Sha256, Some(short), _) => same(Some(short), subject.digest),
            (Algorithm::Sha512, _, Some(wide)) => same(Some(wide), subject.digest),
            (Algorithm::Sha256, None, Some(wide)) => {
                let digest = match long {
                    Some(digest) => digest,
                    None => long.insert(sha512(subject)?),
                };
                same(Some(wide), digest)
            }
            _ => false,
        };
        if is {
            return Ok(true);
        }
    }
    Ok(false)
}

fn sha512(subject: Subject<'_>) -> Result<Digest, Refusal> {
    let digest = File::open(subject.path)
        .and_then(|file| Digest::of_reader(Algorithm::Sha512, file))
        .map_err(unreadable)?;
    Ok(digest.0)
}

/// Nothing about these bytes. By the name it may have been this file once.
fn of_another_file(subject: Subject<'_>, others: &[Statement]) -> Refusal {
    let subjects: Vec<_> = others.iter().flat_map(|s| &s.subject).collect();
    let base = |name: &str| name.rsplit('/').next().unwrap_or_default().to_string();
    let named = subjects
        .iter()
        .find(|s| base(&s.name) == base(subject.name));
    if let Some(named) = named {
        return Reason::Changed
            .refusal(format!("it attests other bytes of {}", shown(subject.name)))
            .expected(digest_of(named))
            .found(subject.digest)
            .cure("give the attestations of this release as `url`");
    }
    let said = subjects
        .iter()
        .map(|s| format!("{} {}", shown(&s.name), digest_of(s)));
    Reason::OtherName
        .refusal("it attests other files")
        .expected(format!("{} {}", shown(subject.name), subject.digest))
        .found(list(said.collect()))
}

fn digest_of(subject: &sigstore_types::Subject) -> String {
    let digest = &subject.digest;
    match (&digest.sha256, &digest.sha512) {
        (Some(short), _) => format!("sha256:{}", short.to_hex()),
        (None, Some(wide)) => format!("sha512:{}", wide.to_hex()),
        (None, None) => {
            let names: Vec<_> = digest.other.keys().map(shown).collect();
            format!("without SHA-256 (it has {})", list(names))
        }
    }
}

fn list(mut words: Vec<String>) -> String {
    // There may be as many as the file has room for.
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    let more = words.len().saturating_sub(LISTED);
    let listed: Vec<String> = words.iter().take(LISTED).map(shown).collect();
    let mut text = listed.join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
