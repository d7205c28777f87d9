//! Requests to Glance with a token of Keystone, at the address in Keystone's catalog.
//!
//! An expired token is renewed once. It is sent only in a header, and never shown.

use std::path::Path;

use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode};
use tokio::sync::Mutex;
use url::Url;

use super::answers::{
    CatalogService, KeystoneLogin, LONGEST, read, read_failure, report_unexpected,
};
use super::cloud::OpenStackCloud;
use crate::fetch::client::{HttpAnswer, HttpClient};
use crate::fetch::failure::FetchFailure;
use crate::fetch::policy::UrlSource;
use crate::fetch::{FetchOptions, upload};
use crate::publish::{build_client, retry_with_token, service, with_retries};
use crate::store::ProgressWatch;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

const TOKEN: &str = "x-auth-token";
const SUBJECT: &str = "x-subject-token";

pub struct GlanceSession {
    client: HttpClient,
    cloud: OpenStackCloud,
    options: FetchOptions,
    held: Mutex<Option<GlanceToken>>,
}

/// A login to Keystone.
#[derive(Clone)]
struct GlanceToken {
    token: HeaderValue,
    project: Option<String>,
    /// Ends with `/v2/`.
    glance: Url,
}

impl GlanceSession {
    pub fn new(cloud: OpenStackCloud, options: &FetchOptions) -> Self {
        Self {
            client: build_client(&cloud.keystone, options),
            cloud,
            options: options.clone(),
            held: Mutex::default(),
        }
    }

    /// Runs the work and retries transient failures.
    pub async fn with_retries<T>(
        &self,
        watch: &ProgressWatch,
        work: impl AsyncFnMut() -> Result<T, FetchFailure>,
    ) -> Result<T> {
        with_retries(&self.options, watch, work).await
    }

    /// Returns the ID of the token's project.
    pub async fn find_project(&self) -> Result<String, FetchFailure> {
        let project = self.get_token().await?.project;
        project.ok_or_else(|| {
            Error::new(Kind::Recipe, "the login to OpenStack has no project")
                .cure("set OS_PROJECT_NAME")
                .into()
        })
    }

    /// Sends a request for a path below `v2/`, with its query.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        change: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<HttpAnswer, FetchFailure> {
        retry_with_token(
            async || {
                let held = self.get_token().await?;
                let url = service::join_url(&held.glance, path)?;
                let request = service::request(&self.client, "Glance", method.clone(), &url)?;
                let request = change(request)
                    .header(ACCEPT, "application/json")
                    .header(TOKEN, held.token);
                service::send(&self.client, "Glance", &url, request).await
            },
            async || *self.held.lock().await = None,
        )
        .await
    }

    /// Reads the body of a successful answer.
    pub async fn read_body(
        &self,
        answer: HttpAnswer,
        what: &str,
        at: &str,
    ) -> Result<Vec<u8>, FetchFailure> {
        if !answer.status().is_success() {
            return Err(read_failure(answer, "Glance", what, at).await);
        }
        let url = answer.url().clone();
        service::read_body(answer, "Glance", &url, LONGEST).await
    }

    /// Uploads a whole file as the data of an image.
    pub async fn put(
        &self,
        path: &str,
        file: (&Path, u64),
        watch: &ProgressWatch,
    ) -> Result<HttpAnswer, FetchFailure> {
        let put = async || self.put_once(path, file, watch).await;
        retry_with_token(put, async || *self.held.lock().await = None).await
    }

    async fn put_once(
        &self,
        path: &str,
        (file, size): (&Path, u64),
        watch: &ProgressWatch,
    ) -> Result<HttpAnswer, FetchFailure> {
        let held = self.get_token().await?;
        let url = service::join_url(&held.glance, path)?;
        let (body, moved) = upload::open_range(file, 0, size, watch)?;
        let request = service::request(&self.client, &watch.what, Method::PUT, &url)?
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, size)
            .header(TOKEN, held.token)
            .body(body);
        let stall = self.options.patience.stall;
        let to = (&url, UrlSource::ByUser);
        service::send_file(&self.client, &watch.what, to, request, (&moved, stall)).await
    }

    async fn get_token(&self) -> Result<GlanceToken, FetchFailure> {
        let mut held = self.held.lock().await;
        match held.as_ref() {
            Some(held) => Ok(held.clone()),
            None => Ok(held.insert(self.log_in().await?).clone()),
        }
    }

    async fn log_in(&self) -> Result<GlanceToken, FetchFailure> {
        let url = service::join_url(&self.cloud.keystone, "auth/tokens")?;
        let request = service::request(&self.client, "Keystone", Method::POST, &url)?
            .header(CONTENT_TYPE, "application/json")
            .body(self.cloud.login.expose().to_owned());
        let answer = service::send(&self.client, "Keystone", &url, request).await?;
        if answer.status() != StatusCode::CREATED {
            let at = url.to_string();
            return Err(read_failure(answer, "Keystone", "the login to OpenStack", &at).await);
        }
        let token = answer.headers().get(SUBJECT).cloned();
        let Some(mut token) = token else {
            return Err(report_unexpected("Keystone", "it has no token").into());
        };
        token.set_sensitive(true);
        let bytes = service::read_body(answer, "Keystone", &url, LONGEST).await?;
        let granted: KeystoneLogin = read("Keystone", &bytes)?;
        let glance = match &self.cloud.glance {
            Some(url) => url.clone(),
            None => self.find_endpoint(&granted.token.catalog)?,
        };
        Ok(GlanceToken {
            token,
            project: granted.token.project.map(|project| project.id),
            glance: with_version(&glance),
        })
    }

    /// Finds Glance's address in the catalog, by interface and region.
    fn find_endpoint(&self, catalog: &[CatalogService]) -> Result<Url, Error> {
        let all = catalog.iter().filter(|service| service.kind == "image");
        let all = all.flat_map(|service| &service.endpoints);
        let mut there = all.filter(|one| one.interface == self.cloud.interface);
        let region = self.cloud.region.as_deref();
        let found = there.find(|one| {
            region.is_none()
                || region == one.region_id.as_deref()
                || region == one.region.as_deref()
        });
        let Some(found) = found else {
            let region = self.cloud.region.as_deref().unwrap_or("any");
            return Err(
                Error::new(Kind::Publish, "Keystone's catalog has no image service")
                    .at(&self.cloud.keystone)
                    .expected(format!(
                        "one of the interface {}, region {region}",
                        self.cloud.interface
                    ))
                    .cure("fix OS_INTERFACE and OS_REGION_NAME: openstack catalog show image"),
            );
        };
        let url = Url::parse(&found.url).map_err(|_| {
            report_unexpected("Keystone", "the address of the image service is malformed")
        })?;
        if service::keeps_secrets(&url) {
            return Ok(url);
        }
        Err(Error::new(
            Kind::Publish,
            "the image service uses http: the token would be sent unencrypted",
        )
        .at(display_text::sanitize_line(&found.url))
        .cure("set OS_IMAGE_ENDPOINT_OVERRIDE to its https address"))
    }
}

/// Adds `/v2/` to an address, unless it is there.
fn with_version(glance: &Url) -> Url {
    let mut url = glance.clone();
    let path = glance.path().trim_end_matches('/');
    let path = path.strip_suffix("/v2").unwrap_or(path).to_owned();
    url.set_path(&format!("{path}/v2/"));
    url
}
