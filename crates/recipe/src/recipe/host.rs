//! The configuration files of a host: what belongs to the machine that builds, and to no recipe.
//!
//! Pure: texts in, settings and complaints out. Read with the recipe's own reader, so a mistake is shown at its line with its
//! cure. Refuses unknown keys, secrets in an address, and everything that a recipe decides.

use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use super::fields::{Context, Fields};
use super::mask::mask_users;
use super::sources::Sources;
use super::value::{self, Table};
use super::vars::Scope;
use super::{Effective, LockRule, Mirrors, Root, effective, lower, merge, mirrors};
use winimg_base::diag::Diagnostics;
use winimg_base::text::{Located, Place, Source};
use winimg_trust::short;

/// The text of one file.
#[derive(Clone, Debug)]
pub struct HostFile {
    /// As messages call it.
    pub name: String,
    pub text: String,
    /// Where its relative paths start.
    pub folder: PathBuf,
}

/// What the files of a host say together; what none of them says is absent.
#[derive(Clone, Debug, Default)]
pub struct Host {
    pub hypervisor: Option<String>,
    /// One of the words of `--accel`.
    pub accel: Option<&'static str>,
    pub builder_id: Option<String>,
    pub cache: Cache,
    pub proxy: Proxy,
    pub sign: Sign,
    pub lock: LockRule,
    pub mirrors: Mirrors,
    /// Every value with the file and line that it came from.
    pub settings: Vec<Effective>,
}

/// `[cache]`
#[derive(Clone, Debug, Default)]
pub struct Cache {
    pub dir: Option<PathBuf>,
    pub remote: Option<Located<String>>,
    /// Minisign public keys themselves, or the paths of files with one.
    pub keys: Vec<String>,
    pub sign_key: Option<PathBuf>,
    pub credentials: Option<PathBuf>,
    pub token_host: Option<String>,
}

/// `[proxy]`
#[derive(Clone, Debug, Default)]
pub struct Proxy {
    pub https: Option<Url>,
    pub http: Option<Url>,
    pub all: Option<Url>,
    pub except: Vec<String>,
    pub near: Vec<String>,
    pub credentials: Option<PathBuf>,
}

/// `[sign]`
#[derive(Clone, Debug, Default)]
pub struct Sign {
    pub keys: Vec<PathBuf>,
    pub command: Option<String>,
    pub public_key: Option<PathBuf>,
}

/// Reads the files, of which a later one wins, key by key. All complaints come at once; there are settings only when none of
/// them is an error.
pub fn read(files: Vec<HostFile>) -> (Option<Host>, Diagnostics) {
    let mut sources = Sources::default();
    let (mut tree, mut problems) = (Table::default(), Vec::new());
    for file in files {
        let text = mask_users(file.text);
        let source = sources.add_file(file.name, text, file.folder, Root::Flag);
        let (own, broken) = value::parse(&source);
        problems.extend(broken);
        merge::lay_over(&mut tree, own, &mut problems);
    }
    let is_broken = !problems.is_empty();
    let scope = Scope::default();
    let cx = Context::new(&sources, &scope, is_broken);
    let host = host(&cx, &tree);
    problems.extend(cx.into_parts().0);
    let mut diagnostics = Diagnostics(problems);
    diagnostics.sort(&sources.order());
    let host = (!diagnostics.has_errors()).then(|| Host {
        settings: effective::list(&tree, &scope, Vec::new()),
        ..host
    });
    (host, diagnostics)
}

fn host(cx: &Context<'_>, tree: &Table) -> Host {
    let nowhere = Place::new(&Arc::new(Source::new(String::new(), String::new())), 0..0);
    let top = Fields::of(cx, tree, "host", "the configuration file".into(), &nowhere);
    top.refuse_unknown();
    Host {
        hypervisor: top.text("hypervisor"),
        accel: top.word("accel").map(|word| word.value),
        builder_id: top.text("builder_id"),
        cache: top.table("cache").map(cache).unwrap_or_default(),
        proxy: top.table("proxy").map(proxy).unwrap_or_default(),
        sign: top.table("sign").map(sign).unwrap_or_default(),
        lock: lower::lock_rule(&top).unwrap_or_default(),
        mirrors: mirrors::mirrors(&top),
        settings: Vec::new(),
    }
}

fn cache(fields: Fields<'_>) -> Cache {
    let keys = fields.strings("keys").into_iter();
    let keys = keys.filter_map(|key| match short::is_key(&key.value) {
        true => Some(key.value),
        false => Some(beside(&fields, &key)?.display().to_string()),
    });
    Cache {
        dir: path(&fields, "dir"),
        remote: fields.string("remote"),
        keys: keys.collect(),
        sign_key: path(&fields, "sign_key"),
        credentials: path(&fields, "credentials"),
        token_host: fields.text("token_host"),
    }
}

fn proxy(fields: Fields<'_>) -> Proxy {
    Proxy {
        https: proxy_address(&fields, "https"),
        http: proxy_address(&fields, "http"),
        all: proxy_address(&fields, "all"),
        except: fields.texts("except"),
        near: fields.texts("near"),
        credentials: path(&fields, "credentials"),
    }
}

fn sign(fields: Fields<'_>) -> Sign {
    let keys = fields.strings("keys");
    let keys = keys.iter().filter_map(|key| beside(&fields, key));
    let keys = keys.collect();
    let (command, public_key) = (fields.string("command"), path(&fields, "public_key"));
    for (one, other) in [("command", "public_key"), ("public_key", "command")] {
        if let Some(entry) = fields.table.entry(one).filter(|_| !fields.has(other)) {
            let fact = format!("{} has `{one}` and no `{other}`", fields.what);
            let help = "the program signs, and the key shows whether it signed well: give both";
            fields.cx.missing(fact, &entry.key_place, help);
        }
    }
    Sign {
        keys,
        command: command.map(|command| command.value),
        public_key,
    }
}

/// A file or folder of this machine; a relative one starts at the configuration file.
fn path(fields: &Fields<'_>, key: &str) -> Option<PathBuf> {
    beside(fields, &fields.string(key)?)
}

fn beside(fields: &Fields<'_>, text: &Located<String>) -> Option<PathBuf> {
    if text.value.starts_with('~') {
        let fact = format!("\"{}\" is no path: nothing replaces `~` here", text.value);
        let help = "write the whole path, or one that starts at the folder of this file";
        fields.cx.error(fact, &text.place, "", help);
        return None;
    }
    let folder = fields.cx.sources.folder(&text.place);
    Some(folder.join(&text.value))
}

const PROXIES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

fn proxy_address(fields: &Fields<'_>, key: &str) -> Option<Url> {
    let text = fields.string(key)?;
    let complain = |fact: &str, help: &str| {
        let fact = format!("`{key}` {fact}");
        fields.cx.error(fact, &text.place, "", help);
    };
    let url = Url::parse(&text.value).ok();
    let url = url.filter(|u| PROXIES.contains(&u.scheme()) && u.host_str().is_some());
    let Some(url) = url else {
        let help =
            "such as \"http://proxy.example.com:3128\"; https, socks4 and socks5 are read, too";
        complain("is not a proxy's address", help);
        return None;
    };
    if !url.username().is_empty() || url.password().is_some() {
        let help = "put `user:password` into a file that only you can read, and name it with `credentials`";
        complain("holds a user name or password", help);
        return None;
    }
    Some(url)
}
