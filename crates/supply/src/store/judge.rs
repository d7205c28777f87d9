//! Signatures at the door: each that is asked for has to be met, by one of its alternatives.
//!
//! What is judged comes with the terms; nothing is fetched here. Of an archive whose members are signed every member
//! that a pattern takes is judged by itself; of a driver medium, what drivers.rs says. Refuses an archive by the Authenticode signature of a program that it stands in.

use std::path::Path;

use super::demand::{Demand, Refused, gather, named, of_several};
use super::drivers;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_formats::archive::{self, Filter, Format, Limits, Packed};
use winimg_recipe::recipe::Covers;
use winimg_trust::{Reason, Refusal, Scheme, Signer, Subject};

/// All signatures that a file has to have.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    /// Of each, one alternative has to be met.
    pub groups: Vec<Vec<Demand>>,
    /// As the file is kept: `kubelet.exe`.
    pub file: String,
    /// As its publisher calls it: the last part of its address.
    pub published: String,
    /// How it is packed; members can be judged only then.
    pub archive: Option<Format>,
}

impl Signatures {
    /// Who signed the file at `path`, or every signature that is not met. `folder` takes members for as long as they
    /// are looked at.
    pub(super) fn judge(
        &self,
        what: &str,
        path: &Path,
        sha256: &Digest,
        folder: &Path,
    ) -> Result<Vec<Signer>> {
        met(what, &self.groups, |demand| {
            match &demand.covers {
                Covers::File => {}
                Covers::Members(globs) => {
                    return self.members(demand, globs, what, path, folder);
                }
                Covers::Drivers(names) => return drivers::judge(demand, names, path, folder),
            }
            if self.archive.is_some() && demand.rule.scheme() == Scheme::Authenticode {
                let fact = "Authenticode proves programs, and this file is unpacked as an archive";
                return Err(Reason::Unsupported
                    .refusal(fact)
                    .cure(
                        "pin the archive with sha256, or name the signed files in it with members",
                    )
                    .into());
            }
            let subject = Subject {
                path,
                name: &self.file,
                published: &self.published,
                digest: sha256,
            };
            demand
                .judge(subject)
                .map(|s| vec![s])
                .map_err(Refused::from)
        })
    }

    fn members(
        &self,
        demand: &Demand,
        globs: &[String],
        what: &str,
        path: &Path,
        folder: &Path,
    ) -> Result<Vec<Signer>, Refused> {
        let Some(format) = self.archive else {
            let fact = "its members cannot be looked at: nothing says how it is packed";
            return Err(Reason::Unsupported.refusal(fact).into());
        };
        let beside = tempfile::Builder::new()
            .prefix("copy-members-")
            .tempdir_in(folder)
            .map_err(|e| Error::io("write in", folder, e))?;
        let packed = Packed {
            file: path,
            format,
            name: what,
        };
        let filter = Filter {
            strip: 0,
            only: globs.to_vec(),
        };
        let tree = beside.path().join("members");
        let files = archive::unpack(&packed, &tree, &Limits::default(), &filter)?;
        let taken: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let members = archive::list(&packed, &Limits::default())?;
        let members = members.iter().filter(|member| !member.is_folder);
        let members: Vec<&str> = members.map(|member| member.path.as_str()).collect();
        let mut signed: Vec<(Signer, Vec<String>)> = Vec::new();
        let mut refused: Vec<(String, Refusal)> = run_instead(&members, &taken);
        for file in &files {
            let member = tree.join(&file.path);
            let subject = Subject {
                path: &member,
                name: &file.path,
                published: &file.path,
                digest: &file.sha256,
            };
            match demand.judge(subject) {
                Ok(signer) => gather(&mut signed, signer, &file.path),
                Err(refusal) => refused.push((file.path.clone(), refusal)),
            }
        }
        if files.is_empty() {
            let fact = format!("no file of it matches {}", globs.join(", "));
            return Err(Reason::Missing.refusal(fact).into());
        }
        if !refused.is_empty() {
            return Err(of_several(refused, files.len(), "members"));
        }
        Ok(signed
            .into_iter()
            .map(|(signer, of)| named(signer, "members", &of))
            .collect())
    }
}

/// What Windows looks for first where a program is called by its name alone. (Microsoft: PATHEXT)
const RUN_IN_THIS_ORDER: [&str; 4] = ["com", "exe", "bat", "cmd"];

/// Members without a signature that run in place of a signed one of the same name: `x.com` beside a signed `x.exe`.
fn run_instead(members: &[&str], signed: &[&str]) -> Vec<(String, Refusal)> {
    let parts = |path: &str| {
        let path = path.to_lowercase();
        let (stem, extension) = path.rsplit_once('.')?;
        let rank = RUN_IN_THIS_ORDER.iter().position(|e| *e == extension)?;
        Some((stem.to_owned(), rank))
    };
    let programs = signed.iter().filter_map(|path| Some((*path, parts(path)?)));
    let programs: Vec<_> = programs.collect();
    let others = members.iter().filter(|path| !signed.contains(path));
    let found = others.filter_map(|path| {
        let (stem, rank) = parts(path)?;
        let shadowed =
            |(_, (name, later)): &&(&str, (String, usize))| *name == stem && rank < *later;
        let (program, _) = programs.iter().find(shadowed)?;
        let fact =
            format!("nothing asks for its signature, and Windows runs it in place of {program}");
        let cure = "add it to members";
        Some((
            (*path).to_owned(),
            Reason::Uncovered.refusal(fact).cure(cure),
        ))
    });
    found.collect()
}

/// Each group has to be met by one of its alternatives; the signers, or one error about all that are not.
pub fn met(
    what: &str,
    groups: &[Vec<Demand>],
    mut judge: impl FnMut(&Demand) -> Result<Vec<Signer>, Refused>,
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
            None => errors.extend(refusal(what, refused)),
        }
    }
    match together(what, errors) {
        Some(error) => Err(error),
        None => Ok(signers),
    }
}

/// One error for all signatures of a file that are not met.
pub fn together(what: &str, mut errors: Vec<Error>) -> Option<Error> {
    if errors.len() < 2 {
        return errors.pop();
    }
    let fact = format!("{} signatures of {what} are not met", errors.len());
    let place = errors.first().and_then(|e| e.place().cloned());
    let error = Error::of_several(Kind::Unproved, fact, &errors);
    Some(match place {
        Some(place) => error.from_place(&place),
        None => error,
    })
}

/// The error of one group.
fn refusal(what: &str, mut refused: Vec<(&Demand, Refused)>) -> Option<Error> {
    if refused.len() > 1 {
        let fact = format!(
            "none of the {} signatures that would do for {what} is met",
            refused.len()
        );
        let mut all = Vec::new();
        for (demand, reason) in &refused {
            let (why, lines) = match reason {
                Refused::Refusal(refusal, lines) => (refusal.problem.in_one_line(), &lines[..]),
                Refused::Other(error) => (error.fact().to_owned(), &[][..]),
            };
            all.push(format!("{}: {why}", demand.rule.scheme()));
            all.extend(lines.iter().map(|line| format!("  {line}")));
        }
        let error = Error::new(Kind::Unproved, fact).lines(all);
        return Some(error.from_place(&refused.first()?.0.place));
    }
    let (demand, reason) = refused.pop()?;
    let (refusal, lines) = match reason {
        Refused::Refusal(refusal, lines) => (refusal, lines),
        Refused::Other(error) => return Some(error.from_place(&demand.place)),
    };
    let problem = refusal
        .problem
        .prefixed(format_args!("the signature of {what}: "));
    let error = Error::of(Kind::Unproved, problem).from_place(&demand.place);
    let from = demand.from.as_ref();
    let from = from.map(|from| format!("the {} signature is {from}", demand.rule.scheme()));
    Some(error.lines(lines).lines(from))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use winimg_base::text::{Place, Source};
    use winimg_trust::{Evidence, Rule, authenticode};

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
        // It is signed itself.
        let all = ["bin/x.exe", "bin/x.com"];
        assert!(found(&all, &all).is_empty());
    }

    #[test]
    fn no_program_signature_proves_an_archive() {
        let rule = authenticode::Rule {
            pins: authenticode::Pins::default(),
            needs_timestamp: false,
            needs_extended: false,
            about: authenticode::About::default(),
        };
        let source = Source::new("recipe.toml", String::new());
        let demand = Demand {
            place: Place::new(&Arc::new(source), 0..0),
            rule: Rule::Authenticode(rule),
            evidence: Evidence::default(),
            from: None,
            covers: Covers::File,
            lacking: None,
        };
        let signatures = Signatures {
            groups: vec![vec![demand]],
            file: "a.zip".into(),
            published: "a.zip".into(),
            archive: Some(Format::Zip),
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.zip");
        std::fs::write(&file, "MZ").unwrap();
        let digest = Digest::sha256_of(b"MZ");
        let refused = signatures.judge("tools", &file, &digest, folder.path());
        assert_eq!(
            refused.unwrap_err().fact(),
            "the signature of tools: Authenticode proves programs, and this file is unpacked as an archive"
        );
    }
}
