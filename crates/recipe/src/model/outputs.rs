//! `[outputs]` of a recipe: the files made from the sealed disk.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Firmware;
use winimg_formats::wim::WindowsRelease;

/// One of `[outputs]`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Output")]
pub enum OutputFormat {
    Raw,
    Vhd,
    VhdDynamic,
    Vhdx,
    VhdxFixed,
    Ova,
    Vmdk,
    VmdkFlat,
    Ami,
    Qcow2,
    Vma,
    BoxHyperv,
    BoxLibvirt,
    BoxVirtualbox,
    ContainerDisk,
}

impl OutputFormat {
    pub const ALL: [Self; 15] = [
        Self::Raw,
        Self::Vhd,
        Self::VhdDynamic,
        Self::Vhdx,
        Self::VhdxFixed,
        Self::Ova,
        Self::Vmdk,
        Self::VmdkFlat,
        Self::Ami,
        Self::Qcow2,
        Self::Vma,
        Self::BoxHyperv,
        Self::BoxLibvirt,
        Self::BoxVirtualbox,
        Self::ContainerDisk,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Vhd => "vhd",
            Self::VhdDynamic => "vhd_dynamic",
            Self::Vhdx => "vhdx",
            Self::VhdxFixed => "vhdx_fixed",
            Self::Ova => "ova",
            Self::Vmdk => "vmdk",
            Self::VmdkFlat => "vmdk_flat",
            Self::Ami => "ami",
            Self::Qcow2 => "qcow2",
            Self::Vma => "vma",
            Self::BoxHyperv => "box_hyperv",
            Self::BoxLibvirt => "box_libvirt",
            Self::BoxVirtualbox => "box_virtualbox",
            Self::ContainerDisk => "container_disk",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns all names, separated by commas.
    pub fn list() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Returns what a recipe's table without keys means.
    pub fn default_options(self) -> OutputOptions {
        match self {
            Self::Ova => OutputOptions::Ova(OvaOptions::default()),
            Self::Ami => OutputOptions::Ami(AmiOptions::default()),
            Self::BoxHyperv | Self::BoxLibvirt | Self::BoxVirtualbox => {
                OutputOptions::Box(BoxOptions::default())
            }
            Self::Raw
            | Self::Vhd
            | Self::VhdDynamic
            | Self::Vhdx
            | Self::VhdxFixed
            | Self::Vmdk
            | Self::VmdkFlat
            | Self::Qcow2
            | Self::Vma
            | Self::ContainerDisk => OutputOptions::Plain,
        }
    }
}

/// Options of one output.
#[derive(Clone, Debug)]
pub enum OutputOptions {
    /// None.
    Plain,
    Ova(OvaOptions),
    Ami(AmiOptions),
    Box(BoxOptions),
}

/// `[outputs]`: the formats to write, in the order of [`OutputFormat::ALL`].
#[derive(Clone, Debug, Default)]
pub struct Outputs(BTreeMap<OutputFormat, OutputOptions>);

impl Outputs {
    pub fn insert(&mut self, format: OutputFormat, options: OutputOptions) {
        self.0.insert(format, options);
    }

    pub fn has(&self, format: OutputFormat) -> bool {
        self.0.contains_key(&format)
    }

    pub fn formats(&self) -> impl Iterator<Item = OutputFormat> {
        self.0.keys().copied()
    }

    pub fn ova(&self) -> Option<&OvaOptions> {
        match self.0.get(&OutputFormat::Ova) {
            Some(OutputOptions::Ova(options)) => Some(options),
            _ => None,
        }
    }

    pub fn ami(&self) -> Option<&AmiOptions> {
        match self.0.get(&OutputFormat::Ami) {
            Some(OutputOptions::Ami(options)) => Some(options),
            _ => None,
        }
    }

    /// Returns the options of a Vagrant box.
    pub fn vagrant_box(&self, format: OutputFormat) -> Option<&BoxOptions> {
        match self.0.get(&format) {
            Some(OutputOptions::Box(options)) => Some(options),
            _ => None,
        }
    }
}

impl FromIterator<OutputFormat> for Outputs {
    /// Collects formats with their default options.
    fn from_iter<I: IntoIterator<Item = OutputFormat>>(formats: I) -> Self {
        let formats = formats.into_iter();
        Self(
            formats
                .map(|format| (format, format.default_options()))
                .collect(),
        )
    }
}

impl<const N: usize> From<[OutputFormat; N]> for Outputs {
    fn from(formats: [OutputFormat; N]) -> Self {
        formats.into_iter().collect()
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

#[derive(Clone, Debug, Default)]
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

impl AmiOptions {
    pub const USUAL_LICENSE: &str = "AWS";

    /// Returns the boot mode of an image with this firmware.
    pub fn find_boot_mode(firmware: Firmware) -> &'static str {
        match firmware {
            Firmware::Uefi => "uefi",
            Firmware::Bios => "legacy-bios",
        }
    }
}

impl Default for AmiOptions {
    fn default() -> Self {
        Self {
            boot_mode: Self::find_boot_mode(Firmware::Uefi).into(),
            license_type: Self::USUAL_LICENSE.into(),
        }
    }
}
