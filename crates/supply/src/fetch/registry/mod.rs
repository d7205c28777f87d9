//! Client for one repository of a registry: downloads and uploads manifests, blobs and tags. (OCI
//! Distribution Specification)
//!
//! Only the manifest types of the `oci_client` library are used: its client buffers responses of
//! any length, follows redirects from https to http, and sends credentials wherever the registry
//! says. Refuses such redirects, credentials to other hosts, and responses that are too long,
//! before they are buffered. Ignores URLs in manifests.

mod access;
mod authorize;
mod credentials;
mod error;
mod helper;
mod login;
mod login_file;

use std::sync::Mutex;

use bytes::Bytes;
use oci_client::Reference;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use url::Url;

use self::access::RegistryAccess;
use super::Proxies;
use super::client::{self, HttpAnswer};
use super::policy::{Timeouts, UrlRefusal, UrlSource};
use super::zone::NetworkZone;
use winimg_base::digest::{Digest, Hasher};
use winimg_base::error::Kind;

pub use credentials::{Credentials, LoginLookup, LoginVariables, RegistryConfig, find_credentials};
pub(crate) use credentials::{LoginQuery, find_stored_login, with_token_host};
pub use error::RegistryError;

/// Maximum size of a manifest in bytes (OCI Distribution Specification: registries need not accept
/// longer ones), and of a page of tags.
pub const MANIFEST_LIMIT: u64 = 4 << 20;
/// Maximum size of a token response or an error response in bytes.
const ERROR_BODY_LIMIT: u64 = 1 << 20;
/// Header with the digest of a pushed manifest. (OCI Distribution Specification: pushing manifests)
const CONTENT_DIGEST: &str = "docker-content-digest";

type RegistryResult<T> = std::result::Result<T, RegistryError>;

pub struct RegistryClient {
    http: client::HttpClient,
    base: Url,
    repository: String,
    credentials: Option<Credentials>,
    /// Access for reading and for writing, once obtained.
    access: Mutex<[Option<RegistryAccess>; 2]>,
}

/// A blob upload in progress. Its address may contain a token.
pub struct BlobUpload {
    url: Url,
    source: UrlSource,
}

#[derive(Deserialize)]
struct TagPage {
    tags: Vec<String>,
}

impl RegistryClient {
    /// Creates a client for the repository of `reference`, over http if `use_http`.
    pub fn new(
        reference: &Reference,
        use_http: bool,
        credentials: Option<Credentials>,
        proxies: &Proxies,
        timeouts: Timeouts,
    ) -> winimg_base::error::Result<Self> {
        let scheme = if use_http { "http" } else { "https" };
        let base = format!("{scheme}://{}/", reference.resolve_registry());
        let base = parse(&base).map_err(|e| {
            let fact = "the registry's address is malformed";
            winimg_base::error::Error::new(Kind::Recipe, fact)
                .at(&base)
                .found(e)
        })?;
        let mut http = client::HttpClient::new(proxies, timeouts);
        // A proxy would see the password, and localhost is another machine there. Proxies would
        // otherwise be used for loopback addresses as well.
        if use_http && base.host().is_some_and(|host| client::is_here(&host)) {
            http = http.skip_proxies();
        }
        Ok(Self {
            http,
            base,
            repository: reference.repository().to_owned(),
            credentials,
            access: Mutex::default(),
        })
    }

    /// Fetches the manifest with a tag or digest.
    pub async fn fetch_manifest(&self, name: &str, accept: &[&str]) -> RegistryResult<Vec<u8>> {
        let url = self.make_url(&format!("manifests/{name}"))?;
        let accept = accept.join(", ");
        let asked = self.ask(Method::GET, url, false, UrlSource::ByUser, |request| {
            request.header(ACCEPT, &accept)
        });
        let response = asked.await?;
        let bytes = require_ok(response)
            .await?
            .read_body(MANIFEST_LIMIT)
            .await?;
        if let Ok(wanted) = name.parse::<Digest>() {
            let mut hasher = Hasher::new(wanted.algorithm);
            hasher.update(&bytes);
            check(&wanted, hasher)?;
        }
        Ok(bytes)
    }

    /// Fetches a page of at most `most` tags, after `last`.
    pub async fn list_tags(&self, most: usize, last: Option<&str>) -> RegistryResult<Vec<String>> {
        let mut url = self.make_url("tags/list")?;
        url.query_pairs_mut().append_pair("n", &most.to_string());
        if let Some(last) = last {
            url.query_pairs_mut().append_pair("last", last);
        }
        let response = self.send(Method::GET, url).await?;
        let bytes = require_ok(response)
            .await?
            .read_body(MANIFEST_LIMIT)
            .await?;
        let tags: TagPage =
            serde_json::from_slice(&bytes).map_err(|e| RegistryError::Unexpected(e.to_string()))?;
        Ok(tags.tags)
    }

    /// Opens a blob that the registry serves itself, or redirects to.
    pub async fn open_blob(&self, digest: &Digest) -> RegistryResult<BlobDownload> {
        let url = self.make_url(&format!("blobs/{digest}"))?;
        let response = require_ok(self.send(Method::GET, url).await?).await?;
        Ok(BlobDownload {
            total: response.content_length(),
            hasher: Some(Hasher::new(digest.algorithm)),
            response,
            digest: digest.clone(),
        })
    }

    pub async fn has_blob(&self, digest: &Digest) -> RegistryResult<bool> {
        let url = self.make_url(&format!("blobs/{digest}"))?;
        let response = self.send(Method::HEAD, url).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            _ => require_success(response).await.map(|_| true),
        }
    }

    /// Pushes a blob in one request; not every registry accepts pieces.
    pub async fn give_blob(
        &self,
        body: impl Into<reqwest::Body>,
        digest: &Digest,
        size: u64,
    ) -> RegistryResult<()> {
        let upload = self.begin_upload().await?;
        self.end_upload(&upload, body, digest, size).await
    }

    pub async fn begin_upload(&self) -> RegistryResult<BlobUpload> {
        let begin = self.make_url("blobs/uploads/")?;
        let asked = self.ask(Method::POST, begin, true, UrlSource::ByUser, |request| {
            request.header(CONTENT_LENGTH, 0)
        });
        self.upload(require_success(asked.await?).await?)
    }

    /// Pushes the bytes of the blob from offset `from`; returns the upload for the next ones.
    pub async fn give_piece(
        &self,
        upload: &BlobUpload,
        from: u64,
        bytes: Bytes,
    ) -> RegistryResult<BlobUpload> {
        let last = (from + bytes.len() as u64).saturating_sub(1);
        let asked = self.ask(
            Method::PATCH,
            upload.url.clone(),
            true,
            upload.source,
            |request| {
                request
                    .header(CONTENT_RANGE, format!("{from}-{last}"))
                    .header(CONTENT_LENGTH, bytes.len())
                    .header(CONTENT_TYPE, "application/octet-stream")
                    .body(bytes.clone())
            },
        );
        self.upload(require_success(asked.await?).await?)
    }

    /// Returns the upload for the next bytes, and the number of bytes that the registry has.
    pub async fn query_upload(&self, upload: &BlobUpload) -> RegistryResult<(BlobUpload, u64)> {
        let asked = self.ask(Method::GET, upload.url.clone(), true, upload.source, |r| r);
        let response = require_success(asked.await?).await?;
        let range = response.headers().get(RANGE).and_then(|v| v.to_str().ok());
        let last = range.and_then(|range| range.rsplit_once('-')?.1.parse::<u64>().ok());
        // `0-0` means no bytes or one byte; chunks are never one byte.
        let have = match last {
            Some(0) => 0,
            Some(last) => last + 1,
            None => {
                let fact = "the registry sent no valid Range header for the upload";
                return Err(RegistryError::Unexpected(fact.into()));
            }
        };
        Ok((self.upload(response)?, have))
    }

    /// Pushes the last bytes, or all, and completes the upload with the blob's digest.
    pub async fn end_upload(
        &self,
        upload: &BlobUpload,
        body: impl Into<reqwest::Body>,
        digest: &Digest,
        size: u64,
    ) -> RegistryResult<()> {
        let mut url = upload.url.clone();
        url.query_pairs_mut()
            .append_pair("digest", &digest.to_string());
        let request = self.request(Method::PUT, url, true).await?;
        let request = request
            .header(CONTENT_LENGTH, size)
            .header(CONTENT_TYPE, "application/octet-stream");
        let response = self.http.send(request.body(body), upload.source).await?;
        let response = require_success(response).await?;
        named_alike(&response, digest)?;
        match response.status() {
            StatusCode::CREATED => Ok(()),
            // Accepted, but not confirmed.
            _ if self.has_blob(digest).await? => Ok(()),
            status => Err(RegistryError::Lost(status)),
        }
    }

    /// Reads the upload's next address from a response.
    fn upload(&self, response: HttpAnswer) -> RegistryResult<BlobUpload> {
        let location = response.headers().get(LOCATION);
        let Some(location) = location.and_then(|location| location.to_str().ok()) else {
            return Err(RegistryError::Unexpected(
                "the registry sent no Location header for the upload".into(),
            ));
        };
        let url = response.url().join(location).map_err(report_malformed)?;
        Ok(BlobUpload {
            source: self.led_to(&url, response.from),
            url,
        })
    }

    /// Returns true if the registry supports the referrers API. (OCI Distribution Specification
    /// 1.1: listing referrers)
    pub async fn lists_referrers(&self, digest: &Digest) -> RegistryResult<bool> {
        let url = self.make_url(&format!("referrers/{digest}"))?;
        let response = self.send(Method::GET, url).await?;
        match response.status() {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(false),
            _ => require_ok(response).await.map(|_| true),
        }
    }

    /// Pushes a manifest under a tag.
    pub async fn give_manifest(
        &self,
        tag: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> RegistryResult<()> {
        let url = self.make_url(&format!("manifests/{tag}"))?;
        let bytes = Bytes::from(bytes);
        let asked = self.ask(Method::PUT, url, true, UrlSource::ByUser, |request| {
            request.header(CONTENT_TYPE, media_type).body(bytes.clone())
        });
        let response = require_success(asked.await?).await?;
        let digest = Digest::sha256_of(&bytes);
        named_alike(&response, &digest)?;
        let status = response.status();
        if status == StatusCode::CREATED {
            return Ok(());
        }
        // It may not be there yet, or may never be.
        match self.fetch_manifest(tag, &[media_type]).await {
            Ok(there) if there == bytes => Ok(()),
            Ok(_) => Err(RegistryError::Lost(status)),
            Err(error) if error.is_absent() => Err(RegistryError::Lost(status)),
            Err(error) => Err(error),
        }
    }

    fn make_url(&self, rest: &str) -> RegistryResult<Url> {
        let path = format!("/v2/{}/{rest}", self.repository);
        self.base.join(&path).map_err(report_malformed)
    }

    /// Sends a request that only reads.
    async fn send(&self, method: Method, url: Url) -> RegistryResult<HttpAnswer> {
        self.ask(method, url, false, UrlSource::ByUser, |r| r).await
    }

    /// Returns the origin of an address in a registry's answer: the registry's own host counts as
    /// named by the user.
    fn led_to(&self, url: &Url, from: NetworkZone) -> UrlSource {
        if url.host_str() == self.base.host_str() {
            UrlSource::ByUser
        } else {
            UrlSource::From(from)
        }
    }

    /// Checks that an address from the registry is as secure as the registry.
    fn check_scheme(&self, url: &Url) -> RegistryResult<()> {
        match (self.base.scheme(), url.scheme()) {
            (_, "https") | ("http", "http") => Ok(()),
            (_, scheme) => Err(UrlRefusal::Insecure {
                scheme: scheme.to_owned(),
            }
            .into()),
        }
    }
}

/// Checks the digest of the pushed content, if the answer names it.
fn named_alike(answer: &HttpAnswer, digest: &Digest) -> RegistryResult<()> {
    let named = answer.headers().get(CONTENT_DIGEST);
    let named = named.and_then(|value| value.to_str().ok()?.parse::<Digest>().ok());
    match named.filter(|named| named.algorithm == digest.algorithm && named != digest) {
        None => Ok(()),
        Some(found) => Err(RegistryError::OtherBytes {
            expected: digest.clone(),
            found,
        }),
    }
}

/// A blob being downloaded. Its bytes match its digest only if it ends without an error.
pub struct BlobDownload {
    /// Size in bytes, if the registry says.
    pub total: Option<u64>,
    response: HttpAnswer,
    digest: Digest,
    /// `None` after the end.
    hasher: Option<Hasher>,
}

impl BlobDownload {
    /// Reads the next piece; `None` at the end, after the digest was compared.
    pub async fn next(
        &mut self,
    ) -> RegistryResult<Option<impl std::ops::Deref<Target = [u8]> + Send + use<>>> {
        match self.response.read_chunk().await? {
            Some(bytes) => {
                if let Some(hasher) = &mut self.hasher {
                    hasher.update(&bytes);
                }
                Ok(Some(bytes))
            }
            None => {
                if let Some(hasher) = self.hasher.take() {
                    check(&self.digest, hasher)?;
                }
                Ok(None)
            }
        }
    }
}

fn check(wanted: &Digest, hasher: Hasher) -> RegistryResult<()> {
    let found = hasher.finish();
    if found == *wanted {
        return Ok(());
    }
    Err(RegistryError::OtherBytes {
        expected: wanted.clone(),
        found,
    })
}

fn parse(text: &str) -> RegistryResult<Url> {
    Url::parse(text).map_err(report_malformed)
}

fn report_malformed(e: url::ParseError) -> RegistryError {
    RegistryError::Unexpected(format!("an address is malformed: {e}"))
}

async fn require_ok(response: HttpAnswer) -> RegistryResult<HttpAnswer> {
    match response.status() {
        StatusCode::OK => Ok(response),
        _ => Err(error_of(response).await),
    }
}

/// Accepts a response with any success status.
async fn require_success(response: HttpAnswer) -> RegistryResult<HttpAnswer> {
    if response.status().is_success() {
        Ok(response)
    } else {
        Err(error_of(response).await)
    }
}

async fn error_of(response: HttpAnswer) -> RegistryError {
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        return RegistryError::Unauthorized;
    }
    if status.is_success() {
        return RegistryError::Unexpected(format!("unexpected status {status}"));
    }
    let words = match response.read_body(ERROR_BODY_LIMIT).await {
        Ok(words) => words,
        Err(fault) => return fault.into(),
    };
    let envelope = serde_json::from_slice(&words).ok();
    RegistryError::Status(status, envelope.filter(|_| status.is_client_error()))
}
