//! Questions to EC2 in its query protocol: one region each, a form there and XML back. (Amazon EC2: API Reference, making API requests)

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use roxmltree::Document;
use url::{Url, form_urlencoded};

use super::super::signing::Signing;
use super::super::xml::{named, value};
use super::super::{Settings, patiently};
use crate::fetch::FetchOptions;
use crate::fetch::client::{Answer, Client};
use crate::fetch::failure::{Failure, is_passing, unanswered};
use crate::fetch::policy::Led;
use crate::store::Watch;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

/// Bytes of an answer.
const LONGEST: u64 = 4 << 20;
/// The API's, unchanged since.
const VERSION: &str = "2016-11-15";

/// What an action is asked with, in the order in which it is sent.
pub type Form = Vec<(String, String)>;

pub struct Ec2 {
    client: Client,
    signing: Signing,
    url: Url,
    pub region: String,
    options: FetchOptions,
}

impl Ec2 {
    pub fn new(region: &str, settings: &Settings) -> Result<Self> {
        let domain = match region.starts_with("cn-") {
            true => "amazonaws.com.cn",
            false => "amazonaws.com",
        };
        let text = match &settings.compute {
            Some(endpoint) => endpoint.clone(),
            None => format!("https://ec2.{region}.{domain}/"),
        };
        let wrong = |e| {
            Error::new(Kind::Recipe, "the address of EC2 is malformed")
                .at(&text)
                .because(e)
                .cure("mend AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL or AWS_REGION")
        };
        Ok(Self {
            client: Client::new(&settings.options.proxies, settings.options.patience),
            signing: Signing::new("ec2", region, &settings.options.proxies),
            url: Url::parse(&text).map_err(wrong)?,
            region: region.to_owned(),
            options: settings.options.clone(),
        })
    }

    /// The answer's text, of a good one.
    pub async fn ask(&self, action: &str, form: Form, watch: &Watch) -> Result<String> {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("Action", action)
            .append_pair("Version", VERSION)
            .extend_pairs(form)
            .finish();
        patiently(&self.options, watch, async || {
            self.once(action, &body).await
        })
        .await
    }

    async fn once(&self, action: &str, body: &str) -> Result<String, Failure> {
        let failed = |fault| unanswered("EC2", &self.url, fault);
        let request = self.client.request(Method::POST, self.url.clone());
        let request = request.map_err(failed)?;
        let request = request
            .header(
                CONTENT_TYPE,
                "application/x-www-form-urlencoded; charset=utf-8",
            )
            .header(
                "x-amz-content-sha256",
                Digest::sha256_of(body.as_bytes()).hex(),
            )
            .body(body.to_owned());
        let request = self.signing.sign(request).await?;
        let answer: Answer = self
            .client
            .send(request, Led::ByUser)
            .await
            .map_err(failed)?;
        let status = answer.status();
        let bytes = answer.whole(LONGEST).await.map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match status.is_success() {
            true => Ok(text),
            false => Err(refused(action, &self.region, status, &text)),
        }
    }

    /// Waits before something is asked for again that takes minutes: longer each time.
    pub async fn pause(wait: &mut Duration) {
        tokio::time::sleep(*wait).await;
        *wait = (*wait * 2).min(Duration::from_secs(15));
    }
}

/// What EC2 refuses, and whether asking again helps. (Amazon EC2: API Reference, error codes)
fn refused(action: &str, region: &str, status: StatusCode, text: &str) -> Failure {
    let (code, words) = error(text).unwrap_or_default();
    let fact = match code.is_empty() {
        true => format!("EC2 in {region} answered {}", status.as_u16()),
        false => format!("EC2 in {region} answered {} {code}", status.as_u16()),
    };
    let mut error = Error::new(Kind::Publish, fact).at(action);
    if !words.is_empty() {
        error = error.found(words);
    }
    let passes =
        is_passing(status) || matches!(code.as_str(), "RequestLimitExceeded" | "Throttling");
    if passes {
        return Failure::again(error);
    }
    let cure = match code.as_str() {
        "UnauthorizedOperation" => {
            "the credentials need ec2:ImportImage, ec2:DescribeImportImageTasks, ec2:DescribeImages, ec2:CreateTags, and for copies and \
             other accounts ec2:CopyImage, ec2:DescribeImageAttribute, ec2:ModifyImageAttribute and ec2:ModifySnapshotAttribute"
        }
        "AuthFailure" | "SignatureDoesNotMatch" | "InvalidClientTokenId" => {
            "check the access key and its secret, this host's clock, and whether the account may use the region"
        }
        _ if action == "ImportImage" => {
            "make the role `vmimport`, which may read the bucket: VM Import/Export User Guide, \"Required service role\""
        }
        _ => return error.into(),
    };
    error.cure(cure).into()
}

/// Its code and its words.
fn error(text: &str) -> Option<(String, String)> {
    let document = Document::parse(text).ok()?;
    let errors = named(document.root_element(), "Errors").next()?;
    let error = named(errors, "Error").next()?;
    let line = |name| unseen::line(value(error, name).unwrap_or_default());
    Some((line("Code"), line("Message")))
}
