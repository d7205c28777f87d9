//! The clones side by side: their boots with the screens, and what their disks say.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::super::result::{Boot, CloneRun, Given, Trial};
use super::super::state::{
    Account, AgentLog, CloneState, CloudbaseInit, DiskRoom, HostName, Known, RunEnd,
    ServiceFailure, Setup, Sshd,
};
use super::{Pictures, table};
use crate::page::{self, shown, size};
use winimg_base::digest::Digest;
use winimg_base::text::{count, duration};

/// One line of the table: its name, and how it is said of a clone as lines of text.
type Row = (&'static str, fn(&CloneState, &Given) -> Vec<String>);

const ROWS: [Row; 9] = [
    ("Setup", |state, _| said(&state.setup, setup)),
    ("host name", |state, given| {
        said(&state.host_name, |name| host_name(name, given))
    }),
    ("machine SID", |state, _| {
        said(&state.machine_sid, |sid| vec![sid.clone()])
    }),
    ("MachineGuid", |state, _| {
        said(&state.machine_guid, |guid| guid.iter().cloned().collect())
    }),
    ("users", |state, _| {
        said(&state.accounts, |all| all.iter().map(account).collect())
    }),
    ("SSH host keys", |state, _| said(&state.sshd, host_keys)),
    ("certificates", |state, _| {
        said(&state.certificates, |all| all.clone())
    }),
    ("disk", |state, _| said(&state.disk, disk)),
    ("services that failed", |state, _| {
        said(&state.failed_services, |all| {
            all.iter().map(failure).collect()
        })
    }),
];
/// Of the agent's errors in the table; the result has all that were kept.
const MOST_ERRORS: usize = 5;

pub fn section(trial: &Trial, pictures: &Pictures) -> String {
    if trial.clones.is_empty() {
        return String::new();
    }
    let numbers = 1..=trial.clones.len();
    let head: String = numbers
        .map(|number| format!("<th scope=\"col\">Clone {number}</th>"))
        .collect();
    let mut rows = format!("<tr class=\"head\"><td></td>{head}</tr>\n");
    for (number, name) in [(1, "first boot"), (2, "one more boot")] {
        let clones = (1..).zip(&trial.clones);
        let cells = clones.map(|(clone, run)| booted(run, clone, number, pictures));
        rows += &row("pictures", name, cells);
    }
    for (name, say) in ROWS {
        rows += &row("", name, trial.clones.iter().map(|run| cell(run, say)));
    }
    rows += &row(
        "",
        "cloudbase-init",
        trial
            .clones
            .iter()
            .map(|run| cell(run, |state, _| said(&state.cloudbase_init, agent))),
    );
    let alone = match trial.clones.len() {
        1 => {
            "<p class=\"note\">The second clone was not started, because the first did not come up as it should.</p>\n"
        }
        _ => "",
    };
    format!("{}{alone}", table("machines", &rows))
}

fn row(class: &str, name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    format!("<tr{class}><th scope=\"row\">{name}</th>{cells}</tr>\n")
}

/// Nothing of a clone whose disk was not read.
fn cell(run: &CloneRun, say: impl Fn(&CloneState, &Given) -> Vec<String>) -> String {
    let Some(state) = &run.state else {
        return "<span class=\"note\">not read</span>".into();
    };
    let lines = say(state, &run.given);
    match lines.as_slice() {
        [] => "none".into(),
        [one] => shown(one),
        all => {
            let items = all.iter().map(|line| format!("<li>{}</li>", shown(line)));
            format!("<ul>{}</ul>", items.collect::<String>())
        }
    }
}

fn said<T>(known: &Known<T>, say: impl FnOnce(&T) -> Vec<String>) -> Vec<String> {
    match known {
        Known::Is(value) => say(value),
        Known::Unknown { unknown } => vec![format!("unknown: {unknown}")],
    }
}

fn booted(run: &CloneRun, clone: usize, number: usize, pictures: &Pictures) -> String {
    let Some(boot) = run.boots.get(number - 1) else {
        return format!("<span class=\"note\">Clone {clone}: not started</span>");
    };
    let words = format!("Clone {clone}: {}", timing(boot));
    match &boot.screen {
        Some(file) => {
            let alt = format!("The last screen of clone {clone}, boot {number}");
            let png = pictures.get(file).map(String::as_str);
            page::figure(file, png, &alt, &words)
        }
        None => format!("{words}; no screen"),
    }
}

/// Restarts are not counted of a boot that did not come to its end, so none is not said.
fn timing(boot: &Boot) -> String {
    let took = duration(boot.seconds);
    match boot.restarts {
        0 => took,
        n => format!("{took}, {}", count(n as usize, "restart")),
    }
}

fn setup(setup: &Setup) -> Vec<String> {
    let state = setup.image_state.as_deref().unwrap_or("no ImageState");
    vec![match setup.has_ended() {
        true => "has ended".into(),
        false => format!("has not ended: {state}"),
    }]
}

fn host_name(name: &HostName, given: &Given) -> Vec<String> {
    let mut lines = vec![name.name.clone()];
    if name.next != name.name {
        lines.push(format!("from its next start on: {}", name.next));
    }
    let cut: String = name.next.chars().take(15).collect();
    if !name.computer.eq_ignore_ascii_case(&cut) {
        lines.push(format!("computer name: {}", name.computer));
    }
    if !name.name.eq_ignore_ascii_case(&given.host_name) {
        lines.push(format!("its metadata: {}", given.host_name));
    }
    lines
}

fn account(account: &Account) -> String {
    let mut words = vec![format!("RID {}", account.rid)];
    if account.administrator {
        words.push("administrator".into());
    }
    if account.disabled {
        words.push("disabled".into());
    }
    if account.must_change_password {
        words.push("must change the password".into());
    }
    match account.authorized_keys.len() {
        0 => {}
        n => words.push(count(n, "SSH key")),
    }
    format!("{}: {}", account.name, words.join(", "))
}

fn host_keys(sshd: &Option<Sshd>) -> Vec<String> {
    match sshd {
        Some(sshd) => sshd.host_keys.iter().map(|key| fingerprint(key)).collect(),
        None => vec!["no sshd in the image".into()],
    }
}

/// `ssh-ed25519 SHA256:…`, as `ssh-keygen -l` says it; a line that is no key stays as it is.
fn fingerprint(key: &str) -> String {
    let mut words = key.split_whitespace();
    let (kind, blob) = (words.next(), words.next());
    let bytes = blob.and_then(|blob| STANDARD.decode(blob).ok());
    match (kind, bytes) {
        (Some(kind), Some(bytes)) => {
            let digest = STANDARD_NO_PAD.encode(Digest::sha256_of(&bytes).bytes());
            format!("{kind} SHA256:{digest}")
        }
        _ => key.to_owned(),
    }
}

fn disk(room: &DiskRoom) -> Vec<String> {
    let mut text = format!("C: has {} of {}", size(room.volume), size(room.disk));
    if room.partitions_behind > 0 {
        text += &format!("; partitions behind it: {}", room.partitions_behind);
    }
    vec![text]
}

fn failure(failure: &ServiceFailure) -> String {
    let since = match failure.since_last_start {
        true => "",
        false => ", before the last start",
    };
    let name = failure.key.as_deref().unwrap_or(&failure.service);
    format!("{name}: event {}{since}", failure.event)
}

fn agent(agent: &Option<CloudbaseInit>) -> Vec<String> {
    let Some(agent) = agent else {
        return vec!["not in the image".into()];
    };
    let logs = [
        ("in Setup", &agent.first_pass),
        ("as a service", &agent.service),
    ];
    let mut lines: Vec<String> = logs
        .into_iter()
        .map(|(when, log)| match log {
            Some(log) => format!("{when}: {}", runs(log)),
            None => format!("{when}: no log"),
        })
        .collect();
    let open = agent.plugins.iter().filter(|plugin| !plugin.done);
    lines.extend(open.map(|plugin| format!("{} runs again at the next start", plugin.plugin)));
    let logs = logs.into_iter().filter_map(|(_, log)| log.as_ref());
    let scripts = logs.clone().flat_map(|log| &log.runs);
    let scripts = scripts.flat_map(|run| &run.user_data.scripts);
    lines.extend(scripts.map(|script| {
        let code = script.code;
        format!("a script of the user data ended with {code}")
    }));
    let errors = logs.flat_map(|log| &log.runs).flat_map(|run| &run.errors);
    let errors: Vec<&String> = errors.collect();
    let last = &errors[errors.len().saturating_sub(MOST_ERRORS)..];
    lines.extend(last.iter().map(|error| format!("error: {error}")));
    lines
}

/// `3 runs, the last one to its end, metadata from OvfService`
fn runs(log: &AgentLog) -> String {
    let Some(last) = log.runs.last() else {
        return "a log without a run".into();
    };
    let end = match last.end {
        RunEnd::Done => "to its end",
        RunEnd::Restart => "up to a restart",
        RunEnd::Open => "without an end",
    };
    let runs = match log.runs.len() {
        1 => format!("1 run, {end}"),
        n => format!("{n} runs, the last one {end}"),
    };
    match log.runs.iter().rev().find_map(|run| run.metadata.as_ref()) {
        Some(service) => format!("{runs}, metadata from {service}"),
        None => format!("{runs}, no metadata"),
    }
}
