//! Evaluates the conditions of targets against a recipe and its plan. Conditions about the content
//! of the image are in `image_conditions`.
//!
//! A condition that cannot be decided from them is unknown and never violates a rule, because a
//! script may affect it.

use super::super::{PayloadEntry, PlannedStep, find_evaluation_release};
use super::seal::{BehindWindows, SealFacts, partition_behind_windows};
use crate::quantity::format_size;
use crate::target::{MediaChannel, TargetCondition};
use crate::{MachineSpec, OutputFormat, Recipe};
use winimg_base::io;
use winimg_base::text::Place;
use winimg_formats::wim::WindowsRelease;

/// Result of evaluating a condition.
pub enum ConditionFinding {
    Met(Vec<ConditionReason>),
    /// Not met, with the reason.
    NotMet(ConditionReason),
    Unknown,
}

/// Reason for a condition's result: something that the recipe does, or does not do.
pub struct ConditionReason {
    /// Its place in the recipe.
    pub place: Option<Place>,
    /// Short description: `enables Microsoft-Hyper-V`.
    pub words: String,
}

impl ConditionReason {
    pub fn at(place: &Place, words: impl Into<String>) -> Self {
        Self {
            place: Some(place.clone()),
            words: words.into(),
        }
    }

    pub fn without_place(words: impl Into<String>) -> Self {
        Self {
            place: None,
            words: words.into(),
        }
    }
}

/// The facts that conditions are evaluated against.
pub struct PlanFacts<'a> {
    pub recipe: &'a Recipe,
    pub steps: &'a [PlannedStep],
    /// For a recipe that generalizes.
    pub seal: Option<SealFacts>,
    /// Release of Windows, if known.
    pub release: Option<WindowsRelease>,
}

impl<'a> PlanFacts<'a> {
    pub fn new(recipe: &'a Recipe, steps: &'a [PlannedStep], payload: &[PayloadEntry]) -> Self {
        Self {
            recipe,
            steps,
            seal: SealFacts::from_recipe(recipe, steps, payload),
            release: find_evaluation_release(recipe).map(|(release, _)| release),
        }
    }

    pub fn evaluate(&self, condition: &TargetCondition) -> ConditionFinding {
        match self.evaluate_condition(condition) {
            // Nothing can be reported missing while it is undecided or has errors.
            ConditionFinding::NotMet(ConditionReason { place: None, .. })
                if self.is_undecided(condition) =>
            {
                ConditionFinding::Unknown
            }
            found => found,
        }
    }

    /// Returns true if the missing parts of the recipe may affect the condition.
    fn is_undecided(&self, condition: &TargetCondition) -> bool {
        let verbs: &[&str] = match condition {
            TargetCondition::Feature(_) => &["feature"],
            TargetCondition::User(_) => &["user"],
            TargetCondition::Port(_) => &["firewall"],
            TargetCondition::Registry(_) => &["registry"],
            TargetCondition::Service(_) => &["service"],
            TargetCondition::File(_) => &["file", "copy", "extract", "directory"],
            _ => &[],
        };
        let mut undecided = self.steps.iter().filter(|step| !step.undecided.is_empty());
        !self.recipe.is_whole || undecided.any(|step| verbs.contains(&step.verb))
    }

    fn evaluate_condition(&self, condition: &TargetCondition) -> ConditionFinding {
        match condition {
            TargetCondition::Feature(names) => self.evaluate_feature(names),
            TargetCondition::Firmware(all) => self.evaluate_machine(|m| {
                (
                    "firmware",
                    quote(m.firmware.as_str()),
                    all.contains(&m.firmware),
                )
            }),
            TargetCondition::SecureBoot(on) => self.evaluate_machine(|m| {
                (
                    "secure_boot",
                    m.secure_boot.to_string(),
                    m.secure_boot == *on,
                )
            }),
            TargetCondition::DiskBus(all) => self.evaluate_machine(|m| {
                (
                    "disk_bus",
                    quote(m.disk_bus.as_str()),
                    all.contains(&m.disk_bus),
                )
            }),
            TargetCondition::DiskAbove(maximum) => self.evaluate_machine(|m| {
                (
                    "disk_size",
                    quote(&format_size(m.disk_size)),
                    m.disk_size > maximum.0,
                )
            }),
            TargetCondition::DiskMultiple(of) => self.evaluate_machine(|m| {
                let is_whole = m.disk_size.is_multiple_of(of.0);
                ("disk_size", quote(&format_size(m.disk_size)), is_whole)
            }),
            TargetCondition::PartitionBehindWindows(wanted) => self.evaluate_partition(*wanted),
            TargetCondition::Output(all) => self.evaluate_output(all),
            TargetCondition::HardwareVersion(minimum) => self.evaluate_hardware_version(*minimum),
            TargetCondition::Windows(all) => self.evaluate_release(all.iter().map(|w| w.0)),
            TargetCondition::Channel(all) => self.evaluate_channel(all),
            TargetCondition::LicenseType(all) => self.evaluate_license(all),
            TargetCondition::AnswerFile(wanted) => self.answer_file(*wanted),
            TargetCondition::Command(all) => self.evaluate_command(all),
            TargetCondition::Administrator(state) => self.evaluate_administrator(*state),
            TargetCondition::User(names) => self.evaluate_users(names),
            TargetCondition::Port(ports) => self.evaluate_ports(ports),
            TargetCondition::Registry(value) => self.evaluate_registry(value),
            TargetCondition::Service(service) => self.evaluate_service(service),
            TargetCondition::File(paths) => self.evaluate_files(paths),
            TargetCondition::Setting(setting) => self.evaluate_setting(setting),
            TargetCondition::Driver(names) => self.evaluate_drivers(names),
        }
    }

    /// Evaluates a value of `[machine]`: `describe` returns the key, the value as text, and whether
    /// the condition holds.
    fn evaluate_machine(
        &self,
        describe: impl Fn(&MachineSpec) -> (&'static str, String, bool),
    ) -> ConditionFinding {
        let spec = &self.recipe.machine;
        // The table has errors: no disk has size 0.
        if spec.disk_size == 0 {
            return ConditionFinding::Unknown;
        }
        let (key, value, is_met) = describe(spec);
        let reason = match self.recipe.written.get(&format!("machine.{key}")) {
            Some(place) => ConditionReason::at(place, format!("`{key}` is {value}")),
            None => ConditionReason::without_place(format!(
                "`{key}` is not set and defaults to {value}"
            )),
        };
        to_finding(is_met, reason)
    }

    fn evaluate_partition(&self, wanted: bool) -> ConditionFinding {
        let Some(own) = &self.recipe.setup.answer_file else {
            // The Windows partition is the last one in winimg's own layout.
            return to_finding(
                !wanted,
                ConditionReason::without_place("winimg's own answer file"),
            );
        };
        let text = io::read_xml_limited(&own.value, io::limit::ANSWER_FILE).ok();
        match text.and_then(|text| partition_behind_windows(&text)) {
            Some(BehindWindows::Partition(behind)) => {
                let words = format!("creates partition {behind} behind the Windows partition");
                to_finding(wanted, ConditionReason::at(&own.place, words))
            }
            Some(BehindWindows::Nothing) => to_finding(
                !wanted,
                ConditionReason::at(&own.place, "the Windows partition is the last"),
            ),
            None => ConditionFinding::Unknown,
        }
    }

    fn evaluate_output(&self, all: &[OutputFormat]) -> ConditionFinding {
        let made: Vec<OutputFormat> = self.recipe.outputs.formats().collect();
        if made.is_empty() {
            // [outputs] has errors.
            return ConditionFinding::Unknown;
        }
        let fitting: Vec<ConditionReason> = made
            .iter()
            .filter(|output| all.contains(output))
            .map(|output| self.output_reason(*output))
            .collect();
        let made: Vec<&str> = made.iter().map(|output| output.name()).collect();
        find_any(fitting, || format!("the recipe makes {}", made.join(", ")))
    }

    fn output_reason(&self, output: OutputFormat) -> ConditionReason {
        let words = format!("the output `{}`", output.name());
        let path = format!("outputs.{}", output.name());
        match self.recipe.written.get(&path) {
            Some(place) => ConditionReason::at(place, words),
            None => ConditionReason::without_place(words),
        }
    }

    fn evaluate_hardware_version(&self, minimum: u32) -> ConditionFinding {
        let ova = self.recipe.outputs.ova();
        // The default depends on the release.
        let Some(given) = ova.and_then(|ova| ova.hardware_version) else {
            return ConditionFinding::Unknown;
        };
        let place = self.recipe.written.get("outputs.ova.hardware_version");
        let words = format!("`hardware_version` is {given}");
        let reason = place.map_or_else(
            || ConditionReason::without_place(&words),
            |place| ConditionReason::at(place, &words),
        );
        to_finding(given >= minimum, reason)
    }

    fn evaluate_release(&self, mut all: impl Iterator<Item = WindowsRelease>) -> ConditionFinding {
        let Some(release) = self.release else {
            return ConditionFinding::Unknown;
        };
        let place = &self.recipe.media.iso.url.place;
        let place = find_evaluation_release(self.recipe).map_or(place, |(_, place)| place);
        let reason = ConditionReason::at(place, format!("the installation medium is {release}"));
        to_finding(all.any(|one| one == release), reason)
    }

    fn evaluate_channel(&self, all: &[MediaChannel]) -> ConditionFinding {
        let media = &self.recipe.media;
        let (channel, reason) = match (find_evaluation_release(self.recipe), &media.product_key) {
            (Some((_, place)), _) => {
                let words = "an evaluation medium, recognized by its digest";
                (MediaChannel::Evaluation, ConditionReason::at(place, words))
            }
            (None, Some(key)) => (
                MediaChannel::Licensed,
                ConditionReason::at(&key.place, "a product key"),
            ),
            (None, None) => return ConditionFinding::Unknown,
        };
        to_finding(all.contains(&channel), reason)
    }

    fn evaluate_license(&self, all: &[String]) -> ConditionFinding {
        let Some(ami) = self.recipe.outputs.ami() else {
            return ConditionFinding::Unknown;
        };
        let reason = match self.recipe.written.get("outputs.ami.license_type") {
            Some(place) => {
                ConditionReason::at(place, format!("`license_type` is {}", ami.license_type))
            }
            None => {
                let words = format!(
                    "`license_type` is not set and defaults to {}",
                    ami.license_type
                );
                ConditionReason::without_place(words)
            }
        };
        to_finding(all.contains(&ami.license_type), reason)
    }

    fn evaluate_drivers(&self, names: &[String]) -> ConditionFinding {
        let setup = &self.recipe.setup.drivers;
        find_all(
            names,
            |name| setup.iter().any(|one| one.eq_ignore_ascii_case(name)),
            |missing| format!("`[setup] drivers` does not list {}", missing.join(" or ")),
        )
    }
}

fn quote(text: &str) -> String {
    format!("\"{text}\"")
}

/// Returns the finding for a single reason.
pub fn to_finding(is_met: bool, reason: ConditionReason) -> ConditionFinding {
    if is_met {
        ConditionFinding::Met(vec![reason])
    } else {
        ConditionFinding::NotMet(reason)
    }
}

/// Returns the finding for a condition that is met if there is any reason.
pub fn find_any(
    reasons: Vec<ConditionReason>,
    otherwise: impl FnOnce() -> String,
) -> ConditionFinding {
    if reasons.is_empty() {
        ConditionFinding::NotMet(ConditionReason::without_place(otherwise()))
    } else {
        ConditionFinding::Met(reasons)
    }
}

/// Returns the finding for a condition that requires each of `wanted`. `otherwise` describes those
/// that are missing.
pub fn find_all<T: ToString>(
    wanted: &[T],
    is_there: impl Fn(&T) -> bool,
    otherwise: impl FnOnce(&[String]) -> String,
) -> ConditionFinding {
    let missing: Vec<String> = wanted
        .iter()
        .filter(|one| !is_there(one))
        .map(T::to_string)
        .collect();
    if missing.is_empty() {
        ConditionFinding::Met(vec![ConditionReason::without_place("")])
    } else {
        ConditionFinding::NotMet(ConditionReason::without_place(otherwise(&missing)))
    }
}
