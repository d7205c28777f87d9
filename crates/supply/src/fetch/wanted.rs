//! All that one request asks for: the terms, with the signatures' evidence as it is kept or fetched anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::{Expected, Signatures, Store, Terms, Watch};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::recipe::{Address, MissingProof, ProofSpec};
use winimg_trust::checksum::Wanted as Line;

use super::evidence::Gathered;
use super::failure::plain_http;
use super::signatures::{Bring, ask_a_log};
use super::{Context, Request, blocking, checksum_file};

pub(super) struct Wanted<'a> {
    pub context: &'a Context,
    pub request: &'a Request,
    pub watch: Watch,
    /// Without signatures.
    pub terms: Terms,
}

/// Which bytes are to be judged: a transparency log is asked by their digest.
#[derive(Clone, Copy)]
pub(super) enum Of<'a> {
    Digest(&'a Digest),
    Path(&'a Path),
    NothingYet,
}

impl<'a> Wanted<'a> {
    /// What the file must be, read from the recipe, its lock and, where it says so, from a checksum file.
    pub async fn read(
        context: &'a Context,
        request: &'a Request,
        address: &Address,
    ) -> Result<Self> {
        let watch = context.watch(&request.id.to_string());
        let mut gathered = Gathered::default();
        let mut vouched = Vec::new();
        let locked = request.origin.locked.as_ref();
        let expected = match &request.origin.proof {
            ProofSpec::Digest(digest) => Expected::Digest(digest.value.clone()),
            ProofSpec::Signed => Expected::Signed,
            ProofSpec::Undecided(missing) => first_use(context, &watch, address, missing)?,
            ProofSpec::Unverified { reason } => {
                // A lock names the bytes.
                if address.is_plain_http() && locked.is_none() {
                    let place = &request.origin.url.place;
                    return Err(plain_http(&watch.what, &address.to_string(), place));
                }
                watch.warn(format!("{} is not verified: {}", request.id, reason.value));
                Expected::Unverified {
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
                    Some(entry) => Line::Entry(entry),
                    None => Line::Path(&path),
                };
                let said =
                    checksum_file::read(context, request, url, line, signatures, &mut gathered);
                let (expected, signers) = said.await?;
                vouched = signers;
                expected
            }
        };
        let terms = Terms {
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

    /// Whether the signatures can be brought before the file is there.
    pub fn needs_file(&self) -> bool {
        ask_a_log(&self.request.origin.signatures)
    }

    /// The terms with what was published for the signatures, and whether some of it may be out of date.
    pub async fn signed(&self, of: Of<'_>, anew: bool) -> Result<(Terms, bool)> {
        let mut terms = self.terms.clone();
        if !self.is_signed() {
            return Ok((terms, false));
        }
        let file = match of {
            Of::NothingYet => None,
            _ if !self.needs_file() => None,
            Of::Digest(digest) => Some(digest.clone()),
            Of::Path(path) => Some(sha256_of(path.to_path_buf()).await?),
        };
        let bring = Bring {
            context: self.context,
            what: &self.watch.what,
            groups: &self.request.origin.signatures,
            locked: self.request.origin.locked.as_ref(),
            anew,
        };
        let mut gathered = Gathered::default();
        let groups = bring.all(file.as_ref(), &mut gathered).await?;
        terms.evidence.extend(gathered.evidence);
        terms.signatures = Arc::new(Signatures {
            groups,
            file: self.request.file.clone(),
            published: self.request.origin.url.value.file_name(),
            archive: self.request.archive.map(Into::into),
        });
        let may_be_old = gathered.is_kept && !self.context.options.offline;
        Ok((terms, may_be_old))
    }

    /// Does what needs a judgement with the evidence that is kept. A refusal may be the kept evidence's fault: then
    /// once more with what is published now.
    pub async fn judged<T: Send + 'static>(
        &self,
        of: Of<'_>,
        work: impl Fn(&Store, &Terms, &Watch) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        let (terms, may_be_old) = self.signed(of, false).await?;
        let refused = match self.at_store(&terms, work.clone()).await {
            Err(e) if e.kind() == Kind::Unproved && may_be_old => e,
            other => return other,
        };
        match self.signed(of, true).await {
            Ok((terms, _)) => self.at_store(&terms, work).await,
            Err(e) if e.kind() == Kind::Cancelled => Err(e),
            Err(e) => Err(refused.lines([format!("requested it again: {}", e.fact())])),
        }
    }

    pub async fn at_store<T: Send + 'static>(
        &self,
        terms: &Terms,
        work: impl FnOnce(&Store, &Terms, &Watch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.context.store.clone();
        let (terms, watch) = (terms.clone(), self.watch.clone());
        blocking(move || work(&store, &terms, &watch)).await
    }
}

/// What nothing proves yet: taken as it comes where it is to be pinned, and nowhere else.
fn first_use(
    context: &Context,
    watch: &Watch,
    address: &Address,
    missing: &MissingProof,
) -> Result<Expected> {
    if !context.options.first_use {
        return Err(Error::new(Kind::Unproved, missing.fact.as_str())
            .from_place(&missing.place)
            .cure("`winimg pin` fetches the file and writes its digest into the recipe"));
    }
    if address.is_plain_http() {
        watch.warn(format!(
            "{} comes over plain http: anyone on the way may have changed it",
            watch.what
        ));
    }
    Ok(Expected::Unverified {
        reason: "it is fetched to be pinned".into(),
    })
}

async fn sha256_of(path: PathBuf) -> Result<Digest> {
    blocking(move || Ok(io::sha256(&path)?.0)).await
}
