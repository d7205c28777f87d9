//! The configuration files of this host: which are read, and what they come to. What they may say: `recipe::host`.
//!
//! Refuses a file that others could change: it names keys that are trusted and programs that are run. On Windows a file for the
//! whole system is not looked for: anyone may make a folder in %ProgramData%.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::cli::{Cli, Command};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::Secret;
use winimg_recipe::recipe::host::{self, Host, HostFile};
use winimg_supply::fetch::Proxies;

use super::{Context, recipe};

/// What stands for no file at all.
const NONE: &str = "none";

/// What the files say.
#[derive(Default)]
pub struct Configured {
    /// Those that were read; of two that say the same the later one wins.
    pub files: Vec<PathBuf>,
    pub said: Host,
    pub proxies: Proxies,
    /// Where the user's file stands, or would.
    pub own: Option<PathBuf>,
    /// What `winimg trust update` wrote.
    pub sigstore_root: Option<Vec<u8>>,
}

/// Its name in [`trust_folder`].
pub const TRUSTED_ROOT: &str = "trusted_root.json";

/// What this host trusts beside the keys of recipes.
pub fn trust_folder(own: Option<&Path>) -> Option<PathBuf> {
    own.map(|own| own.join("trust"))
}

/// Reads the files of this host. Complaints are shown as they are; any error among them ends with status 2.
pub fn configured(cli: &Cli, context: &Context) -> Result<Configured> {
    match cli.command {
        // Nothing in these depends on the host.
        Command::Schema { .. }
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Relay { .. } => {
            return Ok(Configured::default());
        }
        _ => {}
    }
    let mut diagnostics = Diagnostics::default();
    let (mut files, mut texts) = (Vec::new(), Vec::new());
    let places = places(cli.config.as_deref(), |name| std::env::var_os(name));
    let own = places
        .last()
        .and_then(|path| path.parent())
        .map(Path::to_path_buf);
    let root = trust_folder(own.as_deref()).map(|folder| folder.join(TRUSTED_ROOT));
    let root = root.filter(|path| path.is_file());
    diagnostics
        .0
        .extend(root.iter().flat_map(|path| unsafe_to_trust(path)));
    let read_root = |path: &PathBuf| {
        io::read_limited(path, io::limit::KEY).map_err(|e| Error::io("read", path, e))
    };
    let sigstore_root = root.as_ref().map(read_root).transpose()?;
    for path in places {
        let Some(file) = read(&path, cli.config.is_some())? else {
            continue;
        };
        diagnostics.0.extend(unsafe_to_trust(&path));
        files.push(path);
        texts.push(file);
    }
    let (said, found) = host::read(texts);
    diagnostics.0.extend(found.0);
    let said = recipe::report(said, diagnostics, context)?;
    let proxies = Proxies {
        https: said.proxy.https.clone(),
        http: said.proxy.http.clone(),
        all: said.proxy.all.clone(),
        except: said.proxy.except.clone(),
        near: said.proxy.near.clone(),
        credentials: said
            .proxy
            .credentials
            .as_deref()
            .map(user_and_password)
            .transpose()?,
    };
    let password = proxies.credentials.as_ref().map(|(_, password)| password);
    context.recording.hide(password.cloned());
    Ok(Configured {
        files,
        said,
        proxies,
        own,
        sigstore_root,
    })
}

/// The files that are looked for, the system's first; with a name that file alone.
fn places(named: Option<&OsStr>, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    match named.filter(|name| !name.is_empty()) {
        Some(name) if name == NONE => return Vec::new(),
        Some(name) => return vec![name.into()],
        None => {}
    }
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let own = |folder: PathBuf| folder.join("winimg").join("config.toml");
    if cfg!(windows) {
        return set("APPDATA").map(own).into_iter().collect();
    }
    // The specification has relative paths ignored.
    let xdg = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let user = xdg.or_else(|| set("HOME").map(|home| home.join(".config")));
    let system = PathBuf::from("/etc");
    std::iter::once(system).chain(user).map(own).collect()
}

/// `None`: it is not there, and nobody named it.
fn read(path: &Path, is_named: bool) -> Result<Option<HostFile>> {
    let absolute = std::path::absolute(path).map_err(|e| Error::io("find", path, e))?;
    match io::read_text_limited(path, io::limit::TEXT) {
        Ok(text) => Ok(Some(HostFile {
            name: path.display().to_string(),
            text,
            folder: absolute.parent().unwrap_or(Path::new("")).into(),
        })),
        Err(e) if e.kind() == ErrorKind::NotFound && !is_named => Ok(None),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let fact = format!("there is no configuration file {}", path.display());
            Err(Error::new(Kind::Recipe, fact)
                .cure("give another with --config or WINIMG_CONFIG; `none` reads none"))
        }
        Err(e) => Err(Error::io("read", path, e)),
    }
}

/// As ssh judges its own: the file is root's or ours, and nobody else writes to it or puts another in its place.
#[cfg(unix)]
fn unsafe_to_trust(path: &Path) -> Vec<Diagnostic> {
    use std::os::unix::fs::MetadataExt as _;

    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let name = path.display();
    let mut found = Vec::new();
    let mut complain = |fact: String, help: String| {
        found.push(Diagnostic::error(fact).help(help));
    };
    if let Ok(file) = std::fs::metadata(&real) {
        let own = nix::unistd::geteuid().as_raw();
        if file.uid() != 0 && file.uid() != own {
            complain(
                format!(
                    "{name} belongs to user {}, who could change what this host trusts",
                    file.uid()
                ),
                format!("`chown {own} {name}`, or leave it out with --config none"),
            );
        }
        if file.mode() & 0o022 != 0 {
            complain(
                format!("{name} can be written by others"),
                format!("`chmod go-w {name}`"),
            );
        }
    }
    let folder = real.parent().unwrap_or(Path::new("/"));
    if let Ok(found) = std::fs::metadata(folder)
        && found.mode() & 0o1002 == 0o002
    {
        let folder = folder.display();
        complain(
            format!("{name} stands in a folder in which anyone can replace it"),
            format!("`chmod o-w {folder}`"),
        );
    }
    found
}

/// The folder decides there: a profile's is open to its user, to SYSTEM and to administrators.
#[cfg(not(unix))]
fn unsafe_to_trust(_: &Path) -> Vec<Diagnostic> {
    Vec::new()
}

/// A file with one line, `user:password`.
fn user_and_password(path: &Path) -> Result<(String, Secret)> {
    let wrong = |fact: &str| {
        let fact = format!("the file of the proxy's credentials {fact}");
        Error::new(Kind::Host, fact).at(path.display())
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let found = std::fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
        if found.permissions().mode() & 0o007 != 0 {
            let cure = format!("`chmod o= {}`", path.display());
            return Err(wrong("can be read by everybody").cure(cure));
        }
    }
    let text = io::read_text_given(path, io::limit::KEY).map_err(|e| Error::io("read", path, e))?;
    let line = text.trim_end_matches(['\r', '\n']);
    match line.split_once(':').filter(|_| !line.contains('\n')) {
        Some((user, password)) => Ok((user.into(), Secret::new(password))),
        None => Err(wrong("is not one line `user:password`")),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shown(named: Option<&str>, set: &[(&str, &str)]) -> Vec<String> {
        let places = places(named.map(OsStr::new), |name| {
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
