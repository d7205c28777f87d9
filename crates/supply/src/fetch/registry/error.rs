//! Errors of requests to a registry. Shows no address, since its query may contain a token.

use std::fmt;

use oci_client::errors::{OciEnvelope, OciErrorCode};
use reqwest::StatusCode;

use crate::fetch::client::HttpFault;
use crate::fetch::failure::is_passing;
use crate::fetch::policy::UrlRefusal;
use winimg_base::digest::Digest;
use winimg_base::display_text;

/// Reason why a request to a registry failed.
#[derive(Debug)]
pub enum RegistryError {
    /// No answer, or only a part of it.
    Http(HttpFault),
    /// The received bytes do not match their digest.
    OtherBytes { expected: Digest, found: Digest },
    /// The registry requires a login.
    Unauthorized,
    /// The token server gave no token; its answer.
    NoToken(String),
    /// An error status, with its body if that is JSON.
    Status(StatusCode, Option<OciEnvelope>),
    /// An answer outside of the specification.
    Unexpected(String),
    /// It accepted something with this status, but does not have it.
    Lost(StatusCode),
    /// A local error: a full disk, an interrupt.
    Own(winimg_base::error::Error),
}

impl From<UrlRefusal> for RegistryError {
    fn from(refusal: UrlRefusal) -> Self {
        Self::Http(refusal.into())
    }
}

impl From<HttpFault> for RegistryError {
    fn from(fault: HttpFault) -> Self {
        Self::Http(fault)
    }
}

impl From<winimg_base::error::Error> for RegistryError {
    fn from(error: winimg_base::error::Error) -> Self {
        Self::Own(error)
    }
}

const ABSENT: [OciErrorCode; 5] = [
    OciErrorCode::NameUnknown,
    OciErrorCode::ManifestUnknown,
    OciErrorCode::BlobUnknown,
    OciErrorCode::ManifestBlobUnknown,
    OciErrorCode::NotFound,
];

impl RegistryError {
    /// Returns the status of an error; the codes of a JSON body take precedence (OCI Distribution
    /// Specification: error codes).
    pub fn status(&self) -> Option<u16> {
        let envelope = match self {
            Self::Status(status, None) => return Some(status.as_u16()),
            Self::Status(_, Some(envelope)) => envelope,
            _ => return None,
        };
        if has_code(
            envelope,
            &[OciErrorCode::Unauthorized, OciErrorCode::Denied],
        ) {
            Some(403)
        } else if has_code(envelope, &[OciErrorCode::Toomanyrequests]) {
            Some(429)
        } else if has_code(envelope, &ABSENT) {
            Some(404)
        } else {
            None
        }
    }

    /// Returns true if the requested object does not exist.
    pub fn is_absent(&self) -> bool {
        self.status() == Some(404)
    }

    /// Returns true if a retry makes sense: the server has a problem or asks for a pause.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Http(HttpFault::Refused(_) | HttpFault::TooLong { .. } | HttpFault::Host(_)) => {
                false
            }
            Self::Http(_) | Self::Lost(_) => true,
            _ => {
                let status = self
                    .status()
                    .and_then(|code| StatusCode::from_u16(code).ok());
                status.is_some_and(is_passing)
            }
        }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Http(fault) => return fault.fmt(f),
            Self::OtherBytes { expected, found } => {
                return write!(f, "the bytes are {found}, not {expected}");
            }
            Self::Unauthorized => "not authorized".into(),
            Self::NoToken(words) => format!("the token server gave no token: {words}"),
            Self::Status(status, None) => format!("HTTP status {}", status.as_u16()),
            Self::Status(_, Some(envelope)) => {
                let errors = envelope.errors.iter();
                let errors = errors.map(|e| format!("{:?} {}", e.code, e.message));
                errors.collect::<Vec<_>>().join("; ")
            }
            Self::Unexpected(words) => words.clone(),
            Self::Lost(status) => {
                format!("it answered {} but does not have it", status.as_u16())
            }
            Self::Own(error) => error.fact().into(),
        };
        f.write_str(&shorten(&words))
    }
}

fn has_code(envelope: &OciEnvelope, wanted: &[OciErrorCode]) -> bool {
    envelope.errors.iter().any(|e| wanted.contains(&e.code))
}

/// Shortens a registry's text to one line of limited length.
fn shorten(words: &str) -> String {
    const MAX_MESSAGE_LEN: usize = 300;
    let words = display_text::sanitize_line(words);
    match words.char_indices().nth(MAX_MESSAGE_LEN) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}
