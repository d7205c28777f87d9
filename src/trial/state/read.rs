//! Reads a clone's state from its disk: files, hives, logs.

use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::Disk;
use winimg_formats::hive::{Data, Key};
use winimg_recipe::recipe::RegistryKey;

use super::{
    Account, AgentLog, CloneState, CloudbaseInit, DiskRoom, FoundHardware, HostName, KeysFile,
    LogEnd, PluginState, Setup, Sshd,
    agent::{self, Settings},
    services, sshd,
};
use crate::engine::evidence::logs::{self, Family, Log};
use crate::verify::{self, Answer, Finding, Image};

const SETUP: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\Setup");
const STATE: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State");
const TCPIP: RegistryKey =
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters");
const COMPUTER_NAME: RegistryKey =
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Control\ComputerName\ComputerName");
const CRYPTOGRAPHY: RegistryKey = RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Cryptography");
const PROFILES: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\ProfileList");
/// Source: Microsoft, System Store Locations.
const CERTIFICATES: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\SystemCertificates\MY\Certificates");
/// Microsoft: Secure Boot, the registry value that Windows sets.
const SECURE_BOOT: RegistryKey =
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Control\SecureBoot\State");
/// The plug and play id of every TPM 2.0 (TCG: ACPI Specification).
const TPM: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Enum\ACPI\MSFT0101");
const SSHD: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Services\sshd");
const SSH: &str = r"C:\ProgramData\ssh";
const CLOUDBASE_INIT: &str = r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init";
/// A 32-bit cloudbase-init writes below the second.
const CLOUDBASE_KEYS: [RegistryKey; 2] = [
    RegistryKey::known(r"HKLM\SOFTWARE\Cloudbase Solutions\Cloudbase-Init"),
    RegistryKey::known(r"HKLM\SOFTWARE\WOW6432Node\Cloudbase Solutions\Cloudbase-Init"),
];
/// PLUGIN_EXECUTION_DONE
const PLUGIN_DONE: u32 = 1;
/// An instance's id may have slashes, which make keys below keys.
const DEEPEST_INSTANCE: u32 = 8;
/// Errors before the end alone, so that they come first.
const SETUP_LOGS: [&str; 4] = [
    r"Windows\Panther\setuperr.log",
    r"Windows\Panther\setupact.log",
    r"Windows\Panther\UnattendGC\setuperr.log",
    r"Windows\Panther\UnattendGC\setupact.log",
];
/// Lines of a log that are kept.
const LAST_LINES: usize = 5;
const LAST_ERRORS: usize = 10;
const LONGEST_LOG: u64 = 64 << 20;
const LONGEST_FILE: u64 = 1 << 20;

/// Reads a disk that nothing writes. None with Windows on it, or one that can't be read at all, is an error; all else that can't be
/// read is unknown.
pub fn read(disk: &dyn Disk, cancel: &Cancel) -> Result<CloneState> {
    let image = Image::open(disk)?;
    let seen = || cancel.check();
    seen()?;
    let setup = setup(&image).into();
    let setup_logs = setup_logs(&image).into();
    let host_name = host_name(&image).into();
    let machine_sid = verify::machine_sid(&image).into();
    let machine_guid = image.text(&CRYPTOGRAPHY, "MachineGuid").into();
    seen()?;
    let accounts = accounts(&image).into();
    let sshd = sshd_state(&image).into();
    let certificates = certificates(&image).into();
    seen()?;
    Ok(CloneState {
        setup,
        setup_logs,
        host_name,
        machine_sid,
        machine_guid,
        accounts,
        sshd,
        certificates,
        disk: room(&image).into(),
        cloudbase_init: cloudbase_init(&image).into(),
        hardware: hardware(&image).into(),
        failed_services: services::read(&image).into(),
    })
}

fn setup(image: &Image<'_>) -> Answer<Setup> {
    let number = |name| image.number(&SETUP, name);
    let sysprep = SETUP.join(r"Status\SysprepStatus");
    Ok(Setup {
        image_state: image.text(&STATE, "ImageState")?,
        system_setup_in_progress: number("SystemSetupInProgress")?,
        setup_type: number("SetupType")?,
        command_line: image.text(&SETUP, "CmdLine")?.filter(|l| !l.is_empty()),
        oobe_in_progress: number("OOBEInProgress")?,
        generalization_state: image.number(&sysprep, "GeneralizationState")?,
    })
}

fn hardware(image: &Image<'_>) -> Answer<FoundHardware> {
    let enabled = image.number(&SECURE_BOOT, "UEFISecureBootEnabled")?;
    Ok(FoundHardware {
        secure_boot: enabled.map(|enabled| enabled == 1),
        tpm: image.key(&TPM)?.is_some(),
    })
}

fn setup_logs(image: &Image<'_>) -> Answer<Vec<LogEnd>> {
    let mut ends = Vec::new();
    for path in SETUP_LOGS {
        let Some(text) = text(image, &format!(r"C:\{path}"), LONGEST_LOG)? else {
            continue;
        };
        let log = Log {
            path: path.to_owned(),
            family: Family::Setup,
            phase: String::new(),
            text,
            cut: false,
        };
        let one = std::slice::from_ref(&log);
        let errors: Vec<String> = logs::errors(one)
            .iter()
            .map(|e| e.line.to_owned())
            .collect();
        ends.push(LogEnd {
            path: log.path.clone(),
            errors: last_of(errors, LAST_ERRORS),
            last: last_lines(&log.text),
        });
    }
    Ok(ends)
}

fn host_name(image: &Image<'_>) -> Answer<HostName> {
    let text = |key: &RegistryKey, name: &str| match image.text(key, name)? {
        Some(text) => Ok(text),
        None => Err(Finding::unknown(format!("{key}, {name} is missing"))),
    };
    let name = text(&TCPIP, "Hostname")?;
    Ok(HostName {
        next: image
            .text(&TCPIP, "NV Hostname")?
            .unwrap_or_else(|| name.clone()),
        computer: text(&COMPUTER_NAME, "ComputerName")?,
        name,
    })
}

fn accounts(image: &Image<'_>) -> Answer<Vec<Account>> {
    let mut accounts = Vec::new();
    for user in verify::users(image)? {
        let key = PROFILES.join(&user.sid);
        let profile = image.text(&key, "ProfileImagePath")?;
        let authorized_keys = match profile {
            Some(path) => {
                let path = path.replace("%SystemDrive%", "C:");
                key_lines(image, &format!(r"{path}\.ssh\authorized_keys"))?
            }
            None => Vec::new(),
        };
        accounts.push(Account {
            name: user.name,
            rid: user.rid,
            disabled: user.disabled,
            must_change_password: user.must_change_password,
            administrator: user.administrator,
            authorized_keys,
        });
    }
    Ok(accounts)
}

fn sshd_state(image: &Image<'_>) -> Answer<Option<Sshd>> {
    if image.key(&SSHD)?.is_none() {
        return Ok(None);
    }
    let mut host_keys = Vec::new();
    for name in image.names(SSH)? {
        let lower = name.to_lowercase();
        if lower.starts_with("ssh_host_") && lower.ends_with("_key.pub") {
            let keys = key_lines(image, &format!(r"{SSH}\{name}"))?;
            let plain = |line: &String| {
                let words: Vec<&str> = line.split_whitespace().take(2).collect();
                words.join(" ")
            };
            host_keys.extend(keys.iter().map(plain));
        }
    }
    host_keys.sort();
    // Server 2025 has one that nobody starts.
    if host_keys.is_empty() && image.number(&SSHD, "Start")? != Some(2) {
        return Ok(None);
    }
    // sshd writes Microsoft's own file where there is none.
    let config = text(image, &format!(r"{SSH}\sshd_config"), LONGEST_FILE)?;
    Ok(Some(Sshd {
        host_keys,
        administrators: config.map_or(KeysFile::Machine, |text| sshd::administrators(&text)),
        administrators_keys: key_lines(image, &format!(r"{SSH}\administrators_authorized_keys"))?,
    }))
}

fn certificates(image: &Image<'_>) -> Answer<Vec<String>> {
    let keys = match image.key(&CERTIFICATES)? {
        Some(key) => key.keys()?,
        None => Vec::new(),
    };
    let mut found: Vec<String> = keys.iter().map(|key| key.name().to_uppercase()).collect();
    found.sort();
    Ok(found)
}

fn room(image: &Image<'_>) -> Answer<DiskRoom> {
    let windows = &image.partition;
    let end = windows.start.saturating_add(windows.len);
    let behind = image.table.partitions.iter().filter(|p| p.start >= end);
    let starts: Vec<u64> = behind.map(|p| p.start).collect();
    let next = starts.iter().copied().min().unwrap_or(image.disk.len());
    let mut boot = [0; 512];
    image.disk.read_at(windows.start, &mut boot)?;
    let sector = u64::from(u16::from_le_bytes([boot[11], boot[12]]));
    let sectors = u64::from_le_bytes([
        boot[40], boot[41], boot[42], boot[43], boot[44], boot[45], boot[46], boot[47],
    ]);
    Ok(DiskRoom {
        disk: image.disk.len(),
        partition: windows.len,
        volume: sectors.saturating_mul(sector),
        behind: next.saturating_sub(end),
        partitions_behind: u32::try_from(starts.len()).unwrap_or(u32::MAX),
    })
}

fn cloudbase_init(image: &Image<'_>) -> Answer<Option<CloudbaseInit>> {
    if !image.volume.exists(CLOUDBASE_INIT)? {
        return Ok(None);
    }
    let settings = |name: &str| {
        let path = format!(r"{CLOUDBASE_INIT}\conf\{name}.conf");
        Ok::<_, Box<Finding>>(text(image, &path, LONGEST_FILE)?.map(|t| Settings::parse(&t)))
    };
    let log = |settings: &Option<Settings>, name: &str| {
        let settings = settings.clone().unwrap_or_default();
        let folder = format!(r"{CLOUDBASE_INIT}\log");
        agent_log(image, settings.log(&folder, &format!("{name}.log")))
    };
    let (service, first) = ("cloudbase-init", "cloudbase-init-unattend");
    let (own, of_first) = (settings(service)?, settings(first)?);
    let runs = |class: &str| own.as_ref().is_some_and(|settings| settings.runs(class));
    let user = own
        .as_ref()
        .map(|s| s.get("username").unwrap_or("Admin").to_owned());
    let in_first = |class: &str| {
        of_first
            .as_ref()
            .is_some_and(|settings| settings.runs(class))
    };
    Ok(Some(CloudbaseInit {
        user: user.filter(|_| runs("CreateUserPlugin")),
        sets_host_name: runs("SetHostNamePlugin") || in_first("SetHostNamePlugin"),
        writes_keys: runs("SetUserSSHPublicKeysPlugin"),
        runs_user_data: runs("UserDataPlugin"),
        first_pass: log(&of_first, first)?,
        service: log(&own, service)?,
        plugins: plugin_states(image)?,
    }))
}

fn agent_log(image: &Image<'_>, path: String) -> Answer<Option<AgentLog>> {
    let Some(text) = text(image, &path, LONGEST_LOG)? else {
        return Ok(None);
    };
    Ok(Some(AgentLog {
        runs: agent::runs(&text),
        last: last_lines(&text),
        path,
    }))
}

fn plugin_states(image: &Image<'_>) -> Answer<Vec<PluginState>> {
    let mut states = Vec::new();
    for root in &CLOUDBASE_KEYS {
        if let Some(key) = image.key(root)? {
            below(&key, "", DEEPEST_INSTANCE, &mut states)?;
        }
    }
    Ok(states)
}

fn below(key: &Key<'_>, instance: &str, depth: u32, states: &mut Vec<PluginState>) -> Answer<()> {
    for key in key.keys()? {
        let name = key.name();
        if name.eq_ignore_ascii_case("Plugins") {
            for (plugin, data) in key.values()? {
                states.push(PluginState {
                    instance: instance.to_owned(),
                    plugin,
                    done: data == Data::Dword(PLUGIN_DONE),
                });
            }
        } else if depth > 0 {
            let instance = match instance {
                "" => name,
                above => format!("{above}/{name}"),
            };
            below(&key, &instance, depth - 1, states)?;
        }
    }
    Ok(())
}

fn key_lines(image: &Image<'_>, path: &str) -> Answer<Vec<String>> {
    let text = text(image, path, LONGEST_FILE)?;
    Ok(text.map(|text| sshd::keys(&text)).unwrap_or_default())
}

/// A file's text, in whatever encoding Windows wrote it. `None`: no such file.
fn text(image: &Image<'_>, path: &str, limit: u64) -> Answer<Option<String>> {
    let bytes = image.volume.read(path, limit)?;
    Ok(bytes.map(|bytes| logs::decode(&bytes)))
}

fn last_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_end).filter(|l| !l.is_empty());
    last_of(lines.map(str::to_owned).collect(), LAST_LINES)
}

fn last_of(mut lines: Vec<String>, most: usize) -> Vec<String> {
    lines.drain(..lines.len().saturating_sub(most));
    lines
}
