//! The plan's values in words, for the text and the JSON alike.

use std::fmt::Write as _;
use std::time::Duration;

use super::check::{Acl, Firewall, FirewallScope, Payload, Service};
use super::step::start_name;
use super::{DriverFolder, Entry, ExitRule, Plan, Planned};
use crate::recipe::{Encoding, Origin, ProofSpec, RegistryData, Signature};
use winimg_base::text::count;

/// What proves a download: the digest or what stands for it, then each signature that has to be met.
pub(super) fn proof(origin: &Origin) -> Vec<String> {
    let mut lines = Vec::new();
    if !matches!(origin.proof, ProofSpec::Signed) {
        lines.push(named_by(&origin.proof));
    }
    if let ProofSpec::ChecksumFile { signatures, .. } = &origin.proof {
        lines.extend(signed("checksum file signed", signatures));
    }
    lines.extend(signed("signed", &origin.signatures));
    lines
}

/// `signed: minisign, key RWQ…, or cosign, key …`
fn signed(how: &str, groups: &[Vec<Signature>]) -> Vec<String> {
    let words = |s: &Signature| match &s.url {
        Some(url) => format!("{}, by {}", s.words, url.value),
        None => s.words.clone(),
    };
    let line = |group: &Vec<Signature>| group.iter().map(words).collect::<Vec<_>>().join("; or ");
    groups
        .iter()
        .map(|g| format!("{how}: {}", line(g)))
        .collect()
}

pub(super) fn named_by(proof: &ProofSpec) -> String {
    match proof {
        ProofSpec::Digest(digest) => digest.value.to_string(),
        ProofSpec::ChecksumFile {
            url, entry: None, ..
        } => {
            format!("checksum file {}", url.value)
        }
        ProofSpec::ChecksumFile {
            url,
            entry: Some(entry),
            ..
        } => {
            format!("checksum file {}, line `{entry}`", url.value)
        }
        ProofSpec::Signed => "its signatures".into(),
        ProofSpec::Undecided(_) => "NOT DECIDED: nothing proves it yet".into(),
        ProofSpec::Unverified { reason } => format!("NOT VERIFIED: {}", reason.value),
    }
}

/// `p\0003\step.cmd`, or the folder `p\0004\` of a tree.
pub(super) fn entry_path(index: usize, entry: &Entry) -> String {
    let file = match entry {
        Entry::Component { file, .. } | Entry::Text { file, .. } => file.clone(),
        Entry::Image { image } => format!("{image}.tar"),
        Entry::Local { path } if path.is_file() => path
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
        Entry::Tree { .. } | Entry::Local { .. } | Entry::Drivers { .. } => String::new(),
    };
    format!(r"p\{index:04}\{file}")
}

pub(super) fn entry_origin(entry: &Entry) -> String {
    match entry {
        Entry::Component { component, .. } => format!("component {component}"),
        Entry::Tree {
            component,
            strip,
            only,
        } => {
            let stripped = match strip {
                0 => String::new(),
                n => format!(", without {}", count(*n, "leading folder")),
            };
            let only = list(", only ", only, " ");
            format!("component {component}, unpacked{stripped}{only}")
        }
        Entry::Drivers { from, only } => {
            let from = match from {
                DriverFolder::Component(component) => format!("component {component}, unpacked"),
                DriverFolder::Local(path) => path.display().to_string(),
            };
            let only = list(", only ", only, " ");
            format!("the driver packages of {from}{only}")
        }
        Entry::Image { image } => format!("container image {image}, an OCI archive"),
        Entry::Local { path } => path.display().to_string(),
        Entry::Text { text, encoding, .. } => {
            format!(
                "{}, {}",
                count(text.lines().count(), "line"),
                encoding_name(*encoding)
            )
        }
    }
}

pub(super) fn encoding_name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Utf8 => "UTF-8",
        Encoding::Utf8Bom => "UTF-8 with BOM",
        Encoding::Utf16 => "UTF-16LE with BOM",
    }
}

impl ExitRule {
    /// Which codes are good and what else they mean, in words: `exit 0; 3010 and 1641 restart`.
    pub fn expectation(&self) -> String {
        match self {
            ExitRule::Zero => "exit 0".to_owned(),
            ExitRule::Msi => "exit 0; 3010 and 1641 restart; 1618 is tried again".to_owned(),
            ExitRule::Any => "any exit code".to_owned(),
            ExitRule::Robocopy => "exit below 8".to_owned(),
            ExitRule::Pnputil => "exit 0 or 259; 3010 and 1641 restart".to_owned(),
            ExitRule::Settled => "exit 0; 3010 restarts; 1618 is tried again".to_owned(),
            ExitRule::Listed { ok, reboot } => {
                let list = |codes: &[i64], between: &str| {
                    let codes: Vec<String> = codes.iter().map(i64::to_string).collect();
                    codes.join(between)
                };
                let mut text = match ok.is_empty() {
                    true => "no exit code is good".to_owned(),
                    false => format!("exit {}", list(ok, " or ")),
                };
                match reboot.as_slice() {
                    [] => {}
                    [one] => text.push_str(&format!("; {one} restarts")),
                    many => text.push_str(&format!("; {} restart", list(many, " and "))),
                }
                text
            }
        }
    }
}

pub(super) fn expected(plan: &Plan, check: &Planned) -> String {
    let entry = |index: u32| {
        let index = index as usize;
        plan.payload
            .get(index)
            .map_or_else(|| format!(r"p\{index:04}"), |e| entry_path(index, e))
    };
    let no = |present: &bool| if *present { "" } else { "no " };
    match check {
        Planned::File { path, content } => match *content {
            Payload::File(index) => format!("{path} = {}", entry(index)),
            Payload::Tree(index) => format!(r"{path}\ with all of {}", entry(index)),
        },
        Planned::Exists { path } => path.to_string(),
        Planned::Missing { path } => format!("no {path}"),
        Planned::Registry { key, value, data } => registry(key.as_str(), value.as_deref(), data),
        Planned::Service(of) => service(of),
        Planned::PathFolder { folder } => format!("{folder} in Path"),
        Planned::Firewall(rule) => firewall(rule),
        Planned::Feature { name, enabled } => {
            format!("feature {name} {}", if *enabled { "on" } else { "off" })
        }
        Planned::Capability { name, present } => format!("{}capability {name}", no(present)),
        Planned::Driver { driver } => format!("drivers of {}", entry(driver.entry)),
        Planned::User {
            name,
            present,
            disabled,
        } => {
            let disabled = if *disabled { ", disabled" } else { "" };
            format!("{}user {name}{disabled}", no(present))
        }
        Planned::Group {
            name,
            present,
            members,
        } => format!(
            "{}group {name}{}",
            no(present),
            list(" with ", members, ", ")
        ),
        Planned::Acl(acl) => access(acl),
        Planned::Task { name, present } => format!("{}task {name}", no(present)),
        Planned::Update { kb } => format!("update {kb}"),
        Planned::Windows { build, revision } => format!("Windows {build}.{revision} or later"),
        Planned::ContainerImage { image, root } => {
            format!("container image {} below {root}", image.0)
        }
    }
}

/// Nothing where there is nothing in it.
fn list(before: &str, items: &[String], between: &str) -> String {
    match items {
        [] => String::new(),
        items => format!("{before}{}", items.join(between)),
    }
}

fn registry(key: &str, value: Option<&str>, data: &RegistryData) -> String {
    let name = value.filter(|v| !v.is_empty()).unwrap_or("(default)");
    match (value, data) {
        (None, RegistryData::Absent) => format!("no {key}"),
        (_, RegistryData::Absent) => format!("no {key} : {name}"),
        _ => format!("{key} : {name} = {}", shown_data(data)),
    }
}

fn service(service: &Service) -> String {
    let mut text = format!("service {}", service.name);
    if let Some(start) = service.start {
        let _ = write!(text, ", {}", start_name(start));
    }
    if let Some(account) = &service.account {
        let _ = write!(text, ", as {account}");
    }
    text += &list(", after ", &service.depends, " ");
    if !service.restart_delays.is_empty() {
        let delays: Vec<String> = service.restart_delays.iter().map(u32::to_string).collect();
        let _ = write!(text, ", restarted after {} ms", delays.join(", "));
    }
    if service.may_fail {
        text += ", may fail";
    }
    if let Some(line) = &service.command_line {
        let _ = write!(text, ": {line}");
    }
    text
}

fn firewall(rule: &Firewall) -> String {
    if !rule.present {
        return format!("no firewall rule {}", rule.name);
    }
    let any = |ports: &[String]| match ports {
        [] => "any".to_owned(),
        ports => ports.join(","),
    };
    format!(
        "firewall rule {}: {} {}, protocol {}, ports {}, remote ports {}{}",
        rule.name,
        if rule.allow { "allows" } else { "blocks" },
        if rule.inbound { "in" } else { "out" },
        rule.protocol.map_or("any".to_owned(), |n| n.to_string()),
        any(&rule.ports),
        any(&rule.remote_ports),
        rule.scope.as_ref().map_or_else(String::new, scope)
    )
}

/// Whom a firewall rule is for.
fn scope(scope: &FirewallScope) -> String {
    let mut text = list(", remote addresses ", &scope.remote, ",");
    if let Some(program) = &scope.program {
        text += &format!(", program {program}");
    }
    text += &list(", profiles ", &scope.profiles, ",");
    if scope.edge {
        text += ", edge traversal";
    }
    text
}

fn access(acl: &Acl) -> String {
    let entries = acl.entries.iter().map(|e| {
        let deny = if e.deny { "deny " } else { "" };
        format!("{deny}{} {:?}", e.principal, e.right)
    });
    let entries: Vec<String> = entries.collect();
    let only = if acl.protected { "only " } else { "" };
    format!("{} for {only}{}", acl.path, entries.join(", "))
}

pub(super) fn shown_data(data: &RegistryData) -> String {
    match data {
        RegistryData::Sz(text) => format!("sz {text:?}"),
        RegistryData::ExpandSz(text) => format!("expand_sz {text:?}"),
        RegistryData::MultiSz(list) => format!("multi_sz {list:?}"),
        RegistryData::Dword(n) => format!("dword {n}"),
        RegistryData::Qword(n) => format!("qword {n}"),
        RegistryData::Binary(bytes) if bytes.is_empty() => "binary, empty".to_owned(),
        RegistryData::Binary(bytes) => format!("binary {}", hex::encode(bytes)),
        RegistryData::Absent => "absent".to_owned(),
    }
}

/// `1 h 30 min`, `20 min`, `45 s`
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let parts = [
        (seconds / 3600, "h"),
        (seconds % 3600 / 60, "min"),
        (seconds % 60, "s"),
    ];
    let words: Vec<String> = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, unit)| format!("{n} {unit}"))
        .collect();
    match words.is_empty() {
        true => "0 s".to_owned(),
        false => words.join(" "),
    }
}
