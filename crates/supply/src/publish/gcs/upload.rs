//! One file as a resumable upload: begun with what it has to be, sent in pieces, asked for how far it is after every failure.
//! (Cloud Storage: resumable uploads)

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use reqwest::{Method, StatusCode};
use serde_json::json;
use url::Url;

use super::super::{Known, Object, patiently};
use super::answers::{self, Resource};
use super::{Folder, OURS, kept, refused};
use crate::fetch::failure::Failure;
use crate::store::Watch;
use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

/// Bytes of a piece; all but the last one are multiples of 256 KiB (Cloud Storage: resumable uploads, chunks).
const PIECE: u64 = 16 << 20;
/// An upload that is gone is begun anew as often.
const BEGUN: u32 = 3;

/// How far an upload is.
enum Reached {
    /// So many bytes are there.
    Bytes(u64),
    All(Resource),
    /// It has run out: a week after it was begun, or by a failure of the bucket's.
    Gone,
}

impl Folder {
    /// `generation`: of the object that is replaced, "0" where there is none.
    pub async fn upload(&self, object: &Object, generation: &str, watch: &Watch) -> Result<Known> {
        let md5 = summed(object).await?;
        let mut kept = kept::read(object, generation).and_then(|url| self.own(&url).ok());
        for _ in 0..BEGUN {
            let upload = match kept.take() {
                Some(upload) => upload,
                None => {
                    let begun = patiently(&self.options, watch, async || {
                        self.begin(object, generation, &md5).await
                    });
                    let upload = begun.await?;
                    kept::write(object, generation, upload.as_str())?;
                    upload
                }
            };
            if let Some(resource) = self.fill(object, &upload, watch).await? {
                kept::remove(object)?;
                return compared(object, &resource, &md5);
            }
        }
        let fact = format!(
            "{}: the bucket lost the upload again and again",
            object.name
        );
        let error = Error::new(Kind::Publish, fact).at(&object.at);
        Err(error.cure("publish it again later"))
    }

    async fn begin(&self, object: &Object, generation: &str, md5: &str) -> Result<Url, Failure> {
        let mut url = self.url(&["upload", "storage", "v1", "b", &self.place.bucket, "o"]);
        url.query_pairs_mut()
            .append_pair("uploadType", "resumable")
            .append_pair("ifGenerationMatch", generation);
        let body = json!({
            "name": self.key(object),
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
            return Err(refused::of(answer, &object.name, &object.at).await);
        }
        let location = answer.headers().get(LOCATION).and_then(|v| v.to_str().ok());
        self.own(location.unwrap_or_default())
    }

    /// An address for an upload, at the very server that is asked: the token goes along.
    fn own(&self, text: &str) -> Result<Url, Failure> {
        let url = Url::parse(text).ok();
        let url = url.filter(|url| url.origin() == self.base.origin());
        let wrong = || answers::unexpected("an upload has its address at another server");
        url.ok_or_else(|| wrong().into())
    }

    /// Sends what the upload lacks. `None`: it is gone.
    async fn fill(&self, object: &Object, upload: &Url, watch: &Watch) -> Result<Option<Resource>> {
        let reached = patiently(&self.options, watch, async || {
            self.reached(object, upload).await
        });
        let mut at = match reached.await? {
            Reached::All(resource) => return Ok(Some(resource)),
            Reached::Gone => return Ok(None),
            Reached::Bytes(at) => at,
        };
        if at > 0 {
            watch.note(format!(
                "{}: an upload that was interrupted is continued after {} MiB",
                object.name,
                at >> 20
            ));
        }
        loop {
            watch.bytes(at, Some(object.size))?;
            let (bytes, _) = object.body.read(at, PIECE.min(object.size - at)).await?;
            let mut is_first = true;
            let sent = patiently(&self.options, watch, async || {
                if !std::mem::take(&mut is_first) {
                    // It may have arrived, and its answer was lost.
                    match self.reached(object, upload).await? {
                        Reached::Bytes(there) if there == at => {}
                        reached => return Ok(reached),
                    }
                }
                self.put(object, upload, at, &bytes).await
            });
            match sent.await? {
                Reached::Bytes(there) if there > at && there <= object.size => at = there,
                Reached::Bytes(there) => {
                    let words = format!("{there} bytes are there after {at} were");
                    return Err(answers::unexpected(&words));
                }
                Reached::All(resource) => {
                    watch.bytes(object.size, Some(object.size))?;
                    return Ok(Some(resource));
                }
                Reached::Gone => return Ok(None),
            }
        }
    }

    async fn put(
        &self,
        object: &Object,
        upload: &Url,
        at: u64,
        bytes: &Bytes,
    ) -> Result<Reached, Failure> {
        // Nothing has no range.
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
                answers::persisted(range).map(Reached::Bytes)
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(Reached::Gone),
            status if status.is_success() => {
                answers::resource(&self.whole(answer).await?).map(Reached::All)
            }
            _ => Err(refused::of(answer, &object.name, &object.at).await),
        }
    }

    /// Asks how far an upload is. What is refused now is refused to a new one, too, or this one was at fault. (Cloud Storage: resumable
    /// uploads, check the status)
    async fn reached(&self, object: &Object, upload: &Url) -> Result<Reached, Failure> {
        match self.put(object, upload, object.size, &Bytes::new()).await {
            Err(Failure::Final(_)) => Ok(Reached::Gone),
            reached => reached,
        }
    }
}

/// The MD5 of what is sent, in base64, of bytes that are those of the manifest.
async fn summed(object: &Object) -> Result<String> {
    let (mut md5, mut sha256, mut at) = (Md5::new(), Hasher::new(Algorithm::Sha256), 0);
    while at < object.size {
        let length = PIECE.min(object.size - at);
        let (bytes, _) = object.body.read(at, length).await?;
        md5.update(&bytes);
        sha256.update(&bytes);
        at += length;
    }
    let digest = sha256.finish();
    if digest == object.sha256 {
        return Ok(STANDARD.encode(md5.finalize()));
    }
    let fact = format!("{} was changed while it was sent", object.name);
    Err(Error::new(Kind::Publish, fact)
        .expected(&object.sha256)
        .found(digest))
}

/// The bucket was told the digest and compared it; where it names the one that it computed, it is ours.
fn compared(object: &Object, there: &Resource, md5: &str) -> Result<Known> {
    match &there.md5_hash {
        Some(found) if found == md5 => Ok(Known::Digest),
        None => Ok(Known::Size),
        Some(found) => {
            let fact = format!("{} arrived in the bucket with other bytes", object.name);
            let error = Error::new(Kind::Publish, fact).at(&object.at);
            Err(error
                .expected(format!("MD5 {md5}"))
                .found(format!("MD5 {}", unseen::line(found))))
        }
    }
}
