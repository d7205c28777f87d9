//! Programs that set machine settings: powercfg, bcdedit.
//! What Windows keeps outside the registry (boot store, power schemes) is kept below
//! `HKLM\SOFTWARE\winimg-standin`.

use super::Arguments;
use crate::windows::process::Process;
use crate::windows::registry::{dword_value, sz};

const OWN: &str = r"HKLM\SOFTWARE\winimg-standin";

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
