//! Finds and reads the configuration files of this host.
//! `winimg_recipe::host_config` defines their keys.
//!
//! Rejects files that other users could change: they name trusted keys and programs to run. On
//! Windows there is no system-wide file: anyone may create a folder in %ProgramData%.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::cli::{Cli, CliCommand};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::Secret;
use winimg_recipe::host_config::{self, HostConfig, HostConfigFile};
use winimg_supply::fetch::Proxies;

use super::{CommandContext, recipe};

/// Value of `--config` that disables configuration files.
const NONE: &str = "none";

/// Configuration of this host.
#[derive(Default)]
pub struct HostConfiguration {
    /// Files that were read; later ones override earlier ones.
    pub files: Vec<PathBuf>,
    pub config: HostConfig,
    pub proxies: Proxies,
    /// Folder of the user's configuration file, which need not exist.
    pub own: Option<PathBuf>,
    /// Trust root that `winimg trust update` wrote.
    pub sigstore_root: Option<Vec<u8>>,
}

/// File name of Sigstore's trust root in [`trust_folder`].
pub const TRUSTED_ROOT: &str = "trusted_root.json";

/// Returns the folder of this host's trust anchors.
pub fn trust_folder(own: Option<&Path>) -> Option<PathBuf> {
    own.map(|own| own.join("trust"))
}

/// Reads the configuration of this host. Reports all diagnostics; fails with status 2 if one is an
/// error.
pub fn load_configuration(cli: &Cli, context: &CommandContext) -> Result<HostConfiguration> {
    match cli.command {
        // Nothing in these depends on the host.
        CliCommand::Schema { .. }
        | CliCommand::Completions { .. }
        | CliCommand::Man { .. }
        | CliCommand::Relay { .. } => {
            return Ok(HostConfiguration::default());
        }
        _ => {}
    }
    let mut diagnostics = Diagnostics::default();
    let (mut files, mut texts) = (Vec::new(), Vec::new());
    let places = list_paths(cli.config.as_deref(), |name| std::env::var_os(name));
    let own = places
        .last()
        .and_then(|path| path.parent())
        .map(Path::to_path_buf);
    let root = trust_folder(own.as_deref())
        .map(|folder| folder.join(TRUSTED_ROOT))
        .filter(|path| path.is_file());
    diagnostics
        .0
        .extend(root.iter().flat_map(|path| check_ownership(path)));
    let sigstore_root = match &root {
        Some(path) => {
            Some(io::read_limited(path, io::limit::KEY).map_err(|e| Error::io("read", path, e))?)
        }
        None => None,
    };
    for path in places {
        let Some(file) = read(&path, cli.config.is_some())? else {
            continue;
        };
        diagnostics.0.extend(check_ownership(&path));
        files.push(path);
        texts.push(file);
    }
    let (config, found) = host_config::read(texts);
    diagnostics.0.extend(found.0);
    let config = recipe::report(config, diagnostics, context)?;
    let proxies = Proxies {
        https: config.proxy.https.clone(),
        http: config.proxy.http.clone(),
        all: config.proxy.all.clone(),
        except: config.proxy.except.clone(),
        near: config.proxy.near.clone(),
        credentials: config
            .proxy
            .credentials
            .as_deref()
            .map(read_credentials)
            .transpose()?,
    };
    let password = proxies.credentials.as_ref().map(|(_, password)| password);
    context.recording.hide(password.cloned());
    Ok(HostConfiguration {
        files,
        config,
        proxies,
        own,
        sigstore_root,
    })
}

/// Returns the paths to read, the system's first; with `named` only that file.
fn list_paths(named: Option<&OsStr>, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    match named.filter(|name| !name.is_empty()) {
        Some(name) if name == NONE => return Vec::new(),
        Some(name) => return vec![name.into()],
        None => {}
    }
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folders: Vec<PathBuf> = if cfg!(windows) {
        set("APPDATA").into_iter().collect()
    } else {
        // The XDG specification requires relative paths to be ignored.
        let user = set("XDG_CONFIG_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| set("HOME").map(|home| home.join(".config")));
        std::iter::once(PathBuf::from("/etc")).chain(user).collect()
    };
    folders
        .into_iter()
        .map(|folder| folder.join("winimg").join("config.toml"))
        .collect()
}

/// Reads one file. Returns `None` if it does not exist and was not named explicitly.
fn read(path: &Path, is_named: bool) -> Result<Option<HostConfigFile>> {
    let absolute = std::path::absolute(path).map_err(|e| Error::io("find", path, e))?;
    match io::read_text_limited(path, io::limit::TEXT) {
        Ok(text) => Ok(Some(HostConfigFile {
            name: path.display().to_string(),
            text,
            folder: absolute.parent().unwrap_or(Path::new("")).into(),
        })),
        Err(e) if e.kind() == ErrorKind::NotFound && !is_named => Ok(None),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let fact = format!("there is no configuration file {}", path.display());
            Err(Error::new(Kind::Recipe, fact)
                .cure("give another one with --config or WINIMG_CONFIG; `none` reads none"))
        }
        Err(e) => Err(Error::io("read", path, e)),
    }
}

/// Checks as ssh does that root or this user owns the file, and that no other user can write or
/// replace it.
#[cfg(unix)]
fn check_ownership(path: &Path) -> Vec<Diagnostic> {
    use std::os::unix::fs::MetadataExt as _;

    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let name = path.display();
    let mut found = Vec::new();
    if let Ok(file) = std::fs::metadata(&real) {
        let own = nix::unistd::geteuid().as_raw();
        if file.uid() != 0 && file.uid() != own {
            found.push(
                Diagnostic::error(format!(
                    "{name} belongs to user {}, who could change what this host trusts",
                    file.uid()
                ))
                .help(format!(
                    "`chown {own} {name}`, or ignore it with --config none"
                )),
            );
        }
        if file.mode() & 0o022 != 0 {
            found.push(
                Diagnostic::error(format!("{name} is writable by other users"))
                    .help(format!("`chmod go-w {name}`")),
            );
        }
    }
    let folder = real.parent().unwrap_or(Path::new("/"));
    if let Ok(about) = std::fs::metadata(folder)
        && about.mode() & 0o1002 == 0o002
    {
        found.push(
            Diagnostic::error(format!("{name} is in a folder where anyone can replace it"))
                .help(format!("`chmod o-w {}`", folder.display())),
        );
    }
    found
}

/// Checks nothing: only the user, SYSTEM and administrators can access a profile's folder.
#[cfg(not(unix))]
fn check_ownership(_: &Path) -> Vec<Diagnostic> {
    Vec::new()
}

/// Reads a file with one line, `user:password`.
fn read_credentials(path: &Path) -> Result<(String, Secret)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let found = std::fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
        if found.permissions().mode() & 0o007 != 0 {
            let cure = format!("`chmod o= {}`", path.display());
            let fact = "the proxy credentials file is readable by everyone";
            return Err(Error::new(Kind::Host, fact).at(path.display()).cure(cure));
        }
    }
    let text =
        io::read_text_argument(path, io::limit::KEY).map_err(|e| Error::io("read", path, e))?;
    let line = text.trim_end_matches(['\r', '\n']);
    match line.split_once(':').filter(|_| !line.contains('\n')) {
        Some((user, password)) => Ok((user.into(), Secret::new(password))),
        None => Err(Error::new(
            Kind::Host,
            "the proxy credentials file must contain one line `user:password`",
        )
        .at(path.display())),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shown(named: Option<&str>, set: &[(&str, &str)]) -> Vec<String> {
        let places = list_paths(named.map(OsStr::new), |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        });
        places
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn the_files_are_the_systems_and_the_users_or_the_one_that_is_named() {
        let home = ("HOME", "/home/u");
        for (named, set, expected) in [
            (
                None,
                &[home][..],
                &[
                    "/etc/winimg/config.toml",
                    "/home/u/.config/winimg/config.toml",
                ][..],
            ),
            (
                None,
                &[home, ("XDG_CONFIG_HOME", "/x")],
                &["/etc/winimg/config.toml", "/x/winimg/config.toml"],
            ),
            (
                None,
                &[("XDG_CONFIG_HOME", "x")],
                &["/etc/winimg/config.toml"],
            ),
            (Some(""), &[], &["/etc/winimg/config.toml"]),
            (Some("ci.toml"), &[home], &["ci.toml"]),
            (Some("none"), &[home], &[]),
        ] {
            assert_eq!(shown(named, set), expected, "{named:?} {set:?}");
        }
    }
}
