//! A required signature of a file, or of several files in an archive or on a medium, and the
//! reasons it may fail.

use std::time::SystemTime;

use winimg_base::error::Error;
use winimg_base::text::Place;
use winimg_recipe::SignatureScope;
use winimg_trust::{
    FileSubject, RefusalReason, SignatureEvidence, SignatureRefusal, SignatureResult,
    SignatureRule, Signer,
};

/// A required signature with its published evidence.
#[derive(Clone, Debug)]
pub struct SignatureDemand {
    /// Table in the recipe.
    pub place: Place,
    pub rule: SignatureRule,
    pub evidence: SignatureEvidence,
    /// URL of the evidence without query, for messages.
    pub from: Option<String>,
    pub covers: SignatureScope,
    /// Reason the evidence of this alternative could not be fetched.
    pub lacking: Option<String>,
}

impl SignatureDemand {
    /// Checks this signature of a file.
    pub fn judge(&self, subject: FileSubject<'_>) -> SignatureResult {
        match &self.lacking {
            Some(fact) => Err(RefusalReason::Missing.refusal(fact)),
            None => self.rule.judge(subject, &self.evidence, SystemTime::now()),
        }
    }
}

/// Merges files of the same signer into one record, regardless of the time of signing.
pub(super) fn merge_signer(signed: &mut Vec<(Signer, Vec<String>)>, signer: Signer, path: &str) {
    let at = signer.signed_at.as_ref().map(|at| format!(" at {at}"));
    let word = format!("{path}{}", at.unwrap_or_default());
    let known = signed.iter_mut().find(|(s, _)| {
        (s.scheme, &s.signer, &s.pinned_by) == (signer.scheme, &signer.signer, &signer.pinned_by)
    });
    match known {
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

/// Adds a remark such as `of the members a.exe, b.exe`.
pub(super) fn add_member_names(mut signer: Signer, kind: &str, of: &[String]) -> Signer {
    signer
        .remarks
        .push(format!("of the {kind} {}", of.join(", ")));
    signer
}

/// Reason a demand fails.
pub enum DemandFailure {
    /// A refusal; for several members with one line each.
    Refusal(Box<SignatureRefusal>, Vec<String>),
    /// An unrelated error, such as an unreadable archive.
    Other(Error),
}

impl From<SignatureRefusal> for DemandFailure {
    fn from(refusal: SignatureRefusal) -> Self {
        Self::Refusal(Box::new(refusal), Vec::new())
    }
}

impl From<Error> for DemandFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Merges the refusals of some of `of` files of a kind.
pub(super) fn from_several(
    refused: Vec<(String, SignatureRefusal)>,
    of: usize,
    kind: &str,
) -> DemandFailure {
    if let [(path, refusal)] = refused.as_slice() {
        let problem = refusal.problem.clone();
        return SignatureRefusal {
            reason: refusal.reason,
            problem: problem.with_prefix(format_args!("{path}: ")),
        }
        .into();
    }
    let fact = format!(
        "{} of {of} {kind} are not signed as required",
        refused.len()
    );
    let reason = refused
        .first()
        .map_or(RefusalReason::Missing, |(_, r)| r.reason);
    // `bin/a.exe: there is none (expected …, found …)`
    let line = |(path, refusal): &(String, SignatureRefusal)| {
        format!("{path}: {}", refusal.problem.in_one_line())
    };
    let lines = refused.iter().map(line).collect();
    DemandFailure::Refusal(Box::new(reason.refusal(fact)), lines)
}
