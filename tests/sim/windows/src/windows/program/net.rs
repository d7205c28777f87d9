//! net.exe: users, groups, account policy, services. Syntax errors are exit code 1, refusals 2.

use super::Arguments;
use super::small::unknown;
use crate::windows::account::{self, UF_ACCOUNTDISABLE, UF_NORMAL_ACCOUNT, USERS};
use crate::windows::process::Process;
use crate::windows::regf::same;
use crate::windows::registry::{Registry, dword_value};
use crate::windows::service;

const POLICY: &str = r"HKLM\SAM\SAM\Domains\Account";
const UF_PASSWD_NOTREQD: u32 = 0x20;
const UF_PASSWD_CANT_CHANGE: u32 = 0x40;
const FINISHED: &str = "The command completed successfully.\n\n";

/// A refusal: Windows' error number and text.
struct Refusal(u32, String);

fn refuse<T>(number: u32, text: &str) -> Result<T, Refusal> {
    Err(Refusal(number, text.to_owned()))
}

fn syntax<T>(what: &str) -> Result<T, Refusal> {
    refuse(
        0,
        &format!("The syntax of this command is: NET ... : {what}"),
    )
}

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let list: Vec<&str> = args.list.iter().map(String::as_str).collect();
    let (operands, options): (Vec<&str>, Vec<&str>) =
        list.iter().skip(1).partition(|word| !word.starts_with('/'));
    let options: Vec<(String, &str)> = options
        .iter()
        .map(|option| {
            let (name, value) = option.split_once(':').unwrap_or((option, ""));
            (name.to_ascii_lowercase(), value)
        })
        .collect();
    let done = match list
        .first()
        .map(|verb| verb.to_ascii_lowercase())
        .as_deref()
    {
        Some("user" | "users") => user(p, &operands, &options),
        Some("localgroup") => group(p, &operands, &options),
        Some("accounts") => accounts(p, &operands, &options),
        Some("start") if options.is_empty() => start(p, &operands),
        Some("stop")
            if options
                .iter()
                .all(|(name, _)| matches!(name.as_str(), "/y" | "/yes")) =>
        {
            stop(p, &operands)
        }
        other => return unknown(p, "net", other.unwrap_or("no command"), 1),
    };
    match done {
        Ok(text) => {
            p.print(&text);
            0
        }
        Err(Refusal(0, text)) => {
            p.complain(&format!("{text}\n"));
            1
        }
        // The messages of LAN Manager have a number of their own and a pointer to more help.
        Err(Refusal(number @ 2100..=3999, text)) => {
            p.complain(&format!(
                "{text}\n\nMore help is available by typing NET HELPMSG {number}.\n\n"
            ));
            2
        }
        Err(Refusal(number, text)) => {
            p.complain(&format!(
                "System error {number} has occurred.\n\n{text}\n\n"
            ));
            2
        }
    }
}

type Done = Result<String, Refusal>;

/// The machine's policy, where it asks for complexity: three of four kinds of characters, not the name itself.
fn judge(registry: &Registry, name: &str, password: &str, long_ok: bool) -> Result<(), Refusal> {
    let kinds = [
        password.chars().any(|c| c.is_uppercase()),
        password.chars().any(|c| c.is_lowercase()),
        password.chars().any(|c| c.is_ascii_digit()),
        password.chars().any(|c| !c.is_alphanumeric()),
    ];
    let has_name = name.len() > 2 && password.to_lowercase().contains(&name.to_lowercase());
    let is_simple = kinds.iter().filter(|kind| **kind).count() < 3 || has_name;
    if is_simple && account::wants_complexity(registry) {
        return refuse(
            2245,
            "The password does not meet the password policy requirements. Check the minimum password length, password complexity and password history requirements.",
        );
    }
    if password.chars().count() > 14 && !long_ok {
        return refuse(
            0,
            "The password entered is longer than 14 characters. Do you want to continue this operation? (Y/N) [Y]: (nobody is there to answer: give /y)",
        );
    }
    Ok(())
}

fn user(p: &Process, operands: &[&str], options: &[(String, &str)]) -> Done {
    let mut registry = p.machine.registry();
    let Some((name, rest)) = operands.split_first() else {
        let names = registry.key(USERS).map(|key| {
            key.subkeys
                .values()
                .map(|key| key.name.clone())
                .collect::<Vec<_>>()
        });
        return Ok(format!(
            "{}\n{FINISHED}",
            names.unwrap_or_default().join("\n")
        ));
    };
    let has = |option: &str| options.iter().any(|(name, _)| name == option);
    let illegal = name.is_empty()
        || name.chars().count() > 20
        || name.contains(|c: char| "\"/\\[]:;|=,+*?<>".contains(c));
    if illegal {
        return refuse(2202, "The user name or group name parameter is invalid.");
    }
    let exists = account::user(&registry, name).is_some();
    if has("/delete") {
        if !exists {
            return refuse(2221, "The user name could not be found.");
        }
        if same(name, "Administrator") || same(name, "Guest") {
            return refuse(1371, "Cannot perform this operation on built-in accounts.");
        }
        account::remove_user(&mut registry, name).or_else(|e| refuse(5, &e))?;
        account::publish(&mut registry);
        return Ok(FINISHED.into());
    }
    if rest.len() > 1 || rest.first() == Some(&"*") {
        return syntax("net user");
    }
    match (has("/add"), exists) {
        (true, true) => return refuse(2224, "The account already exists."),
        (false, false) => return refuse(2221, "The user name could not be found."),
        _ => {}
    }
    let password = rest.first();
    if let Some(password) = password {
        judge(&registry, name, password, has("/y"))?;
    } else if has("/add") && !options.contains(&("/passwordreq".into(), "no")) {
        judge(&registry, name, "", false)?;
    }
    let mut flags = account::user(&registry, name).map_or(UF_NORMAL_ACCOUNT, account::flags);
    let mut texts = Vec::new();
    for (option, value) in options {
        match (option.as_str(), value.to_ascii_lowercase().as_str()) {
            ("/add" | "/y" | "/yes", "") => {}
            ("/active", "yes") => flags &= !UF_ACCOUNTDISABLE,
            ("/active", "no") => flags |= UF_ACCOUNTDISABLE,
            ("/expires", "never")
            | ("/passwordreq" | "/passwordchg", "yes")
            | ("/logonpasswordchg", "no") => {}
            ("/passwordreq", "no") => flags |= UF_PASSWD_NOTREQD,
            ("/passwordchg", "no") => flags |= UF_PASSWD_CANT_CHANGE,
            ("/comment" | "/usercomment", _) => texts.push(("Comment", *value)),
            ("/fullname", _) => texts.push(("FullName", *value)),
            _ => return syntax(&format!("net user {option}:{value}")),
        }
    }
    let mut write = || -> Result<(), String> {
        account::set_flags(&mut registry, name, flags)?;
        texts
            .iter()
            .try_for_each(|(value, text)| account::set_text(&mut registry, name, value, text))?;
        if let Some(password) = password {
            account::set_password(&mut registry, name, password);
        }
        if has("/add") {
            join(&mut registry, "Users", name)?;
        }
        Ok(())
    };
    write().or_else(|e| refuse(5, &e))?;
    account::publish(&mut registry);
    Ok(FINISHED.into())
}

fn join(registry: &mut Registry, group: &str, name: &str) -> Result<(), String> {
    let mut members = account::group(registry, group)
        .map(account::members)
        .unwrap_or_default();
    members.push(name.to_owned());
    account::set_members(registry, group, &members)
}

fn group(p: &Process, operands: &[&str], options: &[(String, &str)]) -> Done {
    let mut registry = p.machine.registry();
    let get = |option: &str| {
        options
            .iter()
            .find(|(name, _)| name == option)
            .map(|(_, value)| *value)
    };
    let odd = options.iter().find(|(name, value)| match name.as_str() {
        "/add" | "/delete" => !value.is_empty(),
        "/comment" => false,
        _ => true,
    });
    if let Some((odd, _)) = odd {
        return syntax(&format!("net localgroup {odd}"));
    }
    let Some((group, names)) = operands.split_first() else {
        let names: Vec<String> = account::groups(&registry)
            .into_iter()
            .map(|key| format!("*{}", key.name))
            .collect();
        return Ok(format!("{}\n{FINISHED}", names.join("\n")));
    };
    let known = account::group(&registry, group).map(account::members);
    let (add, delete, comment) = (get("/add"), get("/delete"), get("/comment"));
    if add.is_some() && delete.is_some() {
        return syntax("net localgroup");
    }
    match (known, names) {
        (None, []) if add.is_some() => make_group(&mut registry, group, comment)?,
        (None, _) => return refuse(1376, "The specified local group does not exist."),
        (Some(_), []) if add.is_some() => {
            return refuse(1379, "The specified local group already exists.");
        }
        (Some(_), []) if delete.is_some() => {
            if account::is_builtin(group) {
                return refuse(1371, "Cannot perform this operation on built-in accounts.");
            }
            account::remove_group(&mut registry, group);
        }
        (Some(_), []) if comment.is_some() => {
            account::set_group_text(&mut registry, group, "Comment", comment.unwrap_or_default())
                .or_else(|e| refuse(5, &e))?;
        }
        (Some(members), []) => {
            return Ok(format!("Members\n\n{}\n{FINISHED}", members.join("\n")));
        }
        (Some(_), _) if comment.is_some() => return syntax("net localgroup"),
        (Some(mut members), names) => {
            match (add, delete) {
                (Some(_), None) => join_all(&registry, &mut members, names)?,
                (None, Some(_)) => leave_all(&mut members, names)?,
                _ => return syntax("net localgroup"),
            }
            account::set_members(&mut registry, group, &members).or_else(|e| refuse(5, &e))?;
        }
    }
    account::publish(&mut registry);
    Ok(FINISHED.into())
}

fn make_group(registry: &mut Registry, group: &str, comment: Option<&str>) -> Result<(), Refusal> {
    let illegal = group.is_empty()
        || group.chars().count() > 256
        || group.contains(|c: char| "\"/\\[]:;|=,+*?<>".contains(c));
    if illegal {
        return refuse(2202, "The user name or group name parameter is invalid.");
    }
    // Users and groups share one space of names.
    if account::user(registry, group).is_some() {
        return refuse(2223, "The group already exists.");
    }
    account::set_members(registry, group, &[])
        .and_then(|()| match comment {
            Some(text) => account::set_group_text(registry, group, "Comment", text),
            None => Ok(()),
        })
        .or_else(|e| refuse(5, &e))
}

fn join_all(registry: &Registry, members: &mut Vec<String>, names: &[&str]) -> Result<(), Refusal> {
    for name in names {
        // net.exe looks names up; it does not take the `*S-1-…` of icacls.
        let Some(sid) = account::sid(registry, name).filter(|_| !name.starts_with('*')) else {
            return refuse(
                3783,
                &format!("There is no such global user or group: {name}."),
            );
        };
        let there = members
            .iter()
            .any(|member| account::sid(registry, member).is_some_and(|known| known == sid));
        if there {
            return refuse(
                1378,
                "The specified account name is already a member of the group.",
            );
        }
        members.push((*name).to_owned());
    }
    Ok(())
}

fn leave_all(members: &mut Vec<String>, names: &[&str]) -> Result<(), Refusal> {
    for name in names {
        let Some(at) = members.iter().position(|member| same(member, name)) else {
            return refuse(
                1377,
                "The specified account name is not a member of the group.",
            );
        };
        members.remove(at);
    }
    Ok(())
}

fn accounts(p: &Process, operands: &[&str], options: &[(String, &str)]) -> Done {
    if !operands.is_empty() {
        return syntax("net accounts");
    }
    let mut registry = p.machine.registry();
    for (option, value) in options {
        let number = value.parse::<u32>().ok();
        let (name, number) = match (option.as_str(), number) {
            ("/maxpwage", None) if value.eq_ignore_ascii_case("unlimited") => {
                ("MaxPasswordAge", u32::MAX)
            }
            ("/maxpwage", Some(days)) if (1..=999).contains(&days) => ("MaxPasswordAge", days),
            ("/minpwage", Some(days)) if days <= 999 => ("MinPasswordAge", days),
            ("/minpwlen", Some(len)) if len <= 14 => ("MinPasswordLength", len),
            ("/uniquepw", Some(count)) if count <= 24 => ("PasswordHistoryLength", count),
            ("/lockoutthreshold", Some(count)) if count <= 999 => ("LockoutThreshold", count),
            ("/lockoutduration", Some(minutes)) => ("LockoutDuration", minutes),
            ("/lockoutwindow", Some(minutes)) => ("LockoutWindow", minutes),
            _ => return syntax(&format!("net accounts {option}:{value}")),
        };
        registry
            .set(POLICY, name, dword_value(number))
            .or_else(|e| refuse(5, &e))?;
    }
    Ok(FINISHED.into())
}

fn start(p: &Process, operands: &[&str]) -> Done {
    let [name] = operands else {
        let names: Vec<String> = service::names(&p.machine.registry())
            .into_iter()
            .filter(|name| service::pid(&p.machine, name).is_some())
            .collect();
        return Ok(format!(
            "These Windows services are started:\n\n   {}\n\n{FINISHED}",
            names.join("\n   ")
        ));
    };
    match service::start(&p.machine, name) {
        Ok(_) => Ok(format!(
            "The {name} service is starting.\nThe {name} service was started successfully.\n\n"
        )),
        Err(error) if error.0 == 1056 => {
            refuse(2182, "The requested service has already been started.")
        }
        Err(error) if error.0 == 1060 => refuse(2185, "The service name is invalid."),
        Err(error) => refuse(error.0, &error.text()),
    }
}

fn stop(p: &Process, operands: &[&str]) -> Done {
    let [name] = operands else {
        return syntax("net stop");
    };
    match service::stop(&p.machine, name) {
        Ok(()) => Ok(format!(
            "The {name} service is stopping.\nThe {name} service was stopped successfully.\n\n"
        )),
        Err(error) if error.0 == 1060 => refuse(2185, "The service name is invalid."),
        Err(error) if error.0 == 1062 => {
            refuse(3521, &format!("The {name} service is not started."))
        }
        Err(error) => refuse(error.0, &error.text()),
    }
}
