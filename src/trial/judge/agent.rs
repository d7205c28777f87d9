//! Judges the agent, the program that reads the metadata.

use super::{ExpectedClone, MetadataAgent, user_data};
use crate::trial::state::{AgentLog, CloneState, CloudbaseInitState, RunEnd};
use crate::verify::{FindingSeverity, Verdict, VerifyFinding, VerifyReport};

const CONFIGURATION: &str =
    r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\conf\cloudbase-init.conf";

/// Judges the agent. `identity`: the findings about the clone's name and users. If there are
/// errors, the agent's errors are added to the first one, because they are the reason or have the
/// same one.
pub fn judge(
    state: &CloneState,
    expected: &ExpectedClone,
    identity: &mut VerifyReport,
    report: &mut VerifyReport,
) {
    let agent = expected.agent.find_installed(state);
    let ended = match agent {
        MetadataAgent::None => return,
        MetadataAgent::Other(_) | MetadataAgent::CloudbaseInit => has_ended(state, agent),
    };
    let has_ended = ended.is_ok();
    report.add(ended, None);
    let (MetadataAgent::CloudbaseInit, Ok(Some(found))) = (agent, state.cloudbase_init.get(""))
    else {
        return;
    };
    if let Some(log) = found.service.as_ref().filter(|_| has_ended) {
        let error = identity
            .findings
            .iter_mut()
            .find(|finding| finding.severity == FindingSeverity::Error);
        match (judge_errors(log), error) {
            (Err(errors), Some(finding)) => finding.problem.lines.extend(errors.problem.lines),
            (errors, _) => report.add(errors, None),
        }
        if expected.has_user_data {
            user_data::judge(found, log, expected, report);
        }
    }
    if let Some(log) = &found.first_pass {
        report.add(first_pass(log), None);
    }
}

/// Returns true if failed plugins of cloudbase-init run again at the next boot.
pub fn will_run_again(state: &CloneState) -> bool {
    let Ok(Some(found)) = state.cloudbase_init.get("") else {
        return false;
    };
    let last = found.service.as_ref().and_then(|log| log.runs.last());
    last.is_some_and(|run| !run.errors.is_empty())
}

/// Explains that cloudbase-init's service restarted the clone during Setup, if it did, with a fix.
pub fn explain_restart(state: &CloneState) -> Option<(String, &'static str)> {
    let Ok(Some(found)) = state.cloudbase_init.get("") else {
        return None;
    };
    let log = found.service.as_ref()?;
    let has_restarted = log.runs.iter().any(|run| run.end == RunEnd::Restart);
    has_restarted.then(|| {
        (
            format!(
                "likely: cloudbase-init's service ran during Setup and restarted the clone: {}",
                log.path
            ),
            "set cloudbase-init's service to start on demand in the image: SetupComplete.cmd \
             starts it (packs/cloudbase-init.toml)",
        )
    })
}

/// Judges if the agent's last run finished and found metadata.
pub fn has_ended(state: &CloneState, agent: &MetadataAgent) -> Verdict {
    match agent {
        MetadataAgent::None => Ok(()),
        MetadataAgent::Other(name) => Err(VerifyFinding::unknown(format!(
            "whether {name} has finished: its traces are unknown"
        ))),
        MetadataAgent::CloudbaseInit => {
            let what = "whether cloudbase-init has finished";
            state.cloudbase_init.judge(what, |found| match found {
                Some(found) => cloudbase_init(found),
                None => {
                    let fact =
                        "the image has no cloudbase-init, so nothing reads the clone's metadata";
                    Err(VerifyFinding::warning(fact).expected(CONFIGURATION).cure(
                        "include packs/cloudbase-init.toml, or try the image as a target without \
                         an agent",
                    ))
                }
            })
        }
    }
}

fn cloudbase_init(found: &CloudbaseInitState) -> Verdict {
    let Some(log) = &found.service else {
        return Err(VerifyFinding::error("cloudbase-init has not run on the clone")
            .expected("a log of its service")
            .cure(
                "check what starts its service on a clone: a command in the answer file, or its \
                 start type",
            ));
    };
    let end = log.runs.last().map(|run| run.end).unwrap_or_default();
    let (fact, cure) = match end {
        RunEnd::Done => return judge_metadata(log),
        RunEnd::Restart => (
            "cloudbase-init requested a restart and has not run since",
            "check what starts its service after a restart",
        ),
        RunEnd::Open => (
            "cloudbase-init has not finished on the clone",
            "see its log: it is waiting for something, or was stopped",
        ),
    };
    let errors = log.runs.last().map(|run| &run.errors);
    let lines = errors.filter(|e| !e.is_empty()).unwrap_or(&log.last);
    Err(VerifyFinding::error(fact)
        .expected(format!("\"Plugins execution done\" in {}", log.path))
        .lines(lines)
        .cure(cure))
}

fn judge_metadata(log: &AgentLog) -> Verdict {
    match log.runs.last().and_then(|run| run.metadata.as_ref()) {
        Some(_) => Ok(()),
        None => Err(VerifyFinding::error("cloudbase-init found no metadata")
            .lines(log.runs.last().into_iter().flat_map(|run| &run.errors))
            .cure(format!(
                "check `metadata_services` in {CONFIGURATION}: one of them has to support the \
                 target's metadata (docs/try.md)"
            ))),
    }
}

/// Judges the agent's errors. A failed plugin runs again at the next boot, so earlier errors are
/// only warnings.
fn judge_errors(log: &AgentLog) -> Verdict {
    let Some((last, before)) = log.runs.split_last() else {
        return Ok(());
    };
    let place = format!("see {}", log.path);
    if !last.errors.is_empty() {
        return Err(VerifyFinding::error("cloudbase-init reports errors")
            .lines(&last.errors)
            .cure(place));
    }
    let earlier: Vec<&String> = before.iter().flat_map(|run| &run.errors).collect();
    if earlier.is_empty() {
        Ok(())
    } else {
        Err(
            VerifyFinding::warning("cloudbase-init reported errors before its last run")
                .lines(earlier)
                .cure(place),
        )
    }
}

/// Judges the run in Setup's specialize pass. Faults are only warnings, because the service repeats
/// all of it.
fn first_pass(log: &AgentLog) -> Verdict {
    let is_open = log.runs.iter().any(|run| run.end == RunEnd::Open);
    let errors: Vec<&String> = log.runs.iter().flat_map(|run| &run.errors).collect();
    match (is_open, errors.is_empty()) {
        (false, true) => Ok(()),
        (true, true) => Err(VerifyFinding::warning(
            "cloudbase-init has not finished in Setup's specialize pass",
        )
        .lines(&log.last)),
        (_, false) => Err(VerifyFinding::warning(
            "cloudbase-init reports errors in Setup's specialize pass",
        )
        .lines(errors)),
    }
}
