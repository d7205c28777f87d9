//! OpenPGP.

use std::time::SystemTime;

use super::{Evidence, Judged, Reason, Refusal, Signer, Subject};

#[derive(Clone, Debug)]
pub struct Rule;

impl Rule {
    /// `keys`: the bytes of a key file (armoured or binary, one certificate or more). `fingerprints`: full ones, in hex,
    /// with or without blanks; each must be in the file. The error fits after "the OpenPGP key".
    pub fn new(_keys: &[u8], _fingerprints: &[String]) -> Result<Self, String> {
        Err("cannot be read".into())
    }
}

pub fn judge(
    _rule: &Rule,
    _subject: Subject<'_>,
    _evidence: &Evidence,
    _now: SystemTime,
) -> Judged {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}

/// The signed text of a clearsigned file, and who signed it.
pub fn signed_text(
    _rule: &Rule,
    _file: &[u8],
    _now: SystemTime,
) -> Result<(String, Signer), Refusal> {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}
