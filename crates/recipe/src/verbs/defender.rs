//! The verb `defender`: exclusions of Microsoft Defender, as the policy values that Group Policy
//! writes (Microsoft: Configure exclusions; WindowsDefender.admx). Defender merges them with its
//! own list and reads them when it starts.
//!
//! Add-MpPreference is not used: it needs PowerShell, Defender installed and its service running,
//! and fails otherwise.

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PlannedCheck;
use crate::ops::compiler::StepCompiler;
use crate::verbs::registry::set;
use crate::{GuestPath, RegistryKey, RegistryValueData};
use winimg_base::text::Located;

/// `defender`: exclusions of Microsoft Defender, if it is installed.
#[derive(Clone, Debug, Default)]
pub struct DefenderSpec {
    pub exclude_processes: Vec<Located<GuestPath>>,
    pub exclude_paths: Vec<Located<GuestPath>>,
    /// Without the dot.
    pub exclude_extensions: Vec<String>,
    pub real_time: Option<bool>,
}

const POLICY: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Policies\Microsoft\Windows Defender");

/// Reads `defender`: every key is optional, but an empty table is an error.
pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<DefenderSpec> {
    let fields = TableReader::open(cx, value, "defender")?;
    let exclude_processes = fields.guest_paths("exclude_processes");
    let exclude_paths = fields.guest_paths("exclude_paths");
    let exclude_extensions = read_extensions(&fields);
    let real_time = fields.read_bool("real_time").map(|r| r.value);
    if fields.table.entries.is_empty() {
        let help = "write `exclude_processes = ['C:\\k\\kubelet.exe']`";
        cx.report_missing("`defender` is empty", &fields.place, help);
        return None;
    }
    Some(DefenderSpec {
        exclude_processes: exclude_processes?,
        exclude_paths: exclude_paths?,
        exclude_extensions,
        real_time,
    })
}

fn read_extensions(fields: &TableReader<'_>) -> Vec<String> {
    let mut extensions = Vec::new();
    for text in fields.read_strings("exclude_extensions") {
        let plain = text.value.trim_start_matches('.');
        let is_word = plain
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-~$".contains(c));
        if plain.is_empty() || !is_word {
            let fact = format!("\"{}\" is not a file extension", text.value);
            fields.cx.error(fact, &text.place, "", "write `\"vhdx\"`");
            continue;
        }
        extensions.push(plain.to_owned());
    }
    extensions
}

pub fn compile(site: &mut StepCompiler<'_>, defender: &DefenderSpec) {
    set_exclusions(
        site,
        "Processes",
        &collect_paths(&defender.exclude_processes),
    );
    set_exclusions(site, "Paths", &collect_paths(&defender.exclude_paths));
    set_exclusions(site, "Extensions", &defender.exclude_extensions);
    if let Some(on) = defender.real_time {
        let key = POLICY.join("Real-Time Protection");
        let off = RegistryValueData::Dword(u32::from(!on));
        set(site, &key, Some("DisableRealtimeMonitoring"), &off);
    }
}

fn collect_paths(paths: &[Located<GuestPath>]) -> Vec<String> {
    paths.iter().map(|path| path.value.to_string()).collect()
}

/// Sets a list of exclusions, each a value with the data "0", and the value that enables the list.
fn set_exclusions(site: &mut StepCompiler<'_>, kind: &str, list: &[String]) {
    if list.is_empty() {
        return;
    }
    let switch = POLICY.join("Exclusions");
    let name = format!("Exclusions_{kind}");
    set(site, &switch, Some(&name), &RegistryValueData::Dword(1));
    let entries = switch.join(kind);
    for entry in list {
        let is_set = site.expects.iter().any(|check| {
            matches!(check, PlannedCheck::Registry { key, value: Some(name), .. }
                if name.eq_ignore_ascii_case(entry) && *key == entries)
        });
        if !is_set {
            set(
                site,
                &entries,
                Some(entry),
                &RegistryValueData::Sz("0".into()),
            );
        }
    }
}
