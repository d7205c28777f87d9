//! Checks of a host for builds with Hyper-V.

use super::HyperVHypervisor;
use super::probe::{HostNeed, HostReport};
use crate::host::{CheckState, CheckTopic, HostCheck, HostProblem};
use crate::vm::HostInspection;

const TOPIC: CheckTopic = CheckTopic::HyperV;

pub fn inspect_host(wanted: &HostInspection<'_>) -> Vec<HostCheck> {
    let report =
        HyperVHypervisor::find().and_then(|found| found.inspect_host(wanted.accel, wanted.cancel));
    match report {
        Ok(report) => check_report(report),
        Err(error) => {
            vec![HostProblem::from(&error).to_check(TOPIC, CheckState::Missing, "Hyper-V")]
        }
    }
}

/// Returns the host, the requirements that it meets, then the missing ones.
pub fn check_report(report: HostReport) -> Vec<HostCheck> {
    let host = HostCheck::good(TOPIC, report.host).with_remarks(report.remarks);
    let (mut checks, mut missing) = (vec![host], Vec::new());
    for need in report.needs {
        match need {
            HostNeed::Has(what) => checks.push(HostCheck::good(TOPIC, what)),
            HostNeed::Lacks { what, cure } => {
                missing.push(HostCheck::new(TOPIC, CheckState::Missing, what).with_cure(cure));
            }
        }
    }
    checks.extend(missing);
    checks
}
