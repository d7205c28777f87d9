//! A service as the Service Control Manager keeps it.
//!
//! Sources: Microsoft, "HKLM\SYSTEM\CurrentControlSet\Services Registry Tree", "SERVICE_FAILURE_ACTIONS structure",
//! "CreateService" (start types).

use winimg_formats::hive::Data;

use super::finding::{Finding, Verdict};
use super::image::{Answer, Image};
use winimg_recipe::plan::check::Service;
use winimg_recipe::recipe::{RegistryKey, Start};

const SERVICES: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Services");

/// Bytes of the failure actions before the actions themselves: reset period, two strings, their number, where they are.
const HEADER: usize = 20;
/// `SC_ACTION_RESTART`
const RESTART: u32 = 1;

/// What differs, as pairs of expected and found.
#[derive(Default)]
struct Differences(Vec<(String, String)>);

impl Differences {
    fn compare(&mut self, what: &str, expected: &str, found: &str, same: bool) {
        if !same {
            let found = if found.is_empty() { "nothing" } else { found };
            self.0
                .push((format!("{what} {expected}"), format!("{what} {found}")));
        }
    }
}

pub fn service(image: &Image<'_>, service: &Service) -> Verdict {
    let key = SERVICES.join(&service.name);
    let name = &service.name;
    if image.key(&key)?.is_none() {
        return Err(Finding::error(format!("the service {name} is missing"))
            .cure("see the log of the step that makes it, and whether a later step removes it"));
    }
    let mut all = Differences::default();
    if let Some(line) = &service.command_line {
        let found = image.text(&key, "ImagePath")?.unwrap_or_default();
        all.compare("command line", line, &found, found == *line);
    }
    if let Some(start) = service.start {
        let found = started(image, &key)?;
        let expected = start_word(start);
        all.compare("start", expected, &found, found == expected);
    }
    if !service.depends.is_empty() {
        let found = depends(image, &key)?;
        let same = same_names(&service.depends, &found);
        let list = |names: &[String]| names.join(", ");
        all.compare("after", &list(&service.depends), &list(&found), same);
    }
    if let Some(account) = &service.account {
        let found = image.text(&key, "ObjectName")?.unwrap_or_default();
        let same = plain_account(account) == plain_account(&found);
        all.compare("account", account, &found, same);
    }
    if !service.restart_delays.is_empty() {
        let found = restarts(image, &key)?;
        let rendered = |delays: &[u32]| {
            let delays: Vec<String> = delays.iter().map(|d| format!("{d} ms")).collect();
            delays.join(", ")
        };
        let same = found.as_deref() == Ok(&service.restart_delays[..]);
        let found = found.map_or_else(|other| other, |delays| rendered(&delays));
        all.compare(
            "restarts after",
            &rendered(&service.restart_delays),
            &found,
            same,
        );
    }
    if all.0.is_empty() {
        return Ok(());
    }
    let (expected, found): (Vec<String>, Vec<String>) = all.0.into_iter().unzip();
    Err(
        Finding::error(format!("the service {name} is set up otherwise"))
            .expected(expected.join("; "))
            .found(found.join("; "))
            .cure("see which later step or program changes it"),
    )
}

fn start_word(start: Start) -> &'static str {
    match start {
        Start::Auto => "auto",
        Start::DelayedAuto => "delayed-auto",
        Start::Demand => "demand",
        Start::Disabled => "disabled",
    }
}

/// A service or driver as the registry has it.
pub struct Registered {
    pub name: String,
    /// `auto`, `demand` …; empty: it does not say.
    pub start: String,
    pub path: String,
    pub account: String,
}

/// Every service and driver of the control set in use.
pub fn services(image: &Image<'_>) -> Answer<Vec<Registered>> {
    let keys = match image.key(&SERVICES)? {
        Some(key) => key.keys()?,
        None => Vec::new(),
    };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let name = key.name();
        let key = SERVICES.join(&name);
        found.push(Registered {
            start: started(image, &key)?,
            path: image.text(&key, "ImagePath")?.unwrap_or_default(),
            account: image.text(&key, "ObjectName")?.unwrap_or_default(),
            name,
        });
    }
    Ok(found)
}

fn started(image: &Image<'_>, key: &RegistryKey) -> Answer<String> {
    let delayed = image.number(key, "DelayedAutostart")? == Some(1);
    Ok(match image.number(key, "Start")? {
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

fn depends(image: &Image<'_>, key: &RegistryKey) -> Answer<Vec<String>> {
    Ok(match image.value(key, "DependOnService")? {
        Some(Data::MultiSz(names)) => names,
        _ => Vec::new(),
    })
}

fn same_names(a: &[String], b: &[String]) -> bool {
    let sorted = |names: &[String]| {
        let mut names: Vec<String> = names.iter().map(|n| n.to_lowercase()).collect();
        names.sort();
        names
    };
    sorted(a) == sorted(b)
}

/// `sc.exe` takes several spellings of Windows' own accounts.
fn plain_account(account: &str) -> String {
    let lower = account.to_lowercase();
    match lower.as_str() {
        r"nt authority\system" | r".\localsystem" => "localsystem".to_owned(),
        r"nt authority\local service" => r"nt authority\localservice".to_owned(),
        r"nt authority\network service" => r"nt authority\networkservice".to_owned(),
        _ => lower,
    }
}

/// The delays of the restarts; otherwise what is there instead, in words.
fn restarts(image: &Image<'_>, key: &RegistryKey) -> Answer<Result<Vec<u32>, String>> {
    let bytes = match image.value(key, "FailureActions")? {
        Some(Data::Binary(bytes)) => bytes,
        Some(other) => return Ok(Err(other.to_string())),
        None => return Ok(Err(String::new())),
    };
    Ok(actions(&bytes))
}

fn actions(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let word = |at: usize| {
        let part = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(part.try_into().ok()?))
    };
    let broken = || format!("{} bytes that are no failure actions", bytes.len());
    let count = word(12).ok_or_else(broken)? as usize;
    let list = bytes.get(HEADER..).unwrap_or_default();
    if list.len() / 8 < count {
        return Err(broken());
    }
    (0..count)
        .map(|i| {
            let at = HEADER + 8 * i;
            match (word(at), word(at + 4)) {
                (Some(RESTART), Some(delay)) => Ok(delay),
                (Some(kind), _) => Err(format!("an action of type {kind}")),
                _ => Err(broken()),
            }
        })
        .collect()
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
        assert_eq!(actions(&bytes), Ok(vec![5000, 10000]));
        bytes[20] = 2;
        assert_eq!(actions(&bytes), Err("an action of type 2".to_owned()));
        bytes.truncate(30);
        assert_eq!(
            actions(&bytes),
            Err("30 bytes that are no failure actions".to_owned())
        );
        assert!(actions(&[]).is_err());
    }
}
