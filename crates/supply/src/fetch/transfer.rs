//! Downloads one file to its partial file: retries, resumes, stalls.
//!
//! Verifies nothing: a successful transfer is only complete as far as the server says. Refuses more
//! bytes than the lock names, or than any input may have, before they are written.

use std::fs::File;
use std::io::Write;

use reqwest::header::{
    CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE,
};
use reqwest::{Method, StatusCode};
use tracing::debug;
use url::Url;

use crate::store::{PartialTransfer, ProgressWatch, ResumeRecord, UrlRecord, longer_than_locked};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::markup;
use winimg_base::text::redact;
use winimg_recipe::LockedInput;

use super::client::{HttpAnswer, HttpFault, find_root_cause};
use super::failure::{
    FetchFailure, classify_fault, classify_response, redirect_line, redirected_to,
};
use super::policy::UrlSource;
use super::retry::RetryCounter;
use super::{FetchContext, page};

/// A file to transfer.
pub(super) struct Transfer<'a> {
    pub context: &'a FetchContext,
    pub url: &'a Url,
    /// Name of the wanted file.
    pub file: &'a str,
    pub watch: &'a ProgressWatch,
    /// The copy in the store: the server may say that it is current.
    pub cached: Option<&'a UrlRecord>,
    /// JSON to post; without it the request is a GET.
    pub query: Option<&'a str>,
    /// The file's lock entry, which limits its size.
    pub locked: Option<&'a LockedInput>,
    /// The recipe has a digest of the file.
    pub is_pinned: bool,
}

/// Outcome of a transfer.
pub(super) enum TransferOutcome {
    /// The whole file is in the partial file.
    File {
        from: ResumeRecord,
        /// It was joined from several responses.
        resumed: bool,
    },
    /// The copy in the store is current.
    NotModified,
}

impl Transfer<'_> {
    /// Downloads the file and retries until it is complete or a retry makes no sense.
    pub async fn run(&self, partial: &PartialTransfer) -> Result<TransferOutcome> {
        let mut tries = RetryCounter::with_bytes(count_resumable(partial));
        loop {
            match self.try_once(partial).await {
                Ok(got) => return Ok(got),
                Err(failure) => {
                    let (have, options) = (count_resumable(partial), &self.context.options);
                    tries.wait(failure, have, options, self.watch).await?;
                }
            }
        }
    }

    async fn try_once(&self, partial: &PartialTransfer) -> Result<TransferOutcome, FetchFailure> {
        let shown = redact(self.url.as_str());
        let resumable = partial
            .find_resumable()
            .filter(|(_, of)| of.url == shown && of.validator().is_some());
        if let Some((have, of)) = &resumable {
            // An earlier run was killed between the last byte and the verification.
            if of.total == Some(*have) {
                return Ok(TransferOutcome::File {
                    from: of.clone(),
                    resumed: true,
                });
            }
        }
        let response = self.send_request(resumable.as_ref()).await?;
        let headers = response.headers();
        match (response.status(), resumable) {
            (StatusCode::OK, _) => self.receive_whole(response, partial, shown).await,
            (StatusCode::PARTIAL_CONTENT, Some((have, of)))
                if continues_part(headers, have, &of) =>
            {
                let file = partial.append()?;
                self.write_body(response, partial, file, have, of.total)
                    .await?;
                Ok(TransferOutcome::File {
                    from: of,
                    resumed: true,
                })
            }
            (StatusCode::NOT_MODIFIED, None) if self.cached.is_some() => {
                Ok(TransferOutcome::NotModified)
            }
            // The rest does not continue the part that was downloaded: start over.
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => {
                partial.discard()?;
                Err(FetchFailure::retryable(
                    self.error("the server cannot resume this download"),
                ))
            }
            _ => Err(classify_response(&self.watch.what, self.url, &response)),
        }
    }

    pub(super) async fn send_request(
        &self,
        resumable: Option<&(u64, ResumeRecord)>,
    ) -> Result<HttpAnswer, FetchFailure> {
        super::proxy::warn_of_unusable(&self.context.options.proxies, |text| self.watch.warn(text));
        let client = &self.context.client;
        let method = if self.query.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let mut request = client
            .request(method, self.url.clone())
            .map_err(|fault| self.classify_fault(0, fault))?;
        if let Some(query) = self.query {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(query.to_string());
        }
        match (resumable, self.cached) {
            (Some((have, of)), _) => {
                request = request.header(RANGE, format!("bytes={have}-"));
                request = request.header(IF_RANGE, of.validator().unwrap_or_default());
            }
            // Another server's tag means nothing here.
            (None, Some(seen)) if seen.url == redact(self.url.as_str()) => {
                if let Some(etag) = &seen.etag {
                    request = request.header(IF_NONE_MATCH, etag);
                } else if let Some(date) = &seen.last_modified {
                    request = request.header(IF_MODIFIED_SINCE, date);
                }
            }
            (None, _) => {}
        }
        let from = resumable.map(|(have, _)| have);
        debug!(from, cached = self.cached.is_some(), "local state");
        let sent = client.send(request, UrlSource::ByUser).await;
        sent.map_err(|fault| self.classify_fault(0, fault))
    }

    async fn receive_whole(
        &self,
        response: HttpAnswer,
        partial: &PartialTransfer,
        shown: String,
    ) -> Result<TransferOutcome, FetchFailure> {
        let headers = response.headers();
        let expects_page = page::is_wanted(self.file);
        let is_declared_page = get_header(headers, CONTENT_TYPE).is_some_and(|t| page::is_type(&t));
        let from = ResumeRecord {
            url: shown,
            // A weak tag does not guarantee the same bytes.
            etag: get_header(headers, ETAG).filter(|e| !e.starts_with("W/")),
            last_modified: get_header(headers, LAST_MODIFIED),
            total: response.content_length(),
            encoding: get_header(headers, CONTENT_ENCODING)
                .filter(|encoding| !encoding.eq_ignore_ascii_case("identity")),
            redirected_to: redirected_to(self.url, response.url()),
        };
        if !is_declared_page {
            self.check_length(from.total.unwrap_or(0), &response)?;
        }
        let mut response = response;
        let mut head = Vec::new();
        let head_size = if is_declared_page {
            markup::TITLE_SEARCH_LEN
        } else {
            markup::SNIFF_LEN
        };
        while head.len() < head_size {
            match self.read_chunk(&mut response, head.len() as u64).await {
                Ok(Some(bytes)) => head.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(_) if is_declared_page => break,
                Err(e) => return Err(e),
            }
        }
        if !expects_page && (is_declared_page || markup::is_web_page(&head)) {
            return Err(page::error(&self.watch.what, &from.url, &head).into());
        }
        partial.discard()?;
        let length = from.total.unwrap_or(0).max(head.len() as u64);
        self.check_length(length, &response)?;
        if let Some(total) = from.total {
            self.context
                .store
                .check_free_space(&self.watch.what, total)?;
        }
        let mut file = partial.begin(&from)?;
        write(&mut file, &head)?;
        self.write_body(response, partial, file, head.len() as u64, from.total)
            .await?;
        Ok(TransferOutcome::File {
            from,
            resumed: false,
        })
    }

    /// Writes the body after the first `done` bytes.
    async fn write_body(
        &self,
        mut response: HttpAnswer,
        partial: &PartialTransfer,
        mut file: File,
        mut done: u64,
        total: Option<u64>,
    ) -> Result<(), FetchFailure> {
        self.watch.report_bytes(done, total)?;
        while let Some(bytes) = self.read_chunk(&mut response, done).await? {
            done += bytes.len() as u64;
            if let Err(error) = self.check_length(done, &response) {
                drop(file);
                partial.discard()?;
                return Err(error.into());
            }
            write(&mut file, &bytes)?;
            self.watch.report_bytes(done, total)?;
        }
        if total.is_some_and(|total| total != done) {
            return Err(self.report_broken(done, "the server closed the connection"));
        }
        Ok(())
    }

    pub(super) async fn read_chunk(
        &self,
        response: &mut HttpAnswer,
        done: u64,
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + use<>>, FetchFailure> {
        let read = response.read_chunk().await;
        read.map_err(|fault| self.classify_fault(done, fault))
    }

    pub(super) fn report_broken(&self, done: u64, cause: &str) -> FetchFailure {
        let fact = format!("the transfer broke after {done} bytes: {cause}");
        FetchFailure::retryable(self.error(fact))
    }

    /// Classifies a fault after `done` bytes.
    fn classify_fault(&self, done: u64, fault: HttpFault) -> FetchFailure {
        match &fault {
            HttpFault::Broken(e) => self.report_broken(done, &find_root_cause(e)),
            HttpFault::Silent(_) => {
                FetchFailure::retryable(self.error(format!("{fault} after {done} bytes")))
            }
            HttpFault::Slow { .. } => {
                FetchFailure::Slow(self.error(format!("{fault} after {done} bytes")))
            }
            _ => classify_fault(&self.watch.what, self.url, fault),
        }
    }

    fn error(&self, fact: impl std::fmt::Display) -> Error {
        let error = self.watch.error(Kind::Fetch, fact);
        error.at(redact(self.url.as_str()))
    }

    /// Renders the line about the redirect of a response, if there was one.
    fn redirect_line(&self, response: &HttpAnswer) -> Option<String> {
        redirected_to(self.url, response.url()).map(redirect_line)
    }

    /// Checks that the file of a response may have this many bytes.
    fn check_length(&self, bytes: u64, response: &HttpAnswer) -> Result<()> {
        if let Some(locked) = self.locked.filter(|locked| bytes > locked.size) {
            let error = longer_than_locked(&self.watch.what, locked, self.is_pinned);
            return Err(error
                .at(redact(self.url.as_str()))
                .lines(self.redirect_line(response)));
        }
        let longest = self.context.options.longest;
        if bytes > longest {
            let fact = format!("{} exceeds the maximum size of an input", self.watch.what);
            return Err(Error::new(Kind::Fetch, fact)
                .at(redact(self.url.as_str()))
                .lines(self.redirect_line(response))
                .expected(format!("{longest} bytes at most"))
                .found("more than that"));
        }
        Ok(())
    }
}

/// Returns the number of bytes that need not be transferred again.
fn count_resumable(partial: &PartialTransfer) -> u64 {
    match partial.find_resumable() {
        Some((have, of)) if of.validator().is_some() => have,
        _ => 0,
    }
}

/// Returns true if a partial response continues our part of the same file.
fn continues_part(headers: &HeaderMap, have: u64, of: &ResumeRecord) -> bool {
    // `bytes 10-99/100`
    let Some(range) = get_header(headers, CONTENT_RANGE) else {
        return false;
    };
    let Some((span, total)) = range.strip_prefix("bytes ").and_then(|r| r.split_once('/')) else {
        return false;
    };
    let starts = span.split('-').next().and_then(|s| s.parse().ok()) == Some(have);
    let same_total = match (total.parse::<u64>(), of.total) {
        (Ok(now), Some(then)) => now == then,
        _ => true,
    };
    let same_tag = match (get_header(headers, ETAG), &of.etag) {
        (Some(now), Some(then)) => now == *then,
        _ => true,
    };
    starts && same_total && same_tag
}

fn get_header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_string)
}

fn write(file: &mut File, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes)
        .map_err(|e| Error::io("write", "the partial download", e))
}
