//! Describes values of the plan, for both the text and the JSON.

use std::fmt::Write as _;
use std::time::Duration;

use super::check::{AclCheck, ExpectedPayload, FirewallCheck, FirewallScope, ServiceCheck};
use super::{BuildPlan, DriverFolder, ExitRule, PayloadEntry, PlannedCheck};
use crate::ops::Encoding;
use crate::{DownloadSpec, ProofSpec, RegistryValueData, SignatureSpec};
use winimg_base::text::count;

/// Describes what proves a download: its digest or checksum file, then each required signature.
pub(super) fn describe_proof(origin: &DownloadSpec) -> Vec<String> {
    let mut lines = Vec::new();
    if !matches!(origin.proof, ProofSpec::Signed) {
        lines.push(named_by(&origin.proof));
    }
    if let ProofSpec::ChecksumFile { signatures, .. } = &origin.proof {
        lines.extend(describe_signatures("checksum file signed", signatures));
    }
    lines.extend(describe_signatures("signed", &origin.signatures));
    lines
}

/// Describes groups of signatures: `signed: minisign, key RWQ…; or cosign, key …`.
fn describe_signatures(how: &str, groups: &[Vec<SignatureSpec>]) -> Vec<String> {
    groups
        .iter()
        .map(|group| {
            let alternatives: Vec<String> = group.iter().map(describe_signature).collect();
            format!("{how}: {}", alternatives.join("; or "))
        })
        .collect()
}

fn describe_signature(signature: &SignatureSpec) -> String {
    match &signature.url {
        Some(url) => format!("{}, by {}", signature.words, url.value),
        None => signature.words.clone(),
    }
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
        ProofSpec::Undecided(_) => "NOT DECIDED: no digest yet".into(),
        ProofSpec::Unverified { reason } => format!("NOT VERIFIED: {}", reason.value),
    }
}

/// Returns the path of an entry on the disc: `p\0003\step.cmd`, or the folder `p\0004\` of a tree.
pub(super) fn entry_path(index: usize, entry: &PayloadEntry) -> String {
    let file = match entry {
        PayloadEntry::Component { file, .. } | PayloadEntry::Text { file, .. } => file.clone(),
        PayloadEntry::Image { image } => format!("{image}.tar"),
        PayloadEntry::Local { path } if path.is_file() => path
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
        PayloadEntry::Tree { .. } | PayloadEntry::Local { .. } | PayloadEntry::Drivers { .. } => {
            String::new()
        }
    };
    format!(r"p\{index:04}\{file}")
}

pub(super) fn entry_origin(entry: &PayloadEntry) -> String {
    match entry {
        PayloadEntry::Component { component, .. } => format!("component {component}"),
        PayloadEntry::Tree {
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
        PayloadEntry::Drivers { from, only } => {
            let from = match from {
                DriverFolder::Component(component) => format!("component {component}, unpacked"),
                DriverFolder::Local(path) => path.display().to_string(),
            };
            let only = list(", only ", only, " ");
            format!("the driver packages of {from}{only}")
        }
        PayloadEntry::Image { image } => format!("container image {image}, an OCI archive"),
        PayloadEntry::Local { path } => path.display().to_string(),
        PayloadEntry::Text { text, encoding, .. } => {
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
    /// Describes the accepted exit codes: `exit 0; 3010 and 1641 restart`.
    pub fn describe(&self) -> String {
        match self {
            ExitRule::Zero => "exit 0".to_owned(),
            ExitRule::Msi => "exit 0; 3010 and 1641 restart; 1618 is tried again".to_owned(),
            ExitRule::Any => "any exit code".to_owned(),
            ExitRule::Robocopy => "exit below 8".to_owned(),
            ExitRule::Pnputil => "exit 0 or 259; 3010 and 1641 restart".to_owned(),
            ExitRule::Settled => "exit 0; 3010 restarts; 1618 is tried again".to_owned(),
            ExitRule::Listed { ok, reboot } => {
                let mut text = if ok.is_empty() {
                    "no exit code is accepted".to_owned()
                } else {
                    format!("exit {}", join_codes(ok, " or "))
                };
                match reboot.as_slice() {
                    [] => {}
                    [one] => text.push_str(&format!("; {one} restarts")),
                    many => text.push_str(&format!("; {} restart", join_codes(many, " and "))),
                }
                text
            }
        }
    }
}

fn join_codes(codes: &[i64], separator: &str) -> String {
    let codes: Vec<String> = codes.iter().map(i64::to_string).collect();
    codes.join(separator)
}

/// Describes a check of the finished image.
pub(super) fn describe_check(plan: &BuildPlan, check: &PlannedCheck) -> String {
    match check {
        PlannedCheck::File { path, content } => match *content {
            ExpectedPayload::File(index) => format!("{path} = {}", plan.entry_path(index)),
            ExpectedPayload::Tree(index) => {
                format!(r"{path}\ with all of {}", plan.entry_path(index))
            }
        },
        PlannedCheck::Exists { path } => path.to_string(),
        PlannedCheck::Missing { path } => format!("no {path}"),
        PlannedCheck::Registry { key, value, data } => {
            describe_registry(key.as_str(), value.as_deref(), data)
        }
        PlannedCheck::Service(of) => describe_service(of),
        PlannedCheck::PathFolder { folder } => format!("{folder} in Path"),
        PlannedCheck::Firewall(rule) => describe_firewall(rule),
        PlannedCheck::Feature { name, enabled } => {
            format!("feature {name} {}", if *enabled { "on" } else { "off" })
        }
        PlannedCheck::Capability { name, present } => {
            format!("{}capability {name}", no_unless(*present))
        }
        PlannedCheck::Driver { driver } => format!("drivers of {}", plan.entry_path(driver.entry)),
        PlannedCheck::User {
            name,
            present,
            disabled,
        } => {
            let disabled = if *disabled { ", disabled" } else { "" };
            format!("{}user {name}{disabled}", no_unless(*present))
        }
        PlannedCheck::Group {
            name,
            present,
            members,
        } => format!(
            "{}group {name}{}",
            no_unless(*present),
            list(" with ", members, ", ")
        ),
        PlannedCheck::Acl(acl) => describe_acl(acl),
        PlannedCheck::Task { name, present } => format!("{}task {name}", no_unless(*present)),
        PlannedCheck::Update { kb } => format!("update {kb}"),
        PlannedCheck::Windows { build, revision } => format!("Windows {build}.{revision} or later"),
        PlannedCheck::ContainerImage { image, root } => {
            format!("container image {} below {root}", image.0)
        }
    }
}

impl BuildPlan {
    fn entry_path(&self, index: u32) -> String {
        let index = index as usize;
        self.payload
            .get(index)
            .map_or_else(|| format!(r"p\{index:04}"), |e| entry_path(index, e))
    }
}

fn no_unless(present: bool) -> &'static str {
    if present { "" } else { "no " }
}

/// Joins the items after `before`; empty without items.
fn list(before: &str, items: &[String], between: &str) -> String {
    match items {
        [] => String::new(),
        items => format!("{before}{}", items.join(between)),
    }
}

fn describe_registry(key: &str, value: Option<&str>, data: &RegistryValueData) -> String {
    let name = value.filter(|v| !v.is_empty()).unwrap_or("(default)");
    match (value, data) {
        (None, RegistryValueData::Absent) => format!("no {key}"),
        (_, RegistryValueData::Absent) => format!("no {key} : {name}"),
        _ => format!("{key} : {name} = {}", shown_data(data)),
    }
}

fn describe_service(service: &ServiceCheck) -> String {
    let mut text = format!("service {}", service.name);
    if let Some(start) = service.start {
        let _ = write!(text, ", {}", start.name());
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

fn describe_firewall(rule: &FirewallCheck) -> String {
    if !rule.present {
        return format!("no firewall rule {}", rule.name);
    }
    format!(
        "firewall rule {}: {} {}, protocol {}, ports {}, remote ports {}{}",
        rule.name,
        if rule.allow { "allows" } else { "blocks" },
        if rule.inbound { "in" } else { "out" },
        rule.protocol.map_or("any".to_owned(), |n| n.to_string()),
        join_or_any(&rule.ports),
        join_or_any(&rule.remote_ports),
        rule.scope.as_ref().map_or_else(String::new, describe_scope)
    )
}

fn join_or_any(ports: &[String]) -> String {
    match ports {
        [] => "any".to_owned(),
        ports => ports.join(","),
    }
}

/// Describes the scope of a firewall rule.
fn describe_scope(scope: &FirewallScope) -> String {
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

fn describe_acl(acl: &AclCheck) -> String {
    let entries: Vec<String> = acl
        .entries
        .iter()
        .map(|e| {
            let deny = if e.deny { "deny " } else { "" };
            format!("{deny}{} {:?}", e.principal, e.right)
        })
        .collect();
    let only = if acl.protected { "only " } else { "" };
    format!("{} for {only}{}", acl.path, entries.join(", "))
}

pub(super) fn shown_data(data: &RegistryValueData) -> String {
    match data {
        RegistryValueData::Sz(text) => format!("sz {text:?}"),
        RegistryValueData::ExpandSz(text) => format!("expand_sz {text:?}"),
        RegistryValueData::MultiSz(list) => format!("multi_sz {list:?}"),
        RegistryValueData::Dword(n) => format!("dword {n}"),
        RegistryValueData::Qword(n) => format!("qword {n}"),
        RegistryValueData::Binary(bytes) if bytes.is_empty() => "binary, empty".to_owned(),
        RegistryValueData::Binary(bytes) => format!("binary {}", hex::encode(bytes)),
        RegistryValueData::Absent => "absent".to_owned(),
    }
}

/// Renders a duration: `1 h 30 min`, `20 min`, `45 s`.
pub(super) fn render_duration(time: Duration) -> String {
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
    if words.is_empty() {
        "0 s".to_owned()
    } else {
        words.join(" ")
    }
}
