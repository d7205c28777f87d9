//! Verifies signatures of files.
//!
//! Each scheme is a module with a rule (the parsed pins of a recipe) and a `judge` function.
//! Judging only reads the file itself: it uses no network, no clock, and no trust anchors besides
//! those in the recipe. Cryptography is done by libraries (aws-lc-rs, rustls-webpki, rPGP,
//! sigstore); this crate parses formats and applies policy. Refuses MD5 and SHA-1 everywhere.

pub mod authenticode;
pub mod cms;
pub mod cosign;
pub mod minisign;
pub mod openpgp;
pub mod signify;
pub mod sigstore;

pub mod checksum;
pub mod pinned;
mod reading;
pub mod roots;
pub mod short_format;
pub mod uncovered;
mod x509;

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::problem::Problem;

pub use pinned::KeyFileContent;
pub use x509::misused;

/// The requirements for a signature: a scheme and the recipe's pins for it.
#[derive(Clone, Debug)]
pub enum SignatureRule {
    /// Detached, armored or binary.
    Openpgp(openpgp::OpenPgpRule),
    Minisign(minisign::MinisignRule),
    Signify(signify::SignifyRule),
    /// A signature of `cosign sign-blob --key`, bare or in a bundle.
    Cosign(cosign::CosignRule),
    /// Keyless: an identity and its issuer, by a bundle or an attestation.
    Sigstore(sigstore::SigstoreRule),
    /// Embedded in the file (PE, MSI, CAB, PowerShell), or by a catalog.
    Authenticode(authenticode::AuthenticodeRule),
    /// Detached CMS (RFC 5652).
    Cms(cms::CmsRule),
}

/// The file to verify.
#[derive(Clone, Copy, Debug)]
pub struct FileSubject<'a> {
    pub path: &'a Path,
    /// Name under which it is stored and used: `kubelet.exe`.
    pub name: &'a str,
    /// Name given by its publisher, which may differ: `kubelet-1.33.0.exe`.
    pub published: &'a str,
    /// SHA-256 of the whole file.
    pub digest: &'a Digest,
}

/// Files published beside the file. Empty for embedded signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureEvidence {
    /// The signature, bundle, attestation or catalog.
    pub signature: Option<Vec<u8>>,
    /// The certificate of a keyless signature that is not a bundle.
    pub certificate: Option<Vec<u8>>,
    /// The transparency log's answer about that signature, as JSON.
    pub log_entry: Option<Vec<u8>>,
    /// Revocation lists of certificate issuers.
    pub lists: Option<RevocationLists>,
}

/// Certificate revocation lists (CRLs), DER or PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevocationLists {
    pub lists: Vec<Vec<u8>>,
    /// True if a lock names them: their age was checked when it was made.
    pub are_locked: bool,
}

/// The schemes, by their names in a recipe.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    Openpgp,
    Minisign,
    Signify,
    Cosign,
    Sigstore,
    Attestation,
    Authenticode,
    Cms,
}

impl FileSubject<'_> {
    /// Returns true if a signed name is this file's.
    fn is_called(&self, name: &str) -> bool {
        [self.name, self.published]
            .into_iter()
            .any(|own| last_segment(own).eq_ignore_ascii_case(last_segment(name)))
    }
}

/// Returns `a.exe` for `bin/a.exe`.
fn last_segment(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

impl Scheme {
    /// All of them, in the order of messages and of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Openpgp,
        Self::Minisign,
        Self::Signify,
        Self::Cosign,
        Self::Sigstore,
        Self::Attestation,
        Self::Authenticode,
        Self::Cms,
    ];

    /// Returns what a signature's file name adds to that of the signed file; `None` if the
    /// signature is in the file, or anywhere.
    pub fn signature_suffix(self) -> Option<&'static str> {
        match self {
            Self::Openpgp => Some(".asc"),
            Self::Minisign => Some(".minisig"),
            Self::Signify | Self::Cosign => Some(".sig"),
            Self::Sigstore => Some(".sigstore.json"),
            Self::Cms => Some(".p7s"),
            Self::Attestation | Self::Authenticode => None,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A verified signature, as recorded in lock, manifest, SBOM and provenance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Signer {
    pub scheme: Scheme,
    /// The key's fingerprint, the certificate's subject, or the identity.
    pub signer: String,
    /// The matching pins: `key RWQ…`, `root sha256:…, subject CN=…`, `identity … of issuer …`.
    pub pinned_by: String,
    /// RFC 3339, UTC: time at which a timestamp authority or transparency log saw it, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_at: Option<String>,
    /// Remarks for the reader, for example that the certificate was checked at build time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// `openpgp: ABCD…, at 2026-01-02T03:04:05Z; key ABCD…`
impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.scheme, self.signer)?;
        if let Some(time) = &self.signed_at {
            write!(f, ", at {time}")?;
        }
        write!(f, "; {}", self.pinned_by)?;
        self.remarks
            .iter()
            .try_for_each(|remark| write!(f, "; {remark}"))
    }
}

/// The reason why a signature was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// There is no signature.
    Missing,
    /// It cannot be read, or is cut off.
    Malformed,
    /// It does not match the file.
    Changed,
    /// It was made with a different key.
    OtherKey,
    /// The certificate or key had expired when it was used.
    Expired,
    NotYetValid,
    Revoked,
    /// The chain does not end at a root in the recipe, or the leaf is self-signed.
    OtherRoot,
    /// The subject, EKU, issuer certificate, or keyless identity is different.
    OtherIdentity,
    /// A different issuer vouched for the identity.
    OtherIssuer,
    /// A certificate or key is not for this use, such as a TLS server's.
    WrongUse,
    /// It uses MD5, SHA-1, or a short RSA key.
    Weak,
    /// The file contains unsigned bytes.
    Uncovered,
    /// It has no timestamp, and the rule requires one.
    NoTimestamp,
    /// No transparency log proves it.
    NotLogged,
    /// It is for a file with a different name.
    OtherName,
    /// It is for a different program of the same publisher, or for an older version.
    OtherProduct,
    /// This kind of file or signature is not supported.
    Unsupported,
}

/// The refusal of a signature. The fact fits after "the signature of kubelet: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureRefusal {
    pub reason: RefusalReason,
    pub problem: Problem,
}

impl RefusalReason {
    /// Creates a refusal. `fact` is one sentence without a full stop.
    pub fn refusal(self, fact: impl Into<String>) -> SignatureRefusal {
        SignatureRefusal {
            reason: self,
            problem: Problem::new(fact),
        }
    }
}

impl SignatureRefusal {
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.problem = self.problem.expected(expected);
        self
    }

    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.problem = self.problem.found(found);
        self
    }

    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.problem = self.problem.cure(cure);
        self
    }

    /// Prepends text to the fact.
    fn with_prefix(mut self, words: impl fmt::Display) -> Self {
        self.problem = self.problem.with_prefix(words);
        self
    }
}

pub type SignatureResult = Result<Signer, SignatureRefusal>;

impl SignatureRule {
    pub fn scheme(&self) -> Scheme {
        match self {
            Self::Openpgp(_) => Scheme::Openpgp,
            Self::Minisign(_) => Scheme::Minisign,
            Self::Signify(_) => Scheme::Signify,
            Self::Cosign(_) => Scheme::Cosign,
            Self::Sigstore(rule) => rule.scheme(),
            Self::Authenticode(_) => Scheme::Authenticode,
            Self::Cms(_) => Scheme::Cms,
        }
    }

    /// Returns the key that the rule was made from; `None` for a rule that is not made from a bare
    /// key.
    pub fn key_content(&self) -> Option<KeyFileContent> {
        match self {
            Self::Openpgp(rule) => Some(rule.key_content()),
            Self::Minisign(rule) => Some(rule.key_content()),
            Self::Signify(rule) => Some(rule.key_content()),
            Self::Cosign(rule) => Some(rule.key_content()),
            Self::Sigstore(_) | Self::Authenticode(_) | Self::Cms(_) => None,
        }
    }

    /// Verifies a file. `now` is used if no third party attests when the signature was made.
    pub fn judge(
        &self,
        subject: FileSubject<'_>,
        evidence: &SignatureEvidence,
        now: SystemTime,
    ) -> SignatureResult {
        match self {
            Self::Openpgp(rule) => openpgp::judge(rule, subject, evidence, now),
            Self::Minisign(rule) => minisign::judge(rule, subject, evidence),
            Self::Signify(rule) => signify::judge(rule, subject, evidence),
            Self::Cosign(rule) => cosign::judge(rule, subject, evidence),
            Self::Sigstore(rule) => sigstore::judge(rule, subject, evidence),
            Self::Authenticode(rule) => authenticode::judge(rule, subject, evidence, now),
            Self::Cms(rule) => cms::judge(rule, subject, evidence, now),
        }
    }
}
