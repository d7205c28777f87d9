//! Requests to the service of a destination, whose faults are reported with its name.

use std::fmt::Display;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

use crate::fetch::client::{HttpAnswer, HttpClient, HttpFault, is_here};
use crate::fetch::failure::{FetchFailure, classify_fault};
use crate::fetch::policy::UrlSource;
use crate::fetch::upload::UploadProgress;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

/// Starts a request. `what`: name of the service in messages.
pub fn request(
    client: &HttpClient,
    what: &str,
    method: Method,
    url: &Url,
) -> Result<RequestBuilder, FetchFailure> {
    client
        .request(method, url.clone())
        .map_err(|fault| classify_fault(what, url, fault))
}

/// Sends a request; accepts any answer.
pub async fn send(
    client: &HttpClient,
    what: &str,
    url: &Url,
    request: RequestBuilder,
) -> Result<HttpAnswer, FetchFailure> {
    let sent = client.send(request, UrlSource::ByUser).await;
    sent.map_err(|fault| classify_fault(what, url, fault))
}

/// Sends a request with a file, and gives up if nothing was read from the file for `stall`.
pub async fn send_file(
    client: &HttpClient,
    what: &str,
    (url, source): (&Url, UrlSource),
    request: RequestBuilder,
    (progress, stall): (&UploadProgress, Duration),
) -> Result<HttpAnswer, FetchFailure> {
    let sent = tokio::select! {
        answer = client.send(request, source) => answer,
        () = progress.stands_still(stall) => Err(HttpFault::Silent(stall)),
    };
    sent.map_err(|fault| classify_fault(what, url, fault))
}

/// Reads an answer of at most `limit` bytes.
pub async fn read_body(
    answer: HttpAnswer,
    what: &str,
    url: &Url,
    limit: u64,
) -> Result<Vec<u8>, FetchFailure> {
    let bytes = answer.read_body(limit).await;
    bytes.map_err(|fault| classify_fault(what, url, fault))
}

/// Reads the text of an answer of at most `limit` bytes.
pub async fn read_text(
    answer: HttpAnswer,
    what: &str,
    url: &Url,
    limit: u64,
) -> Result<String, FetchFailure> {
    let bytes = read_body(answer, what, url, limit).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reports a request that a service refused: "WHO answered 403 AccessDenied".
pub fn report_refusal(
    who: &str,
    at: impl Display,
    status: Option<StatusCode>,
    code: &str,
    message: &str,
) -> Error {
    let status = status.map(|status| status.as_u16().to_string());
    let code = Some(display_text::sanitize_line(code)).filter(|code| !code.is_empty());
    let words: Vec<String> = status.into_iter().chain(code).collect();
    let error = Error::new(Kind::Publish, format!("{who} answered {}", words.join(" "))).at(at);
    if message.is_empty() {
        error
    } else {
        error.found(display_text::sanitize_line(message))
    }
}

/// Decides whether a refused request is retried; only a final refusal has a cure.
pub fn classify_refusal(
    error: Error,
    is_passing: bool,
    cure: Option<impl Into<String>>,
) -> FetchFailure {
    match cure {
        _ if is_passing => FetchFailure::retryable(error),
        Some(cure) => error.cure(cure.into()).into(),
        None => error.into(),
    }
}

/// Returns the address of a path below another address.
pub fn join_url(base: &Url, path: &str) -> Result<Url> {
    base.join(path)
        .map_err(|e| Error::new(Kind::Publish, "an address is malformed").because(e))
}

/// Returns true if secrets may be sent to an address: over https, or to this machine.
pub fn keeps_secrets(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => url.host().is_some_and(|host| is_here(&host)),
        _ => false,
    }
}
