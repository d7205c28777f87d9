//! `winimg bundle`: packs recipe, lock and all inputs into one file.

use std::sync::Arc;

use crate::cli;
use winimg_base::error::{Error, Kind, Result};
use winimg_supply::bundle::{self, BundleContents};
use winimg_supply::store::{ExpectedBytes, ProgressWatch, Store, StoredBlob};

use super::inputs::{self, VerifiedInput};
use super::recipe::{self, RecipePurpose};
use super::{CommandContext, print, source};

pub fn run(args: &cli::BundleArgs, context: &CommandContext) -> Result<()> {
    source::require_file(&args.recipe, "bundle")?;
    let opened = recipe::open(&args.recipe, &args.lock, RecipePurpose::Fetch, context)?;
    let path = &args.recipe.recipe;
    if opened.bundled {
        return Err(Error::new(Kind::Recipe, "this is already a bundle").at(path.display()));
    }
    let Some(lock) = &opened.lock else {
        return Err(
            Error::new(Kind::Recipe, "only a locked recipe can be bundled")
                .at(path.display())
                .cure(format!("run `winimg lock {}`", path.display())),
        );
    };
    let store = super::open_store(context)?;
    opened.record_lock(&store)?;
    opened.check_age(&store, None, args.allow_rollback, context)?;
    let options = opened.fetch_options(&args.network, context);
    let fetched = inputs::fetch(&opened.recipe, &|_| true, &store, context, &options)?;
    let name = args.to.display().to_string();
    let watch = ProgressWatch::new(
        name.as_str(),
        Arc::clone(&context.sink),
        context.cancel.clone(),
    );
    let mut inputs = Vec::new();
    for input in &fetched {
        inputs.extend(collect_files(input, &store, &watch)?);
    }
    let contents = BundleContents {
        recipe: &opened.recipe,
        options: &opened.source.options,
        lock,
        inputs,
    };
    let written = bundle::write(contents, &args.to, &watch)?;
    opened.record_use(&store)?;
    for remark in &written.remarks {
        context.sink.warn(remark.clone());
    }
    print(&format!(
        "{name}: {}, {} inputs in {} files, {} bytes\n",
        match written.files {
            1 => "1 recipe file".to_string(),
            n => format!("{n} recipe files"),
        },
        fetched.len(),
        written.inputs,
        written.size
    ))
}

/// Returns the blobs of an input and of its evidence (checksum files, signatures).
fn collect_files(
    input: &VerifiedInput,
    store: &Store,
    watch: &ProgressWatch,
) -> Result<Vec<StoredBlob>> {
    let mut files = input.blobs.clone();
    files.iter().try_for_each(StoredBlob::check)?;
    for digest in input.found.evidence.values() {
        if input.blobs.iter().any(|b| b.digest() == digest) {
            continue;
        }
        let found = store
            .find(ExpectedBytes::Digest(digest.clone()), watch)?
            .ok_or_else(|| {
                let fact = format!("the evidence for {} is no longer in the cache", input.id);
                Error::new(Kind::Fetch, fact).expected(digest)
            })?;
        files.push(found);
    }
    Ok(files)
}
