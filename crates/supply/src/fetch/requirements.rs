//! The requirements of one request: its terms, with signature evidence from the store or fetched
//! again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::runtime::run_blocking;
use crate::store::{AdmitTerms, ExpectedBytes, ProgressWatch, SignatureTerms, Store};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::{FileAddress, MissingProof, ProofSpec};
use winimg_trust::checksum::WantedChecksum;

use super::evidence::GatheredEvidence;
use super::failure::refuse_plain_http;
use super::signatures::{SignatureFetcher, needs_log};
use super::{FetchContext, FetchRequest, checksum_file};

pub(super) struct FileRequirements<'a> {
    pub context: &'a FetchContext,
    pub request: &'a FetchRequest,
    pub watch: ProgressWatch,
    /// Without signatures.
    pub terms: AdmitTerms,
}

/// The bytes to verify. A transparency log is queried by their digest.
#[derive(Clone, Copy)]
pub(super) enum JudgedBytes<'a> {
    Digest(&'a Digest),
    Path(&'a Path),
    NothingYet,
}

impl<'a> FileRequirements<'a> {
    /// Reads what the file must be from the recipe, its lock and, if the recipe names one, a
    /// checksum file.
    pub async fn read(
        context: &'a FetchContext,
        request: &'a FetchRequest,
        address: &FileAddress,
    ) -> Result<Self> {
        let watch = context.watch(&request.id.to_string());
        let mut gathered = GatheredEvidence::default();
        let mut vouched = Vec::new();
        let locked = request.origin.locked.as_ref();
        let expected = match &request.origin.proof {
            ProofSpec::Digest(digest) => ExpectedBytes::Digest(digest.value.clone()),
            ProofSpec::Signed => ExpectedBytes::Signed,
            ProofSpec::Undecided(missing) => accept_first_use(context, &watch, address, missing)?,
            ProofSpec::Unverified { reason } => {
                // A lock names the bytes.
                if address.is_plain_http() && locked.is_none() {
                    let place = &request.origin.url.place;
                    return Err(refuse_plain_http(&watch.what, &address.to_string(), place));
                }
                watch.warn(format!("{} is not verified: {}", request.id, reason.value));
                ExpectedBytes::Unverified {
                    reason: reason.value.clone(),
                }
            }
            ProofSpec::ChecksumFile {
                url,
                entry,
                signatures,
            } => {
                // Mirrors may keep files in other folders.
                let path = request.origin.url.value.path();
                let line = match entry {
                    Some(entry) => WantedChecksum::Entry(entry),
                    None => WantedChecksum::Path(&path),
                };
                let read =
                    checksum_file::read(context, request, url, line, signatures, &mut gathered);
                let (expected, signers) = read.await?;
                vouched = signers;
                expected
            }
        };
        let terms = AdmitTerms {
            locked: locked.map(|l| l.digest.clone()),
            lock: locked.map(|l| l.source.clone()),
            evidence: gathered.evidence,
            vouched,
            ..expected.into()
        };
        Ok(Self {
            context,
            request,
            watch,
            terms,
        })
    }

    pub fn is_signed(&self) -> bool {
        !self.request.origin.signatures.is_empty()
    }

    /// Returns true if the signatures can only be fetched once the file is there.
    pub fn needs_file(&self) -> bool {
        needs_log(&self.request.origin.signatures)
    }

    /// Returns the terms with the published signature evidence, and whether some of it may be out
    /// of date.
    pub async fn fetch_signatures(
        &self,
        of: JudgedBytes<'_>,
        refetch: bool,
    ) -> Result<(AdmitTerms, bool)> {
        let mut terms = self.terms.clone();
        if !self.is_signed() {
            return Ok((terms, false));
        }
        let file = match of {
            JudgedBytes::NothingYet => None,
            _ if !self.needs_file() => None,
            JudgedBytes::Digest(digest) => Some(digest.clone()),
            JudgedBytes::Path(path) => Some(sha256_of(path.to_path_buf()).await?),
        };
        let fetcher = SignatureFetcher {
            context: self.context,
            what: &self.watch.what,
            groups: &self.request.origin.signatures,
            locked: self.request.origin.locked.as_ref(),
            refetch,
        };
        let mut gathered = GatheredEvidence::default();
        let groups = fetcher.fetch_all(file.as_ref(), &mut gathered).await?;
        terms.evidence.extend(gathered.evidence);
        terms.signatures = Arc::new(SignatureTerms {
            groups,
            file: self.request.file.clone(),
            published: self.request.origin.url.value.file_name(),
            archive: self.request.archive.map(Into::into),
        });
        let may_be_old = gathered.is_kept && !self.context.options.offline;
        Ok((terms, may_be_old))
    }

    /// Runs work that verifies the file, with stored evidence first. Outdated evidence may cause a
    /// refusal: the work then runs once more with what is published now.
    pub async fn judge_with<T: Send + 'static>(
        &self,
        of: JudgedBytes<'_>,
        work: impl Fn(&Store, &AdmitTerms, &ProgressWatch) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        let (terms, may_be_old) = self.fetch_signatures(of, false).await?;
        let refused = match self.run_on_store(&terms, work.clone()).await {
            Err(e) if e.kind() == Kind::Unproved && may_be_old => e,
            other => return other,
        };
        match self.fetch_signatures(of, true).await {
            Ok((terms, _)) => self.run_on_store(&terms, work).await,
            Err(e) if e.kind() == Kind::Cancelled => Err(e),
            Err(e) => Err(refused.lines([format!("requested it again: {}", e.fact())])),
        }
    }

    pub async fn run_on_store<T: Send + 'static>(
        &self,
        terms: &AdmitTerms,
        work: impl FnOnce(&Store, &AdmitTerms, &ProgressWatch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.context.store.clone();
        let (terms, watch) = (terms.clone(), self.watch.clone());
        run_blocking(move || work(&store, &terms, &watch)).await
    }
}

/// Accepts a file without proof, but only where it is fetched to be pinned.
fn accept_first_use(
    context: &FetchContext,
    watch: &ProgressWatch,
    address: &FileAddress,
    missing: &MissingProof,
) -> Result<ExpectedBytes> {
    if !context.options.first_use {
        return Err(Error::new(Kind::Unproved, missing.fact.as_str())
            .or_place(&missing.place)
            .cure("run `winimg pin`: it fetches the file and writes its digest into the recipe"));
    }
    if address.is_plain_http() {
        watch.warn(format!(
            "{} is downloaded over plain http: anyone on the network path may have changed it",
            watch.what
        ));
    }
    Ok(ExpectedBytes::Unverified {
        reason: "it is fetched to be pinned".into(),
    })
}

async fn sha256_of(path: PathBuf) -> Result<Digest> {
    run_blocking(move || Ok(io::compute_sha256(&path)?.0)).await
}
