//! Signatures: whose word a file has, and whether it is still that word.
//!
//! Each scheme is a module with a `Rule` (the pins that a recipe named, already parsed) and a `judge`. Judging is pure
//! but for reading the file itself: no network, no clock of its own, no trust that the recipe did not name. Cryptography
//! is the libraries' (aws-lc-rs, rustls-webpki, rPGP, sigstore); what stands here reads formats and applies policy.
//! Refuses MD5 and SHA-1 everywhere.

pub mod authenticode;
pub mod checksum;
pub mod cms;
pub mod cosign;
pub mod minisign;
pub mod misused;
pub mod openpgp;
pub mod pinned;
pub mod place;
mod reading;
pub mod roots;
pub mod short;
pub mod signify;
pub mod sigstore;

mod algorithm;
mod ber;
mod certificate;
mod chain;
mod hash;
mod moment;
mod name;
mod oid;
mod pem;
mod policy;
mod purpose;
mod revocation;
mod signed_data;
mod timestamp;
mod tlv;

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::problem::Problem;

pub use pinned::Pinned;

/// What has to hold of one signature: a scheme and the pins that the recipe names for it.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Detached, armoured or binary.
    Openpgp(openpgp::Rule),
    Minisign(minisign::Rule),
    Signify(signify::Rule),
    /// A signature of `cosign sign-blob --key`, bare or in a bundle.
    Cosign(cosign::Rule),
    /// Keyless: an identity and its issuer, by a bundle or an attestation.
    Sigstore(sigstore::Rule),
    /// Inside the file itself (PE, MSI, CAB, PowerShell), or by a catalog.
    Authenticode(authenticode::Rule),
    /// Detached CMS (RFC 5652).
    Cms(cms::Rule),
}

/// The file that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub path: &'a Path,
    /// As it is kept, so as it is used: `kubelet.exe`.
    pub name: &'a str,
    /// As its publisher calls it, where it is kept under another name: `kubelet-1.33.0.exe`.
    pub published: &'a str,
    /// SHA-256 of the whole file.
    pub digest: &'a Digest,
}

/// What was published beside the file. Empty for what is signed inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The signature, bundle, attestation or catalog.
    pub signature: Option<Vec<u8>>,
    /// The certificate of a keyless signature that is not a bundle.
    pub certificate: Option<Vec<u8>>,
    /// The transparency log's answer about that signature, as JSON.
    pub log_entry: Option<Vec<u8>>,
    /// What the issuers of certificates have revoked.
    pub lists: Option<Lists>,
}

/// Lists of revoked certificates (CRLs), DER or PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    pub lists: Vec<Vec<u8>>,
    /// They are the ones that a lock names: how old they may be was judged when it was made.
    pub are_locked: bool,
}

/// The schemes, by the names that a recipe calls them.
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

impl Subject<'_> {
    /// Whether a name that somebody signed is this file's.
    fn is_called(&self, name: &str) -> bool {
        [self.name, self.published]
            .into_iter()
            .any(|own| last_segment(own).eq_ignore_ascii_case(last_segment(name)))
    }
}

/// `a.exe` of `bin/a.exe`.
fn last_segment(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A signature that met its rule, as lock, manifest, SBOM and provenance record it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Signer {
    pub scheme: Scheme,
    /// The key's fingerprint, the certificate's subject, or the identity.
    pub signer: String,
    /// The pins that it met: `key RWQ…`, `root sha256:… (CN=…), subject CN=…`, `identity … of issuer …`.
    pub pinned_by: String,
    /// RFC 3339, UTC: when a third party saw the signature (timestamp authority, transparency log). Absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_at: Option<String>,
    /// What a reader should know: that the certificate was judged by the time of the build, for example.
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

/// Why a signature was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There is none.
    Missing,
    /// It cannot be read, or is cut off.
    Malformed,
    /// It is of other bytes than these.
    Changed,
    /// It was made with another key.
    OtherKey,
    /// The certificate or key had expired when it was used.
    Expired,
    NotYetValid,
    Revoked,
    /// The chain does not end at a root that the recipe names; a self-signed leaf is one of these.
    OtherRoot,
    /// The subject, EKU, issuer certificate, or keyless identity is another.
    OtherIdentity,
    /// The identity was vouched for by another issuer.
    OtherIssuer,
    /// A certificate or key that is not for this use, such as a TLS server's.
    WrongUse,
    /// MD5, SHA-1, a short RSA key.
    Weak,
    /// Bytes that no signature covers stand in the file.
    Uncovered,
    /// No third party says when it was made, and the rule asks for that.
    NoTimestamp,
    /// No transparency log proves it.
    NotLogged,
    /// It speaks of a file of another name.
    OtherName,
    /// It is of another program of the same publisher, or of an older one.
    OtherProduct,
    /// This kind of file or signature is not one that winimg can judge.
    Unsupported,
}

/// A signature that was not taken: why, in words that fit after "the signature of kubelet: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub problem: Problem,
}

impl Reason {
    /// `fact` is one sentence without a full stop.
    pub fn refusal(self, fact: impl Into<String>) -> Refusal {
        Refusal {
            reason: self,
            problem: Problem::new(fact),
        }
    }
}

impl Refusal {
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
}

pub type Judged = Result<Signer, Refusal>;

impl Rule {
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

    /// Judges one file. `now` stands in where no third party says when the signature was made.
    pub fn judge(&self, subject: Subject<'_>, evidence: &Evidence, now: SystemTime) -> Judged {
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
