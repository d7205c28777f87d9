//! `defender`: the policy values that Group Policy writes for Microsoft Defender (Microsoft: Configure exclusions;
//! WindowsDefender.admx). Defender merges them with its own list and reads them when it starts.
//!
//! Add-MpPreference is not used: it needs PowerShell, Defender installed and its service running, and fails otherwise.

use super::super::Planned;
use super::super::site::Site;
use super::registry::set;
use crate::recipe::verb::Defender;
use crate::recipe::{GuestPath, RegistryData, RegistryKey};
use winimg_base::text::Located;

const POLICY: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Policies\Microsoft\Windows Defender");

pub(super) fn defender(site: &mut Site<'_>, defender: &Defender) -> Option<()> {
    let texts = |list: &[Located<GuestPath>]| -> Vec<String> {
        list.iter().map(|path| path.value.to_string()).collect()
    };
    exclude(site, "Processes", &texts(&defender.exclude_processes));
    exclude(site, "Paths", &texts(&defender.exclude_paths));
    exclude(site, "Extensions", &defender.exclude_extensions);
    if let Some(on) = defender.real_time {
        let key = POLICY.join("Real-Time Protection");
        let off = RegistryData::Dword(u32::from(!on));
        set(site, &key, Some("DisableRealtimeMonitoring"), &off);
    }
    Some(())
}

/// The list, each entry a value's name with the data "0", and the switch that makes Defender look at it.
fn exclude(site: &mut Site<'_>, kind: &str, list: &[String]) {
    if list.is_empty() {
        return;
    }
    let switch = POLICY.join("Exclusions");
    let name = format!("Exclusions_{kind}");
    set(site, &switch, Some(&name), &RegistryData::Dword(1));
    let entries = switch.join(kind);
    for entry in list {
        let said = |e: &Planned| {
            matches!(e, Planned::Registry { key, value: Some(v), .. }
                if v.eq_ignore_ascii_case(entry) && *key == entries)
        };
        if !site.expects.iter().any(said) {
            set(site, &entries, Some(entry), &RegistryData::Sz("0".into()));
        }
    }
}
