//! `winimg fetch`: downloads the inputs into the cache.

use serde_json::json;

use crate::cli;
use crate::report;
use winimg_base::error::Result;
use winimg_base::text::redact;
use winimg_recipe::{FileAddress, InputId, InputSource, Recipe};

use super::inputs::{self, VerifiedInput};
use super::recipe::{self, RecipePurpose};
use super::{CommandContext, documents, print, print_json, shared_cache};

pub fn run(args: &cli::FetchArgs, context: &CommandContext) -> Result<()> {
    let opened = recipe::open(&args.recipe, &args.lock, RecipePurpose::Fetch, context)?;
    let store = super::open_store(context)?;
    opened.record_lock(&store)?;
    opened.check_age(&store, None, args.allow_rollback, context)?;
    let mut options = opened.fetch_options(&args.network, context);
    options.shared = shared_cache::open_for_inputs(&args.shared, options.offline, context)?;
    let fetched = inputs::fetch(&opened.recipe, &|_| true, &store, context, &options)?;
    opened.record_use(&store)?;
    if args.json {
        return print_json(&json!(to_document(&fetched)));
    }
    let mut text = render_inputs(&fetched);
    for input in &fetched {
        let url = find_url(&opened.recipe, &input.id);
        let mirror = url
            .as_ref()
            .and_then(|url| store.mirror_of(url, &input.found.digest));
        if let (Some(mirror), Some(url)) = (mirror, url) {
            text += &format!(
                "{} was downloaded from {mirror} instead of {}\n",
                input.id,
                redact(&url)
            );
        }
    }
    print(&text)
}

/// Returns the recipe's URL of a remote input.
fn find_url(recipe: &Recipe, id: &InputId) -> Option<String> {
    let input = recipe.find_input(id)?;
    match (input.source, input.origin().map(|origin| &origin.url.value)) {
        (InputSource::Image(image), _) => Some(image.reference.value.kept_as()),
        (_, Some(FileAddress::Remote(url))) => Some(url.to_string()),
        _ => None,
    }
}

fn to_document(fetched: &[VerifiedInput]) -> documents::FetchResult {
    documents::FetchResult {
        inputs: fetched
            .iter()
            .map(|input| documents::FetchedInput {
                name: input.id.to_string(),
                size: input.found.size,
                digest: input.found.digest.to_string(),
                from: input.from.to_string(),
                signers: input.found.signers.clone(),
            })
            .collect(),
    }
}

fn render_inputs(fetched: &[VerifiedInput]) -> String {
    let rows: Vec<Vec<String>> = fetched.iter().map(render_row).collect();
    report::render_table(&["name", "size", "digest", "from", "signer"], &rows, &[1])
}

fn render_row(input: &VerifiedInput) -> Vec<String> {
    let signers = if input.found.signers.is_empty() {
        "-".to_string()
    } else {
        input
            .found
            .signers
            .iter()
            .map(|s| format!("{} {}", s.scheme, s.signer))
            .collect::<Vec<_>>()
            .join(", ")
    };
    vec![
        input.id.to_string(),
        input.found.size.to_string(),
        input.found.digest.to_string(),
        input.from.to_string(),
        signers,
    ]
}
