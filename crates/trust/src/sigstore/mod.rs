//! Keyless Sigstore signatures: verifies identity, issuer and log entry offline.
//!
//! The input is a bundle (v0.1 to v0.3), separate files `.sig` + `.cert` + Rekor's entry, or an
//! in-toto attestation. Each is converted to a bundle and verified completely: the signature, the
//! certificate's chain to the trust root's Fulcio, its SCT, the log's inclusion proof with a signed
//! checkpoint, and exactly the identity and issuer in the recipe. Refuses wildcards, patterns,
//! bundles without a log entry, and keys in place of certificates.
//!
//! Sigstore: Client Spec 4 (verification); sigstore/protobuf-specs: `sigstore_bundle.proto`.

mod attestation;
mod bundle;
mod certificate;
mod loose;
mod refusal;
mod root;

use std::sync::Arc;

pub use loose::{choose_entry, entry_ids, rekor_entry, rekor_query};

use super::reading::sanitize;
use super::{
    FileSubject, RefusalReason, Scheme, SignatureEvidence, SignatureRefusal, SignatureResult,
};

/// Maximum size in bytes of a bundle, of a file of attestations, or of the log's responses. A
/// bundle takes about 10 KiB, npm's provenance 30.
pub const MAX_EVIDENCE_SIZE: usize = 8 << 20;

/// The requirements for a keyless signature.
#[derive(Clone, Debug)]
pub struct SigstoreRule {
    /// The exact subject alternative name of the certificate: an e-mail address, or a workflow's
    /// URL.
    pub identity: String,
    /// The exact OpenID Connect issuer of the identity.
    pub issuer: String,
    /// The predicate type of an attestation; `None`: a signature of the file itself.
    pub attestation: Option<String>,
    /// The repository that must have run the workflow: `owner/name` on GitHub.
    repository: Option<String>,
    root: Arc<root::TrustRoot>,
}

impl SigstoreRule {
    /// Creates a rule. `trusted_root` is a `trusted_root.json`; the default is that of the public
    /// good instance. The error fits after "the trust root".
    pub fn new(
        identity: &str,
        issuer: &str,
        attestation: Option<&str>,
        trusted_root: Option<&[u8]>,
    ) -> Result<Self, String> {
        let root = match trusted_root {
            Some(bytes) => root::TrustRoot::read(bytes)?,
            None => root::TrustRoot::public_good()?,
        };
        Ok(Self {
            identity: identity.into(),
            issuer: issuer.into(),
            attestation: attestation.map(Into::into),
            repository: None,
            root,
        })
    }

    /// Requires that this repository, `owner/name` on GitHub, ran the workflow.
    ///
    /// An identity names the workflow's file. Any repository can call a reusable workflow and get
    /// the same identity; the certificate's source repository (Fulcio: oid-info.md,
    /// 1.3.6.1.4.1.57264.1.12) distinguishes them.
    pub fn of_repository(mut self, repository: &str) -> Self {
        self.repository = Some(repository.into());
        self
    }

    pub fn scheme(&self) -> Scheme {
        match self.attestation {
            Some(_) => Scheme::Attestation,
            None => Scheme::Sigstore,
        }
    }

    /// Describes the pins for lock files and reports.
    fn describe_pins(&self) -> String {
        let mut pins = format!("identity {} of issuer {}", self.identity, self.issuer);
        let pinned = [
            ("repository", &self.repository),
            ("predicate", &self.attestation),
        ];
        for (name, value) in pinned {
            if let Some(value) = value {
                pins += &format!(", {name} {value}");
            }
        }
        format!("{pins}, {}", self.root)
    }
}

/// Checks that a `trusted_root.json` can verify signatures. The error fits after "the trust root".
pub fn check_root(bytes: &[u8]) -> Result<(), String> {
    root::TrustRoot::read(bytes).map(drop)
}

/// Verifies a file with its evidence, which includes the log entry. Does not use the network.
pub fn judge(
    rule: &SigstoreRule,
    subject: FileSubject<'_>,
    evidence: &SignatureEvidence,
) -> SignatureResult {
    let Some(signature) = &evidence.signature else {
        return Err(RefusalReason::Missing.refusal("there is none"));
    };
    check_size(signature, "it")?;
    if let Some(predicate) = &rule.attestation {
        return attestation::judge(rule, predicate, subject, signature);
    }
    let bundle = match loose::LooseSignature::find(signature, evidence)? {
        Some(parts) => parts.build_bundle()?,
        None => {
            let bundle = bundle::read(bundle::parse_json(signature)?)?;
            bundle::require_file_signature(&bundle)?;
            bundle
        }
    };
    bundle::judge(rule, subject, &bundle)
}

fn check_size(bytes: &[u8], what: &str) -> Result<(), SignatureRefusal> {
    match bytes.len() {
        0 => Err(RefusalReason::Malformed.refusal(format!("{what} is an empty file"))),
        n if n > MAX_EVIDENCE_SIZE => Err(RefusalReason::Malformed
            .refusal(format!("{what} exceeds the maximum size"))
            .expected(format!("at most {MAX_EVIDENCE_SIZE} bytes"))
            .found(format!("{n} bytes"))),
        _ => Ok(()),
    }
}
