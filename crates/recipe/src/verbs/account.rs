//! Names of accounts and groups, and scripts that call `net.exe`, for `user` and `group`.
//!
//! net.exe exits with 2 for every error but prints the error's number
//! (docs/fidelity.md#net-error-numbers), which distinguishes "already a member" (1378) and "not
//! found" from failures. Built-in groups are addressed by their English name or, if there is no
//! such group, looked up by SID.

use crate::fields::TableReader;
use crate::ops::batch::{self, BatchScript};
use crate::ops::compiler::StepCompiler;
use crate::ops::principal::{find_known, known_group};
use crate::ops::programs::{FIND, NET, POWERSHELL};
use winimg_base::text::Located;

/// Maximum length of a comment in net.exe (Microsoft: net user, net localgroup).
pub const LONGEST_COMMENT: usize = 48;

/// Reads a user name; the SAM allows 20 characters.
pub fn user_name(fields: &TableReader<'_>) -> Option<Located<String>> {
    account_name(fields, fields.read_string("name")?, 20)
}

pub fn group_name(fields: &TableReader<'_>) -> Option<Located<String>> {
    account_name(fields, fields.read_string("name")?, 256)
}

/// Checks an account name (Microsoft: NetUserAdd, USER_INFO_1). A name that starts with `-` would
/// be taken as an option.
fn account_name(
    fields: &TableReader<'_>,
    name: Located<String>,
    longest: usize,
) -> Option<Located<String>> {
    let text = name.value.as_str();
    let fault = if text.chars().count() > longest {
        format!("it has more than {longest} characters")
    } else if let Some(c) = text.chars().find(|c| is_forbidden(*c)) {
        format!("it contains `{}`", c.escape_debug())
    } else if text.starts_with('-') || text != text.trim() {
        "it starts with a hyphen, or starts or ends with a space".to_owned()
    } else if text.chars().all(|c| c == '.' || c == ' ') || text.ends_with('.') {
        "it ends with a dot".to_owned()
    } else {
        return Some(name);
    };
    let fact = format!("\"{text}\" is not a valid account name: {fault}");
    let help = "not allowed: `\" / \\ [ ] : ; | = , + * ? < > @ %` and control characters";
    fields.cx.error(fact, &name.place, "", help);
    None
}

fn is_forbidden(c: char) -> bool {
    c.is_control() || "\"/\\[]:;|=,+*?<>@%".contains(c)
}

/// Reads names of accounts and groups, including `NT SERVICE\name` and the like.
pub fn read_account_names(fields: &TableReader<'_>, key: &str) -> Vec<Located<String>> {
    let mut names: Vec<Located<String>> = Vec::new();
    for name in fields.read_strings(key) {
        let own = name.value.rsplit('\\').next().unwrap_or_default();
        let plain = Located::new(own.to_owned(), name.place.clone());
        if own.is_empty() {
            let fact = format!("`{key}` contains an empty name");
            fields
                .cx
                .error(fact, &name.place, "", "write one name per string");
            continue;
        }
        if account_name(fields, plain, 256).is_none() {
            continue;
        }
        if names
            .iter()
            .all(|n| !n.value.eq_ignore_ascii_case(&name.value))
        {
            names.push(name);
        }
    }
    names
}

pub fn read_comment(fields: &TableReader<'_>, key: &str, longest: usize) -> Option<String> {
    let text = fields.read_string(key)?;
    let fault = if text.value.is_empty() {
        "is empty".to_owned()
    } else if text.value.chars().any(char::is_control) {
        "contains a control character".to_owned()
    } else if text.value.chars().count() > longest {
        format!("has more than {longest} characters")
    } else {
        return Some(text.value);
    };
    let help = "write one line of text, or omit the key";
    fields
        .cx
        .error(format!("`{key}` {fault}"), &text.place, "", help);
    None
}

/// Sets the variable `group` to the group's name in this Windows.
pub fn select(
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
pub fn render_name_query(sid: &str, part: &str) -> String {
    format!(
        "{POWERSHELL} -NoLogo -NoProfile -NonInteractive -Command \"(New-Object \
         Security.Principal.SecurityIdentifier \
         '{sid}').Translate([Security.Principal.NTAccount]).Value{part}\""
    )
}

/// Refuses names that contain a number searched for in the output of net.exe, which repeats names.
pub fn told_apart(site: &mut StepCompiler<'_>, name: &Located<String>) -> Option<()> {
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
pub fn join(site: &mut StepCompiler<'_>, script: &mut BatchScript, member: &str) {
    let command = format!("localgroup \"%group%\" {member} /add");
    unless_said(site, script, &command, &["1378"]);
}

/// Deletes a user or group. 2221: no such user; 1376 and 2220: no such group (Microsoft: Network
/// Management Error Codes).
pub fn delete(site: &mut StepCompiler<'_>, script: &mut BatchScript, what: &str, absent: &[&str]) {
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
