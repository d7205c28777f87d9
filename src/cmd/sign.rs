//! `winimg sign`, and the keys of `winimg build`.

use std::env;

use crate::cli;
use crate::record::sign::{Options, Signers};
use crate::record::{built, check};
use crate::verify;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::Secret;

use super::{Context, print};

/// Signs the records of a finished build, if they agree. The artifacts are not read.
pub fn run(args: &cli::Sign, context: &Context) -> Result<()> {
    let folder = io::folder_of(&args.manifest);
    let name = args.manifest.file_name();
    if name.is_none_or(|n| n != built::MANIFEST) {
        return Err(Error::new(Kind::Recipe, "this is not a build's manifest")
            .at(args.manifest.display())
            .expected(built::MANIFEST));
    }
    let signers = signers(&args.sign, context)?;
    if signers.is_empty() {
        return Err(Error::new(Kind::Recipe, "there is no key to sign with")
            .cure("--sign-key FILE, WINIMG_SIGN_KEY, or --sign-command with --sign-public-key; or [sign] in the configuration file"));
    }
    let report = check::agreement(&args.manifest)?;
    if !report.is_good() {
        let name = args.manifest.display().to_string();
        verify::report(&report, &name, context.sink.as_ref());
        return Err(
            Error::new(Kind::Verify, "the records do not agree, and are not signed")
                .at(name)
                .found(report.summary()),
        );
    }
    let paths = built::sign_all(folder, &signers, epoch()?, &context.cancel)?;
    let lines = paths.iter().map(|path| format!("{}\n", path.display()));
    print(&lines.collect::<String>())
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
    let value = env::var(name).ok().filter(|v| !v.trim().is_empty())?;
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
