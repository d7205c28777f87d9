//! What a recipe asks of each input, for `recipe.lock`: version, URL, proof and signatures, as they were written.
//!
//! Reads the tree after variables and nothing else, so that two machines say the same of one recipe. Complains about
//! nothing: `lower` has done that.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::effective::to_json;
use super::merge::PROOFS;
use super::query;
use super::value::{Data, Entry, Table, Value};
use super::{Input, InputId, KeyFile, ProofSpec, Recipe};
use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place, redact};

/// The keys that say who must have signed.
const RULES: [&str; 2] = ["signature", "checksum_signature"];

/// What a recipe asks of one input, as it was written after variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub id: InputId,
    /// The table of the input.
    pub place: Place,
    /// Of a container image, the Windows build that is wanted.
    pub version: Option<Located<String>>,
    /// Without its query; of a local file only its name, for its folder is another on each machine.
    pub url: Located<String>,
    pub proof: Located<AskedProof>,
    /// Over the tables of its signatures.
    pub rules: Option<Located<Digest>>,
    /// The key and root files that its signatures are judged by, in the recipe's order.
    pub keys: Vec<KeyFile>,
    /// Over all of it but the key files, with the parts of queries that name an input.
    pub digest: Digest,
    /// Whether a query is a part of [`Ask::digest`].
    pub has_query: bool,
}

/// How an input is to be proved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AskedProof {
    Digest(Digest),
    ChecksumFile {
        /// As [`Ask::url`].
        url: String,
        /// The line's name, where the recipe gives it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<String>,
    },
    /// By its signatures alone.
    Signed,
    Unverified,
    /// Nothing proves it yet, or by a variable without a value. Never in a lock.
    Undecided,
}

impl fmt::Display for AskedProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest(digest) => digest.fmt(f),
            Self::ChecksumFile { url, entry: None } => write!(f, "checksum file {url}"),
            Self::ChecksumFile {
                url,
                entry: Some(entry),
            } => write!(f, "checksum file {url}, line `{entry}`"),
            Self::Signed => f.write_str("signed"),
            Self::Unverified => f.write_str("unverified"),
            Self::Undecided => f.write_str("undecided"),
        }
    }
}

/// What [`Ask::digest`] is made from.
#[derive(Serialize)]
struct Whole<'a> {
    format: u32,
    version: Option<&'a str>,
    /// With its query, as far as that names an input.
    url: &'a str,
    proof: &'a AskedProof,
    /// As `url`.
    checksum_url: Option<&'a str>,
    rules: &'a [(&'a str, Json)],
}

/// The number of [`Whole`]. What locks of schema 1 hold had none.
const FORMAT: u32 = 2;

/// One for each input, in their order.
pub fn list(recipe: &Recipe, tree: &Table) -> Vec<Ask> {
    let tables = tree.entries.iter();
    let tables = tables.filter_map(|entry| Some((entry.key.as_str(), entry.value.as_table()?)));
    let tables: HashMap<&str, HashMap<&str, &Entry>> =
        tables.map(|(key, table)| (key, table.by_key())).collect();
    let asked = |id: InputId| {
        let [outer, inner] = id.table();
        let entry = *tables.get(outer)?.get(inner)?;
        match &id {
            InputId::Image(_) => image(id, entry),
            _ => download(id, entry),
        }
    };
    let whole = |input: Input<'_>| {
        let keys = keys(&input);
        let is_undecided = is_undecided(&input);
        let mut ask = asked(input.id)?;
        ask.keys = keys;
        if is_undecided {
            ask.proof.value = AskedProof::Undecided;
        }
        Some(ask)
    };
    recipe.inputs().filter_map(whole).collect()
}

fn is_undecided(input: &Input<'_>) -> bool {
    let origin = input.origin();
    origin.is_some_and(|origin| matches!(origin.proof, ProofSpec::Undecided(_)))
}

/// Returns the key files of an input's signatures and of those of its checksum file.
fn keys(input: &Input<'_>) -> Vec<KeyFile> {
    let Some(origin) = input.origin() else {
        return Vec::new();
    };
    let own = origin.signatures.iter();
    let of_checksums = match &origin.proof {
        ProofSpec::ChecksumFile { signatures, .. } => signatures.as_slice(),
        _ => &[],
    };
    let all = own.chain(of_checksums).flatten();
    all.flat_map(|signature| signature.keys.iter().cloned())
        .collect()
}

fn download(id: InputId, entry: &Entry) -> Option<Ask> {
    let table = entry.value.as_table()?;
    let url = text(table, "url")?;
    let version = text(table, "version");
    let proof = download_proof(table, &url.place)?;
    // A digest says which bytes are meant, wherever they come from.
    let identity_of_url = match proof.value {
        AskedProof::Digest(_) => query::without_query(&identity(&url.value)),
        _ => identity(&url.value),
    };
    let checksum_url = text(table, "checksum_url").map(|url| identity(&url.value));
    let given = RULES.iter().filter_map(|key| Some((*key, table.get(key)?)));
    let rules: Vec<(&str, Json)> = given.map(|(key, rule)| (key, rule_json(rule))).collect();
    let first = RULES.iter().find_map(|key| table.get(key));
    let mut urls = std::iter::once(&identity_of_url).chain(&checksum_url);
    Some(Ask {
        has_query: urls.any(|url| url.contains('?')),
        keys: Vec::new(),
        id,
        place: entry.key_place.clone(),
        rules: first.map(|rule| Located::new(Digest::of_json(&rules), rule.place.clone())),
        digest: Digest::of_json(&Whole {
            format: FORMAT,
            version: version.as_ref().map(|v| v.value.as_str()),
            url: &identity_of_url,
            proof: &proof.value,
            checksum_url: checksum_url.as_deref(),
            rules: &rules,
        }),
        version,
        url: url.map(|u| shown(&u)),
        proof,
    })
}

fn download_proof(table: &Table, otherwise: &Place) -> Option<Located<AskedProof>> {
    let Some(&key) = PROOFS.iter().find(|key| table.contains(key)) else {
        return Some(Located::new(AskedProof::Signed, otherwise.clone()));
    };
    let value = table.get(key)?;
    if matches!(value.data, Data::Undecided(_)) {
        return Some(Located::new(AskedProof::Undecided, value.place.clone()));
    }
    let said = text(table, key)?;
    let proof = match key {
        "checksum_url" => AskedProof::ChecksumFile {
            url: shown(&said.value),
            entry: text(table, "checksum_entry").map(|entry| entry.value),
        },
        "unverified" => AskedProof::Unverified,
        _ => AskedProof::Digest(said.value.trim().parse().ok()?),
    };
    Some(Located::new(proof, said.place))
}

fn image(id: InputId, entry: &Entry) -> Option<Ask> {
    let table = entry.value.as_table()?;
    let url = text(table, "reference")?;
    let version = text(table, "os_version");
    let digest = text(table, "digest").or_else(|| {
        let (_, digest) = url.value.split_once('@')?;
        Some(Located::new(digest.to_string(), url.place.clone()))
    });
    let proof = match digest {
        Some(digest) => {
            let parsed = digest.value.trim().parse().ok()?;
            Located::new(AskedProof::Digest(parsed), digest.place)
        }
        None => Located::new(AskedProof::Unverified, url.place.clone()),
    };
    Some(Ask {
        id,
        place: entry.key_place.clone(),
        rules: None,
        keys: Vec::new(),
        has_query: false,
        digest: Digest::of_json(&Whole {
            format: FORMAT,
            version: version.as_ref().map(|v| v.value.as_str()),
            url: &url.value,
            proof: &proof.value,
            checksum_url: None,
            rules: &[],
        }),
        version,
        url,
        proof,
    })
}

fn text(table: &Table, key: &str) -> Option<Located<String>> {
    let value = table.get(key)?;
    let text = value.as_str().or(value.loose.as_deref())?;
    Some(Located::new(text.to_string(), value.place.clone()))
}

/// The keys of a signature's table that hold addresses.
const ADDRESSES: [&str; 4] = ["url", "certificate", "catalog", "crls"];

/// A signature's table. Its addresses are signed for each download like those of files.
fn rule_json(rule: &Value) -> Json {
    let mut json = to_json(rule);
    strip_credentials(&mut json, false);
    json
}

fn strip_credentials(json: &mut Json, is_address: bool) {
    match json {
        Json::String(text) if is_address => *text = query::without_credentials(text),
        Json::Array(items) => items
            .iter_mut()
            .for_each(|item| strip_credentials(item, is_address)),
        Json::Object(table) => table
            .iter_mut()
            .for_each(|(key, value)| strip_credentials(value, ADDRESSES.contains(&key.as_str()))),
        _ => {}
    }
}

/// A URL without credentials; of a local file its name. The same file stands in another folder on another machine, and its digest
/// says whether it is the same.
fn identity(url: &str) -> String {
    let url = url.trim();
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some(scheme) if !scheme.eq_ignore_ascii_case("file") => query::without_credentials(url),
        _ => url.rsplit(['/', '\\']).next().unwrap_or(url).to_string(),
    }
}

/// As it may stand in a file that is shared.
fn shown(url: &str) -> String {
    let shown = redact(&identity(url));
    shown.trim_end_matches("?…").to_string()
}
