//! Requests to AWS signed with Signature Version 4, and who signs them: AWS's own chain of credentials.
//!
//! Environment, profiles, SSO, a program that a profile names, web identity, ECS and the instance's metadata, in the library's order.
//! Its questions go over the same client as everything else. Shows no request and no answer of theirs: both hold secrets.

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner};
use reqsign_core::{
    CommandExecute, CommandOutput, Context, Error as Unsigned, FileRead, HttpSend, OsEnv, Signer,
};
use reqwest::RequestBuilder;
use reqwest::header::ACCEPT_ENCODING;
use url::Url;

use crate::fetch::Proxies;
use crate::fetch::client::{Client, Fault};
use crate::fetch::policy::{Led, Patience};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::without_our_secrets;
use winimg_base::unseen;

/// Bytes of an answer with credentials.
const LONGEST: u64 = 1 << 20;
/// Where no cloud is, nothing answers at its metadata's address.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(2),
    answer: Duration::from_secs(10),
    stall: Duration::from_secs(10),
    slow: Duration::from_secs(60),
};
/// The metadata of instances and of containers (AWS SDKs and Tools Reference Guide: IMDS, container credentials).
const METADATA: [&str; 3] = ["169.254.169.254", "169.254.170.2", "169.254.170.23"];

pub struct Signing(Signer<Credential>);

impl Signing {
    pub fn new(service: &str, region: &str, proxies: &Proxies) -> Self {
        let asks = Asks {
            client: Arc::new(Client::new(proxies, PATIENCE)),
            direct: Arc::new(Client::new(proxies, PATIENCE).direct()),
        };
        let context = Context::new()
            .with_env(OsEnv)
            .with_file_read(Files)
            .with_http_send(asks)
            .with_command_execute(Programs);
        let signer = RequestSigner::new(service, region);
        Self(Signer::new(
            context,
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

fn unexpected(words: impl fmt::Display) -> Unsigned {
    Unsigned::unexpected(words.to_string())
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        // Its path and the system's words; nothing of what it holds.
        tokio::fs::read(path)
            .await
            .map_err(|e| unexpected(format_args!("cannot read {path}: {e}")))
    }
}

struct Asks {
    client: Arc<Client>,
    /// Past every proxy: another machine's metadata is of no use.
    direct: Arc<Client>,
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asks")
    }
}

impl HttpSend for Asks {
    async fn http_send(
        &self,
        request: http::Request<bytes::Bytes>,
    ) -> reqsign_core::Result<http::Response<bytes::Bytes>> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).map_err(unexpected)?;
        let is_metadata = url.host_str().is_some_and(|host| METADATA.contains(&host));
        let client = match is_metadata {
            true => &self.direct,
            false => &self.client,
        };
        let failed = |fault: Fault| unexpected(&fault);
        let request = client.request(parts.method, url).map_err(failed)?;
        let request = request.headers(parts.headers).body(body);
        let answer = client.send(request, Led::ByUser).await.map_err(failed)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let bytes = answer.whole(LONGEST).await.map_err(failed)?;
        let mut response = http::Response::new(bytes.into());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// The programs that a profile names as `credential_process`.
#[derive(Debug)]
struct Programs;

impl CommandExecute for Programs {
    async fn command_execute(
        &self,
        program: &str,
        arguments: &[&str],
    ) -> reqsign_core::Result<CommandOutput> {
        let mut command = Command::new(program);
        command.args(arguments);
        without_our_secrets(&mut command);
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        let output = ended.map_err(unexpected)?.map_err(unexpected)?;
        Ok(CommandOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}
