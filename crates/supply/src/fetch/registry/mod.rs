//! One repository of a registry over HTTP: manifests, blobs and tags, down and up. (OCI Distribution Specification)
//!
//! Speaks itself, because the library holds answers whole before it can be asked how long they are, follows redirects from https to
//! http, and sends credentials wherever the registry says. Its types of manifests are taken. Refuses such redirects, credentials to
//! other hosts, and answers that are too long, before they are held. Follows no address that a manifest names.

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

use self::access::Access;
use super::Proxies;
use super::client::{self, Answer};
use super::policy::{Led, Patience, Refusal};
use super::space::Space;
use winimg_base::digest::{Digest, Hasher};
use winimg_base::error::Kind;

pub use credentials::{Credentials, Lookup, Places, Variables, found as credentials};
pub(crate) use credentials::{Wanted, logged_in, with_token_host};
pub use error::Error;

/// Bytes (OCI Distribution Specification: registries need not take longer ones). A page of tags has no more either.
pub const MANIFEST_LIMIT: u64 = 4 << 20;
/// Bytes of an answer with a token, or with the words of a refusal.
const WORDS_LIMIT: u64 = 1 << 20;
/// What the registry says of a manifest that it took. (OCI Distribution Specification: pushing manifests)
const CONTENT_DIGEST: &str = "docker-content-digest";

type Result<T> = std::result::Result<T, Error>;

pub struct Client {
    http: client::Client,
    base: Url,
    repository: String,
    credentials: Option<Credentials>,
    /// For reading and for writing, once it is known.
    access: Mutex<[Option<Access>; 2]>,
}

/// A blob that is being given. Its address may hold a token.
pub struct Upload {
    url: Url,
    led: Led,
}

#[derive(Deserialize)]
struct Tags {
    tags: Vec<String>,
}

impl Client {
    /// Asks the repository of `reference`, over http where it is `plain`.
    pub fn new(
        reference: &Reference,
        plain: bool,
        credentials: Option<Credentials>,
        proxies: &Proxies,
        patience: Patience,
    ) -> winimg_base::error::Result<Self> {
        let scheme = if plain { "http" } else { "https" };
        let base = format!("{scheme}://{}/", reference.resolve_registry());
        let base = parse(&base).map_err(|e| {
            let fact = "the registry's address is malformed";
            winimg_base::error::Error::new(Kind::Recipe, fact)
                .at(&base)
                .found(e)
        })?;
        let mut http = client::Client::new(proxies, patience);
        // A proxy would read the password, and has another machine for localhost. It is asked for loopback addresses, too.
        if plain && base.host().is_some_and(|host| client::is_here(&host)) {
            http = http.direct();
        }
        Ok(Self {
            http,
            base,
            repository: reference.repository().to_owned(),
            credentials,
            access: Mutex::default(),
        })
    }

    /// The manifest that a tag or a digest names.
    pub async fn manifest(&self, name: &str, accept: &[&str]) -> Result<Vec<u8>> {
        let url = self.url(&format!("manifests/{name}"))?;
        let accept = accept.join(", ");
        let asked = self.ask(Method::GET, url, false, Led::ByUser, |request| {
            request.header(ACCEPT, &accept)
        });
        let response = asked.await?;
        let bytes = good(response).await?.whole(MANIFEST_LIMIT).await?;
        if let Ok(wanted) = name.parse::<Digest>() {
            let mut hasher = Hasher::new(wanted.algorithm);
            hasher.update(&bytes);
            check(&wanted, hasher)?;
        }
        Ok(bytes)
    }

    /// A page of at most `most` tags, after `last`.
    pub async fn tags(&self, most: usize, last: Option<&str>) -> Result<Vec<String>> {
        let mut url = self.url("tags/list")?;
        url.query_pairs_mut().append_pair("n", &most.to_string());
        if let Some(last) = last {
            url.query_pairs_mut().append_pair("last", last);
        }
        let response = self.send(Method::GET, url).await?;
        let bytes = good(response).await?.whole(MANIFEST_LIMIT).await?;
        let tags: Tags =
            serde_json::from_slice(&bytes).map_err(|e| Error::Unexpected(e.to_string()))?;
        Ok(tags.tags)
    }

    /// A blob that the registry serves itself, or redirects to.
    pub async fn blob(&self, digest: &Digest) -> Result<Blob> {
        let url = self.url(&format!("blobs/{digest}"))?;
        let response = good(self.send(Method::GET, url).await?).await?;
        Ok(Blob {
            total: response.content_length(),
            hasher: Some(Hasher::new(digest.algorithm)),
            response,
            digest: digest.clone(),
        })
    }

    pub async fn has_blob(&self, digest: &Digest) -> Result<bool> {
        let url = self.url(&format!("blobs/{digest}"))?;
        let response = self.send(Method::HEAD, url).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            _ => taken(response).await.map(|_| true),
        }
    }

    /// Gives a blob in one request, which not every registry takes in pieces.
    pub async fn give_blob(
        &self,
        body: impl Into<reqwest::Body>,
        digest: &Digest,
        size: u64,
    ) -> Result<()> {
        let upload = self.begin_upload().await?;
        self.end_upload(&upload, body, digest, size).await
    }

    pub async fn begin_upload(&self) -> Result<Upload> {
        let begin = self.url("blobs/uploads/")?;
        let asked = self.ask(Method::POST, begin, true, Led::ByUser, |request| {
            request.header(CONTENT_LENGTH, 0)
        });
        self.upload(taken(asked.await?).await?)
    }

    /// Gives bytes that begin `from` there in the blob; where the next ones go.
    pub async fn give_piece(&self, upload: &Upload, from: u64, bytes: Bytes) -> Result<Upload> {
        let last = (from + bytes.len() as u64).saturating_sub(1);
        let asked = self.ask(
            Method::PATCH,
            upload.url.clone(),
            true,
            upload.led,
            |request| {
                request
                    .header(CONTENT_RANGE, format!("{from}-{last}"))
                    .header(CONTENT_LENGTH, bytes.len())
                    .header(CONTENT_TYPE, "application/octet-stream")
                    .body(bytes.clone())
            },
        );
        self.upload(taken(asked.await?).await?)
    }

    /// How many bytes of an upload the registry has, and where the next ones go.
    pub async fn reached(&self, upload: &Upload) -> Result<(Upload, u64)> {
        let asked = self.ask(Method::GET, upload.url.clone(), true, upload.led, |r| r);
        let response = taken(asked.await?).await?;
        let range = response.headers().get(RANGE).and_then(|v| v.to_str().ok());
        let last = range.and_then(|range| range.rsplit_once('-')?.1.parse::<u64>().ok());
        let unnamed = || Error::Unexpected("it does not say how far an upload is".into());
        // `0-0` is nothing, or one byte: no piece is so short.
        let have = match last.ok_or_else(unnamed)? {
            0 => 0,
            last => last + 1,
        };
        Ok((self.upload(response)?, have))
    }

    /// Gives the last bytes, or all, and says what the blob is.
    pub async fn end_upload(
        &self,
        upload: &Upload,
        body: impl Into<reqwest::Body>,
        digest: &Digest,
        size: u64,
    ) -> Result<()> {
        let mut url = upload.url.clone();
        url.query_pairs_mut()
            .append_pair("digest", &digest.to_string());
        let request = self.request(Method::PUT, url, true).await?;
        let request = request
            .header(CONTENT_LENGTH, size)
            .header(CONTENT_TYPE, "application/octet-stream");
        let response = self.http.send(request.body(body), upload.led).await?;
        let response = taken(response).await?;
        named_alike(&response, digest)?;
        match response.status() {
            StatusCode::CREATED => Ok(()),
            // It may not be there yet, or not come there at all.
            _ if self.has_blob(digest).await? => Ok(()),
            status => Err(Error::Lost(status)),
        }
    }

    /// Where an answer says that bytes go.
    fn upload(&self, response: Answer) -> Result<Upload> {
        let place = response.headers().get(LOCATION);
        let place = place.and_then(|place| place.to_str().ok());
        let unnamed = || Error::Unexpected("it names no place for an upload".into());
        let url = response
            .url()
            .join(place.ok_or_else(unnamed)?)
            .map_err(malformed)?;
        Ok(Upload {
            led: self.led_to(&url, response.from),
            url,
        })
    }

    /// Whether the registry lists what refers to a manifest. (OCI Distribution Specification 1.1: listing referrers)
    pub async fn lists_referrers(&self, digest: &Digest) -> Result<bool> {
        let url = self.url(&format!("referrers/{digest}"))?;
        let response = self.send(Method::GET, url).await?;
        match response.status() {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(false),
            _ => good(response).await.map(|_| true),
        }
    }

    /// Gives a manifest, and a tag to it.
    pub async fn give_manifest(&self, tag: &str, media_type: &str, bytes: Vec<u8>) -> Result<()> {
        let url = self.url(&format!("manifests/{tag}"))?;
        let bytes = Bytes::from(bytes);
        let asked = self.ask(Method::PUT, url, true, Led::ByUser, |request| {
            request.header(CONTENT_TYPE, media_type).body(bytes.clone())
        });
        let response = taken(asked.await?).await?;
        let digest = Digest::sha256_of(&bytes);
        named_alike(&response, &digest)?;
        let status = response.status();
        if status == StatusCode::CREATED {
            return Ok(());
        }
        // It may not be there yet, or not come there at all.
        match self.manifest(tag, &[media_type]).await {
            Ok(there) if there == bytes => Ok(()),
            Ok(_) => Err(Error::Lost(status)),
            Err(error) if error.is_absent() => Err(Error::Lost(status)),
            Err(error) => Err(error),
        }
    }

    fn url(&self, rest: &str) -> Result<Url> {
        let path = format!("/v2/{}/{rest}", self.repository);
        self.base.join(&path).map_err(malformed)
    }

    /// Reads something of the registry.
    async fn send(&self, method: Method, url: Url) -> Result<Answer> {
        self.ask(method, url, false, Led::ByUser, |r| r).await
    }

    /// Who named an address that an answer of the registry holds: its own host the user named already.
    fn led_to(&self, url: &Url, from: Space) -> Led {
        match url.host_str() == self.base.host_str() {
            true => Led::ByUser,
            false => Led::From(from),
        }
    }

    /// What the registry names has to be as safe as the registry.
    fn check_scheme(&self, url: &Url) -> Result<()> {
        match (self.base.scheme(), url.scheme()) {
            (_, "https") | ("http", "http") => Ok(()),
            (_, scheme) => Err(Refusal::Insecure {
                scheme: scheme.to_owned(),
            }
            .into()),
        }
    }
}

/// Where an answer names the digest of what was given, it has to be the right one.
fn named_alike(answer: &Answer, digest: &Digest) -> Result<()> {
    let named = answer.headers().get(CONTENT_DIGEST);
    let named = named.and_then(|value| value.to_str().ok()?.parse::<Digest>().ok());
    match named.filter(|named| named.algorithm == digest.algorithm && named != digest) {
        None => Ok(()),
        Some(found) => Err(Error::OtherBytes {
            expected: digest.clone(),
            found,
        }),
    }
}

/// A blob on its way. Its bytes are those of its digest only when it ends well.
pub struct Blob {
    /// Bytes, as far as the registry says.
    pub total: Option<u64>,
    response: Answer,
    digest: Digest,
    /// `None` once it ended.
    hasher: Option<Hasher>,
}

impl Blob {
    /// The next piece; `None` at the end, when the digest was compared.
    pub async fn next(
        &mut self,
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + Send + use<>>> {
        match self.response.chunk().await? {
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

fn check(wanted: &Digest, hasher: Hasher) -> Result<()> {
    let found = hasher.finish();
    if found == *wanted {
        return Ok(());
    }
    Err(Error::OtherBytes {
        expected: wanted.clone(),
        found,
    })
}

fn parse(text: &str) -> Result<Url> {
    Url::parse(text).map_err(malformed)
}

fn malformed(e: url::ParseError) -> Error {
    Error::Unexpected(format!("an address is malformed: {e}"))
}

async fn good(response: Answer) -> Result<Answer> {
    match response.status() {
        StatusCode::OK => Ok(response),
        _ => Err(error_of(response).await),
    }
}

/// An answer of any status that says that something was taken or is there.
async fn taken(response: Answer) -> Result<Answer> {
    if response.status().is_success() {
        Ok(response)
    } else {
        Err(error_of(response).await)
    }
}

async fn error_of(response: Answer) -> Error {
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        return Error::Unauthorized;
    }
    if status.is_success() {
        return Error::Unexpected(format!("an answer of the unexpected status {status}"));
    }
    let words = match response.whole(WORDS_LIMIT).await {
        Ok(words) => words,
        Err(fault) => return fault.into(),
    };
    let envelope = serde_json::from_slice(&words).ok();
    Error::Status(status, envelope.filter(|_| status.is_client_error()))
}
