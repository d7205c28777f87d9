//! Who asks a registry: from the environment, or as `docker login` and `podman login` leave it in a file.
//!
//! Refuses credential helpers, which are programs: they are passed over. Never shown, never in an argument.

use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use url::Host;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

const TOKEN_HOST: &str = "WINIMG_CACHE_TOKEN_HOST";
/// Bytes of a file of credentials.
const LONGEST: u64 = 1 << 20;

/// User and password of a registry.
pub struct Credentials {
    pub(in crate::fetch) user: String,
    pub(in crate::fetch) password: Secret,
    /// A host beside the registry's own that gives tokens for them.
    pub(in crate::fetch) token_host: Option<String>,
}

impl Credentials {
    pub fn new(user: impl Into<String>, password: Secret) -> Self {
        Self {
            user: user.into(),
            password,
            token_host: None,
        }
    }
}

/// What a host is configured with, for what the environment leaves open.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// A file as `docker login` writes it.
    pub file: Option<PathBuf>,
    pub token_host: Option<String>,
}

/// For the registry of a shared cache: `WINIMG_CACHE_USER` and `WINIMG_CACHE_PASSWORD`, else what `docker login` left.
pub fn found(registry: &str, configured: &Places) -> Result<Option<Credentials>> {
    match of_environment()? {
        Some(credentials) => with_token_host(credentials, configured).map(Some),
        None => logged_in(registry, configured),
    }
}

/// From the file that `REGISTRY_AUTH_FILE` or `DOCKER_CONFIG` names, else the `configured` one, else `~/.docker/config.json`.
pub fn logged_in(registry: &str, configured: &Places) -> Result<Option<Credentials>> {
    let within = |folder: PathBuf| folder.join("config.json");
    let file = set("REGISTRY_AUTH_FILE").map(PathBuf::from);
    let file = file
        .or_else(|| set("DOCKER_CONFIG").map(PathBuf::from).map(within))
        .or_else(|| configured.file.clone())
        .or_else(|| set("HOME").map(|home| within(Path::new(&home).join(".docker"))));
    let Some(file) = file else {
        return Ok(None);
    };
    let found = in_file(&file, registry)?;
    found
        .map(|credentials| with_token_host(credentials, configured))
        .transpose()
}

/// The same, which the host that `WINIMG_CACHE_TOKEN_HOST` or the configuration names may see too.
pub fn with_token_host(credentials: Credentials, configured: &Places) -> Result<Credentials> {
    let token_host = set(TOKEN_HOST).map(|host| bare_host(TOKEN_HOST, &host));
    let configured_host = || {
        let host = configured.token_host.as_ref()?;
        Some(bare_host("cache.token_host", host))
    };
    let token_host = token_host.or_else(configured_host).transpose()?;
    Ok(Credentials {
        token_host,
        ..credentials
    })
}

/// As it stands in an address: compared with that later. Its value is not shown, it may be an address with a password.
fn bare_host(name: &str, text: &str) -> Result<String> {
    let host = Host::parse(text).map_err(|_| {
        Error::new(Kind::Recipe, format!("{name} is not a host's name"))
            .expected("a name alone, such as gitlab.com: no https://, port or path")
    })?;
    Ok(host.to_string())
}

fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|v| !v.is_empty())
}

fn of_environment() -> Result<Option<Credentials>> {
    match (set("WINIMG_CACHE_USER"), set("WINIMG_CACHE_PASSWORD")) {
        (Some(user), Some(password)) => Ok(Some(Credentials::new(user, Secret::new(password)))),
        (None, None) => Ok(None),
        (user, _) => {
            let missing = match user {
                Some(_) => "WINIMG_CACHE_PASSWORD",
                None => "WINIMG_CACHE_USER",
            };
            let fact = format!("{missing} is not set, and its other half is");
            Err(Error::new(Kind::Recipe, fact).cure("set both, or none"))
        }
    }
}

fn in_file(path: &Path, registry: &str) -> Result<Option<Credentials>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| Error::io("read", path, e))?,
    };
    let mut text = Vec::new();
    let read = file.take(LONGEST).read_to_end(&mut text);
    read.map_err(|e| Error::io("read", path, e))?;
    // The parser's own words would show what stands there.
    let parsed: Value = serde_json::from_slice(&text).map_err(|_| {
        Error::new(Kind::Recipe, "a file of registry credentials is not JSON").at(path.display())
    })?;
    Ok(entry(&parsed, registry))
}

fn entry(parsed: &Value, registry: &str) -> Option<Credentials> {
    let auth = parsed.get("auths")?.get(registry)?.get("auth")?.as_str()?;
    let decoded = String::from_utf8(STANDARD.decode(auth).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some(Credentials::new(user, Secret::new(password)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_tokens_is_a_name_alone() {
        for (text, host) in [
            ("GitLab.com", "gitlab.com"),
            ("10.0.0.7", "10.0.0.7"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(bare_host(TOKEN_HOST, text).unwrap(), host);
        }
        for text in [
            "https://gitlab.com",
            "gitlab.com:443",
            "gitlab.com/jwt/auth",
            "ci:hunter2@gitlab.com",
            "gitlab.com registry.gitlab.com",
            " ",
        ] {
            assert_eq!(
                bare_host(TOKEN_HOST, text).unwrap_err().to_string(),
                "WINIMG_CACHE_TOKEN_HOST is not a host's name\n  \
                 expected: a name alone, such as gitlab.com: no https://, port or path"
            );
        }
    }

    #[test]
    fn credentials_stand_where_docker_login_leaves_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let text = r#"{"auths": {"registry.example.com": {"auth": "dXNlcjpwYXNzOndvcmQ="}, "other": {}}, "credsStore": "x"}"#;
        std::fs::write(&path, text).unwrap();
        let found = in_file(&path, "registry.example.com").unwrap().unwrap();
        assert_eq!(
            (found.user.as_str(), found.password.expose()),
            ("user", "pass:word")
        );
        assert!(in_file(&path, "other").unwrap().is_none());
        assert!(
            in_file(&folder.path().join("none"), "other")
                .unwrap()
                .is_none()
        );
        std::fs::write(&path, "secret").unwrap();
        let rendered = in_file(&path, "other").err().unwrap().to_string();
        assert_eq!(
            rendered,
            format!(
                "a file of registry credentials is not JSON\n  at: {}",
                path.display()
            )
        );
    }
}
