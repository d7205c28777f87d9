//! A driver package: its catalogs have to be well signed, and one of them has to list every other
//! file.
//!
//! Refuses a package without a catalog, a catalog by anybody else beside a good one (Windows would
//! be given both), and each file that no catalog lists by its own digest. Which files of a folder
//! belong to a package is decided elsewhere, by its INF. (Microsoft: Catalog Files and Digital
//! Signatures)

use std::fs;
use std::time::SystemTime;

use super::source::unreadable;
use super::{Kind, Rule, judge};
use crate::{Evidence, Judged, Reason, Refusal, Signer, Subject};

/// Who signed the catalogs, or what is refused: a file by its number in `files`, or the package
/// itself. Of `evidence` the lists of revoked certificates are used.
pub fn judge_package(
    rule: &Rule,
    files: &[Subject<'_>],
    evidence: &Evidence,
    now: SystemTime,
) -> Result<Vec<Signer>, Vec<(Option<usize>, Refusal)>> {
    let is_catalog = |file: &Subject<'_>| Kind::named(file.name) == Some(Kind::Catalog);
    let (mut signers, mut catalogs, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (number, file) in files.iter().enumerate().filter(|(_, f)| is_catalog(f)) {
        match catalog(rule, *file, evidence, now) {
            Ok((signer, listing)) => {
                signers.push(signer);
                catalogs.push(listing);
            }
            Err(refusal) => refused.push((Some(number), refusal)),
        }
    }
    // What a catalog that was refused lists says nothing.
    if !refused.is_empty() {
        return Err(refused);
    }
    if catalogs.is_empty() {
        return Err(vec![(None, no_catalog(files))]);
    }
    for (number, file) in files.iter().enumerate().filter(|(_, f)| !is_catalog(f)) {
        if let Err(refusal) = listed(rule, *file, &catalogs, now) {
            refused.push((Some(number), refusal));
        }
    }
    match refused.is_empty() {
        true => Ok(signers),
        false => Err(refused),
    }
}

/// Who signed a catalog, and the catalog as what other files are judged by.
fn catalog(
    rule: &Rule,
    file: Subject<'_>,
    evidence: &Evidence,
    now: SystemTime,
) -> Result<(Signer, Evidence), Refusal> {
    let own = Evidence {
        lists: evidence.lists.clone(),
        ..Evidence::default()
    };
    let signer = judge(rule, file, &own, now)?;
    let bytes = fs::read(file.path).map_err(unreadable)?;
    let listing = Evidence {
        signature: Some(bytes),
        ..own
    };
    Ok((signer, listing))
}

/// One of the catalogs lists the file. The refusal is of the catalog that knows it by its name, if
/// one does.
fn listed(rule: &Rule, file: Subject<'_>, catalogs: &[Evidence], now: SystemTime) -> Judged {
    let mut worst: Option<Refusal> = None;
    for catalog in catalogs {
        match judge(rule, file, catalog, now) {
            Ok(signer) => return Ok(signer),
            Err(refusal) => {
                let is_nearer = refusal.reason != Reason::OtherName;
                if worst.is_none() || is_nearer {
                    worst = Some(refusal);
                }
            }
        }
    }
    Err(worst.unwrap_or_else(|| no_catalog(&[file])))
}

fn no_catalog(files: &[Subject<'_>]) -> Refusal {
    let names: Vec<&str> = files.iter().map(|file| file.name).collect();
    let refusal = Reason::Missing
        .refusal("the package has no catalog")
        .expected("a .cat file that lists each file")
        .cure("take the publisher's whole folder, with its catalog");
    match names.is_empty() {
        true => refusal,
        false => refusal.found(names.join(", ")),
    }
}
