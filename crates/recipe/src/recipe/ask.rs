//! What a recipe asks of each input, for `recipe.lock`: version, URL, proof and signatures, as they were written.
//!
//! Reads the tree after variables and nothing else, so that two machines say the same of one recipe. Complains about
//! nothing: `lower` has done that.

use serde_json::{Value as Json, json};

use super::effective::to_json;
use super::merge::PROOFS;
use super::value::{Data, Entry, Table, Value};
use super::{Ask, InputId, Recipe};
use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place, redact};

/// The keys that say who must have signed.
const RULES: [&str; 2] = ["signature", "checksum_signature"];

/// One for each input, in their order.
pub fn list(recipe: &Recipe, tree: &Table) -> Vec<Ask> {
    let asked = |id: InputId| {
        let [outer, inner] = id.table();
        let entry = tree.get(outer)?.as_table()?.entry(inner)?;
        match &id {
            InputId::Image(_) => image(id, entry),
            _ => download(id, entry),
        }
    };
    recipe.inputs().filter_map(|i| asked(i.id)).collect()
}

fn download(id: InputId, entry: &Entry) -> Option<Ask> {
    let table = entry.value.as_table()?;
    let url = text(table, "url")?;
    let version = text(table, "version");
    let (proof, place) = match PROOFS.iter().find(|p| table.contains(p)) {
        Some(&key) if matches!(table.get(key)?.data, Data::Undecided(_)) => {
            ("undecided".to_string(), table.get(key)?.place.clone())
        }
        Some(&key) => {
            let said = text(table, key)?;
            let words = match key {
                "checksum_url" => checksum(table, &shown(&said.value)),
                "unverified" => "unverified".to_string(),
                algorithm => format!("{algorithm}:{}", bare(&said.value)),
            };
            (words, said.place)
        }
        None => ("signed".to_string(), url.place.clone()),
    };
    let rules: Vec<(&str, &Value)> = RULES
        .iter()
        .filter_map(|key| Some((*key, table.get(key)?)))
        .collect();
    let rules_json: Vec<Json> = rules
        .iter()
        .map(|(key, value)| json!([key, to_json(value)]))
        .collect();
    let checksum_url = text(table, "checksum_url").map(|t| identity(&t.value));
    let whole = json!([
        version.as_ref().map(|v| &v.value),
        identity(&url.value),
        proof,
        checksum_url,
        rules_json
    ]);
    Some(Ask {
        id,
        place: entry.key_place.clone(),
        version,
        url: url.map(|u| shown(&u)),
        proof: Located::new(proof, place),
        rules: rules.first().map(|(_, value)| {
            let digest = Digest::sha256_of(Json::from(rules_json).to_string().as_bytes());
            Located::new(digest, value.place.clone())
        }),
        whole: Digest::sha256_of(whole.to_string().as_bytes()),
    })
}

fn checksum(table: &Table, url: &str) -> String {
    match text(table, "checksum_entry") {
        Some(entry) => format!("checksum file {url}, line `{}`", entry.value),
        None => format!("checksum file {url}"),
    }
}

fn image(id: InputId, entry: &Entry) -> Option<Ask> {
    let table = entry.value.as_table()?;
    let url = text(table, "reference")?;
    let version = text(table, "os_version");
    let (proof, place) = match text(table, "digest") {
        Some(digest) => (digest.value.to_lowercase(), digest.place),
        None => match url.value.split_once('@') {
            Some((_, digest)) => (digest.to_lowercase(), url.place.clone()),
            None => ("unverified".to_string(), url.place.clone()),
        },
    };
    let whole = json!([version.as_ref().map(|v| &v.value), url.value, proof]);
    Some(Ask {
        id,
        place: entry.key_place.clone(),
        version,
        url,
        proof: Located::new(proof, place),
        rules: None,
        whole: Digest::sha256_of(whole.to_string().as_bytes()),
    })
}

fn text(table: &Table, key: &str) -> Option<Located<String>> {
    let value = table.get(key)?;
    let text = value.as_str().or(value.loose.as_deref())?;
    let place: &Place = &value.place;
    Some(Located::new(text.to_string(), place.clone()))
}

/// A digest without the name of its algorithm, in lower case.
fn bare(digest: &str) -> String {
    let digest = digest.trim();
    let hex = digest.split_once(':').map_or(digest, |(_, hex)| hex);
    hex.to_lowercase()
}

/// A URL whole; of a local file its name. The same file stands in another folder on another machine, and its digest
/// says whether it is the same.
fn identity(url: &str) -> String {
    let url = url.trim();
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some(scheme) if !scheme.eq_ignore_ascii_case("file") => url.to_string(),
        _ => url.rsplit(['/', '\\']).next().unwrap_or(url).to_string(),
    }
}

/// As it may stand in a file that is shared.
fn shown(url: &str) -> String {
    let shown = redact(&identity(url));
    shown.trim_end_matches("?…").to_string()
}
