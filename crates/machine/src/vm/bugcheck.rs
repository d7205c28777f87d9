//! Crashes of the guest's kernel, as the hypervisor reports them.
//!
//! Source: QEMU: QMP reference, GUEST_PANICKED.

use super::symptoms::{StopError, find_stop_code};

/// A crash of the guest's kernel, reported by the hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCrash {
    /// Stop code; pvpanic reports none.
    pub code: Option<u64>,
    pub parameters: Vec<u64>,
}

impl KernelCrash {
    /// Returns for example `INACCESSIBLE_BOOT_DEVICE (0x7B)`; an unknown code is shown as a number.
    pub fn describe(&self) -> Option<String> {
        self.code.map(|code| {
            find_stop_code(code).map_or_else(|| format!("0x{code:X}"), StopError::describe)
        })
    }
}
