//! Disk controllers and networks of machines. The recipe determines those of a build; the platform
//! that is emulated determines those of a clone.
//!
//! Pure. Limited to hardware that QEMU emulates: a platform with other hardware is approximated,
//! and the difference is reported.

use std::net::SocketAddrV4;

use winimg_recipe::{DiskBus, Firmware};

/// Controller that the disk is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageController {
    Nvme,
    VirtioBlk,
    VirtioScsi,
    Ahci,
    /// The controller of the PIIX4, used by Hyper-V generation 1.
    Ide,
    /// LSI SAS 1068, used by VMware.
    LsiSas,
    /// VMware's paravirtual SCSI.
    Pvscsi,
}

impl From<DiskBus> for StorageController {
    fn from(bus: DiskBus) -> Self {
        match bus {
            DiskBus::Nvme => Self::Nvme,
            DiskBus::Virtio => Self::VirtioBlk,
            DiskBus::Ahci => Self::Ahci,
        }
    }
}

impl StorageController {
    /// Returns true if the firmware shipped with QEMU boots from this controller. SeaBIOS 1.16
    /// boots from all; OVMF 2022.11 is built without drivers for VMware's two (tested with Debian's
    /// QEMU 7.2).
    pub fn starts_under(self, firmware: Firmware) -> bool {
        match self {
            Self::Nvme | Self::VirtioBlk | Self::VirtioScsi | Self::Ahci | Self::Ide => true,
            Self::LsiSas | Self::Pvscsi => firmware == Firmware::Bios,
        }
    }
}

/// Network access of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkAccess {
    /// No network card.
    None,
    /// Everything that the host can reach.
    Open,
    Own(PrivateNetwork),
}

/// Private network of the guest with its forwards and a DHCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateNetwork {
    pub nic: NicModel,
    /// For example `52:54:00:00:00:01`; unique among the machines of a platform.
    pub mac: String,
    /// For example `168.0.0.0/7`; contains the address of every forward.
    pub subnet: String,
    pub forwards: Vec<GuestForward>,
    /// True if the guest can reach the host and its networks through NAT. Nothing can connect to
    /// the guest in either case.
    pub has_way_out: bool,
}

/// Address in the guest's network that is served by a program on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestForward {
    pub to: SocketAddrV4,
    /// The program and its arguments, started for each connection with the connection as its input
    /// and output.
    pub command: Vec<String>,
}

/// The network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicModel {
    E1000e,
    Virtio,
    Vmxnet3,
}
