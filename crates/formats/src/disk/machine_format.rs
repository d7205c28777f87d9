//! Format of a machine's disk, which depends on its hypervisor.

/// Disk format that a hypervisor reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineDiskFormat {
    Qcow2,
    Vhdx,
}

impl MachineDiskFormat {
    pub const ALL: [Self; 2] = [Self::Qcow2, Self::Vhdx];

    /// File name of a machine's disk, in a layer and elsewhere.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Qcow2 => "disk.qcow2",
            Self::Vhdx => "disk.vhdx",
        }
    }
}
