//! A folder of a bucket of Google Cloud Storage, by its JSON API: each file as a resumable upload that another run continues.
//!
//! The bucket computes the MD5 of each object and takes none whose bytes have another one than it was told; the SHA-256 is kept as the
//! object's metadata. A file appears when all of it is there, and only where the plan saw none, or the one that is replaced.
//! (Cloud Storage JSON API: Objects)

mod answers;
mod kept;
mod place;
mod refused;
mod token;
mod upload;

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::{Method, RequestBuilder, StatusCode};
use url::{Host, Url};

use super::{Arrived, Image, Object, Settings, Standing, Target, files, patiently, renewed};
use crate::fetch::FetchOptions;
use crate::fetch::client::{Answer, Client, is_here};
use crate::fetch::failure::{Failure, unanswered};
use crate::fetch::policy::Led;
use crate::store::Watch;
use answers::Resource;
pub use place::GcsPlace;
use token::Token;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

const ENDPOINT: &str = "https://storage.googleapis.com/";
/// Our own word about an object: the SHA-256 of all of it, hex.
const OURS: &str = "winimg-sha256";
/// Bytes of an answer in JSON.
const LONGEST: u64 = 1 << 20;
/// Of an object that is not there.
const NONE: &str = "0";

pub struct Folder {
    client: Client,
    token: Token,
    /// Ends with a slash.
    base: Url,
    place: GcsPlace,
    options: FetchOptions,
}

/// The generation of the object that the plan saw.
#[derive(Default)]
pub struct Seen(Mutex<Option<String>>);

impl Target for Folder {
    type Slot = Seen;

    /// Asks for the bucket first, by its list: to read the bucket itself takes a right that who writes objects rarely has.
    async fn objects(self: &Arc<Self>, image: &Image, watch: &Watch) -> Result<Vec<Object>> {
        let at = self.place.to_string();
        let mut url = self.url(&["storage", "v1", "b", &self.place.bucket, "o"]);
        url.query_pairs_mut()
            .append_pair("prefix", &self.place.prefix)
            .append_pair("maxResults", "1");
        patiently(&self.options, watch, async || {
            let asked = self.ask(Method::GET, url.clone(), |r| r).await?;
            match asked.status().is_success() {
                true => Ok(()),
                false => Err(refused::of(asked, &self.place.bucket, &at).await),
            }
        })
        .await?;
        files(self, image, |name| Ok(format!("{at}{name}")))
    }

    async fn standing(&self, object: &Object, seen: &Seen, watch: &Watch) -> Result<Standing> {
        let there = patiently(&self.options, watch, async || self.look(object).await).await?;
        let Some(there) = there else {
            return Ok(Standing::Absent);
        };
        let size = there.size.as_deref().unwrap_or("unknown");
        let digest = there.metadata.get(OURS).map_or("unknown", String::as_str);
        if size == object.size.to_string() && digest == object.sha256.hex() {
            return Ok(Standing::Same(None));
        }
        let found = format!("{size} bytes, SHA-256 {digest}");
        *seen.0.lock().unwrap_or_else(PoisonError::into_inner) = there.generation;
        Ok(Standing::Other(unseen::line(&found)))
    }

    /// Replaces what the plan saw, and nothing that came since.
    async fn send(&self, object: &Object, seen: &Seen, watch: &Watch) -> Result<Arrived> {
        let seen = seen
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let generation = seen.as_deref().unwrap_or(NONE);
        Ok(self.upload(object, generation, watch).await?.into())
    }
}

impl Folder {
    pub fn new(place: &GcsPlace, settings: &Settings) -> Result<Self> {
        Ok(Self {
            client: Client::new(&settings.options.proxies, settings.options.patience),
            token: Token::new(&settings.options.proxies),
            base: base(settings.storage.as_deref().unwrap_or(ENDPOINT))?,
            place: place.clone(),
            options: settings.options.clone(),
        })
    }

    async fn look(&self, object: &Object) -> Result<Option<Resource>, Failure> {
        let key = self.key(object);
        let url = self.url(&["storage", "v1", "b", &self.place.bucket, "o", &key]);
        let asked = self.ask(Method::GET, url, |r| r).await?;
        match asked.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => answers::resource(&self.whole(asked).await?).map(Some),
            _ => Err(refused::of(asked, &object.name, &object.at).await),
        }
    }

    async fn ask(
        &self,
        method: Method,
        url: Url,
        change: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, Failure> {
        let failed = |fault| unanswered("the bucket", &url, fault);
        let ask = async || {
            let request = self.client.request(method.clone(), url.clone());
            let request = change(request.map_err(failed)?);
            let request = self.token.sign(request).await?;
            self.client.send(request, Led::ByUser).await.map_err(failed)
        };
        renewed(ask, async || self.token.forget().await).await
    }

    async fn whole(&self, answer: Answer) -> Result<Vec<u8>, Failure> {
        let bytes = answer.whole(LONGEST).await;
        bytes.map_err(|fault| unanswered("the bucket", &self.base, fault))
    }

    fn key(&self, object: &Object) -> String {
        format!("{}{}", self.place.prefix, object.name)
    }

    /// A slash of a segment is not one of the path.
    fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

/// The root of the API: over https, or of this machine.
fn base(text: &str) -> Result<Url> {
    let wrong = |fact: &str| {
        Error::new(Kind::Recipe, format!("the address of Cloud Storage {fact}"))
            .at(winimg_base::text::redact(text))
            .expected("such as https://storage.me-central2.rep.googleapis.com/")
            .cure("mend CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE")
    };
    let url = Url::parse(text).map_err(|e| wrong(&format!("is malformed: {e}")))?;
    let here = url.host().is_some_and(|host: Host<&str>| is_here(&host));
    if !matches!((url.scheme(), here), ("https", _) | ("http", true)) {
        return Err(wrong("is not one of https"));
    }
    let is_bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    match is_bare && ["/", "/storage/v1", "/storage/v1/"].contains(&url.path()) {
        true => Ok(url.join("/").unwrap_or(url)),
        false => Err(wrong("has more than a host")),
    }
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
            assert_eq!(base(text).unwrap().as_str(), expected);
        }
        for text in [
            "http://storage.googleapis.com/",
            "https://storage.googleapis.com/b/x",
            "https://u:hunter2@storage.googleapis.com/",
            "storage.googleapis.com",
        ] {
            let error = base(text).unwrap_err().to_string();
            assert!(
                error.starts_with("the address of Cloud Storage "),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
