//! Evaluates conditions about what the steps and the seal leave in the image.

use super::super::PlannedStep;
use super::super::check::{ImageCheck, PlannedCheck};
use super::super::describe::shown_data;

use super::conditions::{
    ConditionFinding, ConditionReason, PlanFacts, find_all, find_any, to_finding,
};
use super::seal::local_accounts;
use crate::target::{
    AdministratorState, FileSetting, RegistryCondition, RegistryConditionData, ServiceCondition,
    serialized_name,
};
use crate::{GuestPath, RegistryValueData, Verb};
use winimg_base::io;

/// Maximum number of characters shown of a setting's value.
const LONGEST: usize = 100;

impl<'a> PlanFacts<'a> {
    /// Returns the checks of all steps, each with its step.
    fn iter_checks(&self) -> impl Iterator<Item = (&'a PlannedStep, &'a PlannedCheck)> {
        self.steps
            .iter()
            .flat_map(|step| step.expects.iter().map(move |check| (step, check)))
    }

    pub fn evaluate_feature(&self, names: &[String]) -> ConditionFinding {
        let mut sides: Vec<ConditionReason> = Vec::new();
        for (step, check) in self.iter_checks() {
            if let ImageCheck::Feature {
                name,
                enabled: true,
            } = check
                && names.iter().any(|one| one.eq_ignore_ascii_case(name))
                && !sides
                    .iter()
                    .any(|side| side.place.as_ref() == Some(&step.place))
            {
                let words = format!("step `{}` enables {name}", step.name);
                sides.push(ConditionReason::at(&step.place, words));
            }
        }
        find_any(sides, || format!("no step enables {}", names.join(" or ")))
    }

    pub fn answer_file(&self, wanted: bool) -> ConditionFinding {
        match &self.seal {
            Some(seal) => {
                let words = if seal.is_answered {
                    "sysprep gets an answer file"
                } else {
                    "sysprep gets no answer file"
                };
                to_finding(
                    seal.is_answered == wanted,
                    ConditionReason::at(&seal.place, words),
                )
            }
            None => ConditionFinding::Unknown,
        }
    }

    pub fn evaluate_command(&self, all: &[String]) -> ConditionFinding {
        let Some(seal) = &self.seal else {
            return ConditionFinding::Unknown;
        };
        let sides = seal
            .commands
            .iter()
            .filter(|command| {
                let command = command.to_lowercase();
                all.iter().any(|one| command.contains(&one.to_lowercase()))
            })
            .map(|command| {
                ConditionReason::at(&seal.place, format!("the answer file runs `{command}`"))
            })
            .collect();
        find_any(sides, || {
            format!("no command contains {}", all.join(" or "))
        })
    }

    pub fn evaluate_administrator(&self, wanted: AdministratorState) -> ConditionFinding {
        let Some(seal) = &self.seal else {
            // Without sysprep the account stays as it was during the build.
            return ConditionFinding::Unknown;
        };
        let by_step = self.iter_checks().find_map(|(step, check)| match check {
            ImageCheck::User {
                name,
                present: true,
                disabled,
            } if name.eq_ignore_ascii_case("Administrator") => {
                let does = if *disabled { "disables" } else { "keeps" };
                let words = format!("step `{}` {does} the account", step.name);
                Some((*disabled, ConditionReason::at(&step.place, words)))
            }
            _ => None,
        });
        // Setup on the clone runs last.
        let (is_disabled, side) = match (seal.find_administrator_state(), by_step) {
            (Some(AdministratorState::Disabled), _) => (
                true,
                ConditionReason::at(&seal.place, "its answer file disables the account"),
            ),
            (Some(AdministratorState::Enabled), _) => (
                false,
                ConditionReason::at(&seal.place, "its answer file enables the account"),
            ),
            (None, Some(said)) => said,
            // The platform's own answer file decides.
            (None, None) if !seal.is_answered => return ConditionFinding::Unknown,
            (None, None) => (
                false,
                ConditionReason::at(&seal.place, "nothing disables the account"),
            ),
        };
        to_finding(
            is_disabled == (wanted == AdministratorState::Disabled),
            side,
        )
    }

    pub fn evaluate_users(&self, names: &[String]) -> ConditionFinding {
        let by_setup = self.accounts_of_setup();
        find_all(
            names,
            |wanted| {
                by_setup
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(wanted))
                    || self.creates_user(wanted)
            },
            |missing| format!("no step creates the account {}", missing.join(" and ")),
        )
    }

    fn creates_user(&self, wanted: &str) -> bool {
        self.iter_checks().any(|(_, check)| {
            matches!(check, ImageCheck::User { name, present: true, disabled: false }
                if name.eq_ignore_ascii_case(wanted))
        })
    }

    /// Returns the accounts that a custom answer file for Setup creates. A file that cannot be read
    /// is reported elsewhere.
    fn accounts_of_setup(&self) -> Vec<String> {
        let file = self.recipe.setup.answer_file.as_ref();
        let text =
            file.and_then(|file| io::read_xml_limited(&file.value, io::limit::ANSWER_FILE).ok());
        text.map(|text| local_accounts(&text)).unwrap_or_default()
    }

    pub fn evaluate_ports(&self, ports: &[u16]) -> ConditionFinding {
        find_all(
            ports,
            |wanted| self.opens_port(*wanted),
            |closed| format!("no firewall rule opens TCP {}", closed.join(" and ")),
        )
    }

    fn opens_port(&self, wanted: u16) -> bool {
        self.iter_checks().any(|(_, check)| {
            let ImageCheck::Firewall(rule) = check else {
                return false;
            };
            // 6 is TCP (IANA: protocol numbers).
            let is_tcp = rule.protocol.is_none_or(|protocol| protocol == 6);
            let has_port =
                rule.ports.is_empty() || rule.ports.iter().any(|p| contains_port(p, wanted));
            rule.present && rule.inbound && rule.allow && is_tcp && has_port
        })
    }

    pub fn evaluate_registry(&self, wanted: &RegistryCondition) -> ConditionFinding {
        let said = self.iter_checks().find_map(|(step, check)| match check {
            // Absent values are also expected of the build's own settings, so they do not count.
            ImageCheck::Registry { key, value, data }
                if *key == wanted.key && *data != RegistryValueData::Absent =>
            {
                let name = value.as_deref().unwrap_or_default();
                let is_it = name.eq_ignore_ascii_case(&wanted.name);
                is_it.then_some((step, data))
            }
            _ => None,
        });
        match said {
            Some((step, data)) => {
                let words = format!(
                    "step `{}` sets {} to {}",
                    step.name,
                    wanted.name,
                    shown_data(data)
                );
                to_finding(
                    is_data(data, &wanted.data),
                    ConditionReason::at(&step.place, words),
                )
            }
            None => ConditionFinding::NotMet(ConditionReason::without_place(format!(
                "no `registry` step sets {} to {}",
                wanted.name,
                wanted.data.describe()
            ))),
        }
    }

    pub fn evaluate_service(&self, wanted: &ServiceCondition) -> ConditionFinding {
        let said = self.iter_checks().find_map(|(step, check)| match check {
            ImageCheck::Service(service) if service.name.eq_ignore_ascii_case(&wanted.name) => {
                Some((step, service.start?))
            }
            _ => None,
        });
        match said {
            Some((step, start)) => {
                let words = format!(
                    "step `{}` sets the start of {} to {}",
                    step.name,
                    wanted.name,
                    serialized_name(&start)
                );
                to_finding(
                    start == wanted.start,
                    ConditionReason::at(&step.place, words),
                )
            }
            None => {
                let words = format!("no step sets the start of the service {}", wanted.name);
                ConditionFinding::NotMet(ConditionReason::without_place(words))
            }
        }
    }

    pub fn evaluate_files(&self, paths: &[GuestPath]) -> ConditionFinding {
        let mut sides: Vec<ConditionReason> = Vec::new();
        for (step, check) in self.iter_checks() {
            if let ImageCheck::File { path, .. } | ImageCheck::Exists { path } = check
                && paths.iter().any(|one| path.starts_with(one))
                && !sides
                    .iter()
                    .any(|side| side.place.as_ref() == Some(&step.place))
            {
                let words = format!("step `{}` writes {path}", step.name);
                sides.push(ConditionReason::at(&step.place, words));
            }
        }
        let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
        find_any(sides, || format!("no step writes {}", paths.join(" or ")))
    }

    pub fn evaluate_setting(&self, wanted: &FileSetting) -> ConditionFinding {
        let written = self
            .recipe
            .steps
            .iter()
            .rev()
            .filter(|step| step.skipped.is_none())
            .find_map(|step| match &step.verb {
                Verb::File(file) if file.path.value == wanted.file => {
                    Some((&file.path.place, &file.content))
                }
                _ => None,
            });
        let Some((place, content)) = written else {
            return ConditionFinding::Unknown;
        };
        let value = content.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == wanted.key).then(|| value.trim())
        });
        let Some(value) = value else {
            let words = format!("the file has no `{}`", wanted.key);
            return ConditionFinding::NotMet(ConditionReason::at(place, words));
        };
        let lower = value.to_lowercase();
        let has = wanted
            .has
            .iter()
            .any(|one| lower.contains(&one.to_lowercase()));
        let shown: String = value.chars().take(LONGEST).collect();
        let more = if shown.len() < value.len() { "…" } else { "" };
        let words = format!("the file has `{}={shown}{more}`", wanted.key);
        to_finding(has, ConditionReason::at(place, words))
    }
}

/// Returns true if a port or range, `3389` or `30000-32767`, contains the port.
fn contains_port(ports: &str, wanted: u16) -> bool {
    match ports.split_once('-') {
        Some((first, last)) => parse_port(first)
            .zip(parse_port(last))
            .is_some_and(|(first, last)| (first..=last).contains(&wanted)),
        None => parse_port(ports) == Some(wanted),
    }
}

fn parse_port(text: &str) -> Option<u16> {
    text.trim().parse().ok()
}

fn is_data(said: &RegistryValueData, wanted: &RegistryConditionData) -> bool {
    match (said, wanted) {
        (RegistryValueData::Dword(said), RegistryConditionData::Number(wanted)) => said == wanted,
        (RegistryValueData::Qword(said), RegistryConditionData::Number(wanted)) => {
            *said == u64::from(*wanted)
        }
        (
            RegistryValueData::Sz(said) | RegistryValueData::ExpandSz(said),
            RegistryConditionData::Text(wanted),
        ) => said.eq_ignore_ascii_case(wanted),
        (RegistryValueData::MultiSz(said), RegistryConditionData::Text(wanted)) => {
            said.iter().any(|one| one.eq_ignore_ascii_case(wanted))
        }
        _ => false,
    }
}
