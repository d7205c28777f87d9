//! Signs requests to AWS with Signature Version 4, with AWS's default credential chain.
//!
//! The chain: environment, profiles, SSO, `credential_process`, web identity, ECS and instance
//! metadata, in the library's order.

use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner};
use reqsign_core::{Error as Unsigned, Signer};
use reqwest::RequestBuilder;
use reqwest::header::ACCEPT_ENCODING;

use super::credential_access::build_context;
use crate::fetch::Proxies;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

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
        let (client, request) = request.build_split();
        let mut request = request
            .map_err(|e| Error::new(Kind::Publish, "a request cannot be built").because(e))?;
        // Not signed: proxies may change it.
        let encoding = request.headers_mut().remove(ACCEPT_ENCODING);
        let mut parts = http::Request::new(()).into_parts().0;
        parts.method = request.method().clone();
        parts.uri = request
            .url()
            .as_str()
            .parse()
            .map_err(|e| Error::new(Kind::Publish, "an address cannot be signed").because(e))?;
        parts.headers = request.headers().clone();
        let signed = self.0.sign(&mut parts, None).await;
        signed.map_err(|e| report_unsigned(&e))?;
        if let Some(encoding) = encoding {
            parts.headers.insert(ACCEPT_ENCODING, encoding);
        }
        *request.headers_mut() = parts.headers;
        Ok(RequestBuilder::from_parts(client, request))
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
