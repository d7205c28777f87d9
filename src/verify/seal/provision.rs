//! Logins to a clone, and the agent that sets them up.
//!
//! Sources: cloudbase-init, `plugins/windows/createuser.py` and `osutils/windows.py` (a renamed
//! account keeps its disabled flag); cloudbase-init-installer, SetSetupComplete.cmd (its service is
//! started when Setup has ended); kubernetes-sigs/image-builder#2117 (a built-in account that must
//! change its password); cofoundry (grey desktops of Server 2025 because of a profile of the
//! build's Administrator).

use winimg_recipe::RegistryKey;

use super::super::account;
use super::super::finding::{Verdict, VerifyFinding};
use super::super::image::{CheckResult, InspectedImage};
use super::super::system::VERSION;
use super::answer::CloneAnswerFile;
use super::expectations::SealExpectations;

const AGENT: &str = "cloudbase-init";
const SERVICE: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Services\cloudbase-init");
const SETTINGS: &str =
    r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\conf\cloudbase-init.conf";
/// Scripts that Setup and Azure's agent run at their end.
const START_SCRIPTS: [&str; 2] = [
    r"C:\Windows\Setup\Scripts\SetupComplete.cmd",
    r"C:\Windows\OEM\SetupComplete2.cmd",
];
const MAX_FILE_SIZE: u64 = 1 << 20;
/// `SERVICE_AUTO_START`, also for a delayed start.
const AUTO_START: u32 = 2;
/// Build number of Server 2025.
const GREY_DESKTOP_BUILD: u32 = 26100;

pub const CHECKS: &[fn(&InspectedImage<'_>, &SealExpectations<'_>) -> Verdict] = &[
    check_agent_start,
    |image, _| check_account_usable(image),
    |image, _| check_account_disabled(image),
    |image, _| check_no_profile(image),
];

/// Warns about an agent that starts automatically although something starts it later: it could
/// restart the clone in the middle of Setup.
fn check_agent_start(image: &InspectedImage<'_>, expected: &SealExpectations<'_>) -> Verdict {
    if image.read_number(&SERVICE, "Start")? != Some(AUTO_START) || expected.has_start_type(AGENT) {
        return Ok(());
    }
    let by_answer_file = CloneAnswerFile::read(image)?.is_some_and(|file| file.runs_cloudbase());
    let mut starter = by_answer_file.then_some("the answer file");
    for script in START_SCRIPTS {
        if starter.is_none() && read_lowercase(image, script)?.contains("cloudbase") {
            starter = Some(script);
        }
    }
    let Some(starter) = starter else {
        return Ok(());
    };
    let fact = "cloudbase-init would start with Windows on a clone before Setup has ended, and may \
                restart it";
    Err(VerifyFinding::warning(fact)
        .expected(format!("start demand, because {starter} starts it"))
        .found(format!("{SERVICE}, Start = {AUTO_START}"))
        .cure(
            "add a step before the image is sealed: service = { name = \"cloudbase-init\", start = \
             \"demand\", state = \"stopped\" }",
        ))
}

/// Reads a text file in lower case; empty if it does not exist.
fn read_lowercase(image: &InspectedImage<'_>, path: &str) -> CheckResult<String> {
    let bytes = image.volume.read(path, MAX_FILE_SIZE)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).to_lowercase())
}

/// Finds a value of cloudbase-init's settings, in lower case.
fn find_setting<'t>(settings: &'t str, name: &str) -> Option<&'t str> {
    settings
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn check_account_usable(image: &InspectedImage<'_>) -> Verdict {
    let settings = read_lowercase(image, SETTINGS)?;
    let makes_user =
        find_setting(&settings, "plugins").is_none_or(|p| p.contains("createuserplugin"));
    if !makes_user || find_setting(&settings, "rename_admin_user") != Some("true") {
        return Ok(());
    }
    let reason = if account::is_disabled(image, account::ADMINISTRATOR_RID)? == Some(true) {
        "the account is disabled"
    } else if CloneAnswerFile::read(image)?.is_some_and(|file| file.disables_administrator()) {
        "the answer file disables the account"
    } else {
        return Ok(());
    };
    let fact = "no one can log in to a clone: cloudbase-init renames the disabled built-in \
                Administrator without enabling it";
    Err(VerifyFinding::error(fact)
        .expected(format!("{SETTINGS}: rename_admin_user=false"))
        .found(format!("rename_admin_user=true, and {reason}"))
        .cure("let cloudbase-init create a user of its own (docs/accounts.md)"))
}

fn check_account_disabled(image: &InspectedImage<'_>) -> Verdict {
    if read_lowercase(image, SETTINGS)?.is_empty()
        || account::is_disabled(image, account::ADMINISTRATOR_RID)? != Some(false)
    {
        return Ok(());
    }
    // Without an answer file the platform's agent handles the account.
    let Some(answer) = CloneAnswerFile::read(image)? else {
        return Ok(());
    };
    if answer.handles_administrator() {
        return Ok(());
    }
    let fact = "the built-in Administrator stays enabled without a password on a clone, which can \
                stop its first boot";
    Err(VerifyFinding::warning(fact)
        .expected("an answer file that disables it")
        .found("an enabled account with the RID 500, and an answer file that ignores it")
        .cure("add {{disable_administrator}} to the answer file of the seal (docs/accounts.md)"))
}

/// Warns about a profile of the Administrator, which only affects desktops of Server 2025 or later.
fn check_no_profile(image: &InspectedImage<'_>) -> Verdict {
    let build = image.read_text(&VERSION, "CurrentBuildNumber")?;
    let is_new = build.is_some_and(|b| b.parse::<u32>().is_ok_and(|b| b >= GREY_DESKTOP_BUILD));
    let kind = image.read_text(&VERSION, "InstallationType")?;
    if !is_new || kind.as_deref() != Some("Server") {
        return Ok(());
    }
    let list = VERSION.join("ProfileList");
    let profiles = match image.open_key(&list)? {
        Some(key) => key.read_keys()?,
        None => Vec::new(),
    };
    let names = profiles.iter().map(|key| key.name());
    match names.filter(|sid| sid.ends_with("-500")).min() {
        None => Ok(()),
        Some(sid) => Err(VerifyFinding::warning(
            "the built-in Administrator has a profile from the build: desktops of clones may \
                 stay grey",
        )
        .found(format!(r"{list}\{sid}"))
        .cure(
            "remove the profile in the specialize pass of the clone, or do not log on in the \
                 build",
        )),
    }
}
