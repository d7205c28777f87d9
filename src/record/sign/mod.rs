//! Signing of records: by a minisign key, by an EC P-256 key, or by a program that has the key.
//!
//! Each key is tried before a machine starts, and each signature is verified before it is written. A private key is read,
//! used and forgotten: it is in no argument, log, event or record. Refuses two keys of one kind, as an envelope of a bundle
//! has one signature.

mod command;
mod local;

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::envelope::{Envelope, PAYLOAD_TYPE, signed_bytes};
use super::key::{self, Ecdsa};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_base::text::Secret;

pub use command::split;
pub use local::Minisign;

/// Every name that a signature may have beside a manifest.
pub const FILES: [&str; 5] = [
    "manifest.json.sig",
    "manifest.json.minisig",
    "provenance.intoto.json.minisig",
    "provenance.dsse.json",
    "provenance.sigstore.json",
];

/// What follows the name of a file that is signed by itself.
pub const BESIDE: [&str; 2] = [".sig", ".minisig"];

/// Takes away what an earlier run signed in `folder`.
pub fn remove(folder: &Path) -> Result<()> {
    let mut files = FILES.into_iter();
    files.try_for_each(|name| io::remove_if_there(&folder.join(name)))
}

/// What a key signs before a build, to be forgotten.
const TRIAL: &[u8] = b"winimg tries whether this key can sign\n";

/// What the user named.
#[derive(Clone, Debug, Default)]
pub struct Options {
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

/// The keys of one build; none signs nothing.
#[derive(Default)]
pub struct Signers {
    ecdsa: Option<(EcdsaSigner, Ecdsa)>,
    minisign: Option<local::Minisign>,
}

enum EcdsaSigner {
    Key(local::EcKey),
    Program(command::Program),
}

/// What is signed.
pub struct Records<'a> {
    /// `manifest.json`
    pub manifest: &'a [u8],
    /// `provenance.intoto.json`
    pub statement: &'a [u8],
    /// For minisign's trusted comment: seconds since 1970, and the recipe's name and digest.
    pub epoch: i64,
    pub recipe: &'a str,
}

impl Signers {
    /// Reads every key and signs something with it.
    pub fn open(options: &Options, cancel: &Cancel) -> Result<Self> {
        let mut signers = Self::default();
        for path in &options.files {
            let text = Secret::new(key::read_bounded(path)?);
            signers.add(&text, &path.display().to_string(), options)?;
        }
        if let Some(text) = &options.environment {
            signers.add(text, "WINIMG_SIGN_KEY", options)?;
        }
        signers.add_program(options)?;
        signers.attempt(cancel)?;
        Ok(signers)
    }

    pub fn is_empty(&self) -> bool {
        self.ecdsa.is_none() && self.minisign.is_none()
    }

    fn add(&mut self, text: &Secret, at: &str, options: &Options) -> Result<()> {
        match read(text, at, options.password.as_ref())? {
            local::Key::Ec(key, public) => {
                self.only_ecdsa(at)?;
                self.ecdsa = Some((EcdsaSigner::Key(key), public));
            }
            local::Key::Minisign(_) if self.minisign.is_some() => {
                return Err(second("minisign", at));
            }
            local::Key::Minisign(key) => self.minisign = Some(tried(key, at)?),
        }
        Ok(())
    }

    fn add_program(&mut self, options: &Options) -> Result<()> {
        let (line, path) = match (&options.command, &options.public_key) {
            (None, None) => return Ok(()),
            (Some(line), Some(path)) => (line, path),
            (Some(_), None) => {
                return Err(
                    Error::new(Kind::Recipe, "--sign-command needs --sign-public-key").cure(
                        "name the public key in PEM: every signature that the command gives is verified with it",
                    ),
                );
            }
            (None, Some(_)) => {
                return Err(
                    Error::new(Kind::Recipe, "--sign-public-key goes with --sign-command")
                        .cure("a key file of --sign-key needs none"),
                );
            }
        };
        self.only_ecdsa("--sign-command")?;
        let program = command::Program::new(line)?;
        let public = read_public(path)?;
        self.ecdsa = Some((EcdsaSigner::Program(program), public));
        Ok(())
    }

    fn only_ecdsa(&self, at: &str) -> Result<()> {
        match self.ecdsa {
            Some(_) => Err(second("ECDSA", at)),
            None => Ok(()),
        }
    }

    /// A key that cannot sign is found now, not when the image is finished.
    fn attempt(&self, cancel: &Cancel) -> Result<()> {
        match &self.ecdsa {
            Some((signer, public)) => ecdsa(signer, public, TRIAL, cancel).map(drop),
            None => Ok(()),
        }
    }

    /// The files to write: their names and whole contents.
    pub fn sign(
        &self,
        records: &Records<'_>,
        cancel: &Cancel,
    ) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let mut files = Vec::new();
        if let Some((signer, public)) = &self.ecdsa {
            let signature = ecdsa(signer, public, records.manifest, cancel)?;
            files.push(("manifest.json.sig", STANDARD.encode(signature).into_bytes()));
            let bytes = signed_bytes(PAYLOAD_TYPE, records.statement);
            let envelope = Envelope {
                payload_type: PAYLOAD_TYPE.into(),
                payload: records.statement.to_vec(),
                signature: ecdsa(signer, public, &bytes, cancel)?,
            };
            files.push((
                "provenance.dsse.json",
                envelope.document(&public.id).into_bytes(),
            ));
            files.push((
                "provenance.sigstore.json",
                envelope.bundle(&public.id).into_bytes(),
            ));
        }
        if let Some(key) = &self.minisign {
            for (name, file, bytes) in [
                ("manifest.json.minisig", "manifest.json", records.manifest),
                (
                    "provenance.intoto.json.minisig",
                    "provenance.intoto.json",
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

    /// Signs one file: what follows its name, and the whole content. `comment` is minisign's, and is signed with the file.
    pub fn sign_one(
        &self,
        bytes: &[u8],
        comment: &str,
        cancel: &Cancel,
    ) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let mut files = Vec::new();
        if let Some((signer, public)) = &self.ecdsa {
            let signature = ecdsa(signer, public, bytes, cancel)?;
            files.push((BESIDE[0], STANDARD.encode(signature).into_bytes()));
        }
        if let Some(key) = &self.minisign {
            files.push((BESIDE[1], key.sign(bytes, comment)?.into_bytes()));
        }
        Ok(files)
    }
}

/// A minisign secret key that has signed something; `at` says where its text stood.
pub fn minisign_key(text: &Secret, at: &str, password: Option<&Secret>) -> Result<Minisign> {
    match read(text, at, password)? {
        local::Key::Minisign(key) => tried(key, at),
        local::Key::Ec(..) => Err(key::refused(at, "is an EC key: here minisign signs")),
    }
}

fn tried(key: Minisign, at: &str) -> Result<Minisign> {
    let trial = key.sign(TRIAL, "a trial");
    trial.map_err(|_| key::refused(at, "is damaged: its halves do not fit"))?;
    Ok(key)
}

fn read(text: &Secret, at: &str, password: Option<&Secret>) -> Result<local::Key> {
    local::read(text, password).map_err(|problem| {
        let error = key::refused(at, &problem.fact);
        problem.cures.into_iter().fold(error, Error::cure)
    })
}

/// A signature in DER that `public` takes.
fn ecdsa(signer: &EcdsaSigner, public: &Ecdsa, bytes: &[u8], cancel: &Cancel) -> Result<Vec<u8>> {
    match signer {
        EcdsaSigner::Key(key) => key.sign(bytes),
        EcdsaSigner::Program(program) => {
            let signature = program.sign(bytes, cancel)?;
            if public.verifies(bytes, &signature) {
                return Ok(signature);
            }
            Err(Error::new(
                Kind::Host,
                "the signature of --sign-command does not fit --sign-public-key",
            )
            .at(program)
            .expected("ECDSA on P-256 over SHA-256 of standard input, DER in base64")
            .cure("see that the command reads all of standard input as it is, and that the key is its own"))
        }
    }
}

fn read_public(path: &Path) -> Result<Ecdsa> {
    let pem = key::read_bounded(path)?;
    Ecdsa::from_pem(pem.as_bytes()).map_err(|why| {
        Error::new(Kind::Recipe, format!("the key {why}"))
            .at(path.display())
            .expected("an EC P-256 public key in PEM")
    })
}

fn second(kind: &str, at: &str) -> Error {
    Error::new(
        Kind::Recipe,
        format!("there are two {kind} keys to sign with"),
    )
    .at(at)
    .expected("at most one minisign key, and one EC key or --sign-command")
}
