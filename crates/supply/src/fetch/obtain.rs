//! One request, from what the recipe says to a blob.

use std::path::Path;

use crate::store::Candidate;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::{Address, ProofSpec};

use super::remote::Remote;
use super::wanted::{Of, Wanted};
use super::{CameFrom, Context, Fetched, Request};

/// Fetches one file. Errors point at the line of the recipe that asked.
pub(super) async fn obtain(context: &Context, request: &Request) -> Result<Fetched> {
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

async fn obtain_unplaced(context: &Context, request: &Request) -> Result<Fetched> {
    let address = &request.origin.url.value;
    let wanted = Wanted::read(context, request, address).await?;
    match address {
        Address::Local(path) => local(&wanted, path).await,
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

async fn local(wanted: &Wanted<'_>, path: &Path) -> Result<Fetched> {
    tracing::debug!(path = %path.display(), "a local file");
    // The file may be gone when its bytes are locked: a bundle brings them.
    let locked = wanted.terms.locked.as_ref();
    if let Some(locked) = locked.filter(|_| !path.exists()) {
        let found = wanted.judged(Of::Digest(locked), |store, terms, watch| {
            store.find(terms, watch)
        });
        if let Some(blob) = found.await? {
            let from = CameFrom::Cache;
            return Ok(Fetched { blob, from });
        }
    }
    let there = path.to_path_buf();
    let judged = wanted.judged(Of::Path(path), move |store, terms, watch| {
        store.admit(Candidate::Local(there.clone()), terms, watch)
    });
    Ok(Fetched {
        blob: judged.await?,
        from: CameFrom::Local,
    })
}
