//! Keyless Sigstore signatures: who signed, vouched for by whom, proved by a log, all from the files in hand.
//!
//! A bundle (v0.1 to v0.3), the loose parts `.sig` + `.cert` + Rekor's entry, or an in-toto attestation: each becomes a
//! bundle, and one judge decides. That judge asks for all of it: the signature, the certificate's chain to the trust
//! root's Fulcio, its SCT, the log's inclusion proof with a signed checkpoint, and the identity and issuer exactly as the
//! recipe names them. Refuses to accept "anybody", patterns, bundles without a log, keys in place of certificates.
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

use super::reading::shown;
use super::{Evidence, Judged, Reason, Refusal, Scheme, Subject};

/// Bytes of a bundle, of a file of attestations, of the log's answers. A bundle has 10 KiB, npm's provenance 30.
pub const LIMIT: usize = 8 << 20;

/// What a keyless signature has to show.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The certificate's subject alternative name, exactly: an e-mail address, or a workflow's URL.
    pub identity: String,
    /// The OpenID Connect issuer that vouched for it, exactly.
    pub issuer: String,
    /// The predicate type of an attestation; `None`: a signature of the file itself.
    pub attestation: Option<String>,
    /// `owner/name` on GitHub that has to have run the workflow.
    repository: Option<String>,
    root: Arc<root::TrustRoot>,
}

impl Rule {
    /// `trusted_root`: a `trusted_root.json`; the public good instance's unless given. The error fits after "the trust root".
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

    /// The workflow has to have been run by this repository, `owner/name` on GitHub.
    ///
    /// An identity names the workflow's file. Where that is a reusable workflow, every repository can call it and be
    /// vouched for by the same identity; the certificate's source repository (Fulcio: oid-info.md, 1.3.6.1.4.1.57264.1.12)
    /// distinguishes them.
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

    /// The pins, as the records show them.
    fn pins(&self) -> String {
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

/// Whether a `trusted_root.json` could prove a signature at all. The error fits after "the trust root".
pub fn check_root(bytes: &[u8]) -> Result<(), String> {
    root::TrustRoot::read(bytes).map(drop)
}

/// Judges a file by what was published beside it. Asks no network; the log's word comes with the evidence.
pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence) -> Judged {
    let Some(signature) = &evidence.signature else {
        return Err(Reason::Missing.refusal("there is none"));
    };
    bounded(signature, "it")?;
    if let Some(predicate) = &rule.attestation {
        return attestation::judge(rule, predicate, subject, signature);
    }
    let bundle = match loose::Parts::find(signature, evidence)? {
        Some(parts) => parts.bundle()?,
        None => {
            let bundle = bundle::read(bundle::json(signature)?)?;
            bundle::is_of_a_file(&bundle)?;
            bundle
        }
    };
    bundle::judge(rule, subject, &bundle)
}

fn bounded(bytes: &[u8], what: &str) -> Result<(), Refusal> {
    match bytes.len() {
        0 => Err(Reason::Malformed.refusal(format!("{what} is an empty file"))),
        n if n > LIMIT => Err(Reason::Malformed
            .refusal(format!("{what} is longer than any of its kind"))
            .expected(format!("{LIMIT} bytes at most"))
            .found(format!("{n} bytes"))),
        _ => Ok(()),
    }
}
