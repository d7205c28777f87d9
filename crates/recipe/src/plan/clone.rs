//! What must hold on a clone, as checks that are judged on its disk after the first boot. Pure; runs nothing in the guest.
//!
//! Refuses what can hold on no disk. Two checks that contradict each other are no mistake: the later one stands, so that a
//! recipe can say otherwise than a pack.

use super::check::{self, Planned};
use super::expect::service_key;
use super::{reg, step};
use crate::recipe::verb::UserState;
use crate::recipe::{Claim, Recipe, RegistryData};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::Place;

/// One `[[clone]]` of the recipe.
#[derive(Clone, Debug)]
pub struct CloneCheck {
    pub place: Place,
    /// What the node needs it for.
    pub why: String,
    /// The names of the targets whose clones it speaks of; empty: all.
    pub targets: Vec<String>,
    /// The `when` that turned it off.
    pub skipped: Option<String>,
    /// The variables without a value that it names.
    pub undecided: Vec<String>,
    /// Absent where it is not decided.
    pub check: Option<Planned>,
}

pub(super) fn checks(recipe: &Recipe, complaints: &mut Diagnostics) -> Vec<CloneCheck> {
    let mut checks = Vec::new();
    for written in &recipe.clone_checks {
        let undecided = match &written.claim {
            Claim::Undecided { variables } if written.skipped.is_none() => variables.clone(),
            _ => Vec::new(),
        };
        if written.skipped.is_none()
            && let Some(complaint) = impossible(&written.claim)
        {
            complaints.push(complaint);
        }
        checks.push(CloneCheck {
            place: written.place.clone(),
            why: written.why.clone(),
            targets: written.targets.clone(),
            skipped: written.skipped.clone(),
            undecided,
            check: planned(&written.claim),
        });
    }
    checks
}

/// What no registry can have.
fn impossible(claim: &Claim) -> Option<Diagnostic> {
    let Claim::Registry { key, value, data } = claim else {
        return None;
    };
    let is_hive = key.value.subkey().is_empty();
    let fact = match reg::check(data) {
        Err(why) => format!("a clone check: {why}"),
        Ok(()) if is_hive && value.is_none() && *data == RegistryData::Absent => {
            "a clone check: every Windows has this hive".to_owned()
        }
        Ok(()) => return None,
    };
    Some(Diagnostic::error(fact).at(&key.place, ""))
}

fn planned(claim: &Claim) -> Option<Planned> {
    Some(match claim.clone() {
        Claim::Undecided { .. } => return None,
        Claim::Exists(path) => Planned::Exists { path },
        Claim::Missing(path) => Planned::Missing { path },
        Claim::Registry { key, value, data } => Planned::Registry {
            key: key.value,
            value,
            data,
        },
        Claim::Service {
            name,
            start,
            may_fail,
            present: true,
        } => Planned::Service(check::Service {
            name,
            start,
            may_fail,
            ..check::Service::default()
        }),
        Claim::Service {
            name,
            present: false,
            ..
        } => Planned::Registry {
            key: service_key(&name),
            value: None,
            data: RegistryData::Absent,
        },
        Claim::Firewall(rule) => Planned::Firewall(step::firewall_rule(&rule)),
        Claim::User { name, state } => Planned::User {
            name,
            present: state != UserState::Absent,
            disabled: state == UserState::Disabled,
        },
        Claim::Group {
            name,
            present,
            members,
        } => Planned::Group {
            name,
            present,
            members,
        },
    })
}
