//! One request, from what the recipe says to a blob.

use std::path::PathBuf;

use crate::store::{Blob, Candidate};
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::ProofWish;

use super::remote::Remote;
use super::wanted::{Of, Wanted};
use super::{Address, Context, Request};

/// Fetches one file. Errors point at the line of the recipe that asked.
pub(super) async fn obtain(context: &Context, request: &Request) -> Result<Blob> {
    let origin = &request.origin;
    let proof_place = match &origin.proof {
        ProofWish::Digest(digest) => &digest.place,
        ProofWish::ChecksumFile { url, .. } => &url.place,
        ProofWish::Signed => &origin.url.place,
        ProofWish::Undecided(missing) => &missing.place,
        ProofWish::Unverified { reason } => &reason.place,
    };
    let place = |e: Error| match e.kind() {
        Kind::Unproved => e.from_place(proof_place),
        _ => e.from_place(&origin.url.place),
    };
    obtain_unplaced(context, request).await.map_err(place)
}

async fn obtain_unplaced(context: &Context, request: &Request) -> Result<Blob> {
    let address = Address::read(&request.origin.url)?;
    let wanted = Wanted::read(context, request, &address).await?;
    match address {
        Address::Local(path) => local(&wanted, path).await,
        Address::Remote(url) => {
            let remote = Remote {
                shown: Address::Remote(url.clone()).shown(),
                url: &url,
                wanted: &wanted,
            };
            remote.obtain().await
        }
    }
}

async fn local(wanted: &Wanted<'_>, path: PathBuf) -> Result<Blob> {
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
