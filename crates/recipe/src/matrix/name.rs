//! Names of variants: rendered from a template, valid as file names, and unique.

use std::collections::BTreeMap;
use std::path::Path;

use crate::fields::TableReader;
use crate::vars::find_name_place;
use crate::vars::template::{self, TemplatePart};
use winimg_base::diag::{Diagnostic, suggest};
use winimg_base::filename;
use winimg_base::text::{Located, Place};

/// Available for every variant: its recipe's file name without `.toml`.
const RECIPE: &str = "recipe";

/// Maximum length; names in Kubernetes and of buckets are derived from it.
const MAX_NAME_LEN: usize = 63;

const HELP: &str = "it becomes part of file names: use letters, digits, `.`, `-` and `_`, a letter \
                    or digit first and last";

/// Complains about unknown names in a template. `axes` are the known ones.
pub fn judge(fields: &TableReader<'_>, template: &Located<String>, axes: &[&str]) {
    let parts = match template::parse(&template.value) {
        Ok(parts) => parts,
        Err(fact) => return fields.cx.error(fact, &template.place, "", ""),
    };
    let known = [axes, &[RECIPE]].concat();
    for part in parts {
        if let TemplatePart::Name(name) = part
            && !known.contains(&name.as_str())
        {
            let at = find_name_place(&template.place, &name);
            let problem = Diagnostic::error(format!("there is no axis `{name}`")).at(&at, "");
            fields
                .cx
                .report(problem.help(suggest(&name, &known, "names")));
        }
    }
}

/// Renders the name. The error is the missing axis; `None` for a template with a syntax error,
/// which was reported before.
pub fn render(
    template: &str,
    recipe: &Path,
    values: &[(String, String)],
) -> Result<String, Option<String>> {
    let mut name = String::new();
    for part in template::parse(template).map_err(|_| None)? {
        match part {
            TemplatePart::Text(text) => name += &text,
            TemplatePart::Name(word) if word == RECIPE => {
                let stem = recipe.file_stem().unwrap_or_default();
                name += &stem.to_string_lossy();
            }
            TemplatePart::Name(word) => match values.iter().find(|(axis, _)| *axis == word) {
                Some((_, value)) => name += value,
                None => return Err(Some(word)),
            },
        }
    }
    Ok(name)
}

/// Complains about a name that is not a valid file name, or that is not unique.
pub fn check(
    fields: &TableReader<'_>,
    name: &Located<String>,
    seen: &mut BTreeMap<String, Place>,
) -> bool {
    let text = name.value.as_str();
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    let (fact, help) = if !is_plain {
        let fact = format!("a variant cannot be named \"{text}\"");
        (fact, HELP.to_owned())
    } else if text.len() > MAX_NAME_LEN {
        let fact = format!("the name \"{text}\" has {} characters", text.len());
        let help =
            format!("the maximum is {MAX_NAME_LEN}: use shorter names for values of the axes");
        (fact, help)
    } else if filename::find_fault(text).is_some() {
        let fact = format!("a variant cannot be named \"{text}\"");
        (fact, "it is a reserved device name in Windows".to_owned())
    } else if seen
        // Some file systems ignore case.
        .insert(text.to_lowercase(), name.place.clone())
        .is_some()
    {
        let fact = format!("two variants are named \"{text}\"");
        let help = "include every axis in which they differ in `name`, as `{{windows}}`; case is \
                    ignored";
        (fact, help.to_owned())
    } else {
        return true;
    };
    fields.cx.error(fact, &name.place, "", &help);
    false
}
