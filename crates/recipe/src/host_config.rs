//! Host configuration files: settings of the build machine, as opposed to those of a recipe.
//!
//! Pure: texts in, settings and diagnostics out. Uses the recipe's reader, so errors have a line
//! and a fix. Refuses unknown keys, secrets in an address, and keys that belong in a recipe.

use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use crate::document::mask::mask_users;
use crate::document::merge;
use crate::document::sources::RecipeSources;
use crate::document::value::{self, TomlTable};
use crate::fields::{LoweringContext, TableReader};
use crate::vars::VariableScope;
use crate::{EffectiveValue, LockPolicy, Mirrors, PathRoot, effective, lower, mirrors};
use winimg_base::diag::Diagnostics;
use winimg_base::text::{Located, Place, SourceText};
use winimg_trust::short_format;

/// The text of one file.
#[derive(Clone, Debug)]
pub struct HostConfigFile {
    /// Name in messages.
    pub name: String,
    pub text: String,
    /// Base of its relative paths.
    pub folder: PathBuf,
}

/// The merged configuration files of a host.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    pub hypervisor: Option<String>,
    /// A value of `--accel`.
    pub accel: Option<&'static str>,
    pub builder_id: Option<String>,
    pub cache: CacheConfig,
    pub proxy: ProxyConfig,
    pub sign: SigningConfig,
    pub lock: LockPolicy,
    pub mirrors: Mirrors,
    /// Every value with its file and line.
    pub settings: Vec<EffectiveValue>,
}

/// `[cache]`
#[derive(Clone, Debug, Default)]
pub struct CacheConfig {
    pub dir: Option<PathBuf>,
    pub remote: Option<Located<String>>,
    /// Minisign public keys, or paths of files with one.
    pub keys: Vec<String>,
    pub sign_key: Option<PathBuf>,
    pub credentials: Option<PathBuf>,
    pub token_host: Option<String>,
}

/// `[proxy]`
#[derive(Clone, Debug, Default)]
pub struct ProxyConfig {
    pub https: Option<Url>,
    pub http: Option<Url>,
    pub all: Option<Url>,
    /// Hosts that are reached without a proxy.
    pub except: Vec<String>,
    /// Hosts that servers may redirect to although they are less public than the server.
    pub near: Vec<String>,
    pub credentials: Option<PathBuf>,
}

/// `[sign]`
#[derive(Clone, Debug, Default)]
pub struct SigningConfig {
    pub keys: Vec<PathBuf>,
    pub command: Option<String>,
    pub public_key: Option<PathBuf>,
}

/// Reads the files; for each key the last one wins. Reports all problems at once; returns settings
/// only if none of them is an error.
pub fn read(files: Vec<HostConfigFile>) -> (Option<HostConfig>, Diagnostics) {
    let mut sources = RecipeSources::default();
    let (mut tree, mut problems) = (TomlTable::default(), Vec::new());
    for file in files {
        let text = mask_users(file.text);
        let source = sources.add_file(file.name, text, file.folder, PathRoot::Flag);
        let (own, broken) = value::parse(&source);
        problems.extend(broken);
        merge::merge_tables(&mut tree, own, &mut problems);
    }
    let is_broken = !problems.is_empty();
    let scope = VariableScope::default();
    let cx = LoweringContext::new(&sources, &scope, is_broken);
    let host = lower_host(&cx, &tree);
    problems.extend(cx.into_parts().0);
    let mut diagnostics = Diagnostics(problems);
    diagnostics.sort(&sources.order());
    let host = (!diagnostics.has_errors()).then(|| HostConfig {
        settings: effective::list(&tree, &scope, Vec::new()),
        ..host
    });
    (host, diagnostics)
}

fn lower_host(cx: &LoweringContext<'_>, tree: &TomlTable) -> HostConfig {
    let empty_place = Place::new(
        &Arc::new(SourceText::new(String::new(), String::new())),
        0..0,
    );
    let what = "the configuration file".into();
    let top = TableReader::from_table(cx, tree, "host", what, &empty_place);
    top.refuse_unknown();
    HostConfig {
        hypervisor: top.read_text("hypervisor"),
        accel: top.read_word("accel").map(|word| word.value),
        builder_id: top.read_text("builder_id"),
        cache: top.read_table("cache").map(read_cache).unwrap_or_default(),
        proxy: top.read_table("proxy").map(read_proxy).unwrap_or_default(),
        sign: top.read_table("sign").map(sign).unwrap_or_default(),
        lock: lower::read_lock_policy(&top).unwrap_or_default(),
        mirrors: mirrors::read_mirrors(&top),
        settings: Vec::new(),
    }
}

fn read_cache(fields: TableReader<'_>) -> CacheConfig {
    let keys = fields.read_strings("keys").into_iter().filter_map(|key| {
        if short_format::is_key(&key.value) {
            Some(key.value)
        } else {
            Some(resolve_path(&fields, &key)?.display().to_string())
        }
    });
    CacheConfig {
        dir: read_path(&fields, "dir"),
        remote: fields.read_string("remote"),
        keys: keys.collect(),
        sign_key: read_path(&fields, "sign_key"),
        credentials: read_path(&fields, "credentials"),
        token_host: fields.read_text("token_host"),
    }
}

fn read_proxy(fields: TableReader<'_>) -> ProxyConfig {
    ProxyConfig {
        https: proxy_address(&fields, "https"),
        http: proxy_address(&fields, "http"),
        all: proxy_address(&fields, "all"),
        except: fields.read_texts("except"),
        near: fields.read_texts("near"),
        credentials: read_path(&fields, "credentials"),
    }
}

fn sign(fields: TableReader<'_>) -> SigningConfig {
    let keys = fields
        .read_strings("keys")
        .iter()
        .filter_map(|key| resolve_path(&fields, key))
        .collect();
    let (command, public_key) = (
        fields.read_string("command"),
        read_path(&fields, "public_key"),
    );
    for (one, other) in [("command", "public_key"), ("public_key", "command")] {
        if let Some(entry) = fields.table.find_entry(one).filter(|_| !fields.has(other)) {
            let fact = format!("{} has `{one}` but no `{other}`", fields.what);
            let help = "set both: the program signs, and the key checks its signature";
            fields.cx.report_missing(fact, &entry.key_place, help);
        }
    }
    SigningConfig {
        keys,
        command: command.map(|command| command.value),
        public_key,
    }
}

/// Reads a path of this machine, relative to the configuration file.
fn read_path(fields: &TableReader<'_>, key: &str) -> Option<PathBuf> {
    resolve_path(fields, &fields.read_string(key)?)
}

fn resolve_path(fields: &TableReader<'_>, text: &Located<String>) -> Option<PathBuf> {
    if text.value.starts_with('~') {
        let fact = format!("\"{}\": `~` is not expanded here", text.value);
        let help = "write an absolute path, or one relative to the folder of this file";
        fields.cx.error(fact, &text.place, "", help);
        return None;
    }
    let folder = fields.cx.sources.find_folder(&text.place);
    Some(folder.join(&text.value))
}

const PROXY_SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

fn proxy_address(fields: &TableReader<'_>, key: &str) -> Option<Url> {
    let text = fields.read_string(key)?;
    let url = Url::parse(&text.value)
        .ok()
        .filter(|url| PROXY_SCHEMES.contains(&url.scheme()) && url.host_str().is_some());
    let Some(url) = url else {
        let fact = format!("`{key}` is not a proxy address");
        let help = "such as \"http://proxy.example.com:3128\"; https, socks4 and socks5 work, too";
        fields.cx.error(fact, &text.place, "", help);
        return None;
    };
    if !url.username().is_empty() || url.password().is_some() {
        let fact = format!("`{key}` contains a user name or password");
        let help = "put `user:password` in a file that only you can read, and set `credentials` \
                    to its path";
        fields.cx.error(fact, &text.place, "", help);
        return None;
    }
    Some(url)
}
