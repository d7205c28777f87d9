//! Signatures at the door: each that is asked for has to be met, by one of its alternatives.
//!
//! What is judged comes with the terms; nothing is fetched here. Of an archive whose members are signed every member
//! that a pattern takes is judged by itself; of a driver medium, what drivers.rs says. Refuses an archive by the Authenticode signature of a program that it stands in.

use std::path::Path;
use std::time::SystemTime;

use super::drivers;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Place;
use winimg_formats::archive::{self, Filter, Format, Limits, Packed};
use winimg_recipe::recipe::Covers;
use winimg_trust::{Evidence, Judged, Reason, Refusal, Rule, Scheme, Signer, Subject};

/// A signature that is asked for, with what was published for it.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Its table in the recipe.
    pub place: Place,
    pub rule: Rule,
    pub evidence: Evidence,
    /// Where the evidence came from, without query; for messages.
    pub from: Option<String>,
    pub covers: Covers,
    /// Why the evidence of this alternative could not be brought.
    pub lacking: Option<String>,
}

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

impl Demand {
    /// Judges one file by this signature.
    pub fn judge(&self, subject: Subject<'_>) -> Judged {
        match &self.lacking {
            Some(fact) => Err(Reason::Missing.refusal(fact)),
            None => self.rule.judge(subject, &self.evidence, SystemTime::now()),
        }
    }
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
        let mut signed: Vec<(Signer, Vec<String>)> = Vec::new();
        let mut refused: Vec<(String, Refusal)> = Vec::new();
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

/// One record for all that one signer signed, whatever the minute.
pub(super) fn gather(signed: &mut Vec<(Signer, Vec<String>)>, signer: Signer, path: &str) {
    let same = |s: &Signer| {
        (s.scheme, &s.signer, &s.pinned_by) == (signer.scheme, &signer.signer, &signer.pinned_by)
    };
    let at = signer.signed_at.as_ref().map(|at| format!(" at {at}"));
    let word = format!("{path}{}", at.unwrap_or_default());
    match signed.iter_mut().find(|(s, _)| same(s)) {
        Some((first, of)) => {
            if first.signed_at != signer.signed_at {
                first.signed_at = None;
            }
            for remark in signer.remarks {
                if !first.remarks.contains(&remark) {
                    first.remarks.push(remark);
                }
            }
            of.push(word);
        }
        None => signed.push((signer, vec![word])),
    }
}

/// `of the members a.exe, b.exe`
pub(super) fn named(mut signer: Signer, kind: &str, of: &[String]) -> Signer {
    signer
        .remarks
        .push(format!("of the {kind} {}", of.join(", ")));
    signer
}

/// Why a demand is not met.
pub enum Refused {
    /// One reason; where it has several, a line for each member.
    Refusal(Box<Refusal>, Vec<String>),
    /// Not the signature's fault, such as an archive that cannot be read.
    Other(Error),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(Box::new(refusal), Vec::new())
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Of `of` files of that kind, these were refused.
pub(super) fn of_several(refused: Vec<(String, Refusal)>, of: usize, kind: &str) -> Refused {
    if let [(path, refusal)] = refused.as_slice() {
        let problem = refusal.problem.clone();
        return Refusal {
            reason: refusal.reason,
            problem: problem.prefixed(format_args!("{path}: ")),
        }
        .into();
    }
    let fact = format!("{} of {of} {kind} do not meet it", refused.len());
    let reason = refused.first().map_or(Reason::Missing, |(_, r)| r.reason);
    // `bin/a.exe: there is none (expected …, found …)`
    let line =
        |(path, refusal): &(String, Refusal)| format!("{path}: {}", refusal.problem.in_one_line());
    let lines = refused.iter().map(line).collect();
    Refused::Refusal(Box::new(reason.refusal(fact)), lines)
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
    use winimg_base::text::Source;
    use winimg_trust::authenticode;

    #[test]
    fn no_program_signature_proves_an_archive() {
        let rule = authenticode::Rule {
            pins: authenticode::Pins::default(),
            needs_timestamp: false,
            needs_extended: false,
            about: authenticode::About::default(),
        };
        let source = Source {
            name: "recipe.toml".into(),
            text: String::new(),
        };
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
