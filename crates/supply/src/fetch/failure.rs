//! Failed attempts, and whether a retry makes sense.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use url::Url;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

use winimg_base::text::{Place, redact};

use super::FetchOptions;
use super::client::{HttpFault, find_root_cause, iter_causes};
use super::policy::UrlRefusal;

/// Reason why an attempt failed.
pub(crate) enum FetchFailure {
    Final(Error),
    /// Worth a retry, no sooner than `after` if the server said so.
    Again {
        error: Error,
        after: Option<Duration>,
    },
    /// Worth a retry, but the bytes of this attempt do not count as progress.
    Slow(Error),
}

impl FetchFailure {
    pub fn retryable(error: Error) -> Self {
        Self::Again { error, after: None }
    }
}

impl From<Error> for FetchFailure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Classifies a request that got no answer.
pub(crate) fn classify_fault(what: &str, url: &Url, fault: HttpFault) -> FetchFailure {
    let e = match fault {
        HttpFault::Unanswered(e) => e,
        HttpFault::Host(error) => return error.into(),
        HttpFault::Refused(refusal) => {
            let error = error_at(url, format!("{what}: {refusal}"));
            return match refusal {
                UrlRefusal::Reach { .. } => error.cure(UrlRefusal::REACH_CURE).into(),
                _ => error.into(),
            };
        }
        other => return FetchFailure::retryable(error_at(url, format!("{what}: {other}"))),
    };
    let cause = find_root_cause(&e);
    // After a redirect, the request that failed went to another address.
    let failed = e.url().unwrap_or(url);
    let host = failed.host_str().unwrap_or_default();
    let redirected = redirected_to(url, failed).map(redirect_line);
    if e.is_builder() {
        return error_at(url, format!("{what}: {cause}")).into();
    }
    if iter_causes(&e).any(is_certificate_error) {
        let fact = format!("{what}: the certificate of {host} is not trusted: {cause}");
        let cure = "if your network has its own certificate authority, set SSL_CERT_FILE to a file \
                    with its root";
        return error_at(url, fact).lines(redirected).cure(cure).into();
    }
    let cause = if e.is_timeout() {
        "no answer in time"
    } else {
        &cause
    };
    FetchFailure::retryable(
        error_at(url, format!("{what}: {host} cannot be reached: {cause}"))
            .lines(redirected)
            .cure("check the network and the proxy settings (https_proxy, http_proxy, no_proxy)"),
    )
}

/// Returns the address that the server redirected to, without its secrets. An address that differs
/// only in its secrets is the same.
pub(crate) fn redirected_to(asked: &Url, answered: &Url) -> Option<String> {
    let shown = redact(answered.as_str());
    (shown != redact(asked.as_str())).then_some(shown)
}

/// Renders the line that names this address.
pub(crate) fn redirect_line(address: String) -> String {
    format!("the server redirected to {address}")
}

fn error_at(url: &Url, fact: String) -> Error {
    Error::new(Kind::Fetch, fact).at(redact(url.as_str()))
}

fn is_certificate_error(cause: &(dyn std::error::Error + 'static)) -> bool {
    let tls = cause.downcast_ref::<rustls::Error>();
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}

/// Builds the error for a missing file that a publisher puts beside another one. `called` is its
/// kind, such as `signature`.
pub(crate) fn report_unpublished(
    what: &str,
    called: &str,
    url: &Url,
    response: &Response,
) -> Error {
    let status = describe_status(response.status());
    let fact = format!("{what}: no {called} is published there: the server answered {status}");
    make_response_error(fact, url, response).cure(format!(
        "check the version and the spelling of the address; if the publisher has no {called}, \
         remove it and set the file's sha256"
    ))
}

fn make_response_error(fact: String, url: &Url, response: &Response) -> Error {
    error_at(url, fact).lines(redirected_to(url, response.url()).map(redirect_line))
}

/// Classifies a response that is not the file.
pub(crate) fn classify_response(what: &str, url: &Url, response: &Response) -> FetchFailure {
    let status = response.status();
    let fact = format!("{what}: the server answered {}", describe_status(status));
    let mut error = make_response_error(fact, url, response);
    error = match status.as_u16() {
        401 | 403 => error.cure("the address needs a login, or a signed URL that has expired"),
        404 | 410 => error.cure("check the version and the spelling of the address"),
        407 => error.cure("the proxy requires a login: put the user and password into https_proxy"),
        _ => error,
    };
    if is_passing(status) {
        return FetchFailure::Again {
            error,
            after: read_retry_after(response.headers()),
        };
    }
    FetchFailure::Final(error)
}

/// Returns true if the server may answer the same request differently later; not if it does not
/// implement a feature.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    match status.as_u16() {
        408 | 425 | 429 => true,
        501 | 505 | 510 => false,
        code => code >= 500,
    }
}

fn describe_status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// Reads the wait that a server requests.
pub(crate) fn read_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    parse_retry_after(text, Timestamp::now())
}

/// `Retry-After`: seconds, or a date (RFC 9110, 10.2.3).
fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let wait = date.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or_default())
}

pub(crate) fn refuse_plain_http(what: &str, shown: &str, place: &Place) -> Error {
    Error::new(
        Kind::Recipe,
        format!("{what}: anyone on the network path can change a file sent over http"),
    )
    .at(shown)
    .or_place(place)
    .cure("use https, or pin the file with sha256")
}

/// Adds the mirrored address to an error of its mirror.
pub(crate) fn note_mirror(error: Error, mirror: Option<&Url>, url: &Url) -> Error {
    match mirror {
        Some(_) if error.kind() != Kind::Cancelled => error.lines([format!(
            "a rule under [mirrors] replaces {} with it",
            redact(url.as_str())
        )]),
        _ => error,
    }
}

/// Refuses to download a file that is not in the store, if the run is offline.
pub(crate) fn require_online(
    options: &FetchOptions,
    what: &str,
    shown: &str,
    digest: Option<&Digest>,
) -> Result<()> {
    if !options.offline {
        return Ok(());
    }
    let fact = format!("{what} is not in the store, and this run is offline");
    let error = Error::new(Kind::Fetch, fact).at(shown).cure(
        "run `winimg fetch` once online with this recipe and this cache folder, or build from a \
         bundle that contains it",
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
        assert_eq!(parse_retry_after("7", now), Some(Duration::from_secs(7)));
        assert_eq!(
            parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now),
            Some(Duration::from_secs(37))
        );
        assert_eq!(
            parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now),
            Some(Duration::ZERO)
        );
        assert_eq!(parse_retry_after("soon", now), None);
    }
}
