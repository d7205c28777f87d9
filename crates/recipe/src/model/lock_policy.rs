//! `[lock]`: requirements of a recipe, or of the host that builds it, for `recipe.lock` itself.

use crate::SignatureSpec;

/// Empty if there are no requirements.
#[derive(Clone, Debug, Default)]
pub struct LockPolicy {
    /// Every group must be satisfied, by one of its alternatives. Their `url` is the suffix of the
    /// lock's name: `.minisig`.
    pub signatures: Vec<Vec<SignatureSpec>>,
    /// The lowest serial that is accepted.
    pub serial: Option<u64>,
}

impl LockPolicy {
    /// Combines the requirements of both.
    pub fn merge(&self, other: &Self) -> Self {
        let signatures = self.signatures.iter().chain(&other.signatures);
        Self {
            signatures: signatures.cloned().collect(),
            serial: self.serial.max(other.serial),
        }
    }
}
