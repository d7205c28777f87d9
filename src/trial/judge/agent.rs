//! Whether the program that reads the metadata has done its work.

use super::{Agent, Expected, user_data};
use crate::trial::state::{AgentLog, AgentRun, CloneState, CloudbaseInit, RunEnd};
use crate::verify::{Finding, Report, Severity, Verdict};

const CONFIGURATION: &str =
    r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\conf\cloudbase-init.conf";

/// `identity`: what was found of the clone's name and of its users. Where something is wrong with them the agent's errors are the
/// reason, or follow from the same.
pub fn judge(state: &CloneState, expected: &Expected, identity: &mut Report, report: &mut Report) {
    let agent = expected.agent.on(state);
    let ended = match agent {
        Agent::None => return,
        Agent::Other(_) | Agent::CloudbaseInit => has_ended(state, agent),
    };
    let has_ended = ended.is_ok();
    report.add(ended, None);
    let (Agent::CloudbaseInit, Ok(Some(found))) = (agent, state.cloudbase_init.get("")) else {
        return;
    };
    if let Some(log) = found.service.as_ref().filter(|_| has_ended) {
        let error = |f: &&mut Finding| f.severity == Severity::Error;
        match (errors(log), identity.findings.iter_mut().find(error)) {
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

/// The next start runs plugins of cloudbase-init again, those that failed.
pub fn has_another_turn(state: &CloneState) -> bool {
    let Ok(Some(found)) = state.cloudbase_init.get("") else {
        return false;
    };
    let last = found.service.as_ref().and_then(|log| log.runs.last());
    last.is_some_and(|run| !run.errors.is_empty())
}

/// That cloudbase-init's service restarted the clone while Setup was at work, and what keeps it from that.
pub fn restarted(state: &CloneState) -> Option<(String, &'static str)> {
    let Ok(Some(found)) = state.cloudbase_init.get("") else {
        return None;
    };
    let log = found.service.as_ref()?;
    let restarted = |run: &AgentRun| run.end == RunEnd::Restart;
    log.runs.iter().any(restarted).then(|| {
        (
            format!("likely: cloudbase-init's service ran while Setup did, and restarted the clone: {}", log.path),
            "cloudbase-init's service has to start on demand in the image: SetupComplete.cmd starts it (packs/cloudbase-init.toml)",
        )
    })
}

/// The agent's last run went to its end, and had metadata.
pub fn has_ended(state: &CloneState, agent: &Agent) -> Verdict {
    match agent {
        Agent::None => Ok(()),
        Agent::Other(name) => Err(Finding::unknown(format!(
            "whether {name} has done its work: what it leaves behind is not known"
        ))),
        Agent::CloudbaseInit => {
            let what = "whether cloudbase-init has done its work";
            state.cloudbase_init.judge(what, |found| match found {
                Some(found) => cloudbase_init(found),
                None => Err(Finding::warning("the image has no cloudbase-init, so nothing reads the clone's metadata")
                    .expected(CONFIGURATION)
                    .cure("include packs/cloudbase-init.toml, or try the image as a target without an agent")),
            })
        }
    }
}

fn cloudbase_init(found: &CloudbaseInit) -> Verdict {
    let Some(log) = &found.service else {
        return Err(Finding::error("cloudbase-init has not run on the clone")
            .expected("a log of its service")
            .cure("see what starts its service on a clone: a command of the answer file, or its start type"));
    };
    let end = log.runs.last().map(|run| run.end).unwrap_or_default();
    let (fact, cure) = match end {
        RunEnd::Done => return metadata(log),
        RunEnd::Restart => (
            "cloudbase-init asked for a restart and has not run since",
            "see what starts its service after a restart",
        ),
        RunEnd::Open => (
            "cloudbase-init has not come to its end on the clone",
            "see its log: it waits for something, or was stopped",
        ),
    };
    let errors = log.runs.last().map(|run| &run.errors);
    let lines = errors.filter(|e| !e.is_empty()).unwrap_or(&log.last);
    Err(Finding::error(fact)
        .expected(format!("\"Plugins execution done\" in {}", log.path))
        .lines(lines)
        .cure(cure))
}

fn metadata(log: &AgentLog) -> Verdict {
    match log.runs.last().and_then(|run| run.metadata.as_ref()) {
        Some(_) => Ok(()),
        None => Err(Finding::error("cloudbase-init found no metadata")
            .lines(log.runs.last().into_iter().flat_map(|run| &run.errors))
            .cure(format!(
                "see `metadata_services` of {CONFIGURATION}: one of them has to read what the target gives (docs/try.md)"
            ))),
    }
}

/// A plugin that fails has another turn at the next start: what failed once and not again is doubtful.
fn errors(log: &AgentLog) -> Verdict {
    let Some((last, before)) = log.runs.split_last() else {
        return Ok(());
    };
    let place = format!("see {}", log.path);
    if !last.errors.is_empty() {
        return Err(Finding::error("cloudbase-init reports errors")
            .lines(&last.errors)
            .cure(place));
    }
    let earlier: Vec<&String> = before.iter().flat_map(|run| &run.errors).collect();
    match earlier.is_empty() {
        true => Ok(()),
        false => Err(
            Finding::warning("cloudbase-init reported errors before its last run")
                .lines(earlier)
                .cure(place),
        ),
    }
}

/// What it does there it does again under its service, so it stops nobody.
fn first_pass(log: &AgentLog) -> Verdict {
    let open = |run: &&AgentRun| run.end == RunEnd::Open;
    let errors: Vec<&String> = log.runs.iter().flat_map(|run| &run.errors).collect();
    match (log.runs.iter().find(open), errors.is_empty()) {
        (None, true) => Ok(()),
        (Some(_), true) => Err(Finding::warning(
            "cloudbase-init has not come to its end in Setup's specialize pass",
        )
        .lines(&log.last)),
        (_, false) => Err(Finding::warning(
            "cloudbase-init reports errors in Setup's specialize pass",
        )
        .lines(errors)),
    }
}
