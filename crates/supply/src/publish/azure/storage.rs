//! Client for the blobs of a storage account. (Azure Storage: Blob service REST API)
//!
//! Refuses http, except to this machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use reqwest::header::{CONTENT_LENGTH, HeaderMap};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

use super::super::{build_client, service, with_retries};
use super::failures;
use super::login::{AccountLogin, AzureLogin};
use super::place::BlobPlace;
use crate::fetch::FetchOptions;
use crate::fetch::client::{HttpAnswer, HttpClient};
use crate::fetch::failure::FetchFailure;
use crate::store::ProgressWatch;
use winimg_base::digest::Digest;
use winimg_base::display_text;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};

/// Version of the protocol; it has ranges of 4 MiB with an MD5 each.
const VERSION: &str = "2021-12-02";
/// Maximum size of an XML answer in bytes: a page of a list has ten thousand ranges.
const LONGEST: u64 = 16 << 20;
/// Digest of a request's body, which the service verifies.
const CONTENT_MD5: &str = "content-md5";
/// Name of the service in messages.
const ACCOUNT: &str = "the storage account";
const BLOB_TYPE: &str = "x-ms-blob-type";
/// Metadata with the SHA-256 of a complete blob, hex. Names of metadata must be C# identifiers.
const WHOLE: &str = "x-ms-meta-winimgsha256";
/// Metadata with the SHA-256 of an incomplete blob, hex.
const SENDING: &str = "x-ms-meta-winimgsending";

pub struct BlobStorage {
    client: HttpClient,
    login: AzureLogin,
    /// Address of the account. Ends with a slash.
    base: Url,
    pub place: BlobPlace,
    options: FetchOptions,
}

/// Type of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobType {
    Pages,
    Blocks,
}

impl BlobType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pages => "PageBlob",
            Self::Blocks => "BlockBlob",
        }
    }
}

/// Current state of a blob.
#[derive(Debug, PartialEq, Eq)]
pub enum BlobStatus {
    Nothing,
    /// The complete blob.
    Whole,
    /// The blob with some of its pages missing.
    Begun,
    /// A different blob; a short description.
    Other(String),
}

impl BlobStorage {
    pub fn new(place: &BlobPlace, options: &FetchOptions) -> Result<Self> {
        let account = AccountLogin::from_environment()?;
        let base = match read_variable("AZURE_STORAGE_SERVICE_ENDPOINT") {
            Some(endpoint) => format!("{}/", endpoint.trim_end_matches('/')),
            None => format!("https://{}.blob.core.windows.net/", place.account),
        };
        let base = address(&base, "AZURE_STORAGE_SERVICE_ENDPOINT")?;
        Ok(Self {
            client: build_client(&base, options),
            login: AzureLogin::to_storage(&place.account, account.as_ref(), &options.proxies),
            base,
            place: place.clone(),
            options: options.clone(),
        })
    }

    /// Returns the address of a blob, without a signature.
    pub fn url(&self, name: &str) -> Url {
        let BlobPlace {
            container, prefix, ..
        } = &self.place;
        let mut url = self.base.clone();
        url.set_path(&format!("{}{container}/{prefix}{name}", self.base.path()));
        url
    }

    /// Sends one request; accepts any answer.
    pub async fn ask(
        &self,
        method: Method,
        url: &Url,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<HttpAnswer, FetchFailure> {
        let request = service::request(&self.client, ACCOUNT, method, url)?;
        let request = change(request.header("x-ms-version", VERSION));
        let request = self.login.sign(request).await?;
        service::send(&self.client, ACCOUNT, url, request).await
    }

    /// Sends bytes and retries transient failures. The service verifies their MD5.
    pub async fn put(
        &self,
        what: &str,
        url: Url,
        bytes: Bytes,
        watch: &ProgressWatch,
        change: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<()> {
        let md5 = STANDARD.encode(Md5::digest(&bytes));
        with_retries(&self.options, watch, async || {
            let asked = self.ask(Method::PUT, &url, |request| {
                let request = change(request).header(CONTENT_LENGTH, bytes.len());
                if bytes.is_empty() {
                    request
                } else {
                    request.header(CONTENT_MD5, md5.clone()).body(bytes.clone())
                }
            });
            let answer = asked.await?;
            if answer.status().is_success() {
                Ok(())
            } else {
                Err(failures::read_failure(answer, what, &url).await)
            }
        })
        .await
    }

    /// Fetches the text of an answer; `None`: there is no such blob.
    pub async fn text(
        &self,
        what: &str,
        url: &Url,
        watch: &ProgressWatch,
    ) -> Result<Option<String>> {
        with_retries(&self.options, watch, async || {
            let answer = self.ask(Method::GET, url, |request| request).await?;
            match answer.status() {
                StatusCode::NOT_FOUND => Ok(None),
                status if status.is_success() => {
                    let text = service::read_text(answer, ACCOUNT, url, LONGEST).await?;
                    Ok(Some(text))
                }
                _ => Err(failures::read_failure(answer, what, url).await),
            }
        })
        .await
    }

    /// Checks the current state of a blob.
    pub async fn check_blob(
        &self,
        name: &str,
        (kept, size, sha256): (BlobType, u64, &Digest),
        watch: &ProgressWatch,
    ) -> Result<BlobStatus> {
        let url = self.url(name);
        with_retries(&self.options, watch, async || {
            let answer = self.ask(Method::HEAD, &url, |request| request).await?;
            match answer.status() {
                StatusCode::NOT_FOUND
                    if failures::code(answer.headers()) != "ContainerNotFound" =>
                {
                    Ok(BlobStatus::Nothing)
                }
                status if status.is_success() => Ok(found(answer.headers(), kept, size, sha256)),
                _ => Err(failures::read_failure(answer, name, &url).await),
            }
        })
        .await
    }
}

fn found(headers: &HeaderMap, kept: BlobType, size: u64, sha256: &Digest) -> BlobStatus {
    let there = get_header(headers, BLOB_TYPE).unwrap_or("unknown");
    let length = get_header(headers, CONTENT_LENGTH.as_str()).unwrap_or("unknown");
    let fits = there == kept.name() && length == size.to_string();
    let ours = sha256.hex();
    let words = match (get_header(headers, WHOLE), get_header(headers, SENDING)) {
        (Some(mark), _) if fits && mark == ours => return BlobStatus::Whole,
        (None, Some(mark)) if fits && mark == ours => return BlobStatus::Begun,
        (Some(mark), _) => format!("SHA-256 {mark}"),
        (None, Some(mark)) => format!("incomplete, SHA-256 {mark}"),
        (None, None) => "SHA-256 unknown".into(),
    };
    let words = format!("{there} of {length} bytes, {words}");
    BlobStatus::Other(display_text::sanitize_line(&words))
}

fn get_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Marks the blob created by this request as complete.
pub fn whole(request: RequestBuilder, kept: BlobType, sha256: &Digest) -> RequestBuilder {
    request
        .header(BLOB_TYPE, kept.name())
        .header(WHOLE, sha256.hex())
}

/// Marks an existing blob as complete.
pub fn completed(request: RequestBuilder, sha256: &Digest) -> RequestBuilder {
    request.header(WHOLE, sha256.hex())
}

/// Turns the request into one that creates an empty page blob.
pub fn begun(request: RequestBuilder, size: u64, sha256: &Digest) -> RequestBuilder {
    request
        .header(BLOB_TYPE, BlobType::Pages.name())
        .header("x-ms-blob-content-length", size)
        .header(SENDING, sha256.hex())
}

/// Parses an address that secrets may be sent to.
pub fn address(text: &str, variable: &str) -> Result<Url> {
    let fault = match Url::parse(text) {
        Ok(url) if service::keeps_secrets(&url) => return Ok(url),
        Ok(_) => "does not use https".to_owned(),
        Err(e) => format!("is malformed: {e}"),
    };
    Err(
        Error::new(Kind::Recipe, format!("the address of Azure {fault}"))
            .at(text)
            .cure(format!("fix {variable}")),
    )
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
            found(&HeaderMap::from_iter(parsed), BlobType::Pages, 512, &digest)
        };
        let pages = (BLOB_TYPE, "PageBlob");
        let size = ("content-length", "512");
        assert_eq!(of(&[pages, size, (WHOLE, &hex)]), BlobStatus::Whole);
        assert_eq!(of(&[pages, size, (SENDING, &hex)]), BlobStatus::Begun);
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
                "PageBlob of 512 bytes, incomplete, SHA-256 00".into(),
            ),
        ] {
            assert_eq!(of(&headers), BlobStatus::Other(expected));
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
            "the address of Azure does not use https\n  at: http://storage.example.com/\n  \
             cure: fix AZURE_STORAGE_SERVICE_ENDPOINT"
        );
    }
}
