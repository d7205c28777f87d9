//! `[trust]`: the required signature of downloads below an address, unless they set their own.
//!
//! One rule per prefix; the longest prefix wins. A rule becomes the `signature` of each matching
//! download before variable substitution, so diagnostics, locks and `policy = "signed"` treat it
//! like any other signature.

use url::Url;

use crate::document::merge::SIGNATURES;
use crate::document::value::{TomlEntry, TomlTable, TomlValue};
use crate::model::prefix::web_prefix;

/// The rules with valid prefixes.
pub struct TrustRules(Vec<(Url, TomlEntry)>);

impl TrustRules {
    pub fn from_tree(tree: &TomlTable) -> Self {
        let rules = tree
            .get("trust")
            .and_then(TomlValue::as_table)
            .into_iter()
            .flat_map(|table| &table.entries)
            .filter_map(|entry| Some((web_prefix(&entry.key).ok()?, entry.clone())))
            .collect();
        Self(rules)
    }

    /// Adds the signature of the longest matching rule to a download with this URL, unless it has
    /// its own.
    pub fn apply(&self, download: &mut TomlTable, url: &str) {
        if SIGNATURES.iter().any(|key| download.contains(key)) {
            return;
        }
        let Ok(mut url) = Url::parse(url.trim()) else {
            return;
        };
        url.set_query(None);
        url.set_fragment(None);
        let all = self
            .0
            .iter()
            .filter(|(prefix, _)| url.as_str().starts_with(prefix.as_str()));
        let Some((_, rule)) = all.max_by_key(|(prefix, _)| prefix.as_str().len()) else {
            return;
        };
        download.entries.push(TomlEntry {
            key: "signature".into(),
            ..rule.clone()
        });
    }
}
