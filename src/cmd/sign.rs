//! `winimg sign`, and the keys of `winimg build`.

use std::path::{Path, PathBuf};

use crate::cli;
use crate::record::sign::{BESIDE, SignOptions, Signers};
use crate::record::{check, writer};
use crate::verify;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::Secret;
use winimg_recipe::lock::LockFile;

use super::{CommandContext, print, recipe};

/// Signs a recipe's lock, or the records of a finished build.
pub fn run(args: &cli::SignArgs, context: &CommandContext) -> Result<()> {
    let signers = open_signers(&args.sign, context)?;
    if signers.is_empty() {
        return Err(
            Error::new(Kind::Recipe, "there is no key to sign with").cure(
                "use --sign-key FILE, WINIMG_SIGN_KEY, --sign-command with --sign-public-key, \
                 or [sign] in the configuration file",
            ),
        );
    }
    let paths = if args.file.extension().is_some_and(|e| e == "lock") {
        sign_lock(&args.file, &signers, context)?
    } else {
        sign_records(&args.file, &signers, context)?
    };
    let lines: String = paths
        .iter()
        .map(|path| format!("{}\n", path.display()))
        .collect();
    print(&lines)
}

/// Signs a lock's text as it was read, with Unix line endings.
fn sign_lock(path: &Path, signers: &Signers, context: &CommandContext) -> Result<Vec<PathBuf>> {
    let file = match LockFile::read(path) {
        Ok(file) => file,
        Err(found) => return recipe::report(None, found, context),
    };
    let (serial, name) = (file.lock.serial, &file.lock.recipe);
    let comment = format!(
        "timestamp:{}\tfile:{}\thashed\trecipe:{name}\tserial:{serial}",
        read_epoch()?,
        file.name
    );
    let signed = signers.sign_one(file.text.as_bytes(), &comment, &context.cancel)?;
    remove_signatures(path)?;
    let mut paths = Vec::new();
    for (suffix, content) in signed {
        let beside = file.signature_path(suffix);
        io::write_atomically(&beside, &content)?;
        paths.push(beside);
    }
    Ok(paths)
}

/// Removes outdated signatures of a file that has changed.
pub fn remove_signatures(path: &Path) -> Result<()> {
    BESIDE
        .into_iter()
        .try_for_each(|suffix| io::remove_if_exists(&io::with_suffix(path, suffix)))
}

/// Signs the records of a build if they are consistent. Does not read the artifacts.
fn sign_records(path: &Path, signers: &Signers, context: &CommandContext) -> Result<Vec<PathBuf>> {
    let name = path.file_name();
    if name.is_none_or(|n| n != writer::MANIFEST) {
        return Err(
            Error::new(Kind::Recipe, "this is neither a manifest nor a lock")
                .at(path.display())
                .expected(format!("{}, or a recipe's NAME.lock", writer::MANIFEST)),
        );
    }
    let report = check::check_agreement(path)?;
    if !report.is_good() {
        let name = path.display().to_string();
        verify::report(&report, &name, context.sink.as_ref());
        return Err(Error::new(
            Kind::Verify,
            "the records contradict each other and were not signed",
        )
        .at(name)
        .found(report.summarize()));
    }
    writer::sign_all(io::folder_of(path), signers, read_epoch()?, &context.cancel)
}

/// Opens and tests the keys from the arguments, the environment or this host's configuration.
pub fn open_signers(args: &cli::SigningArgs, context: &CommandContext) -> Result<Signers> {
    Signers::open(&collect_options(args, context), &context.cancel)
}

/// Returns the keys of the arguments and the environment, or else of this host's configuration.
pub fn collect_options(args: &cli::SigningArgs, context: &CommandContext) -> SignOptions {
    let given = SignOptions {
        files: args.keys.clone(),
        environment: read_secret("WINIMG_SIGN_KEY"),
        password: read_secret("WINIMG_SIGN_PASSWORD"),
        command: args.command.clone(),
        public_key: args.public_key.clone(),
    };
    if !given.files.is_empty() || given.environment.is_some() || given.command.is_some() {
        return given;
    }
    let configured = &context.host.said.sign;
    SignOptions {
        files: configured.keys.clone(),
        command: configured.command.clone(),
        public_key: configured.public_key.clone(),
        ..given
    }
}

/// Returns a secret from the environment. Empty counts as unset: CI systems pass undefined secrets
/// that way.
pub(super) fn read_secret(name: &str) -> Option<Secret> {
    let value = read_variable(name).filter(|value| !value.trim().is_empty())?;
    Some(Secret::new(value))
}

/// Returns SOURCE_DATE_EPOCH, or now (reproducible-builds.org: SOURCE_DATE_EPOCH specification).
pub(super) fn read_epoch() -> Result<i64> {
    let fixed = read_fixed_epoch()?;
    Ok(fixed.unwrap_or_else(|| jiff::Timestamp::now().as_second()))
}

/// Returns SOURCE_DATE_EPOCH, if it is set.
pub(super) fn read_fixed_epoch() -> Result<Option<i64>> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(seconds) => Ok(Some(seconds)),
        Err(_) => Err(
            Error::new(Kind::Recipe, "SOURCE_DATE_EPOCH is not a number of seconds").found(text),
        ),
    }
}
