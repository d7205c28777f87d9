//! The drivers that a recipe takes from a medium, judged by their catalogs: each file of a driver
//! package, for every release that the medium has a driver for. What belongs to a package is
//! decided by its INF.
//!
//! Refuses a rule that is not Authenticode. A driver that the medium does not have proves nothing
//! and is no fault here: what takes drivers from the medium refuses that.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_formats::driver::{self, Fault, OnMedium, Package};
use winimg_formats::udf::{Entry, Medium};
use winimg_formats::wim::Release;
use winimg_trust::{Reason, Refusal, Rule, Signer, Subject, authenticode};

use super::demand::{Demand, Refused, gather, named, of_several};

/// A file of the medium, as it was copied from there.
struct Taken {
    path: PathBuf,
    /// Without its folder.
    name: String,
    digest: Digest,
}

impl Taken {
    fn subject(&self) -> Subject<'_> {
        Subject {
            path: &self.path,
            name: &self.name,
            published: &self.name,
            digest: &self.digest,
        }
    }
}

/// Who signed the catalogs of these drivers on the medium at `path`. `beside` takes files for as
/// long as they are looked at.
pub(super) fn judge(
    demand: &Demand,
    names: &[String],
    path: &Path,
    beside: &Path,
) -> Result<Vec<Signer>, Refused> {
    let medium = Medium::open(path)?;
    let mut signed: Vec<(Signer, Vec<String>)> = Vec::new();
    let mut refused: Vec<(String, Refusal)> = Vec::new();
    let mut count = 0;
    for name in names {
        for release in Release::ALL {
            let folder = driver::folder(name, release);
            let Some(found) = driver::on_medium(&medium, &folder)? else {
                continue;
            };
            let packages = match &found.packages {
                Ok(chosen) => &chosen.packages,
                Err(faults) => {
                    count += faults.len();
                    refused.extend(faults.iter().map(|fault| incomplete(&folder, fault)));
                    continue;
                }
            };
            for package in packages {
                count += package.paths().count();
                match one(demand, &medium, &found, package, beside)? {
                    Ok(signers) => {
                        for signer in signers {
                            gather(&mut signed, signer, &folder);
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
        return Err(of_several(refused, count, "files of its drivers"));
    }
    let signers = signed.into_iter();
    Ok(signers.map(|(s, of)| named(s, "drivers", &of)).collect())
}

/// A folder whose INF names what is not there.
fn incomplete(folder: &str, fault: &Fault) -> (String, Refusal) {
    let refusal = Refusal {
        reason: Reason::Missing,
        problem: fault.problem.clone(),
    };
    (folder.to_owned(), refusal)
}

/// One package. The refusals are of a file, by its path in the folder, or of the folder.
type Judged = Result<Vec<Signer>, Vec<(Option<String>, Refusal)>>;

fn one(
    demand: &Demand,
    medium: &Medium,
    folder: &OnMedium,
    package: &Package,
    beside: &Path,
) -> Result<Judged> {
    let Rule::Authenticode(rule) = &demand.rule else {
        let fact = format!(
            "catalogs are signed by Authenticode, not {}",
            demand.rule.scheme()
        );
        return Ok(Err(vec![(None, Reason::Unsupported.refusal(fact))]));
    };
    let paths: Vec<&str> = package.paths().collect();
    let entries: Vec<&Entry> = paths.iter().filter_map(|path| folder.entry(path)).collect();
    let (_folder, taken) = take(medium, &entries, beside)?;
    let files: Vec<Subject<'_>> = taken.iter().map(Taken::subject).collect();
    let judged = authenticode::judge_package(rule, &files, &demand.evidence, SystemTime::now());
    Ok(judged.map_err(|refused| {
        let named = |number: Option<usize>| Some((*paths.get(number?)?).to_owned());
        let refused = refused.into_iter();
        refused.map(|(number, r)| (named(number), r)).collect()
    }))
}

/// Copies of the files, called by numbers: two names that differ in case alone are two files on a
/// medium.
fn take(medium: &Medium, entries: &[&Entry], beside: &Path) -> Result<(TempDir, Vec<Taken>)> {
    let sizes = entries.iter().map(|entry| entry.size);
    let total = sizes.fold(0, u64::saturating_add);
    if total > medium.size() {
        let fact = "the files of a driver are larger than the medium that they are on";
        return Err(Error::new(Kind::Unproved, fact)
            .at(medium.described())
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
        let copied = std::io::copy(&mut medium.file(entry), &mut to);
        copied.map_err(|e| Error::io("read", &medium.path, e))?;
        drop(to);
        taken.push(Taken {
            digest: io::sha256(&path)?.0,
            name: entry.name.clone(),
            path,
        });
    }
    Ok((folder, taken))
}
