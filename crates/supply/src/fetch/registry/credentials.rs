//! Who asks a registry: from the environment, or as `docker login`, `podman login` and `oras login`
//! leave it in a file or with a credential helper.
//!
//! Never shown, never in an argument. What was looked at is remembered for the message of a
//! registry that refuses.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use url::Host;

use winimg_base::environment::variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::Secret;

use super::login::Login;
use super::{helper, login_file};

const TOKEN_HOST: &str = "WINIMG_CACHE_TOKEN_HOST";
/// What docker reads in place of a file.
const DOCKER_AUTH_CONFIG: &str = "DOCKER_AUTH_CONFIG";

/// The variables with a user and a password.
pub struct Variables {
    pub user: &'static str,
    pub password: &'static str,
}

pub const OF_CACHE: Variables = Variables {
    user: "WINIMG_CACHE_USER",
    password: "WINIMG_CACHE_PASSWORD",
};

/// The login to a registry.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub(in crate::fetch) login: Login,
    /// A host beside the registry's own that gives tokens for it.
    pub(in crate::fetch) token_host: Option<String>,
}

impl Credentials {
    pub fn new(user: impl Into<String>, password: Secret) -> Self {
        Self::of(Login::Password {
            user: user.into(),
            password,
        })
    }

    fn of(login: Login) -> Self {
        Self {
            login,
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

/// A repository whose login is looked for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// As its users write it: `registry.example.com:5000`, `docker.io`.
    pub registry: &'a str,
    pub repository: &'a str,
    /// The variables that come before every file.
    pub variables: &'a Variables,
}

/// What was found for a repository.
pub struct Lookup {
    pub credentials: Option<Credentials>,
    /// What helps where the registry refuses.
    pub cure: String,
}

impl From<Option<Credentials>> for Lookup {
    /// For a shared cache, with no look at any file.
    fn from(credentials: Option<Credentials>) -> Self {
        match credentials {
            Some(credentials) => Self::of_variables(credentials, &OF_CACHE),
            None => {
                let Variables { user, password } = OF_CACHE;
                Self {
                    credentials: None,
                    cure: format!("set {user} and {password}, or `docker login` to the registry"),
                }
            }
        }
    }
}

impl Lookup {
    /// The login of the variables, with no look at any file.
    pub fn of_variables(credentials: Credentials, variables: &Variables) -> Self {
        let Variables { user, password } = variables;
        Self {
            credentials: Some(credentials),
            cure: format!("check {user} and {password}, and what this user may do there"),
        }
    }
}

/// For the registry of a shared cache: `WINIMG_CACHE_USER` and `WINIMG_CACHE_PASSWORD`, else what a
/// login left.
pub fn found(registry: &str, repository: &str, configured: &Places) -> Result<Lookup> {
    let wanted = Wanted {
        registry,
        repository,
        variables: &OF_CACHE,
    };
    match of_environment()? {
        Some(credentials) => {
            let credentials = with_token_host(credentials, configured)?;
            Ok(Lookup::of_variables(credentials, wanted.variables))
        }
        None => logged_in(wanted, configured),
    }
}

/// What a login left: in the file that `REGISTRY_AUTH_FILE` or `DOCKER_CONFIG` names, else in the
/// `configured` one, else in those that docker and podman write.
pub fn logged_in(wanted: Wanted<'_>, configured: &Places) -> Result<Lookup> {
    let mut looked = Vec::new();
    let mut has_helper = false;
    for source in sources(&variable, configured) {
        let found = match source.find(&wanted) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            // Nobody said that a login is there.
            Err(error) if source.is_default() => {
                looked.push(format!(
                    "{} cannot be read: {}",
                    source.shown(),
                    error.fact()
                ));
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some((name, server)) = &found.helper {
            has_helper = true;
            match helper::ask(name, server) {
                Ok(login) => {
                    let from = format!("that {} gave", helper::program(name));
                    return wanted.with(login, &from, configured);
                }
                Err(why) => {
                    let program = helper::program(name);
                    looked.push(format!("{} names {program}, which {why}", source.shown()));
                }
            }
        }
        if let Some((key, login)) = found.login {
            let from = format!("under `{key}` in {}", source.shown());
            return wanted.with(login, &from, configured);
        }
        if let Some(key) = found.unreadable {
            looked.push(format!(
                "{} has no user and password under `{key}`",
                source.shown()
            ));
        } else if found.helper.is_none() {
            looked.push(format!("{} has no login for it", source.shown()));
        }
    }
    Ok(Lookup {
        credentials: None,
        cure: wanted.cure_of_none(&looked, has_helper),
    })
}

impl Wanted<'_> {
    fn with(&self, login: Login, from: &str, configured: &Places) -> Result<Lookup> {
        let Variables { user, password } = self.variables;
        let credentials = with_token_host(Credentials::of(login), configured)?;
        Ok(Lookup {
            credentials: Some(credentials),
            cure: format!(
                "the login {from} was used: check what it may do there, or set {user} and {password}"
            ),
        })
    }

    /// Nobody is sent to a login whose result would end up where this one was not found.
    fn cure_of_none(&self, looked: &[String], has_helper: bool) -> String {
        let Variables { user, password } = self.variables;
        let variables = format!("set {user} and {password}");
        let looked = looked.join("; ");
        match (has_helper, looked.is_empty()) {
            (true, _) => format!(
                "{variables}, or name a file with the login in REGISTRY_AUTH_FILE: {looked}"
            ),
            (false, true) => format!("{variables}, or `docker login {}`", self.registry),
            (false, false) => {
                format!("{variables}, or `docker login {}`: {looked}", self.registry)
            }
        }
    }
}

/// Where logins are read from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// One that somebody names.
    File(PathBuf),
    /// One where a client writes it unless it is told otherwise.
    Default(PathBuf),
    /// The text of the variable [`DOCKER_AUTH_CONFIG`].
    Variable(Secret),
}

impl Source {
    /// What it has for a repository. `None`: there is no such file.
    fn find(&self, wanted: &Wanted<'_>) -> Result<Option<login_file::Found>> {
        let Some(text) = self.read()? else {
            return Ok(None);
        };
        let found = login_file::find(&text, wanted.registry, wanted.repository);
        let unread = || {
            let fact = "a file of registry credentials is not JSON";
            Error::new(Kind::Recipe, fact).at(self.shown())
        };
        found.map(Some).ok_or_else(unread)
    }

    fn is_default(&self) -> bool {
        matches!(self, Self::Default(_))
    }

    fn read(&self) -> Result<Option<Vec<u8>>> {
        let path = match self {
            Self::Variable(text) => return Ok(Some(text.expose().as_bytes().to_vec())),
            Self::File(path) | Self::Default(path) => path,
        };
        match io::read_given(path, io::limit::TEXT) {
            Err(e) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&e.kind()) => {
                Ok(None)
            }
            read => read.map(Some).map_err(|e| Error::io("read", path, e)),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::File(path) | Self::Default(path) => path.display().to_string(),
            Self::Variable(_) => DOCKER_AUTH_CONFIG.to_owned(),
        }
    }
}

/// All of them in their order. A file that somebody names is the only one. (docker/cli: config;
/// containers-auth.json(5))
fn sources(set: &dyn Fn(&str) -> Option<String>, configured: &Places) -> Vec<Source> {
    if let Some(file) = set("REGISTRY_AUTH_FILE") {
        return vec![Source::File(file.into())];
    }
    let text = set(DOCKER_AUTH_CONFIG).map(|text| Source::Variable(Secret::new(text)));
    let mut all: Vec<Source> = text.into_iter().collect();
    let within = |folder: &Path| folder.join("config.json");
    let named = set("DOCKER_CONFIG").map(|folder| within(Path::new(&folder)));
    if let Some(named) = named.or_else(|| configured.file.clone()) {
        all.push(Source::File(named));
        return all;
    }
    let home = set("HOME")
        .or_else(|| set("USERPROFILE"))
        .map(PathBuf::from);
    let of_podman = |folder: PathBuf| folder.join("containers").join("auth.json");
    let of_docker = home.as_ref().map(|home| within(&home.join(".docker")));
    let runtime = set("XDG_RUNTIME_DIR").map(PathBuf::from).map(of_podman);
    let config = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(home.as_ref()?.join(".config")));
    let old = home.map(|home| home.join(".dockercfg"));
    let files = [of_docker, runtime, config.map(of_podman), old];
    all.extend(files.into_iter().flatten().map(Source::Default));
    all
}

/// The same, which the host that `WINIMG_CACHE_TOKEN_HOST` or the configuration names may see too.
pub fn with_token_host(credentials: Credentials, configured: &Places) -> Result<Credentials> {
    let token_host = variable(TOKEN_HOST).map(|host| bare_host(TOKEN_HOST, &host));
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

fn of_environment() -> Result<Option<Credentials>> {
    match (
        variable("WINIMG_CACHE_USER"),
        variable("WINIMG_CACHE_PASSWORD"),
    ) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_file_without_end_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let huge = std::fs::File::create(at("huge")).unwrap();
        huge.set_len(3 << 30).unwrap();
        // Opened as a plain file, a pipe waits for a writer.
        let mut mkfifo = std::process::Command::new("mkfifo");
        assert!(mkfifo.arg(at("pipe")).status().unwrap().success());
        for (path, why) in [
            (at("huge"), "it is larger than 4 MiB"),
            (at("pipe"), "it is a named pipe, not a regular file"),
            ("/dev/zero".into(), "it is a device, not a regular file"),
        ] {
            for source in [Source::File(path.clone()), Source::Default(path)] {
                let refused = source.read().unwrap_err().to_string();
                assert!(refused.contains(why), "{refused}");
            }
        }
        assert_eq!(Source::File(at("none")).read().unwrap(), None);
    }

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

    fn shown(set: &[(&str, &str)], configured: &Places) -> Vec<String> {
        let set = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        sources(&set, configured)
            .iter()
            .map(Source::shown)
            .collect()
    }

    #[test]
    fn a_file_that_is_named_is_the_only_one() {
        let none = Places::default();
        let configured = Places {
            file: Some("/etc/winimg/registries.json".into()),
            token_host: None,
        };
        let home = ("HOME", "/home/ci");
        assert_eq!(
            shown(&[home, ("XDG_RUNTIME_DIR", "/run/user/7")], &none),
            [
                "/home/ci/.docker/config.json",
                "/run/user/7/containers/auth.json",
                "/home/ci/.config/containers/auth.json",
                "/home/ci/.dockercfg"
            ]
        );
        assert_eq!(shown(&[home], &configured), ["/etc/winimg/registries.json"]);
        assert_eq!(
            shown(
                &[home, ("DOCKER_CONFIG", "/ci"), ("DOCKER_AUTH_CONFIG", "{}")],
                &configured
            ),
            ["DOCKER_AUTH_CONFIG", "/ci/config.json"]
        );
        assert_eq!(
            shown(
                &[
                    home,
                    ("DOCKER_CONFIG", "/ci"),
                    ("REGISTRY_AUTH_FILE", "/a.json")
                ],
                &none
            ),
            ["/a.json"]
        );
    }

    #[test]
    fn no_cure_leads_back_to_the_same_store() {
        let wanted = Wanted {
            registry: "r.example.com",
            repository: "team/node",
            variables: &OF_CACHE,
        };
        let variables = "set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD";
        assert_eq!(
            wanted.cure_of_none(&[], false),
            format!("{variables}, or `docker login r.example.com`")
        );
        let looked = ["c.json names docker-credential-desktop, which is not installed".to_owned()];
        assert_eq!(
            wanted.cure_of_none(&looked, true),
            format!(
                "{variables}, or name a file with the login in REGISTRY_AUTH_FILE: \
                 c.json names docker-credential-desktop, which is not installed"
            )
        );
    }
}
