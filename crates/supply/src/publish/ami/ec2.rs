//! Client for EC2's query API: sends a form to one region, receives XML. (Amazon EC2: API
//! Reference, making API requests)

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use roxmltree::Document;
use url::{Url, form_urlencoded};

use super::super::aws::AwsSigner;
use super::super::xml::{find_children, read_text};
use super::super::{service, with_retries};
use crate::fetch::FetchOptions;
use crate::fetch::client::HttpClient;
use crate::fetch::failure::{FetchFailure, is_passing};
use crate::store::ProgressWatch;
use winimg_base::digest::Digest;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

/// Maximum size of an answer in bytes.
const MAX_RESPONSE_SIZE: u64 = 4 << 20;
/// The current version of the API.
const VERSION: &str = "2016-11-15";

/// Parameters of an action, in the order sent.
pub type Ec2Form = Vec<(String, String)>;

pub struct Ec2Client {
    client: HttpClient,
    signing: AwsSigner,
    url: Url,
    pub region: String,
    options: FetchOptions,
}

impl Ec2Client {
    pub fn new(region: &str, endpoint: Option<&str>, options: &FetchOptions) -> Result<Self> {
        let domain = if region.starts_with("cn-") {
            "amazonaws.com.cn"
        } else {
            "amazonaws.com"
        };
        let text = match endpoint {
            Some(endpoint) => endpoint.to_owned(),
            None => format!("https://ec2.{region}.{domain}/"),
        };
        let url = Url::parse(&text).map_err(|e| {
            Error::new(Kind::Recipe, "the EC2 endpoint is not a valid URL")
                .at(&text)
                .because(e)
                .cure("fix AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL or AWS_REGION")
        })?;
        Ok(Self {
            client: HttpClient::new(&options.proxies, options.patience),
            signing: AwsSigner::new("ec2", region, &options.proxies),
            url,
            region: region.to_owned(),
            options: options.clone(),
        })
    }

    /// Runs an action; returns the text of its answer.
    pub async fn ask(&self, action: &str, form: Ec2Form, watch: &ProgressWatch) -> Result<String> {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("Action", action)
            .append_pair("Version", VERSION)
            .extend_pairs(form)
            .finish();
        with_retries(&self.options, watch, async || {
            self.send_once(action, &body).await
        })
        .await
    }

    async fn send_once(&self, action: &str, body: &str) -> Result<String, FetchFailure> {
        let request = service::request(&self.client, "EC2", Method::POST, &self.url)?
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
        let answer = service::send(&self.client, "EC2", &self.url, request).await?;
        let status = answer.status();
        let text = service::read_text(answer, "EC2", &self.url, MAX_RESPONSE_SIZE).await?;
        if status.is_success() {
            Ok(text)
        } else {
            Err(classify_error(action, &self.region, status, &text))
        }
    }

    /// Waits before a long operation is polled again, longer each time.
    pub async fn pause(wait: &mut Duration) {
        tokio::time::sleep(*wait).await;
        *wait = (*wait * 2).min(Duration::from_secs(15));
    }
}

/// Classifies an error of EC2. (Amazon EC2: API Reference, error codes)
fn classify_error(action: &str, region: &str, status: StatusCode, text: &str) -> FetchFailure {
    let (code, words) = error(text).unwrap_or_default();
    let who = format!("EC2 in {region}");
    let error = service::report_refusal(&who, action, Some(status), &code, &words);
    let passes =
        is_passing(status) || matches!(code.as_str(), "RequestLimitExceeded" | "Throttling");
    let cure = match code.as_str() {
        "UnauthorizedOperation" => {
            "the credentials need ec2:ImportImage, ec2:DescribeImportImageTasks, \
             ec2:DescribeImages, ec2:CreateTags, and for copies and other accounts ec2:CopyImage, \
             ec2:DescribeImageAttribute, ec2:ModifyImageAttribute and \
             ec2:ModifySnapshotAttribute"
        }
        "AuthFailure" | "SignatureDoesNotMatch" | "InvalidClientTokenId" => {
            "check the access key and its secret, this host's clock, and that the account may use \
             the region"
        }
        _ if action == "ImportImage" => {
            "create the role `vmimport` with read access to the bucket: VM Import/Export User \
             Guide, \"Required service role\""
        }
        _ => return service::classify_refusal(error, passes, None::<&str>),
    };
    service::classify_refusal(error, passes, Some(cure))
}

/// Parses the code and the message of an error.
fn error(text: &str) -> Option<(String, String)> {
    let document = Document::parse(text).ok()?;
    let errors = find_children(document.root_element(), "Errors").next()?;
    let error = find_children(errors, "Error").next()?;
    let code = display_text::sanitize_line(read_text(error, "Code").unwrap_or_default());
    let message = display_text::sanitize_line(read_text(error, "Message").unwrap_or_default());
    Some((code, message))
}
