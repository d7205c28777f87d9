//! Reads a clone's state from the files, hives and logs on its disk.

use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::Disk;
use winimg_formats::hive::{HiveKey, HiveValueData};
use winimg_machine::vm::symptoms::LogFamily;
use winimg_recipe::RegistryKey;

use super::{
    AdministratorKeysFile, AgentLog, CloneAccount, CloneHostName, CloneLogEnd, CloneSetup,
    CloneState, CloudbaseInitState, DetectedHardware, DiskRoom, PluginState, SshdState,
    agent::{self, AgentSettings},
    services, sshd,
};
use crate::engine::evidence::logs::{self, WindowsLog};
use crate::verify::{self, CheckResult, InspectedImage, VerifyFinding};

const SETUP: RegistryKey = RegistryKey::from_static(r"HKLM\SYSTEM\Setup");
const STATE: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State");
const TCPIP: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters");
const COMPUTER_NAME: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Control\ComputerName\ComputerName");
const CRYPTOGRAPHY: RegistryKey = RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\Cryptography");
const PROFILES: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\ProfileList");
/// Source: Microsoft, System Store Locations.
const CERTIFICATES: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\SystemCertificates\MY\Certificates");
/// Microsoft: Secure Boot, the registry value that Windows sets.
const SECURE_BOOT: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Control\SecureBoot\State");
/// The plug and play id of every TPM 2.0 (TCG: ACPI Specification).
const TPM: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Enum\ACPI\MSFT0101");
const SSHD: RegistryKey = RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Services\sshd");
const SSH: &str = r"C:\ProgramData\ssh";
const CLOUDBASE_INIT: &str = r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init";
/// A 32-bit cloudbase-init uses the second.
const CLOUDBASE_KEYS: [RegistryKey; 2] = [
    RegistryKey::from_static(r"HKLM\SOFTWARE\Cloudbase Solutions\Cloudbase-Init"),
    RegistryKey::from_static(r"HKLM\SOFTWARE\WOW6432Node\Cloudbase Solutions\Cloudbase-Init"),
];
/// PLUGIN_EXECUTION_DONE
const PLUGIN_DONE: u32 = 1;
/// Maximum key depth of an instance: each slash in its ID creates a nested key.
const MAX_INSTANCE_DEPTH: u32 = 8;
/// Setup's logs, those with only errors first.
const SETUP_LOGS: [&str; 4] = [
    r"Windows\Panther\setuperr.log",
    r"Windows\Panther\setupact.log",
    r"Windows\Panther\UnattendGC\setuperr.log",
    r"Windows\Panther\UnattendGC\setupact.log",
];
/// Maximum number of kept lines of a log.
const LAST_LINES: usize = 5;
/// Maximum number of kept error lines of a log.
const LAST_ERRORS: usize = 10;
const MAX_LOG_SIZE: u64 = 64 << 20;
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Reads the state from a disk that is not in use. Fails if the disk is unreadable or has no
/// Windows; other facts that cannot be read are unknown.
pub fn read(disk: &dyn Disk, cancel: &Cancel) -> Result<CloneState> {
    let image = InspectedImage::open(disk)?;
    cancel.check()?;
    let setup = read_setup(&image).into();
    let setup_logs = read_setup_logs(&image).into();
    let host_name = read_host_name(&image).into();
    let machine_sid = verify::machine_sid(&image).into();
    let machine_guid = image.read_text(&CRYPTOGRAPHY, "MachineGuid").into();
    cancel.check()?;
    let accounts = read_accounts(&image).into();
    let sshd = read_sshd(&image).into();
    let certificates = read_certificates(&image).into();
    cancel.check()?;
    Ok(CloneState {
        setup,
        setup_logs,
        host_name,
        machine_sid,
        machine_guid,
        accounts,
        sshd,
        certificates,
        disk: read_room(&image).into(),
        cloudbase_init: read_cloudbase_init(&image).into(),
        hardware: read_hardware(&image).into(),
        failed_services: services::read(&image).into(),
    })
}

fn read_setup(image: &InspectedImage<'_>) -> CheckResult<CloneSetup> {
    let sysprep = SETUP.join(r"Status\SysprepStatus");
    Ok(CloneSetup {
        image_state: image.read_text(&STATE, "ImageState")?,
        system_setup_in_progress: image.read_number(&SETUP, "SystemSetupInProgress")?,
        setup_type: image.read_number(&SETUP, "SetupType")?,
        command_line: image
            .read_text(&SETUP, "CmdLine")?
            .filter(|l| !l.is_empty()),
        oobe_in_progress: image.read_number(&SETUP, "OOBEInProgress")?,
        generalization_state: image.read_number(&sysprep, "GeneralizationState")?,
    })
}

fn read_hardware(image: &InspectedImage<'_>) -> CheckResult<DetectedHardware> {
    let enabled = image.read_number(&SECURE_BOOT, "UEFISecureBootEnabled")?;
    Ok(DetectedHardware {
        secure_boot: enabled.map(|enabled| enabled == 1),
        tpm: image.open_key(&TPM)?.is_some(),
    })
}

fn read_setup_logs(image: &InspectedImage<'_>) -> CheckResult<Vec<CloneLogEnd>> {
    let mut ends = Vec::new();
    for path in SETUP_LOGS {
        let Some(text) = read_text(image, &format!(r"C:\{path}"), MAX_LOG_SIZE)? else {
            continue;
        };
        let log = WindowsLog {
            path: path.to_owned(),
            family: LogFamily::Setup,
            phase: String::new(),
            text,
            cut: false,
        };
        let logs_of_file = std::slice::from_ref(&log);
        let errors: Vec<String> = logs::collect_errors(logs_of_file)
            .iter()
            .map(|e| e.line.to_owned())
            .collect();
        ends.push(CloneLogEnd {
            path: log.path.clone(),
            errors: keep_last(errors, LAST_ERRORS),
            last: last_lines(&log.text),
        });
    }
    Ok(ends)
}

fn read_host_name(image: &InspectedImage<'_>) -> CheckResult<CloneHostName> {
    let name = require_text(image, &TCPIP, "Hostname")?;
    Ok(CloneHostName {
        next: image
            .read_text(&TCPIP, "NV Hostname")?
            .unwrap_or_else(|| name.clone()),
        computer: require_text(image, &COMPUTER_NAME, "ComputerName")?,
        name,
    })
}

fn require_text(image: &InspectedImage<'_>, key: &RegistryKey, name: &str) -> CheckResult<String> {
    match image.read_text(key, name)? {
        Some(text) => Ok(text),
        None => Err(VerifyFinding::unknown(format!("{key}, {name} is missing"))),
    }
}

fn read_accounts(image: &InspectedImage<'_>) -> CheckResult<Vec<CloneAccount>> {
    let mut accounts = Vec::new();
    for user in verify::list_users(image)? {
        let key = PROFILES.join(&user.sid);
        let profile = image.read_text(&key, "ProfileImagePath")?;
        let authorized_keys = match profile {
            Some(path) => {
                let path = path.replace("%SystemDrive%", "C:");
                read_keys(image, &format!(r"{path}\.ssh\authorized_keys"))?
            }
            None => Vec::new(),
        };
        accounts.push(CloneAccount {
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

fn read_sshd(image: &InspectedImage<'_>) -> CheckResult<Option<SshdState>> {
    if image.open_key(&SSHD)?.is_none() {
        return Ok(None);
    }
    let mut host_keys = Vec::new();
    for name in image.list_names(SSH)? {
        let lower = name.to_lowercase();
        if lower.starts_with("ssh_host_") && lower.ends_with("_key.pub") {
            let keys = read_keys(image, &format!(r"{SSH}\{name}"))?;
            host_keys.extend(keys.iter().map(|line| {
                let words: Vec<&str> = line.split_whitespace().take(2).collect();
                words.join(" ")
            }));
        }
    }
    host_keys.sort();
    // Server 2025 includes an sshd that is not started by default.
    if host_keys.is_empty() && image.read_number(&SSHD, "Start")? != Some(2) {
        return Ok(None);
    }
    // Without a file, sshd creates Microsoft's default.
    let config = read_text(image, &format!(r"{SSH}\sshd_config"), MAX_FILE_SIZE)?;
    Ok(Some(SshdState {
        host_keys,
        administrators: config.map_or(AdministratorKeysFile::Machine, |text| {
            sshd::find_administrators_file(&text)
        }),
        administrators_keys: read_keys(image, &format!(r"{SSH}\administrators_authorized_keys"))?,
    }))
}

fn read_certificates(image: &InspectedImage<'_>) -> CheckResult<Vec<String>> {
    let keys = match image.open_key(&CERTIFICATES)? {
        Some(key) => key.read_keys()?,
        None => Vec::new(),
    };
    let mut found: Vec<String> = keys.iter().map(|key| key.name().to_uppercase()).collect();
    found.sort();
    Ok(found)
}

fn read_room(image: &InspectedImage<'_>) -> CheckResult<DiskRoom> {
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

fn read_cloudbase_init(image: &InspectedImage<'_>) -> CheckResult<Option<CloudbaseInitState>> {
    if !image.volume.exists(CLOUDBASE_INIT)? {
        return Ok(None);
    }
    let (service, first) = ("cloudbase-init", "cloudbase-init-unattend");
    let own = read_agent_settings(image, service)?;
    let of_first = read_agent_settings(image, first)?;
    let user = own
        .as_ref()
        .map(|s| s.get("username").unwrap_or("Admin").to_owned());
    Ok(Some(CloudbaseInitState {
        user: user.filter(|_| has_plugin(&own, "CreateUserPlugin")),
        sets_host_name: has_plugin(&own, "SetHostNamePlugin")
            || has_plugin(&of_first, "SetHostNamePlugin"),
        writes_keys: has_plugin(&own, "SetUserSSHPublicKeysPlugin"),
        runs_user_data: has_plugin(&own, "UserDataPlugin"),
        first_pass: read_agent_log(image, of_first, first)?,
        service: read_agent_log(image, own, service)?,
        plugins: read_plugin_states(image)?,
    }))
}

fn read_agent_settings(
    image: &InspectedImage<'_>,
    name: &str,
) -> CheckResult<Option<AgentSettings>> {
    let path = format!(r"{CLOUDBASE_INIT}\conf\{name}.conf");
    let text = read_text(image, &path, MAX_FILE_SIZE)?;
    Ok(text.map(|text| AgentSettings::parse(&text)))
}

fn has_plugin(settings: &Option<AgentSettings>, class: &str) -> bool {
    settings
        .as_ref()
        .is_some_and(|settings| settings.has_plugin(class))
}

fn read_agent_log(
    image: &InspectedImage<'_>,
    settings: Option<AgentSettings>,
    name: &str,
) -> CheckResult<Option<AgentLog>> {
    let folder = format!(r"{CLOUDBASE_INIT}\log");
    let path = settings
        .unwrap_or_default()
        .log(&folder, &format!("{name}.log"));
    let Some(text) = read_text(image, &path, MAX_LOG_SIZE)? else {
        return Ok(None);
    };
    Ok(Some(AgentLog {
        runs: agent::parse_runs(&text),
        last: last_lines(&text),
        path,
    }))
}

fn read_plugin_states(image: &InspectedImage<'_>) -> CheckResult<Vec<PluginState>> {
    let mut states = Vec::new();
    for root in &CLOUDBASE_KEYS {
        if let Some(key) = image.open_key(root)? {
            collect_plugins(&key, "", MAX_INSTANCE_DEPTH, &mut states)?;
        }
    }
    Ok(states)
}

fn collect_plugins(
    key: &HiveKey<'_>,
    instance: &str,
    depth: u32,
    states: &mut Vec<PluginState>,
) -> CheckResult<()> {
    for key in key.read_keys()? {
        let name = key.name();
        if name.eq_ignore_ascii_case("Plugins") {
            for (plugin, data) in key.read_values()? {
                states.push(PluginState {
                    instance: instance.to_owned(),
                    plugin,
                    done: data == HiveValueData::Dword(PLUGIN_DONE),
                });
            }
        } else if depth > 0 {
            let instance = match instance {
                "" => name,
                parent => format!("{parent}/{name}"),
            };
            collect_plugins(&key, &instance, depth - 1, states)?;
        }
    }
    Ok(())
}

fn read_keys(image: &InspectedImage<'_>, path: &str) -> CheckResult<Vec<String>> {
    let text = read_text(image, path, MAX_FILE_SIZE)?;
    Ok(text.map(|text| sshd::parse_keys(&text)).unwrap_or_default())
}

/// Reads and decodes a text file. Returns `None` if there is no such file.
fn read_text(image: &InspectedImage<'_>, path: &str, limit: u64) -> CheckResult<Option<String>> {
    let bytes = image.volume.read(path, limit)?;
    Ok(bytes.map(|bytes| logs::decode(&bytes)))
}

fn last_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_end).filter(|l| !l.is_empty());
    keep_last(lines.map(str::to_owned).collect(), LAST_LINES)
}

fn keep_last(mut lines: Vec<String>, most: usize) -> Vec<String> {
    lines.drain(..lines.len().saturating_sub(most));
    lines
}
