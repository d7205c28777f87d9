//! Signature checks on admission: one alternative of each required signature must be valid.
//!
//! The evidence comes with the terms; nothing is fetched here. If the members of an archive are
//! signed, each member that matches a pattern is checked; `drivers` checks driver media. A file
//! that is unpacked as an archive is not accepted by an Authenticode signature of the program that
//! contains it.

use std::path::Path;

use super::drivers;
use super::signature_demand::{
    DemandFailure, SignatureDemand, add_member_names, from_several, merge_signer,
};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_formats::archive::{self, ArchiveFile, ArchiveFilter, ArchiveFormat, UnpackLimits};
use winimg_recipe::SignatureScope;
use winimg_trust::{FileSubject, RefusalReason, Scheme, SignatureRefusal, Signer};

/// All required signatures of a file.
#[derive(Clone, Debug, Default)]
pub struct SignatureTerms {
    /// Groups of alternatives; one of each group must be valid.
    pub groups: Vec<Vec<SignatureDemand>>,
    /// Name in the store, such as `kubelet.exe`.
    pub file: String,
    /// Name of the publisher: the last part of its URL.
    pub published: String,
    /// Archive format, which is needed to check members.
    pub archive: Option<ArchiveFormat>,
}

impl SignatureTerms {
    /// Returns the signers of the file at `path`, or fails with all missing signatures. Temporary
    /// members go into `folder`.
    pub(super) fn judge(
        &self,
        what: &str,
        path: &Path,
        sha256: &Digest,
        folder: &Path,
    ) -> Result<Vec<Signer>> {
        check_groups(what, &self.groups, |demand| {
            match &demand.covers {
                SignatureScope::File => {}
                SignatureScope::Members(globs) => {
                    return self.check_members(demand, globs, what, path, folder);
                }
                SignatureScope::Drivers(names) => {
                    return drivers::judge(demand, names, path, folder);
                }
            }
            if self.archive.is_some() && demand.rule.scheme() == Scheme::Authenticode {
                let fact =
                    "Authenticode only covers programs, and this file is unpacked as an archive";
                return Err(RefusalReason::Unsupported
                    .refusal(fact)
                    .cure(
                        "pin the archive with sha256, or name the signed files in it with members",
                    )
                    .into());
            }
            let subject = FileSubject {
                path,
                name: &self.file,
                published: &self.published,
                digest: sha256,
            };
            demand
                .judge(subject)
                .map(|s| vec![s])
                .map_err(DemandFailure::from)
        })
    }

    fn check_members(
        &self,
        demand: &SignatureDemand,
        globs: &[String],
        what: &str,
        path: &Path,
        folder: &Path,
    ) -> Result<Vec<Signer>, DemandFailure> {
        let Some(format) = self.archive else {
            let fact = "its members cannot be checked: its archive format is unknown";
            return Err(RefusalReason::Unsupported.refusal(fact).into());
        };
        let beside = tempfile::Builder::new()
            .prefix("copy-members-")
            .tempdir_in(folder)
            .map_err(|e| Error::io("write in", folder, e))?;
        let packed = ArchiveFile {
            file: path,
            format,
            name: what,
        };
        let filter = ArchiveFilter {
            strip: 0,
            only: globs.to_vec(),
        };
        let tree = beside.path().join("members");
        let files = archive::unpack(&packed, &tree, &UnpackLimits::default(), &filter)?;
        let taken: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let members = archive::list(&packed, &UnpackLimits::default())?;
        let members = members.iter().filter(|member| !member.is_folder);
        let members: Vec<&str> = members.map(|member| member.path.as_str()).collect();
        let mut signed: Vec<(Signer, Vec<String>)> = Vec::new();
        let mut refused: Vec<(String, SignatureRefusal)> = run_instead(&members, &taken);
        for file in &files {
            let member = tree.join(&file.path);
            let subject = FileSubject {
                path: &member,
                name: &file.path,
                published: &file.path,
                digest: &file.sha256,
            };
            match demand.judge(subject) {
                Ok(signer) => merge_signer(&mut signed, signer, &file.path),
                Err(refusal) => refused.push((file.path.clone(), refusal)),
            }
        }
        if files.is_empty() {
            let fact = format!("no file in it matches {}", globs.join(", "));
            return Err(RefusalReason::Missing.refusal(fact).into());
        }
        if !refused.is_empty() {
            return Err(from_several(refused, files.len(), "members"));
        }
        Ok(signed
            .into_iter()
            .map(|(signer, of)| add_member_names(signer, "members", &of))
            .collect())
    }
}

/// Order in which Windows searches for a program without an extension. (Microsoft: PATHEXT)
const RUN_IN_THIS_ORDER: [&str; 4] = ["com", "exe", "bat", "cmd"];

/// Finds unsigned members that Windows runs instead of a signed one of the same name: `x.com`
/// beside a signed `x.exe`.
fn run_instead(members: &[&str], signed: &[&str]) -> Vec<(String, SignatureRefusal)> {
    let programs: Vec<(&str, (String, usize))> = signed
        .iter()
        .filter_map(|path| Some((*path, parse_program(path)?)))
        .collect();
    members
        .iter()
        .filter(|path| !signed.contains(path))
        .filter_map(|path| {
            let (stem, rank) = parse_program(path)?;
            let (program, _) = programs
                .iter()
                .find(|(_, (name, later))| *name == stem && rank < *later)?;
            let fact = format!(
                "no signature of it is required, and Windows would run it instead of {program}"
            );
            let refusal = RefusalReason::Uncovered
                .refusal(fact)
                .cure("add it to members");
            Some(((*path).to_owned(), refusal))
        })
        .collect()
}

/// Returns the lower-case path without its extension, and the extension's rank.
fn parse_program(path: &str) -> Option<(String, usize)> {
    let path = path.to_lowercase();
    let (stem, extension) = path.rsplit_once('.')?;
    let rank = RUN_IN_THIS_ORDER.iter().position(|e| *e == extension)?;
    Some((stem.to_owned(), rank))
}

/// Checks that one alternative of each group is valid. Returns the signers, or one error for all
/// groups that fail.
pub fn check_groups(
    what: &str,
    groups: &[Vec<SignatureDemand>],
    mut judge: impl FnMut(&SignatureDemand) -> Result<Vec<Signer>, DemandFailure>,
) -> Result<Vec<Signer>> {
    let mut signers = Vec::new();
    let mut errors = Vec::new();
    for group in groups {
        let mut refused = Vec::new();
        let met = group.iter().find_map(|demand| match judge(demand) {
            Ok(signers) => Some(signers),
            Err(reason) => {
                refused.push((demand, reason));
                None
            }
        });
        match met {
            Some(met) => signers.extend(met),
            None => errors.extend(report_group(what, refused)),
        }
    }
    match merge_errors(what, errors) {
        Some(error) => Err(error),
        None => Ok(signers),
    }
}

/// Merges the errors about a file's signatures.
pub fn merge_errors(what: &str, mut errors: Vec<Error>) -> Option<Error> {
    if errors.len() < 2 {
        return errors.pop();
    }
    let fact = format!(
        "{} required signatures of {what} are not valid",
        errors.len()
    );
    let place = errors.first().and_then(|e| e.place().cloned());
    let error = Error::from_several(Kind::Unproved, fact, &errors);
    Some(match place {
        Some(place) => error.or_place(&place),
        None => error,
    })
}

/// Builds the error of one group.
fn report_group(what: &str, mut refused: Vec<(&SignatureDemand, DemandFailure)>) -> Option<Error> {
    if refused.len() > 1 {
        let fact = format!(
            "none of the {} accepted signatures of {what} is valid",
            refused.len()
        );
        let mut all = Vec::new();
        for (demand, reason) in &refused {
            let (why, lines) = match reason {
                DemandFailure::Refusal(refusal, lines) => {
                    (refusal.problem.in_one_line(), &lines[..])
                }
                DemandFailure::Other(error) => (error.fact().to_owned(), &[][..]),
            };
            all.push(format!("{}: {why}", demand.rule.scheme()));
            all.extend(lines.iter().map(|line| format!("  {line}")));
        }
        let error = Error::new(Kind::Unproved, fact).lines(all);
        return Some(error.or_place(&refused.first()?.0.place));
    }
    let (demand, reason) = refused.pop()?;
    let (refusal, lines) = match reason {
        DemandFailure::Refusal(refusal, lines) => (refusal, lines),
        DemandFailure::Other(error) => return Some(error.or_place(&demand.place)),
    };
    let problem = refusal
        .problem
        .with_prefix(format_args!("the signature of {what}: "));
    let error = Error::from_problem(Kind::Unproved, problem).or_place(&demand.place);
    let from = demand.from.as_ref();
    let from = from.map(|from| format!("the {} signature is {from}", demand.rule.scheme()));
    Some(error.lines(lines).lines(from))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use winimg_base::text::{Place, SourceText};
    use winimg_trust::{SignatureEvidence, SignatureRule, authenticode};

    #[test]
    fn a_program_that_runs_in_place_of_a_signed_one_is_found() {
        let found = |members: &[&str], signed: &[&str]| -> Vec<String> {
            let found = run_instead(members, signed).into_iter();
            found.map(|(path, _)| path).collect()
        };
        let signed = ["bin/x.exe", "bin/setup.cmd"];
        for (other, is_found) in [
            ("bin/x.com", true),
            ("bin/X.COM", true),
            ("bin/setup.bat", true),
            ("bin/setup.exe", true),
            ("x.com", false),
            ("bin/y.com", false),
            ("bin/x.bat", false),
            ("bin/x.txt", false),
            ("bin/xcom", false),
        ] {
            let members = [signed.as_slice(), &[other]].concat();
            let expected: Vec<&str> = is_found.then_some(other).into_iter().collect();
            assert_eq!(found(&members, &signed), expected, "{other}");
        }
        // It is signed as well.
        let all = ["bin/x.exe", "bin/x.com"];
        assert!(found(&all, &all).is_empty());
    }

    #[test]
    fn no_program_signature_proves_an_archive() {
        let rule = authenticode::AuthenticodeRule {
            pins: authenticode::CertificatePins::default(),
            needs_timestamp: false,
            needs_extended: false,
            about: authenticode::PinnedProperties::default(),
        };
        let source = SourceText::new("recipe.toml", String::new());
        let demand = SignatureDemand {
            place: Place::new(&Arc::new(source), 0..0),
            rule: SignatureRule::Authenticode(rule),
            evidence: SignatureEvidence::default(),
            from: None,
            covers: SignatureScope::File,
            lacking: None,
        };
        let signatures = SignatureTerms {
            groups: vec![vec![demand]],
            file: "a.zip".into(),
            published: "a.zip".into(),
            archive: Some(ArchiveFormat::Zip),
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.zip");
        std::fs::write(&file, "MZ").unwrap();
        let digest = Digest::sha256_of(b"MZ");
        let refused = signatures.judge("tools", &file, &digest, folder.path());
        assert_eq!(
            refused.unwrap_err().fact(),
            "the signature of tools: Authenticode only covers programs, and this file is unpacked as an archive"
        );
    }
}
