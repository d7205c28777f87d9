//! The verb `firewall`: one rule.

use super::security::{has_control, nothing_else};
use crate::recipe::Verb;
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::{Data, Value};
use crate::recipe::verb::{FirewallRule, Profile, Protocol};
use winimg_base::text::Located;

/// netsh takes `name=all` as every rule there is, and a name that starts with `@` as a place in a DLL; the rule's text
/// in the registry is cut at `|` (Microsoft: netsh advfirewall firewall; MS-GPFAS, firewall rule grammar).
pub fn firewall(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    rule(cx, value).map(Verb::Firewall)
}

pub fn rule(cx: &Context<'_>, value: &Value) -> Option<FirewallRule> {
    let fields = Fields::open(cx, value, "firewall")?;
    let present = fields.is("state", "present");
    let inbound = fields.is("direction", "in");
    let allow = fields.is("action", "allow");
    let edge = fields.is("edge", "yes");
    let name = fields.string("name");
    let name = name.and_then(|name| rule_name(&fields, name));
    let protocol = protocol(&fields);
    let (ports, remote_ports) = (ports(&fields, "ports"), ports(&fields, "remote_ports"));
    let remote = remote(&fields);
    let program = fields.guest_path("program");
    let profiles = profiles(&fields);
    let rule = FirewallRule {
        name: name?,
        present,
        inbound,
        allow,
        protocol: protocol?,
        ports,
        remote_ports,
        remote,
        program,
        profiles,
        edge,
    };
    check_rule(&fields, &rule);
    Some(rule)
}

fn rule_name(fields: &Fields<'_>, name: Located<String>) -> Option<Located<String>> {
    let text = name.value.as_str();
    let (fact, help) = if text.eq_ignore_ascii_case("all") {
        (
            "netsh takes the name `all` for every rule there is",
            "give the rule a name of its own",
        )
    } else if text.starts_with('@') || text.contains(['|', '"']) || has_control(text) {
        (
            "a firewall rule cannot be called that",
            "no `|`, quote or control character, and no `@` at its start",
        )
    } else if text != text.trim() {
        ("the rule's name has a blank at its end", "take it away")
    } else {
        return Some(name);
    };
    fields.cx.error(fact, &name.place, "", help);
    None
}

/// IANA: Assigned Internet Protocol Numbers.
fn protocol(fields: &Fields<'_>) -> Option<Protocol> {
    let Some(value) = fields.get("protocol") else {
        return Some(Protocol::Tcp);
    };
    let number = |n: i64| match u8::try_from(n) {
        Ok(1) => Ok(Protocol::IcmpV4),
        Ok(6) => Ok(Protocol::Tcp),
        Ok(17) => Ok(Protocol::Udp),
        Ok(58) => Ok(Protocol::IcmpV6),
        Ok(n) => Ok(Protocol::Number(n)),
        Err(_) => Err(format!("{n} is no protocol: they go from 0 to 255")),
    };
    let found = match &value.data {
        Data::Integer(n) => number(*n),
        Data::String(text) => match text.to_ascii_lowercase().as_str() {
            "tcp" => Ok(Protocol::Tcp),
            "udp" => Ok(Protocol::Udp),
            "icmpv4" => Ok(Protocol::IcmpV4),
            "icmpv6" => Ok(Protocol::IcmpV6),
            "any" => Ok(Protocol::Any),
            other => match other.parse() {
                Ok(n) => number(n),
                Err(_) => Err(format!("`protocol` cannot be \"{text}\"")),
            },
        },
        Data::Unknown => return None,
        _ => Err(format!("`protocol` takes a word, not {}", value.kind())),
    };
    let help = "it is one of: tcp, udp, icmpv4, icmpv6, any, or IANA's number";
    found
        .map_err(|fact| fields.cx.error(fact, &value.place, "", help))
        .ok()
}

/// `[10250, "30000-32767"]`
fn ports(fields: &Fields<'_>, key: &str) -> Vec<String> {
    let mut ports = Vec::new();
    for item in fields.list(key).unwrap_or_default() {
        let text = match &item.data {
            Data::Integer(n) => n.to_string(),
            Data::String(text) => text.trim().to_owned(),
            Data::Unknown => continue,
            _ => {
                let fact = format!("`{key}` takes ports, not {}", item.kind());
                fields.cx.error(fact, &item.place, "", PORT_HELP);
                continue;
            }
        };
        match is_port(&text) {
            true => ports.push(text),
            false => {
                let fact = format!("`{key}` has \"{text}\", which is no port");
                fields.cx.error(fact, &item.place, "", PORT_HELP);
            }
        }
    }
    ports
}

const PORT_HELP: &str = "write `[10250, \"30000-32767\"]`; ports go from 0 to 65535";

fn is_port(text: &str) -> bool {
    let number = |text: &str| {
        let digits = text.chars().all(|c| c.is_ascii_digit());
        text.parse::<u16>().ok().filter(|_| digits)
    };
    match text.split_once('-') {
        Some((from, to)) => match (number(from), number(to)) {
            (Some(from), Some(to)) => from < to,
            _ => false,
        },
        None => number(text).is_some(),
    }
}

/// netsh's own words (Microsoft: netsh advfirewall firewall add rule, `remoteip`).
const PLACES: [&str; 6] = [
    "any",
    "localsubnet",
    "dns",
    "dhcp",
    "wins",
    "defaultgateway",
];

fn remote(fields: &Fields<'_>) -> Vec<String> {
    let mut remote = Vec::new();
    for text in fields.strings("remote") {
        if PLACES.contains(&&*text.value.to_ascii_lowercase()) || is_network(&text.value) {
            remote.push(text.value);
            continue;
        }
        let fact = format!("`remote` has \"{}\", which is no address", text.value);
        let help = "an address, a network such as \"10.0.0.0/8\", a range such as \
                    \"10.0.0.1-10.0.0.9\", or LocalSubnet, DNS, DHCP, WINS, DefaultGateway";
        fields.cx.error(fact, &text.place, "", help);
    }
    remote
}

fn is_network(text: &str) -> bool {
    use std::net::IpAddr;
    let address = |text: &str| text.parse::<IpAddr>().ok();
    if let Some((from, to)) = text.split_once('-') {
        return match (address(from), address(to)) {
            (Some(from), Some(to)) => from.is_ipv4() == to.is_ipv4() && from <= to,
            _ => false,
        };
    }
    match text.split_once('/') {
        None => address(text).is_some(),
        Some((network, bits)) => match (address(network), bits.parse::<u8>()) {
            (Some(IpAddr::V4(_)), Ok(bits)) => bits <= 32,
            (Some(IpAddr::V6(_)), Ok(bits)) => bits <= 128,
            // 10.0.0.0/255.0.0.0
            (Some(IpAddr::V4(_)), Err(_)) => bits.parse::<std::net::Ipv4Addr>().is_ok(),
            _ => false,
        },
    }
}

fn profiles(fields: &Fields<'_>) -> Vec<Profile> {
    let mut profiles = Vec::new();
    for text in fields.strings("profiles") {
        let profile = match text.value.as_str() {
            "domain" => Profile::Domain,
            "private" => Profile::Private,
            "public" => Profile::Public,
            other => {
                let fact = format!("`profiles` cannot have \"{other}\"");
                let help = "they are domain, private and public; leave `profiles` out for any";
                fields.cx.error(fact, &text.place, "", help);
                continue;
            }
        };
        if !profiles.contains(&profile) {
            profiles.push(profile);
        }
    }
    profiles
}

fn check_rule(fields: &Fields<'_>, rule: &FirewallRule) {
    let cx = fields.cx;
    if !rule.present {
        nothing_else(fields, "a rule");
        return;
    }
    let ported = matches!(rule.protocol, Protocol::Tcp | Protocol::Udp);
    if let Some(entry) = fields.first(&["ports", "remote_ports"])
        && !ported
    {
        let fact = format!("only TCP and UDP have ports, and `{}` is given", entry.key);
        let help = "write `protocol = \"tcp\"` or \"udp\", or take the ports out";
        cx.error(fact, &entry.key_place, "", help);
    }
    if rule.edge
        && !rule.inbound
        && let Some(entry) = fields.table.entry("edge")
    {
        let fact = "edge traversal is for what comes in";
        cx.error(fact, &entry.key_place, "", "take `edge` out");
    }
}
