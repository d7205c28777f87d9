//! Whether a clone is the machine that its platform asked for.
//!
//! Pure. What the target does not ask for is not judged; what is not known is unknown. What the packs promise of a clone and
//! what must not be left in an image are judged from the disk (`verify::check_clone`).

mod agent;
mod login;
mod user_data;

use winimg_recipe::plan::{self, Check, SEALED};
use winimg_recipe::recipe::target::{self, Administrator, Condition, Demand, Form, Target};

use super::metadata::Identity;
use super::state::{
    COMPLETE, CloneState, DiskRoom, GENERALIZED, HostName, Known, ServiceFailure, Setup, Starts,
};
use crate::verify::{Finding, Report, Severity, Verdict};

/// What a clone's platform asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// As the metadata says it. `None`: it says none.
    pub host_name: Option<String>,
    /// As the metadata says it. `None`: the agent takes the one of its configuration.
    pub user: Option<String>,
    /// Lines of `authorized_keys`.
    pub keys: Vec<String>,
    pub agent: Agent,
    /// The platform has an agent of its own, which may do what cloudbase-init is not set up to do.
    pub has_own_agent: bool,
    /// The platform itself names the clone and makes the built-in account its user, before any agent of the image runs.
    pub provisions: bool,
    /// `None`: the built-in account may be disabled or enabled.
    pub administrator: Option<BuiltIn>,
    pub has_user_data: bool,
    /// Services that cannot start before the clone has become a node: a `[[clone]]` says so.
    pub may_fail: Vec<String>,
}

/// What a target wants of the built-in account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    pub wanted: Administrator,
    pub severity: Severity,
    /// It counts only for images with cloudbase-init, which makes a user of its own.
    pub with_cloudbase_init: bool,
}

/// The program on the clone that reads the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agent {
    None,
    CloudbaseInit,
    /// One whose traces are not known.
    Other(String),
}

impl Expected {
    /// What `target` asks of a clone that is given `identity`, and what the image's manifest promises of its services. docs/try.md
    /// says what each form has a place for.
    pub fn of(target: &Target, identity: &Identity, promised: &[plan::Expected]) -> Self {
        let form = target.metadata.by;
        let checks = promised.iter().flat_map(|one| &one.checks);
        let names_user = match form {
            Form::OvfEnvironment | Form::ConfigDrive | Form::OpenStack | Form::Azure => true,
            Form::NoCloud
            | Form::NoCloudUpperCase
            | Form::Ec2
            | Form::Ec2TokensOptional
            | Form::None => false,
        };
        let has_keys = !matches!(form, Form::Azure | Form::None);
        let mut rules = target.rules.iter();
        Self {
            host_name: (form != Form::None).then(|| identity.host_name.clone()),
            user: names_user.then(|| identity.user.clone()),
            keys: match has_keys {
                true => identity.ssh_keys.clone(),
                false => Vec::new(),
            },
            agent: match target.metadata.agent.as_str() {
                "none" => Agent::None,
                "cloudbase-init" => Agent::CloudbaseInit,
                other => Agent::Other(other.to_owned()),
            },
            has_own_agent: target.metadata.agent != "cloudbase-init",
            provisions: form == Form::Azure,
            administrator: rules.find_map(administrator_of),
            has_user_data: !identity.user_data.is_empty(),
            may_fail: checks
                .filter_map(|check| match check {
                    Check::Service(service) if service.may_fail => Some(service.name.clone()),
                    _ => None,
                })
                .collect(),
        }
    }

    /// What cloudbase-init is not set up to do: a fault where nobody else does it.
    fn left_out(&self, fact: &str) -> Box<Finding> {
        match self.has_own_agent {
            true => Finding::warning(fact),
            false => Finding::error(fact),
        }
    }
}

impl Agent {
    /// An image may bring cloudbase-init in place of the platform's own agent.
    fn on<'a>(&'a self, state: &CloneState) -> &'a Self {
        match (self, &state.cloudbase_init) {
            (Self::Other(_), Known::Is(Some(_))) => &Self::CloudbaseInit,
            (own, _) => own,
        }
    }
}

fn administrator_of(rule: &target::Rule) -> Option<BuiltIn> {
    let wanted = match &rule.demand {
        Demand::Needs(Condition::Administrator(state)) => *state,
        Demand::Refuses(Condition::Administrator(Administrator::Disabled)) => {
            Administrator::Enabled
        }
        Demand::Refuses(Condition::Administrator(Administrator::Enabled)) => {
            Administrator::Disabled
        }
        Demand::Needs(_) | Demand::Refuses(_) => return None,
    };
    let severity = match rule.report {
        target::Report::Refuse => Severity::Error,
        target::Report::Warn => Severity::Warning,
    };
    Some(BuiltIn {
        wanted,
        severity,
        with_cloudbase_init: rule.when.is_some(),
    })
}

/// Judges a clone that came up, was started once more, and was powered off.
pub fn clone(state: &CloneState, expected: &Expected) -> Report {
    let mut report = became(state, expected);
    services(state, expected, &mut report);
    report.findings.sort_by_key(|f| f.severity);
    report
}

/// What is wrong with a clone after its first boot and stays so at the next: its agent has nothing left to do. `None`: nothing, or the
/// agent has plugins that failed, each of which has another turn.
pub fn settled_fault(state: &CloneState, expected: &Expected) -> Option<Report> {
    let report = became(state, expected);
    (!report.is_good() && !agent::has_another_turn(state)).then_some(report)
}

/// Whether it became what its metadata ask for.
fn became(state: &CloneState, expected: &Expected) -> Report {
    let mut report = Report::default();
    let agent = expected.agent.on(state);
    report.add(setup(state), None);
    let mut identity = Report::default();
    if let Some(name) = &expected.host_name
        && *agent == Agent::CloudbaseInit
    {
        identity.add(host_name(state, name, expected), None);
    }
    login::judge(state, expected, &mut identity);
    agent::judge(state, expected, &mut identity, &mut report);
    report.join(identity);
    if *agent != Agent::None {
        report.add(
            state
                .disk
                .judge("whether C: reaches the end of the disk", grown),
            None,
        );
    }
    report
}

/// What kept Setup or the agent from their end, of a clone that was quiet and was powered off. `None`: both have ended, or the agent
/// is one whose traces are not known.
pub fn unfinished(state: &CloneState, expected: &Expected) -> Option<Finding> {
    let verdict = setup(state).and_then(|()| match expected.agent.on(state) {
        Agent::Other(_) => Ok(()),
        agent => agent::has_ended(state, agent),
    });
    verdict.err().map(|finding| *finding)
}

/// What a clone was seen to stop at, with what its disk says of it. Logs of a clone whose Setup had not begun are the build's.
pub fn stopped(seen: Box<Finding>, state: &CloneState) -> Box<Finding> {
    let Ok(setup) = state.setup.get("") else {
        return seen;
    };
    if setup.has_ended() || setup.has_not_begun() {
        return seen;
    }
    let seen = seen.lines(ends(state));
    match agent::restarted(state) {
        Some((line, cure)) => seen.lines([line]).cure(cure),
        None => seen,
    }
}

fn setup(state: &CloneState) -> Verdict {
    let setup = state.setup.get("whether Setup has ended on the clone")?;
    if setup.setup_type == Some(0) && setup.generalization_state == Some(GENERALIZED) {
        return Err(Finding::error("Setup has not run on the clone: it is still the machine of the build")
            .expected("a first start: GeneralizationState 7")
            .found(values(setup))
            .cure("the image was generalized and is not armed for a first start: `winimg verify` says what its seal lacks"));
    }
    if setup.has_ended() {
        return Ok(());
    }
    let finding = Finding::error(format!("Setup has not ended on the clone: it stopped {}", place(setup)))
        .expected("ImageState IMAGE_STATE_COMPLETE, SystemSetupInProgress 0, SetupType 0, OOBEInProgress 0")
        .found(values(setup))
        .cure("see the screen, C:\\Windows\\Panther and C:\\Windows\\Panther\\UnattendGC: an answer file's command that fails stops Setup, and so does a page that no answer file answers");
    Err(match setup.has_not_begun() {
        true => finding,
        false => finding.lines(ends(state)),
    })
}

/// The errors in Setup's logs, each once; without any the end of the log that was written last, for the others may be the build's.
fn ends(state: &CloneState) -> Vec<String> {
    let logs = state.setup_logs.get("").map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = Vec::new();
    for log in logs {
        let new = |line: &&String| !lines.iter().any(|known| known.trim_start() == *line);
        let errors: Vec<String> = log
            .errors
            .iter()
            .filter(new)
            .map(|l| format!("  {l}"))
            .collect();
        if !errors.is_empty() {
            lines.push(format!("{}:", log.path));
            lines.extend(errors);
        }
    }
    // Each line begins with its time.
    let last = logs.iter().max_by_key(|log| log.last.last());
    if let (true, Some(log)) = (lines.is_empty(), last.filter(|log| !log.last.is_empty())) {
        lines.push(format!("{}:", log.path));
        lines.extend(log.last.iter().map(|line| format!("  {line}")));
    }
    lines
}

/// Source: Microsoft, Windows Setup States.
fn place(setup: &Setup) -> &'static str {
    match setup.image_state.as_deref() {
        Some(SEALED) => "before its specialize pass",
        Some("IMAGE_STATE_SPECIALIZE_RESEAL_TO_OOBE") => {
            "between specialize and the out-of-box experience"
        }
        Some("IMAGE_STATE_UNDEPLOYABLE") => {
            "in its specialize pass or in the out-of-box experience"
        }
        Some(COMPLETE) => "at its end",
        _ => "at a place that is not known",
    }
}

fn values(setup: &Setup) -> String {
    let number = |n: Option<u32>| n.map_or_else(|| "none".to_owned(), |n| n.to_string());
    let mut text = format!(
        "ImageState {}, SystemSetupInProgress {}, SetupType {}, OOBEInProgress {}",
        setup.image_state.as_deref().unwrap_or("none"),
        number(setup.system_setup_in_progress),
        number(setup.setup_type),
        number(setup.oobe_in_progress),
    );
    if let Some(line) = &setup.command_line {
        text += &format!(", CmdLine {line}");
    }
    if let Some(n) = setup.generalization_state.filter(|n| *n != 7) {
        text += &format!(", GeneralizationState {n}");
    }
    text
}

/// cloudbase-init takes the first label, and 15 characters of it unless its configuration says otherwise (`utils/hostname.py`).
fn host_name(state: &CloneState, wanted: &str, expected: &Expected) -> Verdict {
    let HostName {
        name,
        next,
        computer,
    } = state.host_name.get("the host name")?;
    let label = wanted.split('.').next().unwrap_or_default();
    let cut: String = label.chars().take(15).collect();
    let cut = match cut.strip_suffix('-') {
        Some(start) => format!("{start}0"),
        None => cut,
    };
    let is_it = |name: &str| name.eq_ignore_ascii_case(label) || name.eq_ignore_ascii_case(&cut);
    if is_it(name) && name == next && computer.eq_ignore_ascii_case(&cut) {
        return Ok(());
    }
    let takes = match &state.cloudbase_init {
        Known::Is(Some(agent)) => agent.sets_host_name,
        _ => true,
    };
    let another = Finding::error("the clone has another host name than its metadata says");
    let finding = match takes {
        true => another
            .cure("see the agent's log: SetHostNamePlugin takes the name, and it counts from the next start on"),
        false if expected.provisions => another
            .cure("the platform's answer file has the name: see whether one of the image stands before it, or something renames the clone"),
        false => expected
            .left_out("cloudbase-init is not set up to take the host name from the metadata")
            .cure("add SetHostNamePlugin to `plugins` of cloudbase-init.conf"),
    };
    let mut found = name.clone();
    if next != name {
        found += &format!(", and {next} from the next start on");
    }
    if !computer.eq_ignore_ascii_case(&next.chars().take(15).collect::<String>()) {
        found += &format!(", and the computer name {computer}");
    }
    Err(finding.expected(wanted).found(found))
}

/// What Windows leaves free behind a partition that it extends: its alignment, and the backup of the table.
const SLACK: u64 = 2 << 20;

fn grown(room: &DiskRoom) -> Verdict {
    let fills = room.partition.saturating_sub(room.volume) <= SLACK;
    if room.partitions_behind == 0 && room.behind <= SLACK && fills {
        return Ok(());
    }
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let finding = Finding::error("C: does not reach the end of the disk").expected(format!(
        "a disk of {} with nothing behind C:",
        mib(room.disk)
    ));
    Err(match (room.partitions_behind, room.behind <= SLACK) {
        (1.., _) => finding
            .found(format!("partitions behind it: {}", room.partitions_behind))
            .cure("a partition behind C: keeps it from growing: create it in front of C:, or remove it before the image is sealed"),
        (0, false) => finding
            .found(format!("a partition of {} and {} behind it", mib(room.partition), mib(room.behind)))
            .cure("let the agent extend it: ExtendVolumesPlugin of cloudbase-init, or ExtendOSPartition in the answer file"),
        (0, true) => finding
            .found(format!("a partition of {} with a volume of {}", mib(room.partition), mib(room.volume)))
            .cure("the partition was extended and its volume was not: see the agent's log"),
    })
}

/// Microsoft: CreateService, start types. A service that starts on demand may fail because nobody needs it yet.
fn services(state: &CloneState, expected: &Expected, report: &mut Report) {
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
            report.add(failed(name, &all.collect::<Vec<_>>()), None);
        }
    }
    if named.is_empty() {
        report.add(Ok(()), None);
    }
}

/// A service that Windows starts by itself has to start in the end; what it did before the last start may have mended itself.
fn failed(name: &str, all: &[&ServiceFailure]) -> Verdict {
    let fact = format!("the service {name} failed on the clone");
    let at_start = |failure: &&&ServiceFailure| match failure.starts {
        Some(Starts::Boot | Starts::System | Starts::Auto | Starts::DelayedAuto) => {
            failure.since_last_start
        }
        Some(Starts::Demand | Starts::Disabled) | None => false,
    };
    let finding = match all.iter().any(|failure| at_start(&failure)) {
        true => Finding::error(fact),
        false => Finding::warning(fact),
    };
    let lines = all.iter().map(|failure| {
        let when = match failure.since_last_start {
            true => "event",
            false => "before the last start: event",
        };
        let mut words = vec![format!("{when} {}", failure.event), failure.service.clone()];
        words.extend(failure.details.iter().cloned());
        words.join(": ")
    });
    Err(finding.lines(lines).cure(
        "see the service's own log, and whether it needs something that this clone does not have",
    ))
}
