//! Checks a template before its medium is known, for mistakes that no medium can correct.
//!
//! Never guesses the medium: complaints that depend on it are left to the build, which reads the
//! medium before anything boots.

use std::path::PathBuf;

use roxmltree::{Document, Node};

use winimg_base::diag::Diagnostics;
use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_base::text::{Located, Secret, SourceText, mask_secrets};
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::Recipe;

use super::facts::AnswerFacts;
use super::{LintFacts, lint, password, render};

/// A placeholder key of the right form.
const ANY_KEY: &str = "AAAAA-AAAAA-AAAAA-AAAAA-AAAAA";

/// A placeholder that meets the default policy of Windows.
const ANY_PASSWORD: &str = "Password-1";
/// Text shown in place of the password.
const PASSWORD: &str = "<administrator password>";

/// Reads a team's own template.
pub fn read_template(path: &Located<PathBuf>) -> Result<SourceText> {
    let text = io::read_xml_limited(&path.value, io::limit::ANSWER_FILE)
        .map_err(|e| Error::io("read", &path.value, e).or_place(&path.place))?;
    Ok(SourceText::new(path.value.display().to_string(), text))
}

/// Returns the answer file for every release and kind of medium.
pub(super) fn render_all(template: &SourceText, recipe: &Recipe) -> Result<Vec<Secret>> {
    list_possible_facts(recipe)
        .map(|facts| render(template, &facts))
        .collect()
}

/// Lints the recipe's answer file for every release and kind of medium, and returns the result with
/// the fewest complaints. Fails if the template cannot be rendered at all.
pub fn check_template(template: &SourceText, recipe: &Recipe) -> Result<Diagnostics> {
    let mut fewest: Option<Diagnostics> = None;
    for facts in list_possible_facts(recipe) {
        let xml = render(template, &facts)?;
        let about = LintFacts::without_medium(&template.name, &facts);
        let found = lint(xml.expose(), &about);
        if fewest.as_ref().is_none_or(|f| found.count() < f.count()) {
            fewest = Some(found);
        }
    }
    let found = fewest.unwrap_or_default();
    let own = recipe.setup.answer_file.as_ref();
    Ok(if own.is_none_or(|path| recipe.may_quote(&path.value)) {
        found
    } else {
        found.hide_sources()
    })
}

/// Returns the commands that Windows Setup runs from this answer file, as `(pass, command line)` in
/// the file's order. The medium is not known yet, so these are the commands for every release and
/// kind of medium, each once. They are meant for display: product keys, URL signatures and user
/// names are masked, and a placeholder replaces the password.
pub fn list_commands(template: &SourceText, recipe: &Recipe) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let password = password::encode_administrator(&Secret::new(ANY_PASSWORD));
    for xml in render_all(template, recipe)? {
        // The lint reports a file that is not XML.
        let Ok(document) = Document::parse(xml.expose()) else {
            continue;
        };
        for (pass, line) in document.descendants().filter_map(parse_command) {
            let command = (pass, mask_secrets(&line.replace(&password, PASSWORD)));
            if !found.contains(&command) {
                found.push(command);
            }
        }
    }
    Ok(found)
}

/// Returns the pass and command line of a command element. Source: Microsoft, Unattended Windows
/// Setup Reference, the lists of Microsoft-Windows-Deployment, -Setup and -Shell-Setup.
fn parse_command(node: Node<'_, '_>) -> Option<(String, String)> {
    let line = match node.tag_name().name() {
        "RunSynchronousCommand" | "RunAsynchronousCommand" => "Path",
        "SynchronousCommand" | "AsynchronousCommand" => "CommandLine",
        _ => return None,
    };
    let mut children = node.children();
    let text = children.find(|c| c.tag_name().name() == line)?.text()?;
    let pass = node.ancestors().find_map(|above| above.attribute("pass"))?;
    Some((pass.to_owned(), text.trim().to_owned()))
}

/// Yields placeholder facts for every release and kind of medium.
fn list_possible_facts(recipe: &Recipe) -> impl Iterator<Item = AnswerFacts> {
    let media = WindowsRelease::ALL
        .into_iter()
        .flat_map(|r| [(r, true), (r, false)]);
    media.map(|(release, eval)| AnswerFacts {
        release,
        firmware: recipe.machine.firmware,
        image_name: recipe.media.image.value.clone(),
        eval,
        product_key: (!eval).then(|| ANY_KEY.to_string()),
        language: recipe.media.language.value.clone(),
        time_zone: recipe.media.time_zone.value.clone(),
        computer_name: recipe.setup.computer_name.clone(),
        administrator_password: Secret::new(ANY_PASSWORD),
        drivers: recipe.setup.drivers.clone(),
        tpm: recipe.machine.tpm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_recipe as recipe;

    #[test]
    fn commands_are_shown_without_secrets() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recipe.toml");
        let text = "schema = 1\nname = \"a\"\n[media]\nimage = \"datacenter-core\"\n\
                    [media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {}\n";
        std::fs::write(&path, text).expect("the recipe");
        let (read, diagnostics) = recipe::read(&path, &recipe::ReadOptions::default());
        let read = read.unwrap_or_else(|| panic!("{}", diagnostics.render(false)));
        let command = |line: &str| {
            format!("<SynchronousCommand><CommandLine>{line}</CommandLine></SynchronousCommand>")
        };
        let lines = [
            "curl https://me:word@h.example/a?sig=abcd",
            "slmgr /ipk BBBBB-BBBBB-BBBBB-BBBBB-BBBBB",
            "set {{administrator_password}}",
        ];
        let template = SourceText::new(
            "own.xml",
            format!(
                "<unattend><settings pass=\"oobeSystem\">{}</settings></unattend>",
                lines.map(command).concat()
            ),
        );
        let found = list_commands(&template, &read).expect("commands");
        let found: Vec<&str> = found.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(
            found,
            [
                "curl https://*******@h.example/a?********",
                "slmgr /ipk *****************************",
                "set <administrator password>",
            ]
        );
    }
}
