//! One signature that is asked for, and why it is not met: of a file, of several files of an archive or a medium.

use std::time::SystemTime;

use winimg_base::error::Error;
use winimg_base::text::Place;
use winimg_recipe::recipe::Covers;
use winimg_trust::{Evidence, Judged, Reason, Refusal, Rule, Signer, Subject};

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

impl Demand {
    /// Judges one file by this signature.
    pub fn judge(&self, subject: Subject<'_>) -> Judged {
        match &self.lacking {
            Some(fact) => Err(Reason::Missing.refusal(fact)),
            None => self.rule.judge(subject, &self.evidence, SystemTime::now()),
        }
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
