//! Session with vCenter's REST API: JSON requests with one login, which ends with the run. (vSphere
//! Automation API: session)
//!
//! Uses the paths below `/rest`, as vSphere's own govmomi does: vCenter 6.5 and later have them.
//! The session ID is only sent in a header, and never shown.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

use super::answers::{is_busy, refused, unexpected};
use crate::fetch::client::{HttpAnswer, HttpClient, is_here};
use crate::fetch::failure::FetchFailure;
use crate::fetch::policy::UrlSource;
use crate::fetch::zone::NetworkZone;
use crate::fetch::{FetchOptions, upload};
use crate::publish::{PublishHost, build_client, retry_with_token, service, with_retries};
use crate::store::ProgressWatch;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

/// Maximum size of an answer in bytes.
const LONGEST: u64 = 4 << 20;
const LOGIN: &str = "rest/com/vmware/cis/session";
const ID: &str = "vmware-api-session-id";
/// Time limit of requests that copy a disk before they are answered.
pub const COPYING: Duration = Duration::from_secs(3600);

pub struct VcenterSession {
    client: HttpClient,
    /// For requests that copy a disk before they are answered.
    slow: HttpClient,
    /// Ends with a slash.
    base: Url,
    user: String,
    password: Secret,
    options: FetchOptions,
    id: Mutex<Option<Secret>>,
    /// Zone of vCenter.
    space: OnceLock<NetworkZone>,
}

impl VcenterSession {
    /// Reads the login from govc's environment variables. Sends no request yet.
    pub fn new(vcenter: &Url, host: &PublishHost) -> Result<Self> {
        for name in ["GOVC_INSECURE", "GOVC_TLS_CA_CERTS"] {
            if read_variable(name).is_some_and(|value| !["0", "false"].contains(&value.as_str())) {
                host.sink.warn(format!(
                    "ignoring {name}: vCenter's certificate is verified \
                     against the system's roots or SSL_CERT_FILE"
                ));
            }
        }
        let login = read_variable("GOVC_USERNAME").zip(read_variable("GOVC_PASSWORD"));
        let Some((user, password)) = login else {
            return Err(Error::new(Kind::Recipe, "no vCenter credentials are set")
                .at(vcenter)
                .cure("set GOVC_USERNAME and GOVC_PASSWORD"));
        };
        let options = &host.fetch;
        let mut slow = options.clone();
        slow.patience.answer = COPYING;
        Ok(Self {
            client: build_client(vcenter, options),
            slow: build_client(vcenter, &slow),
            base: vcenter.clone(),
            user,
            password: Secret::new(password),
            options: options.clone(),
            id: Mutex::default(),
            space: OnceLock::new(),
        })
    }

    /// Runs the work and retries transient failures.
    pub async fn patiently<T>(
        &self,
        watch: &ProgressWatch,
        work: impl AsyncFnMut() -> Result<T, FetchFailure>,
    ) -> Result<T> {
        with_retries(&self.options, watch, work).await
    }

    /// Sends a request for a path below `rest/`, retries transient failures, and parses the answer.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        watch: &ProgressWatch,
    ) -> Result<T> {
        self.patiently(watch, async || {
            self.ask_once(method.clone(), path, body).await
        })
        .await
    }

    /// Sends a request once: for requests that must not be repeated.
    pub async fn ask_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, FetchFailure> {
        let answer = self.answer(&self.client, method, path, body).await?;
        self.value(path, answer).await
    }

    /// Sends a request once that copies a disk before it is answered.
    pub async fn make_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, FetchFailure> {
        let asked = self.answer(&self.slow, Method::POST, path, Some(body));
        self.value(path, asked.await?).await
    }

    /// Sends a request for an object that may no longer exist.
    pub async fn ask_if_there<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        watch: &ProgressWatch,
    ) -> Result<Option<T>> {
        self.patiently(watch, async || {
            let answer = self.answer(&self.client, method.clone(), path, None);
            let answer = answer.await?;
            match answer.status() {
                StatusCode::NOT_FOUND => Ok(None),
                _ => self.value(path, answer).await.map(Some),
            }
        })
        .await
    }

    /// Deletes the object with this path. `false`: it is busy.
    pub async fn is_deleted(&self, path: &str, watch: &ProgressWatch) -> Result<bool> {
        self.patiently(watch, async || {
            let answer = self.answer(&self.slow, Method::DELETE, path, None).await?;
            let (status, text) = self.read(answer).await?;
            match status {
                StatusCode::NOT_FOUND => Ok(true),
                status if status.is_success() => Ok(true),
                _ if is_busy(&text) => Ok(false),
                status => Err(refused(path, status, &text)),
            }
        })
        .await
    }

    async fn answer(
        &self,
        client: &HttpClient,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<HttpAnswer, FetchFailure> {
        let path = format!("rest/{path}");
        retry_with_token(
            async || {
                let id = {
                    let mut held = self.id.lock().await;
                    match held.as_ref() {
                        Some(id) => id.clone(),
                        None => held.insert(self.log_in().await?).clone(),
                    }
                };
                self.send(client, method.clone(), &path, |request| {
                    by(&id, json(request, body))
                })
                .await
            },
            async || *self.id.lock().await = None,
        )
        .await
    }

    async fn log_in(&self) -> Result<Secret, FetchFailure> {
        let asked = self.send(&self.client, Method::POST, LOGIN, |request| {
            // The session ID in a header, not in a cookie.
            let request = request.header("vmware-use-header-authn", "true");
            request.basic_auth(&self.user, Some(self.password.expose()))
        });
        let answer = asked.await?;
        self.space.get_or_init(|| answer.from);
        if answer.status() == StatusCode::UNAUTHORIZED {
            return Err(Error::new(
                Kind::Publish,
                "vCenter rejected the user name or the password",
            )
            .at(&self.base)
            .cure(
                "check GOVC_USERNAME, with its domain such as \
                         administrator@vsphere.local, and GOVC_PASSWORD",
            )
            .into());
        }
        let id: String = self.value("login", answer).await?;
        Ok(Secret::new(id))
    }

    /// Ends the session, if there is one.
    pub async fn log_out(&self) {
        let Some(id) = self.id.lock().await.take() else {
            return;
        };
        let ended = self.send(&self.client, Method::DELETE, LOGIN, |request| {
            by(&id, request)
        });
        if ended.await.is_err() {
            tracing::debug!("the session with vCenter was not ended; it will expire");
        }
    }

    async fn send(
        &self,
        client: &HttpClient,
        method: Method,
        path: &str,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<HttpAnswer, FetchFailure> {
        let url = service::join_url(&self.base, path)?;
        let request = service::request(client, "vCenter", method, &url)?;
        service::send(client, "vCenter", &url, change(request)).await
    }

    async fn value<T: DeserializeOwned>(
        &self,
        what: &str,
        answer: HttpAnswer,
    ) -> Result<T, FetchFailure> {
        let text = self.text(what, answer).await?;
        let answer: Value = match text.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text).map_err(|e| unexpected(what, e))?,
        };
        // Null and empty lists are omitted.
        let value = answer.get("value").cloned().unwrap_or_default();
        serde_json::from_value(value).map_err(|e| unexpected(what, e))
    }

    /// Reads the text of a successful answer.
    async fn text(&self, what: &str, answer: HttpAnswer) -> Result<String, FetchFailure> {
        let (status, text) = self.read(answer).await?;
        if status.is_success() {
            Ok(text)
        } else {
            Err(refused(what, status, &text))
        }
    }

    async fn read(&self, answer: HttpAnswer) -> Result<(StatusCode, String), FetchFailure> {
        let status = answer.status();
        let text = service::read_text(answer, "vCenter", &self.base, LONGEST).await?;
        Ok((status, text))
    }

    /// Uploads a part of a file to vCenter's address for it.
    pub async fn put(
        &self,
        file: (&Path, u64, u64),
        endpoint: &str,
        watch: &ProgressWatch,
    ) -> Result<(), FetchFailure> {
        let url = self.endpoint(endpoint)?;
        let (path, start, size) = file;
        let (body, moved) = upload::open_range(path, start, size, watch)?;
        let mut request = service::request(&self.client, &watch.what, Method::PUT, &url)?
            .header(CONTENT_LENGTH, size)
            .header(CONTENT_TYPE, "application/octet-stream");
        if let Some(id) = self.id.lock().await.as_ref() {
            request = by(id, request);
        }
        // vCenter may name itself by another host name than the user does.
        let led = match (url.host() == self.base.host(), self.space.get()) {
            (false, Some(space)) => UrlSource::From(*space),
            _ => UrlSource::ByUser,
        };
        let stall = self
            .options
            .patience
            .stall
            .max(self.options.patience.answer);
        let (to, limit) = ((&url, led), (&moved, stall));
        let sent = service::send_file(&self.client, &watch.what, to, request.body(body), limit);
        self.text(&watch.what, sent.await?).await.map(drop)
    }

    /// Parses an upload address: https, or on this machine if vCenter is, too.
    fn endpoint(&self, text: &str) -> Result<Url, FetchFailure> {
        let url = Url::parse(text).map_err(|e| unexpected("an address for an upload", e))?;
        let here = url.host().is_some_and(|host| is_here(&host));
        match url.scheme() {
            "https" => Ok(url),
            "http" if here && self.base.scheme() == "http" => Ok(url),
            scheme => Err(unexpected(
                "an address for an upload",
                format!("it uses {scheme}"),
            )),
        }
    }
}

/// Adds the session's header, which is not sent to another server.
fn by(id: &Secret, request: RequestBuilder) -> RequestBuilder {
    match HeaderValue::from_str(id.expose()) {
        Ok(mut value) => {
            value.set_sensitive(true);
            request.header(ID, value)
        }
        // vCenter will answer that there is no session.
        Err(_) => request,
    }
}

fn json(request: RequestBuilder, body: Option<&Value>) -> RequestBuilder {
    match body {
        None => request,
        Some(body) => request
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string()),
    }
}
