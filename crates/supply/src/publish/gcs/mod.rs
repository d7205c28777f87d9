//! Publishes to a bucket of Google Cloud Storage by its JSON API: each file as a resumable upload
//! that a later run can continue.
//!
//! The bucket verifies the MD5 of each object; the SHA-256 is stored as metadata. A file appears
//! when it is complete, and only if the object there is still the one that the plan saw. (Cloud
//! Storage JSON API: Objects)

mod answers;
mod failures;
mod place;
mod token;
mod upload;
mod upload_state;

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

use super::{
    ObjectStatus, PublishHost, PublishImage, PublishObject, PublishedObject, RemoteObject,
    retry_with_token, service, with_retries,
};
use crate::fetch::FetchOptions;
use crate::fetch::client::{HttpAnswer, HttpClient};
use crate::fetch::failure::FetchFailure;
use crate::store::ProgressWatch;
use answers::GcsObject;
pub use place::GcsPlace;
use token::GcsToken;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};

/// Name of the service in messages.
const BUCKET: &str = "the bucket";
const ENDPOINT: &str = "https://storage.googleapis.com/";
/// Metadata with the SHA-256 of the whole object, hex.
const OURS: &str = "winimg-sha256";
/// Maximum size of a JSON answer in bytes.
const LONGEST: u64 = 1 << 20;
/// Generation of an object that does not exist.
const NONE: &str = "0";

pub struct GcsFolder {
    client: HttpClient,
    token: GcsToken,
    /// Ends with a slash.
    base: Url,
    place: GcsPlace,
    options: FetchOptions,
}

/// The generation of the object that the plan saw.
#[derive(Default)]
pub struct SeenGeneration(Mutex<Option<String>>);

impl GcsFolder {
    pub fn new(place: &GcsPlace, host: &PublishHost) -> Result<Self> {
        let endpoint = read_variable("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE");
        Ok(Self {
            client: HttpClient::new(&host.fetch.proxies, host.fetch.patience),
            token: GcsToken::new(&host.fetch.proxies),
            base: parse_base(endpoint.as_deref().unwrap_or(ENDPOINT))?,
            place: place.clone(),
            options: host.fetch.clone(),
        })
    }

    /// Checks the bucket first by listing it: reading the bucket itself needs a permission that
    /// writers rarely have.
    pub async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        let at = self.place.to_string();
        let mut url = self.make_url(&["storage", "v1", "b", &self.place.bucket, "o"]);
        url.query_pairs_mut()
            .append_pair("prefix", &self.place.prefix)
            .append_pair("maxResults", "1");
        with_retries(&self.options, watch, async || {
            let asked = self.ask(Method::GET, url.clone(), |r| r).await?;
            if asked.status().is_success() {
                Ok(())
            } else {
                Err(failures::read_failure(asked, &self.place.bucket, &at).await)
            }
        })
        .await?;
        let objects = image.files.iter().map(|file| {
            let remote = RemoteObject::Gcs(Arc::clone(self), SeenGeneration::default());
            PublishObject::from_file(file, format!("{at}{}", file.name), remote)
        });
        Ok(objects.collect())
    }

    pub async fn check_status(
        &self,
        object: &PublishObject,
        seen: &SeenGeneration,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        let there = with_retries(&self.options, watch, async || {
            self.find_object(object).await
        })
        .await?;
        let Some(there) = there else {
            return Ok(ObjectStatus::Absent);
        };
        let digest = there.metadata.get(OURS).map(String::as_str);
        let status = object.compare_metadata(there.size.as_deref(), digest);
        if matches!(status, ObjectStatus::Other(_)) {
            *seen.0.lock().unwrap_or_else(PoisonError::into_inner) = there.generation;
        }
        Ok(status)
    }

    /// Replaces only the object that the plan saw.
    pub async fn send(
        &self,
        object: &PublishObject,
        seen: &SeenGeneration,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        let seen = seen
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let generation = seen.as_deref().unwrap_or(NONE);
        Ok(self.upload(object, generation, watch).await?.into())
    }

    async fn find_object(&self, object: &PublishObject) -> Result<Option<GcsObject>, FetchFailure> {
        let key = self.format_key(object);
        let url = self.make_url(&["storage", "v1", "b", &self.place.bucket, "o", &key]);
        let asked = self.ask(Method::GET, url, |r| r).await?;
        match asked.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                answers::parse_object(&self.read_body(asked).await?).map(Some)
            }
            _ => Err(failures::read_failure(asked, &object.name, &object.at).await),
        }
    }

    async fn ask(
        &self,
        method: Method,
        url: Url,
        change: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<HttpAnswer, FetchFailure> {
        retry_with_token(
            async || {
                let request = service::request(&self.client, BUCKET, method.clone(), &url)?;
                let request = self.token.sign(change(request)).await?;
                service::send(&self.client, BUCKET, &url, request).await
            },
            async || self.token.forget().await,
        )
        .await
    }

    async fn read_body(&self, answer: HttpAnswer) -> Result<Vec<u8>, FetchFailure> {
        service::read_body(answer, BUCKET, &self.base, LONGEST).await
    }

    fn format_key(&self, object: &PublishObject) -> String {
        format!("{}{}", self.place.prefix, object.name)
    }

    /// Builds an address; a slash in a segment is escaped.
    fn make_url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

/// Parses the root of the API: https, or on this machine.
fn parse_base(text: &str) -> Result<Url> {
    let url = Url::parse(text).map_err(|e| refuse_address(text, &format!("is malformed: {e}")))?;
    if !service::keeps_secrets(&url) {
        return Err(refuse_address(text, "does not use https"));
    }
    let is_bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if is_bare && ["/", "/storage/v1", "/storage/v1/"].contains(&url.path()) {
        Ok(url.join("/").unwrap_or(url))
    } else {
        Err(refuse_address(text, "has more than a host"))
    }
}

fn refuse_address(text: &str, fact: &str) -> Error {
    Error::new(Kind::Recipe, format!("the address of Cloud Storage {fact}"))
        .at(winimg_base::text::redact(text))
        .expected("such as https://storage.me-central2.rep.googleapis.com/")
        .cure("fix CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_over_https() {
        for (text, expected) in [
            (
                "https://storage.me-central2.rep.googleapis.com",
                "https://storage.me-central2.rep.googleapis.com/",
            ),
            (
                "https://storage-x.p.googleapis.com/storage/v1/",
                "https://storage-x.p.googleapis.com/",
            ),
            ("http://127.0.0.1:4443", "http://127.0.0.1:4443/"),
        ] {
            assert_eq!(parse_base(text).unwrap().as_str(), expected);
        }
        for text in [
            "http://storage.googleapis.com/",
            "https://storage.googleapis.com/b/x",
            "https://u:hunter2@storage.googleapis.com/",
            "storage.googleapis.com",
        ] {
            let error = parse_base(text).unwrap_err().to_string();
            assert!(
                error.starts_with("the address of Cloud Storage "),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
