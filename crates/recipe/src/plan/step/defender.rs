//! `defender`: the policy values that Group Policy writes for Microsoft Defender (Microsoft: Configure exclusions;
//! WindowsDefender.admx). Defender merges them with its own list and reads them when it starts.
//!
//! Add-MpPreference is not used: it needs PowerShell, Defender installed and its service running, and fails otherwise.

use super::super::Planned;
use super::super::reg::Key;
use super::super::site::Site;
use super::registry::set;
use crate::recipe::RegistryData;
use crate::recipe::verb::Defender;

const POLICY: &str = r"HKLM\SOFTWARE\Policies\Microsoft\Windows Defender";

pub(super) fn defender(site: &mut Site<'_>, defender: &Defender) -> Option<()> {
    let paths = |site: &mut Site<'_>, list: &[winimg_base::text::Located<String>]| {
        let texts: Vec<String> = list
            .iter()
            .filter_map(|path| site.path(path))
            .map(|path| path.text)
            .collect();
        (texts.len() == list.len()).then_some(texts)
    };
    let processes = paths(site, &defender.exclude_processes);
    let folders = paths(site, &defender.exclude_paths);
    exclude(site, "Processes", &processes?)?;
    exclude(site, "Paths", &folders?)?;
    exclude(site, "Extensions", &defender.exclude_extensions)?;
    if let Some(on) = defender.real_time {
        let key = key(site, r"\Real-Time Protection")?;
        let off = RegistryData::Dword(u32::from(!on));
        set(site, &key, Some("DisableRealtimeMonitoring"), &off);
    }
    Some(())
}

/// The list, each entry a value's name with the data "0", and the switch that makes Defender look at it.
fn exclude(site: &mut Site<'_>, kind: &str, list: &[String]) -> Option<()> {
    if list.is_empty() {
        return Some(());
    }
    let switch = key(site, r"\Exclusions")?;
    let name = format!("Exclusions_{kind}");
    set(site, &switch, Some(&name), &RegistryData::Dword(1));
    let entries = key(site, &format!(r"\Exclusions\{kind}"))?;
    for entry in list {
        let below = format!(r"\Exclusions\{kind}").to_ascii_lowercase();
        let said = |e: &Planned| {
            matches!(e, Planned::Registry { key, value: Some(v), .. }
                if v.eq_ignore_ascii_case(entry) && key.to_ascii_lowercase().ends_with(&below))
        };
        if !site.expects.iter().any(said) {
            set(site, &entries, Some(entry), &RegistryData::Sz("0".into()));
        }
    }
    Some(())
}

fn key(site: &mut Site<'_>, below: &str) -> Option<Key> {
    let place = site.step.place.clone();
    site.judged(Key::parse(&format!("{POLICY}{below}")), &place)
}
