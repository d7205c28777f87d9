//! Settings and signatures of AWS: region and endpoints from the environment, and Signature Version
//! 4 with AWS's default credential chain.
//!
//! The chain: environment, profiles, SSO, `credential_process`, web identity, ECS and instance
//! metadata, in the library's order.

use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner};
use reqsign_core::{Error as Unsigned, Signer};
use reqwest::RequestBuilder;

use super::credential_access::{build_context, sign};
use crate::fetch::Proxies;
use winimg_base::display_text;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};

/// Region and endpoints of AWS or a compatible service.
pub struct AwsSettings {
    pub region: Option<String>,
    /// Endpoint of S3, if not AWS's.
    pub storage: Option<String>,
    /// Endpoint of EC2, if not AWS's.
    pub compute: Option<String>,
}

impl AwsSettings {
    pub fn from_environment() -> Self {
        let endpoint = read_variable("AWS_ENDPOINT_URL");
        Self {
            region: read_variable("AWS_REGION").or_else(|| read_variable("AWS_DEFAULT_REGION")),
            storage: read_variable("AWS_ENDPOINT_URL_S3").or_else(|| endpoint.clone()),
            compute: read_variable("AWS_ENDPOINT_URL_EC2").or(endpoint),
        }
    }
}

pub struct AwsSigner(Signer<Credential>);

impl AwsSigner {
    pub fn new(service: &str, region: &str, proxies: &Proxies) -> Self {
        let signer = RequestSigner::new(service, region);
        Self(Signer::new(
            build_context(proxies),
            DefaultCredentialProvider::new(),
            signer,
        ))
    }

    /// Adds the `Authorization` to a request.
    pub async fn sign(&self, request: RequestBuilder) -> Result<RequestBuilder> {
        let (request, _) = sign(&self.0, request, report_unsigned).await?;
        Ok(request)
    }
}

fn report_unsigned(e: &Unsigned) -> Error {
    Error::new(Kind::Publish, "there are no usable AWS credentials")
        .found(display_text::sanitize_line(&e.to_string()))
        .cure(
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile of `aws \
             configure`; on AWS the role of the instance, container or service account is used",
        )
}
