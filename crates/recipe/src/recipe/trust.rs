//! `[trust]`: the signature that downloads below an address have to have, unless they say so themselves.
//!
//! One rule a prefix; the longest prefix wins. A rule becomes the `signature` of each download that it is for, before variables are
//! filled in, so that all that is said about signatures holds for it: complaints, locks, `policy = "signed"`.

use url::Url;

use super::fields::Fields;
use super::mirrors;
use super::value::{Data, Entry, Table, Value};
use winimg_base::diag::Diagnostic;

/// Those that say who signed a download.
const OWN: [&str; 2] = ["signature", "checksum_signature"];

/// The rules whose prefixes can be read.
pub struct Rules(Vec<(Url, Entry)>);

impl Rules {
    pub fn of(tree: &Table) -> Self {
        let table = tree.get("trust").and_then(Value::as_table);
        let entries = table.into_iter().flat_map(|table| &table.entries);
        let read = entries
            .filter_map(|entry| Some((mirrors::web_prefix(&entry.key).ok()?, entry.clone())));
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

/// Complains about rules that cannot be read, and warns of those that are for no download.
pub fn judge(top: &Fields<'_>) {
    for entry in top.map("trust") {
        let place = &entry.value.place;
        if let Err((fact, help)) = mirrors::web_prefix(&entry.key) {
            top.cx.error(fact, &entry.key_place, "", help);
        } else if matches!(entry.value.data, Data::Table(_) | Data::Array(_))
            && !is_used(top.table, entry)
        {
            let fact = "no download without a signature of its own begins like this";
            top.cx
                .problem(Diagnostic::warning(fact).at(&entry.key_place, ""));
        }
        if !matches!(
            entry.value.data,
            Data::Table(_) | Data::Array(_) | Data::Unknown
        ) {
            let fact = format!("a rule is a signature's table, not {}", entry.value.kind());
            let help = "write { kind = … } as under `signature` of a component";
            top.cx.error(fact, place, "", help);
        }
    }
}

/// Whether it became the signature of a download.
fn is_used(tree: &Table, rule: &Entry) -> bool {
    let tables = ["media", "components"].into_iter();
    let tables = tables.filter_map(|key| tree.get(key)?.as_table());
    let mut downloads = tables
        .flat_map(|table| &table.entries)
        .filter_map(|entry| entry.value.as_table());
    downloads.any(|download| {
        let signature = download.entry("signature");
        signature.is_some_and(|signature| signature.key_place == rule.key_place)
    })
}
