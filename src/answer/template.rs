//! Checks a template before its medium is known: whatever no medium could make right.
//!
//! Refuses to guess the medium: a complaint that depends on it is left to the build, which reads it before anything boots.

use std::path::PathBuf;

use roxmltree::{Document, Node};

use winimg_base::diag::Diagnostics;
use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_base::text::{Located, Secret, Source, masked};
use winimg_formats::wim::Release;
use winimg_recipe::recipe::Recipe;

use super::facts::Facts;
use super::{LintFacts, lint, password, render};

/// A key that has the right form and belongs to nobody.
const ANY_KEY: &str = "AAAAA-AAAAA-AAAAA-AAAAA-AAAAA";

/// One that meets the default policy of Windows.
const ANY_PASSWORD: &str = "Password-1";
/// What is shown of it.
const PASSWORD: &str = "<administrator password>";

/// A team's own template.
pub fn read_template(path: &Located<PathBuf>) -> Result<Source> {
    let text = io::read_xml_limited(&path.value, io::limit::ANSWER_FILE)
        .map_err(|e| Error::io("read", &path.value, e).from_place(&path.place))?;
    Ok(Source::new(path.value.display().to_string(), text))
}

/// Returns the answer file for every release and kind of medium.
pub(super) fn renderings(template: &Source, recipe: &Recipe) -> Result<Vec<Secret>> {
    of_any_medium(recipe)
        .map(|facts| render(template, &facts))
        .collect()
}

/// Complaints about the recipe's answer file that hold for every release and every kind of medium; those of the kindest
/// one. An error when it cannot be filled in at all.
pub fn check_template(template: &Source, recipe: &Recipe) -> Result<Diagnostics> {
    let mut kindest: Option<Diagnostics> = None;
    for facts in of_any_medium(recipe) {
        let xml = render(template, &facts)?;
        let about = LintFacts::without_medium(&template.name, &facts);
        let found = lint(xml.expose(), &about);
        if kindest.as_ref().is_none_or(|k| found.count() < k.count()) {
            kindest = Some(found);
        }
    }
    let found = kindest.unwrap_or_default();
    let own = recipe.setup.answer_file.as_ref();
    Ok(if own.is_none_or(|path| recipe.may_quote(&path.value)) {
        found
    } else {
        found.unquotable()
    })
}

/// The commands that Windows Setup runs by this answer file, as `(pass, command line)` in the file's order. Those of every
/// release and kind of medium, each once, because the medium is not known yet. They are to be shown: without product keys,
/// without what signs in a URL or names somebody, and with a word in the place of the password.
pub fn commands(template: &Source, recipe: &Recipe) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let password = password::encode_administrator(&Secret::new(ANY_PASSWORD));
    for xml in renderings(template, recipe)? {
        // A file that is no XML has been complained about.
        let Ok(document) = Document::parse(xml.expose()) else {
            continue;
        };
        for (pass, line) in document.descendants().filter_map(command) {
            let command = (pass, masked(&line.replace(&password, PASSWORD)));
            if !found.contains(&command) {
                found.push(command);
            }
        }
    }
    Ok(found)
}

/// Microsoft: Unattended Windows Setup Reference, the lists of Microsoft-Windows-Deployment, -Setup and -Shell-Setup.
fn command(node: Node<'_, '_>) -> Option<(String, String)> {
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

/// For every release and kind of medium.
fn of_any_medium(recipe: &Recipe) -> impl Iterator<Item = Facts> {
    let media = Release::ALL
        .into_iter()
        .flat_map(|r| [(r, true), (r, false)]);
    media.map(|(release, eval)| Facts {
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
    use winimg_recipe::recipe;

    #[test]
    fn commands_are_shown_without_secrets() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recipe.toml");
        let text = "schema = 1\nname = \"a\"\n[media]\nimage = \"datacenter-core\"\n\
                    [media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {}\n";
        std::fs::write(&path, text).expect("the recipe");
        let (read, said) = recipe::read(&path, &recipe::Options::default());
        let read = read.unwrap_or_else(|| panic!("{}", said.render(false)));
        let command = |line: &str| {
            format!("<SynchronousCommand><CommandLine>{line}</CommandLine></SynchronousCommand>")
        };
        let lines = [
            "curl https://me:word@h.example/a?sig=abcd",
            "slmgr /ipk BBBBB-BBBBB-BBBBB-BBBBB-BBBBB",
            "set {{administrator_password}}",
        ];
        let template = Source::new(
            "own.xml",
            format!(
                "<unattend><settings pass=\"oobeSystem\">{}</settings></unattend>",
                lines.map(command).concat()
            ),
        );
        let found = commands(&template, &read).expect("commands");
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
