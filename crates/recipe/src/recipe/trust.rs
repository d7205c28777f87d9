//! `[trust]`: the signature that downloads below an address have to have, unless they say so themselves.
//!
//! One rule a prefix; the longest prefix wins. A rule becomes the `signature` of each download that it is for, before variables are
//! filled in, so that all that is said about signatures holds for it: complaints, locks, `policy = "signed"`.

use url::Url;

use super::prefix::web_prefix;
use super::value::{Entry, Table, Value};

/// Those that say who signed a download.
const OWN: [&str; 2] = ["signature", "checksum_signature"];

/// The rules whose prefixes can be read.
pub struct Rules(Vec<(Url, Entry)>);

impl Rules {
    pub fn of(tree: &Table) -> Self {
        let table = tree.get("trust").and_then(Value::as_table);
        let entries = table.into_iter().flat_map(|table| &table.entries);
        let read = entries.filter_map(|entry| Some((web_prefix(&entry.key).ok()?, entry.clone())));
        Self(read.collect())
    }

    /// Gives a download with this URL the signature of the longest rule, if it says nothing of its own.
    pub fn lay(&self, download: &mut Table, url: &str) {
        if OWN.iter().any(|key| download.contains(key)) {
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
        download.entries.push(Entry {
            key: "signature".into(),
            ..rule.clone()
        });
    }
}
