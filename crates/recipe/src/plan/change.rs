//! Describes what changed between two builds, for `plan`, `build` and `cache explain`.
//!
//! Pure. No key is computed from these sentences, so their wording can change at any time.

use super::ChainLink;
use super::chain::{BuildPart, GuestAction, InstallationPart, PayloadContent, PayloadPart};
use super::describe::encoding_name;
use crate::{DiskBus, Firmware, MachineSpec};
use winimg_base::argv;
use winimg_base::digest::Digest;

/// Returns the number of links that both chains have in common from the start.
pub fn count_common(old: &[ChainLink], new: &[ChainLink]) -> usize {
    old.iter()
        .zip(new)
        .take_while(|(a, b)| a.key == b.key)
        .count()
}

/// Describes the first link in which two chains differ, as in ``step `kubelet`: the version of
/// `kubelet` changed from 1.36.0 to 1.36.1``. Empty if one chain is a prefix of the other.
pub fn describe_change(old: &[ChainLink], new: &[ChainLink]) -> Vec<String> {
    let at = count_common(old, new);
    let (Some(before), Some(now)) = (old.get(at), new.get(at)) else {
        return Vec::new();
    };
    if before.name != now.name {
        let is_kept = new[at..].iter().any(|link| link.part == before.part);
        let is_known = old[at..].iter().any(|link| link.part == now.part);
        let change = match (is_kept, is_known) {
            (true, true) => format!("{} now comes before {}", now.name, before.name),
            (true, false) => format!("{} was added", now.name),
            (false, true) => format!("{} was removed", before.name),
            (false, false) => format!("{} was replaced by {}", before.name, now.name),
        };
        return vec![change];
    }
    let (old, new) = (list_rows(&before.part), list_rows(&now.part));
    let mut rendered = Vec::new();
    for (what, value) in &new {
        match old.iter().find(|(known, _)| known == what) {
            Some((_, before)) if before == value => {}
            Some((_, before)) => {
                rendered.push(format!("{what} {}", describe_value_change(before, value)))
            }
            None => rendered.push(format!("{what} was added")),
        }
    }
    rendered.extend(
        old.iter()
            .filter(|(what, _)| !new.iter().any(|(known, _)| known == what))
            .map(|(what, _)| format!("{what} was removed")),
    );
    if rendered.is_empty() {
        rendered.push("its parts are in a different order".into());
    }
    rendered
        .into_iter()
        .map(|change| format!("{}: {change}", now.name))
        .collect()
}

/// Lists the inputs of a part, each with its display name and its value as text.
fn list_rows(part: &BuildPart) -> Vec<(String, String)> {
    match part {
        BuildPart::Installation(from) => list_installation(from),
        BuildPart::Step { payload, ops } => {
            let mut rows: Vec<_> = payload.iter().flat_map(list_payload).collect();
            let numbered = ops.iter().zip(1..);
            rows.extend(numbered.flat_map(|(op, number)| list_action(op, number)));
            rows
        }
        BuildPart::Skipped => vec![("skipped".into(), "yes".into())],
    }
}

fn list_installation(from: &InstallationPart) -> Vec<(String, String)> {
    let InstallationPart {
        hypervisor,
        iso,
        virtio,
        image,
        answer_file,
        bootstrap,
        machine,
    } = from;
    let MachineSpec {
        firmware,
        secure_boot,
        disk_bus,
        disk_size,
        cpus,
        memory,
        network,
        tpm,
    } = machine;
    let rows = [
        ("the hypervisor", hypervisor.clone()),
        ("the install medium", iso.to_string()),
        (
            "the virtio medium",
            virtio
                .as_ref()
                .map_or("none".to_string(), Digest::to_string),
        ),
        ("the image", image.clone()),
        ("the answer file", answer_file.to_string()),
        ("the bootstrap", bootstrap.to_string()),
        ("machine.firmware", firmware_name(*firmware).into()),
        ("machine.secure_boot", secure_boot.to_string()),
        ("machine.disk_bus", bus_name(*disk_bus).into()),
        ("machine.disk_size", render_mebibytes(*disk_size)),
        ("machine.cpus", cpus.to_string()),
        ("machine.memory", render_mebibytes(*memory)),
        ("machine.network", network.to_string()),
        ("machine.tpm", tpm.to_string()),
    ];
    rows.map(|(what, value)| (what.to_string(), value)).into()
}

fn firmware_name(firmware: Firmware) -> &'static str {
    match firmware {
        Firmware::Uefi => "uefi",
        Firmware::Bios => "bios",
    }
}

fn bus_name(bus: DiskBus) -> &'static str {
    match bus {
        DiskBus::Nvme => "nvme",
        DiskBus::Virtio => "virtio",
        DiskBus::Ahci => "ahci",
    }
}

fn render_mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Lists the inputs of a payload entry. The version, if any, comes first: it is more useful than
/// the digest that changes with it.
fn list_payload(entry: &PayloadPart) -> Vec<(String, String)> {
    let (version, what, value) = match &entry.content {
        PayloadContent::Component {
            component,
            version,
            digest,
            ..
        } => {
            let version = version_row(component, version.as_deref());
            let what = format!("the file of `{component}`");
            (version, what, digest.to_string())
        }
        PayloadContent::Tree {
            component,
            version,
            strip,
            only,
            digest,
        } => {
            let mut what = format!("the archive of `{component}`, strip {strip}");
            if !only.is_empty() {
                what += &format!(", only {}", only.join(" "));
            }
            let version = version_row(component, version.as_deref());
            (version, what, digest.to_string())
        }
        PayloadContent::Image { image, digest } => {
            let what = format!("the container image `{image}`");
            (None, what, digest.to_string())
        }
        PayloadContent::Local { name, digest } => {
            (None, format!("the local file {name}"), digest.to_string())
        }
        PayloadContent::Text {
            file,
            text,
            encoding,
        } => {
            let what = format!(r"the text p\{:04}\{file}", entry.number);
            let encoding = (
                format!("the encoding of {what}"),
                encoding_name(*encoding).into(),
            );
            return vec![(what, text.clone()), encoding];
        }
    };
    version.into_iter().chain([(what, value)]).collect()
}

fn version_row(component: &str, version: Option<&str>) -> Option<(String, String)> {
    let version = version?.to_string();
    Some((format!("the version of `{component}`"), version))
}

/// Lists an action and, if it has exit codes, those that are allowed.
fn list_action(op: &GuestAction, number: u32) -> Vec<(String, String)> {
    let (what, value, exit) = match op {
        GuestAction::Script { text, exit } => {
            (format!("script {number}"), text.clone(), Some(exit))
        }
        GuestAction::Command {
            program,
            arguments,
            exit,
        } => {
            let line = argv::render_command_line(program, arguments);
            (format!("command {number}"), line, Some(exit))
        }
        GuestAction::Restart => (format!("restart {number}"), String::new(), None),
        GuestAction::Settle => (format!("wait {number}"), String::new(), None),
        GuestAction::Eject => (format!("discs {number}"), String::new(), None),
        GuestAction::Seal => (format!("seal {number}"), String::new(), None),
    };
    let judged = exit.map(|exit| {
        let what = format!("the exit rule of {what}");
        (what, exit.describe())
    });
    std::iter::once((what, value)).chain(judged).collect()
}

/// Describes a changed value, as in `changed from 1.36.0 to 1.36.1`. For longer text, shows the
/// first line that differs, from shortly before the difference.
fn describe_value_change(old: &str, new: &str) -> String {
    let differing = old.lines().zip(new.lines()).find(|(a, b)| a != b);
    match differing {
        Some((old, new)) => {
            let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b);
            let same = same.count();
            format!(
                "changed from {} to {}",
                shorten_line(old, same),
                shorten_line(new, same)
            )
        }
        None if old.lines().count() < new.lines().count() => "is longer".into(),
        None => "is shorter".into(),
    }
}

/// Shortens a line to 60 characters, or a digest to its start. `same` is the length of the prefix
/// that it shares with the other line.
fn shorten_line(line: &str, same: usize) -> String {
    let is_digest = line.starts_with("sha256:");
    let limit = if is_digest { 19 } else { 60 };
    if line.chars().count() <= limit {
        return line.to_string();
    }
    let skipped = if is_digest {
        0
    } else {
        same.saturating_sub(20)
    };
    let shown: String = line.chars().skip(skipped).take(limit).collect();
    let before = if skipped > 0 { "…" } else { "" };
    let after = if skipped + limit < line.chars().count() {
        "…"
    } else {
        ""
    };
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests;
