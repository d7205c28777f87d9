//! `targets/NAME.toml`: describes the platform that an image is for: its hardware and metadata at
//! first boot, and its requirements for the image.
//!
//! Knows conditions, but no specific platform: those are only in the files, each line with its
//! source. The plan applies the rules.

mod condition;
mod find;
mod metadata_form;
mod read;
mod render;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Firmware, OutputFormat, Outputs, Recipe};
use winimg_base::text::Place;

pub use condition::{
    AdministratorState, DiskSize, FileSetting, MediaChannel, RegistryCondition,
    RegistryConditionData, ServerRelease, ServiceCondition, TargetCondition,
};
pub use find::load_all;
pub(crate) use find::{LoadedTarget, list_names, load_target};
pub use metadata_form::MetadataForm;
pub use read::render_schema;
pub use render::{list, render_target, serialized_name};

/// One target, with the rules of the files that it includes.
#[derive(Clone, Debug, Serialize)]
pub struct TargetSpec {
    /// Name in recipes: the file name without `.toml`.
    pub name: String,
    pub title: String,
    pub hardware: TargetHardware,
    pub metadata: TargetMetadata,
    /// Rules derived from the hardware, then the file's own, then those of its includes.
    pub rules: Vec<TargetRule>,
    pub notes: Vec<TargetNote>,
    /// The start of its file.
    #[serde(skip)]
    pub place: Place,
}

/// A target that a recipe is checked against.
#[derive(Clone, Debug)]
pub struct RecipeTarget {
    pub target: TargetSpec,
    /// The place of its name in the recipe. `None` if the recipe only makes an output that some of
    /// the target's rules are about; then only those rules apply.
    pub named: Option<Place>,
}

/// `[hardware]`: the machine of the first boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetHardware")]
pub struct TargetHardware {
    pub firmware: Vec<Firmware>,
    pub controller: TargetController,
    /// Other controllers that machines of some sizes have in its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<TargetController>,
    pub nic: TargetNic,
    pub tpm: Presence,
    pub secure_boot: Presence,
    #[serde(flatten)]
    pub origin: FactOrigin,
}

/// Disk controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Controller")]
pub enum TargetController {
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
#[schemars(rename = "Nic")]
pub enum TargetNic {
    E1000e,
    Ena,
    Virtio,
    /// The synthetic card of Hyper-V's bus.
    Vmbus,
    Vmxnet3,
}

/// Presence of a feature in machines of the platform.
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
pub struct TargetMetadata {
    pub by: MetadataForm,
    /// The program in the image that reads it; `none` where there is none.
    pub agent: String,
    #[serde(flatten)]
    pub origin: FactOrigin,
}

/// Source of a line of a target, and its reliability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactOrigin {
    pub source: String,
    pub proof: FactProof,
}

/// Reliability of a fact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Proof")]
pub enum FactProof {
    /// Documented by the publisher, or in upstream code.
    #[default]
    Text,
    /// Seen by others on real machines.
    Field,
    /// Inferred from known facts, not seen.
    Inferred,
    /// From memory.
    Mem,
    /// Not tried yet.
    Unproven,
}

/// `[[rule]]`: a requirement of the platform.
#[derive(Clone, Debug, Serialize)]
pub struct TargetRule {
    #[serde(flatten)]
    pub demand: RuleDemand,
    /// The rule only applies if this is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<TargetCondition>,
    /// The rule applies to every recipe with this output, even if it does not name the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputFormat>,
    /// One sentence without a full stop.
    pub why: String,
    #[serde(flatten)]
    pub origin: FactOrigin,
    pub report: RuleSeverity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
    /// Place in the file.
    #[serde(skip)]
    pub place: Place,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleDemand {
    Needs(TargetCondition),
    Refuses(TargetCondition),
}

/// Severity of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Report")]
pub enum RuleSeverity {
    Refuse,
    Warn,
}

/// `[[note]]`: information for users that a plan cannot check.
#[derive(Clone, Debug, Serialize)]
pub struct TargetNote {
    /// One sentence without a full stop.
    pub note: String,
    #[serde(flatten)]
    pub origin: FactOrigin,
}

impl Recipe {
    /// Lists the targets that the recipe itself names, in its order.
    pub fn named_targets(&self) -> impl Iterator<Item = &TargetSpec> {
        self.targets
            .iter()
            .filter(|target| target.named.is_some())
            .map(|target| &target.target)
    }
}

impl FactProof {
    /// Returns true if the fact is reliable enough to refuse a recipe.
    fn can_refuse(self) -> bool {
        matches!(self, Self::Text | Self::Field)
    }
}

impl TargetSpec {
    /// Returns true if any of its rules applies to one of these outputs.
    pub fn has_rules_for(&self, outputs: &Outputs) -> bool {
        let mut outputs_of_rules = self.rules.iter().filter_map(|rule| rule.output);
        outputs_of_rules.any(|output| outputs.has(output))
    }
}
