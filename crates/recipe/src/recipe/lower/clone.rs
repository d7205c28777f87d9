//! `[[clone]]`: what must hold on a clone, for whom, and its one claim.

use super::{account, firewall, registry, security, step, system, target};
use crate::recipe::fields::Fields;
use crate::recipe::value::{Entry, Value};
use crate::recipe::verb::UserState;
use crate::recipe::{Claim, CloneCheck, keys, undecided};
use winimg_base::text::Place;

/// The check, if nothing is wrong with it.
pub fn check(top: &Fields<'_>, item: &Value) -> Option<CloneCheck> {
    let cx = top.cx;
    let fields = Fields::open(cx, item, "clone")?;
    let why = fields.text("why");
    let targets = targets(&fields, &top.place);
    let skipped = step::when_known(&fields);
    let needed = undecided::within(item);
    let claim = match needed.is_empty() {
        true => one_claim(&fields),
        false => {
            let is_looked_at = skipped == Some(None);
            let mut variables = Vec::new();
            for (variable, place) in needed {
                variables.push(variable.name.clone());
                if is_looked_at {
                    cx.undecided(None, variable, &place);
                }
            }
            Some(Claim::Undecided { variables })
        }
    };
    let check = CloneCheck {
        place: item.place.clone(),
        why: why?,
        targets: targets?,
        skipped: skipped?,
        claim: claim?,
    };
    fields.is_whole().then_some(check)
}

/// The names of targets that there are.
fn targets(fields: &Fields<'_>, recipe: &Place) -> Option<Vec<String>> {
    if !fields.has("targets") {
        return Some(Vec::new());
    }
    let written = fields.strings("targets");
    let aims = target::all_named(fields.cx, &written, recipe);
    let names = aims.into_iter().map(|aim| aim.target.name);
    let names: Vec<String> = names.collect();
    (!names.is_empty() && names.len() == written.len()).then_some(names)
}

/// Every claim is read, so that all complaints come at once.
fn one_claim(fields: &Fields<'_>) -> Option<Claim> {
    let kinds: Vec<&str> = keys::of("clone").alternatives().collect();
    let entries = &fields.table.entries;
    let is_claim = |e: &&Entry| kinds.contains(&&*e.key);
    let given: Vec<&Entry> = entries.iter().filter(is_claim).collect();
    let read = given.iter().map(|entry| claim(fields, &entry.key));
    let read: Vec<Option<Claim>> = read.collect();
    match given.as_slice() {
        [] if entries.iter().all(|e| fields.knows(&e.key)) => {
            let help = format!("give one of {}", kinds.join(", "));
            let fact = "a clone check checks nothing";
            fields.cx.missing(fact, &fields.place, &help);
        }
        [] | [_] => {}
        [_, second, ..] => {
            let names: Vec<&str> = given.iter().map(|e| e.key.as_str()).collect();
            let fact = format!("a clone check checks several things: {}", names.join(", "));
            let help = "make a `[[clone]]` of each";
            fields.cx.error(fact, &second.key_place, "", help);
        }
    }
    match given.len() {
        1 => read.into_iter().next().flatten(),
        _ => None,
    }
}

fn claim(fields: &Fields<'_>, key: &str) -> Option<Claim> {
    let value = fields.get(key)?;
    match key {
        "exists" => fields.guest_path(key).map(|path| Claim::Exists(path.value)),
        "missing" => fields
            .guest_path(key)
            .map(|path| Claim::Missing(path.value)),
        "registry" => {
            let (key, value, data) = registry::value(fields.cx, value)?;
            Some(Claim::Registry { key, value, data })
        }
        "service" => service(&fields.table(key)?),
        "firewall" => firewall::rule(fields.cx, value).map(Claim::Firewall),
        "user" => user(&fields.table(key)?),
        "group" => group(&fields.table(key)?),
        _ => None,
    }
}

fn service(fields: &Fields<'_>) -> Option<Claim> {
    let name = system::service_name(fields);
    let start = fields.choice("start");
    let present = fields.is("state", "present");
    let may_fail = fields.flag("may_fail");
    if !present {
        security::nothing_else(fields, "a service");
    }
    let claim = Claim::Service {
        name: name?.value,
        start: start.map(|start| start.value),
        present,
        may_fail,
    };
    fields.is_whole().then_some(claim)
}

fn user(fields: &Fields<'_>) -> Option<Claim> {
    let name = account::user_name(fields);
    let state = fields.choice("state");
    let claim = Claim::User {
        name: name?.value,
        state: state.map_or(UserState::Present, |state| state.value),
    };
    fields.is_whole().then_some(claim)
}

fn group(fields: &Fields<'_>) -> Option<Claim> {
    let name = account::group_name(fields);
    let members = account::names(fields, "members");
    let present = fields.is("state", "present");
    if !present {
        security::nothing_else(fields, "a group");
    }
    let claim = Claim::Group {
        name: name?.value,
        present,
        members: members.into_iter().map(|name| name.value).collect(),
    };
    fields.is_whole().then_some(claim)
}
