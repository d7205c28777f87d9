//! `X.sig` and `X.cert` with Rekor's entry, put together into a bundle: what Kubernetes publishes, plus the log's word.
//!
//! A `.sig` and a `.cert` alone prove nothing: the certificate lived ten minutes, and only the log says that the signature
//! was made within them. Anyone may log an entry for any digest: refuses every entry but the one of this signature and
//! this certificate. The log is asked by others; here are the questions and the choice.
//!
//! cosign: specs/SIGNATURE_SPEC.md; Rekor: openapi.yaml (`/api/v1/log/entries/retrieve`,
//! `/api/v1/index/retrieve`, `/api/v1/log/entries`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sigstore_types::{
    Bundle, CertificateContent, DerCertificate, DigestBytes, HashAlgorithm, KindVersion, MediaType,
    MessageDigest, MessageSignature, SignatureBytes, SignatureContent, VerificationMaterial,
    VerificationMaterialContent,
};
use sigstore_verify::rekor::body::HashedRekordV001Body;
use sigstore_verify::rekor::{LogEntry, RekorEntryBody};

use super::{bounded, bundle, shown};
use crate::reading::base64;
use crate::{Evidence, Reason, Refusal};
use winimg_base::digest::Digest;
use winimg_base::markup;
use winimg_base::problem::Problem;

/// More entries than any file of a release has; a log with more is being flooded.
const ENTRIES: usize = 1000;

/// The body of `POST {log}/api/v1/index/retrieve`, which answers with the IDs of all entries about a file.
///
/// `digest` is the file's SHA-256. The answer goes to [`entry_ids`].
pub fn rekor_query(digest: &Digest) -> Value {
    serde_json::json!({ "hash": digest.to_string() })
}

/// The body of `POST {log}/api/v1/log/entries/retrieve`, which answers with the entry of exactly
/// this signature by this certificate, where the log has it: it is found by what it says, as cosign
/// does, and not by the index, which promises nothing.
///
/// `digest` is the file's SHA-256. The answer goes to [`choose_entry`].
pub fn rekor_entry(
    digest: &Digest,
    signature: &[u8],
    certificate: &[u8],
) -> Result<Value, Refusal> {
    let Some((signature, certificate)) = published(signature, Some(certificate))? else {
        return Err(is_bundle());
    };
    let pem = certificate.to_pem().replace("\r\n", "\n");
    Ok(serde_json::json!({ "entries": [{
        "kind": "hashedrekord",
        "apiVersion": "0.0.1",
        "spec": {
            "data": { "hash": { "algorithm": "sha256", "value": digest.hex() } },
            "signature": {
                "content": STANDARD.encode(signature),
                "publicKey": { "content": STANDARD.encode(pem) },
            },
        },
    }] }))
}

/// The IDs in an index's answer, each fit for a URL: `GET {log}/api/v1/log/entries/ID`. None: the file is not logged.
pub fn entry_ids(answer: &[u8]) -> Result<Vec<String>, Refusal> {
    bounded(answer, "the log's answer")?;
    let value = bundle::json(answer)?;
    let ids = value.as_array().filter(|ids| ids.len() <= ENTRIES);
    let ids = ids.and_then(|ids| ids.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    let well_formed =
        |id: &str| matches!(id.len(), 64 | 80) && id.bytes().all(|b| b.is_ascii_hexdigit());
    match ids {
        Some(ids) if ids.iter().all(|id| well_formed(id)) => {
            Ok(ids.into_iter().map(String::from).collect())
        }
        _ => Err(Reason::Malformed
            .refusal("the log's answer is not a list of entries")
            .expected(format!(
                "a JSON list of at most {ENTRIES} IDs, 64 or 80 hex digits each"
            ))
            .found(shown(String::from_utf8_lossy(
                answer.get(..200).unwrap_or(answer),
            )))),
    }
}

/// Of the log's answers the entry of this signature by this certificate, as JSON to be kept as evidence.
///
/// `answers`: one or more answers of `GET {log}/api/v1/log/entries/ID` one after another, or one of
/// `POST {log}/api/v1/log/entries/retrieve`. `signature` and `certificate`: the `.sig` and the `.cert` as published.
/// Looks at nothing else: whether the entry proves anything is [`super::judge`]'s to say.
pub fn choose_entry(
    answers: &[u8],
    signature: &[u8],
    certificate: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let Some((signature, certificate)) = published(signature, Some(certificate))? else {
        return Err(is_bundle());
    };
    let parts = Parts {
        signature,
        certificate,
        answers,
    };
    let chosen = parts.entry()?;
    let kept: serde_json::Map<String, Value> = [(chosen.id, chosen.value)].into_iter().collect();
    Ok(Value::Object(kept).to_string().into_bytes())
}

fn is_bundle() -> Refusal {
    Reason::WrongUse
        .refusal("it is a bundle, which holds its log entry")
        .cure("leave `certificate` and `log` out")
}

/// What was published loose, with the log's answers about it.
pub(super) struct Parts<'a> {
    signature: Vec<u8>,
    certificate: DerCertificate,
    answers: &'a [u8],
}

struct Entry {
    id: String,
    value: Value,
    entry: LogEntry,
    body: HashedRekordV001Body,
}

impl<'a> Parts<'a> {
    /// `None`: the signature is a bundle.
    pub(super) fn find(signature: &[u8], evidence: &'a Evidence) -> Result<Option<Self>, Refusal> {
        let Some((parts, certificate)) = published(signature, evidence.certificate.as_deref())?
        else {
            return Ok(None);
        };
        let Some(answers) = &evidence.log_entry else {
            let refusal = Reason::NotLogged
                .refusal(
                    "no transparency log says that it was made while its certificate was valid",
                )
                .expected("Rekor's entry about this signature");
            return Err(match evidence.certificate {
                Some(_) => refusal.cure(
                    "name the log that its publisher uses: log = \"https://rekor.sigstore.dev\"",
                ),
                // cosign's own bundle: the log's promise, and no proof.
                None => refusal.cure(
                    "ask its publisher for a bundle that cosign makes with --new-bundle-format",
                ),
            });
        };
        Ok(Some(Self {
            signature: parts,
            certificate,
            answers,
        }))
    }

    /// A bundle v0.3 of the parts, to be judged as any other. It says of itself which bytes the log has.
    pub(super) fn bundle(&self) -> Result<Bundle, Refusal> {
        let chosen = self.entry()?;
        let unreadable = |e: sigstore_types::Error| {
            Reason::Malformed
                .refusal("its log entry cannot be read")
                .found(shown(e))
        };
        let entry = chosen
            .entry
            .to_bundle_entry(KindVersion::HashedRekordV001)
            .map_err(unreadable)?;
        let logged =
            DigestBytes::from_hex(chosen.body.spec.data.hash.value.as_str()).map_err(unreadable)?;
        let material = VerificationMaterial::new(VerificationMaterialContent::Certificate(
            CertificateContent::new(self.certificate.clone()),
        ))
        .with_tlog_entries(vec![entry]);
        let signature = MessageSignature::new(SignatureBytes::new(self.signature.clone()))
            .with_message_digest(MessageDigest::new(HashAlgorithm::Sha2256, logged));
        Ok(Bundle::new(
            MediaType::Bundle0_3,
            material,
            SignatureContent::MessageSignature(signature),
        ))
    }

    /// The entry of this signature and this certificate. Of several the one with a proof that was logged first.
    fn entry(&self) -> Result<Entry, Refusal> {
        let all = entries(self.answers)?;
        let many = all.len();
        let mut others = Vec::new();
        let mut mine = Vec::new();
        for (id, value) in all {
            match read_entry(id, value) {
                Some(entry) if self.is_of(&entry) => mine.push(entry),
                Some(entry) => others.push(signer(&entry)),
                None => others.push("an entry of another kind".into()),
            }
        }
        mine.sort_by_key(|e| (!has_proof(&e.entry), e.entry.integrated_time));
        others.sort();
        others.dedup();
        let found = match many {
            0 => "no entry at all".to_string(),
            1 => format!("1 entry: {}", others.join(", ")),
            _ => format!("{many} entries: {}", others.join(", ")),
        };
        mine.into_iter().next().ok_or_else(|| {
            Reason::NotLogged
                .refusal("the log has no entry of this signature by this certificate")
                .found(shown(found))
                .cure(match many {
                    0 => "check `log`: its publisher may use another",
                    _ => "fetch `.sig` and `.cert` again: both have to be of one release",
                })
        })
    }

    fn is_of(&self, entry: &Entry) -> bool {
        let signature = &entry.body.spec.signature;
        signature.content.as_bytes() == self.signature
            && signature
                .public_key
                .parse_certificate()
                .is_ok_and(|c| c == self.certificate)
    }
}

/// The entries of one or more answers, by their IDs.
fn entries(answers: &[u8]) -> Result<Vec<(String, Value)>, Refusal> {
    bounded(answers, "the log's answer")?;
    let answers = bundle::without_mark(answers);
    let mut found = Vec::new();
    for document in serde_json::Deserializer::from_slice(answers).into_iter::<Value>() {
        let document = document.map_err(|e| log_is_not_json(answers, &e))?;
        let maps = match document {
            Value::Array(maps) => maps,
            map => vec![map],
        };
        for map in maps {
            let Value::Object(map) = map else {
                return Err(Reason::Malformed
                    .refusal("the log's answer is not one about entries")
                    .expected("a JSON object of entries by their IDs"));
            };
            found.extend(map);
            if found.len() > ENTRIES {
                return Err(Reason::Malformed.refusal(format!(
                    "the log's answer holds more than {ENTRIES} entries"
                )));
            }
        }
    }
    Ok(found)
}

fn log_is_not_json(bytes: &[u8], error: &serde_json::Error) -> Refusal {
    let refusal = bundle::not_json(bytes, error);
    let problem = Problem {
        expected: None,
        cures: Vec::new(),
        ..refusal.problem.prefixed("of the log's answer: ")
    };
    Refusal { problem, ..refusal }
}

fn read_entry(id: String, value: Value) -> Option<Entry> {
    let entry: LogEntry = serde_json::from_value(value.clone()).ok()?;
    let kind: Value = serde_json::from_slice(entry.body.as_bytes()).ok()?;
    let said = |name| kind.get(name).and_then(Value::as_str).unwrap_or_default();
    match RekorEntryBody::from_json(entry.body.as_bytes(), said("kind"), said("apiVersion")) {
        Ok(RekorEntryBody::HashedRekordV001(body)) => Some(Entry {
            id,
            value,
            entry,
            body,
        }),
        _ => None,
    }
}

fn has_proof(entry: &LogEntry) -> bool {
    entry
        .verification
        .as_ref()
        .is_some_and(|v| v.inclusion_proof.is_some() && v.signed_entry_timestamp.is_some())
}

/// Whose entry it is, for a message.
fn signer(entry: &Entry) -> String {
    let key = &entry.body.spec.signature.public_key;
    let certificate = key.parse_certificate().ok();
    let claims = certificate.and_then(|c| super::certificate::Claims::read(&c));
    match claims {
        Some(claims) => format!("one by {}", claims.identity()),
        None => "one by a key".into(),
    }
}

/// Signature and certificate as they were published: in two files, or both in cosign's own bundle from before Sigstore's.
///
/// `None`: a Sigstore bundle.
fn published(
    signature: &[u8],
    certificate: Option<&[u8]>,
) -> Result<Option<(Vec<u8>, DerCertificate)>, Refusal> {
    bounded(signature, "it")?;
    let text = bundle::without_mark(signature).trim_ascii();
    if text.starts_with(b"{") {
        return match bundle::json(signature)? {
            Value::Object(fields) if fields.contains_key("base64Signature") => {
                let text = |name| fields.get(name).and_then(Value::as_str).unwrap_or_default();
                let signature = read_signature(text("base64Signature").as_bytes())?;
                let certificate = text("cert");
                if certificate.is_empty() {
                    return Err(bundle::of_a_key());
                }
                let certificate = read_certificate(certificate.as_bytes())?;
                Ok(Some((signature, certificate)))
            }
            _ => Ok(None),
        };
    }
    let signature = read_signature(signature)?;
    let Some(certificate) = certificate else {
        return Err(Reason::Missing
            .refusal("its certificate is missing: there is a signature alone, and no bundle")
        .cure(
            "name the address of the certificate as `certificate`, or give the `url` of a bundle",
        ));
    };
    Ok(Some((signature, read_certificate(certificate)?)))
}

/// Base64 of a DER signature, as `cosign sign-blob --output-signature` writes it; or the DER itself.
fn read_signature(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    bounded(bytes, "it")?;
    // An ASN.1 SEQUENCE. Base64 of one begins with `M`.
    if bytes.first() == Some(&0x30) {
        return Ok(bytes.to_vec());
    }
    match base64(bytes) {
        Some(der) if der.first() == Some(&0x30) => Ok(der),
        _ if markup::is_page(bytes) => Err(bundle::page()),
        _ => Err(Reason::Malformed
            .refusal("it cannot be read as a signature")
            .expected("base64 of an ECDSA signature, or a Sigstore bundle in JSON")
            .found(beginning(bytes))),
    }
}

/// PEM, or base64 of PEM, as cosign writes `--output-certificate` for blobs.
fn read_certificate(bytes: &[u8]) -> Result<DerCertificate, Refusal> {
    bounded(bytes, "its certificate")?;
    let refused = |fact: &str| {
        Reason::Malformed
            .refusal(fact)
            .expected("one certificate in PEM, or base64 of that")
            .found(beginning(bytes))
    };
    let decoded = base64(bytes).unwrap_or_else(|| bytes.to_vec());
    let text = std::str::from_utf8(bundle::without_mark(&decoded))
        .map_err(|_| refused("its certificate cannot be read"))?;
    if text.matches("-----BEGIN ").count() > 1 {
        return Err(refused("the file of its certificate holds more than that"));
    }
    if text.contains("-----BEGIN PUBLIC KEY-----") {
        return Err(bundle::of_a_key());
    }
    DerCertificate::from_pem(text).map_err(|_| refused("its certificate cannot be read"))
}

fn beginning(bytes: &[u8]) -> String {
    let head = bytes.get(..40).unwrap_or(bytes);
    match std::str::from_utf8(head) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => {
            format!("a file that begins with `{}`", shown(text))
        }
        _ => format!("a file that begins with the bytes {}", hex::encode(head)),
    }
}
