//! Evaluates the conditions of targets against a recipe and its plan. Conditions about the content
//! of the image are in `image_conditions`.
//!
//! A condition that cannot be decided from them is unknown and never violates a rule, because a
//! script may affect it.

use super::super::{PayloadEntry, PlannedStep, find_evaluation_release};
use super::seal::{SealFacts, partition_behind_windows};
use crate::recipe::quantity::show_size;
use crate::recipe::target::{MediaChannel, TargetCondition};
use crate::recipe::{MachineSpec, OutputFormat, Recipe};
use winimg_base::io;
use winimg_base::text::Place;
use winimg_formats::wim::WindowsRelease;

/// Result of evaluating a condition.
pub enum ConditionFinding {
    Is(Vec<ConditionSide>),
    /// Not met, with what is there instead.
    Not(ConditionSide),
    Unknown,
}

/// Reason for a condition's result: something that the recipe does, or does not do.
pub struct ConditionSide {
    /// Its place in the recipe.
    pub place: Option<Place>,
    /// Short description: `enables Microsoft-Hyper-V`.
    pub words: String,
}

impl ConditionSide {
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

/// Everything that conditions refer to.
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

    pub fn find(&self, condition: &TargetCondition) -> ConditionFinding {
        match self.evaluate_condition(condition) {
            // Nothing can be reported missing while it is undecided or has errors.
            ConditionFinding::Not(ConditionSide { place: None, .. }) if self.is_open(condition) => {
                ConditionFinding::Unknown
            }
            found => found,
        }
    }

    /// Returns true if the missing parts of the recipe may affect the condition.
    fn is_open(&self, condition: &TargetCondition) -> bool {
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
            TargetCondition::DiskAbove(most) => self.evaluate_machine(|m| {
                (
                    "disk_size",
                    quote(&show_size(m.disk_size)),
                    m.disk_size > most.0,
                )
            }),
            TargetCondition::DiskMultiple(of) => self.evaluate_machine(|m| {
                let is_whole = m.disk_size.is_multiple_of(of.0);
                ("disk_size", quote(&show_size(m.disk_size)), is_whole)
            }),
            TargetCondition::PartitionBehindWindows(wanted) => self.evaluate_partition(*wanted),
            TargetCondition::Output(all) => self.evaluate_output(all),
            TargetCondition::HardwareVersion(least) => self.hardware_version(*least),
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
        let side = match self.recipe.written.get(&format!("machine.{key}")) {
            Some(place) => ConditionSide::at(place, format!("`{key}` is {value}")),
            None => {
                ConditionSide::without_place(format!("`{key}` is not set and defaults to {value}"))
            }
        };
        to_finding(is_met, side)
    }

    fn evaluate_partition(&self, wanted: bool) -> ConditionFinding {
        let Some(own) = &self.recipe.setup.answer_file else {
            // The Windows partition is the last one in winimg's own layout.
            return to_finding(
                !wanted,
                ConditionSide::without_place("winimg's own answer file"),
            );
        };
        let text = io::read_xml_limited(&own.value, io::limit::ANSWER_FILE).ok();
        match text.and_then(|text| partition_behind_windows(&text)) {
            Some(Some(behind)) => {
                let words = format!("creates partition {behind} behind the Windows partition");
                to_finding(wanted, ConditionSide::at(&own.place, words))
            }
            Some(None) => to_finding(
                !wanted,
                ConditionSide::at(&own.place, "the Windows partition is the last"),
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
        let fitting: Vec<ConditionSide> = made
            .iter()
            .filter(|one| all.contains(one))
            .map(|one| self.output_side(*one))
            .collect();
        let made: Vec<&str> = made.iter().map(|one| one.name()).collect();
        is_any(fitting, || format!("the recipe makes {}", made.join(", ")))
    }

    fn output_side(&self, output: OutputFormat) -> ConditionSide {
        let words = format!("the output `{}`", output.name());
        let path = format!("outputs.{}", output.name());
        match self.recipe.written.get(&path) {
            Some(place) => ConditionSide::at(place, words),
            None => ConditionSide::without_place(words),
        }
    }

    fn hardware_version(&self, least: u32) -> ConditionFinding {
        let ova = self.recipe.outputs.ova();
        // The default depends on the release.
        let Some(given) = ova.and_then(|ova| ova.hardware_version) else {
            return ConditionFinding::Unknown;
        };
        let place = self.recipe.written.get("outputs.ova.hardware_version");
        let words = format!("`hardware_version` is {given}");
        let side = place.map_or_else(
            || ConditionSide::without_place(&words),
            |place| ConditionSide::at(place, &words),
        );
        to_finding(given >= least, side)
    }

    fn evaluate_release(&self, mut all: impl Iterator<Item = WindowsRelease>) -> ConditionFinding {
        let Some(release) = self.release else {
            return ConditionFinding::Unknown;
        };
        let place = &self.recipe.media.iso.url.place;
        let place = find_evaluation_release(self.recipe).map_or(place, |(_, place)| place);
        let side = ConditionSide::at(place, format!("the installation medium is {release}"));
        to_finding(all.any(|one| one == release), side)
    }

    fn evaluate_channel(&self, all: &[MediaChannel]) -> ConditionFinding {
        let media = &self.recipe.media;
        let (channel, side) = match (find_evaluation_release(self.recipe), &media.product_key) {
            (Some((_, place)), _) => {
                let words = "an evaluation medium, recognized by its digest";
                (MediaChannel::Evaluation, ConditionSide::at(place, words))
            }
            (None, Some(key)) => (
                MediaChannel::Licensed,
                ConditionSide::at(&key.place, "a product key"),
            ),
            (None, None) => return ConditionFinding::Unknown,
        };
        to_finding(all.contains(&channel), side)
    }

    fn evaluate_license(&self, all: &[String]) -> ConditionFinding {
        let Some(ami) = self.recipe.outputs.ami() else {
            return ConditionFinding::Unknown;
        };
        let side = match self.recipe.written.get("outputs.ami.license_type") {
            Some(place) => {
                ConditionSide::at(place, format!("`license_type` is {}", ami.license_type))
            }
            None => {
                let words = format!(
                    "`license_type` is not set and defaults to {}",
                    ami.license_type
                );
                ConditionSide::without_place(words)
            }
        };
        to_finding(all.contains(&ami.license_type), side)
    }

    fn evaluate_drivers(&self, names: &[String]) -> ConditionFinding {
        let setup = &self.recipe.setup.drivers;
        is_all(
            names,
            |name| setup.iter().any(|one| one.eq_ignore_ascii_case(name)),
            |missing| format!("`[setup] drivers` does not list {}", missing.join(" or ")),
        )
    }
}

fn quote(text: &str) -> String {
    format!("\"{text}\"")
}

/// Returns the finding for a single side.
pub fn to_finding(is_met: bool, side: ConditionSide) -> ConditionFinding {
    if is_met {
        ConditionFinding::Is(vec![side])
    } else {
        ConditionFinding::Not(side)
    }
}

/// Returns the finding for a condition that any side fulfills.
pub fn is_any(sides: Vec<ConditionSide>, otherwise: impl FnOnce() -> String) -> ConditionFinding {
    if sides.is_empty() {
        ConditionFinding::Not(ConditionSide::without_place(otherwise()))
    } else {
        ConditionFinding::Is(sides)
    }
}

/// Returns the finding for a condition that requires each of `wanted`. `otherwise` describes those
/// that are missing.
pub fn is_all<T: ToString>(
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
        ConditionFinding::Is(vec![ConditionSide::without_place("")])
    } else {
        ConditionFinding::Not(ConditionSide::without_place(otherwise(&missing)))
    }
}
