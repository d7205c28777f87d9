//! `[[clone]]`: an assertion about a clone, and the targets it applies to.

use super::{step, target};
use crate::document::value::{TomlEntry, TomlValue};
use crate::fields::TableReader;
use crate::verbs::{UserState, absent, account, firewall, registry, service};
use crate::{CloneCheckSpec, CloneClaim, keys, undecided};
use winimg_base::text::Place;

/// Reads a clone check; `None` if it has an error.
pub fn check(top: &TableReader<'_>, item: &TomlValue) -> Option<CloneCheckSpec> {
    let cx = top.cx;
    let fields = TableReader::open(cx, item, "clone")?;
    let why = fields.read_text("why");
    let targets = read_targets(&fields, &top.place);
    let skipped = step::when_known(&fields);
    let needed = undecided::find_undecided(item);
    let claim = if needed.is_empty() {
        one_claim(&fields)
    } else {
        let is_active = matches!(skipped, Ok(None));
        let mut variables = Vec::new();
        for (variable, place) in needed {
            variables.push(variable.name.clone());
            if is_active {
                cx.record_undecided(None, variable, &place);
            }
        }
        Some(CloneClaim::Undecided { variables })
    };
    let check = CloneCheckSpec {
        place: item.place.clone(),
        why: why?,
        targets: targets?,
        skipped: skipped.ok()?,
        claim: claim?,
    };
    fields.is_whole().then_some(check)
}

/// Reads the names of targets; `None` if one of them does not exist.
fn read_targets(fields: &TableReader<'_>, recipe: &Place) -> Option<Vec<String>> {
    if !fields.has("targets") {
        return Some(Vec::new());
    }
    let written = fields.read_strings("targets");
    let names: Vec<String> = target::all_named(fields.cx, &written, recipe)
        .into_iter()
        .map(|aim| aim.target.name)
        .collect();
    (!names.is_empty() && names.len() == written.len()).then_some(names)
}

/// Reads every claim, so that all problems are reported at once.
fn one_claim(fields: &TableReader<'_>) -> Option<CloneClaim> {
    let kinds: Vec<&str> = keys::find_table("clone").alternatives().collect();
    let entries = &fields.table.entries;
    let given: Vec<&TomlEntry> = entries
        .iter()
        .filter(|entry| kinds.contains(&&*entry.key))
        .collect();
    let read: Vec<Option<CloneClaim>> = given
        .iter()
        .map(|entry| read_claim(fields, &entry.key))
        .collect();
    match given.as_slice() {
        [] if entries.iter().all(|e| fields.has_row(&e.key)) => {
            let help = format!("add one of {}", kinds.join(", "));
            let fact = "the clone check has no assertion";
            fields.cx.report_missing(fact, &fields.place, &help);
        }
        [] | [_] => {}
        [_, second, ..] => {
            let names: Vec<&str> = given.iter().map(|e| e.key.as_str()).collect();
            let fact = format!(
                "the clone check has several assertions: {}",
                names.join(", ")
            );
            let help = "write a `[[clone]]` for each";
            fields.cx.error(fact, &second.key_place, "", help);
        }
    }
    match given.len() {
        1 => read.into_iter().next().flatten(),
        _ => None,
    }
}

fn read_claim(fields: &TableReader<'_>, key: &str) -> Option<CloneClaim> {
    let value = fields.get(key)?;
    match key {
        "exists" => fields
            .guest_path(key)
            .map(|path| CloneClaim::Exists(path.value)),
        "missing" => fields
            .guest_path(key)
            .map(|path| CloneClaim::Missing(path.value)),
        "registry" => registry::read(fields.cx, value).map(CloneClaim::Registry),
        "service" => read_service_claim(&fields.read_table(key)?),
        "firewall" => firewall::read(fields.cx, value).map(CloneClaim::Firewall),
        "user" => read_user_claim(&fields.read_table(key)?),
        "group" => group(&fields.read_table(key)?),
        _ => None,
    }
}

fn read_service_claim(fields: &TableReader<'_>) -> Option<CloneClaim> {
    let name = service::service_name(fields);
    let start = fields.read_choice("start");
    let present = fields.is("state", "present");
    let may_fail = fields.flag("may_fail");
    if !present {
        absent::nothing_else(fields, "a service");
    }
    let claim = CloneClaim::Service {
        name: name?.value,
        start: start.map(|start| start.value),
        present,
        may_fail,
    };
    fields.is_whole().then_some(claim)
}

fn read_user_claim(fields: &TableReader<'_>) -> Option<CloneClaim> {
    let name = account::user_name(fields);
    let state = fields.read_choice("state");
    let claim = CloneClaim::User {
        name: name?.value,
        state: state.map_or(UserState::Present, |state| state.value),
    };
    fields.is_whole().then_some(claim)
}

fn group(fields: &TableReader<'_>) -> Option<CloneClaim> {
    let name = account::group_name(fields);
    let members = account::read_account_names(fields, "members");
    let present = fields.is("state", "present");
    if !present {
        absent::nothing_else(fields, "a group");
    }
    let claim = CloneClaim::Group {
        name: name?.value,
        present,
        members: members.into_iter().map(|name| name.value).collect(),
    };
    fields.is_whole().then_some(claim)
}
