//! Judges a clone against the identity and settings that its platform requested.
//!
//! Pure. Judges only what the target requires; missing information is reported as unknown. The
//! packs' expectations for a clone, and files that must not be left in an image, are checked on the
//! disk (`verify::check_clone`).

mod agent;
mod login;
mod services;
mod user_data;

use winimg_recipe::plan::{self, ImageCheck, SEALED};
use winimg_recipe::target::{
    self, AdministratorState, MetadataForm, RuleDemand, TargetCondition, TargetSpec,
};

use super::metadata::CloneIdentity;
use super::state::{
    COMPLETE, CloneHostName, CloneSetup, CloneState, DiskRoom, GENERALIZED, KnownFact,
};
use crate::verify::{FindingSeverity, Verdict, VerifyFinding, VerifyReport};

/// The platform's expectations for a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedClone {
    /// The host name in the metadata, if there is one.
    pub host_name: Option<String>,
    /// The user in the metadata. `None`: the agent uses the one in its configuration.
    pub user: Option<String>,
    /// Lines of `authorized_keys`.
    pub keys: Vec<String>,
    pub agent: MetadataAgent,
    /// The platform has its own agent, which may do tasks that cloudbase-init is not configured
    /// for.
    pub has_own_agent: bool,
    /// The platform itself names the clone and turns the built-in account into its user, before any
    /// agent of the image runs.
    pub provisions: bool,
    /// `None`: the built-in account may be disabled or enabled.
    pub administrator: Option<BuiltInAccount>,
    pub has_user_data: bool,
    /// Services that cannot start before the clone is a node, according to a `[[clone]]`.
    pub may_fail: Vec<String>,
}

/// A target's requirement for the built-in account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInAccount {
    pub wanted: AdministratorState,
    pub severity: FindingSeverity,
    /// Applies only to images with cloudbase-init, which creates its own user.
    pub with_cloudbase_init: bool,
}

/// The program on the clone that reads the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataAgent {
    None,
    CloudbaseInit,
    /// An agent whose traces are unknown.
    Other(String),
}

impl ExpectedClone {
    /// Collects the expectations of `target` for a clone with `identity`, and those of the image's
    /// manifest for its services. docs/try.md lists the contents of each form.
    pub fn from_target(
        target: &TargetSpec,
        identity: &CloneIdentity,
        manifest_checks: &[plan::StepChecks],
    ) -> Self {
        let form = target.metadata.by;
        let checks = manifest_checks.iter().flat_map(|one| &one.checks);
        let names_user = match form {
            MetadataForm::OvfEnvironment
            | MetadataForm::ConfigDrive
            | MetadataForm::OpenStack
            | MetadataForm::Azure => true,
            MetadataForm::NoCloud
            | MetadataForm::NoCloudUpperCase
            | MetadataForm::Ec2
            | MetadataForm::Ec2TokensOptional
            | MetadataForm::None => false,
        };
        let has_keys = !matches!(form, MetadataForm::Azure | MetadataForm::None);
        let mut rules = target.rules.iter();
        Self {
            host_name: (form != MetadataForm::None).then(|| identity.host_name.clone()),
            user: names_user.then(|| identity.user.clone()),
            keys: if has_keys {
                identity.ssh_keys.clone()
            } else {
                Vec::new()
            },
            agent: match target.metadata.agent.as_str() {
                "none" => MetadataAgent::None,
                "cloudbase-init" => MetadataAgent::CloudbaseInit,
                other => MetadataAgent::Other(other.to_owned()),
            },
            has_own_agent: target.metadata.agent != "cloudbase-init",
            provisions: form == MetadataForm::Azure,
            administrator: rules.find_map(find_administrator_rule),
            has_user_data: !identity.user_data.is_empty(),
            may_fail: checks
                .filter_map(|check| match check {
                    ImageCheck::Service(service) if service.may_fail => Some(service.name.clone()),
                    _ => None,
                })
                .collect(),
        }
    }

    /// Reports a task that cloudbase-init is not configured for: an error, unless another agent may
    /// do it.
    fn report_not_configured(&self, fact: &str) -> Box<VerifyFinding> {
        if self.has_own_agent {
            VerifyFinding::warning(fact)
        } else {
            VerifyFinding::error(fact)
        }
    }
}

impl MetadataAgent {
    /// Returns the agent on the clone: an image may have cloudbase-init instead of the platform's
    /// own agent.
    fn find_installed<'a>(&'a self, state: &CloneState) -> &'a Self {
        match (self, &state.cloudbase_init) {
            (Self::Other(_), KnownFact::Is(Some(_))) => &Self::CloudbaseInit,
            (own, _) => own,
        }
    }
}

fn find_administrator_rule(rule: &target::TargetRule) -> Option<BuiltInAccount> {
    let wanted = match &rule.demand {
        RuleDemand::Needs(TargetCondition::Administrator(state)) => *state,
        RuleDemand::Refuses(TargetCondition::Administrator(AdministratorState::Disabled)) => {
            AdministratorState::Enabled
        }
        RuleDemand::Refuses(TargetCondition::Administrator(AdministratorState::Enabled)) => {
            AdministratorState::Disabled
        }
        RuleDemand::Needs(_) | RuleDemand::Refuses(_) => return None,
    };
    let severity = match rule.report {
        target::RuleSeverity::Refuse => FindingSeverity::Error,
        target::RuleSeverity::Warn => FindingSeverity::Warning,
    };
    Some(BuiltInAccount {
        wanted,
        severity,
        with_cloudbase_init: rule.when.is_some(),
    })
}

/// Judges a clone that came up twice and was powered off.
pub fn judge_clone(state: &CloneState, expected: &ExpectedClone) -> VerifyReport {
    let mut report = judge_identity(state, expected);
    services::judge_services(state, expected, &mut report);
    report.findings.sort_by_key(|f| f.severity);
    report
}

/// Reports faults after the first boot that will persist, because the agent has nothing left to do.
/// Returns `None` if there are none, or if failed plugins of the agent run again at the next boot.
pub fn find_permanent_faults(state: &CloneState, expected: &ExpectedClone) -> Option<VerifyReport> {
    let report = judge_identity(state, expected);
    (!report.is_good() && !agent::will_run_again(state)).then_some(report)
}

/// Judges the clone against its metadata.
fn judge_identity(state: &CloneState, expected: &ExpectedClone) -> VerifyReport {
    let mut report = VerifyReport::default();
    let agent = expected.agent.find_installed(state);
    report.add(check_setup(state), None);
    let mut identity = VerifyReport::default();
    if let Some(name) = &expected.host_name
        && *agent == MetadataAgent::CloudbaseInit
    {
        identity.add(check_host_name(state, name, expected), None);
    }
    login::judge(state, expected, &mut identity);
    agent::judge(state, expected, &mut identity, &mut report);
    report.join(identity);
    if *agent != MetadataAgent::None {
        report.add(
            state
                .disk
                .judge("whether C: extends to the end of the disk", judge_disk),
            None,
        );
    }
    report
}

/// Explains why Setup or the agent did not finish on a clone that was idle and was powered off.
/// Returns `None` if both finished, or if the agent's traces are unknown.
pub fn find_unfinished(state: &CloneState, expected: &ExpectedClone) -> Option<VerifyFinding> {
    let verdict = check_setup(state).and_then(|()| match expected.agent.find_installed(state) {
        MetadataAgent::Other(_) => Ok(()),
        agent => agent::has_ended(state, agent),
    });
    verdict.err().map(|finding| *finding)
}

/// Adds evidence from the disk to the finding about a clone that stopped. If Setup did not start on
/// the clone, the logs are the build's and are ignored.
pub fn explain_stopped(finding: Box<VerifyFinding>, state: &CloneState) -> Box<VerifyFinding> {
    let Ok(setup) = state.setup.get("") else {
        return finding;
    };
    if setup.has_ended() || setup.has_not_started() {
        return finding;
    }
    let finding = finding.lines(collect_log_ends(state));
    match agent::explain_restart(state) {
        Some((line, cure)) => finding.lines([line]).cure(cure),
        None => finding,
    }
}

fn check_setup(state: &CloneState) -> Verdict {
    let setup = state.setup.get("whether Setup has ended on the clone")?;
    if setup.setup_type == Some(0) && setup.generalization_state == Some(GENERALIZED) {
        return Err(VerifyFinding::error(
            "Setup has not run on the clone: it still has the build's identity",
        )
        .expected("a completed first boot: GeneralizationState 7")
        .found(format_values(setup))
        .cure(
            "the image was generalized but is not prepared for a first boot: `winimg verify` shows \
             what is missing from its seal",
        ));
    }
    if setup.has_ended() {
        return Ok(());
    }
    let finding = VerifyFinding::error(format!(
        "Setup has not finished on the clone: it stopped {}",
        describe_stop(setup)
    ))
    .expected(
        "ImageState IMAGE_STATE_COMPLETE, SystemSetupInProgress 0, SetupType 0, OOBEInProgress 0",
    )
    .found(format_values(setup))
    .cure(
        "see the screen, C:\\Windows\\Panther and C:\\Windows\\Panther\\UnattendGC: a failing \
         command in an answer file stops Setup, and so does a page that no answer file covers",
    );
    Err(if setup.has_not_started() {
        finding
    } else {
        finding.lines(collect_log_ends(state))
    })
}

/// Returns the errors in Setup's logs without repeats. If there are none, returns the end of the
/// log that was written last, because the others may be the build's.
fn collect_log_ends(state: &CloneState) -> Vec<String> {
    let logs = state.setup_logs.get("").map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = Vec::new();
    for log in logs {
        let errors: Vec<String> = log
            .errors
            .iter()
            .filter(|line| !lines.iter().any(|known| known.trim_start() == *line))
            .map(|l| format!("  {l}"))
            .collect();
        if !errors.is_empty() {
            lines.push(format!("{}:", log.path));
            lines.extend(errors);
        }
    }
    // Lines start with their time.
    let last = logs.iter().max_by_key(|log| log.last.last());
    if let (true, Some(log)) = (lines.is_empty(), last.filter(|log| !log.last.is_empty())) {
        lines.push(format!("{}:", log.path));
        lines.extend(log.last.iter().map(|line| format!("  {line}")));
    }
    lines
}

/// Describes the point at which Setup stopped. Source: Microsoft, Windows Setup States.
fn describe_stop(setup: &CloneSetup) -> &'static str {
    match setup.image_state.as_deref() {
        Some(SEALED) => "before its specialize pass",
        Some("IMAGE_STATE_SPECIALIZE_RESEAL_TO_OOBE") => {
            "between specialize and the out-of-box experience"
        }
        Some("IMAGE_STATE_UNDEPLOYABLE") => {
            "in its specialize pass or in the out-of-box experience"
        }
        Some(COMPLETE) => "at its end",
        _ => "at an unknown point",
    }
}

fn format_values(setup: &CloneSetup) -> String {
    let mut text = format!(
        "ImageState {}, SystemSetupInProgress {}, SetupType {}, OOBEInProgress {}",
        setup.image_state.as_deref().unwrap_or("none"),
        number_or_none(setup.system_setup_in_progress),
        number_or_none(setup.setup_type),
        number_or_none(setup.oobe_in_progress),
    );
    if let Some(line) = &setup.command_line {
        text += &format!(", CmdLine {line}");
    }
    if let Some(n) = setup.generalization_state.filter(|n| *n != 7) {
        text += &format!(", GeneralizationState {n}");
    }
    text
}

fn number_or_none(number: Option<u32>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}

/// Judges the host name. By default, cloudbase-init uses the first 15 characters of the first label
/// (`utils/hostname.py`).
fn check_host_name(state: &CloneState, wanted: &str, expected: &ExpectedClone) -> Verdict {
    let CloneHostName {
        name,
        next,
        computer,
    } = state.host_name.get("the host name")?;
    let label = wanted.split('.').next().unwrap_or_default();
    let truncated: String = label.chars().take(15).collect();
    let truncated = match truncated.strip_suffix('-') {
        Some(start) => format!("{start}0"),
        None => truncated,
    };
    let has_name = name.eq_ignore_ascii_case(label) || name.eq_ignore_ascii_case(&truncated);
    if has_name && name == next && computer.eq_ignore_ascii_case(&truncated) {
        return Ok(());
    }
    let sets_name = match &state.cloudbase_init {
        KnownFact::Is(Some(agent)) => agent.sets_host_name,
        _ => true,
    };
    let mismatch = VerifyFinding::error("the clone's host name differs from its metadata");
    let finding = if sets_name {
        mismatch.cure(
            "see the agent's log: SetHostNamePlugin sets the name, which takes effect at the next \
             boot",
        )
    } else if expected.provisions {
        mismatch.cure(
            "the platform's answer file has the name: check if an answer file in the image takes \
             precedence, or if something renames the clone",
        )
    } else {
        expected
            .report_not_configured(
                "cloudbase-init is not configured to set the host name from the metadata",
            )
            .cure("add SetHostNamePlugin to `plugins` of cloudbase-init.conf")
    };
    let mut found = name.clone();
    if next != name {
        found += &format!(", and {next} after the next boot");
    }
    if !computer.eq_ignore_ascii_case(&next.chars().take(15).collect::<String>()) {
        found += &format!(", and the computer name {computer}");
    }
    Err(finding.expected(wanted).found(found))
}

/// Space that Windows leaves after a partition that it extends: alignment, and the backup partition
/// table.
const SLACK: u64 = 2 << 20;

fn judge_disk(room: &DiskRoom) -> Verdict {
    let fills_partition = room.partition.saturating_sub(room.volume) <= SLACK;
    if room.partitions_behind == 0 && room.behind <= SLACK && fills_partition {
        return Ok(());
    }
    let (disk, partition) = (room.disk >> 20, room.partition >> 20);
    let finding = VerifyFinding::error("C: does not extend to the end of the disk")
        .expected(format!("a disk of {disk} MiB with nothing after C:"));
    Err(match (room.partitions_behind, room.behind <= SLACK) {
        (1.., _) => finding
            .found(format!("partitions after it: {}", room.partitions_behind))
            .cure(
                "a partition after C: prevents extending it: create it in front of C:, or remove \
                 it before the image is sealed",
            ),
        (0, false) => finding
            .found(format!(
                "a partition of {partition} MiB and {} MiB after it",
                room.behind >> 20
            ))
            .cure(
                "let the agent extend it: ExtendVolumesPlugin of cloudbase-init, or \
                 ExtendOSPartition in the answer file",
            ),
        (0, true) => finding
            .found(format!(
                "a partition of {partition} MiB with a volume of {} MiB",
                room.volume >> 20
            ))
            .cure("the partition was extended, but not its volume: see the agent's log"),
    })
}
