//! `{{name}}` in a string: parsed by handlebars, without its helpers, blocks and partials.
//!
//! A backslash before `{{` is literal, as in `C:\k\{{dir}}`; Handlebars would read an escape there.
//! A literal `{{` is written as in Handlebars: `{{{{raw}}}} … {{{{/raw}}}}`.

use handlebars::template::{HelperTemplate, Parameter, TemplateElement};
use handlebars::{Path, PathSeg, Template, TemplateErrorReason};

/// A piece of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Text(String),
    Name(String),
}

/// Placeholder of a backslash while handlebars parses; a noncharacter, so no text has it.
const BACKSLASH: &str = "\u{fdd0}";

/// Maximum number of variables in a string, because the parser's time is quadratic.
const MAX_VARIABLES: usize = 200;

/// Parses a string. The error is one sentence.
pub fn parse(text: &str) -> Result<Vec<TemplatePart>, String> {
    let count = text.matches("{{").take(MAX_VARIABLES + 1).count();
    if count > MAX_VARIABLES {
        return Err(format!("a string has at most {MAX_VARIABLES} variables"));
    }
    let escaped = text.replace('\\', BACKSLASH);
    let template = Template::compile(&escaped).map_err(|error| match error.reason() {
        TemplateErrorReason::InvalidSyntax(_) => {
            "`{{` is not followed by the name of a variable and `}}`".to_string()
        }
        reason => reason.to_string(),
    })?;
    let mut parts = Vec::new();
    for element in &template.elements {
        match element {
            TemplateElement::RawString(text) => parts.push(TemplatePart::Text(restore(text))),
            TemplateElement::Comment(_) => {}
            TemplateElement::Expression(e) | TemplateElement::HtmlExpression(e) => {
                parts.push(TemplatePart::Name(parse_name(e)?));
            }
            TemplateElement::HelperBlock(block) if is_raw(block) => {
                for inner in block.template.iter().flat_map(|t| &t.elements) {
                    if let TemplateElement::RawString(text) = inner {
                        parts.push(TemplatePart::Text(restore(text)));
                    }
                }
            }
            TemplateElement::HelperBlock(block) => {
                return Err(format!(
                    "`{{{{#{}}}}}` is not supported: a step's `when` decides whether it runs",
                    block.name.as_name().unwrap_or("…")
                ));
            }
            TemplateElement::PartialExpression(_) | TemplateElement::PartialBlock(_) => {
                return Err("partials (`{{> …}}`) are not supported".into());
            }
            _ => return Err("decorators (`{{* …}}`) are not supported".into()),
        }
    }
    Ok(parts)
}

/// Returns true if the string may contain variables.
pub fn is_template(text: &str) -> bool {
    text.contains("{{")
}

fn restore(text: &str) -> String {
    text.replace(BACKSLASH, "\\")
}

fn is_raw(block: &HelperTemplate) -> bool {
    block.name.as_name() == Some("raw") && block.params.is_empty()
}

fn parse_name(expression: &HelperTemplate) -> Result<String, String> {
    let name = match &expression.name {
        Parameter::Path(Path::Relative((segments, raw))) => {
            let names: Option<Vec<&str>> = segments
                .iter()
                .map(|s| match s {
                    PathSeg::Named(name) => Some(name.as_str()),
                    _ => None,
                })
                .collect();
            match names {
                Some(names) if !names.is_empty() => Some(names.join(".")),
                _ => Some(raw.clone()),
            }
        }
        _ => None,
    };
    match name {
        Some(name) if expression.params.is_empty() && expression.hash.is_empty() => Ok(name),
        _ => Err(format!(
            "`{{{{{} …}}}}` is a function call; only variables are supported",
            expression.name.as_name().unwrap_or("…")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(parts) => parts
                .iter()
                .map(|p| match p {
                    TemplatePart::Text(text) => text.clone(),
                    TemplatePart::Name(name) => format!("<{name}>"),
                })
                .collect(),
            Err(problem) => format!("! {problem}"),
        }
    }

    #[test]
    fn backslashes_stay_and_names_are_found() {
        for (text, want) in [
            (r"C:\k\{{dir}}\x", r"C:\k\<dir>\x"),
            (r"\\{{server}}\share", r"\\<server>\share"),
            ("{{a}}{{ b }}{{{c}}}", "<a><b><c>"),
            (
                "{{components.cloudbase-init.version}}",
                "<components.cloudbase-init.version>",
            ),
            (r"{{{{raw}}}}{{.Id}}\n{{{{/raw}}}}", r"{{.Id}}\n"),
            ("a }} b", "a }} b"),
            ("a & b < {{c}}", "a & b < <c>"),
            (
                "{{#if x}}a{{/if}}",
                "! `{{#if}}` is not supported: a step's `when` decides whether it runs",
            ),
            (
                "{{upper x}}",
                "! `{{upper …}}` is a function call; only variables are supported",
            ),
            (
                "{{.Id}}",
                "! `{{` is not followed by the name of a variable and `}}`",
            ),
        ] {
            assert_eq!(shown(text), want);
        }
    }
}
