//! What goes wrong between us and a shared cache, in words: who is silent, who refuses, and whether asking again can help.
//!
//! Pure. Shows no address of an answer, whose query may hold a token.

use super::Address;
use crate::fetch::registry::{self, Refusal};
use winimg_base::error::{Error, Kind};

/// Why something did not come or go.
pub enum Fault {
    Cancelled,
    /// No answer, or one that broke off.
    Unreachable(Error),
    /// It answered, and that is of no use.
    Refused(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::Cancelled => Self::Cancelled,
            _ => Self::Refused(error),
        }
    }
}

impl Fault {
    pub fn of(address: &Address, error: registry::Error) -> Self {
        use registry::Error as E;
        let error_at = |fact: &str| Error::new(Kind::Fetch, fact).at(address);
        match (error.status(), error) {
            (_, E::Own(error)) => error.into(),
            (_, E::OtherBytes { expected, found }) => {
                let other = error_at("the shared cache sent bytes that do not match their digest");
                let other = other.of_kind(Kind::Unproved);
                Self::Refused(other.expected(expected).found(found))
            }
            (_, E::Refused(refusal)) => Self::Refused(refused(refusal, error_at)),
            (Some(401 | 403), error) | (_, error @ (E::Unauthorized | E::NoToken(_))) => {
                let denied = error_at("the shared cache denies access").found(error);
                Self::Refused(denied.cure(
                    "set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or `docker login` to the registry",
                ))
            }
            (Some(code), _) if code >= 500 || code == 429 => {
                let error = error_at("the shared cache reports an error of its own");
                Self::Unreachable(error.found(format!("HTTP status {code}")))
            }
            (_, E::Request(e)) if e.is_redirect() => {
                let error = error_at("the shared cache redirects elsewhere");
                Self::Refused(error.found(E::Request(e)))
            }
            (_, error @ E::Request(_)) => {
                Self::Unreachable(error_at("the shared cache cannot be reached").found(error))
            }
            (_, error @ E::Broken(_)) => {
                let broken = error_at("a transfer with the shared cache broke off");
                Self::Unreachable(broken.found(error))
            }
            (_, error @ (E::Status(..) | E::Unexpected(_))) => {
                Self::Refused(error_at("the shared cache sent an unexpected answer").found(error))
            }
        }
    }
}

fn refused(refusal: Refusal, error_at: impl Fn(&str) -> Error) -> Error {
    match refusal {
        Refusal::Credentials { host } => {
            error_at("the shared cache asks for its password on another host")
                .expected("the registry's own host")
                .found(host)
                .cure(
                    "if that host gives the registry's tokens, name it in WINIMG_CACHE_TOKEN_HOST",
                )
        }
        Refusal::Insecure { scheme } => error_at(&format!(
            "the shared cache leads from https to {scheme}, which is not followed"
        )),
        Refusal::TooLong { limit } => error_at("an answer of the shared cache is too long")
            .expected(format!("{limit} bytes at most")),
    }
}
