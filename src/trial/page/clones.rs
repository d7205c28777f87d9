//! The clones side by side: their boots with the screens, and the state on their disks.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::super::result::{CloneBoot, CloneRun, GivenIdentity, TrialResult};
use super::super::state::{
    AgentLog, CloneAccount, CloneHostName, CloneSetup, CloneState, CloudbaseInitState, DiskRoom,
    KnownFact, RunEnd, ServiceFailure, SshdState,
};
use super::{ScreenImages, render_table};
use crate::page::{self, escape_html};
use winimg_base::digest::Digest;
use winimg_base::text::{count, format_duration, format_size};

/// A row of the table: its name, and a function that renders a clone's state as lines of text.
type CloneRow = (&'static str, fn(&CloneState, &GivenIdentity) -> Vec<String>);

const ROWS: [CloneRow; 9] = [
    ("Setup", |state, _| render_known(&state.setup, setup)),
    ("host name", |state, given| {
        render_known(&state.host_name, |name| host_name(name, given))
    }),
    ("machine SID", |state, _| {
        render_known(&state.machine_sid, |sid| vec![sid.clone()])
    }),
    ("MachineGuid", |state, _| {
        render_known(&state.machine_guid, |guid| guid.iter().cloned().collect())
    }),
    ("users", |state, _| {
        render_known(&state.accounts, |all| {
            all.iter().map(render_account).collect()
        })
    }),
    ("SSH host keys", |state, _| {
        render_known(&state.sshd, host_keys)
    }),
    ("certificates", |state, _| {
        render_known(&state.certificates, |all| all.clone())
    }),
    ("disk", |state, _| render_known(&state.disk, render_disk)),
    ("services that failed", |state, _| {
        render_known(&state.failed_services, |all| {
            all.iter().map(render_failure).collect()
        })
    }),
];
/// Maximum number of the agent's errors in the table; the result has more.
const MAX_ERRORS: usize = 5;

pub fn render_clones(trial: &TrialResult, pictures: &ScreenImages) -> String {
    if trial.clones.is_empty() {
        return String::new();
    }
    let numbers = 1..=trial.clones.len();
    let head: String = numbers
        .map(|number| format!("<th scope=\"col\">Clone {number}</th>"))
        .collect();
    let mut rows = format!("<tr class=\"head\"><td></td>{head}</tr>\n");
    for (number, name) in [(1, "first boot"), (2, "second boot")] {
        let clones = (1..).zip(&trial.clones);
        let cells = clones.map(|(clone, run)| render_boot(run, clone, number, pictures));
        rows += &render_row("pictures", name, cells);
    }
    for (name, say) in ROWS {
        rows += &render_row(
            "",
            name,
            trial.clones.iter().map(|run| render_cell(run, say)),
        );
    }
    rows += &render_row(
        "",
        "cloudbase-init",
        trial.clones.iter().map(|run| {
            render_cell(run, |state, _| {
                render_known(&state.cloudbase_init, render_agent)
            })
        }),
    );
    let alone = match trial.clones.len() {
        1 => {
            "<p class=\"note\">The second clone was not started, because the first did not come up \
             properly.</p>\n"
        }
        _ => "",
    };
    format!("{}{alone}", render_table("machines", &rows))
}

fn render_row(class: &str, name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    format!("<tr{class}><th scope=\"row\">{name}</th>{cells}</tr>\n")
}

/// Renders a cell; a note if the clone's disk was not read.
fn render_cell(run: &CloneRun, say: impl Fn(&CloneState, &GivenIdentity) -> Vec<String>) -> String {
    let Some(state) = &run.state else {
        return "<span class=\"note\">not read</span>".into();
    };
    let lines = say(state, &run.given);
    match lines.as_slice() {
        [] => "none".into(),
        [one] => escape_html(one),
        all => {
            let items = all
                .iter()
                .map(|line| format!("<li>{}</li>", escape_html(line)));
            format!("<ul>{}</ul>", items.collect::<String>())
        }
    }
}

fn render_known<T>(known: &KnownFact<T>, say: impl FnOnce(&T) -> Vec<String>) -> Vec<String> {
    match known {
        KnownFact::Is(value) => say(value),
        KnownFact::Unknown { unknown } => vec![format!("unknown: {unknown}")],
    }
}

fn render_boot(run: &CloneRun, clone: usize, number: usize, pictures: &ScreenImages) -> String {
    let Some(boot) = run.boots.get(number - 1) else {
        return format!("<span class=\"note\">Clone {clone}: not started</span>");
    };
    let words = format!("Clone {clone}: {}", format_timing(boot));
    match &boot.screen {
        Some(file) => {
            let alt = format!("The last screen of clone {clone}, boot {number}");
            let png = pictures.get(file).map(String::as_str);
            page::render_figure(file, png, &alt, &words)
        }
        None => format!("{words}; no screen"),
    }
}

/// Renders the duration and restarts of a boot. Omits zero restarts, because an unfinished boot
/// does not count them.
fn format_timing(boot: &CloneBoot) -> String {
    let took = format_duration(boot.seconds);
    match boot.restarts {
        0 => took,
        n => format!("{took}, {}", count(n as usize, "restart")),
    }
}

fn setup(setup: &CloneSetup) -> Vec<String> {
    let state = setup.image_state.as_deref().unwrap_or("no ImageState");
    vec![if setup.has_ended() {
        "has ended".into()
    } else {
        format!("has not ended: {state}")
    }]
}

fn host_name(name: &CloneHostName, given: &GivenIdentity) -> Vec<String> {
    let mut lines = vec![name.name.clone()];
    if name.next != name.name {
        lines.push(format!("after the next boot: {}", name.next));
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

fn render_account(account: &CloneAccount) -> String {
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

fn host_keys(sshd: &Option<SshdState>) -> Vec<String> {
    match sshd {
        Some(sshd) => sshd
            .host_keys
            .iter()
            .map(|key| format_fingerprint(key))
            .collect(),
        None => vec!["no sshd in the image".into()],
    }
}

/// Formats a key like `ssh-keygen -l`: `ssh-ed25519 SHA256:…`. Returns other lines unchanged.
fn format_fingerprint(key: &str) -> String {
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

fn render_disk(room: &DiskRoom) -> Vec<String> {
    let mut text = format!(
        "C: has {} of {}",
        format_size(room.volume),
        format_size(room.disk)
    );
    if room.partitions_behind > 0 {
        text += &format!("; partitions after it: {}", room.partitions_behind);
    }
    vec![text]
}

fn render_failure(failure: &ServiceFailure) -> String {
    let since = if failure.since_last_start {
        ""
    } else {
        ", before the last boot"
    };
    let name = failure.key.as_deref().unwrap_or(&failure.service);
    format!("{name}: event {}{since}", failure.event)
}

fn render_agent(agent: &Option<CloudbaseInitState>) -> Vec<String> {
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
            Some(log) => format!("{when}: {}", render_runs(log)),
            None => format!("{when}: no log"),
        })
        .collect();
    let open = agent.plugins.iter().filter(|plugin| !plugin.done);
    lines.extend(open.map(|plugin| format!("{} runs again at the next boot", plugin.plugin)));
    let logs = logs.into_iter().filter_map(|(_, log)| log.as_ref());
    let scripts = logs.clone().flat_map(|log| &log.runs);
    let scripts = scripts.flat_map(|run| &run.user_data.scripts);
    lines.extend(scripts.map(|script| {
        let code = script.code;
        format!("a script of the user data exited with {code}")
    }));
    let errors = logs.flat_map(|log| &log.runs).flat_map(|run| &run.errors);
    let errors: Vec<&String> = errors.collect();
    let last = &errors[errors.len().saturating_sub(MAX_ERRORS)..];
    lines.extend(last.iter().map(|error| format!("error: {error}")));
    lines
}

/// `3 runs, the last one finished, metadata from OvfService`
fn render_runs(log: &AgentLog) -> String {
    let Some(last) = log.runs.last() else {
        return "a log without a run".into();
    };
    let end = match last.end {
        RunEnd::Done => "finished",
        RunEnd::Restart => "until a restart",
        RunEnd::Open => "unfinished",
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
