//! Azure Resource Manager: what a subscription has, and what is made in it. (Azure REST API: Compute, Storage)
//!
//! What takes long is waited for by its operation; a run that was killed waits for the resource itself. A token goes to the manager's own
//! address alone.

mod made;
mod place;

use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::super::{Settings, client, patiently};
use super::login::Login;
use super::storage::address;
use crate::fetch::FetchOptions;
use crate::fetch::client::{Answer, Client};
use crate::fetch::failure::{Failure, asked_wait, is_passing, unanswered};
use crate::fetch::policy::Led;
use crate::store::Watch;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

pub use made::{About, Made};
pub use place::{AzurePlace, Version};

/// Bytes of an answer.
const LONGEST: u64 = 4 << 20;
/// Azure's public cloud.
const PUBLIC: &str = "https://management.azure.com";
/// What is made is not waited for longer; it goes on at Azure.
const LONG: Duration = Duration::from_secs(3 * 3600);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub struct Arm {
    client: Client,
    login: Login,
    /// Ends with a slash.
    base: Url,
    options: FetchOptions,
}

/// A resource's id from its subscription on, and the version of the API that it is asked with.
pub struct Path {
    pub id: String,
    pub version: &'static str,
}

/// What the manager says of an operation, or of a resource that is made.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    Done,
    /// By Azure's word for it.
    Active(String),
    /// It failed or was cancelled, with Azure's words.
    Ended(String),
}

#[derive(Deserialize)]
struct Operation {
    #[serde(default)]
    status: String,
    error: Option<Complaint>,
}

#[derive(Deserialize)]
struct Refusal {
    error: Complaint,
}

#[derive(Default, Deserialize)]
struct Complaint {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Arm {
    pub fn new(settings: &Settings) -> Result<Self> {
        let endpoint = settings.azure.manager.as_deref().unwrap_or(PUBLIC);
        let endpoint = endpoint.trim_end_matches('/');
        let base = address(&format!("{endpoint}/"), "AZURE_RESOURCE_MANAGER_ENDPOINT")?;
        Ok(Self {
            client: client(&base, &settings.options),
            login: Login::to(endpoint, &settings.options.proxies),
            base,
            options: settings.options.clone(),
        })
    }

    /// A resource; `None`: it is not there.
    pub async fn get<T: DeserializeOwned>(&self, path: &Path, watch: &Watch) -> Result<Option<T>> {
        let url = self.url(path)?;
        patiently(&self.options, watch, async || {
            let (status, _, text) = self.ask(Method::GET, &url, None).await?;
            match status {
                StatusCode::NOT_FOUND if complaint(&text).code == "ResourceNotFound" => Ok(None),
                status if status.is_success() => Ok(Some(read(&text)?)),
                _ => Err(refused(&path.id, status, &text)),
            }
        })
        .await
    }

    /// Begins to make a resource. Where its operation is asked for, if there is one.
    pub async fn put(&self, path: &Path, body: &Value, watch: &Watch) -> Result<Option<Url>> {
        let url = self.url(path)?;
        patiently(&self.options, watch, async || {
            let (status, headers, text) = self.ask(Method::PUT, &url, Some(body)).await?;
            match status.is_success() {
                true => Ok(self.operation(&headers)?),
                false => Err(refused(&path.id, status, &text)),
            }
        })
        .await
    }

    /// Removes a resource, and waits until it is gone.
    pub async fn delete(&self, path: &Path, watch: &Watch) -> Result<()> {
        let url = self.url(path)?;
        patiently(&self.options, watch, async || {
            let (status, _, text) = self.ask(Method::DELETE, &url, None).await?;
            match status.is_success() || status == StatusCode::NOT_FOUND {
                true => Ok(()),
                false => Err(refused(&path.id, status, &text)),
            }
        })
        .await?;
        let (mut wait, since) = (FIRST_WAIT, Instant::now());
        while self.get::<Value>(path, watch).await?.is_some() {
            pause(&mut wait, None, &path.id, "removing", since).await?;
        }
        Ok(())
    }

    /// Waits until an operation has ended well, or says how it ended.
    pub async fn ended(&self, path: &Path, operation: &Url, watch: &Watch) -> Result<()> {
        let (mut wait, since, mut last) = (FIRST_WAIT, Instant::now(), String::new());
        loop {
            let (state, after) = patiently(&self.options, watch, async || {
                let (status, headers, text) = self.ask(Method::GET, operation, None).await?;
                if !status.is_success() {
                    return Err(refused(&path.id, status, &text));
                }
                Ok((of_operation(status, &text)?, asked_wait(&headers)))
            })
            .await?;
            match state {
                State::Done => return Ok(()),
                State::Ended(words) => return Err(failed(&path.id, &words)),
                State::Active(words) => {
                    if words != last {
                        watch.note(format!("{}: {words}", name(&path.id)));
                        last = words;
                    }
                    pause(&mut wait, after, &path.id, &last, since).await?;
                }
            }
        }
    }

    fn url(&self, path: &Path) -> Result<Url> {
        let malformed = |e| Error::new(Kind::Publish, "an address is malformed").because(e);
        let mut url = self
            .base
            .join(path.id.trim_start_matches('/'))
            .map_err(malformed)?;
        url.query_pairs_mut()
            .append_pair("api-version", path.version);
        Ok(url)
    }

    /// (Azure Resource Manager: track asynchronous operations)
    fn operation(&self, headers: &HeaderMap) -> Result<Option<Url>> {
        let header = |name: &str| headers.get(name)?.to_str().ok();
        let Some(text) = header("azure-asyncoperation").or(header(LOCATION.as_str())) else {
            return Ok(None);
        };
        let url = Url::parse(text).ok();
        let is_ours = |url: &Url| url.origin() == self.base.origin();
        match url.filter(is_ours) {
            Some(url) => Ok(Some(url)),
            None => Err(Error::new(
                Kind::Publish,
                "the resource manager leads to another server, which would get the token",
            )
            .at(&self.base)),
        }
    }

    async fn ask(
        &self,
        method: Method,
        url: &Url,
        body: Option<&Value>,
    ) -> Result<(StatusCode, HeaderMap, String), Failure> {
        let lost = |fault| unanswered("the resource manager", url, fault);
        let mut request = self.client.request(method, url.clone()).map_err(lost)?;
        if let Some(body) = body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        let request = self.login.sign(request).await?;
        let answer: Answer = self.client.send(request, Led::ByUser).await.map_err(lost)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let bytes = answer.whole(LONGEST).await.map_err(lost)?;
        Ok((
            status,
            headers,
            String::from_utf8_lossy(&bytes).into_owned(),
        ))
    }
}

/// Waits before something is asked for again that takes minutes: as long as Azure asks for, else longer each time.
async fn pause(
    wait: &mut Duration,
    asked: Option<Duration>,
    id: &str,
    words: &str,
    since: Instant,
) -> Result<()> {
    if since.elapsed() > LONG {
        return Err(
            Error::new(Kind::Publish, "Azure does not end it within three hours")
                .at(id)
                .found(words)
                .cure("look at it in Azure's portal; the same command waits for it again"),
        );
    }
    tokio::time::sleep(asked.unwrap_or(*wait).min(LONGEST_WAIT)).await;
    *wait = (*wait * 2).min(LONGEST_WAIT);
    Ok(())
}

fn of_operation(status: StatusCode, text: &str) -> Result<State> {
    if status == StatusCode::ACCEPTED || text.is_empty() {
        return Ok(State::Active("InProgress".into()));
    }
    let said: Operation = read(text)?;
    Ok(match said.status.as_str() {
        "Failed" | "Canceled" => State::Ended(said.error.unwrap_or_default().words(&said.status)),
        // The `Location` of an operation answers with the resource when it is done.
        "Succeeded" | "" => State::Done,
        active => State::Active(unseen::line(active)),
    })
}

impl Complaint {
    fn words(&self, status: &str) -> String {
        match self.code.is_empty() {
            true => unseen::line(status),
            false => unseen::line(&format!("{}: {}", self.code, self.message)),
        }
    }
}

fn complaint(text: &str) -> Complaint {
    let refusal = serde_json::from_str::<Refusal>(text);
    refusal.map(|refusal| refusal.error).unwrap_or_default()
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| {
        let fact = "the resource manager sent an answer that is not its own";
        Error::new(Kind::Publish, fact).because(e)
    })
}

/// The last word of an id.
fn name(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

pub fn failed(id: &str, words: &str) -> Error {
    Error::new(Kind::Publish, format!("Azure did not make {}", name(id)))
        .at(id)
        .found(words)
        .cure("the next run begins anew")
}

/// What the manager refuses, and whether asking again helps. (Azure Resource Manager: common deployment errors)
fn refused(id: &str, status: StatusCode, text: &str) -> Failure {
    let complaint = complaint(text);
    let (code, number) = (complaint.code.as_str(), status.as_u16());
    let fact = match code {
        "" => format!("{}: Azure answered {number}", name(id)),
        code => format!(
            "{}: Azure answered {number} {}",
            name(id),
            unseen::line(code)
        ),
    };
    let mut error = Error::new(Kind::Publish, fact).at(id);
    if !complaint.message.is_empty() {
        error = error.found(unseen::line(&complaint.message));
    }
    let passes =
        is_passing(status) || matches!(code, "AnotherOperationInProgress" | "RetryableError");
    if passes {
        return Failure::again(error);
    }
    let cure = match (number, code) {
        (_, "ResourceGroupNotFound" | "SubscriptionNotFound") => {
            "mend the subscription and the resource group in --to: `az group list`"
        }
        (_, "ParentResourceNotFound") => {
            "make the gallery and the image definition first: az sig create, az sig image-definition create"
        }
        (_, "MissingSubscriptionRegistration") => {
            "register the provider: az provider register --namespace Microsoft.Compute"
        }
        (401, _) => "log in again: `az login`, or check AZURE_TENANT_ID and AZURE_CLIENT_ID",
        (403, _) => {
            "give the identity the role \"Contributor\" on the resource group, or a role with Microsoft.Compute/images/*, \
             Microsoft.Compute/galleries/images/* and Microsoft.Storage/storageAccounts/read"
        }
        _ => return error.into(),
    };
    error.cure(cure).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_read_in_both_its_shapes() {
        let of = |status: u16, text: &str| {
            of_operation(StatusCode::from_u16(status).unwrap(), text).unwrap()
        };
        let active = |words: &str| State::Active(words.into());
        assert_eq!(of(200, r#"{"status":"InProgress"}"#), active("InProgress"));
        assert_eq!(of(202, ""), active("InProgress"));
        assert_eq!(of(200, r#"{"status":"Succeeded"}"#), State::Done);
        assert_eq!(of(200, r#"{"id":"/subscriptions/x"}"#), State::Done);
        let failed = r#"{"status":"Failed","error":{"code":"InvalidVhd","message":"The footer\nis not one."}}"#;
        let State::Ended(words) = of(200, failed) else {
            panic!("it ended");
        };
        assert!(words.starts_with("InvalidVhd: The footer"), "{words}");
        assert!(!words.contains('\n'), "{words}");
    }
}
