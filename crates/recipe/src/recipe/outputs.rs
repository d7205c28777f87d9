//! `[outputs]` of a recipe: the files that are made of the sealed disk.

use winimg_formats::wim::Release;

/// `[outputs]`; a format that is absent is not made.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    pub raw: bool,
    /// Fixed.
    pub vhd: bool,
    pub vhd_dynamic: bool,
    /// Dynamic.
    pub vhdx: bool,
    pub vhdx_fixed: bool,
    pub ova: Option<OvaSpec>,
    /// Stream-optimised.
    pub vmdk: bool,
    /// An extent and its descriptor, as they lie in an ESXi datastore.
    pub vmdk_flat: bool,
    pub ami: Option<AmiSpec>,
    pub qcow2: bool,
    /// A backup of Proxmox VE.
    pub vma: bool,
    pub box_hyperv: Option<BoxSpec>,
    pub box_libvirt: Option<BoxSpec>,
    pub box_virtualbox: Option<BoxSpec>,
    /// For KubeVirt.
    pub container_disk: bool,
}

impl Outputs {
    /// With the disks that others of them speak of or hold, so that each is made once.
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
pub struct BoxSpec {
    /// `winssh` or `winrm`
    pub communicator: String,
}

impl BoxSpec {
    pub const USUAL: &str = "winssh";
}

impl Default for BoxSpec {
    fn default() -> Self {
        Self {
            communicator: Self::USUAL.into(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct OvaSpec {
    /// `vmx-NN`; that of the release unless given.
    pub hardware_version: Option<u32>,
}

impl OvaSpec {
    /// vSphere 7.0 U2 (VMware KB 1003746).
    pub const USUAL: u32 = 19;
    /// vSphere 8.0, the first that knows Server 2025's guest id, `windows2022srvNext_64Guest`.
    pub const OF_2025: u32 = 20;

    /// `vmx-NN` for an image of this release.
    pub fn version(&self, release: Release) -> u32 {
        self.hardware_version.unwrap_or(match release {
            Release::Server2025 => Self::OF_2025,
            Release::Server2019 | Release::Server2022 => Self::USUAL,
        })
    }
}

#[derive(Clone, Debug)]
pub struct AmiSpec {
    /// `uefi` or `legacy-bios`
    pub boot_mode: String,
    /// `AWS` or `BYOL`
    pub license_type: String,
}
