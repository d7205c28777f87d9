//! What went wrong with a try, and whether another one makes sense.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use url::Url;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

use winimg_base::text::{Place, redact};

use super::FetchOptions;
use super::client::{Fault, causes, innermost};
use super::policy::Refusal;

/// Why a try ended.
pub(crate) enum Failure {
    Final(Error),
    /// Worth another try, no sooner than `after` if the server said so.
    Again {
        error: Error,
        after: Option<Duration>,
    },
    /// Worth another try, and what this one brought is no sign that it will be a better one.
    Slow(Error),
}

impl Failure {
    pub fn again(error: Error) -> Self {
        Self::Again { error, after: None }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// A request that got no answer.
pub(crate) fn unanswered(what: &str, url: &Url, fault: Fault) -> Failure {
    let error_at = |fact: String| Error::new(Kind::Fetch, fact).at(redact(url.as_str()));
    let e = match fault {
        Fault::Unanswered(e) => e,
        Fault::Host(error) => return error.into(),
        Fault::Refused(refusal) => {
            let error = error_at(format!("{what}: {refusal}"));
            return match refusal {
                Refusal::Reach { .. } => error.cure(Refusal::REACH_CURE).into(),
                _ => error.into(),
            };
        }
        other => return Failure::again(error_at(format!("{what}: {other}"))),
    };
    let cause = innermost(&e);
    let host = url.host_str().unwrap_or_default();
    if e.is_builder() {
        return error_at(format!("{what}: {cause}")).into();
    }
    let is_untrusted = |cause: &(dyn std::error::Error + 'static)| {
        let tls = cause.downcast_ref::<rustls::Error>();
        matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
    };
    if causes(&e).any(is_untrusted) {
        let fact = format!("{what}: the certificate of {host} is not trusted: {cause}");
        let cure = "if your network has its own certificate authority, set SSL_CERT_FILE to a file with its root";
        return error_at(fact).cure(cure).into();
    }
    let cause = match e.is_timeout() {
        true => "no answer in time",
        false => &cause,
    };
    Failure::again(
        error_at(format!("{what}: {host} cannot be reached: {cause}"))
            .cure("check the network and the proxy settings (https_proxy, http_proxy, no_proxy)"),
    )
}

/// An answer that there is no such file, about one that a publisher puts beside another one: `called` is `signature`.
pub(crate) fn unpublished(what: &str, called: &str, url: &Url, response: &Response) -> Error {
    let status = words(response.status());
    let fact = format!("{what}: no {called} is published there: the server answered {status}");
    answered(fact, url, response).cure(format!(
        "check the version and the spelling of the address; where the publisher has no {called}, leave it out and write the file's sha256"
    ))
}

fn answered(fact: String, url: &Url, response: &Response) -> Error {
    let error = Error::new(Kind::Fetch, fact).at(redact(url.as_str()));
    match response.url().as_str() == url.as_str() {
        true => error,
        false => error.lines([format!("redirected to {}", redact(response.url().as_str()))]),
    }
}

/// An answer that is not the file.
pub(crate) fn refused(what: &str, url: &Url, response: &Response) -> Failure {
    let status = response.status();
    let fact = format!("{what}: the server answered {}", words(status));
    let mut error = answered(fact, url, response);
    error = match status.as_u16() {
        401 | 403 => error.cure("the address needs a login, or a signed URL that has run out"),
        404 | 410 => error.cure("check the version and the spelling of the address"),
        407 => error.cure("the proxy asks for a login: put user and password into https_proxy"),
        _ => error,
    };
    if is_passing(status) {
        return Failure::Again {
            error,
            after: asked_wait(response.headers()),
        };
    }
    Failure::Final(error)
}

/// Whether a server that answers so may answer the same request in another way later. What it does
/// not implement it will not implement then either.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    match status.as_u16() {
        408 | 425 | 429 => true,
        501 | 505 | 510 => false,
        code => code >= 500,
    }
}

fn words(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// How long a server asks to wait.
pub(crate) fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    asked(text, Timestamp::now())
}

/// `Retry-After`: seconds, or a date (RFC 9110, 10.2.3).
fn asked(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let wait = date.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or_default())
}

pub(crate) fn plain_http(what: &str, shown: &str, place: &Place) -> Error {
    Error::new(
        Kind::Recipe,
        format!("{what}: anyone on the way can change what comes over http"),
    )
    .at(shown)
    .from_place(place)
    .cure("use https, or pin the file with sha256")
}

/// What a mirror did not give names the address that it stands for.
pub(crate) fn mirrored(error: Error, mirror: Option<&Url>, url: &Url) -> Error {
    match mirror {
        Some(_) if error.kind() != Kind::Cancelled => error.lines([format!(
            "a rule under [mirrors] leads there from {}",
            redact(url.as_str())
        )]),
        _ => error,
    }
}

/// Refuses to ask for what is not in the store, in a run that may not.
pub(crate) fn must_be_online(
    options: &FetchOptions,
    what: &str,
    shown: &str,
    digest: Option<&Digest>,
) -> Result<()> {
    if !options.offline {
        return Ok(());
    }
    let fact = format!("{what} is not in the store, and this run asks nothing of a network");
    let error = Error::new(Kind::Fetch, fact).at(shown).cure(
        "run `winimg fetch` with this recipe and this cache folder once on line, or build from a bundle that has it",
    );
    Err(match digest {
        Some(digest) => error.expected(digest),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_change_is_asked_again() {
        let passing = |code: u16| is_passing(StatusCode::from_u16(code).unwrap());
        for code in [408, 425, 429, 500, 502, 503, 504, 507, 599] {
            assert!(passing(code), "{code}");
        }
        for code in [200, 301, 400, 401, 403, 404, 411, 501, 505, 510] {
            assert!(!passing(code), "{code}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        assert_eq!(asked("7", now), Some(Duration::from_secs(7)));
        assert_eq!(
            asked("Sun, 06 Nov 1994 08:49:37 GMT", now),
            Some(Duration::from_secs(37))
        );
        assert_eq!(
            asked("Sun, 06 Nov 1994 08:00:00 GMT", now),
            Some(Duration::ZERO)
        );
        assert_eq!(asked("soon", now), None);
    }
}
