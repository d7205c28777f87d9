//! Checks the signatures of drivers on a medium by their catalogs: each file of a driver package,
//! for every release that the medium has a driver for. The INF determines the files of a package.
//!
//! Refuses rules other than Authenticode. A driver that is missing from the medium is not an error
//! here: the code that copies the drivers refuses it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_formats::driver::{self, DriverPackage, DriverPackageFault, MediumDrivers};
use winimg_formats::udf::{Medium, MediumEntry};
use winimg_formats::wim::WindowsRelease;
use winimg_trust::{
    FileSubject, RefusalReason, SignatureRefusal, SignatureRule, Signer, authenticode,
};

use super::signature_demand::{
    DemandFailure, SignatureDemand, add_member_names, from_several, merge_signer,
};

/// Copy of a file on the medium.
struct CopiedFile {
    path: PathBuf,
    /// Name without its folder.
    name: String,
    digest: Digest,
}

impl CopiedFile {
    fn to_subject(&self) -> FileSubject<'_> {
        FileSubject {
            path: &self.path,
            name: &self.name,
            published: &self.name,
            digest: &self.digest,
        }
    }
}

/// Returns the signers of these drivers' catalogs on the medium at `path`. Temporary copies go into
/// `beside`.
pub(super) fn judge(
    demand: &SignatureDemand,
    names: &[String],
    path: &Path,
    beside: &Path,
) -> Result<Vec<Signer>, DemandFailure> {
    let medium = Medium::open(path)?;
    let mut signed: Vec<(Signer, Vec<String>)> = Vec::new();
    let mut refused: Vec<(String, SignatureRefusal)> = Vec::new();
    let mut count = 0;
    for name in names {
        for release in WindowsRelease::ALL {
            let folder = driver::format_medium_folder(name, release);
            let Some(found) = driver::on_medium(&medium, &folder)? else {
                continue;
            };
            let packages = match &found.packages {
                Ok(chosen) => &chosen.packages,
                Err(faults) => {
                    count += faults.len();
                    refused.extend(faults.iter().map(|fault| report_incomplete(&folder, fault)));
                    continue;
                }
            };
            for package in packages {
                count += package.paths().count();
                match check_package(demand, &medium, &found, package, beside)? {
                    Ok(signers) => {
                        for signer in signers {
                            merge_signer(&mut signed, signer, &folder);
                        }
                    }
                    Err(refusals) => refused.extend(refusals.into_iter().map(|(file, refusal)| {
                        let file = file.map_or(folder.clone(), |name| format!("{folder}/{name}"));
                        (file, refusal)
                    })),
                }
            }
        }
    }
    if !refused.is_empty() {
        return Err(from_several(refused, count, "files of its drivers"));
    }
    let signers = signed.into_iter();
    Ok(signers
        .map(|(s, of)| add_member_names(s, "drivers", &of))
        .collect())
}

/// Builds the refusal of a folder whose INF names a missing file.
fn report_incomplete(folder: &str, fault: &DriverPackageFault) -> (String, SignatureRefusal) {
    let refusal = SignatureRefusal {
        reason: RefusalReason::Missing,
        problem: fault.problem.clone(),
    };
    (folder.to_owned(), refusal)
}

/// Result of a package. Refusals are for a file, by its path in the folder, or for the whole
/// folder.
type PackageVerdict = Result<Vec<Signer>, Vec<(Option<String>, SignatureRefusal)>>;

fn check_package(
    demand: &SignatureDemand,
    medium: &Medium,
    folder: &MediumDrivers,
    package: &DriverPackage,
    beside: &Path,
) -> Result<PackageVerdict> {
    let SignatureRule::Authenticode(rule) = &demand.rule else {
        let fact = format!(
            "catalogs are signed with Authenticode, not {}",
            demand.rule.scheme()
        );
        return Ok(Err(vec![(None, RefusalReason::Unsupported.refusal(fact))]));
    };
    let paths: Vec<&str> = package.paths().collect();
    let entries: Vec<&MediumEntry> = paths
        .iter()
        .filter_map(|path| folder.find_entry(path))
        .collect();
    let (_folder, taken) = take(medium, &entries, beside)?;
    let files: Vec<FileSubject<'_>> = taken.iter().map(CopiedFile::to_subject).collect();
    let judged = authenticode::judge_package(rule, &files, &demand.evidence, SystemTime::now());
    Ok(judged.map_err(|refused| {
        refused
            .into_iter()
            .map(|(number, refusal)| {
                let path = number.and_then(|n| paths.get(n));
                (path.map(|path| (*path).to_owned()), refusal)
            })
            .collect()
    }))
}

/// Copies the files under numbered names: a medium may have names that differ only in case.
fn take(
    medium: &Medium,
    entries: &[&MediumEntry],
    beside: &Path,
) -> Result<(TempDir, Vec<CopiedFile>)> {
    let sizes = entries.iter().map(|entry| entry.size);
    let total = sizes.fold(0, u64::saturating_add);
    if total > medium.size() {
        let fact = "the files of a driver are larger than their medium";
        return Err(Error::new(Kind::Unproved, fact)
            .at(medium.describe())
            .expected(format!("{} bytes at most", medium.size()))
            .found(format!("{total} bytes")));
    }
    let folder = tempfile::Builder::new()
        .prefix("copy-drivers-")
        .tempdir_in(beside)
        .map_err(|e| Error::io("write in", beside, e))?;
    let mut taken = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let mut to = fs::File::create_new(&path).map_err(|e| Error::io("write", &path, e))?;
        let copied = std::io::copy(&mut medium.open_file(entry), &mut to);
        copied.map_err(|e| Error::io("read", &medium.path, e))?;
        drop(to);
        taken.push(CopiedFile {
            digest: io::compute_sha256(&path)?.0,
            name: entry.name.clone(),
            path,
        });
    }
    Ok((folder, taken))
}
