//! Who can log in to a clone, and the agent that sees to it.
//!
//! Sources: cloudbase-init, `plugins/windows/createuser.py` and `osutils/windows.py` (a renamed account keeps its disabled
//! flag); cloudbase-init-installer, SetSetupComplete.cmd (its service is started when Setup has ended);
//! kubernetes-sigs/image-builder#2117 (a built-in account that must change its password); cofoundry (grey desktops of Server
//! 2025 behind a profile of the build's Administrator).

use winimg_recipe::recipe::RegistryKey;

use super::super::account;
use super::super::finding::{Finding, Verdict};
use super::super::image::{Answer, Image};
use super::super::system::VERSION;
use super::answer::AnswerFile;
use super::asked::Asked;

const AGENT: &str = "cloudbase-init";
const SERVICE: RegistryKey =
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Services\cloudbase-init");
const SETTINGS: &str =
    r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\conf\cloudbase-init.conf";
/// Setup and Azure's agent run these when they have ended.
const STARTERS: [&str; 2] = [
    r"C:\Windows\Setup\Scripts\SetupComplete.cmd",
    r"C:\Windows\OEM\SetupComplete2.cmd",
];
const LIMIT: u64 = 1 << 20;
/// `SERVICE_AUTO_START`, also of one that starts delayed.
const AUTO: u32 = 2;
/// Server 2025.
const GREY_FROM: u32 = 26100;

pub const CHECKS: &[fn(&Image<'_>, &Asked<'_>) -> Verdict] = &[
    agent_waits,
    |image, _| account_is_usable(image),
    |image, _| account_is_closed(image),
    |image, _| no_profile(image),
];

/// An agent that something starts later must not start by itself: it would restart the clone in the middle of Setup.
fn agent_waits(image: &Image<'_>, asked: &Asked<'_>) -> Verdict {
    if image.number(&SERVICE, "Start")? != Some(AUTO) || asked.starts(AGENT) {
        return Ok(());
    }
    let by_answer_file = AnswerFile::of(image)?.is_some_and(|file| file.runs_cloudbase());
    let mut by = by_answer_file.then_some("the answer file");
    for script in STARTERS {
        if by.is_none() && text(image, script)?.contains("cloudbase") {
            by = Some(script);
        }
    }
    let Some(by) = by else {
        return Ok(());
    };
    let fact = "cloudbase-init starts with Windows on a clone whose Setup has not ended, and may restart it there";
    Err(Finding::warning(fact)
        .expected(format!("start demand: it is started by {by}"))
        .found(format!("{SERVICE}, Start = {AUTO}"))
        .cure("service = { name = \"cloudbase-init\", start = \"demand\", state = \"stopped\" } in a step before the image is sealed"))
}

/// In lower case; empty when it is not there.
fn text(image: &Image<'_>, path: &str) -> Answer<String> {
    let bytes = image.volume.read(path, LIMIT)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).to_lowercase())
}

/// A value of cloudbase-init's settings, in lower case.
fn setting<'t>(settings: &'t str, name: &str) -> Option<&'t str> {
    let lines = settings.lines().filter_map(|line| line.split_once('='));
    let mut found = lines.filter(|(key, _)| key.trim() == name);
    found.next().map(|(_, value)| value.trim())
}

fn account_is_usable(image: &Image<'_>) -> Verdict {
    let settings = text(image, SETTINGS)?;
    let makes_user = setting(&settings, "plugins").is_none_or(|p| p.contains("createuserplugin"));
    if !makes_user || setting(&settings, "rename_admin_user") != Some("true") {
        return Ok(());
    }
    let by = if account::is_disabled(image, account::ADMINISTRATOR)? == Some(true) {
        "the account is disabled"
    } else if AnswerFile::of(image)?.is_some_and(|file| file.disables_administrator()) {
        "the answer file disables the account"
    } else {
        return Ok(());
    };
    let fact = "nobody can log in to a clone: cloudbase-init renames the built-in Administrator, which is disabled, and does not enable it";
    Err(Finding::error(fact)
        .expected(format!("{SETTINGS}: rename_admin_user=false"))
        .found(format!("rename_admin_user=true, and {by}"))
        .cure("let cloudbase-init make a user of its own (docs/accounts.md)"))
}

fn account_is_closed(image: &Image<'_>) -> Verdict {
    let is_enabled = || -> Answer<bool> {
        Ok(account::is_disabled(image, account::ADMINISTRATOR)? == Some(false))
    };
    if text(image, SETTINGS)?.is_empty() || !is_enabled()? {
        return Ok(());
    }
    // Without an answer file the platform's agent sees to the account.
    let Some(answer) = AnswerFile::of(image)? else {
        return Ok(());
    };
    if answer.minds_administrator() {
        return Ok(());
    }
    let fact = "the built-in Administrator stays enabled on a clone, without a password, which can stop its first boot";
    Err(Finding::warning(fact)
        .expected("an answer file that disables it")
        .found("an enabled account with the RID 500, and an answer file that leaves it alone")
        .cure("{{disable_administrator}} in the answer file of the seal (docs/accounts.md)"))
}

/// Only where it does harm: a desktop of Server 2025 or later.
fn no_profile(image: &Image<'_>) -> Verdict {
    let build = image.text(&VERSION, "CurrentBuildNumber")?;
    let is_new = build.is_some_and(|b| b.parse::<u32>().is_ok_and(|b| b >= GREY_FROM));
    let kind = image.text(&VERSION, "InstallationType")?;
    if !is_new || kind.as_deref() != Some("Server") {
        return Ok(());
    }
    let list = VERSION.join("ProfileList");
    let profiles = match image.key(&list)? {
        Some(key) => key.keys()?,
        None => Vec::new(),
    };
    let names = profiles.iter().map(|key| key.name());
    match names.filter(|sid| sid.ends_with("-500")).min() {
        None => Ok(()),
        Some(sid) => Err(
            Finding::warning("the built-in Administrator has a profile of the build: desktops of clones may stay grey")
                .found(format!(r"{list}\{sid}"))
                .cure("remove the profile in the specialize pass of the clone, or do not log on in the build"),
        ),
    }
}
