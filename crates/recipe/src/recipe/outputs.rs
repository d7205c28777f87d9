//! `[outputs]` of a recipe: the files made from the sealed disk.

use winimg_formats::wim::WindowsRelease;

/// `[outputs]`; only the formats that are present are written.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    pub raw: bool,
    /// Fixed.
    pub vhd: bool,
    pub vhd_dynamic: bool,
    /// Dynamic.
    pub vhdx: bool,
    pub vhdx_fixed: bool,
    pub ova: Option<OvaOptions>,
    /// Stream-optimised.
    pub vmdk: bool,
    /// An extent and its descriptor, as in an ESXi datastore.
    pub vmdk_flat: bool,
    pub ami: Option<AmiOptions>,
    pub qcow2: bool,
    /// A backup of Proxmox VE.
    pub vma: bool,
    pub box_hyperv: Option<BoxOptions>,
    pub box_libvirt: Option<BoxOptions>,
    pub box_virtualbox: Option<BoxOptions>,
    /// For KubeVirt.
    pub container_disk: bool,
}

impl Outputs {
    /// Adds the disks that other outputs contain or refer to, so that each is made once.
    pub fn with_disks(&self) -> Self {
        Self {
            raw: self.raw || self.ami.is_some() && !self.vhd,
            vhdx: self.vhdx || self.box_hyperv.is_some(),
            vmdk: self.vmdk || self.box_virtualbox.is_some(),
            qcow2: self.qcow2 || self.box_libvirt.is_some() || self.container_disk,
            ..self.clone()
        }
    }
}

/// A Vagrant box.
#[derive(Clone, Debug)]
pub struct BoxOptions {
    /// `winssh` or `winrm`
    pub communicator: String,
}

impl BoxOptions {
    pub const USUAL: &str = "winssh";
}

impl Default for BoxOptions {
    fn default() -> Self {
        Self {
            communicator: Self::USUAL.into(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct OvaOptions {
    /// `vmx-NN`; by default that of the release.
    pub hardware_version: Option<u32>,
}

impl OvaOptions {
    /// vSphere 7.0 U2 (VMware KB 1003746).
    pub const USUAL: u32 = 19;
    /// vSphere 8.0, the first that knows Server 2025's guest id, `windows2022srvNext_64Guest`.
    pub const OF_2025: u32 = 20;

    /// Returns the `vmx-NN` for an image of this release.
    pub fn resolve_version(&self, release: WindowsRelease) -> u32 {
        self.hardware_version.unwrap_or(match release {
            WindowsRelease::Server2025 => Self::OF_2025,
            WindowsRelease::Server2019 | WindowsRelease::Server2022 => Self::USUAL,
        })
    }
}

#[derive(Clone, Debug)]
pub struct AmiOptions {
    /// `uefi` or `legacy-bios`
    pub boot_mode: String,
    /// `AWS` or `BYOL`
    pub license_type: String,
}
