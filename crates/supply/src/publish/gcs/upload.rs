//! Resumable upload of one file: started with its digest, sent in pieces, and its progress queried
//! after every failure. (Cloud Storage: resumable uploads)

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use reqwest::{Method, StatusCode};
use serde_json::json;
use url::Url;

use super::super::{KnownBy, PublishObject, check_unchanged, with_retries};
use super::answers::{self, GcsObject};
use super::{GcsFolder, OURS, failures, upload_state};
use crate::fetch::failure::FetchFailure;
use crate::store::ProgressWatch;
use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::error::{Error, Kind, Result};

/// Size of a piece in bytes; all but the last one are multiples of 256 KiB (Cloud Storage:
/// resumable uploads, chunks).
const PIECE: u64 = 16 << 20;
/// Maximum number of uploads to start for one file, if the bucket loses them.
const BEGUN: u32 = 3;

/// Progress of an upload.
enum GcsProgress {
    /// Bytes that are there.
    Bytes(u64),
    All(GcsObject),
    /// It has expired: after a week, or by a failure of the bucket.
    Gone,
}

impl GcsFolder {
    /// Uploads a file. `generation`: that of the object to replace, "0" if there is none.
    pub async fn upload(
        &self,
        object: &PublishObject,
        generation: &str,
        watch: &ProgressWatch,
    ) -> Result<KnownBy> {
        let md5 = hash_file(object).await?;
        let mut kept =
            upload_state::read(object, generation).and_then(|url| self.parse_upload_url(&url).ok());
        for _ in 0..BEGUN {
            let upload = match kept.take() {
                Some(upload) => upload,
                None => {
                    let started = with_retries(&self.options, watch, async || {
                        self.begin(object, generation, &md5).await
                    });
                    let upload = started.await?;
                    upload_state::write(object, generation, upload.as_str())?;
                    upload
                }
            };
            if let Some(resource) = self.fill(object, &upload, watch).await? {
                upload_state::remove(object)?;
                return compare_digest(object, &resource, &md5);
            }
        }
        let fact = format!("{}: the bucket lost the upload repeatedly", object.name);
        let error = Error::new(Kind::Publish, fact).at(&object.at);
        Err(error.cure("publish again later"))
    }

    async fn begin(
        &self,
        object: &PublishObject,
        generation: &str,
        md5: &str,
    ) -> Result<Url, FetchFailure> {
        let mut url = self.make_url(&["upload", "storage", "v1", "b", &self.place.bucket, "o"]);
        url.query_pairs_mut()
            .append_pair("uploadType", "resumable")
            .append_pair("ifGenerationMatch", generation);
        let body = json!({
            "name": self.format_key(object),
            "contentType": object.media_type,
            "md5Hash": md5,
            "metadata": { (OURS): object.sha256.hex() },
        });
        let body = body.to_string();
        let asked = self.ask(Method::POST, url, |request| {
            request
                .header(CONTENT_TYPE, "application/json; charset=UTF-8")
                .header("x-upload-content-type", &object.media_type)
                .header("x-upload-content-length", object.size)
                .body(body.clone())
        });
        let answer = asked.await?;
        if !answer.status().is_success() {
            return Err(failures::read_failure(answer, &object.name, &object.at).await);
        }
        let location = answer.headers().get(LOCATION).and_then(|v| v.to_str().ok());
        self.parse_upload_url(location.unwrap_or_default())
    }

    /// Parses the address of an upload. It must be on the same server, since it gets the token.
    fn parse_upload_url(&self, text: &str) -> Result<Url, FetchFailure> {
        let url = Url::parse(text).ok();
        let url = url.filter(|url| url.origin() == self.base.origin());
        url.ok_or_else(|| {
            answers::report_unexpected("the address of an upload is on another server").into()
        })
    }

    /// Sends the missing bytes of an upload. `None`: it is gone.
    async fn fill(
        &self,
        object: &PublishObject,
        upload: &Url,
        watch: &ProgressWatch,
    ) -> Result<Option<GcsObject>> {
        let reached = with_retries(&self.options, watch, async || {
            self.query_progress(object, upload).await
        });
        let mut at = match reached.await? {
            GcsProgress::All(resource) => return Ok(Some(resource)),
            GcsProgress::Gone => return Ok(None),
            GcsProgress::Bytes(at) => at,
        };
        if at > 0 {
            watch.note(format!(
                "{}: continuing an interrupted upload after {} MiB",
                object.name,
                at >> 20
            ));
        }
        loop {
            watch.report_bytes(at, Some(object.size))?;
            let (bytes, _) = object.body.read(at, PIECE.min(object.size - at)).await?;
            let mut is_first = true;
            let sent = with_retries(&self.options, watch, async || {
                if !std::mem::take(&mut is_first) {
                    // It may have arrived, with a lost answer.
                    match self.query_progress(object, upload).await? {
                        GcsProgress::Bytes(there) if there == at => {}
                        reached => return Ok(reached),
                    }
                }
                self.put(object, upload, at, &bytes).await
            });
            match sent.await? {
                GcsProgress::Bytes(there) if there > at && there <= object.size => at = there,
                GcsProgress::Bytes(there) => {
                    let words = format!("{there} bytes are there, after {at} before");
                    return Err(answers::report_unexpected(&words));
                }
                GcsProgress::All(resource) => {
                    watch.report_bytes(object.size, Some(object.size))?;
                    return Ok(Some(resource));
                }
                GcsProgress::Gone => return Ok(None),
            }
        }
    }

    async fn put(
        &self,
        object: &PublishObject,
        upload: &Url,
        at: u64,
        bytes: &Bytes,
    ) -> Result<GcsProgress, FetchFailure> {
        // An empty piece has no range.
        let range = match bytes.len() as u64 {
            0 => format!("bytes */{}", object.size),
            length => format!("bytes {at}-{}/{}", at + length - 1, object.size),
        };
        let asked = self.ask(Method::PUT, upload.clone(), |request| {
            request
                .header(CONTENT_LENGTH, bytes.len())
                .header(CONTENT_RANGE, &range)
                .body(bytes.clone())
        });
        let answer = asked.await?;
        match answer.status() {
            StatusCode::PERMANENT_REDIRECT => {
                let range = answer.headers().get(RANGE).and_then(|v| v.to_str().ok());
                answers::parse_range(range).map(GcsProgress::Bytes)
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(GcsProgress::Gone),
            status if status.is_success() => {
                answers::parse_object(&self.read_body(answer).await?).map(GcsProgress::All)
            }
            _ => Err(failures::read_failure(answer, &object.name, &object.at).await),
        }
    }

    /// Queries the progress of an upload. If it is refused, a new upload will show whether this one
    /// was at fault. (Cloud Storage: resumable uploads, check the status)
    async fn query_progress(
        &self,
        object: &PublishObject,
        upload: &Url,
    ) -> Result<GcsProgress, FetchFailure> {
        match self.put(object, upload, object.size, &Bytes::new()).await {
            Err(FetchFailure::Final(_)) => Ok(GcsProgress::Gone),
            reached => reached,
        }
    }
}

/// Computes the MD5 of the file in base64, and checks its SHA-256.
async fn hash_file(object: &PublishObject) -> Result<String> {
    let (mut md5, mut sha256, mut at) = (Md5::new(), Hasher::new(Algorithm::Sha256), 0);
    while at < object.size {
        let length = PIECE.min(object.size - at);
        let (bytes, _) = object.body.read(at, length).await?;
        md5.update(&bytes);
        sha256.update(&bytes);
        at += length;
    }
    check_unchanged(&object.name, &object.sha256, &sha256.finish())?;
    Ok(STANDARD.encode(md5.finalize()))
}

/// Compares the digest that the bucket computed, if it has one.
fn compare_digest(object: &PublishObject, there: &GcsObject, md5: &str) -> Result<KnownBy> {
    match &there.md5_hash {
        Some(found) if found == md5 => Ok(KnownBy::Digest),
        None => Ok(KnownBy::Size),
        Some(found) => {
            let (expected, found) = (format!("MD5 {md5}"), format!("MD5 {found}"));
            Err(object.report_corrupt("the bucket", &expected, &found))
        }
    }
}
