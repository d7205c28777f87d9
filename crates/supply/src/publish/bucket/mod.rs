//! A folder of a bucket, by Amazon S3's protocol: files in parts that another run continues. (Amazon S3: API Reference)
//!
//! The bucket computes the SHA-256 of each part, and it is compared; where it does not, only sizes are known. What a killed run left
//! is found by the bucket's own list of unfinished uploads, so nothing is kept here for that.

mod address;
mod answers;
mod refused;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

use super::destination::BucketPlace;
use super::signing::Signing;
use super::{
    Arrived, Image, Known, Object, Settings, Standing, Target, files, patiently, unchanged,
};
use crate::fetch::FetchOptions;
use crate::fetch::client::{Answer, Client};
use crate::fetch::failure::{Failure, unanswered};
use crate::fetch::policy::Led;
use crate::store::Watch;
use answers::{Listed, Part};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};

/// Bytes of a part, and of a file that is sent in one request.
const PART: u64 = 16 << 20;
/// An upload has no more parts (Amazon S3: multipart upload limits).
const PARTS: u64 = 10_000;
const AT_ONCE: usize = 4;
/// Bytes of an answer in XML: a page has a thousand parts.
const LONGEST: u64 = 4 << 20;
const REGION: &str = "us-east-1";
const HASHED: &str = "x-amz-content-sha256";
const CHECKSUM: &str = "x-amz-checksum-sha256";
/// Our own word about an object: the SHA-256 of all of it, hex.
const OURS: &str = "x-amz-meta-winimg-sha256";

pub struct Bucket {
    client: Client,
    signing: Signing,
    /// Ends with a slash.
    base: Url,
    place: BucketPlace,
    options: FetchOptions,
}

/// One part on its way.
struct Piece<'a> {
    object: &'a Object,
    upload: &'a str,
    number: u64,
    offset: u64,
    length: u64,
}

impl Target for Bucket {
    /// Every object is a file.
    type Slot = ();

    /// Asks for the bucket first: whether there is one is not seen by an object that is not there.
    async fn objects(self: &Arc<Self>, image: &Image, watch: &Watch) -> Result<Vec<Object>> {
        let BucketPlace { bucket, prefix } = &self.place;
        self.warn_of_plain_http(watch);
        patiently(&self.options, watch, async || {
            let asked = self.ask(Method::HEAD, self.base.clone(), |r| r).await?;
            match asked.status().is_success() {
                true => Ok(()),
                false => Err(refused::of_bucket(asked, bucket).await),
            }
        })
        .await?;
        files(self, image, |name| {
            Ok(format!("s3://{bucket}/{prefix}{name}"))
        })
    }

    async fn standing(&self, object: &Object, (): &(), watch: &Watch) -> Result<Standing> {
        patiently(&self.options, watch, async || self.look(object).await).await
    }

    async fn send(&self, object: &Object, (): &(), watch: &Watch) -> Result<Arrived> {
        let known = match object.size <= PART {
            true => self.send_whole(object, watch).await?,
            false => self.send_in_parts(object, watch).await?,
        };
        Ok(known.into())
    }
}

impl Bucket {
    pub fn new(place: &BucketPlace, settings: &Settings) -> Result<Self> {
        let region = settings.region.as_deref().unwrap_or(REGION);
        Ok(Self {
            client: Client::new(&settings.options.proxies, settings.options.patience),
            signing: Signing::new("s3", region, &settings.options.proxies),
            base: address::base(place, region, settings.endpoint.as_deref())?,
            place: place.clone(),
            options: settings.options.clone(),
        })
    }

    /// Says that everything is readable on its way, where it is.
    fn warn_of_plain_http(&self, watch: &Watch) {
        if address::is_readable_on_its_way(&self.base) {
            watch.warn(format!(
                "{} is asked over http: the image, and a session token if there is one, can be read \
                 on their way; use an endpoint over https",
                self.base.host_str().unwrap_or_default()
            ));
        }
    }

    async fn look(&self, object: &Object) -> Result<Standing, Failure> {
        let asked = self.ask(Method::HEAD, self.url(object), |r| r).await?;
        if asked.status() == StatusCode::NOT_FOUND {
            return Ok(Standing::Absent);
        }
        let answer = good(asked, object).await?;
        let header = |name: &str| answer.headers().get(name)?.to_str().ok();
        let size = header(CONTENT_LENGTH.as_str()).unwrap_or("unknown");
        let digest = header(OURS).unwrap_or("unknown");
        if size == object.size.to_string() && digest == object.sha256.hex() {
            return Ok(Standing::Same(None));
        }
        let found = format!("{size} bytes, SHA-256 {digest}");
        Ok(Standing::Other(winimg_base::unseen::line(&found)))
    }

    async fn send_whole(&self, object: &Object, watch: &Watch) -> Result<Known> {
        let (bytes, digest) = object.body.read(0, object.size).await?;
        unchanged(&object.name, &object.sha256, &digest)?;
        let known = patiently(&self.options, watch, async || {
            let sent = self.ask(Method::PUT, self.url(object), |request| {
                let request = described(request, object);
                hashed(request, &digest).body(bytes.clone())
            });
            let answer = good(sent.await?, object).await?;
            let there = answer.headers().get(CHECKSUM);
            compared(
                object,
                there.and_then(|v| v.to_str().ok()),
                &encoded(&digest),
            )
        });
        let known = known.await?;
        watch.bytes(object.size, Some(object.size))?;
        Ok(known)
    }

    async fn send_in_parts(&self, object: &Object, watch: &Watch) -> Result<Known> {
        let length = part_length(object.size);
        let (upload, there) = self.upload(object, watch).await?;
        let pieces = (0..object.size.div_ceil(length)).map(|index| Piece {
            object,
            upload: &upload,
            number: index + 1,
            offset: index * length,
            length: length.min(object.size - index * length),
        });
        let sent = pieces.map(|piece| self.send_part(piece, &there, watch));
        let mut sent = stream::iter(sent).buffered(AT_ONCE);
        let (mut whole, mut parts, mut done) = (Hasher::new(Algorithm::Sha256), Vec::new(), 0);
        while let Some((part, bytes)) = sent.try_next().await? {
            whole.update(&bytes);
            done += bytes.len() as u64;
            watch.bytes(done, Some(object.size))?;
            parts.push(part);
        }
        unchanged(&object.name, &object.sha256, &whole.finish())?;
        self.complete(object, &upload, &parts, watch).await
    }

    /// The upload of this object that an earlier run began, with its parts; or a new one.
    async fn upload(
        &self,
        object: &Object,
        watch: &Watch,
    ) -> Result<(String, BTreeMap<u64, Listed>)> {
        let key = self.key(object);
        let mut all = self.base.clone();
        all.set_query(Some("uploads="));
        all.query_pairs_mut().append_pair("prefix", &key);
        let begun = patiently(&self.options, watch, async || {
            let answer = self.ask(Method::GET, all.clone(), |r| r).await?;
            answers::upload(&self.text(answer, object).await?, &key)
        });
        if let Some(upload) = begun.await? {
            let parts = self.parts(object, &upload, watch).await?;
            watch.note(format!(
                "{}: an upload that was interrupted is continued: {} parts are there",
                object.name,
                parts.len()
            ));
            return Ok((upload, parts));
        }
        let mut begin = self.url(object);
        begin.set_query(Some("uploads="));
        let begun = patiently(&self.options, watch, async || {
            let asked = self.ask(Method::POST, begin.clone(), |request| {
                described(request, object)
                    .header("x-amz-checksum-algorithm", "SHA256")
                    .header("x-amz-checksum-type", "COMPOSITE")
            });
            answers::begun(&self.text(asked.await?, object).await?)
        });
        Ok((begun.await?, BTreeMap::new()))
    }

    async fn parts(
        &self,
        object: &Object,
        upload: &str,
        watch: &Watch,
    ) -> Result<BTreeMap<u64, Listed>> {
        let mut all = BTreeMap::new();
        loop {
            let after = all.last_key_value().map_or(0, |(number, _)| *number);
            let mut url = self.url(object);
            url.query_pairs_mut()
                .append_pair("part-number-marker", &after.to_string())
                .append_pair("uploadId", upload);
            let page = patiently(&self.options, watch, async || {
                let answer = self.ask(Method::GET, url.clone(), |r| r).await?;
                answers::parts(&self.text(answer, object).await?)
            });
            let page = page.await?;
            let before = all.len();
            all.extend(page.parts);
            if !page.truncated || all.len() == before {
                return Ok(all);
            }
        }
    }

    async fn send_part(
        &self,
        piece: Piece<'_>,
        there: &BTreeMap<u64, Listed>,
        watch: &Watch,
    ) -> Result<(Part, Bytes)> {
        let Piece { object, number, .. } = piece;
        let (bytes, digest) = object.body.read(piece.offset, piece.length).await?;
        let sha256 = encoded(&digest);
        let is_it = |listed: &&Listed| {
            listed.size == piece.length && listed.sha256.as_deref() == Some(&sha256)
        };
        let part = |etag: String| Part {
            number,
            etag,
            digest: digest.clone(),
        };
        if let Some(listed) = there.get(&number).filter(is_it) {
            return Ok((part(listed.etag.clone()), bytes));
        }
        let mut url = self.url(object);
        url.query_pairs_mut()
            .append_pair("partNumber", &number.to_string())
            .append_pair("uploadId", piece.upload);
        let etag = patiently(&self.options, watch, async || {
            let sent = self.ask(Method::PUT, url.clone(), |request| {
                hashed(request, &digest).body(bytes.clone())
            });
            let answer = good(sent.await?, object).await?;
            let etag = answer.headers().get("etag").and_then(|v| v.to_str().ok());
            etag.map(str::to_owned)
                .ok_or_else(|| answers::unexpected("it gives a part no ETag"))
        });
        Ok((part(etag.await?), bytes))
    }

    async fn complete(
        &self,
        object: &Object,
        upload: &str,
        parts: &[Part],
        watch: &Watch,
    ) -> Result<Known> {
        let mut url = self.url(object);
        url.query_pairs_mut().append_pair("uploadId", upload);
        let body = Bytes::from(answers::completion(parts));
        let digest = Digest::sha256_of(&body);
        let composite = composite(parts);
        let ended = patiently(&self.options, watch, async || {
            let asked = self.ask(Method::POST, url.clone(), |request| {
                let request = request.header(HASHED, digest.hex());
                request
                    .header(CONTENT_TYPE, "application/xml")
                    .body(body.clone())
            });
            let text = self.text(asked.await?, object).await;
            let text = match text {
                // An earlier try did it, and its answer was lost.
                Err(Failure::Final(error)) => match self.look(object).await {
                    Ok(Standing::Same(_)) => return Ok(Known::Size),
                    _ => return Err(error.into()),
                },
                text => text?,
            };
            compared(object, answers::completed(&text)?.as_deref(), &composite)
        });
        ended.await
    }

    async fn ask(
        &self,
        method: Method,
        url: Url,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, Failure> {
        let failed = |fault| unanswered("the bucket", &url, fault);
        let request = self.client.request(method, url.clone()).map_err(failed)?;
        let request = self.signing.sign(change(request)).await?;
        self.client.send(request, Led::ByUser).await.map_err(failed)
    }

    async fn text(&self, answer: Answer, object: &Object) -> Result<String, Failure> {
        let answer = good(answer, object).await?;
        let bytes = answer.whole(LONGEST).await;
        let bytes = bytes.map_err(|fault| unanswered("the bucket", &self.base, fault))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // (Amazon S3: CompleteMultipartUpload: a 200 may hold an error)
        match refused::within(&text, &object.name, &object.at) {
            Some(failure) => Err(failure),
            None => Ok(text),
        }
    }

    fn key(&self, object: &Object) -> String {
        format!("{}{}", self.place.prefix, object.name)
    }

    fn url(&self, object: &Object) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{}", self.base.path(), self.key(object)));
        url
    }
}

/// Whole MiB, as few bytes as the number of parts allows.
fn part_length(size: u64) -> u64 {
    let least = size.div_ceil(PARTS).div_ceil(1 << 20) << 20;
    least.max(PART)
}

fn described(request: RequestBuilder, object: &Object) -> RequestBuilder {
    request
        .header(CONTENT_TYPE, &object.media_type)
        .header(OURS, object.sha256.hex())
}

/// What the bucket compares the bytes with.
fn hashed(request: RequestBuilder, digest: &Digest) -> RequestBuilder {
    request
        .header(HASHED, digest.hex())
        .header("x-amz-sdk-checksum-algorithm", "SHA256")
        .header(CHECKSUM, encoded(digest))
}

fn encoded(digest: &Digest) -> String {
    STANDARD.encode(digest.bytes())
}

/// The checksum of checksums. (Amazon S3: checking object integrity, composite checksums)
fn composite(parts: &[Part]) -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    for part in parts {
        hasher.update(part.digest.bytes());
    }
    format!("{}-{}", encoded(&hasher.finish()), parts.len())
}

/// What the bucket computed, if it did, beside what it should be.
fn compared(object: &Object, there: Option<&str>, expected: &str) -> Result<Known, Failure> {
    match there {
        None => Ok(Known::Size),
        Some(there) if there == expected => Ok(Known::Digest),
        Some(there) => {
            let fact = format!("{} arrived in the bucket with other bytes", object.name);
            let error = Error::new(Kind::Publish, fact).at(&object.at);
            Err(Failure::again(
                error
                    .expected(expected)
                    .found(winimg_base::unseen::line(there)),
            ))
        }
    }
}

async fn good(answer: Answer, object: &Object) -> Result<Answer, Failure> {
    match answer.status().is_success() {
        true => Ok(answer),
        false => Err(refused::of(answer, &object.name, &object.at).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_few_enough_at_any_size() {
        let gib = 1 << 30;
        assert_eq!(part_length(20 * gib), PART);
        assert_eq!(part_length(160 * gib), 17 << 20);
        for size in [PART + 1, 100 * gib, 2040 * gib, 5 << 40] {
            let length = part_length(size);
            assert!(size.div_ceil(length) <= PARTS, "{size}");
            assert_eq!(length % (1 << 20), 0);
        }
    }
}
