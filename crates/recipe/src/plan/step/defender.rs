//! Compiles `defender` to the policy values that Group Policy writes for Microsoft DefenderSpec
//! (Microsoft: Configure exclusions; WindowsDefender.admx). DefenderSpec merges them with its own
//! list and reads them when it starts.
//!
//! Add-MpPreference is not used: it needs PowerShell, DefenderSpec installed and its service
//! running, and fails otherwise.

use super::super::PlannedCheck;
use super::super::step_compiler::StepCompiler;
use super::registry::set;
use crate::recipe::verb::DefenderSpec;
use crate::recipe::{GuestPath, RegistryKey, RegistryValueData};
use winimg_base::text::Located;

const POLICY: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Policies\Microsoft\Windows Defender");

pub(super) fn compile_defender(site: &mut StepCompiler<'_>, defender: &DefenderSpec) -> Option<()> {
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
    Some(())
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
