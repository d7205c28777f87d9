//! What a machine's disk hangs on and what its network reaches. A build's follow from the recipe, a clone's from the platform that
//! it is tried as.
//!
//! Pure. Only what QEMU has: who tries an image on other hardware takes the nearest of these, and says so.

use std::net::SocketAddrV4;

use winimg_recipe::recipe::{DiskBus, Firmware};

/// What the disk is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Nvme,
    VirtioBlk,
    VirtioScsi,
    Ahci,
    /// The PIIX4's, as Hyper-V's generation 1 has it.
    Ide,
    /// LSI SAS 1068, as VMware has it.
    LsiSas,
    /// VMware's paravirtual SCSI.
    Pvscsi,
}

impl From<DiskBus> for Controller {
    fn from(bus: DiskBus) -> Self {
        match bus {
            DiskBus::Nvme => Self::Nvme,
            DiskBus::Virtio => Self::VirtioBlk,
            DiskBus::Ahci => Self::Ahci,
        }
    }
}

impl Controller {
    /// Whether the firmware that comes with QEMU starts from it. SeaBIOS 1.16 does from each; OVMF 2022.11 finds no disk on the two of
    /// VMware, for which it was built without a driver (tried with Debian's QEMU 7.2).
    pub fn starts_under(self, firmware: Firmware) -> bool {
        match self {
            Self::Nvme | Self::VirtioBlk | Self::VirtioScsi | Self::Ahci | Self::Ide => true,
            Self::LsiSas | Self::Pvscsi => firmware == Firmware::Bios,
        }
    }
}

/// What the guest can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// It has no card.
    None,
    /// All that the host can.
    Open,
    Own(OwnNetwork),
}

/// A network of the guest's own, which holds its forwards and a DHCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNetwork {
    pub nic: Nic,
    /// `52:54:00:00:00:01`: no two machines of a platform have the same.
    pub mac: String,
    /// `168.0.0.0/7`: every forward's address lies in it.
    pub subnet: String,
    pub forwards: Vec<Forward>,
    /// Whether the host and what is behind it are reached, by address translation. Nothing reaches the guest either way.
    pub has_way_out: bool,
}

/// An address of the guest's network behind which a program of the host answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    pub to: SocketAddrV4,
    /// The program and its arguments, started for each connection with the connection as its input and output.
    pub command: Vec<String>,
}

/// The network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    E1000e,
    Virtio,
    Vmxnet3,
}
