//! One repository of a registry over HTTP: manifests, blobs and tags, down and up. (OCI Distribution Specification)
//!
//! Speaks itself, because the library holds answers whole before it can be asked how long they are, follows redirects from https to
//! http, and sends credentials wherever the registry says. Its types of manifests are taken. Refuses such redirects, credentials to
//! other hosts, and answers that are too long, before they are held. Follows no address that a manifest names.

mod access;
mod credentials;
mod error;

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use oci_client::Reference;
use reqwest::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE, WWW_AUTHENTICATE,
};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use url::Url;

use self::access::{Access, Challenge};
use super::Proxies;
use super::client::{self, Answer};
use super::policy::{Led, Patience, Refusal, may_ask_token};
use super::space::Space;
use winimg_base::digest::{Digest, Hasher};
use winimg_base::error::Kind;
use winimg_base::text::redact;

pub use credentials::{Credentials, Places, found as credentials};
pub(crate) use credentials::{logged_in, with_token_host};
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
        let request = self.request(Method::GET, url, false).await?;
        let request = request.header(ACCEPT, accept.join(", "));
        let response = self.http.send(request, Led::ByUser).await?;
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
            _ => good(response).await.map(|_| true),
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
        let request = self.request(Method::POST, begin, true).await?;
        let request = request.header(CONTENT_LENGTH, 0);
        let response = self.http.send(request, Led::ByUser).await?;
        self.upload(expect(response, StatusCode::ACCEPTED).await?)
    }

    /// Gives bytes that begin `from` there in the blob; where the next ones go.
    pub async fn give_piece(&self, upload: &Upload, from: u64, bytes: Bytes) -> Result<Upload> {
        let request = self
            .request(Method::PATCH, upload.url.clone(), true)
            .await?;
        let last = (from + bytes.len() as u64).saturating_sub(1);
        let request = request
            .header(CONTENT_RANGE, format!("{from}-{last}"))
            .header(CONTENT_LENGTH, bytes.len())
            .header(CONTENT_TYPE, "application/octet-stream");
        let response = self.http.send(request.body(bytes), upload.led).await?;
        self.upload(expect(response, StatusCode::ACCEPTED).await?)
    }

    /// How many bytes of an upload the registry has, and where the next ones go.
    pub async fn reached(&self, upload: &Upload) -> Result<(Upload, u64)> {
        let request = self.request(Method::GET, upload.url.clone(), true).await?;
        let response = self.http.send(request, upload.led).await?;
        let response = expect(response, StatusCode::NO_CONTENT).await?;
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
        expect(response, StatusCode::CREATED).await.map(drop)
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
        let request = self.request(Method::PUT, url, true).await?;
        let given = Digest::sha256_of(&bytes);
        let request = request.header(CONTENT_TYPE, media_type).body(bytes);
        let response = self.http.send(request, Led::ByUser).await?;
        let response = expect(response, StatusCode::CREATED).await?;
        let named = response.headers().get(CONTENT_DIGEST);
        let named = named.and_then(|digest| digest.to_str().ok()?.parse::<Digest>().ok());
        let other = named.filter(|one| one.algorithm == given.algorithm && *one != given);
        other.map_or(Ok(()), |found| {
            let expected = given;
            Err(Error::OtherBytes { expected, found })
        })
    }

    fn url(&self, rest: &str) -> Result<Url> {
        let path = format!("/v2/{}/{rest}", self.repository);
        self.base.join(&path).map_err(malformed)
    }

    /// Reads something of the registry.
    async fn send(&self, method: Method, url: Url) -> Result<Answer> {
        let request = self.request(method, url, false).await?;
        Ok(self.http.send(request, Led::ByUser).await?)
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

    /// Authorized when it goes to the registry itself.
    async fn request(&self, method: Method, url: Url, writes: bool) -> Result<RequestBuilder> {
        self.check_scheme(&url)?;
        let is_own = url.origin() == self.base.origin();
        tracing::debug!(%method, url = redact(url.as_str()), is_own, "request to a registry");
        let request = self.http.request(method, url)?;
        if !is_own {
            return Ok(request);
        }
        Ok(match (self.access(writes).await?, &self.credentials) {
            (Access::Bearer { token, .. }, _) => request.bearer_auth(token.expose()),
            (Access::Basic, Some(Credentials { user, password, .. })) => {
                request.basic_auth(user, Some(password.expose()))
            }
            (Access::Basic | Access::Open, _) => request,
        })
    }

    async fn access(&self, writes: bool) -> Result<Access> {
        let at = usize::from(writes);
        let known = || self.access.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known()[at].clone();
        match before {
            Some(Access::Bearer { until, .. }) if until <= Instant::now() => {}
            Some(access) => return Ok(access),
            None => {}
        }
        let access = self.ask_access(writes).await?;
        known()[at] = Some(access.clone());
        Ok(access)
    }

    /// The registry's first answer says how it is asked. (OCI Distribution Specification: determining support)
    async fn ask_access(&self, writes: bool) -> Result<Access> {
        let url = self.base.join("/v2/").map_err(malformed)?;
        let request = self.http.request(Method::GET, url)?;
        let response = self.http.send(request, Led::ByUser).await?;
        let from = response.from;
        let asked = response.headers().get_all(WWW_AUTHENTICATE);
        match access::challenge(asked.iter().filter_map(|value| value.to_str().ok())) {
            Challenge::None if response.status().is_server_error() => Err(error_of(response).await),
            Challenge::None => Ok(Access::Open),
            Challenge::Basic => Ok(Access::Basic),
            Challenge::Bearer { realm, service } => self.token(&realm, service, writes, from).await,
        }
    }

    /// A token of the realm that a server named which lies `from` there.
    async fn token(
        &self,
        realm: &str,
        service: Option<String>,
        writes: bool,
        from: Space,
    ) -> Result<Access> {
        let mut realm = parse(realm)?;
        let credentials = self.credentials.as_ref();
        let token_host = credentials.map(|known| known.token_host.as_deref());
        may_ask_token(&self.base, &realm, token_host)?;
        let led = match token_host.flatten() {
            Some(named) if realm.host_str() == Some(named) => Led::ByUser,
            _ => self.led_to(&realm, from),
        };
        let rights = if writes { "pull,push" } else { "pull" };
        let scope = format!("repository:{}:{rights}", self.repository);
        realm.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = service {
            realm.query_pairs_mut().append_pair("service", &service);
        }
        let request = self.http.request(Method::GET, realm)?;
        let request = match &self.credentials {
            Some(Credentials { user, password, .. }) => {
                request.basic_auth(user, Some(password.expose()))
            }
            None => request,
        };
        let response = self.http.send(request, led).await?;
        let status = response.status();
        let answer = response.whole(WORDS_LIMIT).await?;
        match status {
            StatusCode::OK => access::token(&answer),
            _ => Err(Error::NoToken(
                String::from_utf8_lossy(&answer).into_owned(),
            )),
        }
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
    expect(response, StatusCode::OK).await
}

async fn expect(response: Answer, status: StatusCode) -> Result<Answer> {
    if response.status() == status {
        return Ok(response);
    }
    Err(error_of(response).await)
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
