//! Questions to the blobs of a storage account, and what is known of one. (Azure Storage: Blob service REST API)
//!
//! Refuses to speak over http to another machine than this one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use reqwest::header::{CONTENT_LENGTH, HeaderMap};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

use super::super::{Settings, client, patiently};
use super::login::Login;
use super::place::BlobPlace;
use super::refused;
use crate::fetch::FetchOptions;
use crate::fetch::client::{Answer, Client, is_here};
use crate::fetch::failure::{Failure, unanswered};
use crate::fetch::policy::Led;
use crate::store::Watch;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

/// Of the protocol; it has ranges of 4 MiB and MD5 for each of them.
const VERSION: &str = "2021-12-02";
/// Bytes of an answer in XML: a page of a list has ten thousand ranges.
const LONGEST: u64 = 16 << 20;
/// What a request's bytes are compared with at the service.
const CONTENT_MD5: &str = "content-md5";
const BLOB_TYPE: &str = "x-ms-blob-type";
/// Our own word about a blob that is whole: the SHA-256 of all of it, hex. Names of metadata are words of a programming language.
const WHOLE: &str = "x-ms-meta-winimgsha256";
/// The same of one whose bytes are on their way.
const SENDING: &str = "x-ms-meta-winimgsending";

pub struct Storage {
    client: Client,
    login: Login,
    /// Of the account. Ends with a slash.
    base: Url,
    pub place: BlobPlace,
    options: FetchOptions,
}

/// How a blob keeps its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Pages,
    Blocks,
}

impl Kept {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pages => "PageBlob",
            Self::Blocks => "BlockBlob",
        }
    }
}

/// What stands at the place of a blob.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// The blob itself.
    Whole,
    /// The blob itself, whose pages were not all sent.
    Begun,
    /// Something else, in a few words.
    Other(String),
}

impl Storage {
    pub fn new(place: &BlobPlace, settings: &Settings) -> Result<Self> {
        let azure = &settings.azure;
        let base = match &azure.blobs {
            Some(endpoint) => format!("{}/", endpoint.trim_end_matches('/')),
            None => format!("https://{}.blob.core.windows.net/", place.account),
        };
        let proxies = &settings.options.proxies;
        let base = address(&base, "AZURE_STORAGE_SERVICE_ENDPOINT")?;
        Ok(Self {
            client: client(&base, &settings.options),
            login: Login::to_storage(&place.account, azure.account.as_ref(), proxies),
            base,
            place: place.clone(),
            options: settings.options.clone(),
        })
    }

    /// Of a blob, without a signature.
    pub fn url(&self, name: &str) -> Url {
        let BlobPlace {
            container, prefix, ..
        } = &self.place;
        let mut url = self.base.clone();
        url.set_path(&format!("{}{container}/{prefix}{name}", self.base.path()));
        url
    }

    /// One request, whatever its answer.
    pub async fn ask(
        &self,
        method: Method,
        url: &Url,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, Failure> {
        let failed = |fault| unanswered("the storage account", url, fault);
        let request = self.client.request(method, url.clone()).map_err(failed)?;
        let request = change(request.header("x-ms-version", VERSION));
        let request = self.login.sign(request).await?;
        self.client.send(request, Led::ByUser).await.map_err(failed)
    }

    /// Sends bytes, again as long as its failures pass. The service compares them with their MD5.
    pub async fn put(
        &self,
        what: &str,
        url: Url,
        bytes: Bytes,
        watch: &Watch,
        change: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<()> {
        let md5 = STANDARD.encode(Md5::digest(&bytes));
        patiently(&self.options, watch, async || {
            let asked = self.ask(Method::PUT, &url, |request| {
                let request = change(request).header(CONTENT_LENGTH, bytes.len());
                match bytes.is_empty() {
                    true => request,
                    false => request.header(CONTENT_MD5, md5.clone()).body(bytes.clone()),
                }
            });
            let answer = asked.await?;
            match answer.status().is_success() {
                true => Ok(()),
                false => Err(refused::of(answer, what, &url).await),
            }
        })
        .await
    }

    /// The text of an answer; `None`: there is no such blob.
    pub async fn text(&self, what: &str, url: &Url, watch: &Watch) -> Result<Option<String>> {
        patiently(&self.options, watch, async || {
            let answer = self.ask(Method::GET, url, |request| request).await?;
            match answer.status() {
                StatusCode::NOT_FOUND => Ok(None),
                status if status.is_success() => {
                    let bytes = answer.whole(LONGEST).await;
                    let failed = |fault| unanswered("the storage account", url, fault);
                    let bytes = bytes.map_err(failed)?;
                    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
                }
                _ => Err(refused::of(answer, what, url).await),
            }
        })
        .await
    }

    /// What stands at a blob's place.
    pub async fn look(
        &self,
        name: &str,
        (kept, size, sha256): (Kept, u64, &Digest),
        watch: &Watch,
    ) -> Result<Found> {
        let url = self.url(name);
        patiently(&self.options, watch, async || {
            let answer = self.ask(Method::HEAD, &url, |request| request).await?;
            match answer.status() {
                StatusCode::NOT_FOUND if refused::code(answer.headers()) != "ContainerNotFound" => {
                    Ok(Found::Nothing)
                }
                status if status.is_success() => Ok(found(answer.headers(), kept, size, sha256)),
                _ => Err(refused::of(answer, name, &url).await),
            }
        })
        .await
    }
}

fn found(headers: &HeaderMap, kept: Kept, size: u64, sha256: &Digest) -> Found {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let there = header(BLOB_TYPE).unwrap_or("unknown");
    let length = header(CONTENT_LENGTH.as_str()).unwrap_or("unknown");
    let fits = there == kept.name() && length == size.to_string();
    let is_ours = |mark: &str| mark == sha256.hex();
    let words = match (header(WHOLE), header(SENDING)) {
        (Some(mark), _) if fits && is_ours(mark) => return Found::Whole,
        (None, Some(mark)) if fits && is_ours(mark) => return Found::Begun,
        (Some(mark), _) => format!("SHA-256 {mark}"),
        (None, Some(mark)) => format!("not whole, of SHA-256 {mark}"),
        (None, None) => "SHA-256 unknown".into(),
    };
    let words = format!("{there} of {length} bytes, {words}");
    Found::Other(unseen::line(&words))
}

/// A blob that is made with this request is marked so.
pub fn whole(request: RequestBuilder, kept: Kept, sha256: &Digest) -> RequestBuilder {
    request
        .header(BLOB_TYPE, kept.name())
        .header(WHOLE, sha256.hex())
}

/// The mark alone, of a blob that is there.
pub fn completed(request: RequestBuilder, sha256: &Digest) -> RequestBuilder {
    request.header(WHOLE, sha256.hex())
}

/// A blob of pages without data is made with this request.
pub fn begun(request: RequestBuilder, size: u64, sha256: &Digest) -> RequestBuilder {
    request
        .header(BLOB_TYPE, Kept::Pages.name())
        .header("x-ms-blob-content-length", size)
        .header(SENDING, sha256.hex())
}

/// An address that secrets may be sent to.
pub fn address(text: &str, variable: &str) -> Result<Url> {
    let wrong = |fact: &str| {
        Error::new(Kind::Recipe, format!("the address of Azure {fact}"))
            .at(text)
            .cure(format!("mend {variable}"))
    };
    let url = Url::parse(text).map_err(|e| wrong(&format!("is malformed: {e}")))?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if url.host().is_some_and(|host| is_here(&host)) => Ok(url),
        _ => Err(wrong("is not one of https")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_ours_by_its_mark_its_size_and_its_kind() {
        let digest = Digest::sha256_of(b"x");
        let hex = digest.hex();
        let of = |headers: &[(&str, &str)]| {
            let parsed = headers
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            found(&HeaderMap::from_iter(parsed), Kept::Pages, 512, &digest)
        };
        let pages = (BLOB_TYPE, "PageBlob");
        let size = ("content-length", "512");
        assert_eq!(of(&[pages, size, (WHOLE, &hex)]), Found::Whole);
        assert_eq!(of(&[pages, size, (SENDING, &hex)]), Found::Begun);
        for (headers, expected) in [
            (
                [pages, ("content-length", "1024"), (WHOLE, hex.as_str())],
                format!("PageBlob of 1024 bytes, SHA-256 {hex}"),
            ),
            (
                [(BLOB_TYPE, "BlockBlob"), size, (WHOLE, &hex)],
                format!("BlockBlob of 512 bytes, SHA-256 {hex}"),
            ),
            (
                [pages, size, (SENDING, "00")],
                "PageBlob of 512 bytes, not whole, of SHA-256 00".into(),
            ),
        ] {
            assert_eq!(of(&headers), Found::Other(expected));
        }
    }

    #[test]
    fn secrets_go_over_https_or_nowhere_but_to_this_machine() {
        assert!(address("http://127.0.0.1:10000/devstoreaccount1/", "X").is_ok());
        let error = address(
            "http://storage.example.com/",
            "AZURE_STORAGE_SERVICE_ENDPOINT",
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "the address of Azure is not one of https\n  at: http://storage.example.com/\n  \
             cure: mend AZURE_STORAGE_SERVICE_ENDPOINT"
        );
    }
}
