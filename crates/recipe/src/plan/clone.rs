//! Checks of a clone, evaluated on its disk after the first boot. Pure; runs nothing in the guest.
//!
//! Refuses checks that no disk can pass. Two checks may contradict each other: the later one wins,
//! so that a recipe can override a pack.

use super::check::{self, PlannedCheck, service_key};
use crate::ops::reg;
use crate::verbs::{RegistrySpec, UserState, firewall};
use crate::{CloneClaim, Recipe, RegistryValueData};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::Place;

/// One `[[clone]]` of the recipe.
#[derive(Clone, Debug)]
pub struct PlannedCloneCheck {
    pub place: Place,
    /// The reason the node needs it.
    pub why: String,
    /// Names of the targets whose clones are checked; empty: all.
    pub targets: Vec<String>,
    /// The `when` that disabled it.
    pub skipped: Option<String>,
    /// Variables in it that have no value.
    pub undecided: Vec<String>,
    /// `None` while it is undecided.
    pub check: Option<PlannedCheck>,
}

pub(super) fn plan_clone_checks(
    recipe: &Recipe,
    complaints: &mut Diagnostics,
) -> Vec<PlannedCloneCheck> {
    let mut checks = Vec::new();
    for written in &recipe.clone_checks {
        let undecided = match &written.claim {
            CloneClaim::Undecided { variables } if written.skipped.is_none() => variables.clone(),
            _ => Vec::new(),
        };
        if written.skipped.is_none()
            && let Some(complaint) = refuse_impossible(&written.claim)
        {
            complaints.push(complaint);
        }
        checks.push(PlannedCloneCheck {
            place: written.place.clone(),
            why: written.why.clone(),
            targets: written.targets.clone(),
            skipped: written.skipped.clone(),
            undecided,
            check: plan_claim(&written.claim),
        });
    }
    checks
}

/// Returns an error for a registry check that can never pass or never fail.
fn refuse_impossible(claim: &CloneClaim) -> Option<Diagnostic> {
    let CloneClaim::Registry(RegistrySpec { key, value, data }) = claim else {
        return None;
    };
    let is_hive = key.value.subkey().is_empty();
    let fact = match reg::check(data) {
        Err(why) => format!("a clone check: {why}"),
        Ok(()) if is_hive && value.is_none() && *data == RegistryValueData::Absent => {
            "a clone check: every Windows has this hive".to_owned()
        }
        Ok(()) => return None,
    };
    Some(Diagnostic::error(fact).at(&key.place, ""))
}

fn plan_claim(claim: &CloneClaim) -> Option<PlannedCheck> {
    Some(match claim.clone() {
        CloneClaim::Undecided { .. } => return None,
        CloneClaim::Exists(path) => PlannedCheck::Exists { path },
        CloneClaim::Missing(path) => PlannedCheck::Missing { path },
        CloneClaim::Registry(RegistrySpec { key, value, data }) => PlannedCheck::Registry {
            key: key.value,
            value,
            data,
        },
        CloneClaim::Service {
            name,
            start,
            may_fail,
            present: true,
        } => PlannedCheck::Service(check::ServiceCheck {
            name,
            start,
            may_fail,
            ..check::ServiceCheck::default()
        }),
        CloneClaim::Service {
            name,
            present: false,
            ..
        } => PlannedCheck::Registry {
            key: service_key(&name),
            value: None,
            data: RegistryValueData::Absent,
        },
        CloneClaim::Firewall(rule) => PlannedCheck::Firewall(firewall::build_check(&rule)),
        CloneClaim::User { name, state } => PlannedCheck::User {
            name,
            present: state != UserState::Absent,
            disabled: state == UserState::Disabled,
        },
        CloneClaim::Group {
            name,
            present,
            members,
        } => PlannedCheck::Group {
            name,
            present,
            members,
        },
    })
}
