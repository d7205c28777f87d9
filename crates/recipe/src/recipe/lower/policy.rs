//! `policy = "signed"`, and `[unsigned]`: the components, and the medium of drivers, that it lets pass by digest.
//!
//! Refuses a line for what is neither, and lines that no policy reads.

use std::collections::BTreeMap;

use crate::recipe::InputId;
use crate::recipe::fields::Fields;
use crate::recipe::value::{Data, Entry, Value};
use winimg_base::diag::nearest;
use winimg_base::text::Located;

/// Where the policy is that all are signed: what `[unsigned]` names, with the reasons.
pub fn unsigned(top: &Fields<'_>) -> Option<BTreeMap<String, Located<String>>> {
    let is_policy = top.is("policy", "signed");
    let lines = top.map("unsigned");
    if let (false, Some(first)) = (is_policy, lines.first()) {
        let fact = "`[unsigned]` says what no policy asks for";
        let help = "it belongs to `policy = \"signed\"`, at the top of the recipe";
        top.cx.error(fact, &first.key_place, "", help);
    }
    let components = top.table.get("components").and_then(Value::as_table);
    let components = components.into_iter().flat_map(|table| &table.entries);
    let mut known: Vec<&str> = components.map(|entry| entry.key.as_str()).collect();
    let media = top.table.get("media").and_then(Value::as_table);
    let virtio = InputId::Virtio.to_string();
    if media.is_some_and(|media| media.contains("virtio")) {
        known.push(&virtio);
    }
    let named = lines.iter().filter_map(|line| reason(top, line, &known));
    let named = named.collect();
    is_policy.then_some(named)
}

fn reason(top: &Fields<'_>, line: &Entry, known: &[&str]) -> Option<(String, Located<String>)> {
    if !known.contains(&line.key.as_str()) && !top.cx.incomplete {
        let fact = format!("`[unsigned]` names `{}`, which is no component", line.key);
        let help = match nearest(&line.key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "a name as under `[components.NAME]`, or \"media.virtio\"; the install medium is proved by its digest".into(),
        };
        top.cx.error(fact, &line.key_place, "", &help);
    }
    let place = &line.value.place;
    match &line.value.data {
        Data::String(reason) if !reason.trim().is_empty() => {
            return Some((
                line.key.clone(),
                Located::new(reason.clone(), place.clone()),
            ));
        }
        Data::Unknown => {}
        _ => {
            let help = "say in a few words why it has no signature: `crictl = \"its publisher signs nothing\"`";
            top.cx
                .error("a line of `[unsigned]` is a reason", place, "", help);
        }
    }
    None
}
