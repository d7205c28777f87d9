//! What goes wrong between us and a registry, in words: who is silent, who refuses, and whether asking again can help.
//!
//! Pure. Shows no address of the library's errors, whose query may hold a token.

use oci_client::errors::OciDistributionError;

use super::Address;
use crate::fetch::registry::answer::{other_bytes, shown, status};
use crate::fetch::registry::{Refusal, refusal};
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
    /// What the library reports, as ours.
    pub fn of(address: &Address, error: &OciDistributionError) -> Self {
        use OciDistributionError as E;
        let told = |fact: &str| Error::new(Kind::Fetch, fact).at(address);
        if other_bytes(error) {
            let other = told("the shared cache gives other bytes than their digest says");
            return Self::Refused(other.of_kind(Kind::Unproved).found(shown(error)));
        }
        match refusal(error) {
            Some(Refusal::Credentials { host }) => {
                let fact = "the shared cache wants its password at a host that is not its own";
                return Self::Refused(told(fact).expected("the registry's own host").found(host).cure(
                    "if that host gives the registry's tokens, name it in WINIMG_CACHE_TOKEN_HOST",
                ));
            }
            Some(Refusal::Insecure { scheme }) => {
                let fact =
                    format!("the shared cache leads from https to {scheme}, which is not followed");
                return Self::Refused(told(&fact));
            }
            Some(Refusal::TooLong { limit }) => {
                let error = told("an answer of the shared cache is too long");
                return Self::Refused(error.expected(format!("{limit} bytes at most")));
            }
            None => {}
        }
        match (error, status(error)) {
            (_, Some(401 | 403)) | (E::AuthenticationFailure(_) | E::UnauthorizedError { .. }, _) => {
                Self::Refused(told("the shared cache does not let us in").found(words(error)).cure(
                    "set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or `docker login` to the registry",
                ))
            }
            (_, Some(code)) if code >= 500 || code == 429 => {
                let error = told("the shared cache is out of order");
                Self::Unreachable(error.found(format!("HTTP status {code}")))
            }
            (E::RequestError(e), None) if e.is_redirect() => {
                let error = told("the shared cache leads elsewhere");
                Self::Refused(error.found(crate::fetch::failure::innermost(e)))
            }
            (E::RequestError(e), None) => {
                let error = told("the shared cache cannot be reached");
                Self::Unreachable(error.found(crate::fetch::failure::innermost(e)))
            }
            (E::IoError(e), _) => {
                let error = told("a transfer with the shared cache broke off");
                Self::Unreachable(error.found(innermost(e)))
            }
            _ => Self::Refused(told("the shared cache answers out of turn").found(words(error))),
        }
    }
}

/// The library's words without the address, whose query may hold a token.
fn words(error: &OciDistributionError) -> String {
    match (error, status(error)) {
        (OciDistributionError::RegistryError { .. }, _) | (_, None) => shown(error),
        (_, Some(code)) => format!("HTTP status {code}"),
    }
}

fn innermost(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref());
    inner.map_or_else(|| error.to_string(), crate::fetch::failure::innermost)
}
