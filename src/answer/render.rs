//! Renders an answer file template: strict about names, XML-escaped, ASCII only.

use handlebars::{Handlebars, RenderErrorReason, no_escape};
use serde_json::{Value, json};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::markup::{escape_xml, to_ascii_xml};
use winimg_base::text::{Secret, SourceText};
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::Firmware;

use super::facts::AnswerFacts;
use super::{CD_LETTERS, password};

/// Size in MB of the recovery partition in front of C: for Server 2025, whose Setup creates its own
/// unless one with 800 MB exists.
const RECOVERY_2025: u32 = 1024;

/// Limit per template: handlebars scans from the start for the line of each one.
const MAX_NAMES: usize = 500;

/// Renders the answer file. It contains the Administrator's password, so it is a [`Secret`].
pub fn render(template: &SourceText, facts: &AnswerFacts) -> Result<Secret> {
    if template.text.matches("{{").take(MAX_NAMES + 1).count() > MAX_NAMES {
        let fact = format!("the answer file template has more than {MAX_NAMES} `{{{{`");
        return Err(Error::new(Kind::Recipe, fact).at(&template.name));
    }
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(escape_xml);
    let xml = handlebars
        .render_template(&template.text, &collect_values(facts))
        .map_err(|e| describe_error(template, &e))?;
    Ok(Secret::new(to_ascii_xml(&xml)))
}

/// Renders a built-in plain text template, whose values are constants and checked names.
pub(super) fn fill(text: &str, values: &Value) -> Result<String> {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(no_escape);
    handlebars
        .render_template(text, values)
        .map_err(|e| Error::failed("cannot render a bootstrap file").because(e))
}

/// Returns the variables that a template can use.
fn collect_values(facts: &AnswerFacts) -> Value {
    let paths: Vec<Value> = if facts.drivers.is_empty() {
        Vec::new()
    } else {
        CD_LETTERS
            .iter()
            .enumerate()
            .map(|(n, letter)| {
                let path = format!("{letter}:\\drv");
                json!({ "key": (n + 1).to_string(), "path": path })
            })
            .collect()
    };
    let recovery = (facts.release == WindowsRelease::Server2025).then_some(RECOVERY_2025);
    let windows = match facts.firmware {
        Firmware::Uefi => 3,
        Firmware::Bios => 1,
    } + u32::from(recovery.is_some());
    json!({
        "release": facts.release.year(),
        "build": facts.release.build(),
        "uefi": facts.firmware == Firmware::Uefi,
        "bios": facts.firmware == Firmware::Bios,
        "eval": facts.eval,
        "image_name": facts.image_name,
        "product_key": facts.product_key,
        "language": facts.language,
        "time_zone": facts.time_zone,
        "computer_name": facts.computer_name,
        "administrator_password": password::encode_administrator(&facts.administrator_password),
        "driver_paths": paths,
        "tpm": facts.tpm,
        "no_compact": facts.release == WindowsRelease::Server2025,
        "recovery": recovery,
        "windows_partition": windows,
    })
}

fn describe_error(template: &SourceText, error: &handlebars::RenderError) -> Error {
    // A template that does not parse carries its own position.
    let (fact, position) = match error.reason() {
        RenderErrorReason::TemplateError(e) => (
            // The rest of the message is a list of the parser's rule names.
            format!(
                "the answer file template is not valid Handlebars: {}",
                e.reason()
                    .to_string()
                    .split(": expected")
                    .next()
                    .unwrap_or_default()
            ),
            e.pos(),
        ),
        RenderErrorReason::MissingVariable(Some(name)) => (
            format!("the answer file template uses \"{name}\", which does not exist"),
            error.line_no.zip(error.column_no),
        ),
        other => (
            format!("cannot render the answer file template: {other}"),
            error.line_no.zip(error.column_no),
        ),
    };
    let wrong = Error::new(Kind::Recipe, fact).cure(
        "the head of the built-in template, unattend/autounattend.xml, lists the valid names",
    );
    match position {
        Some((line, column)) => wrong.at(format!("{}:{line}:{column}", template.name)),
        None => wrong.at(&template.name),
    }
}
