//! Judges the services of a clone that failed to start.

use super::super::state::{CloneState, ServiceFailure, ServiceStartType};
use super::ExpectedClone;
use crate::verify::{Verdict, VerifyFinding, VerifyReport};

/// Judges the services' failures (Microsoft: CreateService, start types).
pub(super) fn judge_services(
    state: &CloneState,
    expected: &ExpectedClone,
    report: &mut VerifyReport,
) {
    let failures = match state
        .failed_services
        .get("whether services failed: the System log")
    {
        Ok(failures) => failures,
        Err(finding) => return report.add(Err(finding), None),
    };
    let mut named: Vec<&str> = Vec::new();
    for failure in failures {
        let name = failure.key.as_deref().unwrap_or(&failure.service);
        let mut excused = expected.may_fail.iter();
        if !named.contains(&name) && !excused.any(|service| service.eq_ignore_ascii_case(name)) {
            named.push(name);
            let all = failures.iter().filter(|f| f.service == failure.service);
            report.add(judge_service(name, &all.collect::<Vec<_>>()), None);
        }
    }
    if named.is_empty() {
        report.add(Ok(()), None);
    }
}

/// Judges a failed service. Only a service that Windows starts automatically has to run: others may
/// fail until they are needed. Failures before the last boot are warnings, because they may be
/// resolved.
fn judge_service(name: &str, all: &[&ServiceFailure]) -> Verdict {
    let fact = format!("the service {name} failed on the clone");
    let is_error = all.iter().any(|failure| match failure.starts {
        Some(
            ServiceStartType::Boot
            | ServiceStartType::System
            | ServiceStartType::Auto
            | ServiceStartType::DelayedAuto,
        ) => failure.since_last_start,
        Some(ServiceStartType::Demand | ServiceStartType::Disabled) | None => false,
    });
    let finding = if is_error {
        VerifyFinding::error(fact)
    } else {
        VerifyFinding::warning(fact)
    };
    let lines = all.iter().map(|failure| {
        let when = if failure.since_last_start {
            "event"
        } else {
            "before the last boot: event"
        };
        let mut words = vec![format!("{when} {}", failure.event), failure.service.clone()];
        words.extend(failure.details.iter().cloned());
        words.join(": ")
    });
    Err(finding.lines(lines).cure(
        "see the service's own log, and check if it depends on something that this clone lacks",
    ))
}
