//! What goes wrong between us and a shared cache, in words: who is silent, who refuses, and whether asking again can help.
//!
//! Pure. Shows no address of an answer, whose query may hold a token.

use std::time::Duration;

use super::Address;
use crate::fetch::client;
use crate::fetch::policy::Refusal;
use crate::fetch::registry;
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
    /// `cure`: what helps where the registry denies access.
    pub fn of(address: &Address, error: registry::Error, cure: &str) -> Self {
        use client::Fault as F;
        use registry::Error as E;
        let error_at = |fact: &str| Error::new(Kind::Fetch, fact).at(address);
        match (error.status(), error) {
            (_, E::Own(error)) => error.into(),
            (_, E::OtherBytes { expected, found }) => {
                let other = error_at("the shared cache sent bytes that do not match their digest");
                let other = other.of_kind(Kind::Unproved);
                Self::Refused(other.expected(expected).found(found))
            }
            (_, E::Http(F::Host(error))) => Self::Refused(error),
            (_, E::Http(F::Refused(refusal))) => Self::Refused(refused(&refusal, error_at)),
            (_, E::Http(F::TooLong { limit })) => {
                let error = error_at("an answer of the shared cache is too long");
                Self::Refused(error.expected(format!("{limit} bytes at most")))
            }
            (Some(401 | 403), error) | (_, error @ (E::Unauthorized | E::NoToken(_))) => {
                let denied = error_at("the shared cache denies access").found(error);
                Self::Refused(denied.cure(cure))
            }
            (Some(code), error) if error.is_passing() => {
                let error = error_at("the shared cache reports an error of its own");
                Self::Unreachable(error.found(format!("HTTP status {code}")))
            }
            (_, E::Http(F::Unanswered(e))) => {
                let error = error_at("the shared cache cannot be reached");
                Self::Unreachable(error.found(client::innermost(&e)))
            }
            (_, E::Http(F::Silent(limit))) => Self::silent(address, limit),
            (_, E::Http(fault @ (F::Broken(_) | F::Slow { .. }))) => {
                let broken = error_at("a transfer with the shared cache broke off");
                Self::Unreachable(broken.found(fault))
            }
            (_, error @ (E::Status(..) | E::Unexpected(_) | E::Lost(_))) => {
                Self::Refused(error_at("the shared cache sent an unexpected answer").found(error))
            }
        }
    }
}

impl Fault {
    /// Nothing came in this time.
    pub fn silent(address: &Address, limit: Duration) -> Self {
        let error = Error::new(Kind::Fetch, "the shared cache does not answer").at(address);
        Self::Unreachable(error.expected(format!("a byte within {} s", limit.as_secs_f64())))
    }
}

fn refused(refusal: &Refusal, error_at: impl Fn(&str) -> Error) -> Error {
    match refusal {
        Refusal::Redirect(words) => error_at("the shared cache redirects elsewhere").found(words),
        Refusal::Reach { .. } => error_at("the shared cache leads to an address near this machine")
            .found(refusal)
            .cure(Refusal::REACH_CURE),
        Refusal::Credentials { host } => {
            error_at("the shared cache asks for its password on another host")
                .expected("the registry's own host")
                .found(host)
                .cure(
                    "if that host gives the registry's tokens, name it in WINIMG_CACHE_TOKEN_HOST",
                )
        }
        Refusal::Insecure { scheme } => {
            let from = if scheme == "http" { "from https " } else { "" };
            error_at(&format!(
                "the shared cache leads {from}to {scheme}, which is not followed"
            ))
        }
    }
}
