//! The trust root: the accepted authorities, logs and timestamps. Refuses a root that cannot verify
//! any signature.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sigstore_trust_root::trusted_root::PublicKey;
use sigstore_trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_types::LogKeyId;
use sigstore_verify::Verifier;

use super::certificate::FulcioAuthority;
use super::{MAX_EVIDENCE_SIZE, sanitize};
use winimg_base::digest::Digest;

/// Media type from sigstore/protobuf-specs `sigstore_trustroot.proto`, without the version.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.trustedroot";

/// A trust root, parsed once.
pub(super) struct TrustRoot {
    name: String,
    pub(super) trusted: TrustedRoot,
    pub(super) verifier: Verifier,
    /// In the order of the file: those that issue to signers first.
    authorities: Vec<FulcioAuthority>,
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
    /// Returns the trust root of Sigstore's public good instance, which the library ships.
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

    /// Parses a trust root. The error fits after "the trust root".
    pub(super) fn read(bytes: &[u8]) -> Result<Arc<Self>, String> {
        if bytes.len() > MAX_EVIDENCE_SIZE {
            return Err(format!("exceeds {MAX_EVIDENCE_SIZE} bytes"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_string())?;
        let text = text.trim_start_matches('\u{feff}');
        Self::parse(text, format!("trust root {}", Digest::sha256_of(bytes)))
    }

    fn parse(text: &str, name: String) -> Result<Arc<Self>, String> {
        let root = TrustedRoot::from_json(text)
            .map_err(|e| format!("is not a trusted_root.json: {}", sanitize(e)))?;
        if !root.media_type.starts_with(MEDIA_TYPE) {
            return Err(format!(
                "is not a trusted_root.json: its media type is `{}`, not `{MEDIA_TYPE}…`",
                sanitize(&root.media_type)
            ));
        }
        let missing: Vec<&str> = [
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
        .filter_map(|(is_missing, what)| is_missing.then_some(what))
        .collect();
        if !missing.is_empty() {
            return Err(format!(
                "has no {}, so it cannot verify any signature",
                missing.join(", no ")
            ));
        }
        let verifier =
            Verifier::new(&root).map_err(|e| format!("cannot be used: {}", sanitize(e)))?;
        Ok(Arc::new(Self {
            name,
            authorities: collect_authorities(&root),
            trusted: root,
            verifier,
        }))
    }

    /// Returns true if the root contains this authority, by name and key. Only used in messages,
    /// never for trust.
    pub(super) fn names_authority(&self, authority: &FulcioAuthority) -> bool {
        self.authorities.iter().any(|a| a.may_be(authority))
    }

    pub(super) fn describe_authorities(&self) -> String {
        let names: Vec<String> = self
            .authorities
            .iter()
            .map(FulcioAuthority::to_string)
            .collect();
        names.join("; ")
    }

    /// Returns the key of a transparency log in the root.
    pub(super) fn log(&self, id: &LogKeyId) -> Option<&PublicKey> {
        let mut logs = self.trusted.tlogs.iter();
        logs.find(|l| l.log_id.key_id == *id).map(|l| &l.public_key)
    }

    /// Returns the key of a certificate transparency log in the root.
    pub(super) fn ct_log(&self, id: &[u8]) -> Option<&PublicKey> {
        let mut logs = self.trusted.ctlogs.iter();
        logs.find(|l| l.log_id.key_id.as_bytes() == id)
            .map(|l| &l.public_key)
    }

    /// Returns the logs' addresses.
    pub(super) fn describe_logs(&self) -> String {
        let logs: Vec<String> = self
            .trusted
            .tlogs
            .iter()
            .map(|log| sanitize(&log.base_url))
            .collect();
        logs.join(", ")
    }
}

fn collect_authorities(root: &TrustedRoot) -> Vec<FulcioAuthority> {
    let mut found = Vec::new();
    let certificates = root
        .certificate_authorities
        .iter()
        .flat_map(|ca| &ca.cert_chain.certificates);
    for authority in certificates.filter_map(|c| FulcioAuthority::from_certificate(&c.raw_bytes)) {
        if !found.contains(&authority) {
            found.push(authority);
        }
    }
    found
}
