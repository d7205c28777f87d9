//! `winimg fetch`: fills the cache, and nothing else.

use serde_json::json;

use crate::cli;
use winimg_base::error::Result;
use winimg_base::text::redact;
use winimg_recipe::recipe::{Address, InputId, InputSource, Recipe};
use winimg_trust::Signer;

use super::inputs::{self, Fetched};
use super::{Context, documents, print, print_json, recipe, shared_cache};

pub fn run(args: &cli::Fetch, context: &Context) -> Result<()> {
    let opened = recipe::open(&args.recipe, &args.lock, recipe::Look::Fetch, context)?;
    let store = super::store(context)?;
    opened.remember_lock(&store)?;
    opened.check_age(&store, None, args.allow_rollback, context)?;
    let mut options = opened.fetch_options(&args.network, context);
    options.shared = shared_cache::inputs(&args.shared, options.offline, context)?;
    let fetched = inputs::fetch(&opened.recipe, &|_| true, &store, context, &options)?;
    opened.record_use(&store)?;
    if args.json {
        return print_json(&json!(document(&fetched)));
    }
    let mut text = table(&fetched);
    for input in &fetched {
        let url = url(&opened.recipe, &input.id);
        let mirror = url
            .as_ref()
            .and_then(|url| store.mirror_of(url, &input.found.digest));
        if let (Some(mirror), Some(url)) = (mirror, url) {
            text += &format!(
                "{} came from {mirror} instead of {}\n",
                input.id,
                redact(&url)
            );
        }
    }
    print(&text)
}

/// The recipe's own address of an input that a network has.
fn url(recipe: &Recipe, id: &InputId) -> Option<String> {
    let input = recipe.input(id)?;
    match (input.source, input.origin().map(|origin| &origin.url.value)) {
        (InputSource::Image(image), _) => Some(image.reference.value.kept_as()),
        (_, Some(Address::Remote(url))) => Some(url.to_string()),
        _ => None,
    }
}

fn document(fetched: &[Fetched]) -> documents::Fetched {
    let input = |input: &Fetched| documents::Input {
        name: input.id.to_string(),
        size: input.found.size,
        digest: input.found.digest.to_string(),
        from: input.from.to_string(),
        signers: input.found.signers.clone(),
    };
    documents::Fetched {
        inputs: fetched.iter().map(input).collect(),
    }
}

fn table(fetched: &[Fetched]) -> String {
    let rows: Vec<Vec<String>> = fetched.iter().map(row).collect();
    inputs::table(&["name", "size", "digest", "from", "signer"], &rows, &[1])
}

fn row(input: &Fetched) -> Vec<String> {
    let signer = |s: &Signer| format!("{} {}", s.scheme, s.signer);
    let signers: Vec<String> = input.found.signers.iter().map(signer).collect();
    let signers = match signers.is_empty() {
        true => "-".to_string(),
        false => signers.join(", "),
    };
    vec![
        input.id.to_string(),
        input.found.size.to_string(),
        input.found.digest.to_string(),
        input.from.to_string(),
        signers,
    ]
}
