//! `winimg bundle`: recipe, lock and every input in one file.

use std::sync::Arc;

use crate::cli;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_supply::bundle::{self, Contents};
use winimg_supply::store::{Blob, Expected, Store, Watch};

use super::inputs::{self, Fetched};
use super::{Context, print, recipe, source};

pub fn run(args: &cli::Bundle, context: &Context) -> Result<()> {
    source::needs_file(&args.recipe, "bundle")?;
    let opened = recipe::open(&args.recipe, &args.lock, recipe::Look::Fetch, context)?;
    let path = &args.recipe.recipe;
    if opened.bundled {
        return Err(Error::new(Kind::Recipe, "this is a bundle already").at(path.display()));
    }
    let Some(lock) = &opened.lock else {
        return Err(
            Error::new(Kind::Recipe, "only a locked recipe can be bundled")
                .at(path.display())
                .cure(format!("`winimg lock {}` writes its lock", path.display())),
        );
    };
    let store = super::store(context)?;
    opened.remember_lock(&store)?;
    opened.check_age(&store, None, args.allow_rollback, context)?;
    let options = opened.fetch_options(&args.network, context);
    let fetched = inputs::fetch(&opened.recipe, &|_| true, &store, context, &options)?;
    let name = args.to.display().to_string();
    let watch = Watch::new(
        name.as_str(),
        Arc::clone(&context.sink),
        context.cancel.clone(),
    );
    let mut inputs = Vec::new();
    for input in &fetched {
        inputs.extend(files(input, &store, &watch)?);
    }
    let contents = Contents {
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
        "{name}: {} of the recipe, {} inputs in {} files, {} bytes\n",
        match written.files {
            1 => "1 file".to_string(),
            n => format!("{n} files"),
        },
        fetched.len(),
        written.inputs,
        written.size
    ))
}

/// The input itself and what proves it.
fn files(input: &Fetched, store: &Store, watch: &Watch) -> Result<Vec<Blob>> {
    let mut files = input.blobs.clone();
    files.iter().try_for_each(Blob::check)?;
    let have = |digest: &Digest| input.blobs.iter().any(|b| b.digest() == digest);
    for digest in input.found.evidence.values().filter(|d| !have(d)) {
        let found = store.find(Expected::Digest(digest.clone()), watch)?;
        let found = found.ok_or_else(|| {
            let fact = format!("what proves {} is no longer in the cache", input.id);
            Error::new(Kind::Fetch, fact).expected(digest)
        })?;
        files.push(found);
    }
    Ok(files)
}
