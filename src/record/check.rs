//! Checks that records are signed with a key and match the files beside them: `winimg verify
//! --key`.
//!
//! Each finding is one sentence. Data without a valid signature is not trusted: without a valid
//! envelope the statement is not read.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::envelope::{Envelope, PAYLOAD_TYPE, encode_signed_bytes};
use super::key::{EcdsaPublicKey, RecordKey};
use super::manifest::BuildManifest;
use super::provenance::{PREDICATE, STATEMENT};
use super::writer;
use crate::engine::earlier::{
    PROVENANCE as STATEMENT_FILE, PROVENANCE_BUNDLE as BUNDLE_FILE,
    PROVENANCE_DSSE as ENVELOPE_FILE, SIGNATURES,
};
use crate::verify::{Verdict, VerifyFinding, VerifyReport};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::io;

/// The records beside a manifest, and the key that they have to be signed with.
struct RecordCheck<'a> {
    place: ManifestLocation<'a>,
    manifest_path: &'a Path,
    key: &'a RecordKey,
}

/// The manifest's folder and bytes.
#[derive(Clone, Copy)]
struct ManifestLocation<'a> {
    folder: &'a Path,
    bytes: &'a [u8],
}

/// Checks every record. Also returns the manifest if it can be read, from the bytes that were
/// checked.
pub fn check_records(
    path: &Path,
    key: &RecordKey,
) -> Result<(VerifyReport, Option<BuildManifest>)> {
    let mut report = VerifyReport::default();
    let Some(bytes) = read_if_exists(path)? else {
        let what = format!("{} is missing", path.display());
        report.add(Err(VerifyFinding::error(what)), None);
        return Ok((report, None));
    };
    let place = ManifestLocation {
        folder: io::folder_of(path),
        bytes: &bytes,
    };
    let check = RecordCheck {
        place,
        manifest_path: path,
        key,
    };
    report.add(check.verify_manifest()?, None);
    let manifest = match BuildManifest::parse(&String::from_utf8_lossy(&bytes)) {
        Ok(manifest) => manifest,
        Err(error) => {
            report.add(Err(error.at(path.display()).into()), None);
            return Ok((report, None));
        }
    };
    match check.verify_statement()? {
        Err(finding) => report.add(Err(finding), None),
        Ok(bytes) => {
            report.add(Ok(()), None);
            match serde_json::from_slice(&bytes) {
                Err(e) => {
                    let what = "the provenance is signed but is not JSON";
                    report.add(Err(VerifyFinding::error(what).found(e)), None);
                }
                Ok(statement) => compare_statement(place, &statement, &manifest, &mut report)?,
            }
        }
    }
    Ok((report, Some(manifest)))
}

/// Checks that records which are about to be signed agree with one another.
pub fn check_agreement(path: &Path) -> Result<VerifyReport> {
    let manifest = BuildManifest::read(path)?;
    let folder = io::folder_of(path);
    let mut report = VerifyReport::default();
    let (Some(bytes), Some(statement)) = (
        read_if_exists(path)?,
        read_if_exists(&folder.join(STATEMENT_FILE))?,
    ) else {
        let what = format!("{STATEMENT_FILE} is missing");
        report.add(Err(VerifyFinding::error(what)), None);
        return Ok(report);
    };
    let place = ManifestLocation {
        folder,
        bytes: &bytes,
    };
    match serde_json::from_slice(&statement) {
        Ok(statement) => compare_statement(place, &statement, &manifest, &mut report)?,
        Err(e) => {
            let what = format!("{STATEMENT_FILE} is not JSON");
            report.add(Err(VerifyFinding::error(what).found(e)), None);
        }
    }
    Ok(report)
}

/// Finds the signatures beside a manifest.
pub fn find_signatures(path: &Path) -> Vec<PathBuf> {
    let folder = io::folder_of(path);
    SIGNATURES
        .iter()
        .map(|name| folder.join(name))
        .filter(|path| path.exists())
        .collect()
}

impl RecordCheck<'_> {
    fn manifest_name(&self) -> String {
        let name = self.manifest_path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn verify_manifest(&self) -> Result<Verdict> {
        let name = self.manifest_name();
        match self.key {
            RecordKey::Minisign(key) => self.verify_minisign(key, &name, self.place.bytes),
            RecordKey::Ecdsa(key) => {
                let file = format!("{name}.sig");
                let Some(text) = read_if_exists(&self.place.folder.join(&file))? else {
                    return Ok(Err(missing_file_finding(&file, &name)));
                };
                let base64: Vec<u8> = text
                    .into_iter()
                    .filter(|b| !b.is_ascii_whitespace())
                    .collect();
                let Ok(signature) = STANDARD.decode(base64) else {
                    return Ok(Err(VerifyFinding::error(format!("{file} is not base64"))));
                };
                if key.is_valid_signature(self.place.bytes, &signature) {
                    return Ok(Ok(()));
                }
                // A bare signature names no key; the bundle beside it does.
                let signer = self.read_bundle()?.and_then(|b| b.ok()).map(|(_, key)| key);
                Ok(Err(match signer {
                    Some(id) if id != key.id => other_key_finding(&name, &key.id, &id),
                    _ => changed_file_finding(&name),
                }))
            }
        }
    }

    fn verify_minisign(
        &self,
        key: &minisign_verify::PublicKey,
        name: &str,
        bytes: &[u8],
    ) -> Result<Verdict> {
        let file = format!("{name}.minisig");
        let Some(text) = read_if_exists(&self.place.folder.join(&file))? else {
            return Ok(Err(missing_file_finding(&file, name)));
        };
        let text = String::from_utf8_lossy(&text);
        let Ok(signature) = minisign_verify::Signature::decode(&text) else {
            let what = format!("{file} is not a minisign signature");
            return Ok(Err(VerifyFinding::error(what)));
        };
        Ok(key.verify(bytes, &signature, false).map_err(|e| match e {
            minisign_verify::Error::UnexpectedKeyId => {
                VerifyFinding::error(format!("{name} is signed with another key")).cure(KEY_CURE)
            }
            minisign_verify::Error::UnsupportedLegacyMode
            | minisign_verify::Error::UnexpectedAlgorithm => {
                VerifyFinding::error(format!("{file} is a legacy minisign signature"))
            }
            _ => changed_file_finding(name),
        }))
    }

    fn read_bundle(&self) -> Result<Option<Result<(Envelope, String), String>>> {
        let text = read_if_exists(&self.place.folder.join(BUNDLE_FILE))?;
        Ok(text.map(|t| Envelope::parse_bundle(&String::from_utf8_lossy(&t))))
    }

    /// Returns the statement's bytes if they are signed with the key.
    fn verify_statement(&self) -> Result<Result<Vec<u8>, Box<VerifyFinding>>> {
        match self.key {
            RecordKey::Ecdsa(key) => self.verify_envelope(key),
            RecordKey::Minisign(key) => {
                let Some(bytes) = read_if_exists(&self.place.folder.join(STATEMENT_FILE))? else {
                    let what = format!("{STATEMENT_FILE} is missing");
                    return Ok(Err(VerifyFinding::error(what)));
                };
                let verdict = self.verify_minisign(key, STATEMENT_FILE, &bytes)?;
                Ok(verdict.map(|()| bytes))
            }
        }
    }

    fn verify_envelope(&self, key: &EcdsaPublicKey) -> Result<Result<Vec<u8>, Box<VerifyFinding>>> {
        let (envelope, key_id) = match self.read_bundle()? {
            None => return Ok(Err(missing_file_finding(BUNDLE_FILE, "the provenance"))),
            Some(Err(why)) => {
                let what = format!("{BUNDLE_FILE} is not a bundle that winimg can read: it {why}");
                return Ok(Err(VerifyFinding::error(what)));
            }
            Some(Ok(bundle)) => bundle,
        };
        if envelope.payload_type != PAYLOAD_TYPE {
            let what = format!("{BUNDLE_FILE} contains no in-toto statement");
            let finding = VerifyFinding::error(what).expected(PAYLOAD_TYPE);
            return Ok(Err(finding.found(envelope.payload_type)));
        }
        let signed = encode_signed_bytes(&envelope.payload_type, &envelope.payload);
        if !key.is_valid_signature(&signed, &envelope.signature) {
            return Ok(Err(if key_id == key.id {
                changed_file_finding("the provenance")
            } else {
                other_key_finding("the provenance", &key.id, &key_id)
            }));
        }
        Ok(self.compare_copies(&envelope)?.map(|()| envelope.payload))
    }

    /// Checks the two copies of the statement beside the bundle, which are for other programs.
    fn compare_copies(&self, envelope: &Envelope) -> Result<Verdict> {
        let statement = read_if_exists(&self.place.folder.join(STATEMENT_FILE))?;
        if statement.is_some_and(|bytes| bytes != envelope.payload) {
            return Ok(Err(different_copy_finding(STATEMENT_FILE)));
        }
        if let Some(bytes) = read_if_exists(&self.place.folder.join(ENVELOPE_FILE))? {
            let value = serde_json::from_slice::<Value>(&bytes).ok();
            let copy = value.and_then(|v| Envelope::parse(&v).ok());
            if copy.as_ref() != Some(envelope) {
                return Ok(Err(different_copy_finding(ENVELOPE_FILE)));
            }
        }
        Ok(Ok(()))
    }
}

fn different_copy_finding(file: &str) -> Box<VerifyFinding> {
    VerifyFinding::error(format!(
        "{file} differs from the statement in {BUNDLE_FILE}"
    ))
    .cure("copy it again from the build machine")
}

/// Compares a signed statement with the files and the manifest.
fn compare_statement(
    place: ManifestLocation<'_>,
    statement: &Value,
    manifest: &BuildManifest,
    report: &mut VerifyReport,
) -> Result<()> {
    for (pointer, expected) in [("/_type", STATEMENT), ("/predicateType", PREDICATE)] {
        let found = statement.pointer(pointer).and_then(Value::as_str);
        let found = found.unwrap_or("nothing");
        let what = format!(
            "the provenance has an unexpected {}",
            pointer.trim_start_matches('/')
        );
        let verdict = if found == expected {
            Ok(())
        } else {
            Err(VerifyFinding::error(what).expected(expected).found(found))
        };
        report.add(verdict, None);
    }
    compare_subjects(find_array(statement, "/subject"), manifest, report);
    let byproducts = find_array(statement, "/predicate/runDetails/byproducts");
    for name in writer::BYPRODUCTS {
        report.add(check_byproduct(place, name, byproducts)?, None);
    }
    Ok(())
}

fn check_byproduct(
    place: ManifestLocation<'_>,
    name: &str,
    byproducts: &[Value],
) -> Result<Verdict> {
    let found = byproducts
        .iter()
        .find(|b| b.get("name").and_then(Value::as_str) == Some(name));
    let expected = found.and_then(|b| b.pointer("/digest/sha256")?.as_str());
    let Some(expected) = expected else {
        let what = format!("the provenance does not mention {name}");
        return Ok(Err(VerifyFinding::error(what)));
    };
    let bytes = match name {
        writer::MANIFEST => Some(place.bytes.to_vec()),
        _ => read_if_exists(&place.folder.join(name))?,
    };
    let Some(bytes) = bytes else {
        return Ok(Err(VerifyFinding::error(format!("{name} is missing"))
            .cure("run `winimg verify` in the folder with all records")));
    };
    let digest = Digest::sha256_of(&bytes);
    if digest.hex() == expected {
        return Ok(Ok(()));
    }
    let what = format!("{name} differs from the file that the provenance lists");
    Ok(Err(VerifyFinding::error(what)
        .expected(format!("sha256:{expected}"))
        .found(digest)
        .cure("copy it again from the build machine")))
}

/// Compares the subjects with the manifest's artifacts. The files themselves are checked elsewhere.
fn compare_subjects(subjects: &[Value], manifest: &BuildManifest, report: &mut VerifyReport) {
    for artifact in &manifest.artifacts {
        let is_listed = subjects
            .iter()
            .any(|s| subject_sha256(s) == artifact.sha256);
        let what = format!("{} is not among the provenance's subjects", artifact.file);
        let verdict = if is_listed {
            Ok(())
        } else {
            Err(VerifyFinding::error(what).expected(format!("sha256:{}", artifact.sha256)))
        };
        report.add(verdict, None);
    }
    for subject in subjects {
        let hex = subject_sha256(subject);
        if !manifest.artifacts.iter().any(|a| a.sha256 == hex) {
            let name = subject.get("name").and_then(Value::as_str);
            let what = format!(
                "the provenance lists {}, which the manifest does not list",
                name.unwrap_or("a file without a name")
            );
            let finding = VerifyFinding::error(what).found(format!("sha256:{hex}"));
            report.add(Err(finding), None);
        }
    }
}

fn subject_sha256(subject: &Value) -> &str {
    subject
        .pointer("/digest/sha256")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

const KEY_CURE: &str = "use the builder's key from a source that you trust; a key that comes with \
                        the files proves nothing";

fn missing_file_finding(file: &str, of: &str) -> Box<VerifyFinding> {
    VerifyFinding::error(format!(
        "{of} is not signed with a key of this kind: {file} is missing"
    ))
    .cure("build with --sign-key, or copy the signature from the build machine")
}

fn other_key_finding(what: &str, expected: &str, found: &str) -> Box<VerifyFinding> {
    VerifyFinding::error(format!("{what} is signed with another key"))
        .expected(format!("key {expected}"))
        .found(format!("key {found}"))
        .cure(KEY_CURE)
}

fn changed_file_finding(what: &str) -> Box<VerifyFinding> {
    VerifyFinding::error(format!("{what} or its signature was changed after signing"))
        .cure("copy it and its signature again from the build machine")
}

fn find_array<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

/// Reads a record; returns `None` if there is no such file.
fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>> {
    match io::read_limited(path, io::limit::RECORD) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", path, e)),
    }
}
