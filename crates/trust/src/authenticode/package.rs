//! Driver packages: all catalogs must have valid signatures, and each other file must be listed in
//! one.
//!
//! Refuses a package without a catalog, a catalog by a different signer beside a valid one (Windows
//! would get both), and each file that no catalog lists by its digest. The files of a package are
//! determined elsewhere, by its INF. (Microsoft: Catalog Files and Digital Signatures)

use std::fs;
use std::time::SystemTime;

use super::source::refuse_unreadable;
use super::{AuthenticodeRule, SignedFileKind, judge};
use crate::{
    FileSubject, RefusalReason, SignatureEvidence, SignatureRefusal, SignatureResult, Signer,
};

/// Returns the signers of the catalogs, or the refusals: of files by their number in `files`, or of
/// the package itself. Only the revocation lists of `evidence` are used.
pub fn judge_package(
    rule: &AuthenticodeRule,
    files: &[FileSubject<'_>],
    evidence: &SignatureEvidence,
    now: SystemTime,
) -> Result<Vec<Signer>, Vec<(Option<usize>, SignatureRefusal)>> {
    let (mut signers, mut catalogs, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (number, file) in files.iter().enumerate().filter(|(_, f)| is_catalog(f)) {
        match verify_catalog(rule, *file, evidence, now) {
            Ok((signer, listing)) => {
                signers.push(signer);
                catalogs.push(listing);
            }
            Err(refusal) => refused.push((Some(number), refusal)),
        }
    }
    // The list of a refused catalog proves nothing.
    if !refused.is_empty() {
        return Err(refused);
    }
    if catalogs.is_empty() {
        return Err(vec![(None, no_catalog(files))]);
    }
    for (number, file) in files.iter().enumerate().filter(|(_, f)| !is_catalog(f)) {
        if let Err(refusal) = verify_listed(rule, *file, &catalogs, now) {
            refused.push((Some(number), refusal));
        }
    }
    if refused.is_empty() {
        Ok(signers)
    } else {
        Err(refused)
    }
}

fn is_catalog(file: &FileSubject<'_>) -> bool {
    SignedFileKind::from_name(file.name) == Some(SignedFileKind::Catalog)
}

/// Checks a catalog. Returns its signer, and the catalog as evidence for other files.
fn verify_catalog(
    rule: &AuthenticodeRule,
    file: FileSubject<'_>,
    evidence: &SignatureEvidence,
    now: SystemTime,
) -> Result<(Signer, SignatureEvidence), SignatureRefusal> {
    let own = SignatureEvidence {
        lists: evidence.lists.clone(),
        ..SignatureEvidence::default()
    };
    let signer = judge(rule, file, &own, now)?;
    let bytes = fs::read(file.path).map_err(refuse_unreadable)?;
    let listing = SignatureEvidence {
        signature: Some(bytes),
        ..own
    };
    Ok((signer, listing))
}

/// Checks that one of the catalogs lists the file. The refusal is that of a catalog that lists its
/// name, if there is one.
fn verify_listed(
    rule: &AuthenticodeRule,
    file: FileSubject<'_>,
    catalogs: &[SignatureEvidence],
    now: SystemTime,
) -> SignatureResult {
    let mut worst: Option<SignatureRefusal> = None;
    for catalog in catalogs {
        match judge(rule, file, catalog, now) {
            Ok(signer) => return Ok(signer),
            Err(refusal) => {
                let is_nearer = refusal.reason != RefusalReason::OtherName;
                if worst.is_none() || is_nearer {
                    worst = Some(refusal);
                }
            }
        }
    }
    Err(worst.unwrap_or_else(|| no_catalog(&[file])))
}

fn no_catalog(files: &[FileSubject<'_>]) -> SignatureRefusal {
    let names: Vec<&str> = files.iter().map(|file| file.name).collect();
    let refusal = RefusalReason::Missing
        .refusal("the package has no catalog")
        .expected("a .cat file that lists each file")
        .cure("use the publisher's complete folder, with its catalog");
    if names.is_empty() {
        refusal
    } else {
        refusal.found(names.join(", "))
    }
}
