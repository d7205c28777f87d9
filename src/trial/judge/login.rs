//! Whether somebody can log in to the clone, and nobody else: the user of the metadata, its keys, the built-in account.

use winimg_recipe::recipe::target::Administrator;

use super::{Agent, BuiltIn, Expected};
use crate::trial::state::{Account, CloneState, CloudbaseInit, KeysFile, Known, Sshd};
use crate::verify::{Finding, Report, Severity, Verdict};

/// Microsoft: Security identifiers, `S-1-5-domain-500`.
const ADMINISTRATOR: u32 = 500;

pub fn judge(state: &CloneState, expected: &Expected, report: &mut Report) {
    let accounts = match state.accounts.get("who can log in: the local accounts") {
        Ok(accounts) => accounts,
        Err(finding) => return report.add(Err(finding), None),
    };
    let agent = match &state.cloudbase_init {
        Known::Is(Some(agent)) if *expected.agent.on(state) == Agent::CloudbaseInit => Some(agent),
        _ => None,
    };
    if let Some(name) = wanted_user(expected, agent) {
        let found = accounts.iter().find(|a| a.name.eq_ignore_ascii_case(name));
        let by = match agent {
            Some(agent) if agent.user.is_some() => Maker::CloudbaseInit,
            _ => Maker::Platform,
        };
        report.add(user(name, found, by), None);
        if let Some(account) = found.filter(|account| !account.disabled)
            && !expected.keys.is_empty()
        {
            report.add(keys(state, account, agent, expected), None);
        }
    }
    if let (Some(agent), Some(name)) = (agent, &expected.user)
        && agent.user.is_none()
        && !expected.provisions
    {
        let fact = "cloudbase-init is not set up to make the user that the metadata names";
        let finding = expected
            .left_out(fact)
            .expected(name)
            .cure("add CreateUserPlugin to `plugins` of cloudbase-init.conf, unless the platform itself makes the user");
        report.add(Err(finding), None);
    }
    let has_agent = matches!(state.cloudbase_init, Known::Is(Some(_)));
    if let Some(asked) = expected.administrator
        && (has_agent || !asked.with_cloudbase_init)
        && !accounts.iter().any(|a| is_platforms_user(a, expected))
    {
        report.add(built_in(accounts, asked), None);
    }
}

/// Who makes the clone's user.
#[derive(Clone, Copy)]
enum Maker {
    CloudbaseInit,
    /// It renames the built-in account.
    Platform,
}

/// cloudbase-init makes the user that the metadata names, otherwise that of its configuration; none without its plugin.
fn wanted_user<'e>(expected: &'e Expected, agent: Option<&'e CloudbaseInit>) -> Option<&'e str> {
    let own = agent.and_then(|agent| agent.user.as_deref());
    match &expected.user {
        Some(name) if own.is_some() || expected.provisions => Some(name),
        _ => own,
    }
}

fn user(name: &str, found: Option<&Account>, by: Maker) -> Verdict {
    let Some(account) = found else {
        let finding = Finding::error(format!("the clone has no user {name}"));
        return Err(match by {
            Maker::CloudbaseInit => finding
                .cure("see the agent's log: CreateUserPlugin makes the user that the metadata or its configuration names"),
            Maker::Platform => finding
                .cure("the platform's answer file makes it of the built-in account: see whether one of the image stands before it, or something renames the account"),
        });
    };
    if account.disabled {
        let finding = Finding::error(format!("the user {name} is disabled, so nobody can log in"))
            .expected("enabled");
        return Err(match (account.rid, by) {
            (ADMINISTRATOR, Maker::Platform) => finding
                .found("the built-in account, renamed by the platform, which does not enable it")
                .cure("leave the account with the RID 500 enabled in the image (docs/accounts.md)"),
            (ADMINISTRATOR, Maker::CloudbaseInit) => finding
                .found("the built-in account, renamed: `rename_admin_user` keeps it disabled")
                .cure("set `rename_admin_user=false`: cloudbase-init then makes a user of its own"),
            (rid, _) => finding.found(format!("disabled, RID {rid}")).cure(
                "see what disables it: cloudbase-init leaves an account that is there as it is",
            ),
        });
    }
    if !account.administrator {
        return Err(Finding::error(format!("the user {name} is no administrator"))
            .expected("a member of the group S-1-5-32-544")
            .cure("see `groups` of cloudbase-init.conf: the group has another name on media of other languages"));
    }
    match account.must_change_password {
        false => Ok(()),
        true => Err(Finding::warning(format!(
            "the user {name} must change its password at the next logon"
        ))
        .cure("set `first_logon_behaviour=no`")),
    }
}

fn keys(
    state: &CloneState,
    account: &Account,
    agent: Option<&CloudbaseInit>,
    expected: &Expected,
) -> Verdict {
    let wanted = &expected.keys;
    let has = |lines: &[String]| {
        let mut wanted = wanted.iter();
        wanted.all(|key| lines.iter().any(|line| plain_key(line) == plain_key(key)))
    };
    let name = &account.name;
    let in_profile = has(&account.authorized_keys);
    if agent.is_some_and(|agent| !agent.writes_keys) && !in_profile {
        return Err(expected
            .left_out("cloudbase-init is not set up to take SSH keys from the metadata")
            .cure("add SetUserSSHPublicKeysPlugin to `plugins` of cloudbase-init.conf"));
    }
    let sshd = state.sshd.get("whether sshd takes the metadata's keys")?;
    let place = place(account, sshd.as_ref());
    let there = match place {
        KeysFile::Profile => in_profile,
        KeysFile::Machine => sshd
            .as_ref()
            .is_some_and(|sshd| has(&sshd.administrators_keys)),
    };
    if there {
        return Ok(());
    }
    let file = match place {
        KeysFile::Profile => r".ssh\authorized_keys in the profile",
        KeysFile::Machine => r"C:\ProgramData\ssh\administrators_authorized_keys",
    };
    let fact = match sshd {
        Some(_) => format!("sshd does not take the metadata's keys for the user {name}"),
        None => format!("the metadata's keys are not those of the user {name}"),
    };
    let finding = Finding::error(fact).expected(format!("{} in {file}", shown(wanted)));
    Err(match in_profile {
        true => finding
            .found(r".ssh\authorized_keys in the profile, which sshd_config does not name for administrators")
            .cure("sshd has to look into the profiles of administrators: `ssh_administrators_keys_in = \"home\"` of packs/openssh/settings.toml, or no `Match Group administrators` in sshd_config"),
        false => finding
            .found(match account.authorized_keys.len() {
                0 => "no key".to_owned(),
                n => format!("other keys: {n}"),
            })
            .cure("see the agent's log: SetUserSSHPublicKeysPlugin writes them"),
    })
}

/// Without sshd the profile is where other servers look, too.
fn place(account: &Account, sshd: Option<&Sshd>) -> KeysFile {
    match sshd {
        Some(sshd) if account.administrator => sshd.administrators,
        _ => KeysFile::Profile,
    }
}

/// Type and key, without the comment. Options before them are not expected of an agent.
fn plain_key(line: &str) -> Vec<&str> {
    line.split_whitespace().take(2).collect()
}

fn shown(keys: &[String]) -> String {
    let short = |key: &String| {
        let (kind, key) = key.split_once(' ').unwrap_or(("", key));
        let end: String = key
            .split(' ')
            .next()
            .unwrap_or_default()
            .chars()
            .rev()
            .take(8)
            .collect();
        format!("{kind} …{}", end.chars().rev().collect::<String>())
    };
    keys.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// The built-in account that the platform made its user is judged as that.
fn is_platforms_user(account: &Account, expected: &Expected) -> bool {
    let name = expected.user.as_deref();
    expected.provisions
        && account.rid == ADMINISTRATOR
        && name.is_some_and(|name| account.name.eq_ignore_ascii_case(name))
}

fn built_in(accounts: &[Account], asked: BuiltIn) -> Verdict {
    let Some(account) = accounts.iter().find(|a| a.rid == ADMINISTRATOR) else {
        return Err(Finding::unknown(
            "the built-in account: none has the RID 500",
        ));
    };
    let finding = |fact: String| match asked.severity {
        Severity::Error => Finding::error(fact),
        Severity::Warning | Severity::Unknown => Finding::warning(fact),
    };
    let name = &account.name;
    match (asked.wanted, account.disabled) {
        (Administrator::Disabled, true) | (Administrator::Enabled, false) => Ok(()),
        (Administrator::Disabled, false) => Err(finding(format!(
            "the built-in account {name} is enabled on the clone"
        ))
        .expected("disabled")
        .found(match account.must_change_password {
            true => "enabled, with a password that the next logon has to choose",
            false => "enabled",
        })
        .cure("disable the account with the RID 500 in the clone's specialize pass (docs/accounts.md)")),
        (Administrator::Enabled, true) => Err(finding(format!(
            "the built-in account {name} is disabled on the clone"
        ))
        .expected("enabled: the target's own tools log in as it")
        .cure("leave the account with the RID 500 enabled (docs/accounts.md)")),
    }
}
