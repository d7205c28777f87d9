//! Client for Azure Resource Manager. (Azure REST API: Compute, Storage)
//!
//! Waits for a long-running operation; after a killed run, for the resource itself. Tokens are
//! only sent to the manager's own endpoint.

mod image;
mod place;

use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::super::{build_client, service, with_retries};
use super::login::AzureLogin;
use super::storage::address;
use crate::fetch::FetchOptions;
use crate::fetch::client::HttpClient;
use crate::fetch::failure::{FetchFailure, is_passing, read_retry_after};
use crate::store::ProgressWatch;
use winimg_base::display_text;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};

pub use image::{AzureImage, AzureImageSpec};
pub use place::{AzurePlace, FLAGS};

/// Maximum size of an answer in bytes.
const LONGEST: u64 = 4 << 20;
/// Name of the service in messages.
const MANAGER: &str = "the resource manager";
/// Azure's public cloud.
const PUBLIC: &str = "https://management.azure.com";
/// Time limit of an operation; Azure continues it.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(3 * 3600);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub struct ArmClient {
    client: HttpClient,
    login: AzureLogin,
    /// Ends with a slash.
    base: Url,
    options: FetchOptions,
}

/// ID of a resource, starting at its subscription, and the version of its API.
pub struct ResourcePath {
    pub id: String,
    pub version: &'static str,
}

/// State of an operation, or of a resource being created.
#[derive(Debug, PartialEq, Eq)]
pub enum OperationState {
    Done,
    /// In progress; Azure's name of the state.
    Active(String),
    /// Failed or cancelled; Azure's message.
    Ended(String),
}

#[derive(Deserialize)]
struct ArmOperation {
    #[serde(default)]
    status: String,
    error: Option<ArmError>,
}

#[derive(Deserialize)]
struct ArmErrorBody {
    error: ArmError,
}

#[derive(Default, Deserialize)]
struct ArmError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl ArmClient {
    pub fn new(options: &FetchOptions) -> Result<Self> {
        let set = read_variable("AZURE_RESOURCE_MANAGER_ENDPOINT");
        let endpoint = set.as_deref().unwrap_or(PUBLIC).trim_end_matches('/');
        let base = address(&format!("{endpoint}/"), "AZURE_RESOURCE_MANAGER_ENDPOINT")?;
        Ok(Self {
            client: build_client(&base, options),
            login: AzureLogin::to(endpoint, &options.proxies),
            base,
            options: options.clone(),
        })
    }

    /// Fetches a resource; `None`: it does not exist.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &ResourcePath,
        watch: &ProgressWatch,
    ) -> Result<Option<T>> {
        let url = self.url(path)?;
        with_retries(&self.options, watch, async || {
            let (status, _, text) = self.ask(Method::GET, &url, None).await?;
            match status {
                StatusCode::NOT_FOUND if complaint(&text).code == "ResourceNotFound" => Ok(None),
                status if status.is_success() => Ok(Some(read(&text)?)),
                _ => Err(refused(&path.id, status, &text)),
            }
        })
        .await
    }

    /// Starts to create a resource; returns the address of the operation, if there is one.
    pub async fn put(
        &self,
        path: &ResourcePath,
        body: &Value,
        watch: &ProgressWatch,
    ) -> Result<Option<Url>> {
        let url = self.url(path)?;
        with_retries(&self.options, watch, async || {
            let (status, headers, text) = self.ask(Method::PUT, &url, Some(body)).await?;
            if status.is_success() {
                Ok(self.operation(&headers)?)
            } else {
                Err(refused(&path.id, status, &text))
            }
        })
        .await
    }

    /// Removes a resource, and waits until it is gone.
    pub async fn delete(&self, path: &ResourcePath, watch: &ProgressWatch) -> Result<()> {
        let url = self.url(path)?;
        with_retries(&self.options, watch, async || {
            let (status, _, text) = self.ask(Method::DELETE, &url, None).await?;
            if status.is_success() || status == StatusCode::NOT_FOUND {
                Ok(())
            } else {
                Err(refused(&path.id, status, &text))
            }
        })
        .await?;
        let (mut wait, since) = (FIRST_WAIT, Instant::now());
        while self.get::<Value>(path, watch).await?.is_some() {
            pause(&mut wait, None, &path.id, "removing", since).await?;
        }
        Ok(())
    }

    /// Waits until an operation succeeds; its failure is an error.
    pub async fn ended(
        &self,
        path: &ResourcePath,
        operation: &Url,
        watch: &ProgressWatch,
    ) -> Result<()> {
        let (mut wait, since, mut last) = (FIRST_WAIT, Instant::now(), String::new());
        loop {
            let (state, after) = with_retries(&self.options, watch, async || {
                let (status, headers, text) = self.ask(Method::GET, operation, None).await?;
                if !status.is_success() {
                    return Err(refused(&path.id, status, &text));
                }
                Ok((of_operation(status, &text)?, read_retry_after(&headers)))
            })
            .await?;
            match state {
                OperationState::Done => return Ok(()),
                OperationState::Ended(words) => return Err(failed(&path.id, &words)),
                OperationState::Active(words) => {
                    if words != last {
                        watch.note(format!("{}: {words}", name(&path.id)));
                        last = words;
                    }
                    pause(&mut wait, after, &path.id, &last, since).await?;
                }
            }
        }
    }

    fn url(&self, path: &ResourcePath) -> Result<Url> {
        let mut url = service::join_url(&self.base, path.id.trim_start_matches('/'))?;
        url.query_pairs_mut()
            .append_pair("api-version", path.version);
        Ok(url)
    }

    /// Reads the address of an operation. (Azure Resource Manager: track asynchronous operations)
    fn operation(&self, headers: &HeaderMap) -> Result<Option<Url>> {
        let header = headers
            .get("azure-asyncoperation")
            .or(headers.get(LOCATION))
            .and_then(|value| value.to_str().ok());
        let Some(text) = header else {
            return Ok(None);
        };
        match Url::parse(text) {
            Ok(url) if url.origin() == self.base.origin() => Ok(Some(url)),
            _ => Err(Error::new(
                Kind::Publish,
                "the resource manager sent an operation URL on another server, which would get the \
                 token",
            )
            .at(&self.base)),
        }
    }

    async fn ask(
        &self,
        method: Method,
        url: &Url,
        body: Option<&Value>,
    ) -> Result<(StatusCode, HeaderMap, String), FetchFailure> {
        let mut request = service::request(&self.client, MANAGER, method, url)?;
        if let Some(body) = body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        let request = self.login.sign(request).await?;
        let answer = service::send(&self.client, MANAGER, url, request).await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = service::read_text(answer, MANAGER, url, LONGEST).await?;
        Ok((status, headers, text))
    }
}

/// Waits before a long operation is polled again: as long as Azure requests, else longer each time.
async fn pause(
    wait: &mut Duration,
    asked: Option<Duration>,
    id: &str,
    words: &str,
    since: Instant,
) -> Result<()> {
    if since.elapsed() > OPERATION_TIMEOUT {
        return Err(
            Error::new(Kind::Publish, "Azure did not finish within three hours")
                .at(id)
                .found(words)
                .cure("check it in the Azure portal, or rerun this command to keep waiting"),
        );
    }
    tokio::time::sleep(asked.unwrap_or(*wait).min(LONGEST_WAIT)).await;
    *wait = (*wait * 2).min(LONGEST_WAIT);
    Ok(())
}

fn of_operation(status: StatusCode, text: &str) -> Result<OperationState> {
    if status == StatusCode::ACCEPTED || text.is_empty() {
        return Ok(OperationState::Active("InProgress".into()));
    }
    let said: ArmOperation = read(text)?;
    Ok(match said.status.as_str() {
        "Failed" | "Canceled" => {
            OperationState::Ended(said.error.unwrap_or_default().describe(&said.status))
        }
        // The `Location` of an operation answers with the resource once it is done.
        "Succeeded" | "" => OperationState::Done,
        active => OperationState::Active(display_text::sanitize_line(active)),
    })
}

impl ArmError {
    fn describe(&self, status: &str) -> String {
        if self.code.is_empty() {
            display_text::sanitize_line(status)
        } else {
            display_text::sanitize_line(&format!("{}: {}", self.code, self.message))
        }
    }
}

fn complaint(text: &str) -> ArmError {
    let refusal = serde_json::from_str::<ArmErrorBody>(text);
    refusal.map(|refusal| refusal.error).unwrap_or_default()
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| {
        let fact = "the resource manager sent an unexpected answer";
        Error::new(Kind::Publish, fact).because(e)
    })
}

/// Returns the last part of an ID.
fn name(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

pub fn failed(id: &str, words: &str) -> Error {
    Error::new(
        Kind::Publish,
        format!("Azure could not create {}", name(id)),
    )
    .at(id)
    .found(words)
    .cure("run it again: it starts over")
}

/// Classifies an error of the manager. (Azure Resource Manager: common deployment errors)
fn refused(id: &str, status: StatusCode, text: &str) -> FetchFailure {
    let complaint = complaint(text);
    let (code, number) = (complaint.code.as_str(), status.as_u16());
    let who = format!("{}: Azure", name(id));
    let error = service::report_refusal(&who, id, Some(status), code, &complaint.message);
    let passes =
        is_passing(status) || matches!(code, "AnotherOperationInProgress" | "RetryableError");
    let cure = Some(match (number, code) {
        (_, "ResourceGroupNotFound" | "SubscriptionNotFound") => {
            "fix the subscription or resource group in --to (`az group list` lists them)"
        }
        (_, "ParentResourceNotFound") => {
            "create the gallery and the image definition first: az sig create, az sig \
             image-definition create"
        }
        (_, "MissingSubscriptionRegistration") => {
            "register the provider: az provider register --namespace Microsoft.Compute"
        }
        (401, _) => "log in again: `az login`, or check AZURE_TENANT_ID and AZURE_CLIENT_ID",
        (403, _) => {
            "grant the identity the role \"Contributor\" on the resource group, or a role with \
             Microsoft.Compute/images/*, Microsoft.Compute/galleries/images/* and \
             Microsoft.Storage/storageAccounts/read"
        }
        _ => return service::classify_refusal(error, passes, None::<&str>),
    });
    service::classify_refusal(error, passes, cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_read_in_both_its_shapes() {
        let of = |status: u16, text: &str| {
            of_operation(StatusCode::from_u16(status).unwrap(), text).unwrap()
        };
        let active = |words: &str| OperationState::Active(words.into());
        assert_eq!(of(200, r#"{"status":"InProgress"}"#), active("InProgress"));
        assert_eq!(of(202, ""), active("InProgress"));
        assert_eq!(of(200, r#"{"status":"Succeeded"}"#), OperationState::Done);
        assert_eq!(
            of(200, r#"{"id":"/subscriptions/x"}"#),
            OperationState::Done
        );
        let failed = r#"{"status":"Failed","error":{"code":"InvalidVhd","message":"The footer\nis not one."}}"#;
        let OperationState::Ended(words) = of(200, failed) else {
            panic!("it ended");
        };
        assert!(words.starts_with("InvalidVhd: The footer"), "{words}");
        assert!(!words.contains('\n'), "{words}");
    }
}
