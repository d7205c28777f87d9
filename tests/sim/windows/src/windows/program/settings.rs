//! Programs that set machine settings: setx, powercfg, bcdedit, tzutil, reagentc, fsutil.
//! What Windows keeps outside the registry (boot store, recovery, power schemes) is kept below
//! `HKLM\SOFTWARE\winimg-standin`.

use super::Arguments;
use super::small::unknown;
use crate::windows::process::Process;
use crate::windows::registry::{dword_value, expand_sz, sz};

const OWN: &str = r"HKLM\SOFTWARE\winimg-standin";
const ENVIRONMENT: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
/// setx cuts longer values, with a warning.
const SETX_MAX: usize = 1024;

pub(super) fn written(p: &Process, done: Result<(), String>) -> u32 {
    match done {
        Ok(()) => 0,
        Err(e) => {
            p.complain(&format!("{e}\n"));
            1
        }
    }
}

fn lower(args: &Arguments) -> Vec<String> {
    args.list
        .iter()
        .map(|arg| arg.to_ascii_lowercase())
        .collect()
}

pub fn setx(p: &mut Process, args: &Arguments) -> u32 {
    let (switches, words): (Vec<&String>, Vec<&String>) = args
        .list
        .iter()
        .partition(|arg| arg.starts_with('/') && arg.len() <= 2);
    if let Some(odd) = switches
        .iter()
        .find(|switch| !switch.eq_ignore_ascii_case("/m"))
    {
        return unknown(p, "setx", odd, 1);
    }
    let [name, value] = words[..] else {
        p.complain("ERROR: Invalid syntax.\nType \"SETX /?\" for usage.\n");
        return 1;
    };
    let mut value = value.clone();
    if value.chars().count() > SETX_MAX {
        value = value.chars().take(SETX_MAX).collect();
        p.print("WARNING: The data being saved is truncated to 1024 characters.\n");
    }
    let key = if switches.is_empty() {
        r"HKCU\Environment"
    } else {
        ENVIRONMENT
    };
    let data = if value.contains('%') {
        expand_sz(&value)
    } else {
        sz(&value)
    };
    let done = p.machine.registry().set(key, name, data);
    if done.is_ok() {
        p.print("\nSUCCESS: Specified value was saved.\n");
    }
    written(p, done)
}

const SCHEMES: [(&str, &str); 4] = [
    ("scheme_balanced", "381b4222-f694-41f0-9685-ff5bb260df2e"),
    ("scheme_min", "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c"),
    ("scheme_max", "a1841308-3541-4fab-bc81-f71556f20b4a"),
    ("scheme_current", ""),
];

pub fn powercfg(p: &mut Process, args: &Arguments) -> u32 {
    let words = lower(args);
    let words: Vec<String> = words
        .iter()
        .map(|word| word.replacen('-', "/", usize::from(word.starts_with('-'))))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let power = r"HKLM\SYSTEM\CurrentControlSet\Control\Power";
    let mut registry = p.machine.registry();
    let done = match words[..] {
        ["/h" | "/hibernate", state @ ("on" | "off")] => registry.set(
            power,
            "HibernateEnabled",
            dword_value(u32::from(state == "on")),
        ),
        ["/s" | "/setactive", scheme] => match SCHEMES
            .iter()
            .find(|(alias, guid)| *alias == scheme || *guid == scheme)
        {
            Some((_, "")) => Ok(()),
            Some((_, guid)) => registry.set(
                &format!(r"{power}\User\PowerSchemes"),
                "ActivePowerScheme",
                sz(guid),
            ),
            None => Err("The power scheme, subgroup or setting specified does not exist.".into()),
        },
        ["/x" | "/change", setting, minutes] => {
            let known = [
                "monitor-timeout",
                "disk-timeout",
                "standby-timeout",
                "hibernate-timeout",
            ];
            let right = setting
                .strip_suffix("-ac")
                .or(setting.strip_suffix("-dc"))
                .is_some_and(|name| known.contains(&name));
            match minutes.parse::<u32>() {
                Ok(minutes) if right => {
                    registry.set(&format!(r"{OWN}\Power"), setting, dword_value(minutes))
                }
                _ => Err("Invalid Parameters -- try \"/?\" for help".into()),
            }
        }
        _ => Err(format!(
            "Invalid Parameters -- try \"/?\" for help: {}",
            words.join(" ")
        )),
    };
    drop(registry);
    written(p, done)
}

pub fn bcdedit(p: &mut Process, args: &Arguments) -> u32 {
    let words: Vec<&str> = args.list.iter().map(String::as_str).collect();
    let ids = [
        "{bootmgr}",
        "{default}",
        "{current}",
        "{globalsettings}",
        "{emssettings}",
        "{dbgsettings}",
        "{bootloadersettings}",
    ];
    let verb = words.first().map(|word| word.to_ascii_lowercase());
    let (id, rest) = match words.get(1) {
        Some(id) if id.starts_with('{') => (*id, words.get(2..).unwrap_or_default()),
        _ => ("{current}", words.get(1..).unwrap_or_default()),
    };
    let fault = |text: &str| {
        Err(format!(
            "{text}\nRun \"bcdedit /?\" for command line assistance."
        ))
    };
    let known = ids.iter().any(|known| known.eq_ignore_ascii_case(id));
    let key = format!(r"{OWN}\Bcd\{}", id.to_ascii_lowercase());
    let done = match (verb.as_deref(), rest) {
        _ if !known => {
            fault("The boot configuration data store could not find the specified entry.")
        }
        (Some("/set"), [name, value @ ..]) if !value.is_empty() => {
            p.machine
                .registry()
                .set(&key, &name.to_ascii_lowercase(), sz(&value.join(" ")))
        }
        (Some("/deletevalue"), [name]) => {
            let gone = p
                .machine
                .registry()
                .key_mut(&key)
                .is_some_and(|key| key.unset(name));
            if gone {
                Ok(())
            } else {
                fault(
                    "An error occurred while attempting to delete the specified data element.\nElement not found.",
                )
            }
        }
        (Some("/timeout"), [seconds]) if seconds.parse::<u32>().is_ok() => p
            .machine
            .registry()
            .set(&format!(r"{OWN}\Bcd\{{bootmgr}}"), "timeout", sz(seconds)),
        (Some("/emssettings"), [port, rate])
            if is_one(port, "emsport:", &["1", "2", "3", "4"])
                && is_one(rate, "emsbaudrate:", &["9600", "19200", "57600", "115200"]) =>
        {
            p.machine.registry().set(
                &format!(r"{OWN}\Bcd\{{emssettings}}"),
                "port",
                sz(&rest.join(" ")),
            )
        }
        (Some("/ems" | "/bootems" | "/debug"), [state])
            if ["on", "off"].contains(&state.to_ascii_lowercase().as_str()) =>
        {
            p.machine
                .registry()
                .set(&key, &words[0][1..].to_ascii_lowercase(), sz(state))
        }
        _ => fault("The set command specified is not valid."),
    };
    if done.is_ok() {
        p.print("The operation completed successfully.\n");
    }
    written(p, done)
}

/// `NAME:VALUE` with one of these values, in any case.
fn is_one(word: &str, name: &str, values: &[&str]) -> bool {
    let word = word.to_ascii_lowercase();
    word.strip_prefix(name)
        .is_some_and(|value| values.contains(&value))
}

/// Zones that are accepted, with their bias from UTC in minutes.
const ZONES: [(&str, i32); 14] = [
    ("UTC", 0),
    ("GMT Standard Time", 0),
    ("Greenwich Standard Time", 0),
    ("W. Europe Standard Time", -60),
    ("Central Europe Standard Time", -60),
    ("Central European Standard Time", -60),
    ("Romance Standard Time", -60),
    ("E. Europe Standard Time", -120),
    ("Eastern Standard Time", 300),
    ("Central Standard Time", 360),
    ("Mountain Standard Time", 420),
    ("Pacific Standard Time", 480),
    ("India Standard Time", -330),
    ("Tokyo Standard Time", -540),
];

pub fn tzutil(p: &mut Process, args: &Arguments) -> u32 {
    let key = r"HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation";
    let list: Vec<&str> = args.list.iter().map(String::as_str).collect();
    match list[..] {
        ["/g" | "/G"] => {
            let zone = p
                .machine
                .registry()
                .text(key, "TimeZoneKeyName")
                .unwrap_or_default();
            p.print(&zone);
            0
        }
        ["/s" | "/S", zone] => {
            let name = zone.strip_suffix("_dstoff").unwrap_or(zone);
            let Some((name, bias)) = ZONES
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
            else {
                p.complain(&format!(
                    "{zone} is not a time zone that the stand-in knows\n"
                ));
                return 1;
            };
            let mut registry = p.machine.registry();
            let done = registry
                .set(key, "TimeZoneKeyName", sz(name))
                .and_then(|()| registry.set(key, "Bias", dword_value(*bias as u32)));
            drop(registry);
            written(p, done)
        }
        _ => unknown(p, "tzutil", &list.join(" "), 1),
    }
}

pub fn reagentc(p: &mut Process, args: &Arguments) -> u32 {
    let words = lower(args);
    let state = p.machine.registry().dword(OWN, "WinREEnabled").unwrap_or(1);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [verb @ ("/enable" | "/disable")] => {
            let on = u32::from(verb == "/enable");
            if on == state {
                p.complain(&format!(
                    "REAGENTC.EXE: Windows RE is already {}.\n",
                    if on == 1 { "enabled" } else { "disabled" }
                ));
                return 2;
            }
            let done = p
                .machine
                .registry()
                .set(OWN, "WinREEnabled", dword_value(on));
            p.print("REAGENTC.EXE: Operation Successful.\n");
            written(p, done)
        }
        ["/info"] => {
            p.print(&format!(
                "    Windows RE status:         {}\nREAGENTC.EXE: Operation Successful.\n",
                if state == 1 { "Enabled" } else { "Disabled" }
            ));
            0
        }
        _ => unknown(p, "reagentc", &words.join(" "), 1),
    }
}

pub fn fsutil(p: &mut Process, args: &Arguments) -> u32 {
    let words = lower(args);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let names = [
        ("disablelastaccess", "NtfsDisableLastAccessUpdate"),
        ("disable8dot3", "NtfsDisable8dot3NameCreation"),
        ("encryptpagingfile", "NtfsEncryptPagingFile"),
    ];
    match words[..] {
        ["behavior", "set", name, value] => match (
            names.iter().find(|(known, _)| *known == name),
            value.parse::<u32>(),
        ) {
            (Some((_, value_name)), Ok(number)) if number <= 3 => {
                let done = p.machine.registry().set(
                    r"HKLM\SYSTEM\CurrentControlSet\Control\FileSystem",
                    value_name,
                    dword_value(number),
                );
                written(p, done)
            }
            _ => unknown(p, "fsutil behavior set", &words[2..].join(" "), 1),
        },
        ["file", "createnew", _, size] => {
            let path = &args.list[2];
            let made = size
                .parse::<u64>()
                .map_err(|e| e.to_string())
                .and_then(|size| {
                    let found = p
                        .locate(path)
                        .and_then(|found| found.writable())
                        .map_err(|error| format!("Error:  {}", error.text()))?;
                    if found.meta.is_some() {
                        return Err("Error:  The file exists.".into());
                    }
                    std::fs::File::create_new(found.host)
                        .and_then(|file| file.set_len(size))
                        .map_err(|e| e.to_string())
                });
            if made.is_ok() {
                p.print(&format!("File {path} is created\n"));
            }
            written(p, made)
        }
        _ => unknown(p, "fsutil", &words.join(" "), 1),
    }
}
