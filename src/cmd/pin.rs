//! `winimg pin`: downloads unverified inputs, shows them, and writes their digests into the recipe.
//!
//! This is trust on first use, and the output says so: a digest ensures that later builds use the
//! same bytes, not that these are the right ones. Changes only the given recipe, no included files.

use std::fs::{self, File};
use std::io::Read as _;
use std::sync::Arc;

use crate::cli;
use crate::engine::inputs::merge_errors;
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::recipe::{
    DownloadSpec, FileAddress, InputId, MissingProof, ProofSpec, Recipe, RecipeEdit,
    UndecidedValue, put,
};
use winimg_supply::fetch::{self, FetchOptions};
use winimg_supply::store::{Store, StoredBlob};
use winimg_trust::authenticode;

use super::{CommandContext, first_use, inputs, print, recipe, source};

pub fn run(args: &cli::PinArgs, context: &CommandContext) -> Result<()> {
    source::require_file(&args.recipe, "pin")?;
    let source = source::open_source(&args.recipe, context)?;
    let shown = args.recipe.recipe.display().to_string();
    if source.lock.is_some() {
        return Err(Error::new(Kind::Recipe, "a bundle cannot be changed")
            .at(shown)
            .cure("pin the original recipe, lock it, and bundle it again"));
    }
    let recipe = recipe::read_undecided(&source, context)?;
    let wanted = select_inputs(&recipe, &args.inputs)?;
    if wanted.is_empty() {
        let rest = render_undecided(&recipe);
        return print(&format!(
            "{shown}: every input has a digest or signature\n{rest}"
        ));
    }
    let store = super::open_store(context)?;
    let mut pinned: Vec<PinnedInput> = Vec::new();
    let mut failed = Vec::new();
    for one in wanted {
        match one.fetch(args.network.offline, &recipe, &store, context) {
            Ok(done) => pinned.push(done),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    check_shared_variables(&pinned)?;
    if !args.dry_run && !pinned.is_empty() {
        write(args, &pinned)?;
    }
    let mut text = String::new();
    for one in &pinned {
        text += &one.render_outcome(&shown, args.dry_run);
    }
    if !pinned.is_empty() {
        text += FIRST_USE;
    }
    text += &render_undecided(&recipe);
    print(text.trim_start())?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(merge_errors(failed))
    }
}

pub(super) const FIRST_USE: &str = "\
    Trust on first use: these digests only record what was downloaded today.\n\
    Compare them with the publisher's before you build; from now on any other file is rejected.\n";

pub(super) struct PinRequest {
    request: fetch::FetchRequest,
    missing: MissingProof,
    /// The recipe has `unverified` for it, which is removed.
    was_unverified: bool,
}

/// A downloaded input with its digest.
pub(super) struct PinnedInput {
    wanted: PinRequest,
    size: u64,
    digest: Digest,
    /// Lines about its mirror and signers.
    signed: Vec<String>,
}

/// Returns the named inputs, or all without a digest or signature.
fn select_inputs(recipe: &Recipe, names: &[String]) -> Result<Vec<PinRequest>> {
    let ids: Vec<InputId> = match names {
        [] => recipe
            .undecided
            .iter()
            .filter_map(find_missing_proof)
            .collect(),
        names => names
            .iter()
            .map(|name| inputs::find_input(recipe, name))
            .collect::<Result<_>>()?,
    };
    let requests = inputs::collect_requests(recipe);
    let mut all: Vec<PinRequest> = Vec::new();
    for id in ids {
        if all.iter().any(|one| one.missing.input == id) {
            continue;
        }
        let request = requests.iter().find(|r| r.id == id).ok_or_else(|| {
            Error::new(Kind::Recipe, format!("`{id}` cannot be pinned"))
                .cure("to pin a container image, set `digest` in its table")
        })?;
        all.push(create_request(request.clone())?);
    }
    Ok(all)
}

fn find_missing_proof(one: &UndecidedValue) -> Option<InputId> {
    match one {
        UndecidedValue::Proof(missing) => Some(missing.input.clone()),
        UndecidedValue::Variable { .. } => None,
    }
}

fn create_request(mut request: fetch::FetchRequest) -> Result<PinRequest> {
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
    Ok(PinRequest {
        request,
        missing,
        was_unverified,
    })
}

fn find_proof_place(origin: &DownloadSpec) -> winimg_base::text::Place {
    match &origin.proof {
        ProofSpec::Digest(digest) => digest.place.clone(),
        ProofSpec::ChecksumFile { url, .. } => url.place.clone(),
        _ => origin.url.place.clone(),
    }
}

impl PinRequest {
    /// Treats an input whose pinned digest is that of another version as unverified.
    pub(super) fn from_upgrade(mut request: fetch::FetchRequest, algorithm: Algorithm) -> Self {
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

    pub(super) fn fetch(
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
}

impl PinRequest {
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

/// Fails if one variable is the digest of two different files.
fn check_shared_variables(pinned: &[PinnedInput]) -> Result<()> {
    for (index, one) in pinned.iter().enumerate() {
        let Some(variable) = &one.wanted.missing.variable else {
            continue;
        };
        let other = pinned[..index].iter().find(|other| {
            other.wanted.missing.variable.as_ref() == Some(variable) && other.digest != one.digest
        });
        if let Some(other) = other {
            let fact = format!(
                "`{}` is the digest of two inputs that differ, {} and {}",
                variable.name, other.wanted.missing.input, one.wanted.missing.input
            );
            return Err(Error::new(Kind::Recipe, fact)
                .or_place(&one.wanted.missing.place)
                .cure("give each input its own variable"));
        }
    }
    Ok(())
}

fn write(args: &cli::PinArgs, pinned: &[PinnedInput]) -> Result<()> {
    // Write through symbolic links.
    let path = &args.recipe.recipe;
    let path = fs::canonicalize(path).map_err(|e| Error::io("find", path, e))?;
    let text =
        io::read_text_limited(&path, io::limit::TEXT).map_err(|e| Error::io("read", &path, e))?;
    let all: Vec<RecipeEdit<'_>> = pinned.iter().map(PinnedInput::to_edit).collect();
    let text = put(&text, &all).map_err(|why| {
        Error::new(Kind::Recipe, "cannot write the digests into the recipe")
            .at(path.display())
            .found(why)
    })?;
    io::write_atomically(&path, text.as_bytes())
}

impl PinnedInput {
    fn url(&self) -> String {
        self.wanted.request.origin.url.value.to_string()
    }

    fn to_edit(&self) -> RecipeEdit<'_> {
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
    pub(super) fn hex(&self) -> String {
        self.digest.hex()
    }

    /// Returns the comment for the digest's line.
    pub(super) fn render_remark(&self) -> String {
        display_text::sanitize_line(&format!(
            "winimg pin: {} bytes from {}, {}",
            self.size,
            self.url(),
            self.signed.join("; ")
        ))
    }

    fn render_outcome(&self, recipe: &str, dry_run: bool) -> String {
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
    pub(super) fn describe(&self, done: &str) -> String {
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

/// Lists the undecided variables, which no download can decide.
fn render_undecided(recipe: &Recipe) -> String {
    let open: String = recipe
        .undecided
        .iter()
        .filter_map(|one| match one {
            UndecidedValue::Variable { variable, .. } => {
                Some(format!("  {}: {}\n", variable.name, variable.why))
            }
            UndecidedValue::Proof(_) => None,
        })
        .collect();
    if open.is_empty() {
        open
    } else {
        format!("\nStill missing under [vars]\n{open}")
    }
}
