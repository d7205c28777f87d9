//! What a recipe and this host ask of a lock: its signature, and how old it may be.
//!
//! The text that is judged is the one that was read, not what stands in the file by then. Refuses a build without a lock
//! where a signed one is asked for.

use std::io::{Read as _, Write as _};
use std::path::Path;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::lock::{self, BuiltInput, BuiltWith, LockFile};
use winimg_recipe::recipe::{Address, Covers, LockRule, Recipe, Signature};
use winimg_supply::store::{Demand, Store, met};
use winimg_trust::{Evidence, Signer, Subject};

use super::Context;
use crate::cli::LockArgs;
use crate::engine::earlier;
use crate::record::manifest::Input;
use crate::record::{Manifest, built};
use crate::verify::{Finding, Report};

/// Bytes of a signature.
const LONGEST: u64 = 1 << 20;

/// The rules of this host and of the recipe.
pub fn rule(recipe: &Recipe, context: &Context) -> LockRule {
    context.host.said.lock.and(&recipe.lock)
}

/// Who signed the lock, as the rules ask. Nobody is asked for where there are none. Refuses a serial below the rules'.
pub fn judge(rule: &LockRule, file: &LockFile) -> Result<Vec<Signer>> {
    if let Some(error) = rule.serial.and_then(|lowest| lock::too_low(file, lowest)) {
        return Err(error);
    }
    if rule.signatures.is_empty() {
        return Ok(Vec::new());
    }
    let mut copy = tempfile::NamedTempFile::new()
        .map_err(|e| Error::io("write in", std::env::temp_dir(), e))?;
    copy.write_all(file.text.as_bytes())
        .map_err(|e| Error::io("write", copy.path(), e))?;
    let digest = file.digest();
    let subject = Subject {
        path: copy.path(),
        name: &file.name,
        published: &file.name,
        digest: &digest,
    };
    let groups = rule.signatures.iter();
    let groups = groups.map(|group| group.iter().map(|one| demand(one, file)).collect());
    let groups: Vec<Vec<Demand>> = groups.collect::<Result<_>>()?;
    met(&file.name, &groups, |demand| {
        let signer = demand.judge(subject);
        signer.map(|s| vec![s]).map_err(Into::into)
    })
    .map_err(|error| {
        error.cure(format!(
            "see what changed in it, then sign it: winimg sign {}",
            file.path.display()
        ))
    })
}

/// With what stands beside the lock.
fn demand(signature: &Signature, file: &LockFile) -> Result<Demand> {
    let path = signature.url.as_ref().and_then(|url| match &url.value {
        Address::Local(suffix) => Some(file.beside(&suffix.to_string_lossy())),
        Address::Remote(_) => None,
    });
    let (mut evidence, mut lacking) = (Evidence::default(), None);
    if let Some(path) = &path {
        match path.is_file() {
            true => evidence.signature = Some(bounded(path)?),
            false => lacking = Some(format!("there is no file {}", path.display())),
        }
    }
    Ok(Demand {
        place: signature.place.clone(),
        rule: signature.rule.clone(),
        evidence,
        from: path.map(|path| path.display().to_string()),
        covers: Covers::File,
        lacking,
    })
}

/// No more than the judge reads of a signature, and one byte by which it sees that there is more.
fn bounded(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = io::open_regular(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
        .map_err(|e| Error::io("read", path, e));
    read.map(|_| bytes)
}

/// The refusal of working without a lock where the rules ask something of it.
pub fn needed(rule: &LockRule, lock: &LockArgs, recipe: &Path) -> Result<()> {
    if rule.signatures.is_empty() && rule.serial.is_none() {
        return Ok(());
    }
    let place = rule.signatures.iter().flatten().next().map(|s| &s.place);
    let (fact, cure) = if let Some(matrix) = &lock.variant_of {
        let matrix = matrix.display();
        (
            "a lock is asked for, and this variant has none",
            format!("`winimg matrix lock {matrix}` writes it; `winimg sign` signs it"),
        )
    } else if lock.no_lock {
        (
            "a lock is asked for, and --no-lock passes over it",
            "leave --no-lock away".into(),
        )
    } else {
        let recipe = recipe.display();
        (
            "a lock is asked for, and there is none",
            format!("`winimg lock {recipe}` writes it; `winimg sign` signs it"),
        )
    };
    let error = Error::new(Kind::Unproved, fact).cure(cure);
    Err(match place {
        Some(place) => error.from_place(place),
        None => error,
    })
}

/// Refuses a lock that is older than one that was used here, or says so where that is allowed. `output` is the folder of an
/// earlier build.
pub fn check_age(
    file: &LockFile,
    store: &Store,
    output: Option<&Path>,
    allowed: bool,
) -> Result<Option<String>> {
    let recipe = &file.lock.recipe;
    let kept = store.built_with(recipe).into_iter();
    let folders = output.into_iter().flat_map(earlier::folders);
    let kept = kept.chain(folders.filter_map(|folder| built_there(&folder, recipe)));
    let Some(before) = kept.max_by_key(|before| before.serial) else {
        return Ok(None);
    };
    match lock::rolled_back(&file.lock, &file.name, &before) {
        Some(error) if !allowed => Err(error),
        _ => Ok(lock::warning(&file.lock, &file.name, &before)),
    }
}

/// The lock of the image that lies in a folder, if the same recipe made it. A manifest that cannot be read says nothing.
fn built_there(folder: &Path, recipe: &str) -> Option<BuiltWith> {
    let path = folder.join(built::MANIFEST);
    let manifest = path.exists().then(|| Manifest::read(&path).ok())??;
    let serial = manifest.recipe.lock.as_ref()?.serial;
    if manifest.recipe.name != recipe {
        return None;
    }
    let input = |input: &Input| {
        let digest: Digest = input.digest.parse().ok()?;
        Some(BuiltInput {
            id: input.id.clone(),
            version: input.version.clone(),
            digest,
        })
    };
    Some(BuiltWith {
        recipe: recipe.to_string(),
        serial,
        inputs: manifest.inputs.iter().filter_map(input).collect(),
    })
}

/// Whether an image was built with a lock as this host asks for, by what its manifest says; `None` where nothing is asked.
pub fn of_manifest(rule: &LockRule, manifest: &Manifest) -> Option<Report> {
    let mut report = Report::default();
    let lock = manifest.recipe.lock.as_ref();
    if !rule.signatures.is_empty() {
        let is_signed = lock.is_some_and(|lock| !lock.signers.is_empty());
        let unsigned = || {
            Finding::error("the image was not built with a signed lock")
                .expected("`recipe.lock.signers` in the manifest, as the configuration file asks")
        };
        report.add(is_signed.then_some(()).ok_or_else(unsigned), None);
    }
    if let Some(lowest) = rule.serial {
        let serial = lock.map_or(0, |lock| lock.serial);
        let older = || {
            Finding::error(
                "the image was built with an older lock than the configuration file allows",
            )
            .expected(format!("serial {lowest} or higher"))
            .found(format!("serial {serial}"))
        };
        report.add((serial >= lowest).then_some(()).ok_or_else(older), None);
    }
    (report.holds + report.findings.len() > 0).then_some(report)
}
