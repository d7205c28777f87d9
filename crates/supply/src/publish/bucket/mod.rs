//! Publishes to a bucket by Amazon S3's protocol: files in parts that a later run can continue.
//! (Amazon S3: API Reference)
//!
//! The bucket computes the SHA-256 of each part, which is compared; without it only sizes are
//! known. The bucket lists unfinished uploads, so a run can be resumed without local state.

mod address;
mod answers;
mod checksum;
mod failures;
mod place;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

pub use place::BucketPlace;

use super::aws::{AwsSettings, AwsSigner};
use super::{
    KnownBy, ObjectStatus, PublishFile, PublishHost, PublishObject, PublishedObject, RemoteObject,
    check_unchanged, service, with_retries,
};
use crate::fetch::FetchOptions;
use crate::fetch::client::{HttpAnswer, HttpClient};
use crate::fetch::failure::FetchFailure;
use crate::store::ProgressWatch;
use answers::{S3ListedPart, S3Part};
use checksum::{add_checksum, compare_checksum, compute_composite, encode_digest};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::Result;

/// Size of a part in bytes, and the maximum size of a file sent in one request.
const PART: u64 = 16 << 20;
/// Maximum number of parts (Amazon S3: multipart upload limits).
const PARTS: u64 = 10_000;
const AT_ONCE: usize = 4;
/// Maximum size of an XML answer in bytes: a page has a thousand parts.
const LONGEST: u64 = 4 << 20;
/// Name of the service in messages.
const BUCKET: &str = "the bucket";
const REGION: &str = "us-east-1";
const HASHED: &str = "x-amz-content-sha256";
const CHECKSUM: &str = "x-amz-checksum-sha256";
/// Metadata with the SHA-256 of the whole object, hex.
const OURS: &str = "x-amz-meta-winimg-sha256";

pub struct S3Bucket {
    client: HttpClient,
    signing: AwsSigner,
    /// Ends with a slash.
    base: Url,
    place: BucketPlace,
    options: FetchOptions,
}

/// One part to send.
struct S3Piece<'a> {
    object: &'a PublishObject,
    upload: &'a str,
    number: u64,
    offset: u64,
    length: u64,
}

impl S3Bucket {
    pub fn new(place: &BucketPlace, host: &PublishHost) -> Result<Self> {
        let settings = AwsSettings::from_environment();
        let region = settings.region.as_deref().unwrap_or(REGION);
        Ok(Self {
            client: HttpClient::new(&host.fetch.proxies, host.fetch.patience),
            signing: AwsSigner::new("s3", region, &host.fetch.proxies),
            base: address::build_base(place, region, settings.storage.as_deref())?,
            place: place.clone(),
            options: host.fetch.clone(),
        })
    }

    /// Checks the bucket first: the answer for a missing object does not tell whether the bucket
    /// exists.
    pub async fn list_objects(
        self: &Arc<Self>,
        files: impl IntoIterator<Item = &PublishFile>,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        let BucketPlace { bucket, prefix } = &self.place;
        self.warn_of_plain_http(watch);
        with_retries(&self.options, watch, async || {
            let asked = self.ask(Method::HEAD, self.base.clone(), |r| r).await?;
            if asked.status().is_success() {
                Ok(())
            } else {
                Err(failures::of_bucket(asked, bucket).await)
            }
        })
        .await?;
        let objects = files.into_iter().map(|file| {
            let at = format!("s3://{bucket}/{prefix}{}", file.name);
            PublishObject::from_file(file, at, RemoteObject::Bucket(Arc::clone(self)))
        });
        Ok(objects.collect())
    }

    pub async fn check_status(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        with_retries(&self.options, watch, async || {
            self.check_object(object).await
        })
        .await
    }

    pub async fn send(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        let known = if object.size <= PART {
            self.send_whole(object, watch).await?
        } else {
            self.send_in_parts(object, watch).await?
        };
        Ok(known.into())
    }

    /// Warns if the transfer is not encrypted.
    fn warn_of_plain_http(&self, watch: &ProgressWatch) {
        if address::is_readable_on_its_way(&self.base) {
            watch.warn(format!(
                "{} uses http: the image, and any session token, are sent unencrypted; use an \
                 https endpoint",
                self.base.host_str().unwrap_or_default()
            ));
        }
    }

    async fn check_object(&self, object: &PublishObject) -> Result<ObjectStatus, FetchFailure> {
        let asked = self.ask(Method::HEAD, self.make_url(object), |r| r).await?;
        if asked.status() == StatusCode::NOT_FOUND {
            return Ok(ObjectStatus::Absent);
        }
        let answer = require_success(asked, object).await?;
        let size = get_header(&answer, CONTENT_LENGTH.as_str());
        Ok(object.compare_metadata(size, get_header(&answer, OURS)))
    }

    async fn send_whole(&self, object: &PublishObject, watch: &ProgressWatch) -> Result<KnownBy> {
        let (bytes, digest) = object.body.read(0, object.size).await?;
        check_unchanged(&object.name, &object.sha256, &digest)?;
        let known = with_retries(&self.options, watch, async || {
            let sent = self.ask(Method::PUT, self.make_url(object), |request| {
                let request = describe_object(request, object);
                add_checksum(request, &digest).body(bytes.clone())
            });
            let answer = require_success(sent.await?, object).await?;
            compare_checksum(
                object,
                get_header(&answer, CHECKSUM),
                &encode_digest(&digest),
            )
        });
        let known = known.await?;
        watch.report_bytes(object.size, Some(object.size))?;
        Ok(known)
    }

    async fn send_in_parts(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<KnownBy> {
        let length = part_length(object.size);
        let (upload, there) = self.upload(object, watch).await?;
        let pieces = (0..object.size.div_ceil(length)).map(|index| S3Piece {
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
            watch.report_bytes(done, Some(object.size))?;
            parts.push(part);
        }
        check_unchanged(&object.name, &object.sha256, &whole.finish())?;
        self.complete(object, &upload, &parts, watch).await
    }

    /// Returns an earlier run's upload of this object with its parts, or starts a new one.
    async fn upload(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<(String, BTreeMap<u64, S3ListedPart>)> {
        let key = self.format_key(object);
        let mut all = self.base.clone();
        all.set_query(Some("uploads="));
        all.query_pairs_mut().append_pair("prefix", &key);
        let begun = with_retries(&self.options, watch, async || {
            let answer = self.ask(Method::GET, all.clone(), |r| r).await?;
            answers::upload(&self.read_text(answer, object).await?, &key)
        });
        if let Some(upload) = begun.await? {
            let parts = self.list_parts(object, &upload, watch).await?;
            watch.note(format!(
                "{}: continuing an interrupted upload: {} parts are there",
                object.name,
                parts.len()
            ));
            return Ok((upload, parts));
        }
        let mut begin = self.make_url(object);
        begin.set_query(Some("uploads="));
        let begun = with_retries(&self.options, watch, async || {
            let asked = self.ask(Method::POST, begin.clone(), |request| {
                describe_object(request, object)
                    .header("x-amz-checksum-algorithm", "SHA256")
                    .header("x-amz-checksum-type", "COMPOSITE")
            });
            answers::parse_upload_id(&self.read_text(asked.await?, object).await?)
        });
        Ok((begun.await?, BTreeMap::new()))
    }

    async fn list_parts(
        &self,
        object: &PublishObject,
        upload: &str,
        watch: &ProgressWatch,
    ) -> Result<BTreeMap<u64, S3ListedPart>> {
        let mut all = BTreeMap::new();
        loop {
            let after = all.last_key_value().map_or(0, |(number, _)| *number);
            let mut url = self.make_url(object);
            url.query_pairs_mut()
                .append_pair("part-number-marker", &after.to_string())
                .append_pair("uploadId", upload);
            let page = with_retries(&self.options, watch, async || {
                let answer = self.ask(Method::GET, url.clone(), |r| r).await?;
                answers::parse_parts(&self.read_text(answer, object).await?)
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
        piece: S3Piece<'_>,
        there: &BTreeMap<u64, S3ListedPart>,
        watch: &ProgressWatch,
    ) -> Result<(S3Part, Bytes)> {
        let S3Piece { object, number, .. } = piece;
        let (bytes, digest) = object.body.read(piece.offset, piece.length).await?;
        let sha256 = encode_digest(&digest);
        if let Some(listed) = there.get(&number)
            && listed.size == piece.length
            && listed.sha256.as_deref() == Some(&sha256)
        {
            let part = S3Part {
                number,
                etag: listed.etag.clone(),
                digest,
            };
            return Ok((part, bytes));
        }
        let mut url = self.make_url(object);
        url.query_pairs_mut()
            .append_pair("partNumber", &number.to_string())
            .append_pair("uploadId", piece.upload);
        let etag = with_retries(&self.options, watch, async || {
            let sent = self.ask(Method::PUT, url.clone(), |request| {
                add_checksum(request, &digest).body(bytes.clone())
            });
            let answer = require_success(sent.await?, object).await?;
            get_header(&answer, "etag")
                .map(str::to_owned)
                .ok_or_else(|| answers::report_unexpected("a part has no ETag"))
        });
        let part = S3Part {
            number,
            etag: etag.await?,
            digest: digest.clone(),
        };
        Ok((part, bytes))
    }

    async fn complete(
        &self,
        object: &PublishObject,
        upload: &str,
        parts: &[S3Part],
        watch: &ProgressWatch,
    ) -> Result<KnownBy> {
        let mut url = self.make_url(object);
        url.query_pairs_mut().append_pair("uploadId", upload);
        let body = Bytes::from(answers::render_completion(parts));
        let digest = Digest::sha256_of(&body);
        let composite = compute_composite(parts);
        let ended = with_retries(&self.options, watch, async || {
            let asked = self.ask(Method::POST, url.clone(), |request| {
                let request = request.header(HASHED, digest.hex());
                request
                    .header(CONTENT_TYPE, "application/xml")
                    .body(body.clone())
            });
            let text = self.read_text(asked.await?, object).await;
            let text = match text {
                // An earlier attempt may have succeeded, with a lost answer.
                Err(FetchFailure::Final(error)) => match self.check_object(object).await {
                    Ok(ObjectStatus::Same(_)) => return Ok(KnownBy::Size),
                    _ => return Err(error.into()),
                },
                text => text?,
            };
            compare_checksum(
                object,
                answers::parse_completion(&text)?.as_deref(),
                &composite,
            )
        });
        ended.await
    }

    async fn ask(
        &self,
        method: Method,
        url: Url,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<HttpAnswer, FetchFailure> {
        let request = service::request(&self.client, BUCKET, method, &url)?;
        let request = self.signing.sign(change(request)).await?;
        service::send(&self.client, BUCKET, &url, request).await
    }

    async fn read_text(
        &self,
        answer: HttpAnswer,
        object: &PublishObject,
    ) -> Result<String, FetchFailure> {
        let answer = require_success(answer, object).await?;
        let text = service::read_text(answer, BUCKET, &self.base, LONGEST).await?;
        // (Amazon S3: CompleteMultipartUpload: a 200 may contain an error)
        match failures::find_failure(&text, &object.name, &object.at) {
            Some(failure) => Err(failure),
            None => Ok(text),
        }
    }

    fn format_key(&self, object: &PublishObject) -> String {
        format!("{}{}", self.place.prefix, object.name)
    }

    fn make_url(&self, object: &PublishObject) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{}", self.base.path(), self.format_key(object)));
        url
    }
}

/// Computes the size of the parts: whole MiB, as small as the number of parts allows.
fn part_length(size: u64) -> u64 {
    let least = size.div_ceil(PARTS).div_ceil(1 << 20) << 20;
    least.max(PART)
}

fn describe_object(request: RequestBuilder, object: &PublishObject) -> RequestBuilder {
    request
        .header(CONTENT_TYPE, &object.media_type)
        .header(OURS, object.sha256.hex())
}

fn get_header<'a>(answer: &'a HttpAnswer, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

async fn require_success(
    answer: HttpAnswer,
    object: &PublishObject,
) -> Result<HttpAnswer, FetchFailure> {
    if answer.status().is_success() {
        Ok(answer)
    } else {
        Err(failures::read_failure(answer, &object.name, &object.at).await)
    }
}

#[cfg(test)]
mod tests;
