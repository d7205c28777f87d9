//! Fetches one requested file into the store.

use std::path::Path;

use crate::store::AdmitCandidate;
use winimg_base::error::{Kind, Result};
use winimg_recipe::{FileAddress, ProofSpec};

use super::remote_file::RemoteFile;
use super::requirements::{FileRequirements, JudgedBytes};
use super::{FetchContext, FetchRequest, FetchSource, FetchedFile};

/// Fetches one file. Errors point at the recipe's line.
pub(super) async fn fetch_one(
    context: &FetchContext,
    request: &FetchRequest,
) -> Result<FetchedFile> {
    let origin = &request.origin;
    let proof_place = match &origin.proof {
        ProofSpec::Digest(digest) => &digest.place,
        ProofSpec::ChecksumFile { url, .. } => &url.place,
        ProofSpec::Signed => &origin.url.place,
        ProofSpec::Undecided(missing) => &missing.place,
        ProofSpec::Unverified { reason } => &reason.place,
    };
    obtain_unplaced(context, request)
        .await
        .map_err(|e| match e.kind() {
            Kind::Unproved => e.or_place(proof_place),
            _ => e.or_place(&origin.url.place),
        })
}

async fn obtain_unplaced(context: &FetchContext, request: &FetchRequest) -> Result<FetchedFile> {
    let address = &request.origin.url.value;
    let wanted = FileRequirements::read(context, request, address).await?;
    match address {
        FileAddress::Local(path) => admit_local(&wanted, path).await,
        FileAddress::Remote(url) => {
            let remote = RemoteFile {
                display_url: address.to_string(),
                url,
                wanted: &wanted,
            };
            remote.fetch().await
        }
    }
}

async fn admit_local(wanted: &FileRequirements<'_>, path: &Path) -> Result<FetchedFile> {
    tracing::debug!(path = %path.display(), "using a local file");
    // If its digest is locked, the file may be missing: a bundle has already stored the bytes.
    let locked = wanted.terms.locked.as_ref();
    if let Some(locked) = locked.filter(|_| !path.exists()) {
        let found = wanted.judge_with(JudgedBytes::Digest(locked), |store, terms, watch| {
            store.find(terms, watch)
        });
        if let Some(blob) = found.await? {
            let from = FetchSource::Cache;
            return Ok(FetchedFile { blob, from });
        }
    }
    let there = path.to_path_buf();
    let judged = wanted.judge_with(JudgedBytes::Path(path), move |store, terms, watch| {
        store.admit(AdmitCandidate::Local(there.clone()), terms, watch)
    });
    Ok(FetchedFile {
        blob: judged.await?,
        from: FetchSource::Local,
    })
}
