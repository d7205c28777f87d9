//! `user` and `group`: through `net.exe` (Microsoft: net user, net localgroup), and a short PowerShell for the two
//! things it cannot do: a random password, and one that never expires.
//!
//! net.exe ends with 2 for every refusal but prints the error's number (docs/fidelity.md#net-error-numbers); "is a member already"
//! (1378) and "is not there" are distinguished from failures by it. Built-in groups are named in English and, where there is
//! no group of that name, looked up by SID.

use super::super::batch::{self, Script};
use super::super::principal::{known, known_group};
use super::super::site::{QUICK, Site};
use super::super::{ExitRule, Planned};
use super::{FIND, POWERSHELL, args};
use crate::recipe::Encoding;
use crate::recipe::verb::{Group, Password, User, UserState};
use winimg_base::text::{Located, crlf};

pub(super) const NET: &str = r"C:\Windows\System32\net.exe";
/// An account that `net user /add` makes is in it; one that PowerShell makes is in no group.
const USERS: &str = "Users";

/// There in every Windows and in the groups that Windows put them in (Microsoft: Local accounts, default accounts).
const BUILT_IN: [&str; 4] = [
    "Administrator",
    "DefaultAccount",
    "Guest",
    "WDAGUtilityAccount",
];

/// Run from the disc; its text is the same for every account.
pub const ACCOUNT: &str = include_str!("account.ps1");

pub(super) fn user(site: &mut Site<'_>, user: &User) -> Option<()> {
    let name = user.name.value.as_str();
    told_apart(site, &user.name)?;
    let expect = |present: bool| Planned::User {
        name: name.to_owned(),
        present,
        disabled: user.state == UserState::Disabled,
    };
    if user.state == UserState::Absent {
        let mut script = Script::new();
        let what = format!("user {}", site.quoted(name, &user.name.place)?);
        delete(site, &mut script, &what, &["2221"]);
        site.put(script);
        site.expect(expect(false));
        return Some(());
    }
    let mut settings = args(["user", name]);
    if let Password::Published(password) = &user.password {
        warn_of_published(site, user, password);
        let create = args(["user", name, password, "/add", "/y"]);
        // 2: it is there already; or whatever is wrong, which the next command then says again.
        let rule = ExitRule::Listed {
            ok: vec![0, 2],
            reboot: vec![],
        };
        site.run(NET, create, rule, QUICK);
        settings.extend(args([password, "/y"]));
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
    site.expect(expect(true));
    for group in &user.groups {
        site.expect(Planned::Group {
            name: group.value.clone(),
            present: true,
            members: vec![name.to_owned()],
        });
    }
    Some(())
}

/// What PowerShell does, then the groups; `None` inside where there is nothing of either.
fn beyond_net(site: &mut Site<'_>, user: &User) -> Option<Option<Script>> {
    let name = site.quoted(&user.name.value, &user.name.place)?;
    let random = user.password == Password::Random && !built_in(user);
    let expires = user.expires || only_disabled(user);
    if !random && expires && user.groups.is_empty() {
        return Some(None);
    }
    let mut script = Script::new();
    if random || !expires {
        let file = site.text_entry("account.ps1", crlf(ACCOUNT), Encoding::Utf8Bom);
        let random = if random { " -Random" } else { "" };
        let never = if expires { "" } else { " -NeverExpires" };
        script.line(format!(
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

/// Nobody makes it, so it needs no password to begin with and no group.
fn built_in(user: &User) -> bool {
    let name = &user.name.value;
    BUILT_IN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Windows' own account, switched off: when it or its password ends is no matter.
fn only_disabled(user: &User) -> bool {
    built_in(user) && user.state == UserState::Disabled
}

/// Microsoft: Password must meet complexity requirements. It is on where Windows Server is nobody's member.
fn warn_of_published(site: &mut Site<'_>, user: &User, password: &str) {
    let place = &user.name.place;
    let name = &user.name.value;
    let message = format!("user `{name}` has a password that everybody can read");
    let help = "good for a test image; otherwise leave `password` out and log in with a key";
    site.warning(place, message, "", help);
    let kinds = [
        password.chars().any(char::is_uppercase),
        password.chars().any(char::is_lowercase),
        password.chars().any(|c| c.is_ascii_digit()),
        password.chars().any(|c| !c.is_alphanumeric()),
    ];
    let holds_name =
        name.chars().count() > 2 && password.to_lowercase().contains(&name.to_lowercase());
    if kinds.iter().filter(|kind| **kind).count() < 3 || holds_name {
        let message = format!("Windows Server's own policy refuses the password of user `{name}`");
        let help = "switch complexity off in a step before (secedit.exe /configure), or take one with three of: \
                    upper case, lower case, digits, signs; without the account's name in it";
        site.warning(place, message, "error 2245 of net.exe", help);
    }
}

pub(super) fn group(site: &mut Site<'_>, group: &Group) -> Option<()> {
    let name = group.name.value.as_str();
    let mut script = Script::new();
    let known = known_group(name);
    if !group.present {
        if known.is_some() {
            let message = format!("`{name}` belongs to Windows and cannot be removed");
            site.error(&group.name.place, message, "");
            return None;
        }
        told_apart(site, &group.name)?;
        let what = format!("localgroup {}", site.quoted(name, &group.name.place)?);
        delete(site, &mut script, &what, &["1376", "2220"]);
    } else {
        select(site, &mut script, &group.name)?;
        let comment = match &group.description {
            Some(text) => Some(site.judged(batch::literal(text), &group.name.place)?),
            None => None,
        };
        if known.is_none() {
            script.line(format!(
                "{NET} localgroup \"%group%\" >nul 2>&1 || {NET} localgroup \"%group%\" /add || exit /b 1"
            ));
        }
        if let Some(comment) = comment {
            script.line(format!(
                "{NET} localgroup \"%group%\" \"/comment:{comment}\" || exit /b 1"
            ));
        }
        for member in &group.members {
            add_member(site, &mut script, member)?;
        }
    }
    site.put(script);
    site.expect(Planned::Group {
        name: name.to_owned(),
        present: group.present,
        members: group.members.iter().map(|m| m.value.clone()).collect(),
    });
    Some(())
}

/// Sets the variable `group` to the group's name in this Windows.
fn select(site: &mut Site<'_>, script: &mut Script, group: &Located<String>) -> Option<()> {
    let Some((english, sid)) = known_group(&group.value) else {
        if known(&group.value).is_some() {
            let message = format!("nobody can be made a member of `{}`", group.value);
            site.error(&group.place, message, "Windows decides who is one");
            return None;
        }
        let name = site.judged(batch::literal(&group.value), &group.place)?;
        told_apart(site, group)?;
        script.line(format!("set \"group={name}\""));
        return Some(());
    };
    script.line(format!("set \"group={english}\""));
    script.line(format!(
        "{NET} localgroup \"%group%\" >nul 2>&1 || for /f \"delims=\" %%n in ('{}') do set \"group=%%n\"",
        named(sid, ".Split('\\')[1]")
    ));
    Some(())
}

/// A command that prints the name that a SID has in this Windows.
fn named(sid: &str, part: &str) -> String {
    format!(
        "{POWERSHELL} -NoLogo -NoProfile -NonInteractive -Command \"(New-Object \
         Security.Principal.SecurityIdentifier '{sid}').Translate([Security.Principal.NTAccount]).Value{part}\""
    )
}

fn add_member(site: &mut Site<'_>, script: &mut Script, member: &Located<String>) -> Option<()> {
    if let Some((_, sid)) = known(&member.value) {
        script.line("set \"member=\"");
        let command = named(sid, "");
        script.line(format!(
            "for /f \"delims=\" %%n in ('{command}') do set \"member=%%n\"\n\
             if not defined member echo {sid} has no name in this Windows\n\
             if not defined member exit /b 1"
        ));
        join(site, script, "\"%member%\"");
        return Some(());
    }
    let name = site.quoted(&member.value, &member.place)?;
    told_apart(site, member)?;
    join(site, script, &name);
    Some(())
}

/// net.exe repeats names in what it says, so none may hold a number that is looked for there.
fn told_apart(site: &mut Site<'_>, name: &Located<String>) -> Option<()> {
    let numbers = ["1376", "1378", "2220", "2221"];
    let Some(number) = numbers.iter().find(|n| name.value.contains(**n)) else {
        return Some(());
    };
    let message = format!("`{}` holds {number}, an error of net.exe", name.value);
    let label = "a failure could not be distinguished from a success";
    site.error(&name.place, message, label);
    None
}

/// 1378: a member already (Microsoft: System Error Codes 1300-1699).
fn join(site: &mut Site<'_>, script: &mut Script, member: &str) {
    let command = format!("localgroup \"%group%\" {member} /add");
    unless_said(site, script, &command, &["1378"]);
}

/// 2221: no such user; 1376 and 2220: no such group (Microsoft: Network Management Error Codes).
fn delete(site: &mut Site<'_>, script: &mut Script, what: &str, absent: &[&str]) {
    unless_said(site, script, &format!("{what} /delete"), absent);
}

/// Runs net.exe; a failure is none when it names one of the numbers.
fn unless_said(site: &Site<'_>, script: &mut Script, command: &str, numbers: &[&str]) {
    script.make_folder(r#""C:\winimg\steps""#);
    let said = site.file("txt");
    let fine = numbers
        .iter()
        .map(|n| format!("{FIND} \"{n}\" {said} >nul"));
    let fine: Vec<String> = fine.collect();
    script.line(format!(
        "{NET} {command} >{said} 2>&1 || {} || (type {said} & exit /b 1)",
        fine.join(" || ")
    ));
}
