//! How a machine's disk is kept, which its hypervisor decides.

/// What a hypervisor reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskForm {
    Qcow2,
    Vhdx,
}

impl DiskForm {
    pub const ALL: [Self; 2] = [Self::Qcow2, Self::Vhdx];

    /// Of a machine's disk, in a layer and elsewhere.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Qcow2 => "disk.qcow2",
            Self::Vhdx => "disk.vhdx",
        }
    }
}
