//! Sigstore, keyless.

use super::{Evidence, Judged, Reason, Refusal, Scheme, Subject};

#[derive(Clone, Debug)]
pub struct Rule {
    pub identity: String,
    pub issuer: String,
    /// The predicate type of an attestation; `None`: a signature of the file itself.
    pub attestation: Option<String>,
}

impl Rule {
    /// `trusted_root`: a `trusted_root.json`; the public good instance's unless given. The error fits after "the trust root".
    pub fn new(
        identity: &str,
        issuer: &str,
        attestation: Option<&str>,
        _trusted_root: Option<&[u8]>,
    ) -> Result<Self, String> {
        Ok(Self {
            identity: identity.into(),
            issuer: issuer.into(),
            attestation: attestation.map(Into::into),
        })
    }

    pub fn scheme(&self) -> Scheme {
        match self.attestation {
            Some(_) => Scheme::Attestation,
            None => Scheme::Sigstore,
        }
    }
}

pub fn judge(_rule: &Rule, _subject: Subject<'_>, _evidence: &Evidence) -> Judged {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}
