//! Requests to Glance with a token of Keystone's, at the address that Keystone's catalog names.
//!
//! A token that ran out is asked for again once. It stands in a header alone and is shown nowhere.

use std::path::Path;

use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode};
use tokio::sync::Mutex;
use url::Url;

use super::answers::{Granted, LONGEST, Service, read, refused, unexpected};
use super::cloud::Cloud;
use crate::fetch::client::{Answer, Client, Fault, is_here};
use crate::fetch::failure::{Failure, unanswered};
use crate::fetch::policy::Led;
use crate::fetch::{FetchOptions, upload};
use crate::publish::{client, patiently, renewed};
use crate::store::Watch;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

const TOKEN: &str = "x-auth-token";
const SUBJECT: &str = "x-subject-token";

pub struct Session {
    client: Client,
    cloud: Cloud,
    options: FetchOptions,
    held: Mutex<Option<Held>>,
}

/// What Keystone gave.
#[derive(Clone)]
struct Held {
    token: HeaderValue,
    project: Option<String>,
    /// Ends with `/v2/`.
    glance: Url,
}

impl Session {
    pub fn new(cloud: Cloud, options: &FetchOptions) -> Self {
        Self {
            client: client(&cloud.keystone, options),
            cloud,
            options: options.clone(),
            held: Mutex::default(),
        }
    }

    /// Does it again as long as its failures pass.
    pub async fn patiently<T>(
        &self,
        watch: &Watch,
        work: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T> {
        patiently(&self.options, watch, work).await
    }

    /// The id of the project that the token is for.
    pub async fn project(&self) -> Result<String, Failure> {
        let project = self.held().await?.project;
        let fact = "the login to OpenStack is for no project";
        let error = || Error::new(Kind::Recipe, fact).cure("set OS_PROJECT_NAME");
        project.ok_or_else(|| error().into())
    }

    /// Of a path below `v2/`, with its query.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        change: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, Failure> {
        let ask = async || {
            let held = self.held().await?;
            let url = join(&held.glance, path)?;
            let failed = |fault| unanswered("Glance", &url, fault);
            let request = self.client.request(method.clone(), url.clone());
            let request = change(request.map_err(failed)?)
                .header(ACCEPT, "application/json")
                .header(TOKEN, held.token);
            self.client.send(request, Led::ByUser).await.map_err(failed)
        };
        renewed(ask, async || *self.held.lock().await = None).await
    }

    /// The bytes of an answer of a good status.
    pub async fn whole(&self, answer: Answer, what: &str, at: &str) -> Result<Vec<u8>, Failure> {
        if !answer.status().is_success() {
            return Err(refused(answer, "Glance", what, at).await);
        }
        let url = answer.url().clone();
        let bytes = answer.whole(LONGEST).await;
        bytes.map_err(|fault| unanswered("Glance", &url, fault))
    }

    /// Sends a whole file as the data of an image.
    pub async fn put(
        &self,
        path: &str,
        file: (&Path, u64),
        watch: &Watch,
    ) -> Result<Answer, Failure> {
        let put = async || self.put_once(path, file, watch).await;
        renewed(put, async || *self.held.lock().await = None).await
    }

    async fn put_once(
        &self,
        path: &str,
        (file, size): (&Path, u64),
        watch: &Watch,
    ) -> Result<Answer, Failure> {
        let held = self.held().await?;
        let url = join(&held.glance, path)?;
        let failed = |fault| unanswered(&watch.what, &url, fault);
        let (body, moved) = upload::body(file, 0, size, watch)?;
        let request = self
            .client
            .request(Method::PUT, url.clone())
            .map_err(failed)?;
        let request = request
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, size)
            .header(TOKEN, held.token)
            .body(body);
        let stall = self.options.patience.stall;
        tokio::select! {
            answer = self.client.send(request, Led::ByUser) => answer.map_err(failed),
            () = moved.stands_still(stall) => Err(unanswered(&watch.what, &url, Fault::Silent(stall))),
        }
    }

    async fn held(&self) -> Result<Held, Failure> {
        let mut held = self.held.lock().await;
        match held.as_ref() {
            Some(held) => Ok(held.clone()),
            None => Ok(held.insert(self.log_in().await?).clone()),
        }
    }

    async fn log_in(&self) -> Result<Held, Failure> {
        let url = join(&self.cloud.keystone, "auth/tokens")?;
        let failed = |fault| unanswered("Keystone", &url, fault);
        let request = self
            .client
            .request(Method::POST, url.clone())
            .map_err(failed)?;
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(self.cloud.login.expose().to_owned());
        let answer = self
            .client
            .send(request, Led::ByUser)
            .await
            .map_err(failed)?;
        if answer.status() != StatusCode::CREATED {
            let at = url.to_string();
            return Err(refused(answer, "Keystone", "the login to OpenStack", &at).await);
        }
        let token = answer.headers().get(SUBJECT).cloned();
        let Some(mut token) = token else {
            return Err(unexpected("Keystone", "it gives no token").into());
        };
        token.set_sensitive(true);
        let bytes = answer.whole(LONGEST).await.map_err(failed)?;
        let granted: Granted = read("Keystone", &bytes)?;
        let glance = match &self.cloud.glance {
            Some(url) => url.clone(),
            None => self.endpoint(&granted.token.catalog)?,
        };
        Ok(Held {
            token,
            project: granted.token.project.map(|project| project.id),
            glance: second(&glance),
        })
    }

    /// Glance's address in the catalog, by interface and region.
    fn endpoint(&self, catalog: &[Service]) -> Result<Url, Error> {
        let all = catalog.iter().filter(|service| service.kind == "image");
        let all = all.flat_map(|service| &service.endpoints);
        let mut there = all.filter(|one| one.interface == self.cloud.interface);
        let is_here_asked = |one: &&super::answers::Endpoint| {
            let region = self.cloud.region.as_deref();
            region.is_none()
                || region == one.region_id.as_deref()
                || region == one.region.as_deref()
        };
        let Some(found) = there.find(is_here_asked) else {
            let region = self.cloud.region.as_deref().unwrap_or("any");
            return Err(
                Error::new(Kind::Publish, "Keystone's catalog has no image service")
                    .at(&self.cloud.keystone)
                    .expected(format!(
                        "one of the interface {}, region {region}",
                        self.cloud.interface
                    ))
                    .cure("mend OS_INTERFACE and OS_REGION_NAME: openstack catalog show image"),
            );
        };
        let malformed = || unexpected("Keystone", "the address of the image service is malformed");
        let url = Url::parse(&found.url).map_err(|_| malformed())?;
        let here = url.host().is_some_and(|host| is_here(&host));
        match (url.scheme(), here) {
            ("https", _) | ("http", true) => Ok(url),
            _ => Err(Error::new(
                Kind::Publish,
                "the image service is asked over http: the token would be readable on its way",
            )
            .at(unseen::line(&found.url))
            .cure("set OS_IMAGE_ENDPOINT_OVERRIDE to its address over https")),
        }
    }
}

/// The second version of the API at an address that may name one.
fn second(glance: &Url) -> Url {
    let mut url = glance.clone();
    let path = glance.path().trim_end_matches('/');
    let path = path.strip_suffix("/v2").unwrap_or(path).to_owned();
    url.set_path(&format!("{path}/v2/"));
    url
}

fn join(base: &Url, path: &str) -> Result<Url, Error> {
    base.join(path)
        .map_err(|e| Error::new(Kind::Publish, "an address is malformed").because(e))
}
