//! `[lock]`: what a recipe, or the host that builds it, asks of `recipe.lock` itself.

use super::Signature;

/// Empty where nothing is asked.
#[derive(Clone, Debug, Default)]
pub struct LockRule {
    /// Each has to be met, by one of its alternatives. Their `url` is what follows the name of the lock: `.minisig`.
    pub signatures: Vec<Vec<Signature>>,
    /// The lowest serial that is obeyed.
    pub serial: Option<u64>,
}

impl LockRule {
    /// What both ask.
    pub fn and(&self, other: &Self) -> Self {
        let signatures = self.signatures.iter().chain(&other.signatures);
        Self {
            signatures: signatures.cloned().collect(),
            serial: self.serial.max(other.serial),
        }
    }
}
