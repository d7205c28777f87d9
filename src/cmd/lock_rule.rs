//! Rules of a recipe and this host for locks: signatures, and the lowest serial.
//!
//! Checks the text that was read, not the file, which may have changed since. Rejects a build
//! without a lock if the rules require a signed one.

use std::io::{Read as _, Write as _};
use std::path::Path;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::lock::{self, LockFile, UsedInput, UsedLock};
use winimg_recipe::{FileAddress, LockPolicy, Recipe, SignatureScope, SignatureSpec};
use winimg_supply::store::{SignatureDemand, Store, check_groups};
use winimg_trust::{FileSubject, SignatureEvidence, Signer};

use super::CommandContext;
use crate::cli::LockFileArgs;
use crate::engine::earlier;
use crate::record::{BuildManifest, writer};
use crate::verify::{VerifyFinding, VerifyReport};

/// Maximum size of a signature, in bytes.
const MAX_SIGNATURE_SIZE: u64 = 1 << 20;

/// Combines the rules of this host and of the recipe.
pub fn merge_rules(recipe: &Recipe, context: &CommandContext) -> LockPolicy {
    context.host.config.lock.merge(&recipe.lock)
}

/// Checks the lock by the rules and returns its signers; none if the rules require no signature.
pub fn check_signatures(rule: &LockPolicy, file: &LockFile) -> Result<Vec<Signer>> {
    if let Some(error) = rule
        .serial
        .and_then(|lowest| lock::check_minimum_serial(file, lowest))
    {
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
    let subject = FileSubject {
        path: copy.path(),
        name: &file.name,
        published: &file.name,
        digest: &digest,
    };
    let groups: Vec<Vec<SignatureDemand>> = rule
        .signatures
        .iter()
        .map(|group| group.iter().map(|one| read_demand(one, file)).collect())
        .collect::<Result<_>>()?;
    check_groups(&file.name, &groups, |demand| {
        let signer = demand.judge(subject);
        signer.map(|s| vec![s]).map_err(Into::into)
    })
    .map_err(|error| {
        error.cure(format!(
            "review the lock's changes, then sign it: winimg sign {}",
            file.path.display()
        ))
    })
}

/// Reads the signature file beside the lock.
fn read_demand(signature: &SignatureSpec, file: &LockFile) -> Result<SignatureDemand> {
    let path = signature.url.as_ref().and_then(|url| match &url.value {
        FileAddress::Local(suffix) => Some(file.signature_path(&suffix.to_string_lossy())),
        FileAddress::Remote(_) => None,
    });
    let (mut evidence, mut lacking) = (SignatureEvidence::default(), None);
    if let Some(path) = &path {
        if path.is_file() {
            evidence.signature = Some(read_bounded(path)?);
        } else {
            lacking = Some(format!("there is no file {}", path.display()));
        }
    }
    Ok(SignatureDemand {
        place: signature.place.clone(),
        rule: signature.rule.clone(),
        evidence,
        from: path.map(|path| path.display().to_string()),
        covers: SignatureScope::File,
        lacking,
    })
}

/// Reads at most one byte more than the maximum size, so that a larger file is detected.
fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::open_regular(path)
        .and_then(|file| file.take(MAX_SIGNATURE_SIZE + 1).read_to_end(&mut bytes))
        .map_err(|e| Error::io("read", path, e))?;
    Ok(bytes)
}

/// Fails if the rules require a lock. Called when there is none.
pub fn require_lock(rule: &LockPolicy, lock: &LockFileArgs, recipe: &Path) -> Result<()> {
    if rule.signatures.is_empty() && rule.serial.is_none() {
        return Ok(());
    }
    let place = rule.signatures.iter().flatten().next().map(|s| &s.place);
    let (fact, cure) = if let Some(matrix) = &lock.variant_of {
        let matrix = matrix.display();
        (
            "a lock is required, but this variant has none",
            format!("run `winimg matrix lock {matrix}`, then `winimg sign`"),
        )
    } else if lock.no_lock {
        (
            "a lock is required, but --no-lock ignores it",
            "omit --no-lock".into(),
        )
    } else {
        let recipe = recipe.display();
        (
            "a lock is required, but there is none",
            format!("run `winimg lock {recipe}`, then `winimg sign`"),
        )
    };
    let error = Error::new(Kind::Unproved, fact).cure(cure);
    Err(match place {
        Some(place) => error.or_place(place),
        None => error,
    })
}

/// Rejects a lock older than one used here before, or returns a warning if `allowed`. `output` is
/// the folder of an earlier build.
pub fn check_age(
    file: &LockFile,
    store: &Store,
    output: Option<&Path>,
    allowed: bool,
) -> Result<Option<String>> {
    let recipe = &file.lock.recipe;
    let newest = store
        .built_with(recipe)
        .into_iter()
        .chain(
            output
                .into_iter()
                .flat_map(earlier::list_folders)
                .filter_map(|folder| read_built_lock(&folder, recipe)),
        )
        .max_by_key(|before| before.serial);
    let Some(before) = newest else {
        return Ok(None);
    };
    match lock::check_rollback(&file.lock, &file.name, &before) {
        Some(error) if !allowed => Err(error),
        _ => Ok(lock::warn_rollback(&file.lock, &file.name, &before)),
    }
}

/// Returns the lock that the image in a folder was built with, if it is from the same recipe.
/// Ignores an unreadable manifest.
fn read_built_lock(folder: &Path, recipe: &str) -> Option<UsedLock> {
    let path = folder.join(writer::MANIFEST);
    let manifest = path.exists().then(|| BuildManifest::read(&path).ok())??;
    let serial = manifest.recipe.lock.as_ref()?.serial;
    if manifest.recipe.name != recipe {
        return None;
    }
    Some(UsedLock {
        recipe: recipe.to_string(),
        serial,
        inputs: manifest
            .inputs
            .iter()
            .filter_map(|input| {
                Some(UsedInput {
                    id: input.id.clone(),
                    version: input.version.clone(),
                    digest: input.digest.parse().ok()?,
                })
            })
            .collect(),
    })
}

/// Checks by its manifest that an image was built with a lock that this host accepts; `None`
/// without rules.
pub fn check_manifest(rule: &LockPolicy, manifest: &BuildManifest) -> Option<VerifyReport> {
    let mut report = VerifyReport::default();
    let lock = manifest.recipe.lock.as_ref();
    if !rule.signatures.is_empty() {
        let is_signed = lock.is_some_and(|lock| !lock.signers.is_empty());
        let outcome = is_signed.then_some(()).ok_or_else(|| {
            VerifyFinding::error("the image was not built with a signed lock").expected(
                "`recipe.lock.signers` in the manifest (required by the configuration file)",
            )
        });
        report.add(outcome, None);
    }
    if let Some(lowest) = rule.serial {
        let serial = lock.map_or(0, |lock| lock.serial);
        let outcome = (serial >= lowest).then_some(()).ok_or_else(|| {
            VerifyFinding::error(
                "the image was built with an older lock than the configuration file allows",
            )
            .expected(format!("serial {lowest} or higher"))
            .found(format!("serial {serial}"))
        });
        report.add(outcome, None);
    }
    (report.passed + report.findings.len() > 0).then_some(report)
}
