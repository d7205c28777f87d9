//! One request, from what the recipe says to a blob.

use std::path::PathBuf;

use crate::store::{Blob, Candidate};
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::{Address, ProofSpec};

use super::remote::Remote;
use super::wanted::{Of, Wanted};
use super::{Context, Request};

/// Fetches one file. Errors point at the line of the recipe that asked.
pub(super) async fn obtain(context: &Context, request: &Request) -> Result<Blob> {
    let origin = &request.origin;
    let proof_place = match &origin.proof {
        ProofSpec::Digest(digest) => &digest.place,
        ProofSpec::ChecksumFile { url, .. } => &url.place,
        ProofSpec::Signed => &origin.url.place,
        ProofSpec::Undecided(missing) => &missing.place,
        ProofSpec::Unverified { reason } => &reason.place,
    };
    let place = |e: Error| match e.kind() {
        Kind::Unproved => e.from_place(proof_place),
        _ => e.from_place(&origin.url.place),
    };
    obtain_unplaced(context, request).await.map_err(place)
}

async fn obtain_unplaced(context: &Context, request: &Request) -> Result<Blob> {
    let address = &request.origin.url.value;
    let wanted = Wanted::read(context, request, address).await?;
    match address {
        Address::Local(path) => local(&wanted, path.clone()).await,
        Address::Remote(url) => {
            let remote = Remote {
                shown: address.to_string(),
                url,
                wanted: &wanted,
            };
            remote.obtain().await
        }
    }
}

async fn local(wanted: &Wanted<'_>, path: PathBuf) -> Result<Blob> {
    tracing::debug!(path = %path.display(), "a local file");
    let there = path.clone();
    // The file may be gone when its bytes are locked: a bundle brings them.
    let of = match &wanted.terms.locked {
        Some(locked) if !path.exists() => Of::Digest(locked),
        _ => Of::Path(&path),
    };
    let judged = wanted.judged(of, move |store, terms, watch| {
        match store.find_locked(&there, terms, watch)? {
            Some(blob) => Ok(blob),
            None => store.admit(Candidate::Local(there.clone()), terms, watch),
        }
    });
    judged.await
}
