//! The keys that sign locks, records and layers: from the arguments, the environment or this host's
//! configuration.

use std::path::Path;

use crate::cli;
use crate::record::sign::{BESIDE, SignOptions, Signers};
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::Secret;

use super::CommandContext;

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
    let configured = &context.host.config.sign;
    SignOptions {
        files: configured.keys.clone(),
        command: configured.command.clone(),
        public_key: configured.public_key.clone(),
        ..given
    }
}

/// Returns a secret from the environment. Empty counts as unset: CI systems pass undefined secrets
/// that way.
pub fn read_secret(name: &str) -> Option<Secret> {
    let value = read_variable(name).filter(|value| !value.trim().is_empty())?;
    Some(Secret::new(value))
}

/// Returns SOURCE_DATE_EPOCH, or now (reproducible-builds.org: SOURCE_DATE_EPOCH specification).
pub fn read_epoch() -> Result<i64> {
    let fixed = read_fixed_epoch()?;
    Ok(fixed.unwrap_or_else(|| jiff::Timestamp::now().as_second()))
}

/// Returns SOURCE_DATE_EPOCH, if it is set.
pub fn read_fixed_epoch() -> Result<Option<i64>> {
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

/// Removes outdated signatures of a file that has changed.
pub fn remove_signatures(path: &Path) -> Result<()> {
    BESIDE
        .into_iter()
        .try_for_each(|suffix| io::remove_if_exists(&io::with_suffix(path, suffix)))
}
