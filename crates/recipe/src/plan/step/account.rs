//! Compiles `user` and `group` to `net.exe` (Microsoft: net user, net localgroup), and a short
//! PowerShell script for what it cannot do: a random password, and one that never expires.
//!
//! net.exe exits with 2 for every error but prints the error's number
//! (docs/fidelity.md#net-error-numbers), which distinguishes "already a member" (1378) and "not
//! found" from failures. Built-in groups are addressed by their English name or, if there is no
//! such group, looked up by SID.

use super::super::batch::{self, BatchScript};
use super::super::principal::{find_known, known_group};
use super::super::step_compiler::{QUICK, StepCompiler};
use super::super::{ExitRule, PlannedCheck};
use super::{FIND, POWERSHELL, to_arguments};
use crate::recipe::Encoding;
use crate::recipe::verb::{GroupSpec, UserPassword, UserSpec, UserState};
use winimg_base::text::{Located, to_crlf};

pub(super) const NET: &str = r"C:\Windows\System32\net.exe";
/// An account created by `net user /add` is in this group; one created by PowerShell is in no
/// group.
const USERS: &str = "Users";

/// Accounts that every Windows has, already in their groups (Microsoft: Local accounts, default
/// accounts).
const BUILT_IN: [&str; 4] = [
    "Administrator",
    "DefaultAccount",
    "Guest",
    "WDAGUtilityAccount",
];

/// Script on the disc; its text is the same for every account.
pub const ACCOUNT: &str = include_str!("account.ps1");

pub(super) fn compile_user(site: &mut StepCompiler<'_>, user: &UserSpec) -> Option<()> {
    let name = user.name.value.as_str();
    told_apart(site, &user.name)?;
    let expected = PlannedCheck::User {
        name: name.to_owned(),
        present: user.state != UserState::Absent,
        disabled: user.state == UserState::Disabled,
    };
    if user.state == UserState::Absent {
        let mut script = BatchScript::new();
        let what = format!("user {}", site.quote(name, &user.name.place)?);
        delete(site, &mut script, &what, &["2221"]);
        site.put(script);
        site.expect(expected);
        return Some(());
    }
    let mut settings = to_arguments(["user", name]);
    if let UserPassword::Published(password) = &user.password {
        warn_of_published(site, user, password);
        let create = to_arguments(["user", name, password, "/add", "/y"]);
        // 2: the account exists, or any other error, which the next command then reports again.
        let rule = ExitRule::Listed {
            ok: vec![0, 2],
            reboot: vec![],
        };
        site.run(NET, create, rule, QUICK);
        settings.extend(to_arguments([password, "/y"]));
    }
    let script = beyond_net(site, user)?;
    if let Some(script) = script {
        site.put(script);
    }
    let active = match user.state {
        UserState::Disabled => "/active:no",
        UserState::Present | UserState::Absent => "/active:yes",
    };
    settings.push(active.to_owned());
    if !only_disabled(user) {
        settings.push("/expires:never".to_owned());
    }
    let full_name = user.full_name.iter().map(|t| format!("/fullname:{t}"));
    let comment = user.description.iter().map(|t| format!("/comment:{t}"));
    settings.extend(full_name.chain(comment));
    site.run(NET, settings, ExitRule::Zero, QUICK);
    site.expect(expected);
    for group in &user.groups {
        site.expect(PlannedCheck::Group {
            name: group.value.clone(),
            present: true,
            members: vec![name.to_owned()],
        });
    }
    Some(())
}

/// Builds the script for PowerShell and the groups; the inner `None` if neither is needed.
fn beyond_net(site: &mut StepCompiler<'_>, user: &UserSpec) -> Option<Option<BatchScript>> {
    let name = site.quote(&user.name.value, &user.name.place)?;
    let random = user.password == UserPassword::Random && !built_in(user);
    let expires = user.expires || only_disabled(user);
    if !random && expires && user.groups.is_empty() {
        return Some(None);
    }
    let mut script = BatchScript::new();
    if random || !expires {
        let file = site.text_entry("account.ps1", to_crlf(ACCOUNT), Encoding::Utf8Bom);
        let random = if random { " -Random" } else { "" };
        let never = if expires { "" } else { " -NeverExpires" };
        script.add_line(format!(
            "{POWERSHELL} -NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass \
             -File {file} -Name {name}{random}{never} || exit /b 1"
        ));
    }
    let users = Located::new(USERS.to_owned(), user.name.place.clone());
    let everyone = random.then_some(&users);
    for group in everyone.into_iter().chain(&user.groups) {
        select(site, &mut script, group)?;
        join(site, &mut script, &name);
    }
    Some(Some(script))
}

/// Returns true for an account of Windows itself, which needs neither an initial password nor a
/// group.
fn built_in(user: &UserSpec) -> bool {
    let name = &user.name.value;
    BUILT_IN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Returns true for a disabled account of Windows itself, whose expiration does not matter.
fn only_disabled(user: &UserSpec) -> bool {
    built_in(user) && user.state == UserState::Disabled
}

/// Warns that the password is public, and if Windows Server would reject it (Microsoft: Password
/// must meet complexity requirements, which is enabled unless the server is a domain member).
fn warn_of_published(site: &mut StepCompiler<'_>, user: &UserSpec, password: &str) {
    let place = &user.name.place;
    let name = &user.name.value;
    let message = format!("user `{name}` has a public password");
    let help = "suitable for a test image only; otherwise omit `password` and log in with a key";
    site.warn(place, message, "", help);
    let kinds = [
        password.chars().any(char::is_uppercase),
        password.chars().any(char::is_lowercase),
        password.chars().any(|c| c.is_ascii_digit()),
        password.chars().any(|c| !c.is_alphanumeric()),
    ];
    let contains_name =
        name.chars().count() > 2 && password.to_lowercase().contains(&name.to_lowercase());
    if kinds.iter().filter(|kind| **kind).count() < 3 || contains_name {
        let message = format!("Windows Server's default policy rejects the password of `{name}`");
        let help = "disable complexity in an earlier step (secedit.exe /configure), or use three \
            of \
                    upper case, lower case, digits, symbols; and not the account's name";
        site.warn(place, message, "error 2245 of net.exe", help);
    }
}

pub(super) fn group(site: &mut StepCompiler<'_>, group: &GroupSpec) -> Option<()> {
    let name = group.name.value.as_str();
    let mut script = BatchScript::new();
    let known = known_group(name);
    if !group.present {
        if known.is_some() {
            let message = format!("`{name}` belongs to Windows and cannot be removed");
            site.error(&group.name.place, message, "");
            return None;
        }
        told_apart(site, &group.name)?;
        let what = format!("localgroup {}", site.quote(name, &group.name.place)?);
        delete(site, &mut script, &what, &["1376", "2220"]);
    } else {
        select(site, &mut script, &group.name)?;
        let comment = match &group.description {
            Some(text) => Some(site.report_error(batch::escape(text), &group.name.place)?),
            None => None,
        };
        if known.is_none() {
            script.add_line(format!(
                "{NET} localgroup \"%group%\" >nul 2>&1 || {NET} localgroup \"%group%\" /add || \
                 exit /b 1"
            ));
        }
        if let Some(comment) = comment {
            script.add_line(format!(
                "{NET} localgroup \"%group%\" \"/comment:{comment}\" || exit /b 1"
            ));
        }
        for member in &group.members {
            add_member(site, &mut script, member)?;
        }
    }
    site.put(script);
    site.expect(PlannedCheck::Group {
        name: name.to_owned(),
        present: group.present,
        members: group.members.iter().map(|m| m.value.clone()).collect(),
    });
    Some(())
}

/// Sets the variable `group` to the group's name in this Windows.
fn select(
    site: &mut StepCompiler<'_>,
    script: &mut BatchScript,
    group: &Located<String>,
) -> Option<()> {
    let Some((english, sid)) = known_group(&group.value) else {
        if find_known(&group.value).is_some() {
            let message = format!("`{}` cannot have members", group.value);
            site.error(&group.place, message, "Windows manages its membership");
            return None;
        }
        let name = site.report_error(batch::escape(&group.value), &group.place)?;
        told_apart(site, group)?;
        script.add_line(format!("set \"group={name}\""));
        return Some(());
    };
    script.add_line(format!("set \"group={english}\""));
    script.add_line(format!(
        "{NET} localgroup \"%group%\" >nul 2>&1 || for /f \"delims=\" %%n in ('{}') do set \
         \"group=%%n\"",
        render_name_query(sid, ".Split('\\')[1]")
    ));
    Some(())
}

/// Returns a command that prints the localized name of a SID.
fn render_name_query(sid: &str, part: &str) -> String {
    format!(
        "{POWERSHELL} -NoLogo -NoProfile -NonInteractive -Command \"(New-Object \
         Security.Principal.SecurityIdentifier \
         '{sid}').Translate([Security.Principal.NTAccount]).Value{part}\""
    )
}

fn add_member(
    site: &mut StepCompiler<'_>,
    script: &mut BatchScript,
    member: &Located<String>,
) -> Option<()> {
    if let Some((_, sid)) = find_known(&member.value) {
        script.add_line("set \"member=\"");
        let command = render_name_query(sid, "");
        script.add_line(format!(
            "for /f \"delims=\" %%n in ('{command}') do set \"member=%%n\"\n\
             if not defined member echo {sid} has no name in this Windows\n\
             if not defined member exit /b 1"
        ));
        join(site, script, "\"%member%\"");
        return Some(());
    }
    let name = site.quote(&member.value, &member.place)?;
    told_apart(site, member)?;
    join(site, script, &name);
    Some(())
}

/// Refuses names that contain a number searched for in the output of net.exe, which repeats names.
fn told_apart(site: &mut StepCompiler<'_>, name: &Located<String>) -> Option<()> {
    let numbers = ["1376", "1378", "2220", "2221"];
    let Some(number) = numbers.iter().find(|n| name.value.contains(**n)) else {
        return Some(());
    };
    let message = format!(
        "`{}` contains {number}, an error number of net.exe",
        name.value
    );
    let label = "success and failure would be indistinguishable";
    site.error(&name.place, message, label);
    None
}

/// Adds a member. 1378: already a member (Microsoft: System Error Codes 1300-1699).
fn join(site: &mut StepCompiler<'_>, script: &mut BatchScript, member: &str) {
    let command = format!("localgroup \"%group%\" {member} /add");
    unless_said(site, script, &command, &["1378"]);
}

/// Deletes a user or group. 2221: no such user; 1376 and 2220: no such group (Microsoft: Network
/// Management Error Codes).
fn delete(site: &mut StepCompiler<'_>, script: &mut BatchScript, what: &str, absent: &[&str]) {
    unless_said(site, script, &format!("{what} /delete"), absent);
}

/// Runs net.exe and ignores failures with one of the numbers.
fn unless_said(site: &StepCompiler<'_>, script: &mut BatchScript, command: &str, numbers: &[&str]) {
    script.make_folder(r#""C:\winimg\steps""#);
    let said = site.step_file("txt");
    let ignored: Vec<String> = numbers
        .iter()
        .map(|n| format!("{FIND} \"{n}\" {said} >nul"))
        .collect();
    script.add_line(format!(
        "{NET} {command} >{said} 2>&1 || {} || (type {said} & exit /b 1)",
        ignored.join(" || ")
    ));
}
