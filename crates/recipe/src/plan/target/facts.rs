//! What a recipe and its plan say about a condition, and where. What its steps leave in the image is `left`'s.
//!
//! What neither says is unknown, and breaks no rule: a script may have done it.

use super::super::{Entry, PlannedStep, evaluated};
use super::seal::{Seal, partition_behind_windows};
use crate::recipe::quantity::show_size;
use crate::recipe::target::{Channel, Condition, Output};
use crate::recipe::{MachineSpec, Recipe};
use winimg_base::io;
use winimg_base::text::Place;
use winimg_formats::wim::Release;

/// What was found of a condition.
pub enum Finding {
    Is(Vec<Side>),
    /// What is there instead.
    Not(Side),
    Unknown,
}

/// What the recipe says, or leaves out.
pub struct Side {
    /// Where it says it.
    pub place: Option<Place>,
    /// A few words: `enables Microsoft-Hyper-V`.
    pub words: String,
}

impl Side {
    pub fn at(place: &Place, words: impl Into<String>) -> Self {
        Self {
            place: Some(place.clone()),
            words: words.into(),
        }
    }

    pub fn nowhere(words: impl Into<String>) -> Self {
        Self {
            place: None,
            words: words.into(),
        }
    }
}

/// All that conditions are about.
pub struct Facts<'a> {
    pub recipe: &'a Recipe,
    pub steps: &'a [PlannedStep],
    /// Of a recipe that generalizes.
    pub seal: Option<Seal>,
    /// Where it is known.
    pub release: Option<Release>,
}

impl<'a> Facts<'a> {
    pub fn new(recipe: &'a Recipe, steps: &'a [PlannedStep], payload: &[Entry]) -> Self {
        Self {
            recipe,
            steps,
            seal: Seal::of(recipe, steps, payload),
            release: evaluated(recipe).map(|(release, _)| release),
        }
    }

    pub fn find(&self, condition: &Condition) -> Finding {
        match self.said(condition) {
            // Of what is not decided yet, or has mistakes, nobody knows what is missing.
            Finding::Not(Side { place: None, .. }) if self.is_open(condition) => Finding::Unknown,
            found => found,
        }
    }

    /// Whether the recipe may yet come to say what the condition is about.
    fn is_open(&self, condition: &Condition) -> bool {
        let verbs: &[&str] = match condition {
            Condition::Feature(_) => &["feature"],
            Condition::User(_) => &["user"],
            Condition::Port(_) => &["firewall"],
            Condition::Registry(_) => &["registry"],
            Condition::Service(_) => &["service"],
            Condition::File(_) => &["file", "copy", "extract", "directory"],
            _ => &[],
        };
        let waits = |step: &PlannedStep| !step.undecided.is_empty() && verbs.contains(&step.verb);
        !self.recipe.is_whole || self.steps.iter().any(waits)
    }

    fn said(&self, condition: &Condition) -> Finding {
        match condition {
            Condition::Feature(names) => self.feature(names),
            Condition::Firmware(all) => self.machine(|m| {
                (
                    "firmware",
                    quoted(m.firmware.word()),
                    all.contains(&m.firmware),
                )
            }),
            Condition::SecureBoot(on) => self.machine(|m| {
                (
                    "secure_boot",
                    m.secure_boot.to_string(),
                    m.secure_boot == *on,
                )
            }),
            Condition::DiskBus(all) => self.machine(|m| {
                (
                    "disk_bus",
                    quoted(m.disk_bus.word()),
                    all.contains(&m.disk_bus),
                )
            }),
            Condition::DiskAbove(most) => self.machine(|m| {
                (
                    "disk_size",
                    quoted(&show_size(m.disk_size)),
                    m.disk_size > most.0,
                )
            }),
            Condition::DiskMultiple(of) => self.machine(|m| {
                let is_whole = m.disk_size.is_multiple_of(of.0);
                ("disk_size", quoted(&show_size(m.disk_size)), is_whole)
            }),
            Condition::PartitionBehindWindows(wanted) => self.partition(*wanted),
            Condition::Output(all) => self.output(all),
            Condition::HardwareVersion(least) => self.hardware_version(*least),
            Condition::Windows(all) => self.windows(all.iter().map(|w| w.0)),
            Condition::Channel(all) => self.channel(all),
            Condition::LicenseType(all) => self.license(all),
            Condition::AnswerFile(wanted) => self.answer_file(*wanted),
            Condition::Command(all) => self.command(all),
            Condition::Administrator(state) => self.administrator(*state),
            Condition::User(names) => self.users(names),
            Condition::Port(ports) => self.ports(ports),
            Condition::Registry(value) => self.registry(value),
            Condition::Service(service) => self.service(service),
            Condition::File(paths) => self.files(paths),
            Condition::Setting(setting) => self.setting(setting),
            Condition::Driver(names) => self.drivers(names),
        }
    }

    /// One value of `[machine]`: its key, how it is written, and whether the condition holds.
    fn machine(&self, of: impl Fn(&MachineSpec) -> (&'static str, String, bool)) -> Finding {
        let spec = &self.recipe.machine;
        // Of a table with mistakes nothing is known: no disk is that small.
        if spec.disk_size == 0 {
            return Finding::Unknown;
        }
        let (key, value, holds) = of(spec);
        let side = match self.recipe.written.get(&format!("machine.{key}")) {
            Some(place) => Side::at(place, format!("`{key}` is {value}")),
            None => Side::nowhere(format!("`{key}` is not written, and is {value}")),
        };
        decided(holds, side)
    }

    fn partition(&self, wanted: bool) -> Finding {
        let Some(own) = &self.recipe.setup.answer_file else {
            // winimg's own layout ends with Windows.
            return decided(!wanted, Side::nowhere("winimg's own answer file"));
        };
        let text = io::read_xml_limited(&own.value, io::limit::ANSWER_FILE).ok();
        match text.and_then(|text| partition_behind_windows(&text)) {
            Some(Some(behind)) => {
                let words = format!("makes partition {behind} behind Windows' own");
                decided(wanted, Side::at(&own.place, words))
            }
            Some(None) => decided(!wanted, Side::at(&own.place, "Windows' own is the last")),
            None => Finding::Unknown,
        }
    }

    fn output(&self, all: &[Output]) -> Finding {
        let outputs = &self.recipe.outputs;
        let made = Output::ALL.into_iter().filter(|one| one.is_in(outputs));
        let made: Vec<Output> = made.collect();
        if made.is_empty() {
            // [outputs] has mistakes.
            return Finding::Unknown;
        }
        let fitting = made.iter().filter(|one| all.contains(one));
        let side = |one: &Output| {
            let words = format!("the output `{}`", one.name());
            let path = format!("outputs.{}", one.name());
            match self.recipe.written.get(&path) {
                Some(place) => Side::at(place, words),
                None => Side::nowhere(words),
            }
        };
        let fitting: Vec<Side> = fitting.map(side).collect();
        let made: Vec<&str> = made.iter().map(|one| one.name()).collect();
        is_any(fitting, || format!("the recipe makes {}", made.join(", ")))
    }

    fn hardware_version(&self, least: u32) -> Finding {
        let ova = self.recipe.outputs.ova.as_ref();
        // What the recipe leaves out is chosen by the release.
        let Some(given) = ova.and_then(|ova| ova.hardware_version) else {
            return Finding::Unknown;
        };
        let place = self.recipe.written.get("outputs.ova.hardware_version");
        let words = format!("`hardware_version` is {given}");
        let side = place.map_or_else(|| Side::nowhere(&words), |place| Side::at(place, &words));
        decided(given >= least, side)
    }

    fn windows(&self, mut all: impl Iterator<Item = Release>) -> Finding {
        let Some(release) = self.release else {
            return Finding::Unknown;
        };
        let place = &self.recipe.media.iso.url.place;
        let place = evaluated(self.recipe).map_or(place, |(_, place)| place);
        let side = Side::at(place, format!("this is a medium of {release}"));
        decided(all.any(|one| one == release), side)
    }

    fn channel(&self, all: &[Channel]) -> Finding {
        let media = &self.recipe.media;
        let (channel, side) = match (evaluated(self.recipe), &media.product_key) {
            (Some((_, place)), _) => {
                let words = "an evaluation medium, known by its digest";
                (Channel::Evaluation, Side::at(place, words))
            }
            (None, Some(key)) => (Channel::Licensed, Side::at(&key.place, "a product key")),
            (None, None) => return Finding::Unknown,
        };
        decided(all.contains(&channel), side)
    }

    fn license(&self, all: &[String]) -> Finding {
        let Some(ami) = &self.recipe.outputs.ami else {
            return Finding::Unknown;
        };
        let side = match self.recipe.written.get("outputs.ami.license_type") {
            Some(place) => Side::at(place, format!("`license_type` is {}", ami.license_type)),
            None => {
                let words = format!("`license_type` is not written, and is {}", ami.license_type);
                Side::nowhere(words)
            }
        };
        decided(all.contains(&ami.license_type), side)
    }

    fn drivers(&self, names: &[String]) -> Finding {
        let setup = &self.recipe.setup.drivers;
        let is_there = |name: &String| setup.iter().any(|one| one.eq_ignore_ascii_case(name));
        is_all(names, is_there, |missing| {
            format!(
                "Setup is given no driver {}",
                missing.join(" and no driver ")
            )
        })
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// One side that says it, or says otherwise.
pub fn decided(holds: bool, side: Side) -> Finding {
    match holds {
        true => Finding::Is(vec![side]),
        false => Finding::Not(side),
    }
}

/// It holds where one side says so.
pub fn is_any(sides: Vec<Side>, otherwise: impl FnOnce() -> String) -> Finding {
    match sides.is_empty() {
        false => Finding::Is(sides),
        true => Finding::Not(Side::nowhere(otherwise())),
    }
}

/// It holds where each of `wanted` is there; `otherwise` is given those that are missing.
pub fn is_all<T: ToString>(
    wanted: &[T],
    is_there: impl Fn(&T) -> bool,
    otherwise: impl FnOnce(&[String]) -> String,
) -> Finding {
    let missing = wanted.iter().filter(|one| !is_there(one));
    let missing: Vec<String> = missing.map(T::to_string).collect();
    match missing.is_empty() {
        true => Finding::Is(vec![Side::nowhere("")]),
        false => Finding::Not(Side::nowhere(otherwise(&missing))),
    }
}
