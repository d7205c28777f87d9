//! What the library's errors say of a registry's answer. Shows no address, whose query may hold a token.

use oci_client::errors::{OciDistributionError, OciErrorCode};

pub fn other_bytes(error: &OciDistributionError) -> bool {
    matches!(error, OciDistributionError::DigestError(_))
}

const ABSENT: [OciErrorCode; 5] = [
    OciErrorCode::NameUnknown,
    OciErrorCode::ManifestUnknown,
    OciErrorCode::BlobUnknown,
    OciErrorCode::ManifestBlobUnknown,
    OciErrorCode::NotFound,
];

/// What an answer's status or, with an error in JSON, its code says (OCI Distribution Specification: error codes).
pub fn status(error: &OciDistributionError) -> Option<u16> {
    match error {
        OciDistributionError::ServerError { code, .. } => Some(*code),
        OciDistributionError::RequestError(e) => e.status().map(|status| status.as_u16()),
        OciDistributionError::RegistryError { envelope, .. } => {
            let codes: Vec<&OciErrorCode> = envelope.errors.iter().map(|e| &e.code).collect();
            let says = |wanted: &[OciErrorCode]| codes.iter().any(|code| wanted.contains(code));
            match () {
                () if says(&[OciErrorCode::Unauthorized, OciErrorCode::Denied]) => Some(403),
                () if says(&[OciErrorCode::Toomanyrequests]) => Some(429),
                () if says(&ABSENT) => Some(404),
                () => None,
            }
        }
        _ => None,
    }
}

/// There is no such thing.
pub fn is_absent(error: &OciDistributionError) -> bool {
    status(error) == Some(404)
}

/// The library's words without the URL, whose query may hold a token.
pub fn shown(error: &OciDistributionError) -> String {
    match error {
        OciDistributionError::RequestError(e) => crate::fetch::failure::innermost(e),
        OciDistributionError::ServerError { code, .. } => format!("HTTP status {code}"),
        OciDistributionError::UnauthorizedError { .. } => "not authorized".into(),
        OciDistributionError::RegistryError { envelope, .. } => {
            let errors = envelope
                .errors
                .iter()
                .map(|e| format!("{:?} {}", e.code, e.message));
            short(&errors.collect::<Vec<_>>().join("; "))
        }
        other => short(&other.to_string()),
    }
}

/// A registry may say more than a message has room for.
fn short(words: &str) -> String {
    const LONGEST: usize = 300;
    match words.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words.to_owned(),
    }
}
