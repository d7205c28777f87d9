//! Errors of a shared cache: no answer, a refusal, and whether a retry can help.
//!
//! Pure. Shows no address of an answer, since its query may contain a token.

use std::time::Duration;

use super::CacheAddress;
use crate::fetch::client;
use crate::fetch::policy::UrlRefusal;
use crate::fetch::registry;
use winimg_base::error::{Error, Kind};

/// Reason why a transfer failed.
pub enum CacheFault {
    Cancelled,
    /// No answer, or an interrupted one.
    Unreachable(Error),
    /// An answer that is of no use.
    Refused(Error),
}

impl From<Error> for CacheFault {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::Cancelled => Self::Cancelled,
            _ => Self::Refused(error),
        }
    }
}

impl CacheFault {
    /// Converts a registry's error. `cure`: the cure if the registry denies access.
    pub fn from_registry(
        address: &CacheAddress,
        error: registry::RegistryError,
        cure: &str,
    ) -> Self {
        use client::HttpFault as F;
        use registry::RegistryError as E;

        match (error.status(), error) {
            (_, E::Own(error)) => error.into(),
            (_, E::OtherBytes { expected, found }) => {
                let fact = "the shared cache sent bytes that do not match their digest";
                let other = error_at(address, fact).with_kind(Kind::Unproved);
                Self::Refused(other.expected(expected).found(found))
            }
            (_, E::Http(F::Host(error))) => Self::Refused(error),
            (_, E::Http(F::Refused(refusal))) => Self::Refused(convert_refusal(&refusal, address)),
            (_, E::Http(F::TooLong { limit })) => {
                let error = error_at(address, "an answer of the shared cache is too long");
                Self::Refused(error.expected(format!("{limit} bytes at most")))
            }
            (Some(401 | 403), error) | (_, error @ (E::Unauthorized | E::NoToken(_))) => {
                let denied = error_at(address, "the shared cache denies access").found(error);
                Self::Refused(denied.cure(cure))
            }
            (Some(code), error) if error.is_passing() => {
                let error = error_at(address, "the shared cache has an internal error");
                Self::Unreachable(error.found(format!("HTTP status {code}")))
            }
            (_, E::Http(F::Unanswered(e))) => {
                let error = error_at(address, "the shared cache cannot be reached");
                Self::Unreachable(error.found(client::find_root_cause(&e)))
            }
            (_, E::Http(F::Silent(limit))) => Self::from_timeout(address, limit),
            (_, E::Http(fault @ (F::Broken(_) | F::Slow { .. }))) => {
                let broken = error_at(address, "a transfer with the shared cache was interrupted");
                Self::Unreachable(broken.found(fault))
            }
            (_, error @ (E::Status(..) | E::Unexpected(_) | E::Lost(_))) => {
                let unexpected = error_at(address, "the shared cache sent an unexpected answer");
                Self::Refused(unexpected.found(error))
            }
        }
    }
}

impl CacheFault {
    /// Creates the fault for a cache that sent nothing in `limit`.
    pub fn from_timeout(address: &CacheAddress, limit: Duration) -> Self {
        let error = Error::new(Kind::Fetch, "the shared cache does not answer").at(address);
        Self::Unreachable(error.expected(format!("a byte within {} s", limit.as_secs_f64())))
    }
}

fn error_at(address: &CacheAddress, fact: &str) -> Error {
    Error::new(Kind::Fetch, fact).at(address)
}

fn convert_refusal(refusal: &UrlRefusal, address: &CacheAddress) -> Error {
    match refusal {
        UrlRefusal::Redirect(words) => {
            error_at(address, "the shared cache redirects elsewhere").found(words)
        }
        UrlRefusal::Reach { .. } => {
            let fact = "the shared cache redirects to an address near this machine";
            error_at(address, fact)
                .found(refusal)
                .cure(UrlRefusal::REACH_CURE)
        }
        UrlRefusal::Credentials { host } => error_at(
            address,
            "the shared cache asks for its password on another host",
        )
        .expected("the registry's own host")
        .found(host)
        .cure(
            "if that host is the registry's token server, name it in \
                     WINIMG_CACHE_TOKEN_HOST",
        ),
        UrlRefusal::Insecure { scheme } => {
            let from = if scheme == "http" { "from https " } else { "" };
            let fact =
                format!("the shared cache redirects {from}to {scheme}, which is not followed");
            error_at(address, &fact)
        }
    }
}
