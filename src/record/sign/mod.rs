//! Signs records with a minisign key, with an EC P-256 key, or with a program that has the key.
//!
//! Each key makes a trial signature before a machine starts, and each signature is verified before
//! it is written. A private key appears in no argument, log, event or record. Refuses two keys of
//! one kind, as an envelope of a bundle has one signature.

mod command;
mod local;

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::envelope::{Envelope, PAYLOAD_TYPE, encode_signed_bytes};
use super::key::{self, EcdsaPublicKey};
use crate::engine::earlier;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_base::text::Secret;

pub use command::split_command;
pub use local::MinisignKey;

/// Suffixes of the signatures of a single file.
pub const BESIDE: [&str; 2] = [".sig", ".minisig"];

/// Removes an earlier run's signatures from `folder`.
pub fn remove_signatures(folder: &Path) -> Result<()> {
    earlier::SIGNATURES
        .into_iter()
        .try_for_each(|name| io::remove_if_exists(&folder.join(name)))
}

/// Text of the trial signature before a build, which is discarded.
const TRIAL: &[u8] = b"winimg tries whether this key can sign\n";

/// The user's choice of keys.
#[derive(Clone, Debug, Default)]
pub struct SignOptions {
    /// `--sign-key`
    pub files: Vec<PathBuf>,
    /// `WINIMG_SIGN_KEY`
    pub environment: Option<Secret>,
    /// `WINIMG_SIGN_PASSWORD`
    pub password: Option<Secret>,
    /// `--sign-command`
    pub command: Option<String>,
    /// `--sign-public-key`: the key of `--sign-command`
    pub public_key: Option<PathBuf>,
}

/// The keys of one build; may be empty.
#[derive(Default)]
pub struct Signers {
    ecdsa: Option<(EcdsaSigner, EcdsaPublicKey)>,
    minisign: Option<local::MinisignKey>,
}

enum EcdsaSigner {
    Key(local::EcKey),
    Program(command::SignProgram),
}

/// The records to sign.
pub struct RecordsToSign<'a> {
    /// `manifest.json`
    pub manifest: &'a [u8],
    /// `provenance.intoto.json`
    pub statement: &'a [u8],
    /// For minisign's trusted comment: seconds since 1970, and the recipe's name and digest.
    pub epoch: i64,
    pub recipe: &'a str,
}

impl Signers {
    /// Reads every key and makes a trial signature with it.
    pub fn open(options: &SignOptions, cancel: &Cancel) -> Result<Self> {
        let mut signers = Self::default();
        for path in &options.files {
            let text = Secret::new(key::read_bounded(path)?);
            signers.add(&text, &path.display().to_string(), options)?;
        }
        if let Some(text) = &options.environment {
            signers.add(text, "WINIMG_SIGN_KEY", options)?;
        }
        signers.add_program(options)?;
        signers.try_signing(cancel)?;
        Ok(signers)
    }

    pub fn is_empty(&self) -> bool {
        self.ecdsa.is_none() && self.minisign.is_none()
    }

    fn add(&mut self, text: &Secret, at: &str, options: &SignOptions) -> Result<()> {
        match parse_key(text, at, options.password.as_ref())? {
            local::SigningKey::Ec(key, public) => {
                self.refuse_second_ecdsa(at)?;
                self.ecdsa = Some((EcdsaSigner::Key(key), public));
            }
            local::SigningKey::Minisign(_) if self.minisign.is_some() => {
                return Err(second_key_error("minisign", at));
            }
            local::SigningKey::Minisign(key) => self.minisign = Some(check_signing(key, at)?),
        }
        Ok(())
    }

    fn add_program(&mut self, options: &SignOptions) -> Result<()> {
        let (line, path) = match (&options.command, &options.public_key) {
            (None, None) => return Ok(()),
            (Some(line), Some(path)) => (line, path),
            (Some(_), None) => {
                return Err(
                    Error::new(Kind::Recipe, "--sign-command needs --sign-public-key").cure(
                        "add the PEM file of its public key: every signature of the command is \
                         verified with it",
                    ),
                );
            }
            (None, Some(_)) => {
                return Err(
                    Error::new(Kind::Recipe, "--sign-public-key requires --sign-command")
                        .cure("omit it with --sign-key: a key file includes the public key"),
                );
            }
        };
        self.refuse_second_ecdsa("--sign-command")?;
        let program = command::SignProgram::new(line)?;
        let public = read_public(path)?;
        self.ecdsa = Some((EcdsaSigner::Program(program), public));
        Ok(())
    }

    fn refuse_second_ecdsa(&self, at: &str) -> Result<()> {
        match self.ecdsa {
            Some(_) => Err(second_key_error("ECDSA", at)),
            None => Ok(()),
        }
    }

    /// Makes a trial signature, so that an unusable key fails now, not after the build.
    fn try_signing(&self, cancel: &Cancel) -> Result<()> {
        match &self.ecdsa {
            Some((signer, public)) => sign_ecdsa(signer, public, TRIAL, cancel).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the names and contents of the signature files.
    pub fn sign(
        &self,
        records: &RecordsToSign<'_>,
        cancel: &Cancel,
    ) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let mut files = Vec::new();
        if let Some((signer, public)) = &self.ecdsa {
            let signature = sign_ecdsa(signer, public, records.manifest, cancel)?;
            files.push((
                earlier::MANIFEST_SIG,
                STANDARD.encode(signature).into_bytes(),
            ));
            let bytes = encode_signed_bytes(PAYLOAD_TYPE, records.statement);
            let envelope = Envelope {
                payload_type: PAYLOAD_TYPE.into(),
                payload: records.statement.to_vec(),
                signature: sign_ecdsa(signer, public, &bytes, cancel)?,
            };
            files.push((
                earlier::PROVENANCE_DSSE,
                envelope.render_document(&public.id).into_bytes(),
            ));
            files.push((
                earlier::PROVENANCE_BUNDLE,
                envelope.render_bundle(&public.id).into_bytes(),
            ));
        }
        if let Some(key) = &self.minisign {
            for (name, file, bytes) in [
                (
                    earlier::MANIFEST_MINISIG,
                    earlier::MANIFEST,
                    records.manifest,
                ),
                (
                    earlier::PROVENANCE_MINISIG,
                    earlier::PROVENANCE,
                    records.statement,
                ),
            ] {
                let comment = format!(
                    "timestamp:{}\tfile:{file}\thashed\trecipe:{}",
                    records.epoch, records.recipe
                );
                files.push((name, key.sign(bytes, &comment)?.into_bytes()));
            }
        }
        Ok(files)
    }

    /// Signs one file. Returns the suffixes and contents of the signature files. `comment` is
    /// minisign's trusted comment.
    pub fn sign_one(
        &self,
        bytes: &[u8],
        comment: &str,
        cancel: &Cancel,
    ) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let mut files = Vec::new();
        if let Some((signer, public)) = &self.ecdsa {
            let signature = sign_ecdsa(signer, public, bytes, cancel)?;
            files.push((BESIDE[0], STANDARD.encode(signature).into_bytes()));
        }
        if let Some(key) = &self.minisign {
            files.push((BESIDE[1], key.sign(bytes, comment)?.into_bytes()));
        }
        Ok(files)
    }
}

/// Parses a minisign secret key and makes a trial signature; `at` is the key's origin.
pub fn parse_minisign_key(
    text: &Secret,
    at: &str,
    password: Option<&Secret>,
) -> Result<MinisignKey> {
    match parse_key(text, at, password)? {
        local::SigningKey::Minisign(key) => check_signing(key, at),
        local::SigningKey::Ec(..) => Err(key::unusable_key_error(
            at,
            "is an EC key: this needs a minisign key",
        )),
    }
}

fn check_signing(key: MinisignKey, at: &str) -> Result<MinisignKey> {
    key.sign(TRIAL, "a trial").map_err(|_| {
        key::unusable_key_error(at, "is damaged: its public and private halves do not match")
    })?;
    Ok(key)
}

fn parse_key(text: &Secret, at: &str, password: Option<&Secret>) -> Result<local::SigningKey> {
    local::parse_key(text, password).map_err(|problem| {
        let error = key::unusable_key_error(at, &problem.fact);
        problem.cures.into_iter().fold(error, Error::cure)
    })
}

/// Returns a signature in DER, verified with `public` if a program made it.
fn sign_ecdsa(
    signer: &EcdsaSigner,
    public: &EcdsaPublicKey,
    bytes: &[u8],
    cancel: &Cancel,
) -> Result<Vec<u8>> {
    match signer {
        EcdsaSigner::Key(key) => key.sign(bytes),
        EcdsaSigner::Program(program) => {
            let signature = program.sign(bytes, cancel)?;
            if public.is_valid_signature(bytes, &signature) {
                return Ok(signature);
            }
            Err(Error::new(
                Kind::Host,
                "the signature of --sign-command does not match --sign-public-key",
            )
            .at(program)
            .expected("ECDSA on P-256 over SHA-256 of standard input, DER in base64")
            .cure(
                "check that the command reads all of standard input as binary, and that \
                 --sign-public-key is its key",
            ))
        }
    }
}

fn read_public(path: &Path) -> Result<EcdsaPublicKey> {
    let pem = key::read_bounded(path)?;
    EcdsaPublicKey::from_pem(pem.as_bytes()).map_err(|why| {
        Error::new(Kind::Recipe, format!("the key {why}"))
            .at(path.display())
            .expected("an EC P-256 public key in PEM")
    })
}

fn second_key_error(kind: &str, at: &str) -> Error {
    Error::new(Kind::Recipe, format!("there are two {kind} signing keys"))
        .at(at)
        .expected("at most one minisign key, and one EC key or --sign-command")
}
