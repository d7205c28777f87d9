//! What changed between two builds, in words made from their parts: for `plan`, `build` and `cache explain`.
//!
//! Pure. No key is made here, so that a sentence can be worded anew at any time.

use super::Link;
use super::chain::{Action, Content, Installation, Part, Payload};
use super::words::encoding_name;
use crate::recipe::{DiskBus, Firmware, MachineSpec};
use winimg_base::argv;
use winimg_base::digest::Digest;

/// How many links from the start are the same.
pub fn common(old: &[Link], new: &[Link]) -> usize {
    let same = |(a, b): &(&Link, &Link)| a.key == b.key;
    old.iter().zip(new).take_while(same).count()
}

/// What became of the first link in which two chains differ, in words: ``step `kubelet`: the version of `kubelet`
/// 1.36.0 became 1.36.1``. Empty when one chain is the other's beginning.
pub fn change(old: &[Link], new: &[Link]) -> Vec<String> {
    let at = common(old, new);
    let (Some(before), Some(now)) = (old.get(at), new.get(at)) else {
        return Vec::new();
    };
    if before.name != now.name {
        let is_in = |links: &[Link], one: &Link| links.iter().any(|l| l.part == one.part);
        let words = match (is_in(&new[at..], before), is_in(&old[at..], now)) {
            (true, true) => format!("{} comes where {} was", now.name, before.name),
            (true, false) => format!("{} is new", now.name),
            (false, true) => format!("{} is gone", before.name),
            (false, false) => format!("{} came in place of {}", now.name, before.name),
        };
        return vec![words];
    }
    let (old, new) = (rows(&before.part), rows(&now.part));
    let mut rendered = Vec::new();
    for (what, value) in &new {
        match old.iter().find(|(known, _)| known == what) {
            Some((_, before)) if before == value => {}
            Some((_, before)) => rendered.push(format!("{what} {}", became(before, value))),
            None => rendered.push(format!("{what} is new")),
        }
    }
    let gone = old
        .iter()
        .filter(|(what, _)| !new.iter().any(|(known, _)| known == what));
    rendered.extend(gone.map(|(what, _)| format!("{what} is gone")));
    if rendered.is_empty() {
        rendered.push("its parts come in another order".into());
    }
    rendered
        .into_iter()
        .map(|words| format!("{}: {words}", now.name))
        .collect()
}

/// What a part is made from, each thing as people call it and with its value as text.
fn rows(part: &Part) -> Vec<(String, String)> {
    match part {
        Part::Installation(from) => installation(from),
        Part::Step { payload, ops } => {
            let mut rows: Vec<_> = payload.iter().flat_map(carried).collect();
            let numbered = ops.iter().zip(1..);
            rows.extend(numbered.flat_map(|(op, number)| action(op, number)));
            rows
        }
        Part::Skipped => vec![("skipped".into(), "yes".into())],
    }
}

fn installation(from: &Installation) -> Vec<(String, String)> {
    let Installation {
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
    let none = || "none".to_string();
    let rows = [
        ("the hypervisor", hypervisor.clone()),
        ("the install medium", iso.to_string()),
        (
            "the virtio medium",
            virtio.as_ref().map_or_else(none, Digest::to_string),
        ),
        ("the image", image.clone()),
        ("the answer file", answer_file.to_string()),
        ("the bootstrap", bootstrap.to_string()),
        ("machine.firmware", firmware_name(*firmware).into()),
        ("machine.secure_boot", secure_boot.to_string()),
        ("machine.disk_bus", bus_name(*disk_bus).into()),
        ("machine.disk_size", mebibytes(*disk_size)),
        ("machine.cpus", cpus.to_string()),
        ("machine.memory", mebibytes(*memory)),
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

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// The version first, where there is one: it says more than the digest that changes with it.
fn carried(entry: &Payload) -> Vec<(String, String)> {
    let version = |component: &str, version: &Option<String>| {
        let version = version.clone()?;
        Some((format!("the version of `{component}`"), version))
    };
    let (version, what, value) = match &entry.content {
        Content::Component {
            component,
            version: given,
            digest,
            ..
        } => {
            let what = format!("the file of `{component}`");
            (version(component, given), what, digest.to_string())
        }
        Content::Tree {
            component,
            version: given,
            strip,
            only,
            digest,
        } => {
            let mut what = format!("the archive of `{component}`, strip {strip}");
            if !only.is_empty() {
                what += &format!(", only {}", only.join(" "));
            }
            (version(component, given), what, digest.to_string())
        }
        Content::Image { image, digest } => {
            let what = format!("the container image `{image}`");
            (None, what, digest.to_string())
        }
        Content::Local { name, digest } => {
            (None, format!("the local file {name}"), digest.to_string())
        }
        Content::Text {
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

/// What is done, and which exit codes are good where it ends with one.
fn action(op: &Action, number: u32) -> Vec<(String, String)> {
    let (what, value, exit) = match op {
        Action::Script { text, exit } => (format!("script {number}"), text.clone(), Some(exit)),
        Action::Command {
            program,
            arguments,
            exit,
        } => {
            let line = argv::display(program, arguments);
            (format!("command {number}"), line, Some(exit))
        }
        Action::Restart => (format!("restart {number}"), String::new(), None),
        Action::Settle => (format!("wait {number}"), String::new(), None),
        Action::Eject => (format!("discs {number}"), String::new(), None),
        Action::Seal => (format!("seal {number}"), String::new(), None),
    };
    let judged = exit.map(|exit| {
        let what = format!("what {what} may end with");
        (what, exit.expectation())
    });
    std::iter::once((what, value)).chain(judged).collect()
}

/// `1.36.0 became 1.36.1`; of longer text the first line that differs, from a little before the difference on.
fn became(old: &str, new: &str) -> String {
    let differing = old.lines().zip(new.lines()).find(|(a, b)| a != b);
    match differing {
        Some((old, new)) => {
            let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b);
            let same = same.count();
            format!("{} became {}", short(old, same), short(new, same))
        }
        None if old.lines().count() < new.lines().count() => "has more lines".into(),
        None => "has fewer lines".into(),
    }
}

/// At most 60 characters; of a digest its beginning. `same`: how many characters are the other line's too.
fn short(line: &str, same: usize) -> String {
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
