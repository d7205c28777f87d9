//! What goes wrong between us and a registry. Shows no address, whose query may hold a token.

use std::fmt;

use oci_client::errors::{OciEnvelope, OciErrorCode};
use reqwest::StatusCode;

use crate::fetch::client::Fault;
use crate::fetch::failure::is_passing;
use crate::fetch::policy::Refusal;
use winimg_base::digest::Digest;
use winimg_base::unseen;

/// Why a request to a registry failed.
#[derive(Debug)]
pub enum Error {
    /// No answer, or not the whole of it.
    Http(Fault),
    /// The bytes that came are not those of the digest.
    OtherBytes { expected: Digest, found: Digest },
    /// The registry wants to know who asks.
    Unauthorized,
    /// The host that gives its tokens gives none, with its words.
    NoToken(String),
    /// Another status than a good one, with what it says where that is JSON.
    Status(StatusCode, Option<OciEnvelope>),
    /// An answer that the specification does not have.
    Unexpected(String),
    /// It took something with this status, and does not have it.
    Lost(StatusCode),
    /// It went wrong here: no room, an interrupt.
    Own(winimg_base::error::Error),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Http(refusal.into())
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Http(fault)
    }
}

impl From<winimg_base::error::Error> for Error {
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

impl Error {
    /// An answer's status; an error in JSON says it by its codes (OCI Distribution Specification: error codes).
    pub fn status(&self) -> Option<u16> {
        let envelope = match self {
            Self::Status(status, None) => return Some(status.as_u16()),
            Self::Status(_, Some(envelope)) => envelope,
            _ => return None,
        };
        let says = |wanted: &[OciErrorCode]| {
            let mut codes = envelope.errors.iter().map(|e| &e.code);
            codes.any(|code| wanted.contains(code))
        };
        match () {
            () if says(&[OciErrorCode::Unauthorized, OciErrorCode::Denied]) => Some(403),
            () if says(&[OciErrorCode::Toomanyrequests]) => Some(429),
            () if says(&ABSENT) => Some(404),
            () => None,
        }
    }

    /// There is no such thing.
    pub fn is_absent(&self) -> bool {
        self.status() == Some(404)
    }

    /// The server has a problem or asks for a pause: another try makes sense.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Http(Fault::Refused(_) | Fault::TooLong { .. } | Fault::Host(_)) => false,
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Http(fault) => return fault.fmt(f),
            Self::OtherBytes { expected, found } => {
                return write!(f, "the bytes have {found} and not {expected}");
            }
            Self::Unauthorized => "not authorized".into(),
            Self::NoToken(words) => format!("no token was given: {words}"),
            Self::Status(status, None) => format!("HTTP status {}", status.as_u16()),
            Self::Status(_, Some(envelope)) => {
                let errors = envelope.errors.iter();
                let errors = errors.map(|e| format!("{:?} {}", e.code, e.message));
                errors.collect::<Vec<_>>().join("; ")
            }
            Self::Unexpected(words) => words.clone(),
            Self::Lost(status) => {
                format!("it answered {} and does not have it", status.as_u16())
            }
            Self::Own(error) => error.fact().into(),
        };
        f.write_str(&short(&words))
    }
}

/// A registry may say more than a message has room for, in lines of its own.
fn short(words: &str) -> String {
    const LONGEST: usize = 300;
    let words = unseen::line(words);
    match words.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}
