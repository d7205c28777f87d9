//! `[trust]`: checks the rules themselves. `recipe::trust` has applied them to the downloads
//! before.

use crate::document::value::{TomlData, TomlEntry, TomlTable};
use crate::fields::TableReader;
use crate::model::prefix::web_prefix;
use winimg_base::diag::Diagnostic;

/// Complains about rules that cannot be read, and warns about unused ones.
pub fn judge(top: &TableReader<'_>) {
    for entry in top.map("trust") {
        let place = &entry.value.place;
        if let Err((fact, help)) = web_prefix(&entry.key) {
            top.cx.error(fact, &entry.key_place, "", help);
        } else if matches!(entry.value.data, TomlData::Table(_) | TomlData::Array(_))
            && !is_used(top.table, entry)
        {
            let fact = "no download uses this rule";
            top.cx
                .report(Diagnostic::warning(fact).at(&entry.key_place, ""));
        }
        if !matches!(
            entry.value.data,
            TomlData::Table(_) | TomlData::Array(_) | TomlData::Unknown
        ) {
            let fact = format!(
                "a rule is a signature's table, not {}",
                entry.value.kind_name()
            );
            let help = "write { kind = … } as under `signature` of a component";
            top.cx.error(fact, place, "", help);
        }
    }
}

/// Returns true if the rule became the signature of a download.
fn is_used(tree: &TomlTable, rule: &TomlEntry) -> bool {
    ["media", "components"]
        .into_iter()
        .filter_map(|key| tree.get(key)?.as_table())
        .flat_map(|table| &table.entries)
        .filter_map(|entry| entry.value.as_table()?.find_entry("signature"))
        .any(|signature| signature.key_place == rule.key_place)
}
