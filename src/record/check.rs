//! Whether records are what a key's owner signed, and speak of the files that are there: `winimg verify --key`.
//!
//! Each fault is one sentence. What a signature does not cover is not believed: without a good envelope nothing of the
//! statement is looked at.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::envelope::{Envelope, PAYLOAD_TYPE, signed_bytes};
use super::key::{Ecdsa, PublicKey};
use super::manifest::Manifest;
use super::provenance::{PREDICATE, STATEMENT};
use super::{built, sign};
use crate::verify::{Finding, Report, Verdict};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::io;

const STATEMENT_FILE: &str = "provenance.intoto.json";
const BUNDLE_FILE: &str = "provenance.sigstore.json";
const ENVELOPE_FILE: &str = "provenance.dsse.json";

/// The records beside a manifest, and the key that they have to be signed with.
struct Check<'a> {
    place: Place<'a>,
    manifest_path: &'a Path,
    key: &'a PublicKey,
}

/// The manifest's folder and bytes.
#[derive(Clone, Copy)]
struct Place<'a> {
    folder: &'a Path,
    bytes: &'a [u8],
}

/// Judges every record; and the manifest, when it can be read. What is judged is what is given.
pub fn records(path: &Path, key: &PublicKey) -> Result<(Report, Option<Manifest>)> {
    let mut report = Report::default();
    let Some(bytes) = read(path)? else {
        let what = format!("{} is missing", path.display());
        report.add(Err(Finding::error(what)), None);
        return Ok((report, None));
    };
    let place = Place {
        folder: io::folder_of(path),
        bytes: &bytes,
    };
    let check = Check {
        place,
        manifest_path: path,
        key,
    };
    report.add(check.manifest()?, None);
    let manifest = match Manifest::parse(&String::from_utf8_lossy(&bytes)) {
        Ok(manifest) => manifest,
        Err(error) => {
            report.add(Err(error.at(path.display()).into()), None);
            return Ok((report, None));
        }
    };
    match check.statement()? {
        Err(finding) => report.add(Err(finding), None),
        Ok(bytes) => {
            report.add(Ok(()), None);
            match serde_json::from_slice(&bytes) {
                Err(e) => {
                    let what = "the provenance is signed but is not JSON";
                    report.add(Err(Finding::error(what).found(e)), None);
                }
                Ok(statement) => compare(place, &statement, &manifest, &mut report)?,
            }
        }
    }
    Ok((report, Some(manifest)))
}

/// Whether records that are about to be signed agree with one another.
pub fn agreement(path: &Path) -> Result<Report> {
    let manifest = Manifest::read(path)?;
    let folder = io::folder_of(path);
    let mut report = Report::default();
    let (Some(bytes), Some(statement)) = (read(path)?, read(&folder.join(STATEMENT_FILE))?) else {
        let what = format!("{STATEMENT_FILE} is missing");
        report.add(Err(Finding::error(what)), None);
        return Ok(report);
    };
    let place = Place {
        folder,
        bytes: &bytes,
    };
    match serde_json::from_slice(&statement) {
        Ok(statement) => compare(place, &statement, &manifest, &mut report)?,
        Err(e) => {
            let what = format!("{STATEMENT_FILE} is not JSON");
            report.add(Err(Finding::error(what).found(e)), None);
        }
    }
    Ok(report)
}

/// The signatures that lie beside a manifest.
pub fn signatures(path: &Path) -> Vec<PathBuf> {
    let folder = io::folder_of(path);
    let all = sign::FILES.iter().map(|name| folder.join(name));
    all.filter(|path| path.exists()).collect()
}

impl Check<'_> {
    fn name(&self) -> String {
        let name = self.manifest_path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn manifest(&self) -> Result<Verdict> {
        let name = self.name();
        match self.key {
            PublicKey::Minisign(key) => self.minisign(key, &name, self.place.bytes),
            PublicKey::Ecdsa(key) => {
                let file = format!("{name}.sig");
                let Some(text) = read(&self.place.folder.join(&file))? else {
                    return Ok(Err(missing(&file, &name)));
                };
                let text = text.into_iter().filter(|b| !b.is_ascii_whitespace());
                let Ok(signature) = STANDARD.decode(text.collect::<Vec<u8>>()) else {
                    return Ok(Err(Finding::error(format!("{file} is not base64"))));
                };
                if key.verifies(self.place.bytes, &signature) {
                    return Ok(Ok(()));
                }
                // A bare signature does not say whose it is; the bundle beside it does.
                let hint = self.bundle()?.and_then(|b| b.ok()).map(|(_, key)| key);
                Ok(Err(match hint {
                    Some(hint) if hint != key.id => other_key(&name, &key.id, &hint),
                    _ => changed(&name),
                }))
            }
        }
    }

    fn minisign(
        &self,
        key: &minisign_verify::PublicKey,
        name: &str,
        bytes: &[u8],
    ) -> Result<Verdict> {
        let file = format!("{name}.minisig");
        let Some(text) = read(&self.place.folder.join(&file))? else {
            return Ok(Err(missing(&file, name)));
        };
        let text = String::from_utf8_lossy(&text);
        let Ok(signature) = minisign_verify::Signature::decode(&text) else {
            let what = format!("{file} is not a minisign signature");
            return Ok(Err(Finding::error(what)));
        };
        Ok(key.verify(bytes, &signature, false).map_err(|e| match e {
            minisign_verify::Error::UnexpectedKeyId => {
                Finding::error(format!("{name} is signed with another key")).cure(CURE_KEY)
            }
            minisign_verify::Error::UnsupportedLegacyMode
            | minisign_verify::Error::UnexpectedAlgorithm => {
                Finding::error(format!("{file} is a signature of minisign's legacy kind"))
            }
            _ => changed(name),
        }))
    }

    fn bundle(&self) -> Result<Option<Result<(Envelope, String), String>>> {
        let text = read(&self.place.folder.join(BUNDLE_FILE))?;
        Ok(text.map(|t| Envelope::read_bundle(&String::from_utf8_lossy(&t))))
    }

    /// The statement's bytes, if the key signed them.
    fn statement(&self) -> Result<Result<Vec<u8>, Box<Finding>>> {
        match self.key {
            PublicKey::Ecdsa(key) => self.enveloped(key),
            PublicKey::Minisign(key) => {
                let Some(bytes) = read(&self.place.folder.join(STATEMENT_FILE))? else {
                    let what = format!("{STATEMENT_FILE} is missing");
                    return Ok(Err(Finding::error(what)));
                };
                let verdict = self.minisign(key, STATEMENT_FILE, &bytes)?;
                Ok(verdict.map(|()| bytes))
            }
        }
    }

    fn enveloped(&self, key: &Ecdsa) -> Result<Result<Vec<u8>, Box<Finding>>> {
        let (envelope, named) = match self.bundle()? {
            None => return Ok(Err(missing(BUNDLE_FILE, "the provenance"))),
            Some(Err(why)) => {
                let what = format!("{BUNDLE_FILE} is no bundle that winimg reads: it {why}");
                return Ok(Err(Finding::error(what)));
            }
            Some(Ok(bundle)) => bundle,
        };
        if envelope.payload_type != PAYLOAD_TYPE {
            let what = format!("{BUNDLE_FILE} holds no in-toto statement");
            let finding = Finding::error(what).expected(PAYLOAD_TYPE);
            return Ok(Err(finding.found(envelope.payload_type)));
        }
        let signed = signed_bytes(&envelope.payload_type, &envelope.payload);
        if !key.verifies(&signed, &envelope.signature) {
            return Ok(Err(match named == key.id {
                true => changed("the provenance"),
                false => other_key("the provenance", &key.id, &named),
            }));
        }
        Ok(self.copies(&envelope)?.map(|()| envelope.payload))
    }

    /// The same statement lies beside the bundle twice more, for other programs: they must not say anything else.
    fn copies(&self, envelope: &Envelope) -> Result<Verdict> {
        let differs = |file: &str| {
            Finding::error(format!("{file} is not what {BUNDLE_FILE} holds"))
                .cure("copy it again from where it was built")
        };
        let plain = read(&self.place.folder.join(STATEMENT_FILE))?;
        if plain.is_some_and(|bytes| bytes != envelope.payload) {
            return Ok(Err(differs(STATEMENT_FILE)));
        }
        let bare = read(&self.place.folder.join(ENVELOPE_FILE))?;
        let same = |bytes: Vec<u8>| {
            let value = serde_json::from_slice::<Value>(&bytes).ok();
            value.and_then(|v| Envelope::read(&v).ok()).as_ref() == Some(envelope)
        };
        match bare.is_none_or(same) {
            true => Ok(Ok(())),
            false => Ok(Err(differs(ENVELOPE_FILE))),
        }
    }
}

/// What a statement that is signed says, beside what is there.
fn compare(
    place: Place<'_>,
    statement: &Value,
    manifest: &Manifest,
    report: &mut Report,
) -> Result<()> {
    let text = |pointer: &str| statement.pointer(pointer).and_then(Value::as_str);
    for (pointer, expected) in [("/_type", STATEMENT), ("/predicateType", PREDICATE)] {
        let found = text(pointer).unwrap_or("nothing");
        let what = format!(
            "the provenance has another {}",
            pointer.trim_start_matches('/')
        );
        let verdict = match found == expected {
            true => Ok(()),
            false => Err(Finding::error(what).expected(expected).found(found)),
        };
        report.add(verdict, None);
    }
    subjects(list(statement, "/subject"), manifest, report);
    let byproducts = list(statement, "/predicate/runDetails/byproducts");
    for name in built::BYPRODUCTS {
        report.add(byproduct(place, name, byproducts)?, None);
    }
    Ok(())
}

fn byproduct(place: Place<'_>, name: &str, byproducts: &[Value]) -> Result<Verdict> {
    let found = byproducts
        .iter()
        .find(|b| b.get("name").and_then(Value::as_str) == Some(name));
    let expected = found.and_then(|b| b.pointer("/digest/sha256")?.as_str());
    let Some(expected) = expected else {
        let what = format!("the provenance says nothing of {name}");
        return Ok(Err(Finding::error(what)));
    };
    let bytes = match name {
        built::MANIFEST => Some(place.bytes.to_vec()),
        _ => read(&place.folder.join(name))?,
    };
    let Some(bytes) = bytes else {
        return Ok(Err(Finding::error(format!("{name} is missing"))
            .cure("verify the manifest where its records are")));
    };
    let digest = Digest::sha256_of(&bytes);
    if digest.hex() == expected {
        return Ok(Ok(()));
    }
    let what = format!("{name} is not the file that the provenance names");
    Ok(Err(Finding::error(what)
        .expected(format!("sha256:{expected}"))
        .found(digest)
        .cure("copy it again from where it was built")))
}

/// Subjects and the manifest's artifacts are the same files. That those are on disk is looked at with the artifacts.
fn subjects(subjects: &[Value], manifest: &Manifest, report: &mut Report) {
    let sha256 = |subject: &Value| {
        let hex = subject.pointer("/digest/sha256").and_then(Value::as_str);
        hex.unwrap_or_default().to_owned()
    };
    for artifact in &manifest.artifacts {
        let is_one = subjects.iter().any(|s| sha256(s) == artifact.sha256);
        let what = format!("{} is not among the provenance's subjects", artifact.file);
        let verdict = match is_one {
            true => Ok(()),
            false => Err(Finding::error(what).expected(format!("sha256:{}", artifact.sha256))),
        };
        report.add(verdict, None);
    }
    for subject in subjects {
        let hex = sha256(subject);
        if !manifest.artifacts.iter().any(|a| a.sha256 == hex) {
            let name = subject.get("name").and_then(Value::as_str);
            let what = format!(
                "the provenance speaks of {}, which the manifest does not list",
                name.unwrap_or("a file without a name")
            );
            let finding = Finding::error(what).found(format!("sha256:{hex}"));
            report.add(Err(finding), None);
        }
    }
}

const CURE_KEY: &str = "use the builder's key from a source that you trust; a key from beside the files proves nothing";

fn missing(file: &str, of: &str) -> Box<Finding> {
    Finding::error(format!(
        "{of} is not signed with a key of this kind: {file} is missing"
    ))
    .cure("build with --sign-key, or copy the signature from where it was built")
}

fn other_key(what: &str, expected: &str, found: &str) -> Box<Finding> {
    Finding::error(format!("{what} is signed with another key"))
        .expected(format!("key {expected}"))
        .found(format!("key {found}"))
        .cure(CURE_KEY)
}

fn changed(what: &str) -> Box<Finding> {
    Finding::error(format!(
        "{what} or its signature was changed after it was signed"
    ))
    .cure("copy it and its signature again from where it was built")
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

/// `None`: there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match io::read_limited(path, io::limit::RECORD) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", path, e)),
    }
}
