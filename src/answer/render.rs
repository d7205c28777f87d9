//! Fills in an answer file template: strict about names, XML-escaped, ASCII only.

use handlebars::{Handlebars, RenderErrorReason, no_escape};
use serde_json::{Value, json};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::markup::{ascii_xml, escape_xml};
use winimg_base::text::{Secret, Source};
use winimg_formats::wim::Release;
use winimg_recipe::recipe::Firmware;

use super::facts::Facts;
use super::{CD_LETTERS, password};

/// MB of the recovery partition that Setup of Server 2025 is given in front of C:; it makes none of its own where 800 are
/// there.
const RECOVERY_2025: u32 = 1024;

/// Of one template: handlebars looks for the line of each from the beginning.
const MOST_NAMES: usize = 500;

/// The rendered answer file. It holds the Administrator's password, so it is a [`Secret`].
pub fn render(template: &Source, facts: &Facts) -> Result<Secret> {
    if template.text.matches("{{").take(MOST_NAMES + 1).count() > MOST_NAMES {
        let fact = format!("the answer file template has more than {MOST_NAMES} `{{{{`");
        return Err(Error::new(Kind::Recipe, fact).at(&template.name));
    }
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(escape_xml);
    let xml = handlebars
        .render_template(&template.text, &values(facts))
        .map_err(|e| wrong(template, &e))?;
    Ok(Secret::new(ascii_xml(&xml)))
}

/// A plain text template of our own, whose values are constants and checked names.
pub(super) fn fill(text: &str, values: &Value) -> Result<String> {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(no_escape);
    handlebars
        .render_template(text, values)
        .map_err(|e| Error::failed("a bootstrap file cannot be filled in").because(e))
}

/// The names that a template can use.
fn values(facts: &Facts) -> Value {
    let paths: Vec<Value> = if facts.drivers.is_empty() {
        Vec::new()
    } else {
        CD_LETTERS
            .iter()
            .enumerate()
            .map(|(n, letter)| json!({ "key": (n + 1).to_string(), "path": format!("{letter}:\\drv") }))
            .collect()
    };
    let recovery = (facts.release == Release::Server2025).then_some(RECOVERY_2025);
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
        "no_compact": facts.release == Release::Server2025,
        "recovery": recovery,
        "windows_partition": windows,
    })
}

fn wrong(template: &Source, error: &handlebars::RenderError) -> Error {
    // A template that does not parse carries its own position.
    let (fact, position) = match error.reason() {
        RenderErrorReason::TemplateError(e) => (
            // What the parser expected instead is a list of its own rule names.
            format!(
                "the answer file template is no valid Handlebars: {}",
                e.reason()
                    .to_string()
                    .split(": expected")
                    .next()
                    .unwrap_or_default()
            ),
            e.pos(),
        ),
        RenderErrorReason::MissingVariable(Some(name)) => (
            format!("the answer file template uses \"{name}\", which is not there to use"),
            error.line_no.zip(error.column_no),
        ),
        other => (
            format!("the answer file template cannot be filled in: {other}"),
            error.line_no.zip(error.column_no),
        ),
    };
    let wrong = Error::new(Kind::Recipe, fact).cure(
        "the names to use are listed at the head of the built-in template, unattend/autounattend.xml",
    );
    match position {
        Some((line, column)) => wrong.at(format!("{}:{line}:{column}", template.name)),
        None => wrong.at(&template.name),
    }
}
