//! Catalogs: signed lists of other files' digests.

use super::super::hash::HashKind;
use super::super::signed_data::SignedData;
use super::super::{Reason, Refusal};
use super::source::Source;

/// One file that a catalog names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) digest: Vec<u8>,
    /// `None` for SHA-1.
    pub(super) algorithm: Option<HashKind>,
}

pub(super) fn members(_signed: &SignedData<'_>) -> Result<Vec<Member>, Refusal> {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}

/// The file's own digest stands in the catalog. Whether the catalog's signature holds is judged elsewhere.
pub(super) fn judge_member(
    _signed: &SignedData<'_>,
    _file: &mut Source,
    _name: &str,
) -> Result<(), Refusal> {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}
