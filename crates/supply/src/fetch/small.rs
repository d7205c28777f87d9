//! Small files, whole and in memory: checksum files, signatures, a log's answers.

use reqwest::StatusCode;
use url::Url;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;

use super::evidence::{Ask, Asked};
use super::failure::{Failure, mirrored, refused, unpublished};
use super::retry::Tries;
use super::transfer::Transfer;

impl Asked<'_> {
    /// Tries until it is there or there is no point.
    pub(super) async fn small(&self, url: &Url, ask: Ask<'_>) -> Result<Vec<u8>> {
        let options = &self.context.options;
        let mirror = options.mirrors.url(url);
        let mut tries = Tries::default();
        loop {
            match self.attempt(mirror.as_ref().unwrap_or(url), ask).await {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => {
                    let waited = tries.wait(failure, 0, options, &self.watch).await;
                    waited.map_err(|e| mirrored(e, mirror.as_ref(), url))?;
                }
            }
        }
    }

    async fn attempt(&self, url: &Url, ask: Ask<'_>) -> Result<Vec<u8>, Failure> {
        let what = &self.watch.what;
        let transfer = Transfer {
            context: self.context,
            url,
            file: "",
            watch: &self.watch,
            cached: None,
            query: match ask {
                Ask::Query(query) => Some(query),
                Ask::Published(_) | Ask::Answer => None,
            },
            locked: None,
        };
        let mut response = transfer.ask(None).await?;
        match (response.status(), ask) {
            (StatusCode::OK, _) => {}
            (StatusCode::NOT_FOUND | StatusCode::GONE, Ask::Published(called)) => {
                let error = unpublished(what, called, url, &response);
                return Err(error.of_kind(self.missing).into());
            }
            (StatusCode::NOT_FOUND | StatusCode::GONE, _) => {
                return Err(match refused(what, url, &response) {
                    Failure::Final(error) => error.of_kind(self.missing).into(),
                    again => again,
                });
            }
            _ => return Err(refused(what, url, &response)),
        }
        let total = response.content_length();
        let mut all = Vec::new();
        while let Some(bytes) = transfer.chunk(&mut response, all.len() as u64).await? {
            all.extend_from_slice(&bytes);
            if all.len() as u64 > self.limit {
                let fact = format!("{what} is longer than {} bytes", self.limit);
                let error = Error::new(Kind::Fetch, fact).at(redact(url.as_str()));
                return Err(error.into());
            }
        }
        if total.is_some_and(|total| total != all.len() as u64) {
            return Err(transfer.broken(all.len() as u64, "the server closed the connection"));
        }
        Ok(all)
    }
}
