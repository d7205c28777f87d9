//! `winimg pin`: fetches what nothing proves yet, shows what came, and writes the digests into the recipe.
//!
//! This is trust on first use, and it says so: the digest proves that later builds take the same bytes, not that these are the
//! right ones. Changes the recipe that it is given and no file that it includes.

use std::fs::{self, File};
use std::io::Read as _;
use std::sync::Arc;

use crate::cli;
use crate::engine::inputs::together;
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::unseen;
use winimg_recipe::recipe::{
    Address, InputId, MissingProof, Origin, ProofSpec, Put, Recipe, Undecided, put,
};
use winimg_supply::fetch::{self, FetchOptions};
use winimg_supply::store::{Blob, Store};
use winimg_trust::authenticode;

use super::{Context, first_use, inputs, print, recipe, source};

pub fn run(args: &cli::Pin, context: &Context) -> Result<()> {
    source::needs_file(&args.recipe, "pin")?;
    let source = source::source(&args.recipe, context)?;
    let shown = args.recipe.recipe.display().to_string();
    if source.lock.is_some() {
        return Err(Error::new(Kind::Recipe, "a bundle cannot be changed")
            .at(shown)
            .cure("pin in the recipe that it was made from, lock it, and bundle it again"));
    }
    let recipe = recipe::undecided(&source, context)?;
    let wanted = wanted(&recipe, &args.inputs)?;
    if wanted.is_empty() {
        let rest = still(&recipe);
        return print(&format!("{shown}: every input has a proof\n{rest}"));
    }
    let store = super::store(context)?;
    let mut pinned: Vec<Pinned> = Vec::new();
    let mut failed = Vec::new();
    for one in wanted {
        match one.fetched(args.network.offline, &recipe, &store, context) {
            Ok(done) => pinned.push(done),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    one_digest_a_variable(&pinned)?;
    if !args.dry_run && !pinned.is_empty() {
        write(args, &pinned)?;
    }
    let mut text = String::new();
    for one in &pinned {
        text += &one.shown(&shown, args.dry_run);
    }
    if !pinned.is_empty() {
        text += FIRST_USE;
    }
    text += &still(&recipe);
    print(text.trim_start())?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(together(failed)),
    }
}

pub(super) const FIRST_USE: &str = "Trust on first use: nothing but where a file came from says that it is the right one. Compare each digest with one that\n\
                         you trust before you build; from now on any other bytes are refused.\n";

pub(super) struct Wanted {
    request: fetch::Request,
    missing: MissingProof,
    /// The recipe says why nothing proves it: that goes.
    was_unverified: bool,
}

/// What came, and what is written down of it.
pub(super) struct Pinned {
    wanted: Wanted,
    size: u64,
    digest: Digest,
    /// A line each: by which mirror it came, and who signed it.
    signed: Vec<String>,
}

/// The inputs that `names` name, or all that nothing proves yet.
fn wanted(recipe: &Recipe, names: &[String]) -> Result<Vec<Wanted>> {
    let ids: Vec<InputId> = match names {
        [] => recipe.undecided.iter().filter_map(proof_of).collect(),
        names => {
            let named = names.iter().map(|name| inputs::named(recipe, name));
            named.collect::<Result<_>>()?
        }
    };
    let requests = inputs::requests(recipe);
    let mut all: Vec<Wanted> = Vec::new();
    for id in ids {
        if all.iter().any(|one| one.missing.input == id) {
            continue;
        }
        let request = requests.iter().find(|r| r.id == id).ok_or_else(|| {
            Error::new(Kind::Recipe, format!("`{id}` cannot be pinned"))
                .cure("a container image is pinned with `digest` in its table")
        })?;
        all.push(one(request.clone())?);
    }
    Ok(all)
}

fn proof_of(one: &Undecided) -> Option<InputId> {
    match one {
        Undecided::Proof(missing) => Some(missing.input.clone()),
        Undecided::Variable { .. } => None,
    }
}

fn one(mut request: fetch::Request) -> Result<Wanted> {
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
            let fact = format!("`{id}` has a proof already");
            return Err(Error::new(Kind::Recipe, fact)
                .from_place(&proof_place(&request.origin))
                .cure("change it there, if another file is meant"));
        }
    };
    request.origin.proof = ProofSpec::Undecided(missing.clone());
    Ok(Wanted {
        request,
        missing,
        was_unverified,
    })
}

fn proof_place(origin: &Origin) -> winimg_base::text::Place {
    match &origin.proof {
        ProofSpec::Digest(digest) => digest.place.clone(),
        ProofSpec::ChecksumFile { url, .. } => url.place.clone(),
        _ => origin.url.place.clone(),
    }
}

impl Wanted {
    /// An input whose pinned digest is that of another version: as if nothing proved it.
    pub(super) fn anew(mut request: fetch::Request, algorithm: Algorithm) -> Self {
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

    pub(super) fn fetched(
        self,
        offline: bool,
        recipe: &Recipe,
        store: &Store,
        context: &Context,
    ) -> Result<Pinned> {
        let options = FetchOptions {
            first_use: true,
            ..context.fetch_options(offline, recipe)
        };
        let requests = vec![self.request.clone()];
        let sink = Arc::clone(&context.sink);
        let fetched = fetch::fetch(requests, store, sink, &context.cancel, &options);
        let fetched = fetched.map_err(together).map_err(|e| match e.kind() {
            Kind::Fetch if offline => e.cure("run `winimg pin` without --offline"),
            _ => e,
        });
        let fetched = fetched?.into_iter().next();
        let fetched = fetched.ok_or_else(|| Error::new(Kind::Failed, "nothing was fetched"))?;
        let blob = fetched.blob;
        self.judge(&blob)?;
        let digest = match self.missing.algorithm {
            Algorithm::Sha256 => blob.digest().clone(),
            algorithm => {
                let path = blob.path();
                let of = File::open(path).and_then(|f| Digest::of_reader(algorithm, f));
                of.map_err(|e| Error::io("read", path, e))?.0
            }
        };
        let mut signed = signed(&blob, &self.request.file);
        if let Address::Remote(url) = &self.request.origin.url.value
            && let Some(mirror) = store.mirror_of(url.as_str(), blob.digest())
        {
            signed.insert(0, format!("came from {mirror}, by a rule under [mirrors]"));
        }
        Ok(Pinned {
            size: blob.size(),
            digest,
            signed,
            wanted: self,
        })
    }
}

impl Wanted {
    /// Refuses bytes that cannot be the file, before their digest is obeyed.
    fn judge(&self, blob: &Blob) -> Result<()> {
        let unread = |e| Error::io("read", blob.path(), e);
        let mut head = Vec::new();
        let file = File::open(blob.path()).map_err(unread)?;
        file.take(first_use::LOOKED_AT as u64)
            .read_to_end(&mut head)
            .map_err(unread)?;
        let address = &self.request.origin.url.value;
        let asked = first_use::Asked {
            name: &self.request.file,
            archive: self.request.archive,
            is_remote: matches!(address, Address::Remote(_)),
        };
        let Some(unfit) = first_use::judge(&asked, &head, blob.size()) else {
            return Ok(());
        };
        let fact = format!(
            "{} is not the file, so its digest is not taken",
            self.request.id
        );
        Err(Error::new(Kind::Unproved, fact)
            .at(address)
            .expected(unfit.expected)
            .found(unfit.found)
            .cure(first_use::by_hand(blob.digest())))
    }
}

/// Who signed it: by the recipe's rules, which hold, and by what the file carries.
fn signed(blob: &Blob, file: &str) -> Vec<String> {
    let mut lines: Vec<String> = blob
        .signers()
        .iter()
        .map(|s| format!("signed as the recipe asks: {} {}", s.scheme, s.signer))
        .collect();
    match authenticode::carried(blob.path(), file, blob.digest()) {
        Ok(all) => lines.extend(all.iter().map(|one| match one.root {
            Some(root) => format!("signed by {}, below the root {root}", one.subject),
            None => format!("signed by {}, below no root that winimg knows", one.subject),
        })),
        Err(refusal) => lines.push(format!(
            "its signature is not good: {}",
            refusal.problem.fact
        )),
    }
    if lines.is_empty() {
        lines.push("not signed".into());
    }
    lines
}

/// Two files cannot have one digest: the variable would be written twice.
fn one_digest_a_variable(pinned: &[Pinned]) -> Result<()> {
    for (index, one) in pinned.iter().enumerate() {
        let Some(variable) = &one.wanted.missing.variable else {
            continue;
        };
        let other = pinned[..index].iter().find(|other| {
            other.wanted.missing.variable.as_ref() == Some(variable) && other.digest != one.digest
        });
        if let Some(other) = other {
            let fact = format!(
                "`{}` is the proof of two inputs that differ, {} and {}",
                variable.name, other.wanted.missing.input, one.wanted.missing.input
            );
            return Err(Error::new(Kind::Recipe, fact)
                .from_place(&one.wanted.missing.place)
                .cure("give each input a variable of its own"));
        }
    }
    Ok(())
}

fn write(args: &cli::Pin, pinned: &[Pinned]) -> Result<()> {
    // A link stays one.
    let path = &args.recipe.recipe;
    let path = fs::canonicalize(path).map_err(|e| Error::io("find", path, e))?;
    let text =
        io::read_text_limited(&path, io::limit::TEXT).map_err(|e| Error::io("read", &path, e))?;
    let all: Vec<Put<'_>> = pinned.iter().map(Pinned::put).collect();
    let text = put(&text, &all).map_err(|why| {
        Error::new(
            Kind::Recipe,
            "the digests cannot be written into the recipe",
        )
        .at(path.display())
        .found(why)
    })?;
    io::write_atomically(&path, text.as_bytes())
}

impl Pinned {
    fn url(&self) -> String {
        self.wanted.request.origin.url.value.to_string()
    }

    fn put(&self) -> Put<'_> {
        let missing = &self.wanted.missing;
        let (tables, key) = match &missing.variable {
            Some(variable) => (vec!["vars"], variable.name.as_str()),
            None => (missing.input.table().to_vec(), missing.algorithm.name()),
        };
        Put {
            tables,
            key,
            value: self.digest.hex(),
            instead_of: self.wanted.was_unverified.then_some("unverified"),
            remark: Some(self.remark()),
        }
    }

    /// The digest's hex digits.
    pub(super) fn hex(&self) -> String {
        self.digest.hex()
    }

    /// For the line that holds the digest.
    pub(super) fn remark(&self) -> String {
        unseen::line(&format!(
            "winimg pin: {} bytes from {}, {}",
            self.size,
            self.url(),
            self.signed.join("; ")
        ))
    }

    fn shown(&self, recipe: &str, dry_run: bool) -> String {
        let put = self.put();
        let place = format!("{}.{}", put.tables.join("."), put.key);
        let done = match dry_run {
            true => format!("would be written to {recipe} as {place}"),
            false => format!("written to {recipe} as {place}"),
        };
        self.described(&done)
    }

    /// What came, and what is done with it.
    pub(super) fn described(&self, done: &str) -> String {
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

/// What no download can tell.
fn still(recipe: &Recipe) -> String {
    let open = recipe.undecided.iter().filter_map(|one| match one {
        Undecided::Variable { variable, .. } => {
            Some(format!("  {}: {}\n", variable.name, variable.why))
        }
        Undecided::Proof(_) => None,
    });
    let open: String = open.collect();
    match open.is_empty() {
        true => open,
        false => format!("\nStill to be decided, under [vars]\n{open}"),
    }
}
