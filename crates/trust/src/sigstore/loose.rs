//! Builds a bundle from `X.sig` and `X.cert`, as published by Kubernetes, and Rekor's entry.
//!
//! A `.sig` and a `.cert` alone prove nothing: the certificate was valid for ten minutes, and only
//! the log proves that the signature was made in that time. Anyone can log an entry for any digest,
//! so only the entry of this signature and this certificate is accepted. The caller queries the
//! log; this module builds the queries and selects the entry.
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

use super::{bundle, check_size, sanitize};
use crate::reading::decode_base64;
use crate::{RefusalReason, SignatureEvidence, SignatureRefusal};
use winimg_base::digest::Digest;
use winimg_base::markup;
use winimg_base::problem::Problem;

/// Maximum number of entries. No file of a release has more, unless someone floods the log.
const ENTRIES: usize = 1000;

/// Builds the body of `POST {log}/api/v1/index/retrieve`, which returns the IDs of all entries
/// about a file.
///
/// `digest` is the file's SHA-256. Parse the response with [`entry_ids`].
pub fn rekor_query(digest: &Digest) -> Value {
    serde_json::json!({ "hash": digest.to_string() })
}

/// Builds the body of `POST {log}/api/v1/log/entries/retrieve`, which returns the entry of this
/// signature by this certificate. Like cosign, this searches by content and not through the index,
/// which gives no guarantees.
///
/// `digest` is the file's SHA-256. Pass the response to [`choose_entry`].
pub fn rekor_entry(
    digest: &Digest,
    signature: &[u8],
    certificate: &[u8],
) -> Result<Value, SignatureRefusal> {
    let Some((signature, certificate)) = parse_published(signature, Some(certificate))? else {
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

/// Parses the IDs in a response of the index, each safe in a URL: `GET
/// {log}/api/v1/log/entries/ID`. Empty if the file is not logged.
pub fn entry_ids(answer: &[u8]) -> Result<Vec<String>, SignatureRefusal> {
    check_size(answer, "the log's response")?;
    let value = bundle::parse_json(answer)?;
    let ids = value.as_array().filter(|ids| ids.len() <= ENTRIES);
    let ids = ids.and_then(|ids| ids.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    match ids {
        Some(ids) if ids.iter().all(|id| is_entry_id(id)) => {
            Ok(ids.into_iter().map(String::from).collect())
        }
        _ => Err(RefusalReason::Malformed
            .refusal("the log's response is not a list of entries")
            .expected(format!(
                "a JSON list of at most {ENTRIES} IDs, 64 or 80 hex digits each"
            ))
            .found(sanitize(String::from_utf8_lossy(
                answer.get(..200).unwrap_or(answer),
            )))),
    }
}

fn is_entry_id(id: &str) -> bool {
    matches!(id.len(), 64 | 80) && id.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Selects the entry of this signature by this certificate from the log's responses. Returns it as
/// JSON, to be stored as evidence.
///
/// `answers`: concatenated responses of `GET {log}/api/v1/log/entries/ID`, or one of `POST
/// {log}/api/v1/log/entries/retrieve`. `signature` and `certificate`: the published `.sig` and
/// `.cert`. Verifies nothing: [`super::judge`] does.
pub fn choose_entry(
    answers: &[u8],
    signature: &[u8],
    certificate: &[u8],
) -> Result<Vec<u8>, SignatureRefusal> {
    let Some((signature, certificate)) = parse_published(signature, Some(certificate))? else {
        return Err(is_bundle());
    };
    let parts = LooseSignature {
        signature,
        certificate,
        answers,
    };
    let chosen = parts.find_entry()?;
    let kept: serde_json::Map<String, Value> = [(chosen.id, chosen.value)].into_iter().collect();
    Ok(Value::Object(kept).to_string().into_bytes())
}

fn is_bundle() -> SignatureRefusal {
    RefusalReason::WrongUse
        .refusal("it is a bundle, which contains its log entry")
        .cure("remove `certificate` and `log`")
}

/// The published parts, with the log's responses.
pub(super) struct LooseSignature<'a> {
    signature: Vec<u8>,
    certificate: DerCertificate,
    answers: &'a [u8],
}

struct RekorEntry {
    id: String,
    value: Value,
    entry: LogEntry,
    body: HashedRekordV001Body,
}

impl<'a> LooseSignature<'a> {
    /// Finds the parts in the evidence. `None`: the signature is a bundle.
    pub(super) fn find(
        signature: &[u8],
        evidence: &'a SignatureEvidence,
    ) -> Result<Option<Self>, SignatureRefusal> {
        let Some((parts, certificate)) =
            parse_published(signature, evidence.certificate.as_deref())?
        else {
            return Ok(None);
        };
        let Some(answers) = &evidence.log_entry else {
            let refusal = RefusalReason::NotLogged
                .refusal(
                    "no transparency log proves that it was made while its certificate was valid",
                )
                .expected("Rekor's entry about this signature");
            return Err(match evidence.certificate {
                Some(_) => refusal.cure(
                    "name the log that its publisher uses: log = \"https://rekor.sigstore.dev\"",
                ),
                // cosign's own bundle format, which contains a promise of the log but no proof.
                None => refusal
                    .cure("ask its publisher for a bundle made by cosign with --new-bundle-format"),
            });
        };
        Ok(Some(Self {
            signature: parts,
            certificate,
            answers,
        }))
    }

    /// Builds a bundle v0.3 from the parts, to be verified like any other. Its digest is that in
    /// the log.
    pub(super) fn build_bundle(&self) -> Result<Bundle, SignatureRefusal> {
        let chosen = self.find_entry()?;
        let entry = chosen
            .entry
            .to_bundle_entry(KindVersion::HashedRekordV001)
            .map_err(unreadable_entry)?;
        let logged = DigestBytes::from_hex(chosen.body.spec.data.hash.value.as_str())
            .map_err(unreadable_entry)?;
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

    /// Finds the entry of this signature and this certificate. Of several, prefers one with a
    /// proof, then the earliest.
    fn find_entry(&self) -> Result<RekorEntry, SignatureRefusal> {
        let all = parse_entries(self.answers)?;
        let many = all.len();
        let mut others = Vec::new();
        let mut mine = Vec::new();
        for (id, value) in all {
            match read_entry(id, value) {
                Some(entry) if self.is_of(&entry) => mine.push(entry),
                Some(entry) => others.push(describe_signer(&entry)),
                None => others.push("an entry of a different type".into()),
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
            RefusalReason::NotLogged
                .refusal("the log has no entry of this signature by this certificate")
                .found(sanitize(found))
                .cure(match many {
                    0 => "check `log`: its publisher may use a different one",
                    _ => "download `.sig` and `.cert` again: both must be of the same release",
                })
        })
    }

    fn is_of(&self, entry: &RekorEntry) -> bool {
        let signature = &entry.body.spec.signature;
        signature.content.as_bytes() == self.signature
            && signature
                .public_key
                .parse_certificate()
                .is_ok_and(|c| c == self.certificate)
    }
}

fn unreadable_entry(error: sigstore_types::Error) -> SignatureRefusal {
    RefusalReason::Malformed
        .refusal("its log entry cannot be read")
        .found(sanitize(error))
}

/// Parses the entries of one or more responses, by their IDs.
fn parse_entries(answers: &[u8]) -> Result<Vec<(String, Value)>, SignatureRefusal> {
    check_size(answers, "the log's response")?;
    let answers = bundle::strip_byte_order_mark(answers);
    let mut found = Vec::new();
    for document in serde_json::Deserializer::from_slice(answers).into_iter::<Value>() {
        let document = document.map_err(|e| log_is_not_json(answers, &e))?;
        let maps = match document {
            Value::Array(maps) => maps,
            map => vec![map],
        };
        for map in maps {
            let Value::Object(map) = map else {
                return Err(RefusalReason::Malformed
                    .refusal("the log's response contains no entries")
                    .expected("a JSON object of entries by their IDs"));
            };
            found.extend(map);
            if found.len() > ENTRIES {
                return Err(RefusalReason::Malformed.refusal(format!(
                    "the log's response contains more than {ENTRIES} entries"
                )));
            }
        }
    }
    Ok(found)
}

fn log_is_not_json(bytes: &[u8], error: &serde_json::Error) -> SignatureRefusal {
    let refusal = bundle::refuse_not_json(bytes, error);
    let problem = Problem {
        expected: None,
        cures: Vec::new(),
        ..refusal.problem.with_prefix("the log's response: ")
    };
    SignatureRefusal { problem, ..refusal }
}

fn read_entry(id: String, value: Value) -> Option<RekorEntry> {
    let entry: LogEntry = serde_json::from_value(value.clone()).ok()?;
    let kind: Value = serde_json::from_slice(entry.body.as_bytes()).ok()?;
    let (kind, version) = (text_of(&kind, "kind"), text_of(&kind, "apiVersion"));
    match RekorEntryBody::from_json(entry.body.as_bytes(), kind, version) {
        Ok(RekorEntryBody::HashedRekordV001(body)) => Some(RekorEntry {
            id,
            value,
            entry,
            body,
        }),
        _ => None,
    }
}

fn text_of<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn has_proof(entry: &LogEntry) -> bool {
    entry
        .verification
        .as_ref()
        .is_some_and(|v| v.inclusion_proof.is_some() && v.signed_entry_timestamp.is_some())
}

/// Describes the signer of an entry.
fn describe_signer(entry: &RekorEntry) -> String {
    let key = &entry.body.spec.signature.public_key;
    let certificate = key.parse_certificate().ok();
    let claims = certificate.and_then(|c| super::certificate::FulcioClaims::read(&c));
    match claims {
        Some(claims) => format!("one by {}", claims.describe_identity()),
        None => "one by a key".into(),
    }
}

/// Parses signature and certificate as published: in two files, or both in cosign's old bundle
/// format.
///
/// `None`: a Sigstore bundle.
fn parse_published(
    signature: &[u8],
    certificate: Option<&[u8]>,
) -> Result<Option<(Vec<u8>, DerCertificate)>, SignatureRefusal> {
    check_size(signature, "it")?;
    let text = bundle::strip_byte_order_mark(signature).trim_ascii();
    if text.starts_with(b"{") {
        let fields = bundle::parse_json(signature)?;
        if fields.get("base64Signature").is_none() {
            return Ok(None);
        }
        let signature = read_signature(text_of(&fields, "base64Signature").as_bytes())?;
        let certificate = text_of(&fields, "cert");
        if certificate.is_empty() {
            return Err(bundle::refuse_key());
        }
        let certificate = read_certificate(certificate.as_bytes())?;
        return Ok(Some((signature, certificate)));
    }
    let signature = read_signature(signature)?;
    let Some(certificate) = certificate else {
        return Err(RefusalReason::Missing
            .refusal("its certificate is missing, and it is not a bundle")
            .cure(
                "set `certificate` to the address of the certificate, or `url` to that of a bundle",
            ));
    };
    Ok(Some((signature, read_certificate(certificate)?)))
}

/// Decodes base64 of a DER signature, as written by `cosign sign-blob --output-signature`, or the
/// DER itself.
fn read_signature(bytes: &[u8]) -> Result<Vec<u8>, SignatureRefusal> {
    check_size(bytes, "it")?;
    // An ASN.1 SEQUENCE, whose base64 starts with `M`.
    if bytes.first() == Some(&0x30) {
        return Ok(bytes.to_vec());
    }
    match decode_base64(bytes) {
        Some(der) if der.first() == Some(&0x30) => Ok(der),
        _ if markup::is_web_page(bytes) => Err(bundle::refuse_page()),
        _ => Err(RefusalReason::Malformed
            .refusal("it cannot be read as a signature")
            .expected("base64 of an ECDSA signature, or a Sigstore bundle in JSON")
            .found(describe_start(bytes))),
    }
}

/// Parses PEM, or base64 of PEM, as written by cosign's `--output-certificate` for blobs.
fn read_certificate(bytes: &[u8]) -> Result<DerCertificate, SignatureRefusal> {
    check_size(bytes, "its certificate")?;
    let decoded = decode_base64(bytes).unwrap_or_else(|| bytes.to_vec());
    let text = std::str::from_utf8(bundle::strip_byte_order_mark(&decoded))
        .map_err(|_| bad_certificate(bytes, "its certificate cannot be read"))?;
    if text.matches("-----BEGIN ").count() > 1 {
        let fact = "the file of its certificate contains more than one PEM block";
        return Err(bad_certificate(bytes, fact));
    }
    if text.contains("-----BEGIN PUBLIC KEY-----") {
        return Err(bundle::refuse_key());
    }
    DerCertificate::from_pem(text)
        .map_err(|_| bad_certificate(bytes, "its certificate cannot be read"))
}

fn bad_certificate(bytes: &[u8], fact: &str) -> SignatureRefusal {
    RefusalReason::Malformed
        .refusal(fact)
        .expected("one certificate in PEM, or base64 of that")
        .found(describe_start(bytes))
}

fn describe_start(bytes: &[u8]) -> String {
    let head = bytes.get(..40).unwrap_or(bytes);
    match std::str::from_utf8(head) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => {
            format!("a file that starts with `{}`", sanitize(text))
        }
        _ => format!("a file that starts with the bytes {}", hex::encode(head)),
    }
}
