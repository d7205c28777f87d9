//! `winimg sign`: signs a lock, or the records of a finished build.

use std::path::{Path, PathBuf};

use crate::cli;
use crate::record::sign::Signers;
use crate::record::{check, writer};
use crate::verify;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::lock::LockFile;

use super::signers::{open_signers, read_epoch, remove_signatures};
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
