//! A session with vCenter's REST API: requests in JSON, by one login, which ends with the run. (vSphere Automation API: session)
//!
//! The paths are those below `/rest`, as vSphere's own govmomi asks for them: vCenter 6.5 and later have them. What the session is
//! known by stands in a header alone and is shown nowhere.

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
use crate::fetch::client::{Answer, Client, Fault, is_here};
use crate::fetch::failure::{Failure, unanswered};
use crate::fetch::policy::Led;
use crate::fetch::space::Space;
use crate::fetch::{FetchOptions, upload};
use crate::publish::{Login, client, patiently, renewed};
use crate::store::Watch;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

/// Bytes of an answer.
const LONGEST: u64 = 4 << 20;
const LOGIN: &str = "rest/com/vmware/cis/session";
const ID: &str = "vmware-api-session-id";
/// What copies a disk answers when that is done.
pub const COPYING: Duration = Duration::from_secs(3600);

pub struct Session {
    client: Client,
    /// For what copies a disk before it answers.
    slow: Client,
    /// Ends with a slash.
    base: Url,
    user: String,
    password: Secret,
    options: FetchOptions,
    id: Mutex<Option<Secret>>,
    /// Where vCenter lies.
    space: OnceLock<Space>,
}

impl Session {
    /// Nothing is asked yet.
    pub fn new(vcenter: &Url, login: Option<Login>, options: &FetchOptions) -> Result<Self> {
        let Some(Login::Password { user, password }) = login else {
            return Err(
                Error::new(Kind::Recipe, "nobody is named who publishes to vCenter")
                    .at(vcenter)
                    .cure("set GOVC_USERNAME and GOVC_PASSWORD"),
            );
        };
        let mut slow = options.clone();
        slow.patience.answer = COPYING;
        Ok(Self {
            client: client(vcenter, options),
            slow: client(vcenter, &slow),
            base: vcenter.clone(),
            user,
            password,
            options: options.clone(),
            id: Mutex::default(),
            space: OnceLock::new(),
        })
    }

    /// Does it again as long as its failures pass.
    pub async fn patiently<T>(
        &self,
        watch: &Watch,
        work: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T> {
        patiently(&self.options, watch, work).await
    }

    /// What a path below `rest/` answers, of a good answer; asked again as long as its failures pass.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        watch: &Watch,
    ) -> Result<T> {
        self.patiently(watch, async || {
            self.ask_once(method.clone(), path, body).await
        })
        .await
    }

    /// The same without a second time: for what is not asked for twice.
    pub async fn ask_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        let answer = self.answer(&self.client, method, path, body).await?;
        self.value(path, answer).await
    }

    /// The same, of what copies a disk before it answers.
    pub async fn make_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, Failure> {
        let asked = self.answer(&self.slow, Method::POST, path, Some(body));
        self.value(path, asked.await?).await
    }

    /// The same as `ask`, of what may no longer be there.
    pub async fn ask_if_there<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        watch: &Watch,
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

    /// Deletes what has this path. `false`: it is busy with something else.
    pub async fn is_deleted(&self, path: &str, watch: &Watch) -> Result<bool> {
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
        client: &Client,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let path = format!("rest/{path}");
        let ask = async || {
            let id = {
                let mut held = self.id.lock().await;
                match held.as_ref() {
                    Some(id) => id.clone(),
                    None => held.insert(self.log_in().await?).clone(),
                }
            };
            let change = |request| by(&id, json(request, body));
            self.send(client, method.clone(), &path, change).await
        };
        renewed(ask, async || *self.id.lock().await = None).await
    }

    async fn log_in(&self) -> Result<Secret, Failure> {
        let asked = self.send(&self.client, Method::POST, LOGIN, |request| {
            // No cookie is wanted.
            let request = request.header("vmware-use-header-authn", "true");
            request.basic_auth(&self.user, Some(self.password.expose()))
        });
        let answer = asked.await?;
        self.space.get_or_init(|| answer.from);
        if answer.status() == StatusCode::UNAUTHORIZED {
            return Err(
                Error::new(Kind::Publish, "vCenter knows no such user with this password")
                    .at(&self.base)
                    .cure("check GOVC_USERNAME, with its domain such as administrator@vsphere.local, and GOVC_PASSWORD")
                    .into(),
            );
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
            tracing::debug!("the session with vCenter was not ended; it runs out");
        }
    }

    async fn send(
        &self,
        client: &Client,
        method: Method,
        path: &str,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, Failure> {
        let malformed = |e| Error::new(Kind::Publish, "an address is malformed").because(e);
        let url = self.base.join(path).map_err(malformed)?;
        let failed = |fault| unanswered("vCenter", &url, fault);
        let request = client.request(method, url.clone()).map_err(failed)?;
        let sent = client.send(change(request), Led::ByUser);
        sent.await.map_err(failed)
    }

    async fn value<T: DeserializeOwned>(&self, what: &str, answer: Answer) -> Result<T, Failure> {
        let text = self.text(what, answer).await?;
        let answer: Value = match text.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text).map_err(|e| unexpected(what, e))?,
        };
        // Nothing, and a list of nothing, are left out.
        let value = answer.get("value").cloned().unwrap_or_default();
        serde_json::from_value(value).map_err(|e| unexpected(what, e))
    }

    /// The text of a good answer.
    async fn text(&self, what: &str, answer: Answer) -> Result<String, Failure> {
        let (status, text) = self.read(answer).await?;
        match status.is_success() {
            true => Ok(text),
            false => Err(refused(what, status, &text)),
        }
    }

    async fn read(&self, answer: Answer) -> Result<(StatusCode, String), Failure> {
        let status = answer.status();
        let bytes = answer.whole(LONGEST).await;
        let bytes = bytes.map_err(|fault| unanswered("vCenter", &self.base, fault))?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Puts a part of a file where vCenter takes it.
    pub async fn put(
        &self,
        file: (&Path, u64, u64),
        endpoint: &str,
        watch: &Watch,
    ) -> Result<(), Failure> {
        let url = self.endpoint(endpoint)?;
        let (path, start, size) = file;
        let (body, moved) = upload::body(path, start, size, watch)?;
        let failed = |fault| unanswered(&watch.what, &url, fault);
        let request = self.client.request(Method::PUT, url.clone());
        let mut request = request
            .map_err(failed)?
            .header(CONTENT_LENGTH, size)
            .header(CONTENT_TYPE, "application/octet-stream");
        if let Some(id) = self.id.lock().await.as_ref() {
            request = by(id, request);
        }
        // vCenter may call itself by another name than the user does.
        let led = match (url.host() == self.base.host(), self.space.get()) {
            (false, Some(space)) => Led::From(*space),
            _ => Led::ByUser,
        };
        let sent = self.client.send(request.body(body), led);
        let stall = self
            .options
            .patience
            .stall
            .max(self.options.patience.answer);
        let answer = tokio::select! {
            answer = sent => answer.map_err(failed)?,
            () = moved.stands_still(stall) => {
                return Err(unanswered(&watch.what, &url, Fault::Silent(stall)));
            }
        };
        self.text(&watch.what, answer).await.map(drop)
    }

    /// An address for an upload: over https, or of this machine where vCenter itself is.
    fn endpoint(&self, text: &str) -> Result<Url, Failure> {
        let url = Url::parse(text).map_err(|e| unexpected("an address for an upload", e))?;
        let here = url.host().is_some_and(|host| is_here(&host));
        match url.scheme() {
            "https" => Ok(url),
            "http" if here && self.base.scheme() == "http" => Ok(url),
            scheme => Err(unexpected(
                "an address for an upload",
                format!("it is one of {scheme}"),
            )),
        }
    }
}

/// The request with the session's header, which goes to no other server.
fn by(id: &Secret, request: RequestBuilder) -> RequestBuilder {
    match HeaderValue::from_str(id.expose()) {
        Ok(mut value) => {
            value.set_sensitive(true);
            request.header(ID, value)
        }
        // What vCenter then answers says that there is no session.
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
