//! The trust root: whose certificates, logs and timestamps count. Refuses a root that could never prove a signature.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sigstore_trust_root::trusted_root::PublicKey;
use sigstore_trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_types::LogKeyId;
use sigstore_verify::Verifier;

use super::certificate::Authority;
use super::{LIMIT, shown};
use winimg_base::digest::Digest;

/// As sigstore/protobuf-specs `sigstore_trustroot.proto` names it, without the version.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.trustedroot";

/// A trust root, parsed once.
pub(super) struct TrustRoot {
    name: String,
    pub(super) trusted: TrustedRoot,
    pub(super) verifier: Verifier,
    /// As in the file: those that issue to signers first.
    authorities: Vec<Authority>,
}

impl fmt::Debug for TrustRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustRoot({self})")
    }
}

impl fmt::Display for TrustRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl TrustRoot {
    /// Of Sigstore's public good instance, as the library ships it.
    pub(super) fn public_good() -> Result<Arc<Self>, String> {
        static ROOT: OnceLock<Result<Arc<TrustRoot>, String>> = OnceLock::new();
        ROOT.get_or_init(|| {
            TrustRoot::parse(
                SIGSTORE_PRODUCTION_TRUSTED_ROOT,
                "Sigstore's public good trust root".into(),
            )
        })
        .clone()
    }

    /// The error fits after "the trust root".
    pub(super) fn read(bytes: &[u8]) -> Result<Arc<Self>, String> {
        if bytes.len() > LIMIT {
            return Err(format!("is longer than {LIMIT} bytes"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_string())?;
        let text = text.trim_start_matches('\u{feff}');
        Self::parse(text, format!("trust root {}", Digest::sha256_of(bytes)))
    }

    fn parse(text: &str, name: String) -> Result<Arc<Self>, String> {
        let root = TrustedRoot::from_json(text)
            .map_err(|e| format!("is not a trusted_root.json: {}", shown(e)))?;
        if !root.media_type.starts_with(MEDIA_TYPE) {
            return Err(format!(
                "is not a trusted_root.json: its media type is `{}`, and not `{MEDIA_TYPE}…`",
                shown(&root.media_type)
            ));
        }
        let lacks: Vec<&str> = [
            (
                root.certificate_authorities.is_empty(),
                "certificate authority (Fulcio)",
            ),
            (
                root.ctlogs.is_empty(),
                "certificate transparency log (ctlogs)",
            ),
            (root.tlogs.is_empty(), "transparency log (Rekor)"),
        ]
        .into_iter()
        .filter_map(|(lacking, what)| lacking.then_some(what))
        .collect();
        if !lacks.is_empty() {
            return Err(format!(
                "names no {}: no signature could be proved by it",
                lacks.join(", no ")
            ));
        }
        let verifier = Verifier::new(&root).map_err(|e| format!("cannot be used: {}", shown(e)))?;
        Ok(Arc::new(Self {
            name,
            authorities: authorities(&root),
            trusted: root,
            verifier,
        }))
    }

    /// Whether the root knows this authority by name and key: what a message says, never what is trusted.
    pub(super) fn names_authority(&self, authority: &Authority) -> bool {
        self.authorities.iter().any(|a| a.may_be(authority))
    }

    pub(super) fn authorities(&self) -> String {
        let names = self.authorities.iter().map(Authority::to_string);
        names.collect::<Vec<_>>().join("; ")
    }

    /// The key of a transparency log that the root names.
    pub(super) fn log(&self, id: &LogKeyId) -> Option<&PublicKey> {
        let mut logs = self.trusted.tlogs.iter();
        logs.find(|l| l.log_id.key_id == *id).map(|l| &l.public_key)
    }

    /// The key of a certificate transparency log that the root names.
    pub(super) fn ct_log(&self, id: &[u8]) -> Option<&PublicKey> {
        let mut logs = self.trusted.ctlogs.iter();
        logs.find(|l| l.log_id.key_id.as_bytes() == id)
            .map(|l| &l.public_key)
    }

    /// The logs' addresses.
    pub(super) fn logs(&self) -> String {
        let logs = self.trusted.tlogs.iter();
        logs.map(|l| shown(&l.base_url))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn authorities(root: &TrustedRoot) -> Vec<Authority> {
    let mut found = Vec::new();
    let certificates = root
        .certificate_authorities
        .iter()
        .flat_map(|ca| &ca.cert_chain.certificates);
    for authority in certificates.filter_map(|c| Authority::of(&c.raw_bytes)) {
        if !found.contains(&authority) {
            found.push(authority);
        }
    }
    found
}
