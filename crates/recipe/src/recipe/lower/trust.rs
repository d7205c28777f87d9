//! `[trust]`: what is wrong with its rules themselves. They were laid into the downloads before, by `recipe::trust`.

use crate::recipe::fields::Fields;
use crate::recipe::prefix::web_prefix;
use crate::recipe::value::{Data, Entry, Table};
use winimg_base::diag::Diagnostic;

/// Complains about rules that cannot be read, and warns of those that are for no download.
pub fn judge(top: &Fields<'_>) {
    for entry in top.map("trust") {
        let place = &entry.value.place;
        if let Err((fact, help)) = web_prefix(&entry.key) {
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
