//! A bundle read and judged. The library verifies; here stands what it has to verify, and that nothing was left out.
//!
//! Refuses bundles of a key, without an inclusion proof and checkpoint for every entry, or with several signatures in one
//! envelope.

use serde_json::Value;
use sigstore_types::{
    Artifact, ArtifactDigest, Bundle, MediaType, Sha256Hash, SignatureContent,
    VerificationMaterialContent,
};
use sigstore_verify::crypto::FulcioCiClaims;
use sigstore_verify::{Error, VerificationPolicy, VerificationResult};

use super::{Rule, refusal, shown};
use crate::reading::Reading;
use crate::{Judged, Reason, Refusal, Signer, Subject};
use winimg_base::digest::Algorithm;
use winimg_base::markup;

const GITHUB: &str = "https://github.com/";

/// One JSON document, by its syntax alone.
pub(super) fn json(bytes: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(without_mark(bytes)).map_err(|e| not_json(bytes, &e))
}

pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

pub(super) fn page() -> Refusal {
    Reason::Malformed
        .refusal("a web page came in its place")
        .cure("check the `url` of the signature")
}

pub(super) fn not_json(bytes: &[u8], error: &serde_json::Error) -> Refusal {
    if markup::is_page(bytes) {
        return page();
    }
    let place = format!("line {}, column {}", error.line(), error.column());
    if error.is_eof() {
        return Reason::Malformed
            .refusal(format!("it is cut off at {place}"))
            .cure("fetch it again");
    }
    Reason::Malformed
        .refusal(format!("it is not JSON at {place}"))
        .expected("a Sigstore bundle")
        .found(shown(error))
}

/// A bundle as the library understands it, once its shape is one that can be judged.
pub(super) fn read(value: Value) -> Result<Bundle, Refusal> {
    let Some(fields) = value.as_object() else {
        return Err(Reason::Malformed
            .refusal("it is not a Sigstore bundle")
            .expected("a JSON object with a mediaType"));
    };
    if let Some(kind) = fields.get("mediaType") {
        let kind = kind.as_str().unwrap_or_default();
        if kind.parse::<MediaType>().is_err() {
            return Err(Reason::Unsupported
                .refusal("it is a bundle of a kind that winimg does not know")
                .expected("a Sigstore bundle of version 0.1, 0.2 or 0.3")
                .found(format!("mediaType `{}`", shown(kind))));
        }
    }
    if !fields.contains_key("verificationMaterial") {
        return Err(Reason::Malformed
            .refusal("it is not a Sigstore bundle")
            .expected("`verificationMaterial` with a certificate and a log entry"));
    }
    fits_its_kind(&value)?;
    one_signature(&value)?;
    let bundle: Bundle = serde_json::from_value(value).map_err(|e| {
        Reason::Malformed
            .refusal("it cannot be read as a Sigstore bundle")
            .found(shown(e))
    })?;
    match bundle.verification_material.content {
        VerificationMaterialContent::PublicKey(_) => Err(of_a_key()),
        _ if bundle.signing_certificate().is_none() => {
            Err(Reason::Malformed.refusal("the bundle holds no certificate"))
        }
        _ => Ok(bundle),
    }
}

/// Versions 0.1 and 0.2 hold a chain of certificates, 0.3 one certificate (sigstore/protobuf-specs: sigstore_bundle.proto). The name of
/// the version is not signed, and decides what has to be there.
fn fits_its_kind(value: &Value) -> Result<(), Refusal> {
    let kind = value.get("mediaType").and_then(Value::as_str);
    let kind = kind.unwrap_or_default();
    let is_older = ["0.1", "0.2"].iter().any(|version| kind.ends_with(version));
    let has_one = value.pointer("/verificationMaterial/certificate").is_some();
    if !is_older || !has_one {
        return Ok(());
    }
    Err(Reason::Malformed
        .refusal("it has another form than its mediaType says")
        .expected("a chain of certificates, as versions 0.1 and 0.2 have it")
        .found(format!("one certificate in a bundle of `{}`", shown(kind))))
}

pub(super) fn of_a_key() -> Refusal {
    Reason::WrongUse
        .refusal("it was made with a key, and names nobody")
        .expected("a certificate that Fulcio issued to an identity")
        .cure("for a key that you know: kind = \"cosign\", key = \"cosign.pub\"")
}

/// DSSE allows many signatures; a bundle's certificate and log entry stand for one.
fn one_signature(value: &Value) -> Result<(), Refusal> {
    let signatures = value
        .pointer("/dsseEnvelope/signatures")
        .and_then(Value::as_array);
    match signatures.map(Vec::len) {
        Some(n) if n != 1 => Err(Reason::Malformed
            .refusal("its envelope does not hold exactly one signature")
            .expected("1 signature")
            .found(format!("{n} signatures"))),
        _ => Ok(()),
    }
}

/// A statement about a file is not a signature of it: an attestation may well say that the file is bad.
pub(super) fn is_of_a_file(bundle: &Bundle) -> Result<(), Refusal> {
    match &bundle.content {
        SignatureContent::MessageSignature(_) => Ok(()),
        _ => Err(Reason::WrongUse
            .refusal("it is an attestation, and no signature of the file")
            .cure("write kind = \"attestation\", with the `predicate` that is wanted")),
    }
}

/// The library takes a promise of the log for an entry of bundle v0.1, and one proved entry for all. Winimg does not.
fn logged(bundle: &Bundle) -> Result<(), Refusal> {
    let entries = &bundle.verification_material.tlog_entries;
    let cure =
        "ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does";
    if entries.is_empty() {
        return Err(Reason::NotLogged
            .refusal("the bundle holds no entry of a transparency log")
            .cure(cure));
    }
    for entry in entries {
        let Some(proof) = &entry.inclusion_proof else {
            return Err(Reason::NotLogged
                .refusal("its log entry has no inclusion proof")
                .expected("an inclusion proof with a signed checkpoint")
                .found(match entry.inclusion_promise {
                    Some(_) => "the log's promise alone",
                    None => "neither proof nor promise",
                })
                .cure(cure));
        };
        if proof.checkpoint.is_empty() {
            return Err(Reason::NotLogged
                .refusal("its inclusion proof has no signed checkpoint")
                .cure(cure));
        }
    }
    Ok(())
}

/// Judges a bundle whose content fits the rule's kind.
pub(super) fn judge(rule: &Rule, subject: Subject<'_>, bundle: &Bundle) -> Judged {
    logged(bundle)?;
    let result = verify(rule, subject, bundle)?;
    let complete = result.certificate_verified()
        && result.sct_verified()
        && result.tlog_verified()
        && result.identity_policy_checked();
    let seen = result.verified_timestamps().iter().min();
    let (true, Some(seen)) = (complete, seen) else {
        return Err(Reason::Unsupported.refusal(
            "not all of it was verified: certificate, SCT, log entry, identity and time",
        ));
    };
    let remark = run_by(rule, &result)?;
    Ok(Signer {
        scheme: rule.scheme(),
        signer: rule.identity.clone(),
        pinned_by: rule.pins(),
        signed_at: Some(seen.to_string()),
        remarks: remark.into_iter().collect(),
    })
}

/// The repository that ran a GitHub workflow: refused where the rule names another, a remark where it names none and the
/// workflow is not that repository's own.
fn run_by(rule: &Rule, result: &VerificationResult) -> Result<Option<String>, Refusal> {
    let claims = result.certificate().map(|c| &c.ci_claims);
    // Certificates from before 2023 have the older extension alone.
    let older = |c: &FulcioCiClaims| {
        let name = c.deprecated_github.workflow_repository.as_ref()?;
        Some(format!("{GITHUB}{name}"))
    };
    let source = claims.and_then(|c| c.source_repository_uri.clone().or_else(|| older(c)));
    let source = source.as_deref();
    if let Some(repository) = &rule.repository {
        let wanted = format!("{GITHUB}{repository}");
        if source == Some(wanted.as_str()) {
            return Ok(None);
        }
        return Err(Reason::OtherIdentity
            .refusal("its workflow was run by another repository")
            .expected(wanted)
            .found(source.map_or("a certificate without a source repository".into(), shown)));
    }
    let of_workflow = rule.identity.strip_prefix(GITHUB).unwrap_or_default();
    let owner_and_name: Vec<&str> = of_workflow.splitn(3, '/').take(2).collect();
    let own = format!("{GITHUB}{}", owner_and_name.join("/"));
    Ok(source
        .filter(|source| !of_workflow.is_empty() && *source != own)
        .map(|source| {
            format!(
                "the workflow was called by {}; any repository may call it",
                shown(source)
            )
        }))
}

fn verify(
    rule: &Rule,
    subject: Subject<'_>,
    bundle: &Bundle,
) -> Result<VerificationResult, Refusal> {
    let policy = VerificationPolicy::new(rule.identity.as_str(), rule.issuer.as_str());
    let verifier = &rule.root.verifier;
    let refused = |error| refusal::of(error, rule, subject, bundle);
    if let Some(digest) = digest_alone(subject, bundle) {
        match verifier.verify(Artifact::from(digest), bundle, &policy) {
            // Another digest is wanted: SHA-384 for a P-384 key.
            Err(Error::UnsupportedArtifact(_)) => {}
            other => return other.map_err(refused),
        }
    }
    let mut reading = Reading::open(subject)?;
    let result = verifier
        .verify_reader(&mut reading, bundle, &policy)
        .map_err(refused)?;
    reading.finish(subject)?;
    Ok(result)
}

/// The file's digest, where it can stand for the file. Statements may know a file by its SHA-512 alone.
fn digest_alone(subject: Subject<'_>, bundle: &Bundle) -> Option<ArtifactDigest> {
    if subject.digest.algorithm != Algorithm::Sha256 {
        return None;
    }
    let digest = Sha256Hash::try_from(subject.digest.bytes()).ok()?;
    if let SignatureContent::DsseEnvelope(envelope) = &bundle.content {
        let statement: sigstore_types::Statement =
            serde_json::from_slice(envelope.payload.as_bytes()).ok()?;
        if !statement.matches_sha256(&digest) {
            return None;
        }
    }
    Some(digest.into())
}
