//! sc.exe: the service control manager from the command line. Values are written as the real manager writes them;
//! errors are Windows' error numbers, which are also the exit codes.

mod query;

use super::Arguments;
use crate::windows::account;
use crate::windows::error::Win32;
use crate::windows::process::Process;
use crate::windows::regf::{REG_BINARY, same};
use crate::windows::registry::{Registry, dword, dword_value, expand_sz, multi_sz, sz};
use crate::windows::service::{self, ServiceConfig, key};

use query::{configuration, described, failures, query, show, sid_shown, status};

const USAGE: u32 = 1639;

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let list: Vec<&str> = args.list.iter().map(String::as_str).collect();
    let Some((verb, rest)) = list.split_first() else {
        return usage(p, "a command");
    };
    if verb.starts_with(r"\\") {
        return usage(p, "another computer");
    }
    let verb = verb.to_ascii_lowercase();
    if verb == "query" || verb == "queryex" {
        return query(p, rest);
    }
    let Some((name, options)) = rest.split_first() else {
        return usage(p, "a service name");
    };
    let (what, done) = match verb.as_str() {
        "create" => ("CreateService", create(p, name, options)),
        "config" => ("ChangeServiceConfig", config(p, name, options)),
        "description" => ("ChangeServiceConfig2", description(p, name, options)),
        "failure" => ("ChangeServiceConfig2", failure(p, name, options)),
        "failureflag" => (
            "ChangeServiceConfig2",
            number(
                p,
                name,
                options,
                "FailureActionsOnNonCrashFailures",
                &["0", "1"],
            ),
        ),
        "sidtype" => ("ChangeServiceConfig2", sid_type(p, name, options)),
        "privs" => ("ChangeServiceConfig2", privileges(p, name, options)),
        "start" => ("StartService", start(p, name)),
        "stop" => ("ControlService", stop(p, name)),
        "delete" => ("DeleteService", delete(p, name)),
        "qc" => return show(p, name, "QueryServiceConfig", configuration),
        "qdescription" => return show(p, name, "QueryServiceConfig2", described),
        "qfailure" => return show(p, name, "QueryServiceConfig2", failures),
        "qsidtype" => return show(p, name, "QueryServiceConfig2", sid_shown),
        other => return usage(p, other),
    };
    report(p, what, done)
}

fn usage(p: &Process, what: &str) -> u32 {
    p.complain(&format!("DESCRIPTION:\n        SC is a command line program used for communicating with the\n        Service Control Manager and services.\nsc: wrong or unknown here: {what}\n"));
    USAGE
}

fn report(p: &Process, what: &str, done: Result<String, Win32>) -> u32 {
    match done {
        Ok(text) if text.is_empty() => {
            p.print(&format!("[SC] {what} SUCCESS\n"));
            0
        }
        Ok(text) => {
            p.print(&text);
            0
        }
        Err(Win32(USAGE)) => usage(p, what),
        Err(error) => {
            p.print(&format!(
                "[SC] {what} FAILED {}:\n\n{}\n\n",
                error.0,
                error.text()
            ));
            error.0
        }
    }
}

type Done = Result<String, Win32>;
const OK: Done = Ok(String::new());

/// `name= value` pairs: the equal sign ends the name's word and the value is the next word.
fn pairs<'a>(options: &[&'a str], known: &[&str]) -> Result<Vec<(String, &'a str)>, Win32> {
    let mut found: Vec<(String, &str)> = Vec::new();
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let name = word
            .strip_suffix('=')
            .ok_or(Win32(USAGE))?
            .to_ascii_lowercase();
        let value = words.next().ok_or(Win32(USAGE))?;
        if !known.contains(&name.as_str()) || found.iter().any(|(other, _)| *other == name) {
            return Err(Win32(USAGE));
        }
        found.push((name, value));
    }
    Ok(found)
}

fn existing(registry: &Registry, name: &str) -> Result<ServiceConfig, Win32> {
    let config = service::config(registry, name).ok_or(Win32(1060))?;
    let marked = registry.dword(&key(name), "DeleteFlag").is_some();
    if marked { Err(Win32(1072)) } else { Ok(config) }
}

fn set(
    registry: &mut Registry,
    name: &str,
    value: &str,
    data: (u32, Vec<u8>),
) -> Result<(), Win32> {
    registry
        .set(&key(name), value, data)
        .map_err(|_| Win32(1016))
}

const CONFIG: [&str; 11] = [
    "type",
    "start",
    "error",
    "binpath",
    "group",
    "tag",
    "depend",
    "obj",
    "displayname",
    "password",
    "name",
];

fn create(p: &Process, name: &str, options: &[&str]) -> Done {
    let pairs = pairs(options, &CONFIG)?;
    if !pairs.iter().any(|(option, _)| option == "binpath") {
        return Err(Win32(USAGE));
    }
    let mut registry = p.machine.registry();
    if name.is_empty() || name.contains(['/', '\\']) || name.chars().count() > 256 {
        return Err(Win32(123));
    }
    if let Some(config) = service::config(&registry, name) {
        existing(&registry, &config.name)?;
        return Err(Win32(1073));
    }
    let values = judge(&registry, name, &pairs)?;
    set(&mut registry, name, "Type", dword_value(0x10))?;
    set(&mut registry, name, "Start", dword_value(3))?;
    set(&mut registry, name, "ErrorControl", dword_value(1))?;
    let driver = values.iter().any(|(value, data)| {
        *value == "Type" && dword(&data.1).is_some_and(|kind| kind & 0xf != 0)
    });
    if !driver {
        set(&mut registry, name, "ObjectName", sz("LocalSystem"))?;
    }
    values
        .into_iter()
        .try_for_each(|(value, data)| set(&mut registry, name, value, data))?;
    OK
}

fn config(p: &Process, name: &str, options: &[&str]) -> Done {
    let pairs = pairs(options, &CONFIG)?;
    if pairs.is_empty() {
        return Err(Win32(USAGE));
    }
    let mut registry = p.machine.registry();
    existing(&registry, name)?;
    let values = judge(&registry, name, &pairs)?;
    if pairs.iter().any(|(option, _)| option == "start")
        && let Some(service) = registry.key_mut(&key(name))
    {
        service.unset("DelayedAutostart");
    }
    values
        .into_iter()
        .try_for_each(|(value, data)| set(&mut registry, name, value, data))?;
    OK
}

type Values = Vec<(&'static str, (u32, Vec<u8>))>;

/// The registry values that the options mean, or the error the manager gives.
fn judge(registry: &Registry, name: &str, pairs: &[(String, &str)]) -> Result<Values, Win32> {
    let mut values = Values::new();
    for (option, value) in pairs {
        let lower = value.to_ascii_lowercase();
        match (option.as_str(), lower.as_str()) {
            ("type", kind) => values.push(("Type", dword_value(of(kind, &TYPES)?))),
            ("start", "delayed-auto") => {
                values.push(("Start", dword_value(2)));
                values.push(("DelayedAutostart", dword_value(1)));
            }
            ("start", start) => values.push(("Start", dword_value(of(start, &STARTS)?))),
            ("error", error) => values.push(("ErrorControl", dword_value(of(error, &ERRORS)?))),
            ("binpath", "") => return Err(Win32(87)),
            ("binpath", _) => values.push(("ImagePath", expand_sz(value))),
            ("group", _) => values.push(("Group", sz(value))),
            ("tag", "yes") => values.push(("Tag", dword_value(1))),
            ("tag", "no") => {}
            ("depend", list) => {
                let on: Vec<&str> = value
                    .split('/')
                    .filter(|on| !on.is_empty() && list != "\"\"")
                    .collect();
                if on.iter().any(|on| same(on, name)) {
                    return Err(Win32(1059));
                }
                values.push(("DependOnService", multi_sz(&on)));
            }
            ("obj", _) => values.push(("ObjectName", sz(&account_name(registry, value, pairs)?))),
            ("displayname", _) => {
                let taken = service::names(registry)
                    .into_iter()
                    .filter(|other| !same(other, name))
                    .any(|other| {
                        registry
                            .text(&key(&other), "DisplayName")
                            .is_some_and(|display| same(&display, value))
                    });
                if taken {
                    return Err(Win32(1078));
                }
                values.push(("DisplayName", sz(value)));
            }
            ("password", _) => {}
            _ => return Err(Win32(USAGE)),
        }
    }
    Ok(values)
}

const TYPES: [(&str, u32); 6] = [
    ("kernel", 1),
    ("filesys", 2),
    ("adapt", 4),
    ("rec", 8),
    ("own", 0x10),
    ("share", 0x20),
];
const STARTS: [(&str, u32); 5] = [
    ("boot", 0),
    ("system", 1),
    ("auto", 2),
    ("demand", 3),
    ("disabled", 4),
];
const ERRORS: [(&str, u32); 4] = [("ignore", 0), ("normal", 1), ("severe", 2), ("critical", 3)];

fn of(word: &str, table: &[(&str, u32)]) -> Result<u32, Win32> {
    table
        .iter()
        .find(|(known, _)| *known == word)
        .map(|(_, number)| *number)
        .ok_or(Win32(USAGE))
}

/// The account a service runs as: built-in ones without a password, a local user that exists.
fn account_name(
    registry: &Registry,
    name: &str,
    pairs: &[(String, &str)],
) -> Result<String, Win32> {
    let built_in = [
        ("localsystem", "LocalSystem"),
        (r".\localsystem", "LocalSystem"),
        (r"nt authority\system", "LocalSystem"),
        (r"nt authority\localservice", r"NT AUTHORITY\LocalService"),
        (r"nt authority\local service", r"NT AUTHORITY\LocalService"),
        (
            r"nt authority\networkservice",
            r"NT AUTHORITY\NetworkService",
        ),
        (
            r"nt authority\network service",
            r"NT AUTHORITY\NetworkService",
        ),
    ];
    let lower = name.to_ascii_lowercase();
    if let Some((_, account)) = built_in.iter().find(|(known, _)| *known == lower) {
        return Ok((*account).to_owned());
    }
    if lower.starts_with(r"nt service\") && account::sid(registry, name).is_some() {
        return Ok(name.to_owned());
    }
    let user = name.strip_prefix(r".\").unwrap_or(name);
    let password = pairs.iter().any(|(option, _)| option == "password");
    if account::user(registry, user).is_some() && password {
        Ok(format!(r".\{user}"))
    } else {
        Err(Win32(1057))
    }
}

fn description(p: &Process, name: &str, options: &[&str]) -> Done {
    let mut registry = p.machine.registry();
    let [text] = options else {
        return Err(Win32(USAGE));
    };
    existing(&registry, name)?;
    set(&mut registry, name, "Description", sz(text))?;
    OK
}

/// `FailureActions`: reset period, two flags for message and command, count, offset, then type and delay of each.
fn failure(p: &Process, name: &str, options: &[&str]) -> Done {
    let pairs = pairs(options, &["reset", "reboot", "command", "actions"])?;
    let get = |option: &str| {
        pairs
            .iter()
            .find(|(name, _)| name == option)
            .map(|(_, value)| *value)
    };
    let mut registry = p.machine.registry();
    existing(&registry, name)?;
    if get("reset").is_some() != get("actions").is_some() || pairs.is_empty() {
        return Err(Win32(USAGE));
    }
    if let (Some(reset), Some(actions)) = (get("reset"), get("actions")) {
        let reset = match reset.to_ascii_lowercase().as_str() {
            "infinite" => u32::MAX,
            text => text.parse().map_err(|_| Win32(USAGE))?,
        };
        let words: Vec<&str> = actions.split('/').collect();
        let words = if words == [""] { Vec::new() } else { words };
        if words.len() % 2 != 0 {
            return Err(Win32(87));
        }
        let mut data: Vec<u8> = Vec::new();
        [reset, 0, 0, words.len() as u32 / 2, 20]
            .iter()
            .for_each(|word| data.extend(word.to_le_bytes()));
        for action in words.chunks_exact(2) {
            let kinds = [
                ("", 0),
                ("none", 0),
                ("restart", 1),
                ("reboot", 2),
                ("run", 3),
            ];
            let delay: u32 = action[1].parse().map_err(|_| Win32(USAGE))?;
            data.extend(of(&action[0].to_ascii_lowercase(), &kinds)?.to_le_bytes());
            data.extend(delay.to_le_bytes());
        }
        set(&mut registry, name, "FailureActions", (REG_BINARY, data))?;
    }
    if let Some(command) = get("command") {
        set(&mut registry, name, "FailureCommand", sz(command))?;
    }
    if let Some(message) = get("reboot") {
        set(&mut registry, name, "RebootMessage", sz(message))?;
    }
    OK
}

fn number(p: &Process, name: &str, options: &[&str], value: &str, allowed: &[&str]) -> Done {
    let mut registry = p.machine.registry();
    existing(&registry, name)?;
    let [word] = options else {
        return Err(Win32(USAGE));
    };
    if !allowed.contains(word) {
        return Err(Win32(USAGE));
    }
    set(
        &mut registry,
        name,
        value,
        dword_value(word.parse().map_err(|_| Win32(USAGE))?),
    )?;
    OK
}

fn sid_type(p: &Process, name: &str, options: &[&str]) -> Done {
    let mut registry = p.machine.registry();
    existing(&registry, name)?;
    let [word] = options else {
        return Err(Win32(USAGE));
    };
    let kind = of(
        &word.to_ascii_lowercase(),
        &[("none", 0), ("unrestricted", 1), ("restricted", 3)],
    )?;
    set(&mut registry, name, "ServiceSidType", dword_value(kind))?;
    OK
}

fn privileges(p: &Process, name: &str, options: &[&str]) -> Done {
    let mut registry = p.machine.registry();
    existing(&registry, name)?;
    let [list] = options else {
        return Err(Win32(USAGE));
    };
    let names: Vec<&str> = list.split('/').filter(|name| !name.is_empty()).collect();
    if names
        .iter()
        .any(|name| !name.starts_with("Se") || !name.ends_with("Privilege"))
    {
        return Err(Win32(1313));
    }
    set(&mut registry, name, "RequiredPrivileges", multi_sz(&names))?;
    OK
}

fn start(p: &Process, name: &str) -> Done {
    existing(&p.machine.registry(), name)?;
    service::start(&p.machine, name)?;
    Ok(status(&p.machine.registry(), p, name, false).unwrap_or_default())
}

fn stop(p: &Process, name: &str) -> Done {
    service::stop(&p.machine, name)?;
    let text = status(&p.machine.registry(), p, name, false).unwrap_or_default();
    let mut registry = p.machine.registry();
    if registry.dword(&key(name), "DeleteFlag").is_some() {
        registry.remove(&key(name));
    }
    Ok(text)
}

/// A service that runs is only marked, and goes when it stops.
fn delete(p: &Process, name: &str) -> Done {
    let mut registry = p.machine.registry();
    existing(&registry, name)?;
    if service::pid(&p.machine, name).is_some() {
        set(&mut registry, name, "DeleteFlag", dword_value(1))?;
    } else {
        registry.remove(&key(name));
    }
    OK
}
