//! Judges who can log in to the clone: the metadata's user with its keys, and the built-in account.

use winimg_recipe::target::AdministratorState;

use super::{BuiltInAccount, ExpectedClone, MetadataAgent};
use crate::trial::state::{
    AdministratorKeysFile, CloneAccount, CloneState, CloudbaseInitState, KnownFact, SshdState,
};
use crate::verify::{FindingSeverity, Verdict, VerifyFinding, VerifyReport};

/// Microsoft: Security identifiers, `S-1-5-domain-500`.
const ADMINISTRATOR: u32 = 500;

pub fn judge(state: &CloneState, expected: &ExpectedClone, report: &mut VerifyReport) {
    let accounts = match state.accounts.get("who can log in: the local accounts") {
        Ok(accounts) => accounts,
        Err(finding) => return report.add(Err(finding), None),
    };
    let agent = match &state.cloudbase_init {
        KnownFact::Is(Some(agent))
            if *expected.agent.find_installed(state) == MetadataAgent::CloudbaseInit =>
        {
            Some(agent)
        }
        _ => None,
    };
    if let Some(name) = wanted_user(expected, agent) {
        let found = accounts.iter().find(|a| a.name.eq_ignore_ascii_case(name));
        let by = match agent {
            Some(agent) if agent.user.is_some() => UserCreator::CloudbaseInit,
            _ => UserCreator::Platform,
        };
        report.add(judge_user(name, found, by), None);
        if let Some(account) = found.filter(|account| !account.disabled)
            && !expected.keys.is_empty()
        {
            report.add(judge_keys(state, account, agent, expected), None);
        }
    }
    if let (Some(agent), Some(name)) = (agent, &expected.user)
        && agent.user.is_none()
        && !expected.provisions
    {
        let fact = "cloudbase-init is not configured to create the user in the metadata";
        let finding = expected.report_not_configured(fact).expected(name).cure(
            "add CreateUserPlugin to `plugins` of cloudbase-init.conf, unless the platform itself \
             creates the user",
        );
        report.add(Err(finding), None);
    }
    let has_agent = matches!(state.cloudbase_init, KnownFact::Is(Some(_)));
    if let Some(asked) = expected.administrator
        && (has_agent || !asked.with_cloudbase_init)
        && !accounts.iter().any(|a| is_platforms_user(a, expected))
    {
        report.add(built_in(accounts, asked), None);
    }
}

/// The creator of the clone's user.
#[derive(Clone, Copy)]
enum UserCreator {
    CloudbaseInit,
    /// It renames the built-in account.
    Platform,
}

/// Returns the user that the clone must have. cloudbase-init creates the one in the metadata, or
/// else in its configuration; without its plugin, none.
fn wanted_user<'e>(
    expected: &'e ExpectedClone,
    agent: Option<&'e CloudbaseInitState>,
) -> Option<&'e str> {
    let own = agent.and_then(|agent| agent.user.as_deref());
    match &expected.user {
        Some(name) if own.is_some() || expected.provisions => Some(name),
        _ => own,
    }
}

fn judge_user(name: &str, found: Option<&CloneAccount>, by: UserCreator) -> Verdict {
    let Some(account) = found else {
        let finding = VerifyFinding::error(format!("the clone has no user {name}"));
        return Err(match by {
            UserCreator::CloudbaseInit => finding.cure(
                "see the agent's log: CreateUserPlugin creates the user in the metadata or in its \
                 configuration",
            ),
            UserCreator::Platform => finding.cure(
                "the platform's answer file renames the built-in account: check if an answer file \
                 in the image takes precedence, or if something renames the account",
            ),
        });
    };
    if account.disabled {
        let finding =
            VerifyFinding::error(format!("the user {name} is disabled and cannot log in"))
                .expected("enabled");
        return Err(match (account.rid, by) {
            (ADMINISTRATOR, UserCreator::Platform) => finding
                .found("the built-in account, renamed by the platform, which does not enable it")
                .cure("leave the account with the RID 500 enabled in the image (docs/accounts.md)"),
            (ADMINISTRATOR, UserCreator::CloudbaseInit) => finding
                .found("the built-in account, renamed: `rename_admin_user` keeps it disabled")
                .cure("set `rename_admin_user=false`: cloudbase-init then creates its own user"),
            (rid, _) => finding
                .found(format!("disabled, RID {rid}"))
                .cure("find what disables it: cloudbase-init does not change an existing account"),
        });
    }
    if !account.administrator {
        return Err(
            VerifyFinding::error(format!("the user {name} is not an administrator"))
                .expected("a member of the group S-1-5-32-544")
                .cure(
                    "check `groups` in cloudbase-init.conf: the group's name depends on the \
                     language of the medium",
                ),
        );
    }
    if account.must_change_password {
        Err(VerifyFinding::warning(format!(
            "the user {name} must change its password at the next logon"
        ))
        .cure("set `first_logon_behaviour=no`"))
    } else {
        Ok(())
    }
}

fn judge_keys(
    state: &CloneState,
    account: &CloneAccount,
    agent: Option<&CloudbaseInitState>,
    expected: &ExpectedClone,
) -> Verdict {
    let wanted = &expected.keys;
    let name = &account.name;
    let in_profile = has_keys(&account.authorized_keys, wanted);
    if agent.is_some_and(|agent| !agent.writes_keys) && !in_profile {
        return Err(expected
            .report_not_configured(
                "cloudbase-init is not configured to write the metadata's SSH keys",
            )
            .cure("add SetUserSSHPublicKeysPlugin to `plugins` of cloudbase-init.conf"));
    }
    let sshd = state.sshd.get("whether sshd accepts the metadata's keys")?;
    let place = find_keys_file(account, sshd.as_ref());
    let there = match place {
        AdministratorKeysFile::Profile => in_profile,
        AdministratorKeysFile::Machine => sshd
            .as_ref()
            .is_some_and(|sshd| has_keys(&sshd.administrators_keys, wanted)),
    };
    if there {
        return Ok(());
    }
    let file = match place {
        AdministratorKeysFile::Profile => r".ssh\authorized_keys in the profile",
        AdministratorKeysFile::Machine => r"C:\ProgramData\ssh\administrators_authorized_keys",
    };
    let fact = match sshd {
        Some(_) => format!("sshd does not accept the metadata's keys for the user {name}"),
        None => format!("the user {name} does not have the metadata's keys"),
    };
    let finding = VerifyFinding::error(fact).expected(format!("{} in {file}", format_keys(wanted)));
    Err(if in_profile {
        finding
            .found(
                ".ssh\\authorized_keys in the profile, which sshd_config does not use for \
                 administrators",
            )
            .cure(
                "make sshd use the profiles of administrators: `ssh_administrators_keys_in = \
                 \"home\"` of packs/openssh/settings.toml, or no `Match Group administrators` in \
                 sshd_config",
            )
    } else {
        finding
            .found(match account.authorized_keys.len() {
                0 => "no key".to_owned(),
                n => format!("other keys: {n}"),
            })
            .cure("see the agent's log: SetUserSSHPublicKeysPlugin writes them")
    })
}

/// Returns the file in which the keys are expected. Without sshd it is the profile's, which other
/// servers use as well.
fn find_keys_file(account: &CloneAccount, sshd: Option<&SshdState>) -> AdministratorKeysFile {
    match sshd {
        Some(sshd) if account.administrator => sshd.administrators,
        _ => AdministratorKeysFile::Profile,
    }
}

/// Returns true if all `wanted` keys are among the lines.
fn has_keys(lines: &[String], wanted: &[String]) -> bool {
    wanted
        .iter()
        .all(|key| lines.iter().any(|line| plain_key(line) == plain_key(key)))
}

/// Returns type and key, without the comment. An agent writes no options in front of them.
fn plain_key(line: &str) -> Vec<&str> {
    line.split_whitespace().take(2).collect()
}

fn format_keys(keys: &[String]) -> String {
    let short: Vec<String> = keys.iter().map(|key| shorten_key(key)).collect();
    short.join(", ")
}

/// Shortens a key to its type and its last 8 characters.
fn shorten_key(key: &str) -> String {
    let (kind, key) = key.split_once(' ').unwrap_or(("", key));
    let key = key.split(' ').next().unwrap_or_default();
    let start = key.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
    format!("{kind} …{}", &key[start..])
}

/// Returns true if the account is the built-in one that the platform turned into its user, which is
/// judged as the user only.
fn is_platforms_user(account: &CloneAccount, expected: &ExpectedClone) -> bool {
    let name = expected.user.as_deref();
    expected.provisions
        && account.rid == ADMINISTRATOR
        && name.is_some_and(|name| account.name.eq_ignore_ascii_case(name))
}

fn built_in(accounts: &[CloneAccount], asked: BuiltInAccount) -> Verdict {
    let Some(account) = accounts.iter().find(|a| a.rid == ADMINISTRATOR) else {
        return Err(VerifyFinding::unknown(
            "the built-in account: none has the RID 500",
        ));
    };
    let state = if account.disabled {
        "disabled"
    } else {
        "enabled"
    };
    let fact = format!(
        "the built-in account {} is {state} on the clone",
        account.name
    );
    let finding = match asked.severity {
        FindingSeverity::Error => VerifyFinding::error(fact),
        FindingSeverity::Warning | FindingSeverity::Unknown => VerifyFinding::warning(fact),
    };
    match (asked.wanted, account.disabled) {
        (AdministratorState::Disabled, true) | (AdministratorState::Enabled, false) => Ok(()),
        (AdministratorState::Disabled, false) => Err(finding
            .expected("disabled")
            .found(if account.must_change_password {
                "enabled, with a password that must be changed at the next logon"
            } else {
                "enabled"
            })
            .cure(
                "disable the account with the RID 500 in the clone's specialize pass \
                 (docs/accounts.md)",
            )),
        (AdministratorState::Enabled, true) => Err(finding
            .expected("enabled: the target's own tools log in with it")
            .cure("leave the account with the RID 500 enabled (docs/accounts.md)")),
    }
}
