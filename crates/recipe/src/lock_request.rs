//! Lock requests: the version, URL, proof and signatures that a recipe requires of each input, as
//! `recipe.lock` records them.
//!
//! Reads only the tree after variable substitution, so that two machines agree about one recipe.
//! Reports no problems: `lower` has done that.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::document::merge::{PROOFS, SIGNATURES};
use crate::document::value::{TomlData, TomlEntry, TomlTable, TomlValue};
use crate::effective::to_json;
use crate::query;
use crate::{InputId, KeyFile, ProofSpec, Recipe, RecipeInput};
use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place, redact};

/// The recipe's requirements for one input, after variable substitution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    pub id: InputId,
    /// The table of the input.
    pub place: Place,
    /// For a container image, the required Windows build.
    pub version: Option<Located<String>>,
    /// Without its query; for a local file only its name, because its folder differs per machine.
    pub url: Located<String>,
    pub proof: Located<RequestedProof>,
    /// Digest of its signature tables.
    pub rules: Option<Located<Digest>>,
    /// The key and root files used to check its signatures, in the recipe's order.
    pub keys: Vec<KeyFile>,
    /// Digest of everything but the key files, including the query parameters that identify an
    /// input.
    pub digest: Digest,
    /// True if a query is part of [`Ask::digest`].
    pub has_query: bool,
}

/// The kind of proof that the recipe requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RequestedProof {
    Digest(Digest),
    ChecksumFile {
        /// Same form as [`Ask::url`].
        url: String,
        /// Name in the checksum file, if the recipe gives one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<String>,
    },
    /// Only signatures.
    Signed,
    Unverified,
    /// No proof yet, or one given by a variable without a value. Never in a lock.
    Undecided,
}

impl fmt::Display for RequestedProof {
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

/// Input of [`Ask::digest`].
#[derive(Serialize)]
struct LockRequestIdentity<'a> {
    format: u32,
    version: Option<&'a str>,
    /// Includes the query parameters that identify an input.
    url: &'a str,
    proof: &'a RequestedProof,
    /// Same form as `url`.
    checksum_url: Option<&'a str>,
    rules: &'a [(&'a str, Json)],
}

/// Version of [`Whole`]. Digests in locks of schema 1 had none.
const FORMAT: u32 = 2;

/// Returns one request per input, in the order of the inputs.
pub fn list(recipe: &Recipe, tree: &TomlTable) -> Vec<LockRequest> {
    let tables: InputTables<'_> = tree
        .entries
        .iter()
        .filter_map(|entry| Some((entry.key.as_str(), entry.value.as_table()?.by_key())))
        .collect();
    recipe
        .inputs()
        .filter_map(|input| request(input, &tables))
        .collect()
}

/// The entries of each table of inputs.
type InputTables<'a> = HashMap<&'a str, HashMap<&'a str, &'a TomlEntry>>;

fn request(input: RecipeInput<'_>, tables: &InputTables<'_>) -> Option<LockRequest> {
    let keys = collect_key_files(&input);
    let is_undecided = is_undecided(&input);
    let id = input.id;
    let [outer, inner] = id.table_path();
    let entry = *tables.get(outer)?.get(inner)?;
    let mut ask = match &id {
        InputId::Image(_) => request_image(id, entry),
        _ => download(id, entry),
    }?;
    ask.keys = keys;
    if is_undecided {
        ask.proof.value = RequestedProof::Undecided;
    }
    Some(ask)
}

fn is_undecided(input: &RecipeInput<'_>) -> bool {
    let origin = input.origin();
    origin.is_some_and(|origin| matches!(origin.proof, ProofSpec::Undecided(_)))
}

/// Returns the key files of an input's signatures and of those of its checksum file.
fn collect_key_files(input: &RecipeInput<'_>) -> Vec<KeyFile> {
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

fn download(id: InputId, entry: &TomlEntry) -> Option<LockRequest> {
    let table = entry.value.as_table()?;
    let url = read_text(table, "url")?;
    let version = read_text(table, "version");
    let proof = download_proof(table, &url.place)?;
    // A digest identifies the bytes, wherever they come from.
    let identity_of_url = match proof.value {
        RequestedProof::Digest(_) => query::without_query(&strip_location(&url.value)),
        _ => strip_location(&url.value),
    };
    let checksum_url = read_text(table, "checksum_url").map(|url| strip_location(&url.value));
    let rules: Vec<(&str, Json)> = SIGNATURES
        .iter()
        .filter_map(|key| Some((*key, rule_json(table.get(key)?))))
        .collect();
    let first = SIGNATURES.iter().find_map(|key| table.get(key));
    let mut urls = std::iter::once(&identity_of_url).chain(&checksum_url);
    Some(LockRequest {
        has_query: urls.any(|url| url.contains('?')),
        keys: Vec::new(),
        id,
        place: entry.key_place.clone(),
        rules: first.map(|rule| Located::new(Digest::of_json(&rules), rule.place.clone())),
        digest: Digest::of_json(&LockRequestIdentity {
            format: FORMAT,
            version: version.as_ref().map(|v| v.value.as_str()),
            url: &identity_of_url,
            proof: &proof.value,
            checksum_url: checksum_url.as_deref(),
            rules: &rules,
        }),
        version,
        url: url.map(|u| render_shared_url(&u)),
        proof,
    })
}

fn download_proof(table: &TomlTable, otherwise: &Place) -> Option<Located<RequestedProof>> {
    let Some(&key) = PROOFS.iter().find(|key| table.contains(key)) else {
        return Some(Located::new(RequestedProof::Signed, otherwise.clone()));
    };
    let value = table.get(key)?;
    if matches!(value.data, TomlData::Undecided(_)) {
        return Some(Located::new(RequestedProof::Undecided, value.place.clone()));
    }
    let said = read_text(table, key)?;
    let proof = match key {
        "checksum_url" => RequestedProof::ChecksumFile {
            url: render_shared_url(&said.value),
            entry: read_text(table, "checksum_entry").map(|entry| entry.value),
        },
        "unverified" => RequestedProof::Unverified,
        _ => RequestedProof::Digest(said.value.trim().parse().ok()?),
    };
    Some(Located::new(proof, said.place))
}

fn request_image(id: InputId, entry: &TomlEntry) -> Option<LockRequest> {
    let table = entry.value.as_table()?;
    let url = read_text(table, "reference")?;
    let version = read_text(table, "os_version");
    let digest = read_text(table, "digest").or_else(|| {
        let (_, digest) = url.value.split_once('@')?;
        Some(Located::new(digest.to_string(), url.place.clone()))
    });
    let proof = match digest {
        Some(digest) => {
            let parsed = digest.value.trim().parse().ok()?;
            Located::new(RequestedProof::Digest(parsed), digest.place)
        }
        None => Located::new(RequestedProof::Unverified, url.place.clone()),
    };
    Some(LockRequest {
        id,
        place: entry.key_place.clone(),
        rules: None,
        keys: Vec::new(),
        has_query: false,
        digest: Digest::of_json(&LockRequestIdentity {
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

fn read_text(table: &TomlTable, key: &str) -> Option<Located<String>> {
    let value = table.get(key)?;
    let text = value.as_str().or(value.loose.as_deref())?;
    Some(Located::new(text.to_string(), value.place.clone()))
}

/// The keys of a signature's table whose values are addresses.
const ADDRESSES: [&str; 4] = ["url", "certificate", "catalog", "crls"];

/// Converts a signature's table. Its addresses may be presigned per download, like those of files.
fn rule_json(rule: &TomlValue) -> Json {
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

/// Returns a URL without credentials, or the name of a local file: its folder differs per machine,
/// and its digest shows if it is the same file.
fn strip_location(url: &str) -> String {
    let url = url.trim();
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some(scheme) if !scheme.eq_ignore_ascii_case("file") => query::without_credentials(url),
        _ => url.rsplit(['/', '\\']).next().unwrap_or(url).to_string(),
    }
}

/// Renders a URL for a file that is shared.
fn render_shared_url(url: &str) -> String {
    let shown = redact(&strip_location(url));
    shown.trim_end_matches("?…").to_string()
}
