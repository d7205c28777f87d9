//! `policy = "signed"`, and `[unsigned]`: its exceptions, for components and the driver medium,
//! that only need a digest.
//!
//! Refuses lines for anything else, and lines without the policy.

use std::collections::BTreeMap;

use crate::InputId;
use crate::document::value::{TomlData, TomlEntry, TomlValue};
use crate::fields::TableReader;
use winimg_base::diag::find_nearest;
use winimg_base::text::Located;

/// Returns the exceptions with their reasons, if the policy is set.
pub fn read_unsigned(top: &TableReader<'_>) -> Option<BTreeMap<String, Located<String>>> {
    let is_policy = top.is("policy", "signed");
    let lines = top.map("unsigned");
    if let (false, Some(first)) = (is_policy, lines.first()) {
        let fact = "`[unsigned]` has no effect without a policy";
        let help = "it needs `policy = \"signed\"` at the top of the recipe";
        top.cx.error(fact, &first.key_place, "", help);
    }
    let components = top.table.get("components").and_then(TomlValue::as_table);
    let mut known: Vec<&str> = components
        .into_iter()
        .flat_map(|table| &table.entries)
        .map(|entry| entry.key.as_str())
        .collect();
    let media = top.table.get("media").and_then(TomlValue::as_table);
    let virtio = InputId::Virtio.to_string();
    if media.is_some_and(|media| media.contains("virtio")) {
        known.push(&virtio);
    }
    let named = lines
        .iter()
        .filter_map(|line| read_reason(top, line, &known))
        .collect();
    is_policy.then_some(named)
}

fn read_reason(
    top: &TableReader<'_>,
    line: &TomlEntry,
    known: &[&str],
) -> Option<(String, Located<String>)> {
    if !known.contains(&line.key.as_str()) && !top.cx.incomplete {
        let fact = format!("`[unsigned]` has `{}`, which is not a component", line.key);
        let help = match find_nearest(&line.key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "use a name of `[components.NAME]`, or \"media.virtio\"; the installation \
                     medium always has a digest"
                .into(),
        };
        top.cx.error(fact, &line.key_place, "", &help);
    }
    let place = &line.value.place;
    match &line.value.data {
        TomlData::String(reason) if !reason.trim().is_empty() => {
            return Some((
                line.key.clone(),
                Located::new(reason.clone(), place.clone()),
            ));
        }
        TomlData::Unknown => {}
        _ => {
            let help = "write why it has no signature: \
                        `crictl = \"its publisher does not sign\"`";
            top.cx
                .error("an entry of `[unsigned]` needs a reason", place, "", help);
        }
    }
    None
}
