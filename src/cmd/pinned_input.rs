//! Inputs that are downloaded for the first time, with the digests that pin them.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use crate::engine::inputs::merge_errors;
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::{DownloadSpec, FileAddress, MissingProof, ProofSpec, Recipe, RecipeEdit};
use winimg_supply::fetch::{self, FetchOptions};
use winimg_supply::store::{Store, StoredBlob};
use winimg_trust::authenticode;

use super::{CommandContext, first_use};

/// Warning under the list of new digests.
pub const FIRST_USE: &str = "\
    Trust on first use: these digests only record what was downloaded today.\n\
    Compare them with the publisher's before you build; from now on any other file is rejected.\n";

/// An input to pin.
pub struct PinRequest {
    request: fetch::FetchRequest,
    pub missing: MissingProof,
    /// The recipe has `unverified` for it, which is removed.
    was_unverified: bool,
}

/// A downloaded input with its digest.
pub struct PinnedInput {
    pub wanted: PinRequest,
    size: u64,
    pub digest: Digest,
    /// Lines about its mirror and signers.
    signed: Vec<String>,
}

fn find_proof_place(origin: &DownloadSpec) -> winimg_base::text::Place {
    match &origin.proof {
        ProofSpec::Digest(digest) => digest.place.clone(),
        ProofSpec::ChecksumFile { url, .. } => url.place.clone(),
        _ => origin.url.place.clone(),
    }
}

impl PinRequest {
    /// Fails if the recipe has a digest or signature for it already.
    pub fn from_undecided(mut request: fetch::FetchRequest) -> Result<Self> {
        let id = request.id.clone();
        let (missing, was_unverified) = match &request.origin.proof {
            ProofSpec::Undecided(missing) => (missing.clone(), false),
            ProofSpec::Unverified { reason } => {
                let missing = MissingProof {
                    input: id,
                    algorithm: Algorithm::Sha256,
                    variable: None,
                    place: reason.place.clone(),
                    fact: reason.value.clone(),
                    has_signed_members: false,
                };
                (missing, true)
            }
            ProofSpec::Digest(_) | ProofSpec::ChecksumFile { .. } | ProofSpec::Signed => {
                let fact = format!("`{id}` already has a digest or signature");
                return Err(Error::new(Kind::Recipe, fact)
                    .or_place(&find_proof_place(&request.origin))
                    .cure("to replace it, edit the recipe"));
            }
        };
        request.origin.proof = ProofSpec::Undecided(missing.clone());
        Ok(Self {
            request,
            missing,
            was_unverified,
        })
    }

    /// Treats an input whose pinned digest is that of another version as unverified.
    pub fn from_upgrade(mut request: fetch::FetchRequest, algorithm: Algorithm) -> Self {
        let missing = MissingProof {
            input: request.id.clone(),
            algorithm,
            variable: None,
            place: request.origin.url.place.clone(),
            fact: "the digest is that of another version".into(),
            has_signed_members: false,
        };
        request.origin.proof = ProofSpec::Undecided(missing.clone());
        Self {
            request,
            missing,
            was_unverified: false,
        }
    }

    pub fn fetch(
        self,
        offline: bool,
        recipe: &Recipe,
        store: &Store,
        context: &CommandContext,
    ) -> Result<PinnedInput> {
        let options = FetchOptions {
            first_use: true,
            ..context.fetch_options(offline, recipe)
        };
        let requests = vec![self.request.clone()];
        let sink = Arc::clone(&context.sink);
        let blob = fetch::fetch(requests, store, sink, &context.cancel, &options)
            .map_err(merge_errors)
            .map_err(|e| match e.kind() {
                Kind::Fetch if offline => e.cure("run `winimg pin` without --offline"),
                _ => e,
            })?
            .into_iter()
            .next()
            .ok_or_else(|| Error::new(Kind::Failed, "nothing was fetched"))?
            .blob;
        self.check_bytes(&blob)?;
        let digest = match self.missing.algorithm {
            Algorithm::Sha256 => blob.digest().clone(),
            algorithm => {
                let path = blob.path();
                File::open(path)
                    .and_then(|f| Digest::of_reader(algorithm, f))
                    .map_err(|e| Error::io("read", path, e))?
                    .0
            }
        };
        let mut signed = describe_signers(&blob, &self.request.file);
        if let FileAddress::Remote(url) = &self.request.origin.url.value
            && let Some(mirror) = store.mirror_of(url.as_str(), blob.digest())
        {
            signed.insert(
                0,
                format!("downloaded from {mirror}, by a rule under [mirrors]"),
            );
        }
        Ok(PinnedInput {
            size: blob.size(),
            digest,
            signed,
            wanted: self,
        })
    }

    /// Rejects bytes that cannot be the file, before their digest is pinned.
    fn check_bytes(&self, blob: &StoredBlob) -> Result<()> {
        let mut head = Vec::new();
        File::open(blob.path())
            .and_then(|file| {
                file.take(first_use::LOOKED_AT as u64)
                    .read_to_end(&mut head)
            })
            .map_err(|e| Error::io("read", blob.path(), e))?;
        let address = &self.request.origin.url.value;
        let asked = first_use::ExpectedFile {
            name: &self.request.file,
            archive: self.request.archive,
            is_remote: matches!(address, FileAddress::Remote(_)),
        };
        let Some(unfit) = first_use::check_bytes(&asked, &head, blob.size()) else {
            return Ok(());
        };
        let fact = format!(
            "{} is not the expected file, so it was not pinned",
            self.request.id
        );
        Err(Error::new(Kind::Unproved, fact)
            .at(address)
            .expected(unfit.expected)
            .found(unfit.found)
            .cure(first_use::describe_cure(blob.digest())))
    }
}

/// Describes the signers by the recipe's verified rules and by the file's own signature.
fn describe_signers(blob: &StoredBlob, file: &str) -> Vec<String> {
    let mut lines: Vec<String> = blob
        .signers()
        .iter()
        .map(|s| format!("signed as the recipe requires: {} {}", s.scheme, s.signer))
        .collect();
    match authenticode::list_signatures(blob.path(), file, blob.digest()) {
        Ok(all) => lines.extend(all.iter().map(|one| match one.root {
            Some(root) => format!("signed by {}, issued under the root {root}", one.subject),
            None => format!("signed by {}, not issued under a known root", one.subject),
        })),
        Err(refusal) => lines.push(format!(
            "its signature is invalid: {}",
            refusal.problem.fact
        )),
    }
    if lines.is_empty() {
        lines.push("not signed".into());
    }
    lines
}

impl PinnedInput {
    fn url(&self) -> String {
        self.wanted.request.origin.url.value.to_string()
    }

    pub fn to_edit(&self) -> RecipeEdit<'_> {
        let missing = &self.wanted.missing;
        let (tables, key) = match &missing.variable {
            Some(variable) => (vec!["vars"], variable.name.as_str()),
            None => (
                missing.input.table_path().to_vec(),
                missing.algorithm.name(),
            ),
        };
        RecipeEdit {
            tables,
            key,
            value: self.digest.hex(),
            instead_of: self.wanted.was_unverified.then_some("unverified"),
            remark: Some(self.render_remark()),
        }
    }

    /// The digest's hex digits.
    pub fn hex(&self) -> String {
        self.digest.hex()
    }

    /// Returns the comment for the digest's line.
    pub fn render_remark(&self) -> String {
        display_text::sanitize_line(&format!(
            "winimg pin: {} bytes from {}, {}",
            self.size,
            self.url(),
            self.signed.join("; ")
        ))
    }

    pub fn render_outcome(&self, recipe: &str, dry_run: bool) -> String {
        let put = self.to_edit();
        let place = format!("{}.{}", put.tables.join("."), put.key);
        let done = if dry_run {
            "would be written"
        } else {
            "written"
        };
        self.describe(&format!("{done} to {recipe} as {place}"))
    }

    /// Describes the download and `done`, the line about its pin.
    pub fn describe(&self, done: &str) -> String {
        format!(
            "{}\n  {}\n  {} bytes\n  {}\n  {}\n  {done}\n\n",
            self.wanted.missing.input,
            self.url(),
            self.size,
            self.digest,
            self.signed.join("\n  "),
        )
    }
}
