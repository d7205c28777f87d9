//! Access of cloud credential chains to the environment, files, programs and HTTP.
//!
//! Shows no request and no answer: both contain secrets.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use reqsign_core::{
    CommandExecute, CommandOutput, Context, Env, Error as Unsigned, FileRead, HttpSend, OsEnv,
    Signer, SigningCredential,
};
use reqwest::RequestBuilder;
use reqwest::header::ACCEPT_ENCODING;
use url::{Host, Url};

use crate::fetch::Proxies;
use crate::fetch::client::HttpClient;
use crate::fetch::failure::is_passing;
use crate::fetch::policy::{Timeouts, UrlSource};
use winimg_base::environment::trim_value;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{self, remove_winimg_secrets};

/// Maximum size of an answer with credentials in bytes.
const LONGEST: u64 = 1 << 20;
/// Timeouts; outside of a cloud nothing answers at the metadata address.
const PATIENCE: Timeouts = Timeouts {
    connect: Duration::from_secs(2),
    answer: Duration::from_secs(10),
    stall: Duration::from_secs(10),
    slow: Duration::from_secs(60),
};
/// Maximum number of attempts, with a pause in between.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// Metadata services of instances and containers (AWS SDKs and Tools Reference Guide: IMDS,
/// container credentials; Azure: instance metadata service; Google Compute Engine: VM metadata).
const METADATA: [&str; 4] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "metadata.google.internal",
];

/// Builds the context of a credential chain.
pub fn build_context(proxies: &Proxies) -> Context {
    Context::new()
        .with_env(CleanEnv)
        .with_file_read(CredentialFiles)
        .with_http_send(CredentialHttp::new(proxies))
        .with_command_execute(CredentialPrograms)
}

/// Adds the `Authorization` to a request. Returns it with the signed address, which may contain the
/// signature.
pub async fn sign<K: SigningCredential>(
    signer: &Signer<K>,
    request: RequestBuilder,
    report_unsigned: fn(&Unsigned) -> Error,
) -> Result<(RequestBuilder, http::Uri)> {
    let (client, request) = request.build_split();
    let mut request =
        request.map_err(|e| Error::new(Kind::Publish, "a request cannot be built").because(e))?;
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
    let signed = signer.sign(&mut parts, None).await;
    signed.map_err(|e| report_unsigned(&e))?;
    if let Some(encoding) = encoding {
        parts.headers.insert(ACCEPT_ENCODING, encoding);
    }
    *request.headers_mut() = parts.headers;
    Ok((RequestBuilder::from_parts(client, request), parts.uri))
}

fn report_unexpected(words: impl fmt::Display) -> Unsigned {
    Unsigned::unexpected(words.to_string())
}

/// The environment, without the line breaks that secret stores leave at the end of values.
#[derive(Clone, Copy, Debug)]
pub struct CleanEnv;

impl Env for CleanEnv {
    fn var(&self, name: &str) -> Option<String> {
        OsEnv.var(name).and_then(trim_value)
    }

    fn vars(&self) -> HashMap<String, String> {
        let all = OsEnv.vars().into_iter();
        all.filter_map(|(name, text)| Some((name, trim_value(text)?)))
            .collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        OsEnv.home_dir()
    }
}

#[derive(Debug)]
pub struct CredentialFiles;

impl FileRead for CredentialFiles {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let named = PathBuf::from(path);
        let read = tokio::task::spawn_blocking(move || io::read_argument(&named, io::limit::TEXT));
        // Only its path and the system's message, nothing of its content.
        read.await
            .map_err(|e| report_unexpected(format_args!("cannot read {path}: {e}")))?
            .map_err(|e| report_unexpected(format_args!("cannot read {path}: {e}")))
    }
}

pub struct CredentialHttp {
    client: Arc<HttpClient>,
    /// Without proxies: another machine's metadata is of no use.
    direct: Arc<HttpClient>,
}

impl CredentialHttp {
    pub fn new(proxies: &Proxies) -> Self {
        Self {
            client: Arc::new(HttpClient::new(proxies, PATIENCE)),
            direct: Arc::new(HttpClient::new(proxies, PATIENCE).skip_proxies()),
        }
    }
}

impl fmt::Debug for CredentialHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asks")
    }
}

impl HttpSend for CredentialHttp {
    async fn http_send(
        &self,
        request: http::Request<bytes::Bytes>,
    ) -> reqsign_core::Result<http::Response<bytes::Bytes>> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).map_err(report_unexpected)?;
        if url.host_str().is_some_and(|host| METADATA.contains(&host)) {
            // Not retried: outside of a cloud there is no answer.
            return send_once(&self.direct, &parts, &url, &body).await;
        }
        if is_readable_on_its_way(&url) {
            return Err(report_unexpected(format_args!(
                "{} uses http: credentials would be sent unencrypted; use https",
                url.host_str().unwrap_or_default()
            )));
        }
        let mut tries = 1;
        loop {
            let answer = send_once(&self.client, &parts, &url, &body).await;
            let is_lost = match &answer {
                Ok(answer) => is_passing(answer.status()),
                Err(_) => true,
            };
            if !is_lost || tries == TRIES {
                return answer;
            }
            tokio::time::sleep(PAUSE * tries).await;
            tries += 1;
        }
    }
}

/// Returns true if a request to this address crosses a network unencrypted. Identity services of
/// this machine or container have addresses that no router forwards.
fn is_readable_on_its_way(url: &Url) -> bool {
    let stays = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_link_local(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unicast_link_local(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() != "https" && !stays
}

/// Sends a request once.
async fn send_once(
    client: &HttpClient,
    parts: &http::request::Parts,
    url: &Url,
    body: &bytes::Bytes,
) -> reqsign_core::Result<http::Response<bytes::Bytes>> {
    let request = client
        .request(parts.method.clone(), url.clone())
        .map_err(report_unexpected)?
        .headers(parts.headers.clone())
        .body(body.clone());
    let answer = client
        .send(request, UrlSource::ByUser)
        .await
        .map_err(report_unexpected)?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let bytes = answer.read_body(LONGEST).await.map_err(report_unexpected)?;
    let mut response = http::Response::new(bytes.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Runs programs that provide credentials, such as the `credential_process` of an AWS profile.
#[derive(Debug)]
pub struct CredentialPrograms;

impl CommandExecute for CredentialPrograms {
    async fn command_execute(
        &self,
        program: &str,
        arguments: &[&str],
    ) -> reqsign_core::Result<CommandOutput> {
        let mut command = Command::new(program);
        command.args(arguments);
        remove_winimg_secrets(&mut command);
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        let output = ended
            .map_err(report_unexpected)?
            .map_err(report_unexpected)?;
        Ok(CommandOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_cross_no_network_in_clear() {
        for (url, is_readable) in [
            (
                "https://login.microsoftonline.com/t/oauth2/v2.0/token",
                false,
            ),
            ("http://login.example.com/t/oauth2/v2.0/token", true),
            ("http://10.0.0.7/token", true),
            ("http://localhost.example.com/token", true),
            ("http://127.0.0.1:40342/metadata/identity", false),
            ("http://localhost:40342/metadata/identity", false),
            ("http://169.254.170.2/credentials", false),
            ("http://[fd00:ec2::23]/v1/credentials", true),
            ("http://[fe80::1]/v1/credentials", false),
            ("http://[::1]:8080/", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(is_readable_on_its_way(&url), is_readable, "{url}");
        }
    }
}
