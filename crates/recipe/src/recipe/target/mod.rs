//! `targets/NAME.toml`: what the place that an image is for gives to its first boot, what it needs of the image, and what it
//! refuses.
//!
//! Knows conditions, never a platform: those are in the files alone, each line with its source. Judging is the plan's.

mod condition;
mod find;
mod form;
mod read;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Firmware, Outputs, Recipe};
use winimg_base::text::Place;

pub use condition::{
    Administrator, Channel, Condition, Data, Service, Setting, Size, Value, Windows,
};
pub use find::all;
pub(super) use find::{Found, named, names};
pub use form::Form;
pub use read::schema;
pub use words::{list, text, word};

/// One target, with the rules of the files that it includes.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// As a recipe names it: that of its file without `.toml`.
    pub name: String,
    pub title: String,
    pub hardware: Hardware,
    pub metadata: Metadata,
    /// Those that follow from the hardware come first, then the file's own, then those of its includes.
    pub rules: Vec<Rule>,
    pub notes: Vec<Note>,
    /// The start of its file.
    #[serde(skip)]
    pub place: Place,
}

/// A target that a recipe is judged by.
#[derive(Clone, Debug)]
pub struct Aim {
    pub target: Target,
    /// Where the recipe names it. `None`: it does not, but makes an output that some of the target's rules are about; only
    /// those count.
    pub named: Option<Place>,
}

/// `[hardware]`: the machine of the first boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetHardware")]
pub struct Hardware {
    pub firmware: Vec<Firmware>,
    pub controller: Controller,
    /// Other controllers that machines of some sizes have in its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Controller>,
    pub nic: Nic,
    pub tpm: Presence,
    pub secure_boot: Presence,
    #[serde(flatten)]
    pub origin: Origin,
}

/// What the disk is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    Ahci,
    Ide,
    LsiSas,
    Nvme,
    Pvscsi,
    VirtioBlk,
    VirtioScsi,
    /// An NVMe controller that Hyper-V's bus passes through as a PCI device.
    VmbusNvme,
    /// The synthetic SCSI controller of Hyper-V's bus.
    VmbusScsi,
}

/// The network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Nic {
    E1000e,
    Ena,
    Virtio,
    /// The synthetic card of Hyper-V's bus.
    Vmbus,
    Vmxnet3,
}

/// Whether a machine of the platform has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    Required,
    Optional,
    None,
}

/// `[metadata]`: what a clone learns about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetMetadata")]
pub struct Metadata {
    pub by: Form,
    /// The program in the image that reads it; `none` where there is none.
    pub agent: String,
    #[serde(flatten)]
    pub origin: Origin,
}

/// Where a line of a target comes from, and how well it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    pub source: String,
    pub proof: Proof,
}

/// How well a fact is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// A text of the publisher's or upstream code says so.
    #[default]
    Text,
    /// Others saw it on real machines.
    Field,
    /// It follows from what is known, and was not seen.
    Inferred,
    /// Somebody remembers it.
    Mem,
    /// Nobody tried.
    Unproven,
}

/// `[[rule]]`: one thing that the platform needs or refuses.
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    #[serde(flatten)]
    pub demand: Demand,
    /// The rule counts only where this holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// The rule counts for every recipe that makes this output, whether it names the target or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// One sentence without a full stop.
    pub why: String,
    #[serde(flatten)]
    pub origin: Origin,
    pub report: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
    /// Where the file says it.
    #[serde(skip)]
    pub place: Place,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    Needs(Condition),
    Refuses(Condition),
}

/// What a recipe that contradicts a rule gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    Refuse,
    Warn,
}

/// `[[note]]`: what no plan can judge, and who makes such an image should know.
#[derive(Clone, Debug, Serialize)]
pub struct Note {
    /// One sentence without a full stop.
    pub note: String,
    #[serde(flatten)]
    pub origin: Origin,
}

/// One of `[outputs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Output {
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

impl Recipe {
    /// The targets that the recipe itself names, in its order.
    pub fn named_targets(&self) -> impl Iterator<Item = &Target> {
        let named = self.targets.iter().filter(|aim| aim.named.is_some());
        named.map(|aim| &aim.target)
    }
}

impl Proof {
    /// Whether it is known well enough to refuse a recipe for it.
    fn refuses(self) -> bool {
        matches!(self, Self::Text | Self::Field)
    }
}

impl Output {
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

    pub fn is_in(self, outputs: &Outputs) -> bool {
        match self {
            Self::Raw => outputs.raw,
            Self::Vhd => outputs.vhd,
            Self::VhdDynamic => outputs.vhd_dynamic,
            Self::Vhdx => outputs.vhdx,
            Self::VhdxFixed => outputs.vhdx_fixed,
            Self::Ova => outputs.ova.is_some(),
            Self::Vmdk => outputs.vmdk,
            Self::VmdkFlat => outputs.vmdk_flat,
            Self::Ami => outputs.ami.is_some(),
            Self::Qcow2 => outputs.qcow2,
            Self::Vma => outputs.vma,
            Self::BoxHyperv => outputs.box_hyperv.is_some(),
            Self::BoxLibvirt => outputs.box_libvirt.is_some(),
            Self::BoxVirtualbox => outputs.box_virtualbox.is_some(),
            Self::ContainerDisk => outputs.container_disk,
        }
    }
}

impl Target {
    /// Whether some of its rules are about an output of these.
    pub fn minds(&self, outputs: &Outputs) -> bool {
        let mut about = self.rules.iter().filter_map(|rule| rule.output);
        about.any(|output| output.is_in(outputs))
    }
}
