//! A firewall rule: from the words of `add rule` to the text Windows keeps (MS-GPFAS 2.2.2.19), and which rules a
//! `delete`, `show` or `set` means. Values that the stand-in can't put into that text are refused.

use super::{bad, get, pairs};
use crate::windows::regf::same;

const ADD: [&str; 16] = [
    "name",
    "dir",
    "action",
    "protocol",
    "localport",
    "remoteport",
    "localip",
    "remoteip",
    "program",
    "service",
    "profile",
    "enable",
    "description",
    "interfacetype",
    "edge",
    "security",
];

/// What `delete`, `show` and `set` choose rules by.
pub const CONDITIONS: [&str; 8] = [
    "name",
    "dir",
    "protocol",
    "localport",
    "remoteport",
    "profile",
    "program",
    "service",
];

const PROFILES: [&str; 3] = ["Domain", "Private", "Public"];

/// The rule of `add rule` words.
pub fn text(words: &[String]) -> Result<String, String> {
    let pairs = pairs(words, &ADD)?;
    let need = |name: &str| {
        get(&pairs, name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("\nOne or more essential parameters were not entered: {name}\n"))
    };
    let name = need("name")?;
    if same(name, "all") || pairs.iter().any(|(_, value)| value.contains('|')) {
        return bad(name);
    }
    let inbound = one_of("in", "out", Some(need("dir")?))?;
    let allow = one_of("allow", "block", Some(need("action")?))?;
    let active = one_of("yes", "no", get(&pairs, "enable").or(Some("yes")))?;
    let edge = one_of("yes", "no", get(&pairs, "edge").or(Some("no")))?;
    if edge && !inbound {
        return bad("edge: only a rule for inbound traffic has it");
    }
    for (option, only) in [("interfacetype", "any"), ("security", "notrequired")] {
        if let Some(value) = get(&pairs, option).filter(|value| !same(value, only)) {
            return bad(value);
        }
    }
    let mut rule = format!(
        "v2.31|Action={}|Active={}|Dir={}|",
        if allow { "Allow" } else { "Block" },
        if active { "TRUE" } else { "FALSE" },
        if inbound { "In" } else { "Out" },
    );
    let protocol = protocol(get(&pairs, "protocol").unwrap_or("any"))?;
    rule += &protocol
        .map(|number| format!("Protocol={number}|"))
        .unwrap_or_default();
    for profile in profiles(get(&pairs, "profile").unwrap_or("any"))? {
        rule += &format!("Profile={profile}|");
    }
    for (option, key) in [("localport", "LPort"), ("remoteport", "RPort")] {
        rule += &ports(get(&pairs, option), key, protocol)?;
    }
    for (option, four, six) in [("localip", "LA4", "LA6"), ("remoteip", "RA4", "RA6")] {
        let list = get(&pairs, option).filter(|list| !same(list, "any"));
        for item in list.into_iter().flat_map(|list| list.split(',')) {
            rule += &address(item, four, six)?;
        }
    }
    for (option, key) in [("program", "App"), ("service", "Svc")] {
        if let Some(value) = get(&pairs, option) {
            rule += &format!("{key}={value}|");
        }
    }
    rule += &format!("Name={name}|");
    if let Some(description) = get(&pairs, "description") {
        rule += &format!("Desc={description}|");
    }
    if edge {
        rule += "Edge=TRUE|";
    }
    Ok(rule)
}

/// Whether the value is the first of two words; any other is refused.
fn one_of(first: &str, second: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        Some(value) if same(value, first) => Ok(true),
        Some(value) if same(value, second) => Ok(false),
        value => bad(value.unwrap_or(first)),
    }
}

/// The profiles of a list, in the order Windows writes them; none for `any`.
fn profiles(list: &str) -> Result<Vec<&'static str>, String> {
    if same(list, "any") {
        return Ok(Vec::new());
    }
    let words: Vec<&str> = list.split(',').collect();
    let known = |word: &&&str| !PROFILES.iter().any(|profile| same(profile, word));
    if let Some(odd) = words.iter().find(known) {
        return bad(odd);
    }
    let named = |profile: &&str| words.iter().any(|word| same(word, profile));
    Ok(PROFILES.into_iter().filter(named).collect())
}

fn protocol(text: &str) -> Result<Option<u8>, String> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "any" => None,
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmpv4" | "icmpv4:any,any" => Some(1),
        "icmpv6" | "icmpv6:any,any" => Some(58),
        lower => Some(
            lower
                .parse()
                .map_err(|_| format!("\nA specified protocol value is not valid: {text}\n"))?,
        ),
    })
}

fn ports(list: Option<&str>, key: &str, protocol: Option<u8>) -> Result<String, String> {
    let Some(list) = list.filter(|list| !same(list, "any")) else {
        return Ok(String::new());
    };
    if !matches!(protocol, Some(6 | 17)) {
        return Err("\nA port was specified when the protocol does not allow ports. The protocol must be TCP or UDP.\n".into());
    }
    list.split(',').map(|item| port(item, key)).collect()
}

fn port(item: &str, key: &str) -> Result<String, String> {
    let number = |text: &str| text.parse::<u16>().ok();
    let range = item
        .split_once('-')
        .map(|(from, to)| number(from).zip(number(to)));
    let named = ["rpc", "rpc-epmap", "iphttps"];
    match range {
        Some(Some((from, to))) if from <= to => Ok(format!("{key}2_10={item}|")),
        None if number(item).is_some()
            || (key == "LPort" && named.contains(&item.to_ascii_lowercase().as_str())) =>
        {
            Ok(format!("{key}={item}|"))
        }
        _ => Err(format!("\nA specified port value is not valid: {item}\n")),
    }
}

/// An address, a range, or a network: Windows keeps an IPv4 one with its mask (`10.0.0.0/255.0.0.0`).
fn address(item: &str, four: &str, six: &str) -> Result<String, String> {
    use std::net::{IpAddr, Ipv4Addr};
    let invalid = || format!("\nA specified IP address is not valid: {item}\n");
    let words = ["localsubnet", "dns", "dhcp", "wins", "defaultgateway"];
    if words.contains(&item.to_ascii_lowercase().as_str()) {
        return Ok(format!("{four}={item}|{six}={item}|"));
    }
    let parse = |text: &str| text.parse::<IpAddr>().map_err(|_| invalid());
    if let Some((from, to)) = item.split_once('-') {
        return match (parse(from)?, parse(to)?) {
            (IpAddr::V4(a), IpAddr::V4(b)) if a <= b => Ok(format!("{four}={item}|")),
            (IpAddr::V6(a), IpAddr::V6(b)) if a <= b => Ok(format!("{six}={item}|")),
            _ => Err(invalid()),
        };
    }
    let (base, length) = item.split_once('/').unwrap_or((item, ""));
    match (parse(base)?, length) {
        (IpAddr::V4(_), "") => Ok(format!("{four}={item}|")),
        (IpAddr::V6(_), "") => Ok(format!("{six}={item}|")),
        (IpAddr::V4(_), mask) if mask.parse::<Ipv4Addr>().is_ok() => Ok(format!("{four}={item}|")),
        (IpAddr::V4(_), length) => match length.parse::<u32>() {
            Ok(length) if length <= 32 => {
                let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - length).unwrap_or(0));
                Ok(format!("{four}={base}/{mask}|"))
            }
            _ => Err(invalid()),
        },
        (IpAddr::V6(_), length) => match length.parse::<u32>() {
            Ok(length) if length <= 128 => Ok(format!("{six}={item}|")),
            _ => Err(invalid()),
        },
    }
}

/// The test that the conditions make; a condition that could fit no rule is refused.
pub fn wanted<'a>(pairs: &'a [(String, &'a str)]) -> Result<impl Fn(&str) -> bool + 'a, String> {
    let name =
        get(pairs, "name").ok_or("\nOne or more essential parameters were not entered.\n")?;
    let mut fields: Vec<(&str, Vec<String>)> = Vec::new();
    for (option, key) in [("dir", "Dir"), ("program", "App"), ("service", "Svc")] {
        if let Some(value) = get(pairs, option) {
            fields.push((key, vec![value.to_owned()]));
        }
    }
    if let Some(list) = get(pairs, "profile") {
        let list = profiles(list)?.into_iter().map(str::to_owned).collect();
        fields.push(("Profile", list));
    }
    if let Some(number) = get(pairs, "protocol").map(protocol).transpose()?.flatten() {
        fields.push(("Protocol", vec![number.to_string()]));
    }
    for (option, key) in [("localport", "LPort"), ("remoteport", "RPort")] {
        if let Some(list) = get(pairs, option).filter(|list| !same(list, "any")) {
            fields.push((key, list.split(',').map(str::to_owned).collect()));
        }
    }
    Ok(move |rule: &str| {
        // `LPort2_10` is an LPort with a range.
        let values = |field: &str| -> Vec<&str> {
            rule.split('|')
                .filter_map(|part| part.split_once('='))
                .filter(|(key, _)| key.trim_end_matches("2_10") == field)
                .map(|(_, value)| value)
                .collect()
        };
        let is = |field: &str, wanted: &[String]| {
            let found = values(field);
            found.len() == wanted.len()
                && wanted
                    .iter()
                    .all(|value| found.iter().any(|f| same(f, value)))
        };
        (same(name, "all") || is("Name", &[name.to_owned()]))
            && fields.iter().all(|(field, wanted)| is(field, wanted))
    })
}
