//! What a cloud's chain of credentials asks with: files, programs, and questions over the same client as everything else.
//!
//! Shows no request and no answer: both hold secrets.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use reqsign_core::{
    CommandExecute, CommandOutput, Context, Env, Error as Unsigned, FileRead, HttpSend, OsEnv,
};
use url::{Host, Url};

use crate::fetch::Proxies;
use crate::fetch::client::{Client, Fault};
use crate::fetch::failure::is_passing;
use crate::fetch::policy::{Led, Patience};
use winimg_base::environment::value;
use winimg_base::io::{self, without_our_secrets};

/// Bytes of an answer with credentials.
const LONGEST: u64 = 1 << 20;
/// Where no cloud is, nothing answers at its metadata's address.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(2),
    answer: Duration::from_secs(10),
    stall: Duration::from_secs(10),
    slow: Duration::from_secs(60),
};
/// A question is asked as often, and after a pause: one that is lost is no refusal.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// The metadata of instances and of containers (AWS SDKs and Tools Reference Guide: IMDS, container credentials; Azure: instance
/// metadata service; Google Compute Engine: VM metadata).
const METADATA: [&str; 4] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "metadata.google.internal",
];

/// What a chain of credentials reads files, runs programs and asks metadata with.
pub fn context(proxies: &Proxies) -> Context {
    Context::new()
        .with_env(Variables)
        .with_file_read(Files)
        .with_http_send(Asks::new(proxies))
        .with_command_execute(Programs)
}

fn unexpected(words: impl fmt::Display) -> Unsigned {
    Unsigned::unexpected(words.to_string())
}

/// The environment, without the line breaks that stores of secrets leave at the end of values.
#[derive(Clone, Copy, Debug)]
pub struct Variables;

impl Env for Variables {
    fn var(&self, name: &str) -> Option<String> {
        OsEnv.var(name).and_then(value)
    }

    fn vars(&self) -> HashMap<String, String> {
        let all = OsEnv.vars().into_iter();
        all.filter_map(|(name, text)| Some((name, value(text)?)))
            .collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        OsEnv.home_dir()
    }
}

#[derive(Debug)]
pub struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let named = PathBuf::from(path);
        let read = tokio::task::spawn_blocking(move || io::read_given(&named, io::limit::TEXT));
        // Its path and the system's words; nothing of what it holds.
        let refused = |e: &dyn fmt::Display| unexpected(format_args!("cannot read {path}: {e}"));
        let read = read.await.map_err(|e| refused(&e))?;
        read.map_err(|e| refused(&e))
    }
}

pub struct Asks {
    client: Arc<Client>,
    /// Past every proxy: another machine's metadata is of no use.
    direct: Arc<Client>,
}

impl Asks {
    pub fn new(proxies: &Proxies) -> Self {
        Self {
            client: Arc::new(Client::new(proxies, PATIENCE)),
            direct: Arc::new(Client::new(proxies, PATIENCE).direct()),
        }
    }
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
        if url.host_str().is_some_and(|host| METADATA.contains(&host)) {
            // Where no cloud is, it would be waited for in vain.
            return asked(&self.direct, &parts, &url, &body).await;
        }
        if is_readable_on_its_way(&url) {
            return Err(unexpected(format_args!(
                "{} is asked over http: credentials would be readable on their way; use https",
                url.host_str().unwrap_or_default()
            )));
        }
        let mut tries = 1;
        loop {
            let answer = asked(&self.client, &parts, &url, &body).await;
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

/// Whether a question to this address crosses a network unencrypted. Services that give an identity to this machine or container
/// answer at addresses that no router forwards.
fn is_readable_on_its_way(url: &Url) -> bool {
    let stays = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_link_local(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unicast_link_local(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() != "https" && !stays
}

/// Once.
async fn asked(
    client: &Client,
    parts: &http::request::Parts,
    url: &Url,
    body: &bytes::Bytes,
) -> reqsign_core::Result<http::Response<bytes::Bytes>> {
    let failed = |fault: Fault| unexpected(&fault);
    let request = client.request(parts.method.clone(), url.clone());
    let request = request.map_err(failed)?;
    let request = request.headers(parts.headers.clone()).body(body.clone());
    let answer = client.send(request, Led::ByUser).await.map_err(failed)?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let bytes = answer.whole(LONGEST).await.map_err(failed)?;
    let mut response = http::Response::new(bytes.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Programs that give credentials, such as those that a profile of AWS names as `credential_process`.
#[derive(Debug)]
pub struct Programs;

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
