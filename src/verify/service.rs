//! Services in the registry of the Service Control Manager.
//!
//! Sources: Microsoft, "HKLM\SYSTEM\CurrentControlSet\Services Registry Tree",
//! "SERVICE_FAILURE_ACTIONS structure", "CreateService" (start types).

use winimg_formats::hive::HiveValueData;

use super::finding::{Verdict, VerifyFinding};
use super::image::{CheckResult, InspectedImage};
use winimg_recipe::RegistryKey;
use winimg_recipe::plan::check::{ServiceCheck, ServiceStartMode};

const SERVICES: RegistryKey = RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Services");

/// Bytes before the list of failure actions: reset period, two strings, count, pointer.
const HEADER: usize = 20;
/// `SC_ACTION_RESTART`
const RESTART: u32 = 1;

/// Differences as pairs of expected and found.
#[derive(Default)]
struct ServiceDifferences(Vec<(String, String)>);

impl ServiceDifferences {
    fn compare(&mut self, what: &str, expected: &str, found: &str, same: bool) {
        if !same {
            let found = if found.is_empty() { "nothing" } else { found };
            self.0
                .push((format!("{what} {expected}"), format!("{what} {found}")));
        }
    }
}

pub fn check_service(image: &InspectedImage<'_>, service: &ServiceCheck) -> Verdict {
    let key = SERVICES.join(&service.name);
    let name = &service.name;
    if image.open_key(&key)?.is_none() {
        return Err(
            VerifyFinding::error(format!("the service {name} is missing")).cure(
                "check the log of the step that creates it, and whether a later step removes it",
            ),
        );
    }
    let mut all = ServiceDifferences::default();
    if let Some(line) = &service.command_line {
        let found = image.read_text(&key, "ImagePath")?.unwrap_or_default();
        all.compare("command line", line, &found, found == *line);
    }
    if let Some(start) = service.start {
        let found = read_start(image, &key)?;
        let expected = start_word(start);
        all.compare("start", expected, &found, found == expected);
    }
    if !service.depends.is_empty() {
        let found = read_depends(image, &key)?;
        let same = same_names(&service.depends, &found);
        all.compare(
            "after",
            &service.depends.join(", "),
            &found.join(", "),
            same,
        );
    }
    if let Some(account) = &service.account {
        let found = image.read_text(&key, "ObjectName")?.unwrap_or_default();
        let same = plain_account(account) == plain_account(&found);
        all.compare("account", account, &found, same);
    }
    if !service.restart_delays.is_empty() {
        let found = read_restarts(image, &key)?;
        let same = found.as_deref() == Ok(&service.restart_delays[..]);
        let found = found.map_or_else(|other| other, |delays| join_delays(&delays));
        all.compare(
            "restarts after",
            &join_delays(&service.restart_delays),
            &found,
            same,
        );
    }
    if all.0.is_empty() {
        return Ok(());
    }
    let (expected, found): (Vec<String>, Vec<String>) = all.0.into_iter().unzip();
    Err(
        VerifyFinding::error(format!("the service {name} has other settings"))
            .expected(expected.join("; "))
            .found(found.join("; "))
            .cure("find the later step or program that changes it"),
    )
}

fn join_delays(delays: &[u32]) -> String {
    let delays: Vec<String> = delays.iter().map(|d| format!("{d} ms")).collect();
    delays.join(", ")
}

fn start_word(start: ServiceStartMode) -> &'static str {
    match start {
        ServiceStartMode::Auto => "auto",
        ServiceStartMode::DelayedAuto => "delayed-auto",
        ServiceStartMode::Demand => "demand",
        ServiceStartMode::Disabled => "disabled",
    }
}

/// A service or driver in the registry.
pub struct RegisteredService {
    pub name: String,
    /// `auto`, `demand` …; empty if it is not set.
    pub start: String,
    pub path: String,
    pub account: String,
}

/// Returns every service and driver of the current control set.
pub fn list_services(image: &InspectedImage<'_>) -> CheckResult<Vec<RegisteredService>> {
    let keys = match image.open_key(&SERVICES)? {
        Some(key) => key.read_keys()?,
        None => Vec::new(),
    };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let name = key.name();
        let key = SERVICES.join(&name);
        found.push(RegisteredService {
            start: read_start(image, &key)?,
            path: image.read_text(&key, "ImagePath")?.unwrap_or_default(),
            account: image.read_text(&key, "ObjectName")?.unwrap_or_default(),
            name,
        });
    }
    Ok(found)
}

fn read_start(image: &InspectedImage<'_>, key: &RegistryKey) -> CheckResult<String> {
    let delayed = image.read_number(key, "DelayedAutostart")? == Some(1);
    Ok(match image.read_number(key, "Start")? {
        Some(0) => "boot".to_owned(),
        Some(1) => "system".to_owned(),
        Some(2) if delayed => "delayed-auto".to_owned(),
        Some(2) => "auto".to_owned(),
        Some(3) => "demand".to_owned(),
        Some(4) => "disabled".to_owned(),
        Some(n) => format!("type {n}"),
        None => String::new(),
    })
}

fn read_depends(image: &InspectedImage<'_>, key: &RegistryKey) -> CheckResult<Vec<String>> {
    Ok(match image.read_value(key, "DependOnService")? {
        Some(HiveValueData::MultiSz(names)) => names,
        _ => Vec::new(),
    })
}

fn same_names(a: &[String], b: &[String]) -> bool {
    sort_lowercase(a) == sort_lowercase(b)
}

fn sort_lowercase(names: &[String]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|n| n.to_lowercase()).collect();
    names.sort();
    names
}

/// Normalizes the names of Windows' own accounts: `sc.exe` accepts several spellings.
fn plain_account(account: &str) -> String {
    let lower = account.to_lowercase();
    match lower.as_str() {
        r"nt authority\system" | r".\localsystem" => "localsystem".to_owned(),
        r"nt authority\local service" => r"nt authority\localservice".to_owned(),
        r"nt authority\network service" => r"nt authority\networkservice".to_owned(),
        _ => lower,
    }
}

/// Reads the delays of the restarts; the error describes the actual setting.
fn read_restarts(
    image: &InspectedImage<'_>,
    key: &RegistryKey,
) -> CheckResult<Result<Vec<u32>, String>> {
    let bytes = match image.read_value(key, "FailureActions")? {
        Some(HiveValueData::Binary(bytes)) => bytes,
        Some(other) => return Ok(Err(other.to_string())),
        None => return Ok(Err(String::new())),
    };
    Ok(parse_actions(&bytes))
}

fn parse_actions(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let invalid = format!("{} bytes of invalid failure actions", bytes.len());
    let Some(count) = read_u32(bytes, 12) else {
        return Err(invalid);
    };
    let list = bytes.get(HEADER..).unwrap_or_default();
    if list.len() / 8 < count as usize {
        return Err(invalid);
    }
    (0..count as usize)
        .map(|i| {
            let at = HEADER + 8 * i;
            match (read_u32(bytes, at), read_u32(bytes, at + 4)) {
                (Some(RESTART), Some(delay)) => Ok(delay),
                (Some(kind), _) => Err(format!("an action of type {kind}")),
                _ => Err(invalid.clone()),
            }
        })
        .collect()
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_actions_are_read_as_windows_writes_them() {
        // sc.exe failure x reset= 86400 actions= restart/5000/restart/10000
        let mut bytes =
            hex::decode("805101000000000000000000020000001400000001000000881300000100000010270000")
                .expect("hex");
        assert_eq!(parse_actions(&bytes), Ok(vec![5000, 10000]));
        bytes[20] = 2;
        assert_eq!(parse_actions(&bytes), Err("an action of type 2".to_owned()));
        bytes.truncate(30);
        assert_eq!(
            parse_actions(&bytes),
            Err("30 bytes of invalid failure actions".to_owned())
        );
        assert!(parse_actions(&[]).is_err());
    }
}
