//! Registry credentials from the environment, or from a file or credential helper of `docker
//! login`, `podman login` and `oras login`.
//!
//! Never shown, never in an argument. The searched places are kept for the message if a registry
//! denies access.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use url::Host;

use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::Secret;

use super::login::RegistryLogin;
use super::{helper, login_file};

const TOKEN_HOST: &str = "WINIMG_CACHE_TOKEN_HOST";
/// Variable with the content of a docker config file.
const DOCKER_AUTH_CONFIG: &str = "DOCKER_AUTH_CONFIG";

/// Names of the variables with a user and a password.
pub struct LoginVariables {
    pub user: &'static str,
    pub password: &'static str,
}

pub const CACHE_VARIABLES: LoginVariables = LoginVariables {
    user: "WINIMG_CACHE_USER",
    password: "WINIMG_CACHE_PASSWORD",
};

/// The login to a registry.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub(in crate::fetch) login: RegistryLogin,
    /// Token server on another host than the registry's.
    pub(in crate::fetch) token_host: Option<String>,
}

impl Credentials {
    pub fn new(user: impl Into<String>, password: Secret) -> Self {
        Self::from_login(RegistryLogin::Password {
            user: user.into(),
            password,
        })
    }

    fn from_login(login: RegistryLogin) -> Self {
        Self {
            login,
            token_host: None,
        }
    }
}

/// Host configuration, used where the environment sets nothing.
#[derive(Clone, Debug, Default)]
pub struct RegistryConfig {
    /// A file written by `docker login`.
    pub file: Option<PathBuf>,
    pub token_host: Option<String>,
}

/// A repository to find a login for.
#[derive(Clone, Copy)]
pub struct LoginQuery<'a> {
    /// Name used by its users: `registry.example.com:5000`, `docker.io`.
    pub registry: &'a str,
    pub repository: &'a str,
    /// The variables that take precedence over files.
    pub variables: &'a LoginVariables,
}

/// Result of a search for credentials.
pub struct LoginLookup {
    pub credentials: Option<Credentials>,
    /// Cure if the registry denies access.
    pub cure: String,
}

impl From<Option<Credentials>> for LoginLookup {
    /// For a shared cache, without reading any file.
    fn from(credentials: Option<Credentials>) -> Self {
        match credentials {
            Some(credentials) => Self::from_variables(credentials, &CACHE_VARIABLES),
            None => {
                let LoginVariables { user, password } = CACHE_VARIABLES;
                Self {
                    credentials: None,
                    cure: format!("set {user} and {password}, or run `docker login` for it"),
                }
            }
        }
    }
}

impl LoginLookup {
    /// Creates the result for credentials of the variables, without reading any file.
    pub fn from_variables(credentials: Credentials, variables: &LoginVariables) -> Self {
        let LoginVariables { user, password } = variables;
        Self {
            credentials: Some(credentials),
            cure: format!("check {user} and {password}, and the permissions of this user"),
        }
    }
}

/// Finds the credentials of a shared cache: `WINIMG_CACHE_USER` and `WINIMG_CACHE_PASSWORD`, else a
/// stored login.
pub fn find_credentials(
    registry: &str,
    repository: &str,
    configured: &RegistryConfig,
) -> Result<LoginLookup> {
    let wanted = LoginQuery {
        registry,
        repository,
        variables: &CACHE_VARIABLES,
    };
    let Some(credentials) = read_environment()? else {
        return find_stored_login(wanted, configured);
    };
    let credentials = with_token_host(credentials, configured)?;
    Ok(LoginLookup::from_variables(credentials, wanted.variables))
}

/// Finds a stored login: in the file that `REGISTRY_AUTH_FILE` or `DOCKER_CONFIG` names, else in
/// the `configured` one, else in those of docker and podman.
pub fn find_stored_login(
    wanted: LoginQuery<'_>,
    configured: &RegistryConfig,
) -> Result<LoginLookup> {
    let mut searched = Vec::new();
    let mut has_helper = false;
    for source in list_sources(&read_variable, configured) {
        let found = match source.find(&wanted) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            // A default location need not exist.
            Err(error) if source.is_default() => {
                searched.push(format!(
                    "{} cannot be read: {}",
                    source.describe(),
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
                    let from = format!("from {}", helper::name_program(name));
                    return wanted.build_lookup(login, &from, configured);
                }
                Err(why) => {
                    let program = helper::name_program(name);
                    searched.push(format!(
                        "{} names {program}, which {why}",
                        source.describe()
                    ));
                }
            }
        }
        if let Some((key, login)) = found.login {
            let from = format!("under `{key}` in {}", source.describe());
            return wanted.build_lookup(login, &from, configured);
        }
        if let Some(key) = found.unreadable {
            searched.push(format!(
                "{} has no user and password under `{key}`",
                source.describe()
            ));
        } else if found.helper.is_none() {
            searched.push(format!(
                "{} has no login for this registry",
                source.describe()
            ));
        }
    }
    Ok(LoginLookup {
        credentials: None,
        cure: wanted.describe_cure(&searched, has_helper),
    })
}

impl LoginQuery<'_> {
    fn build_lookup(
        &self,
        login: RegistryLogin,
        from: &str,
        configured: &RegistryConfig,
    ) -> Result<LoginLookup> {
        let LoginVariables { user, password } = self.variables;
        let credentials = with_token_host(Credentials::from_login(login), configured)?;
        Ok(LoginLookup {
            credentials: Some(credentials),
            cure: format!(
                "the login {from} was used: check its permissions, or set {user} and {password}"
            ),
        })
    }

    /// Renders the cure if there is no login. It does not suggest `docker login` if a helper
    /// failed, because the login would be stored there again.
    fn describe_cure(&self, searched: &[String], has_helper: bool) -> String {
        let LoginVariables { user, password } = self.variables;
        let variables = format!("set {user} and {password}");
        let searched = searched.join("; ");
        match (has_helper, searched.is_empty()) {
            (true, _) => format!(
                "{variables}, or name a file with the login in REGISTRY_AUTH_FILE: {searched}"
            ),
            (false, true) => format!("{variables}, or run `docker login {}`", self.registry),
            (false, false) => {
                let registry = self.registry;
                format!("{variables}, or run `docker login {registry}`: {searched}")
            }
        }
    }
}

/// A place to read logins from.
#[derive(Debug, PartialEq, Eq)]
enum LoginSource {
    /// A file named by the user.
    File(PathBuf),
    /// A default file of a client.
    Default(PathBuf),
    /// The text of the variable [`DOCKER_AUTH_CONFIG`].
    Variable(Secret),
}

impl LoginSource {
    /// Finds the entries for a repository. `None`: there is no such file.
    fn find(&self, wanted: &LoginQuery<'_>) -> Result<Option<login_file::FileLogins>> {
        let Some(text) = self.read()? else {
            return Ok(None);
        };
        let found = login_file::find(&text, wanted.registry, wanted.repository);
        found.map(Some).ok_or_else(|| {
            let fact = "a file of registry credentials is not JSON";
            Error::new(Kind::Recipe, fact).at(self.describe())
        })
    }

    fn is_default(&self) -> bool {
        matches!(self, Self::Default(_))
    }

    fn read(&self) -> Result<Option<Vec<u8>>> {
        let path = match self {
            Self::Variable(text) => return Ok(Some(text.expose().as_bytes().to_vec())),
            Self::File(path) | Self::Default(path) => path,
        };
        match io::read_argument(path, io::limit::TEXT) {
            Err(e) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&e.kind()) => {
                Ok(None)
            }
            read => read.map(Some).map_err(|e| Error::io("read", path, e)),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::File(path) | Self::Default(path) => path.display().to_string(),
            Self::Variable(_) => DOCKER_AUTH_CONFIG.to_owned(),
        }
    }
}

/// Lists the places in order of precedence. A file named by the user is the only one. (docker/cli:
/// config; containers-auth.json(5))
fn list_sources(
    set: &dyn Fn(&str) -> Option<String>,
    configured: &RegistryConfig,
) -> Vec<LoginSource> {
    if let Some(file) = set("REGISTRY_AUTH_FILE") {
        return vec![LoginSource::File(file.into())];
    }
    let text = set(DOCKER_AUTH_CONFIG).map(|text| LoginSource::Variable(Secret::new(text)));
    let mut all: Vec<LoginSource> = text.into_iter().collect();
    let named = set("DOCKER_CONFIG").map(|folder| Path::new(&folder).join("config.json"));
    if let Some(named) = named.or_else(|| configured.file.clone()) {
        all.push(LoginSource::File(named));
        return all;
    }
    let home = set("HOME")
        .or_else(|| set("USERPROFILE"))
        .map(PathBuf::from);
    let docker = home
        .as_ref()
        .map(|home| home.join(".docker").join("config.json"));
    let runtime = set("XDG_RUNTIME_DIR").map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(home.as_ref()?.join(".config")));
    let old = home.map(|home| home.join(".dockercfg"));
    let [runtime, config] =
        [runtime, config].map(|folder| Some(folder?.join("containers").join("auth.json")));
    let files = [docker, runtime, config, old];
    all.extend(files.into_iter().flatten().map(LoginSource::Default));
    all
}

/// Adds the token host that `WINIMG_CACHE_TOKEN_HOST` or the configuration names.
pub fn with_token_host(
    credentials: Credentials,
    configured: &RegistryConfig,
) -> Result<Credentials> {
    let token_host = match (read_variable(TOKEN_HOST), &configured.token_host) {
        (Some(host), _) => Some(parse_host(TOKEN_HOST, &host)?),
        (None, Some(host)) => Some(parse_host("cache.token_host", host)?),
        (None, None) => None,
    };
    Ok(Credentials {
        token_host,
        ..credentials
    })
}

/// Normalizes the host for comparisons. Its value is not shown: it may contain a password.
fn parse_host(name: &str, text: &str) -> Result<String> {
    let host = Host::parse(text).map_err(|_| {
        Error::new(Kind::Recipe, format!("{name} is not a host name"))
            .expected("only a name, such as gitlab.com: no https://, port or path")
    })?;
    Ok(host.to_string())
}

fn read_environment() -> Result<Option<Credentials>> {
    match (
        read_variable("WINIMG_CACHE_USER"),
        read_variable("WINIMG_CACHE_PASSWORD"),
    ) {
        (Some(user), Some(password)) => Ok(Some(Credentials::new(user, Secret::new(password)))),
        (None, None) => Ok(None),
        (user, _) => {
            let (set, missing) = match user {
                Some(_) => ("WINIMG_CACHE_USER", "WINIMG_CACHE_PASSWORD"),
                None => ("WINIMG_CACHE_PASSWORD", "WINIMG_CACHE_USER"),
            };
            let fact = format!("{set} is set, but {missing} is not");
            Err(Error::new(Kind::Recipe, fact).cure("set both, or none"))
        }
    }
}

#[cfg(test)]
mod tests;
