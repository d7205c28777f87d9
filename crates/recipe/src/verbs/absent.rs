//! Verbs about things that may be absent.

use crate::fields::TableReader;

/// Complains about the first key besides `name` and `state` of something absent.
pub fn nothing_else(fields: &TableReader<'_>, what: &str) {
    let other = fields
        .table
        .entries
        .iter()
        .find(|entry| !["name", "state"].contains(&&*entry.key) && fields.has_row(&entry.key));
    if let Some(entry) = other {
        let fact = format!("{what} that is absent cannot have `{}`", entry.key);
        let help = "keep only `name` and `state`, or remove `state`";
        fields.cx.error(fact, &entry.key_place, "", help);
    }
}
