//! What the steps and the seal leave in the image that a condition is about.

use super::super::PlannedStep;
use super::super::check::{Check, Planned};
use super::super::words::shown_data;

use super::facts::{Facts, Finding, Side, decided, is_all, is_any};
use super::seal::local_accounts;
use crate::recipe::target::{Administrator, Data, Service, Setting, Value, word};
use crate::recipe::{GuestPath, RegistryData, Verb};
use winimg_base::io;

/// Of a setting's value, in characters.
const LONGEST: usize = 100;

impl<'a> Facts<'a> {
    /// What the steps leave, each with the step's place and name.
    fn left(&self) -> impl Iterator<Item = (&'a PlannedStep, &'a Planned)> {
        let steps = self.steps.iter();
        steps.flat_map(|step| step.expects.iter().map(move |check| (step, check)))
    }

    pub fn feature(&self, names: &[String]) -> Finding {
        let mut sides: Vec<Side> = Vec::new();
        for (step, check) in self.left() {
            if let Check::Feature {
                name,
                enabled: true,
            } = check
                && names.iter().any(|one| one.eq_ignore_ascii_case(name))
                && !sides
                    .iter()
                    .any(|side| side.place.as_ref() == Some(&step.place))
            {
                let words = format!("step `{}` enables {name}", step.name);
                sides.push(Side::at(&step.place, words));
            }
        }
        is_any(sides, || format!("no step enables {}", names.join(" or ")))
    }

    pub fn answer_file(&self, wanted: bool) -> Finding {
        match &self.seal {
            Some(seal) => {
                let words = match seal.is_answered {
                    true => "sysprep is given an answer file",
                    false => "sysprep is given no answer file",
                };
                decided(seal.is_answered == wanted, Side::at(&seal.place, words))
            }
            None => Finding::Unknown,
        }
    }

    pub fn command(&self, all: &[String]) -> Finding {
        let Some(seal) = &self.seal else {
            return Finding::Unknown;
        };
        let has = |command: &&String| {
            let command = command.to_lowercase();
            all.iter().any(|one| command.contains(&one.to_lowercase()))
        };
        let side =
            |command: &String| Side::at(&seal.place, format!("the answer file runs `{command}`"));
        let sides = seal.commands.iter().filter(has).map(side).collect();
        is_any(sides, || format!("no command has {}", all.join(" or ")))
    }

    pub fn administrator(&self, wanted: Administrator) -> Finding {
        let Some(seal) = &self.seal else {
            // Without sysprep the account stays as the build used it.
            return Finding::Unknown;
        };
        let by_step = self.left().find_map(|(step, check)| match check {
            Check::User {
                name,
                present: true,
                disabled,
            } if name.eq_ignore_ascii_case("Administrator") => {
                let does = if *disabled { "disables" } else { "keeps" };
                let words = format!("step `{}` {does} the account", step.name);
                Some((*disabled, Side::at(&step.place, words)))
            }
            _ => None,
        });
        // Setup of the clone has the last word.
        let (is_disabled, side) = match (seal.administrator(), by_step) {
            (Some(Administrator::Disabled), _) => (
                true,
                Side::at(&seal.place, "its answer file disables the account"),
            ),
            (Some(Administrator::Enabled), _) => (
                false,
                Side::at(&seal.place, "its answer file enables the account"),
            ),
            (None, Some(said)) => said,
            // The platform's own answer file does as it likes.
            (None, None) if !seal.is_answered => return Finding::Unknown,
            (None, None) => (false, Side::at(&seal.place, "nothing disables the account")),
        };
        decided(is_disabled == (wanted == Administrator::Disabled), side)
    }

    pub fn users(&self, names: &[String]) -> Finding {
        let by_setup = self.accounts_of_setup();
        let is_there = |wanted: &String| {
            by_setup
                .iter()
                .any(|name| name.eq_ignore_ascii_case(wanted))
                || self.left().any(|(_, check)| {
                    matches!(check, Check::User { name, present: true, disabled: false }
                    if name.eq_ignore_ascii_case(wanted))
                })
        };
        is_all(names, is_there, |missing| {
            format!("no step makes the account {}", missing.join(" and "))
        })
    }

    /// The accounts that the recipe's own answer file for Setup makes. One that cannot be read has complaints of its own.
    fn accounts_of_setup(&self) -> Vec<String> {
        let file = self.recipe.setup.answer_file.as_ref();
        let text =
            file.and_then(|file| io::read_xml_limited(&file.value, io::limit::ANSWER_FILE).ok());
        text.map(|text| local_accounts(&text)).unwrap_or_default()
    }

    pub fn ports(&self, ports: &[u16]) -> Finding {
        let lets_in = |wanted: &u16| {
            self.left().any(|(_, check)| {
                let Check::Firewall(rule) = check else {
                    return false;
                };
                // 6 is TCP (IANA: protocol numbers).
                let is_tcp = rule.protocol.is_none_or(|protocol| protocol == 6);
                let has = rule.ports.is_empty() || rule.ports.iter().any(|p| holds(p, *wanted));
                rule.present && rule.inbound && rule.allow && is_tcp && has
            })
        };
        is_all(ports, lets_in, |closed| {
            format!("no firewall rule opens TCP {}", closed.join(" and "))
        })
    }

    pub fn registry(&self, wanted: &Value) -> Finding {
        let said = self.left().find_map(|(step, check)| match check {
            // That a value is gone is said of what the build set, too.
            Check::Registry { key, value, data }
                if *key == wanted.key && *data != RegistryData::Absent =>
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
                decided(is_data(data, &wanted.data), Side::at(&step.place, words))
            }
            None => Finding::Not(Side::nowhere(format!(
                "no `registry` step sets {} to {}",
                wanted.name,
                wanted.data.words()
            ))),
        }
    }

    pub fn service(&self, wanted: &Service) -> Finding {
        let said = self.left().find_map(|(step, check)| match check {
            Check::Service(service) if service.name.eq_ignore_ascii_case(&wanted.name) => {
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
                    word(&start)
                );
                decided(start == wanted.start, Side::at(&step.place, words))
            }
            None => {
                let words = format!("no step sets the start of the service {}", wanted.name);
                Finding::Not(Side::nowhere(words))
            }
        }
    }

    pub fn files(&self, paths: &[GuestPath]) -> Finding {
        let mut sides: Vec<Side> = Vec::new();
        for (step, check) in self.left() {
            if let Check::File { path, .. } | Check::Exists { path } = check
                && paths.iter().any(|one| path.starts_with(one))
                && !sides
                    .iter()
                    .any(|side| side.place.as_ref() == Some(&step.place))
            {
                let words = format!("step `{}` writes {path}", step.name);
                sides.push(Side::at(&step.place, words));
            }
        }
        let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
        is_any(sides, || format!("no step writes {}", paths.join(" or ")))
    }

    pub fn setting(&self, wanted: &Setting) -> Finding {
        let steps = self.recipe.steps.iter().rev();
        let written = steps
            .filter(|step| step.skipped.is_none())
            .find_map(|step| match &step.verb {
                Verb::File { path, content, .. } if path.value == wanted.file => {
                    Some((&path.place, content))
                }
                _ => None,
            });
        let Some((place, content)) = written else {
            return Finding::Unknown;
        };
        let value = content.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == wanted.key).then(|| value.trim())
        });
        let Some(value) = value else {
            let words = format!("the file has no `{}`", wanted.key);
            return Finding::Not(Side::at(place, words));
        };
        let lower = value.to_lowercase();
        let has = wanted
            .has
            .iter()
            .any(|one| lower.contains(&one.to_lowercase()));
        let shown: String = value.chars().take(LONGEST).collect();
        let more = if shown.len() < value.len() { "…" } else { "" };
        let words = format!("the file has `{}={shown}{more}`", wanted.key);
        decided(has, Side::at(place, words))
    }
}

/// `3389`, or `30000-32767`
fn holds(ports: &str, wanted: u16) -> bool {
    let number = |text: &str| text.trim().parse::<u16>().ok();
    match ports.split_once('-') {
        Some((first, last)) => number(first)
            .zip(number(last))
            .is_some_and(|(first, last)| (first..=last).contains(&wanted)),
        None => number(ports) == Some(wanted),
    }
}

fn is_data(said: &RegistryData, wanted: &Data) -> bool {
    match (said, wanted) {
        (RegistryData::Dword(said), Data::Number(wanted)) => said == wanted,
        (RegistryData::Qword(said), Data::Number(wanted)) => *said == u64::from(*wanted),
        (RegistryData::Sz(said) | RegistryData::ExpandSz(said), Data::Text(wanted)) => {
            said.eq_ignore_ascii_case(wanted)
        }
        (RegistryData::MultiSz(said), Data::Text(wanted)) => {
            said.iter().any(|one| one.eq_ignore_ascii_case(wanted))
        }
        _ => false,
    }
}
