//! netsh.exe: firewall rules and profiles, dynamic ports, the WinHTTP proxy. Every failure is exit code 1.
//!
//! A firewall rule is a value of `SharedAccess\Parameters\FirewallPolicy\FirewallRules`, named by a GUID, in the text
//! form of MS-GPFAS 2.2.2.19 (`v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=10250|Name=…|`).

mod rule;

use std::io::Read;

use super::Arguments;
use crate::windows::process::Process;
use crate::windows::regf::same;
use crate::windows::registry::{Registry, dword_value, sz, text};

const POLICY: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy";
pub(super) const RULES: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules";
const WINHTTP: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Internet Settings\Connections";
const TCPIP: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters";

type Done = Result<String, String>;

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let words: Vec<String> = args
        .list
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rest = |from: usize| args.list.get(from..).unwrap_or_default();
    let done = match &words[..] {
        ["advfirewall", "firewall", "add", "rule", ..] => add(p, rest(4)),
        ["advfirewall", "firewall", "delete", "rule", ..] => delete(p, rest(4)),
        ["advfirewall", "firewall", "show", "rule", ..] => show(p, rest(4)),
        ["advfirewall", "firewall", "set", "rule", ..] => set_rule(p, rest(4)),
        ["advfirewall", "set", profile, "state", state] => profile_state(p, profile, state),
        ["advfirewall", "show", profile] | ["advfirewall", "show", profile, "state"] => {
            profiles_shown(p, profile)
        }
        [
            "int" | "interface",
            family @ ("ipv4" | "ipv6"),
            "set",
            "dynamicportrange" | "dynamicport",
            ..,
        ] => dynamic_ports(p, family, &words[4..]),
        [
            "int" | "interface",
            family @ ("ipv4" | "ipv6"),
            "show",
            "dynamicportrange" | "dynamicport",
            protocol,
        ] => Ok(ports_shown(p, family, protocol)),
        ["winhttp", "reset", "proxy"] => {
            p.machine
                .registry()
                .key_mut(WINHTTP)
                .map(|key| key.unset("WinHttpSettings"));
            Ok(
                "\nCurrent WinHTTP proxy settings:\n\n    Direct access (no proxy server).\n\n"
                    .into(),
            )
        }
        _ => Err(format!(
            "The following command was not found: {}.",
            args.list.join(" ")
        )),
    };
    match done {
        Ok(text) => {
            p.print(&text);
            0
        }
        Err(text) => {
            p.print(&format!("{text}\n"));
            1
        }
    }
}

/// `name=value` words; each name once, known ones only.
fn pairs<'a>(words: &'a [String], known: &[&str]) -> Result<Vec<(String, &'a str)>, String> {
    let mut found: Vec<(String, &str)> = Vec::new();
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("\nA specified value is not valid: {word}\n"))?;
        let name = name.to_ascii_lowercase();
        if !known.contains(&name.as_str()) || found.iter().any(|(other, _)| *other == name) {
            return Err(format!(
                "\n'{name}' is not a valid argument for this command.\nThe syntax supplied for this command is not valid. Check help for the correct syntax.\n"
            ));
        }
        found.push((name, value));
    }
    Ok(found)
}

fn get<'a>(pairs: &[(String, &'a str)], name: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| *value)
}

fn bad<T>(what: &str) -> Result<T, String> {
    Err(format!("\nA specified value is not valid: {what}\n"))
}

fn add(p: &Process, words: &[String]) -> Done {
    let rule = rule::text(words)?;
    p.machine.registry().set(RULES, &guid()?, sz(&rule))?;
    Ok("Ok.\n\n".into())
}

fn guid() -> Result<String, String> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|e| e.to_string())?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    Ok(format!(
        "{{{}-{}-4{}-8{}-{}}}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    ))
}

/// GUIDs and texts of the rules that fit `name=` and the other conditions of a delete, show or set.
fn matching(
    registry: &Registry,
    words: &[String],
    more: &[&str],
) -> Result<Vec<(String, String)>, String> {
    let known = [&rule::CONDITIONS[..], more].concat();
    let pairs = pairs(words, &known)?;
    let key = registry.key(RULES);
    let all = key
        .map(|key| key.values.as_slice())
        .unwrap_or_default()
        .iter()
        .map(|value| (value.name.clone(), text(&value.data)));
    let wanted = rule::wanted(&pairs)?;
    let found: Vec<_> = all.filter(|(_, rule)| wanted(rule)).collect();
    if found.is_empty() {
        Err("\nNo rules match the specified criteria.\n".into())
    } else {
        Ok(found)
    }
}

fn delete(p: &Process, words: &[String]) -> Done {
    let mut registry = p.machine.registry();
    let found = matching(&registry, words, &[])?;
    if let Some(key) = registry.key_mut(RULES) {
        key.values
            .retain(|value| !found.iter().any(|(guid, _)| *guid == value.name));
    }
    Ok(format!("\nDeleted {} rule(s).\nOk.\n\n", found.len()))
}

fn show(p: &Process, words: &[String]) -> Done {
    let found = matching(&p.machine.registry(), words, &["type", "verbose"])?;
    let field = |rule: &str, name: &str| {
        rule.split('|')
            .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or("Any")
            .to_owned()
    };
    let one = |rule: &String| {
        format!(
            "\nRule Name:                            {}\n----------------------------------------------------------------------\nEnabled:                              {}\nDirection:                            {}\nProtocol:                             {}\nLocalPort:                            {}\nAction:                               {}\n",
            field(rule, "Name"),
            if field(rule, "Active") == "TRUE" {
                "Yes"
            } else {
                "No"
            },
            field(rule, "Dir"),
            field(rule, "Protocol"),
            field(rule, "LPort"),
            field(rule, "Action")
        )
    };
    Ok(found.iter().map(|(_, rule)| one(rule)).collect::<String>() + "Ok.\n\n")
}

/// `set rule name=X new enable=yes|no`.
fn set_rule(p: &Process, words: &[String]) -> Done {
    let at = words.iter().position(|word| same(word, "new")).ok_or(
        "\nThe syntax supplied for this command is not valid. Check help for the correct syntax.\n",
    )?;
    let change = pairs(&words[at + 1..], &["enable"])?;
    let active = match get(&change, "enable")
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("yes") => "TRUE",
        Some("no") => "FALSE",
        other => return bad(other.unwrap_or("nothing to change")),
    };
    let mut registry = p.machine.registry();
    let found = matching(&registry, &words[..at], &[])?;
    for (guid, rule) in &found {
        let rule = rule
            .replace("|Active=TRUE|", &format!("|Active={active}|"))
            .replace("|Active=FALSE|", &format!("|Active={active}|"));
        registry.set(RULES, guid, sz(&rule))?;
    }
    Ok(format!("\nUpdated {} rule(s).\nOk.\n\n", found.len()))
}

/// Names on the command line, and the registry's.
fn profile_keys(profile: &str) -> Result<&'static [&'static str], String> {
    Ok(match profile {
        "allprofiles" => &["DomainProfile", "StandardProfile", "PublicProfile"],
        "domainprofile" => &["DomainProfile"],
        "privateprofile" => &["StandardProfile"],
        "publicprofile" | "currentprofile" => &["PublicProfile"],
        other => return bad(other),
    })
}

fn profiles_shown(p: &Process, profile: &str) -> Done {
    let registry = p.machine.registry();
    let one = |key: &&str| {
        let on = registry.dword(&format!("{POLICY}\\{key}"), "EnableFirewall") == Some(1);
        let name = match *key {
            "DomainProfile" => "Domain",
            "StandardProfile" => "Private",
            _ => "Public",
        };
        format!(
            "\n{name} Profile Settings: \n----------------------------------------------------------------------\nState                                 {}\n",
            if on { "ON" } else { "OFF" }
        )
    };
    Ok(profile_keys(profile)?.iter().map(one).collect::<String>() + "Ok.\n\n")
}

fn profile_state(p: &Process, profile: &str, state: &str) -> Done {
    let profiles = profile_keys(profile)?;
    let on = match state {
        "on" => 1,
        "off" => 0,
        other => return bad(other),
    };
    for profile in profiles {
        p.machine.registry().set(
            &format!("{POLICY}\\{profile}"),
            "EnableFirewall",
            dword_value(on),
        )?;
    }
    Ok("Ok.\n\n".into())
}

/// `tcp 34000 31536` or `protocol=tcp startport=34000 numberofports=31536`; kept as REG_DWORDs below the TCP/IP
/// parameters in names of the stand-in's own (Windows keeps them in the NSI store).
fn dynamic_ports(p: &Process, family: &str, words: &[&str]) -> Done {
    let mut values = [None; 3];
    for (at, word) in words.iter().enumerate() {
        let (place, value) = match word.split_once('=') {
            None => (at, *word),
            Some(("protocol", value)) => (0, value),
            Some(("startport" | "start", value)) => (1, value),
            Some(("numberofports" | "num", value)) => (2, value),
            Some(("store", "persistent" | "active")) => continue,
            Some(_) => return bad(word),
        };
        *values
            .get_mut(place)
            .ok_or_else(|| format!("\nA specified value is not valid: {word}\n"))? = Some(value);
    }
    let [Some(protocol @ ("tcp" | "udp")), Some(start), Some(count)] = values else {
        return Err("The syntax supplied for this command is not valid. Check help for the correct syntax.\n".into());
    };
    let number = |text: &str| text.parse::<u32>().ok();
    let (Some(start), Some(count)) = (number(start), number(count)) else {
        return bad(&words.join(" "));
    };
    if !(1025..=65535).contains(&start) || count < 255 || start + count > 65536 {
        return Err("The parameter is incorrect.\n".into());
    }
    let mut registry = p.machine.registry();
    registry.set(
        TCPIP,
        &format!("winimg-{family}-{protocol}-start"),
        dword_value(start),
    )?;
    registry.set(
        TCPIP,
        &format!("winimg-{family}-{protocol}-count"),
        dword_value(count),
    )?;
    Ok("Ok.\n\n".into())
}

fn ports_shown(p: &Process, family: &str, protocol: &str) -> String {
    let registry = p.machine.registry();
    let get = |what: &str, other| {
        registry
            .dword(TCPIP, &format!("winimg-{family}-{protocol}-{what}"))
            .unwrap_or(other)
    };
    format!(
        "\nProtocol {protocol} Dynamic Port Range\n---------------------------------\nStart Port      : {}\nNumber of Ports : {}\n\n",
        get("start", 49152),
        get("count", 16384)
    )
}
