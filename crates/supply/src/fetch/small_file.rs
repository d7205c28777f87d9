//! Small files, read whole into memory: checksum files, signatures, answers of a log.

use reqwest::StatusCode;
use url::Url;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;

use super::evidence::{EvidenceRequest, SmallFileKind};
use super::failure::{FetchFailure, classify_response, note_mirror, report_unpublished};
use super::retry::RetryCounter;
use super::transfer::Transfer;

impl EvidenceRequest<'_> {
    /// Fetches a small file and retries until it arrives or a retry makes no sense.
    pub(super) async fn fetch_small(&self, url: &Url, ask: SmallFileKind<'_>) -> Result<Vec<u8>> {
        let options = &self.context.options;
        let mirror = options.mirrors.resolve_url(url);
        let mut tries = RetryCounter::default();
        loop {
            match self.try_small(mirror.as_ref().unwrap_or(url), ask).await {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => {
                    let waited = tries.wait(failure, 0, options, &self.watch).await;
                    waited.map_err(|e| note_mirror(e, mirror.as_ref(), url))?;
                }
            }
        }
    }

    async fn try_small(&self, url: &Url, ask: SmallFileKind<'_>) -> Result<Vec<u8>, FetchFailure> {
        let what = &self.watch.what;
        let transfer = Transfer {
            context: self.context,
            url,
            file: "",
            watch: &self.watch,
            cached: None,
            query: match ask {
                SmallFileKind::Query(query) => Some(query),
                SmallFileKind::Published(_) | SmallFileKind::Answer => None,
            },
            locked: None,
            is_pinned: false,
        };
        let mut response = transfer.send_request(None).await?;
        match (response.status(), ask) {
            (StatusCode::OK, _) => {}
            (StatusCode::NOT_FOUND | StatusCode::GONE, SmallFileKind::Published(called)) => {
                let error = report_unpublished(what, called, url, &response);
                return Err(error.with_kind(self.missing).into());
            }
            (StatusCode::NOT_FOUND | StatusCode::GONE, _) => {
                return Err(match classify_response(what, url, &response) {
                    FetchFailure::Final(error) => error.with_kind(self.missing).into(),
                    again => again,
                });
            }
            _ => return Err(classify_response(what, url, &response)),
        }
        let total = response.content_length();
        let mut all = Vec::new();
        while let Some(bytes) = transfer.read_chunk(&mut response, all.len() as u64).await? {
            all.extend_from_slice(&bytes);
            if all.len() as u64 > self.limit {
                let fact = format!("{what} is longer than {} bytes", self.limit);
                let error = Error::new(Kind::Fetch, fact).at(redact(url.as_str()));
                return Err(error.into());
            }
        }
        if total.is_some_and(|total| total != all.len() as u64) {
            return Err(
                transfer.report_broken(all.len() as u64, "the server closed the connection")
            );
        }
        Ok(all)
    }
}
