//! `winimg outdated`: which pinned versions have successors, by the publishers' own lists; and which addresses are gone.
//!
//! Changes nothing and proves nothing: a list says what there is, not that it is good.

use std::collections::BTreeMap;
use std::process::ExitCode;

use url::Url;

use crate::cli;
use winimg_base::error::{Kind, Result};
use winimg_base::text::redact;
use winimg_recipe::recipe::{Address, Recipe};
use winimg_supply::fetch::documents::Documents;

use super::documents::{Dead, Newer, Outdated};
use super::successors::{listed, unanswered};
use super::{Context, inputs, print, print_json, recipe, source};

/// Something has a successor (docs/exit-status.md).
const OUTDATED: u8 = 13;
/// An address of the recipe is gone.
const DEAD: u8 = 14;

pub fn run(args: &cli::Outdated, context: &Context) -> Result<ExitCode> {
    let source = source::source(&args.recipe, context)?;
    let recipe = recipe::undecided(&source, context)?;
    let options = context.fetch_options(false, &recipe);
    let store = super::store(context)?;
    let documents = Documents::new(&store, &context.sink, &context.cancel, &options);
    let mut found = Outdated::default();
    versions(&recipe, &documents, &mut found)?;
    if args.urls {
        addresses(&recipe, &documents, &mut found)?;
    }
    match args.json {
        true => print_json(&serde_json::json!(found))?,
        false => print(&text(&found))?,
    }
    unanswered(&found.unanswered)?;
    Ok(match (found.dead.is_empty(), found.newer.is_empty()) {
        (false, _) => ExitCode::from(DEAD),
        (true, false) => ExitCode::from(OUTDATED),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// What comes after the version of each component that says where its versions are listed.
fn versions(recipe: &Recipe, documents: &Documents, found: &mut Outdated) -> Result<()> {
    let unlisted = recipe.components.iter();
    let unlisted = unlisted.filter(|c| c.versions.is_none() || c.version.is_none());
    found.unlisted = unlisted.map(|c| c.name.value.clone()).collect();
    for one in listed(recipe, &|_| true, documents)? {
        match one.later {
            Ok(later) => found.newer.extend(later.newest.map(|newest| Newer {
                name: one.name,
                version: one.version,
                in_series: later.in_series,
                newest,
                list: one.list,
            })),
            Err(why) => found.unanswered.push(Dead {
                name: one.name,
                url: one.list,
                why,
            }),
        }
    }
    Ok(())
}

/// Every address of the recipe's downloads and of what proves them, looked at without its content.
fn addresses(recipe: &Recipe, documents: &Documents, found: &mut Outdated) -> Result<()> {
    let mut all: BTreeMap<Url, String> = BTreeMap::new();
    for input in recipe.inputs() {
        for address in input.addresses() {
            if let Address::Remote(url) = address {
                all.entry(url.clone())
                    .or_insert_with(|| input.id.to_string());
            }
        }
    }
    let asked = all
        .iter()
        .map(|(url, name)| (name.clone(), url.clone()))
        .collect();
    let answers = documents.heads(asked)?;
    for ((url, name), answer) in all.iter().zip(answers) {
        let row = |why: String| Dead {
            name: name.clone(),
            url: redact(url.as_str()),
            why,
        };
        match answer {
            Ok(None) => {}
            Ok(Some(gone)) => found.dead.push(row(gone)),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => found.unanswered.push(row(error.fact().to_string())),
        }
    }
    found.looked_at = Some(all.len());
    Ok(())
}

fn text(found: &Outdated) -> String {
    let mut text = String::new();
    if !found.newer.is_empty() {
        let row = |newer: &Newer| {
            vec![
                newer.name.clone(),
                newer.version.clone(),
                newer.in_series.clone().unwrap_or("-".into()),
                newer.newest.clone(),
            ]
        };
        let rows: Vec<Vec<String>> = found.newer.iter().map(row).collect();
        text += &inputs::table(&["name", "version", "same series", "newest"], &rows, &[]);
    } else {
        text += "no listed component has a successor\n";
    }
    if !found.unlisted.is_empty() {
        let names = found.unlisted.join(", ");
        text += &format!("without a list of versions: {names}\n");
    }
    for dead in &found.dead {
        text += &format!("{}: {} is gone: {}\n", dead.name, dead.url, dead.why);
    }
    if let Some(count) = found.looked_at {
        text += &format!("{count} addresses looked at, {} gone\n", found.dead.len());
    }
    text
}
