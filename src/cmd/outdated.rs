//! `winimg outdated`: reports later versions by the publishers' own lists, and URLs that no longer
//! exist.
//!
//! Changes nothing. The lists are not verified: they say which versions exist, not that they can be
//! trusted.

use std::collections::BTreeMap;
use std::process::ExitCode;

use url::Url;

use crate::cli;
use crate::report::render_table;
use winimg_base::error::{Kind, Result};
use winimg_base::text::redact;
use winimg_recipe::{FileAddress, Recipe};
use winimg_supply::fetch::documents::Documents;

use super::documents::{DeadUrl, NewerVersion, OutdatedResult};
use super::successors::{fail_if_unreachable, read_lists};
use super::{CommandContext, print, print_json, recipe, source};

/// Exit status if a component has a later version (docs/exit-status.md).
const OUTDATED: u8 = 13;
/// Exit status if a URL of the recipe is gone.
const DEAD: u8 = 14;

pub fn run(args: &cli::OutdatedArgs, context: &CommandContext) -> Result<ExitCode> {
    let source = source::open_source(&args.recipe, context)?;
    let recipe = recipe::read_undecided(&source, context)?;
    let options = context.fetch_options(false, &recipe);
    let store = super::open_store(context)?;
    let documents = Documents::new(&store, &context.sink, &context.cancel, &options);
    let mut found = OutdatedResult::default();
    find_versions(&recipe, &documents, &mut found)?;
    if args.urls {
        check_urls(&recipe, &documents, &mut found)?;
    }
    if args.json {
        print_json(&serde_json::json!(found))?;
    } else {
        print(&render(&found))?;
    }
    fail_if_unreachable(&found.unanswered)?;
    Ok(match (found.dead.is_empty(), found.newer.is_empty()) {
        (false, _) => ExitCode::from(DEAD),
        (true, false) => ExitCode::from(OUTDATED),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Finds later versions of each component that has a version list.
fn find_versions(recipe: &Recipe, documents: &Documents, found: &mut OutdatedResult) -> Result<()> {
    found.unlisted = recipe
        .components
        .iter()
        .filter(|c| c.versions.is_none() || c.version.is_none())
        .map(|c| c.name.value.clone())
        .collect();
    for one in read_lists(recipe, &|_| true, documents)? {
        match one.later {
            Ok(later) => found.newer.extend(later.newest.map(|newest| NewerVersion {
                name: one.name,
                version: one.version,
                in_series: later.in_series,
                newest,
                list: one.list,
            })),
            Err(why) => found.unanswered.push(DeadUrl {
                name: one.name,
                url: one.list,
                why,
            }),
        }
    }
    Ok(())
}

/// Checks every URL of the recipe's downloads and their evidence with HEAD requests.
fn check_urls(recipe: &Recipe, documents: &Documents, found: &mut OutdatedResult) -> Result<()> {
    let mut all: BTreeMap<Url, String> = BTreeMap::new();
    for input in recipe.inputs() {
        for address in input.addresses() {
            if let FileAddress::Remote(url) = address {
                all.entry(url.clone())
                    .or_insert_with(|| input.id.to_string());
            }
        }
    }
    let asked = all
        .iter()
        .map(|(url, name)| (name.clone(), url.clone()))
        .collect();
    let answers = documents.check_all(asked)?;
    for ((url, name), answer) in all.iter().zip(answers) {
        let (rows, why) = match answer {
            Ok(None) => continue,
            Ok(Some(gone)) => (&mut found.dead, gone),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => (&mut found.unanswered, error.fact().to_string()),
        };
        rows.push(DeadUrl {
            name: name.clone(),
            url: redact(url.as_str()),
            why,
        });
    }
    found.looked_at = Some(all.len());
    Ok(())
}

fn render(found: &OutdatedResult) -> String {
    let mut text = String::new();
    if !found.newer.is_empty() {
        let rows: Vec<Vec<String>> = found
            .newer
            .iter()
            .map(|newer| {
                vec![
                    newer.name.clone(),
                    newer.version.clone(),
                    newer.in_series.clone().unwrap_or("-".into()),
                    newer.newest.clone(),
                ]
            })
            .collect();
        text += &render_table(&["name", "version", "same series", "newest"], &rows, &[]);
    } else {
        text += "no later version is listed\n";
    }
    if !found.unlisted.is_empty() {
        let names = found.unlisted.join(", ");
        text += &format!("without a version list: {names}\n");
    }
    for dead in &found.dead {
        text += &format!("{}: {} is gone: {}\n", dead.name, dead.url, dead.why);
    }
    if let Some(count) = found.looked_at {
        text += &format!("{count} URLs checked, {} gone\n", found.dead.len());
    }
    text
}
