//! Binds a call's parameters as PowerShell binds them, by the tables of [`crate::tables`]: names, sets, mandatory ones, types.
//!
//! Stricter than PowerShell where that only guesses: no abbreviated names, no strings for numbers, no numbers for booleans.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::Thing;
use crate::refusal::{BINDING, Refusal};
use crate::tables;

/// A value that a parameter was given.
#[derive(Clone, Debug)]
pub enum Argument {
    Null,
    Flag(bool),
    Number(i128),
    Text(String),
    List(Vec<Argument>),
    Kept(String, Thing),
    /// A script's name.
    Script(String),
}

struct Parameter {
    name: &'static str,
    kind: &'static str,
    mandatory: bool,
}

/// The parameters of one call.
pub struct Bound {
    pub cmdlet: String,
    values: BTreeMap<&'static str, Argument>,
}

const CONFIRM: Parameter = Parameter {
    name: "Confirm",
    kind: "SwitchParameter",
    mandatory: false,
};

/// One set of a SYNTAX section.
fn set(line: &'static str) -> Vec<Parameter> {
    let mut all = Vec::new();
    for part in line.split_inclusive(['{', '}']) {
        match part {
            "set}" => all.extend(set(tables::SET)),
            "firmware}" => all.extend(set(tables::FIRMWARE)),
            _ => all.extend(plain(part.trim_end_matches('{'))),
        }
    }
    all
}

fn plain(line: &'static str) -> Vec<Parameter> {
    let words: Vec<&'static str> = line.split_whitespace().collect();
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let name = word.trim_matches(['[', ']']).trim_start_matches('-');
        let next = words.get(at + 1).filter(|w| w.starts_with('<'));
        let kind = next.map_or("SwitchParameter", |w| {
            let end = w.rfind('>').unwrap_or(w.len());
            &w[1..end]
        });
        // `[-Name] <Type>` may be left unnamed, `[-Name <Type>]` and `[-Switch]` may be left out.
        let optional = word.starts_with("[[")
            || (word.starts_with('[') && (next.is_none() || !word.ends_with(']')));
        all.push(Parameter {
            name,
            kind,
            mandatory: !optional,
        });
        at += 1 + usize::from(next.is_some());
    }
    all
}

fn binding(cmdlet: &str, id: &str, text: String) -> Refusal {
    Refusal::new(cmdlet, id, "InvalidArgument", text).of(BINDING)
}

/// Binds; the error is PowerShell's.
pub fn bind(cmdlet: &str, given: &BTreeMap<String, Argument>) -> Result<Bound, Refusal> {
    let found = tables::SYNTAX.iter().find(|(name, _)| *name == cmdlet);
    let Some((_, lines)) = found else {
        return Err(Refusal::stand_in(format!("no syntax for {cmdlet}")));
    };
    let sets: Vec<Vec<Parameter>> = lines
        .iter()
        .map(|line| set(line).into_iter().chain([CONFIRM]).collect())
        .collect();
    let known =
        |set: &[Parameter], name: &str| set.iter().any(|p| p.name.eq_ignore_ascii_case(name));
    for name in given.keys() {
        if !sets.iter().any(|set| known(set, name)) {
            let text = format!("A parameter cannot be found that matches parameter name '{name}'.");
            return Err(binding(cmdlet, "NamedParameterNotFound", text));
        }
    }
    let fitting: Vec<&Vec<Parameter>> = sets
        .iter()
        .filter(|set| given.keys().all(|name| known(set, name)))
        .collect();
    let missing = |set: &[Parameter]| -> Vec<&'static str> {
        let all = set.iter().filter(|p| p.mandatory);
        all.filter(|p| !given.keys().any(|n| n.eq_ignore_ascii_case(p.name)))
            .map(|p| p.name)
            .collect()
    };
    let Some(first) = fitting.first() else {
        let text = "Parameter set cannot be resolved using the specified named parameters.";
        return Err(binding(cmdlet, "AmbiguousParameterSet", text.into()));
    };
    let Some(chosen) = fitting.iter().find(|set| missing(set).is_empty()) else {
        let names = missing(first).join(" ");
        let text = format!(
            "Cannot process command because of one or more missing mandatory parameters: {names}."
        );
        return Err(binding(cmdlet, "MissingMandatoryParameter", text));
    };
    let mut values = BTreeMap::new();
    for (name, value) in given {
        let parameter = chosen.iter().find(|p| p.name.eq_ignore_ascii_case(name));
        let Some(parameter) = parameter else { continue };
        fits(parameter, value).map_err(|why| {
            binding(
                cmdlet,
                "CannotConvertArgumentNoMessage",
                format!("Cannot bind parameter '{}'. {why}", parameter.name),
            )
        })?;
        values.insert(parameter.name, value.clone());
    }
    Ok(Bound {
        cmdlet: cmdlet.into(),
        values,
    })
}

fn fits(parameter: &Parameter, value: &Argument) -> Result<(), String> {
    let (kind, many) = match parameter.kind.strip_suffix("[]") {
        Some(kind) => (kind, true),
        None => (parameter.kind, false),
    };
    match value {
        Argument::List(all) if many && !all.is_empty() => {
            all.iter().try_for_each(|one| is(kind, one))
        }
        // PowerShell makes an empty string of it, which takes the medium out of a drive.
        Argument::Null if parameter.name == "Path" && !parameter.mandatory => Ok(()),
        other => is(kind, other),
    }
}

fn is(kind: &str, value: &Argument) -> Result<(), String> {
    let fitting = match (kind, value) {
        ("Object", _) => true,
        ("SwitchParameter" | "Boolean", Argument::Flag(_)) => true,
        ("String" | "Version", Argument::Text(text)) => !text.is_empty() || kind == "String",
        ("Guid", Argument::Text(text)) => is_guid(text),
        ("Int16", Argument::Number(n)) => i16::try_from(*n).is_ok(),
        ("Int32", Argument::Number(n)) => i32::try_from(*n).is_ok(),
        ("UInt32", Argument::Number(n)) => u32::try_from(*n).is_ok(),
        ("Int64", Argument::Number(n)) => i64::try_from(*n).is_ok(),
        ("UInt64", Argument::Number(n)) => u64::try_from(*n).is_ok(),
        ("ScriptBlock", Argument::Script(_)) => true,
        (_, Argument::Kept(_, thing)) => thing.is_a(kind),
        (_, Argument::Text(text)) => {
            let found = tables::ENUMS.iter().find(|(name, _)| *name == kind);
            let Some((_, members)) = found else {
                return Err(cannot(value, kind, ""));
            };
            if !members.iter().any(|m| m.eq_ignore_ascii_case(text)) {
                let more = format!(
                    "\"Unable to match the identifier name {text} to a valid enumerator name. Specify one of the following enumerator names and try \
                     again: {}\"",
                    members.join(", ")
                );
                return Err(cannot(value, kind, &more));
            }
            true
        }
        _ => false,
    };
    if fitting {
        Ok(())
    } else {
        Err(cannot(value, kind, ""))
    }
}

fn cannot(value: &Argument, kind: &str, more: &str) -> String {
    format!(
        "Cannot convert value \"{}\" to type \"{kind}\". Error: {more}",
        value.shown()
    )
}

pub fn is_guid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|p| p.len()).eq([8, 4, 4, 4, 12])
        && parts
            .iter()
            .all(|p| p.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl Argument {
    /// As a PowerShell command line would have it.
    pub fn shown(&self) -> String {
        match self {
            Self::Null => "$null".into(),
            Self::Flag(true) => "$true".into(),
            Self::Flag(false) => "$false".into(),
            Self::Number(n) => n.to_string(),
            Self::Text(text) if text.chars().count() > 200 => {
                format!("<{} characters>", text.chars().count())
            }
            Self::Text(text)
                if text.is_empty()
                    || text.contains([' ', '\'', '"', ',', ';', '(', '$', '{', '@', '\n']) =>
            {
                format!("'{}'", text.replace('\'', "''").replace('\n', "\\n"))
            }
            Self::Text(text) => text.clone(),
            Self::List(all) => all.iter().map(Self::shown).collect::<Vec<_>>().join(", "),
            Self::Kept(name, _) => format!("${name}"),
            Self::Script(name) => format!("{{{name}}}"),
        }
    }

    /// For the guest's scripts: what a remote session would carry over.
    pub fn to_json(&self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Flag(on) => (*on).into(),
            Self::Number(n) => i64::try_from(*n).ok()?.into(),
            Self::Text(text) => text.clone().into(),
            Self::List(all) => all
                .iter()
                .map(Self::to_json)
                .collect::<Option<Vec<_>>>()?
                .into(),
            Self::Kept(..) | Self::Script(_) => return None,
        })
    }
}

impl Bound {
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub fn get(&self, name: &str) -> Option<&Argument> {
        self.values.get(name)
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Argument::Flag(true)))
    }

    /// The text, or the first of a list; empty where none was given.
    pub fn text(&self, name: &str) -> String {
        match self.get(name) {
            Some(Argument::Text(text)) => text.clone(),
            Some(Argument::List(all)) => match all.first() {
                Some(Argument::Text(text)) => text.clone(),
                _ => String::new(),
            },
            _ => String::new(),
        }
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Argument::Number(n)) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// One or many of what was given.
    pub fn all(&self, name: &str) -> Vec<Argument> {
        match self.get(name) {
            Some(Argument::List(all)) => all.clone(),
            Some(one) => vec![one.clone()],
            None => Vec::new(),
        }
    }

    /// Kept objects among them.
    pub fn things(&self, name: &str) -> Vec<Thing> {
        let all = self.all(name).into_iter();
        all.filter_map(|a| match a {
            Argument::Kept(_, thing) => Some(thing),
            _ => None,
        })
        .collect()
    }
}
