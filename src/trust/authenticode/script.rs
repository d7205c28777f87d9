//! PowerShell scripts.

use super::super::hash::HashKind;
use super::super::{Reason, Refusal};
use super::source::Source;

/// The PKCS#7 DER; `None` when the file is not signed. Refuses what no signature covers.
pub(super) fn signature(_file: &mut Source) -> Result<Option<Vec<u8>>, Refusal> {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}

/// The digest that the signature is about.
pub(super) fn digest(_file: &mut Source, _algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}
