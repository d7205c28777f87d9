//! Names of variants: made by a template, fit for a file, and each there once.

use std::collections::BTreeMap;
use std::path::Path;

use crate::recipe::fields::Fields;
use crate::recipe::template::{self, Part};
use crate::recipe::vars::place_of_name;
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::filename;
use winimg_base::text::{Located, Place};

/// What every variant has: its recipe's file without `.toml`.
const RECIPE: &str = "recipe";

/// Characters; names of Kubernetes and of buckets are cut from it.
const LONGEST: usize = 63;

const HELP: &str = "it names a folder and files: letters, digits, `.`, `-` and `_`, a letter or digit first and last";

/// Complains about a template that no variant could be named by. `axes`: their names.
pub fn judge(fields: &Fields<'_>, template: &Located<String>, axes: &[&str]) {
    let parts = match template::parse(&template.value) {
        Ok(parts) => parts,
        Err(fact) => return fields.cx.error(fact, &template.place, "", ""),
    };
    let known = [axes, &[RECIPE]].concat();
    for part in parts {
        if let Part::Name(name) = part
            && !known.contains(&name.as_str())
        {
            let at = place_of_name(&template.place, &name);
            let problem = Diagnostic::error(format!("there is no axis `{name}`")).at(&at, "");
            fields
                .cx
                .problem(problem.help(suggestion(&name, &known, "names")));
        }
    }
}

/// The name, or why there is none. A template that `judge` has refused says nothing more.
pub fn render(
    template: &str,
    recipe: &Path,
    values: &[(String, String)],
) -> Result<String, Option<String>> {
    let mut name = String::new();
    for part in template::parse(template).map_err(|_| None)? {
        match part {
            Part::Text(text) => name += &text,
            Part::Name(word) if word == RECIPE => {
                let stem = recipe.file_stem().unwrap_or_default();
                name += &stem.to_string_lossy();
            }
            Part::Name(word) => match values.iter().find(|(axis, _)| *axis == word) {
                Some((_, value)) => name += value,
                None => return Err(Some(word)),
            },
        }
    }
    Ok(name)
}

/// Complains about a name that is no file's, or that is there already.
pub fn check(
    fields: &Fields<'_>,
    name: &Located<String>,
    seen: &mut BTreeMap<String, Place>,
) -> bool {
    let text = name.value.as_str();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let ends_well = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_plain = text.chars().all(plain) && ends_well(text.chars().next());
    let complain = |fact: String, help: &str| {
        fields.cx.error(fact, &name.place, "", help);
        false
    };
    if !is_plain || !ends_well(text.chars().last()) {
        return complain(format!("a variant cannot be called \"{text}\""), HELP);
    }
    if text.len() > LONGEST {
        let fact = format!("the name \"{text}\" has {} characters", text.len());
        let help = format!("at most {LONGEST} fit: give the values of the axes shorter names");
        return complain(fact, &help);
    }
    if filename::fault(text).is_some() {
        let fact = format!("a variant cannot be called \"{text}\"");
        return complain(fact, "Windows has a device of that name");
    }
    // Some file systems make no difference between them.
    if seen
        .insert(text.to_lowercase(), name.place.clone())
        .is_some()
    {
        let fact = format!("two variants are called \"{text}\"");
        let help = "let `name` name every axis in which they differ, as `{{windows}}`; upper and lower case are one";
        return complain(fact, help);
    }
    true
}
