//! One file over the network into its partial place: tries, resumes, stalls.
//!
//! Nothing is proved here. A transfer that ends well is a whole file by the server's own words. Refuses more bytes than the lock
//! names, or than any input has, before they are on the disk.

use std::fs::File;
use std::io::Write;

use reqwest::header::{
    CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE,
};
use reqwest::{Method, StatusCode};
use tracing::debug;
use url::Url;

use crate::store::{Partial, Resumable, Seen, Watch, other_than_locked};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::markup;
use winimg_base::text::redact;
use winimg_recipe::recipe::Locked;

use super::client::{Answer, Fault, innermost};
use super::failure::{Failure, refused, unanswered};
use super::policy::Led;
use super::retry::Tries;
use super::{Context, page};

/// What to transfer.
pub(super) struct Transfer<'a> {
    pub context: &'a Context,
    pub url: &'a Url,
    /// The file name that is wanted.
    pub file: &'a str,
    pub watch: &'a Watch,
    /// The copy in the store: the server may say that it still holds.
    pub cached: Option<&'a Seen>,
    /// JSON that is posted; without it the URL is only read.
    pub query: Option<&'a str>,
    /// What the lock says of the file: no byte more is taken.
    pub locked: Option<&'a Locked>,
}

/// How a transfer ended.
pub(super) enum Got {
    /// The whole file is in its partial place.
    File {
        from: Resumable,
        /// It was put together from several answers.
        resumed: bool,
    },
    /// The copy in the store still holds.
    NotModified,
}

impl Transfer<'_> {
    /// Tries until the file is whole or there is no point.
    pub async fn run(&self, partial: &Partial) -> Result<Got> {
        let mut tries = Tries::having(kept(partial));
        loop {
            match self.attempt(partial).await {
                Ok(got) => return Ok(got),
                Err(failure) => {
                    let (have, options) = (kept(partial), &self.context.options);
                    tries.wait(failure, have, options, self.watch).await?;
                }
            }
        }
    }

    async fn attempt(&self, partial: &Partial) -> Result<Got, Failure> {
        let shown = redact(self.url.as_str());
        let left = partial
            .left()
            .filter(|(_, of)| of.url == shown && of.validator().is_some());
        if let Some((have, of)) = &left {
            // Killed between the last byte and its proof.
            if of.total == Some(*have) {
                return Ok(Got::File {
                    from: of.clone(),
                    resumed: true,
                });
            }
        }
        let response = self.ask(left.as_ref()).await?;
        let headers = response.headers();
        match (response.status(), left) {
            (StatusCode::OK, _) => self.whole(response, partial, shown).await,
            (StatusCode::PARTIAL_CONTENT, Some((have, of))) if fits(headers, have, &of) => {
                let file = partial.append()?;
                self.body(response, partial, file, have, of.total).await?;
                Ok(Got::File {
                    from: of,
                    resumed: true,
                })
            }
            (StatusCode::NOT_MODIFIED, None) if self.cached.is_some() => Ok(Got::NotModified),
            // The rest does not fit what we have: start anew.
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => {
                partial.discard()?;
                Err(Failure::again(
                    self.error("the server does not resume this file"),
                ))
            }
            _ => Err(refused(&self.watch.what, self.url, &response)),
        }
    }

    pub(super) async fn ask(&self, left: Option<&(u64, Resumable)>) -> Result<Answer, Failure> {
        super::proxy::warn_of_broken(&self.context.options.proxies, |text| self.watch.warn(text));
        let client = &self.context.client;
        let ask = |method| client.request(method, self.url.clone());
        let asked = match self.query {
            Some(query) => ask(Method::POST).map(|request| {
                let request = request.header(CONTENT_TYPE, "application/json");
                request.body(query.to_string())
            }),
            None => ask(Method::GET),
        };
        let mut request = asked.map_err(|fault| self.failed(0, fault))?;
        match (left, self.cached) {
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
        let from = left.map(|(have, _)| have);
        debug!(from, cached = self.cached.is_some(), "what is here");
        let sent = client.send(request, Led::ByUser).await;
        sent.map_err(|fault| self.failed(0, fault))
    }

    async fn whole(
        &self,
        response: Answer,
        partial: &Partial,
        shown: String,
    ) -> Result<Got, Failure> {
        let headers = response.headers();
        let expects_page = page::is_wanted(self.file);
        let says_page = header(headers, CONTENT_TYPE).is_some_and(|t| page::is_type(&t));
        let from = Resumable {
            url: shown,
            // A weak one does not promise the same bytes.
            etag: header(headers, ETAG).filter(|e| !e.starts_with("W/")),
            last_modified: header(headers, LAST_MODIFIED),
            total: response.content_length(),
            encoding: header(headers, CONTENT_ENCODING)
                .filter(|encoding| !encoding.eq_ignore_ascii_case("identity")),
        };
        if !says_page {
            self.check_length(from.total.unwrap_or(0))?;
        }
        let mut response = response;
        let mut head = Vec::new();
        let enough = if says_page {
            markup::TITLE_WITHIN
        } else {
            markup::SNIFFED
        };
        while head.len() < enough {
            match self.chunk(&mut response, head.len() as u64).await {
                Ok(Some(bytes)) => head.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(_) if says_page => break,
                Err(e) => return Err(e),
            }
        }
        if !expects_page && (says_page || markup::is_page(&head)) {
            return Err(page::error(&self.watch.what, &from.url, &head).into());
        }
        partial.discard()?;
        self.check_length(from.total.unwrap_or(0).max(head.len() as u64))?;
        if let Some(total) = from.total {
            self.context.store.check_room(&self.watch.what, total)?;
        }
        let mut file = partial.begin(&from)?;
        write(&mut file, &head)?;
        self.body(response, partial, file, head.len() as u64, from.total)
            .await?;
        Ok(Got::File {
            from,
            resumed: false,
        })
    }

    /// Writes what comes after the first `done` bytes.
    async fn body(
        &self,
        mut response: Answer,
        partial: &Partial,
        mut file: File,
        mut done: u64,
        total: Option<u64>,
    ) -> Result<(), Failure> {
        self.watch.bytes(done, total)?;
        while let Some(bytes) = self.chunk(&mut response, done).await? {
            done += bytes.len() as u64;
            if let Err(error) = self.check_length(done) {
                drop(file);
                partial.discard()?;
                return Err(error.into());
            }
            write(&mut file, &bytes)?;
            self.watch.bytes(done, total)?;
        }
        if total.is_some_and(|total| total != done) {
            return Err(self.broken(done, "the server closed the connection"));
        }
        Ok(())
    }

    pub(super) async fn chunk(
        &self,
        response: &mut Answer,
        done: u64,
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + use<>>, Failure> {
        let read = response.chunk().await;
        read.map_err(|fault| self.failed(done, fault))
    }

    pub(super) fn broken(&self, done: u64, cause: &str) -> Failure {
        let fact = format!("the transfer broke after {done} bytes: {cause}");
        Failure::again(self.error(fact))
    }

    /// Why no more than `done` bytes came.
    fn failed(&self, done: u64, fault: Fault) -> Failure {
        let after = || self.error(format!("{fault} after {done} bytes"));
        match &fault {
            Fault::Broken(e) => self.broken(done, &innermost(e)),
            Fault::Silent(_) => Failure::again(after()),
            Fault::Slow { .. } => Failure::Slow(after()),
            _ => unanswered(&self.watch.what, self.url, fault),
        }
    }

    fn error(&self, fact: impl std::fmt::Display) -> Error {
        let error = self.watch.error(Kind::Fetch, fact);
        error.at(redact(self.url.as_str()))
    }

    /// Whether a file may have as many bytes.
    fn check_length(&self, bytes: u64) -> Result<()> {
        let at = |error: Error| error.at(redact(self.url.as_str()));
        if let Some(locked) = self.locked.filter(|locked| bytes > locked.size) {
            let found = format!("more than {} bytes", locked.size);
            return Err(at(other_than_locked(
                &self.watch.what,
                &locked.source,
                format!("{} ({} bytes)", locked.digest, locked.size),
                found,
            )));
        }
        let longest = self.context.options.longest;
        if bytes > longest {
            let fact = format!("{} is longer than any input may be", self.watch.what);
            let error = Error::new(Kind::Fetch, fact).expected(format!("{longest} bytes at most"));
            return Err(at(error.found("more than that")));
        }
        Ok(())
    }
}

/// Bytes that a further try need not bring again.
fn kept(partial: &Partial) -> u64 {
    match partial.left() {
        Some((have, of)) if of.validator().is_some() => have,
        _ => 0,
    }
}

/// Whether a partial answer goes on where we stopped, in the same file.
fn fits(headers: &HeaderMap, have: u64, of: &Resumable) -> bool {
    // `bytes 10-99/100`
    let Some(range) = header(headers, CONTENT_RANGE) else {
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
    let same_tag = match (header(headers, ETAG), &of.etag) {
        (Some(now), Some(then)) => now == *then,
        _ => true,
    };
    starts && same_total && same_tag
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_string)
}

fn write(file: &mut File, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes)
        .map_err(|e| Error::io("write", "the partial download", e))
}
