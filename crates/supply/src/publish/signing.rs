//! Requests to AWS signed with Signature Version 4, and who signs them: AWS's own chain of credentials.
//!
//! Environment, profiles, SSO, a program that a profile names, web identity, ECS and the instance's metadata, in the library's order.

use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner};
use reqsign_core::{Error as Unsigned, Signer};
use reqwest::RequestBuilder;
use reqwest::header::ACCEPT_ENCODING;

use super::asks::context;
use crate::fetch::Proxies;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

pub struct Signing(Signer<Credential>);

impl Signing {
    pub fn new(service: &str, region: &str, proxies: &Proxies) -> Self {
        let signer = RequestSigner::new(service, region);
        Self(Signer::new(
            context(proxies),
            DefaultCredentialProvider::new(),
            signer,
        ))
    }

    /// The request with its `Authorization`.
    pub async fn sign(&self, request: RequestBuilder) -> Result<RequestBuilder> {
        let (client, request) = request.build_split();
        let malformed = |e| Error::new(Kind::Publish, "a request cannot be made").because(e);
        let mut request = request.map_err(malformed)?;
        // Proxies may change it.
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
        signed.map_err(|e| unsigned(&e))?;
        if let Some(encoding) = encoding {
            parts.headers.insert(ACCEPT_ENCODING, encoding);
        }
        *request.headers_mut() = parts.headers;
        Ok(RequestBuilder::from_parts(client, request))
    }
}

fn unsigned(e: &Unsigned) -> Error {
    Error::new(Kind::Publish, "there are no AWS credentials that can be used")
        .found(unseen::line(&e.to_string()))
        .cure(
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile of `aws configure`; on AWS a role of \
             the instance, container or service account is taken",
        )
}
