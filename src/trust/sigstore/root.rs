//! The trust root: whose certificates, logs and timestamps count. Refuses a root that could never prove a signature.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sigstore_trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_types::LogKeyId;
use sigstore_verify::Verifier;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::{LIMIT, shown};
use crate::digest::Digest;

/// As sigstore/protobuf-specs `sigstore_trustroot.proto` names it, without the version.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.trustedroot";

/// A trust root, parsed once.
#[derive(Clone)]
pub(super) struct TrustRoot {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    root: TrustedRoot,
    verifier: Verifier,
    /// The subjects of the certificate authorities' certificates, leaf-most first.
    authorities: Vec<String>,
}

impl fmt::Debug for TrustRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustRoot({self})")
    }
}

impl fmt::Display for TrustRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.name)
    }
}

impl TrustRoot {
    /// Of Sigstore's public good instance, as the library ships it.
    pub(super) fn public_good() -> Result<Self, String> {
        static ROOT: OnceLock<Result<TrustRoot, String>> = OnceLock::new();
        ROOT.get_or_init(|| {
            TrustRoot::parse(
                SIGSTORE_PRODUCTION_TRUSTED_ROOT,
                "Sigstore's public good trust root".into(),
            )
        })
        .clone()
    }

    /// The error fits after "the trust root".
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > LIMIT {
            return Err(format!("is longer than {LIMIT} bytes"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_string())?;
        let text = text.trim_start_matches('\u{feff}');
        Self::parse(text, format!("trust root {}", Digest::sha256_of(bytes)))
    }

    fn parse(text: &str, name: String) -> Result<Self, String> {
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
        let authorities = authorities(&root);
        Ok(Self {
            inner: Arc::new(Inner {
                name,
                root,
                verifier,
                authorities,
            }),
        })
    }

    pub(super) fn verifier(&self) -> &Verifier {
        &self.inner.verifier
    }

    pub(super) fn trusted(&self) -> &TrustedRoot {
        &self.inner.root
    }

    /// Whether an authority bears this name: what a message says, never what is trusted.
    pub(super) fn names_authority(&self, name: &str) -> bool {
        self.inner.authorities.iter().any(|a| a == name)
    }

    pub(super) fn authorities(&self) -> String {
        self.inner.authorities.join("; ")
    }

    pub(super) fn names_log(&self, id: &LogKeyId) -> bool {
        self.inner.root.tlogs.iter().any(|l| l.log_id.key_id == *id)
    }

    pub(super) fn names_ct_log(&self, id: &[u8]) -> bool {
        let mut logs = self.inner.root.ctlogs.iter();
        logs.any(|l| l.log_id.key_id.as_bytes() == id)
    }

    /// The logs' addresses.
    pub(super) fn logs(&self) -> String {
        let logs = self.inner.root.tlogs.iter();
        logs.map(|l| shown(&l.base_url))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn authorities(root: &TrustedRoot) -> Vec<String> {
    let mut names = Vec::new();
    let certificates = root
        .certificate_authorities
        .iter()
        .flat_map(|ca| &ca.cert_chain.certificates);
    for certificate in certificates {
        let Ok(certificate) = Certificate::from_der(certificate.raw_bytes.as_bytes()) else {
            continue;
        };
        let name = shown(certificate.tbs_certificate.subject);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
