//! Parses and verifies bundles. The library verifies; this module defines what it must verify, and
//! checks that nothing was omitted.
//!
//! Refuses bundles by a key, bundles without an inclusion proof and checkpoint for every entry, and
//! several signatures in one envelope.

use serde_json::Value;
use sigstore_types::{
    Artifact, ArtifactDigest, Bundle, MediaType, Sha256Hash, SignatureContent,
    VerificationMaterialContent,
};
use sigstore_verify::crypto::FulcioCiClaims;
use sigstore_verify::{Error, VerificationPolicy, VerificationResult};

use super::{SigstoreRule, refusal, sanitize};
use crate::reading::SubjectReader;
use crate::{FileSubject, RefusalReason, SignatureRefusal, SignatureResult, Signer};
use winimg_base::digest::Algorithm;
use winimg_base::markup;

const GITHUB: &str = "https://github.com/";

/// Parses a JSON document.
pub(super) fn parse_json(bytes: &[u8]) -> Result<Value, SignatureRefusal> {
    serde_json::from_slice(strip_byte_order_mark(bytes)).map_err(|e| refuse_not_json(bytes, &e))
}

pub(super) fn strip_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

pub(super) fn refuse_page() -> SignatureRefusal {
    RefusalReason::Malformed
        .refusal("it is a web page")
        .cure("check the `url` of the signature")
}

pub(super) fn refuse_not_json(bytes: &[u8], error: &serde_json::Error) -> SignatureRefusal {
    if markup::is_web_page(bytes) {
        return refuse_page();
    }
    let place = format!("line {}, column {}", error.line(), error.column());
    if error.is_eof() {
        return RefusalReason::Malformed
            .refusal(format!("it is cut off at {place}"))
            .cure("download it again");
    }
    RefusalReason::Malformed
        .refusal(format!("it is not JSON at {place}"))
        .expected("a Sigstore bundle")
        .found(sanitize(error))
}

/// Parses a bundle after checking that its structure is supported.
pub(super) fn read(value: Value) -> Result<Bundle, SignatureRefusal> {
    let Some(fields) = value.as_object() else {
        return Err(RefusalReason::Malformed
            .refusal("it is not a Sigstore bundle")
            .expected("a JSON object with a mediaType"));
    };
    if let Some(kind) = fields.get("mediaType") {
        let kind = kind.as_str().unwrap_or_default();
        if kind.parse::<MediaType>().is_err() {
            return Err(RefusalReason::Unsupported
                .refusal("its bundle version is not supported")
                .expected("a Sigstore bundle of version 0.1, 0.2 or 0.3")
                .found(format!("mediaType `{}`", sanitize(kind))));
        }
    }
    if !fields.contains_key("verificationMaterial") {
        return Err(RefusalReason::Malformed
            .refusal("it is not a Sigstore bundle")
            .expected("`verificationMaterial` with a certificate and a log entry"));
    }
    check_version_content(&value)?;
    require_one_signature(&value)?;
    let bundle: Bundle = serde_json::from_value(value).map_err(|e| {
        RefusalReason::Malformed
            .refusal("it cannot be read as a Sigstore bundle")
            .found(sanitize(e))
    })?;
    match bundle.verification_material.content {
        VerificationMaterialContent::PublicKey(_) => Err(refuse_key()),
        _ if bundle.signing_certificate().is_none() => {
            Err(RefusalReason::Malformed.refusal("the bundle contains no certificate"))
        }
        _ => Ok(bundle),
    }
}

/// Checks that the content matches the version: 0.1 and 0.2 contain a chain of certificates, 0.3
/// one certificate (sigstore/protobuf-specs: sigstore_bundle.proto). The version is not signed, but
/// determines what is required.
fn check_version_content(value: &Value) -> Result<(), SignatureRefusal> {
    let kind = value.get("mediaType").and_then(Value::as_str);
    let kind = kind.unwrap_or_default();
    let is_older = ["0.1", "0.2"].iter().any(|version| kind.ends_with(version));
    let has_one = value.pointer("/verificationMaterial/certificate").is_some();
    if !is_older || !has_one {
        return Ok(());
    }
    Err(RefusalReason::Malformed
        .refusal("its content does not match its mediaType")
        .expected("a chain of certificates, as in versions 0.1 and 0.2")
        .found(format!(
            "one certificate in a bundle of `{}`",
            sanitize(kind)
        )))
}

pub(super) fn refuse_key() -> SignatureRefusal {
    RefusalReason::WrongUse
        .refusal("it was made with a key and has no identity")
        .expected("a certificate issued by Fulcio to an identity")
        .cure("if you trust the key, use kind = \"cosign\", key = \"cosign.pub\"")
}

/// Refuses envelopes with several signatures: DSSE allows them, but the bundle has evidence for one
/// only.
fn require_one_signature(value: &Value) -> Result<(), SignatureRefusal> {
    let signatures = value
        .pointer("/dsseEnvelope/signatures")
        .and_then(Value::as_array);
    match signatures.map(Vec::len) {
        Some(n) if n != 1 => Err(RefusalReason::Malformed
            .refusal("its envelope does not contain exactly one signature")
            .expected("1 signature")
            .found(format!("{n} signatures"))),
        _ => Ok(()),
    }
}

/// Refuses attestations, which are not signatures of a file: they may even state that the file is
/// bad.
pub(super) fn require_file_signature(bundle: &Bundle) -> Result<(), SignatureRefusal> {
    match &bundle.content {
        SignatureContent::MessageSignature(_) => Ok(()),
        _ => Err(RefusalReason::WrongUse
            .refusal("it is an attestation, not a signature of the file")
            .cure("use kind = \"attestation\" with the wanted `predicate`")),
    }
}

/// Requires an inclusion proof for every entry. The library accepts an inclusion promise for
/// bundles v0.1, and one proved entry for all.
fn check_log_entries(bundle: &Bundle) -> Result<(), SignatureRefusal> {
    let entries = &bundle.verification_material.tlog_entries;
    let cure =
        "ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does";
    if entries.is_empty() {
        return Err(RefusalReason::NotLogged
            .refusal("the bundle contains no transparency log entry")
            .cure(cure));
    }
    for entry in entries {
        let Some(proof) = &entry.inclusion_proof else {
            return Err(RefusalReason::NotLogged
                .refusal("its log entry has no inclusion proof")
                .expected("an inclusion proof with a signed checkpoint")
                .found(match entry.inclusion_promise {
                    Some(_) => "only the log's promise",
                    None => "neither proof nor promise",
                })
                .cure(cure));
        };
        if proof.checkpoint.is_empty() {
            return Err(RefusalReason::NotLogged
                .refusal("its inclusion proof has no signed checkpoint")
                .cure(cure));
        }
    }
    Ok(())
}

/// Verifies a bundle whose content matches the rule's scheme.
pub(super) fn judge(
    rule: &SigstoreRule,
    subject: FileSubject<'_>,
    bundle: &Bundle,
) -> SignatureResult {
    check_log_entries(bundle)?;
    let result = verify(rule, subject, bundle)?;
    let complete = result.certificate_verified()
        && result.sct_verified()
        && result.tlog_verified()
        && result.identity_policy_checked();
    let signed_at = result.verified_timestamps().iter().min();
    let (true, Some(signed_at)) = (complete, signed_at) else {
        return Err(RefusalReason::Unsupported.refusal(
            "verification is incomplete: certificate, SCT, log entry, identity and time are \
             required",
        ));
    };
    let remark = check_repository(rule, &result)?;
    Ok(Signer {
        scheme: rule.scheme(),
        signer: rule.identity.clone(),
        pinned_by: rule.describe_pins(),
        signed_at: Some(signed_at.to_string()),
        remarks: remark.into_iter().collect(),
    })
}

/// Checks the repository that ran a GitHub workflow. Without a repository in the rule, returns a
/// remark if the workflow is in a different repository.
fn check_repository(
    rule: &SigstoreRule,
    result: &VerificationResult,
) -> Result<Option<String>, SignatureRefusal> {
    let claims = result.certificate().map(|c| &c.ci_claims);
    let source = claims.and_then(source_repository);
    let source = source.as_deref();
    if let Some(repository) = &rule.repository {
        let wanted = format!("{GITHUB}{repository}");
        if source == Some(wanted.as_str()) {
            return Ok(None);
        }
        return Err(RefusalReason::OtherIdentity
            .refusal("its workflow was run by a different repository")
            .expected(wanted)
            .found(source.map_or("a certificate without a source repository".into(), sanitize)));
    }
    let of_workflow = rule.identity.strip_prefix(GITHUB).unwrap_or_default();
    let owner_and_name: Vec<&str> = of_workflow.splitn(3, '/').take(2).collect();
    let own = format!("{GITHUB}{}", owner_and_name.join("/"));
    Ok(source
        .filter(|source| !of_workflow.is_empty() && *source != own)
        .map(|source| {
            format!(
                "the workflow was called by {}; any repository can call it",
                sanitize(source)
            )
        }))
}

fn source_repository(claims: &FulcioCiClaims) -> Option<String> {
    if let Some(uri) = &claims.source_repository_uri {
        return Some(uri.clone());
    }
    // Certificates from before 2023 only have the older extension.
    let name = claims.deprecated_github.workflow_repository.as_ref()?;
    Some(format!("{GITHUB}{name}"))
}

fn verify(
    rule: &SigstoreRule,
    subject: FileSubject<'_>,
    bundle: &Bundle,
) -> Result<VerificationResult, SignatureRefusal> {
    let policy = VerificationPolicy::new(rule.identity.as_str(), rule.issuer.as_str());
    let verifier = &rule.root.verifier;
    if let Some(digest) = find_sufficient_digest(subject, bundle) {
        match verifier.verify(Artifact::from(digest), bundle, &policy) {
            // A different digest is required: SHA-384 for a P-384 key.
            Err(Error::UnsupportedArtifact(_)) => {}
            other => {
                return other.map_err(|error| refusal::to_refusal(error, rule, subject, bundle));
            }
        }
    }
    let mut reader = SubjectReader::open(subject)?;
    let result = verifier
        .verify_reader(&mut reader, bundle, &policy)
        .map_err(|error| refusal::to_refusal(error, rule, subject, bundle))?;
    reader.finish(subject)?;
    Ok(result)
}

/// Returns the file's digest if it is sufficient. A statement may identify a file only by SHA-512.
fn find_sufficient_digest(subject: FileSubject<'_>, bundle: &Bundle) -> Option<ArtifactDigest> {
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
