//! `[[steps]]`: the name, the condition, the timeout and the verb.

use crate::document::value::{TomlData, TomlEntry, TomlValue};
use crate::fields::{LoweringContext, ReportedError, TableReader};
use crate::verbs::items::RecipeItems;
use crate::{RecipeStep, Verb, keys, undecided};
use winimg_base::diag::{Diagnostic, find_nearest};
use winimg_base::text::{Located, Place};

/// A step and its position.
pub struct PlacedStep {
    pub step: RecipeStep,
    /// Runs after all others, right before the seal.
    pub before_seal: bool,
}

/// Reads the name, if there is one, and the step, if it has no errors.
pub fn read_step(
    cx: &LoweringContext<'_>,
    item: &TomlValue,
    items: RecipeItems<'_>,
) -> (Option<Located<String>>, Option<PlacedStep>) {
    let Some(mut fields) = TableReader::open_unchecked(cx, item, "step", "a step".into()) else {
        return (None, None);
    };
    fields.ask();
    let name = fields.read_string("name");
    if let Some(name) = &name {
        fields.what = format!("step `{}`", name.value);
    }
    if let Some(step) = read_undecided(&fields, item, name.as_ref()) {
        let before_seal = fields.flag("before_seal");
        let placed = step.ok().map(|step| PlacedStep { step, before_seal });
        return (name, placed);
    }
    let skipped = evaluate_when(&fields, "when");
    let timeout = fields.read_duration("timeout");
    let before_seal = fields.flag("before_seal");
    let is_skipped = matches!(skipped, Ok(Some(_)));
    let verbs = keys::list_verbs();
    let empty = fields
        .find_first(&verbs)
        .filter(|entry| is_skipped && is_emptied(&entry.value));
    let verb = match empty.and_then(|entry| verbs.iter().find(|verb| **verb == entry.key)) {
        // An unset variable of a pack: the step is only for it.
        Some(verb) => Some(Verb::Undecided {
            verb,
            variables: Vec::new(),
        }),
        None if is_skipped => read_verb(&fields, items.of_skipped_step()),
        None => read_verb(&fields, items),
    };
    match fields.find_first(&verbs) {
        Some(_) => fields.refuse_unknown(),
        None => no_verb(&fields, &verbs),
    }
    let step = name
        .clone()
        .zip(verb)
        .zip(skipped.ok())
        .map(|((name, verb), skipped)| RecipeStep {
            name: name.value,
            place: item.place.clone(),
            skipped,
            timeout: timeout.map(|t| t.value),
            verb,
        });
    let placed = step
        .filter(|_| fields.is_whole())
        .map(|step| PlacedStep { step, before_seal });
    (name, placed)
}

/// Returns true if a string in it consists only of variables, and these are empty.
fn is_emptied(value: &TomlValue) -> bool {
    match &value.data {
        TomlData::String(text) => text.is_empty() && value.template.is_some(),
        TomlData::Array(items) => items.iter().any(is_emptied),
        TomlData::Table(table) => table.entries.iter().any(|entry| is_emptied(&entry.value)),
        _ => false,
    }
}

/// Reads a step that uses variables without a value; `None` for any other. The rest of it is
/// checked once they are set.
fn read_undecided(
    fields: &TableReader<'_>,
    item: &TomlValue,
    name: Option<&Located<String>>,
) -> Option<Result<RecipeStep, ReportedError>> {
    let needed = undecided::find_undecided(item);
    let name = name.filter(|_| !needed.is_empty())?;
    let verbs = keys::list_verbs();
    let verb = fields
        .table
        .entries
        .iter()
        .find_map(|entry| verbs.iter().copied().find(|verb| *verb == entry.key))?;
    let skipped = match when_known(fields) {
        Ok(skipped) => skipped,
        Err(reported) => return Some(Err(reported)),
    };
    let mut variables = Vec::new();
    for (variable, place) in needed {
        variables.push(variable.name.clone());
        if skipped.is_none() {
            fields
                .cx
                .record_undecided(Some(&name.value), variable, &place);
        }
    }
    Some(Ok(RecipeStep {
        name: name.value.clone(),
        place: item.place.clone(),
        skipped,
        timeout: None,
        verb: Verb::Undecided { verb, variables },
    }))
}

/// Reports a step without a verb: an unknown key may be a misspelt one.
fn no_verb(fields: &TableReader<'_>, verbs: &[&str]) {
    let mut unknown = fields
        .table
        .entries
        .iter()
        .filter(|entry| !fields.has_row(&entry.key))
        .peekable();
    let all = keys::find_table("step").names();
    if unknown.peek().is_none() {
        let help = format!("verbs: {}", verbs.join(", "));
        fields
            .cx
            .report_missing(format!("{} has no verb", fields.what), &fields.place, &help);
    }
    for entry in unknown {
        let near = find_nearest(&entry.key, all.iter().copied());
        let help = match (near, keys::suggest_replacement(&entry.key)) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(instead)) => instead.to_string(),
            (None, None) => format!("verbs: {}", verbs.join(", ")),
        };
        let fact = format!("unknown verb `{}` in {}", entry.key, fields.what);
        fields.cx.error(fact, &entry.key_place, "", &help);
    }
}

fn read_verb(fields: &TableReader<'_>, items: RecipeItems<'_>) -> Option<Verb> {
    let cx = fields.cx;
    let known_verbs = keys::list_verbs();
    let verbs: Vec<&TomlEntry> = fields
        .table
        .entries
        .iter()
        .filter(|entry| known_verbs.contains(&&*entry.key))
        .collect();
    if let [first, second, ..] = verbs.as_slice() {
        let names: Vec<&str> = verbs.iter().map(|e| e.key.as_str()).collect();
        let count = match names.len() {
            2 => "two verbs".to_string(),
            n => format!("{n} verbs"),
        };
        let fact = format!("{} has {count}: {}", fields.what, names.join(", "));
        let help = format!(
            "keep `{}`, and write a separate step for each other verb",
            first.key
        );
        cx.error(fact, &second.key_place, "", &help);
    }
    let read: Vec<Option<Verb>> = verbs
        .iter()
        .map(|entry| Verb::read(cx, &entry.key, &entry.value, items))
        .collect();
    match verbs.len() {
        1 => read.into_iter().next().flatten(),
        _ => None,
    }
}

/// Evaluates `when`; one with variables without a value counts as true.
pub fn when_known(fields: &TableReader<'_>) -> Result<Option<String>, ReportedError> {
    let is_pending = fields
        .get("when")
        .is_some_and(|when| !undecided::find_undecided(when).is_empty());
    if is_pending {
        Ok(None)
    } else {
        evaluate_when(fields, "when")
    }
}

/// Evaluates the condition under this key. Returns it as written if it is false, and `None` if it
/// is true or absent.
pub fn evaluate_when(fields: &TableReader<'_>, key: &str) -> Result<Option<String>, ReportedError> {
    if !fields.has(key) {
        return Ok(None);
    }
    let cx = fields.cx;
    if let Some(TomlValue {
        data: TomlData::Bool(on),
        ..
    }) = fields.get(key)
    {
        return Ok((!on).then(|| "false".to_string()));
    }
    let text = fields.read_string(key).ok_or(ReportedError)?;
    let template = fields.get(key).and_then(|value| value.template.clone());
    let written = template.unwrap_or(text.value);
    match evaluate_condition(cx, &written, &text.place) {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some(written)),
        Err(Some(diagnostic)) => {
            cx.report(diagnostic);
            Err(ReportedError)
        }
        Err(None) => Err(ReportedError),
    }
}

const OPERATORS: [&str; 4] = ["==", "!=", ">=", "<"];

/// Evaluates `a == b`, `a != b`, `a >= b`, `a < b` (versions), or a text, which is true unless it
/// is empty, `false`, `0` or `no`. The text is split before variables are substituted, so a value
/// cannot become an operator.
fn evaluate_condition(
    cx: &LoweringContext<'_>,
    written: &str,
    place: &Place,
) -> Result<bool, Option<Diagnostic>> {
    let outside = outside_of_braces(written);
    let lone = OPERATORS
        .iter()
        .fold(outside.clone(), |text, op| text.replace(op, ""));
    if lone.contains("&&") || lone.contains("||") {
        return Err(wrong_condition(place, "`when` cannot combine conditions"));
    }
    if lone.contains(['=', '<', '>'])
        || lone.trim_start().starts_with('!')
        || lone.starts_with("not ")
    {
        return Err(wrong_condition(place, "`when` has an unknown operator"));
    }
    let places: Vec<(usize, &str)> = OPERATORS
        .into_iter()
        .flat_map(|op| outside.match_indices(op).collect::<Vec<_>>())
        .collect();
    match places.as_slice() {
        [] => {
            let text = expand_side(cx, written)?.to_lowercase();
            Ok(!["", "false", "0", "no"].contains(&text.as_str()))
        }
        [(at, op)] => {
            let left = expand_side(cx, &written[..*at])?;
            let right = expand_side(cx, &written[at + op.len()..])?;
            if matches!(*op, "==" | "!=") {
                return Ok((left == right) == (*op == "=="));
            }
            match is_older(&left, &right) {
                Ok(older) => Ok(older == (*op == "<")),
                Err(text) => {
                    let fact = format!("`when` compares versions, but \"{text}\" is not one");
                    let help = "a version is numbers separated by dots, such as 1.36.1 or v1.36.1";
                    Err(Some(Diagnostic::error(fact).at(place, "").help(help)))
                }
            }
        }
        _ => Err(wrong_condition(place, "`when` has two comparisons")),
    }
}

fn wrong_condition(place: &Place, fact: &str) -> Option<Diagnostic> {
    let help = "write `{{x}}`, `{{x}} == y`, `{{x}} != y`, `{{x}} >= 1.2` or `{{x}} < 1.2`; only \
                one comparison, and no other operators";
    Some(Diagnostic::error(fact).at(place, "").help(help))
}

/// Substitutes the variables in one side of a comparison and removes its quotes.
fn expand_side(cx: &LoweringContext<'_>, text: &str) -> Result<String, Option<Diagnostic>> {
    let text = cx.scope.expand(text).ok_or(None)?;
    let text = text.trim();
    let bare = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    Ok(bare.unwrap_or(text).to_string())
}

/// Returns true if version `a` is older than version `b`. Missing numbers count as 0, and a
/// candidate such as `2.1.0-rc.1` as its release. The error is the text that is not a version.
fn is_older<'t>(a: &'t str, b: &'t str) -> Result<bool, &'t str> {
    Ok(version_numbers(a)? < version_numbers(b)?)
}

fn version_numbers(text: &str) -> Result<Vec<u64>, &str> {
    let bare = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let release = bare.split(['-', '+']).next().unwrap_or(bare);
    let numbers: Result<Vec<u64>, _> = release.split('.').map(str::parse).collect();
    let mut numbers = numbers.map_err(|_| text)?;
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Ok(numbers)
}

/// Replaces everything inside `{{…}}` with spaces, byte for byte.
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
