//! Detached CMS.

use std::time::SystemTime;

use super::authenticode::Pins;
use super::{Evidence, Judged, Reason, Refusal, Subject};

#[derive(Clone, Debug)]
pub struct Rule {
    pub pins: Pins,
}

pub fn judge(
    _rule: &Rule,
    _subject: Subject<'_>,
    _evidence: &Evidence,
    _now: SystemTime,
) -> Judged {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}
