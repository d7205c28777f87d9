//! `winimg sign`, and the keys of `winimg build`.

use std::path::{Path, PathBuf};

use crate::cli;
use crate::record::sign::{BESIDE, Options, Signers};
use crate::record::{built, check};
use crate::verify;
use winimg_base::environment::variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::Secret;
use winimg_recipe::lock::LockFile;

use super::{Context, print, recipe};

/// Signs a recipe's lock, or the records of a finished build.
pub fn run(args: &cli::Sign, context: &Context) -> Result<()> {
    let signers = signers(&args.sign, context)?;
    if signers.is_empty() {
        return Err(Error::new(Kind::Recipe, "there is no key to sign with")
            .cure("--sign-key FILE, WINIMG_SIGN_KEY, or --sign-command with --sign-public-key; or [sign] in the configuration file"));
    }
    let paths = match args.file.extension().is_some_and(|e| e == "lock") {
        true => lock(&args.file, &signers, context)?,
        false => records(&args.file, &signers, context)?,
    };
    let lines = paths.iter().map(|path| format!("{}\n", path.display()));
    print(&lines.collect::<String>())
}

/// A lock as it was read: with the line ends of Unix.
fn lock(path: &Path, signers: &Signers, context: &Context) -> Result<Vec<PathBuf>> {
    let file = match LockFile::read(path) {
        Ok(file) => file,
        Err(found) => return recipe::report(None, found, context),
    };
    let (serial, name) = (file.lock.serial, &file.lock.recipe);
    let comment = format!(
        "timestamp:{}\tfile:{}\thashed\trecipe:{name}\tserial:{serial}",
        epoch()?,
        file.name
    );
    let signed = signers.sign_one(file.text.as_bytes(), &comment, &context.cancel)?;
    remove_beside(path)?;
    let mut paths = Vec::new();
    for (suffix, content) in signed {
        let beside = file.beside(suffix);
        io::write_atomically(&beside, &content)?;
        paths.push(beside);
    }
    Ok(paths)
}

/// Takes away what an earlier run signed of a file that is another now.
pub fn remove_beside(path: &Path) -> Result<()> {
    let mut suffixes = BESIDE.into_iter();
    suffixes.try_for_each(|suffix| io::remove_if_there(&io::with_suffix(path, suffix)))
}

/// The records of a build, if they agree. The artifacts are not read.
fn records(path: &Path, signers: &Signers, context: &Context) -> Result<Vec<PathBuf>> {
    let name = path.file_name();
    if name.is_none_or(|n| n != built::MANIFEST) {
        return Err(Error::new(
            Kind::Recipe,
            "this is neither a build's manifest nor a lock",
        )
        .at(path.display())
        .expected(format!("{}, or a recipe's NAME.lock", built::MANIFEST)));
    }
    let report = check::agreement(path)?;
    if !report.is_good() {
        let name = path.display().to_string();
        verify::report(&report, &name, context.sink.as_ref());
        return Err(
            Error::new(Kind::Verify, "the records do not agree, and are not signed")
                .at(name)
                .found(report.summary()),
        );
    }
    built::sign_all(io::folder_of(path), signers, epoch()?, &context.cancel)
}

/// The keys that arguments and environment name, each tried.
pub fn signers(args: &cli::SignArgs, context: &Context) -> Result<Signers> {
    Signers::open(&options(args, context), &context.cancel)
}

/// What the arguments and the environment name; this host's configuration where they name nothing.
pub fn options(args: &cli::SignArgs, context: &Context) -> Options {
    let given = Options {
        files: args.keys.clone(),
        environment: secret("WINIMG_SIGN_KEY"),
        password: secret("WINIMG_SIGN_PASSWORD"),
        command: args.command.clone(),
        public_key: args.public_key.clone(),
    };
    if !given.files.is_empty() || given.environment.is_some() || given.command.is_some() {
        return given;
    }
    let configured = &context.host.said.sign;
    Options {
        files: configured.keys.clone(),
        command: configured.command.clone(),
        public_key: configured.public_key.clone(),
        ..given
    }
}

/// Empty is as good as unset: that is how CI systems hand over a secret that there is not.
pub(super) fn secret(name: &str) -> Option<Secret> {
    let value = variable(name).filter(|value| !value.trim().is_empty())?;
    Some(Secret::new(value))
}

/// SOURCE_DATE_EPOCH, or now (reproducible-builds.org: SOURCE_DATE_EPOCH specification).
pub(super) fn epoch() -> Result<i64> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text.parse().map_err(|_| {
            Error::new(Kind::Recipe, "SOURCE_DATE_EPOCH is not a number of seconds").found(text)
        }),
        Err(_) => Ok(jiff::Timestamp::now().as_second()),
    }
}
