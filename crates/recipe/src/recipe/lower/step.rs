//! `[[steps]]`: the name, whether it runs, how long it may take, and its one verb.

use super::known::Known;
use super::{
    account, execution, files, firewall, image, registry, schedule, security, system, update,
    windows,
};
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::{Data, Entry, Value};
use crate::recipe::{Step, Verb, keys, undecided};
use winimg_base::diag::{Diagnostic, nearest};
use winimg_base::text::{Located, Place};

/// A step and where it goes.
pub struct Placed {
    pub step: Step,
    /// After all others, right before the seal.
    pub before_seal: bool,
}

/// The name, if it has one, and the step, if nothing is wrong with it.
pub fn step(
    cx: &Context<'_>,
    item: &Value,
    known: Known<'_>,
) -> (Option<Located<String>>, Option<Placed>) {
    let Some(mut fields) = Fields::unchecked(cx, item, "step", "a step".into()) else {
        return (None, None);
    };
    fields.ask();
    let name = fields.string("name");
    if let Some(name) = &name {
        fields.what = format!("step `{}`", name.value);
    }
    if let Some(step) = undecided(&fields, item, name.as_ref()) {
        let before_seal = fields.flag("before_seal");
        return (name, step.map(|step| Placed { step, before_seal }));
    }
    let skipped = when(&fields, "when");
    let timeout = fields.duration("timeout");
    let before_seal = fields.flag("before_seal");
    cx.is_skipped
        .set(skipped.as_ref().is_some_and(Option::is_some));
    let verbs = keys::verbs();
    let empty = fields
        .first(&verbs)
        .filter(|entry| cx.is_skipped.get() && is_emptied(&entry.value));
    let verb = match empty.and_then(|entry| verbs.iter().find(|verb| **verb == entry.key)) {
        // A slot of a pack that nobody filled: the step is for its variable.
        Some(verb) => Some(Verb::Undecided {
            verb,
            variables: Vec::new(),
        }),
        None => verb(&fields, known),
    };
    cx.is_skipped.set(false);
    match fields.first(&verbs) {
        Some(_) => fields.refuse_unknown(),
        None => no_verb(&fields, &verbs),
    }
    let step = name
        .clone()
        .zip(verb)
        .zip(skipped)
        .map(|((name, verb), skipped)| Step {
            name: name.value,
            place: item.place.clone(),
            skipped,
            timeout: timeout.map(|t| t.value),
            verb,
        });
    let placed = step
        .filter(|_| fields.is_whole())
        .map(|step| Placed { step, before_seal });
    (name, placed)
}

/// Whether a text in it is nothing but variables, and these are empty.
fn is_emptied(value: &Value) -> bool {
    match &value.data {
        Data::String(text) => text.is_empty() && value.template.is_some(),
        Data::Array(items) => items.iter().any(is_emptied),
        Data::Table(table) => table.entries.iter().any(|entry| is_emptied(&entry.value)),
        _ => false,
    }
}

/// A step that names variables without a value, unless it is skipped whatever they are. The rest of it is judged once
/// they are set.
fn undecided(
    fields: &Fields<'_>,
    item: &Value,
    name: Option<&Located<String>>,
) -> Option<Option<Step>> {
    let needed = undecided::within(item);
    let name = name.filter(|_| !needed.is_empty())?;
    let entries = &fields.table.entries;
    let verbs = keys::verbs();
    let is_verb = |key: &str| verbs.iter().copied().find(|verb| *verb == key);
    let verb = entries.iter().find_map(|e| is_verb(&e.key))?;
    let Some(skipped) = when_known(fields) else {
        return Some(None);
    };
    let mut variables = Vec::new();
    for (variable, place) in needed {
        variables.push(variable.name.clone());
        if skipped.is_none() {
            fields.cx.undecided(Some(&name.value), variable, &place);
        }
    }
    Some(Some(Step {
        name: name.value.clone(),
        place: item.place.clone(),
        skipped,
        timeout: None,
        verb: Verb::Undecided { verb, variables },
    }))
}

/// No key of the step is a verb: each unknown key may have been meant as one.
fn no_verb(fields: &Fields<'_>, verbs: &[&str]) {
    let entries = fields.table.entries.iter();
    let mut unknown = entries.filter(|e| !fields.knows(&e.key)).peekable();
    let all = keys::of("step").names();
    if unknown.peek().is_none() {
        let help = format!("the verbs: {}", verbs.join(", "));
        fields
            .cx
            .missing(format!("{} has no verb", fields.what), &fields.place, &help);
    }
    for entry in unknown {
        let near = nearest(&entry.key, all.iter().copied());
        let help = match (near, keys::instead(&entry.key)) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(instead)) => instead.to_string(),
            (None, None) => format!("the verbs: {}", verbs.join(", ")),
        };
        let fact = format!("unknown verb `{}` in {}", entry.key, fields.what);
        fields.cx.error(fact, &entry.key_place, "", &help);
    }
}

fn verb(fields: &Fields<'_>, known: Known<'_>) -> Option<Verb> {
    let cx = fields.cx;
    let entries = &fields.table.entries;
    let known_verbs = keys::verbs();
    let is_verb = |e: &&Entry| known_verbs.contains(&&*e.key);
    let verbs: Vec<&Entry> = entries.iter().filter(is_verb).collect();
    if let [first, second, ..] = verbs.as_slice() {
        let names: Vec<&str> = verbs.iter().map(|e| e.key.as_str()).collect();
        let count = match names.len() {
            2 => "two verbs".to_string(),
            n => format!("{n} verbs"),
        };
        let fact = format!("{} has {count}: {}", fields.what, names.join(", "));
        let help = format!(
            "keep `{}` and make a step of its own for each other",
            first.key
        );
        cx.error(fact, &second.key_place, "", &help);
    }
    let read = verbs.iter().map(|e| one_verb(cx, e, known));
    let read: Vec<Option<Verb>> = read.collect();
    match verbs.len() {
        1 => read.into_iter().next().flatten(),
        _ => None,
    }
}

fn one_verb(cx: &Context<'_>, entry: &Entry, known: Known<'_>) -> Option<Verb> {
    let value = &entry.value;
    match entry.key.as_str() {
        "copy" => files::copy(cx, value, known),
        "extract" => files::extract(cx, value, known),
        "file" => files::file(cx, value),
        "directory" => files::directory(cx, value),
        "remove" => files::remove(cx, value),
        "cmd" => execution::cmd(cx, value),
        "powershell" => execution::powershell(cx, value),
        "reboot" => execution::reboot(cx, value),
        "assert" => execution::assert(cx, value),
        "generalize" => execution::generalize(cx, value),
        "service" => system::service(cx, value),
        "registry" => registry::registry(cx, value),
        "environment" => system::environment(cx, value),
        "path" => system::path(cx, value),
        "msi" => system::msi(cx, value, known),
        "image" => image::import(cx, value, known),
        "exe" => windows::exe(cx, value, known),
        "feature" => windows::feature(cx, value, known),
        "capability" => windows::capability(cx, value, known),
        "driver" => windows::driver(cx, value, known),
        "update" => update::update(cx, value, known),
        "checkpoint" => windows::checkpoint(cx, value),
        "cleanup" => windows::cleanup(cx, value),
        "firewall" => firewall::firewall(cx, value),
        "user" => account::user(cx, value),
        "group" => account::group(cx, value),
        "acl" => security::acl(cx, value),
        "task" => schedule::task(cx, value),
        "defender" => security::defender(cx, value),
        _ => None,
    }
}

/// What a `when` decides as far as its variables have values; one that waits for them turns nothing off.
pub fn when_known(fields: &Fields<'_>) -> Option<Option<String>> {
    let waits = |when: &Value| !undecided::within(when).is_empty();
    match fields.get("when").is_some_and(waits) {
        true => Some(None),
        false => when(fields, "when"),
    }
}

/// What the condition under this key decides: `Some(None)` to run, `Some(Some(text))` to skip, with the text as written;
/// `None` when it is wrong.
pub fn when(fields: &Fields<'_>, key: &str) -> Option<Option<String>> {
    if !fields.has(key) {
        return Some(None);
    }
    let cx = fields.cx;
    if let Some(Value {
        data: Data::Bool(on),
        ..
    }) = fields.get(key)
    {
        return Some((!on).then(|| "false".to_string()));
    }
    let text = fields.string(key)?;
    let written = fields
        .table
        .get(key)?
        .template
        .clone()
        .unwrap_or(text.value);
    match decide(cx, &written, &text.place) {
        Ok(true) => Some(None),
        Ok(false) => Some(Some(written)),
        Err(Some(diagnostic)) => {
            cx.problem(diagnostic);
            None
        }
        Err(None) => None,
    }
}

const OPERATORS: [&str; 4] = ["==", "!=", ">=", "<"];

/// `a == b`, `a != b`, `a >= b`, `a < b` (versions), or a text that is true unless it is empty, `false`, `0` or `no`. The
/// text is split before variables are filled in, so a value cannot become an operator.
fn decide(cx: &Context<'_>, written: &str, place: &Place) -> Result<bool, Option<Diagnostic>> {
    let refuse =
        |fact: &str, help: &str| Err(Some(Diagnostic::error(fact).at(place, "").help(help)));
    let forms = "`when` is `{{x}}`, `{{x}} == y`, `{{x}} != y`, `{{x}} >= 1.2` or `{{x}} < 1.2`; one comparison, no other \
                 operators";
    let outside = outside_of_braces(written);
    let lone = OPERATORS
        .iter()
        .fold(outside.clone(), |text, op| text.replace(op, ""));
    if lone.contains("&&") || lone.contains("||") {
        return refuse("`when` cannot join conditions", forms);
    }
    if lone.contains(['=', '<', '>'])
        || lone.trim_start().starts_with('!')
        || lone.starts_with("not ")
    {
        return refuse("`when` has an operator that it does not know", forms);
    }
    let places: Vec<(usize, &str)> = OPERATORS
        .into_iter()
        .flat_map(|op| outside.match_indices(op).collect::<Vec<_>>())
        .collect();
    let side = |text: &str| -> Result<String, Option<Diagnostic>> {
        let text = cx.scope.expand(text).ok_or(None)?;
        let text = text.trim();
        let bare = ['"', '\'']
            .iter()
            .find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q));
        Ok(bare.unwrap_or(text).to_string())
    };
    match places.as_slice() {
        [] => {
            let text = side(written)?.to_lowercase();
            Ok(!["", "false", "0", "no"].contains(&text.as_str()))
        }
        [(at, op)] => {
            let (left, right) = (side(&written[..*at])?, side(&written[at + op.len()..])?);
            let older = match *op {
                "==" | "!=" => return Ok((left == right) == (*op == "==")),
                _ => older(&left, &right),
            };
            match older {
                Ok(older) => Ok(older == (*op == "<")),
                Err(text) => refuse(
                    &format!("`when` compares versions, and \"{text}\" is none"),
                    "a version is numbers with dots, such as 1.36.1 or v1.36.1",
                ),
            }
        }
        _ => refuse("`when` has two comparisons", forms),
    }
}

/// Whether version `a` comes before version `b`, number by number; what is missing counts as 0, and a candidate such as
/// `2.1.0-rc.1` as its release. The error is the text that is no version.
fn older<'t>(a: &'t str, b: &'t str) -> Result<bool, &'t str> {
    let numbers = |text: &'t str| -> Result<Vec<u64>, &'t str> {
        let bare = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let release = bare.split(['-', '+']).next().unwrap_or(bare);
        let numbers: Result<Vec<u64>, _> = release.split('.').map(str::parse).collect();
        let mut numbers = numbers.map_err(|_| text)?;
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        Ok(numbers)
    };
    Ok(numbers(a)? < numbers(b)?)
}

/// The text with everything inside `{{…}}` blanked, byte for byte.
fn outside_of_braces(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let end = rest[open..].find("}}").map_or(rest.len(), |n| open + n + 2);
        out.push_str(&rest[..open]);
        out.extend(std::iter::repeat_n(' ', end - open));
        rest = &rest[end..];
    }
    out + rest
}
