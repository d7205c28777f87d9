//! Small files, whole and in memory: checksum files, signatures, a log's answers.

use reqwest::StatusCode;
use url::Url;

use crate::store::Watch;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;

use super::Context;
use super::failure::{Failure, refused, unpublished};
use super::retry::Tries;
use super::transfer::{Transfer, tell_wait};

/// What to bring.
pub(super) struct Small<'a> {
    pub context: &'a Context,
    pub url: &'a Url,
    pub watch: &'a Watch,
    /// Bytes; more is refused.
    pub limit: u64,
    /// What it is when the server says that there is no such file.
    pub missing: Kind,
    /// What a publisher calls it: `signature`. `None`: a service's answer.
    pub called: Option<&'a str>,
    /// JSON that is posted; without it the URL is only read.
    pub query: Option<&'a str>,
}

impl Small<'_> {
    pub async fn bring(&self) -> Result<Vec<u8>> {
        let mut tries = Tries::default();
        loop {
            let failure = match self.attempt().await {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => failure,
            };
            let (wait, error) = tries.after(failure, false, &self.context.options)?;
            tell_wait(self.watch, &error, wait);
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt(&self) -> Result<Vec<u8>, Failure> {
        let transfer = Transfer {
            context: self.context,
            url: self.url,
            file: "",
            watch: self.watch,
            cached: None,
            query: self.query,
            locked: None,
        };
        let mut response = transfer.ask(None).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                let what = &self.watch.what;
                if let Some(called) = self.called {
                    let error = unpublished(what, called, self.url, &response);
                    return Err(error.of_kind(self.missing).into());
                }
                return Err(match refused(what, self.url, &response) {
                    Failure::Final(error) => error.of_kind(self.missing).into(),
                    again => again,
                });
            }
            _ => return Err(refused(&self.watch.what, self.url, &response)),
        }
        let total = response.content_length();
        let mut all = Vec::new();
        while let Some(bytes) = transfer.chunk(&mut response, all.len() as u64).await? {
            all.extend_from_slice(&bytes);
            if all.len() as u64 > self.limit {
                let fact = format!("{} is longer than {} bytes", self.watch.what, self.limit);
                return Err(Error::new(Kind::Fetch, fact)
                    .at(redact(self.url.as_str()))
                    .into());
            }
        }
        if total.is_some_and(|total| total != all.len() as u64) {
            return Err(transfer.broken(all.len() as u64, "the server closed the connection"));
        }
        Ok(all)
    }
}
