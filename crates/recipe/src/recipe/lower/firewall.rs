//! The verb `firewall`: one rule.

use std::net::{IpAddr, Ipv4Addr};

use super::security::{has_control, nothing_else};
use crate::recipe::Verb;
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::{TomlData, TomlValue};
use crate::recipe::verb::{FirewallProfile, FirewallProtocol, FirewallRule};
use winimg_base::text::Located;

/// Reads a firewall rule. netsh takes `name=all` for every rule, and a name with a leading `@` for
/// a resource of a DLL; the rule's text in the registry is split at `|` (Microsoft: netsh
/// advfirewall firewall; MS-GPFAS, firewall rule grammar).
pub fn read_firewall(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    read_rule(cx, value).map(Verb::Firewall)
}

pub fn read_rule(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<FirewallRule> {
    let fields = TableReader::open(cx, value, "firewall")?;
    let present = fields.is("state", "present");
    let inbound = fields.is("direction", "in");
    let allow = fields.is("action", "allow");
    let edge = fields.is("edge", "yes");
    let name = fields
        .read_string("name")
        .and_then(|name| rule_name(&fields, name));
    let protocol = read_protocol(&fields);
    let (ports, remote_ports) = (
        read_ports(&fields, "ports"),
        read_ports(&fields, "remote_ports"),
    );
    let remote = read_remote(&fields);
    let program = fields.guest_path("program");
    let profiles = read_profiles(&fields);
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

fn rule_name(fields: &TableReader<'_>, name: Located<String>) -> Option<Located<String>> {
    let text = name.value.as_str();
    let (fact, help) = if text.eq_ignore_ascii_case("all") {
        (
            "netsh takes the name `all` for every rule",
            "use another name",
        )
    } else if text.starts_with('@') || text.contains(['|', '"']) || has_control(text) {
        (
            "this is not a valid name of a firewall rule",
            "it must not contain `|`, quotes or control characters, nor start with `@`",
        )
    } else if text != text.trim() {
        (
            "the rule's name starts or ends with a space",
            "remove the space",
        )
    } else {
        return Some(name);
    };
    fields.cx.error(fact, &name.place, "", help);
    None
}

/// Reads the protocol: a name or a number.
fn read_protocol(fields: &TableReader<'_>) -> Option<FirewallProtocol> {
    let Some(value) = fields.get("protocol") else {
        return Some(FirewallProtocol::Tcp);
    };
    let found = match &value.data {
        TomlData::Integer(n) => parse_protocol_number(*n),
        TomlData::String(text) => match text.to_ascii_lowercase().as_str() {
            "tcp" => Ok(FirewallProtocol::Tcp),
            "udp" => Ok(FirewallProtocol::Udp),
            "icmpv4" => Ok(FirewallProtocol::IcmpV4),
            "icmpv6" => Ok(FirewallProtocol::IcmpV6),
            "any" => Ok(FirewallProtocol::Any),
            other => match other.parse() {
                Ok(n) => parse_protocol_number(n),
                Err(_) => Err(format!("`protocol` cannot be \"{text}\"")),
            },
        },
        TomlData::Unknown => return None,
        _ => Err(format!(
            "`protocol` takes a word, not {}",
            value.kind_name()
        )),
    };
    let help = "it is one of: tcp, udp, icmpv4, icmpv6, any, or an IANA number";
    found
        .map_err(|fact| fields.cx.error(fact, &value.place, "", help))
        .ok()
}

/// IANA: Assigned Internet Protocol Numbers.
fn parse_protocol_number(number: i64) -> Result<FirewallProtocol, String> {
    match u8::try_from(number) {
        Ok(1) => Ok(FirewallProtocol::IcmpV4),
        Ok(6) => Ok(FirewallProtocol::Tcp),
        Ok(17) => Ok(FirewallProtocol::Udp),
        Ok(58) => Ok(FirewallProtocol::IcmpV6),
        Ok(number) => Ok(FirewallProtocol::Number(number)),
        Err(_) => Err(format!("{number} is not a protocol: use 0 to 255")),
    }
}

/// Reads ports: `[10250, "30000-32767"]`.
fn read_ports(fields: &TableReader<'_>, key: &str) -> Vec<String> {
    let mut ports = Vec::new();
    for item in fields.list(key).unwrap_or_default() {
        let text = match &item.data {
            TomlData::Integer(n) => n.to_string(),
            TomlData::String(text) => text.trim().to_owned(),
            TomlData::Unknown => continue,
            _ => {
                let fact = format!("`{key}` takes ports, not {}", item.kind_name());
                fields.cx.error(fact, &item.place, "", PORT_HELP);
                continue;
            }
        };
        if is_port(&text) {
            ports.push(text);
        } else {
            let fact = format!("`{key}` has \"{text}\", which is not a port");
            fields.cx.error(fact, &item.place, "", PORT_HELP);
        }
    }
    ports
}

const PORT_HELP: &str = "write `[10250, \"30000-32767\"]`; ports are 0 to 65535";

fn is_port(text: &str) -> bool {
    match text.split_once('-') {
        Some((from, to)) => match (parse_port(from), parse_port(to)) {
            (Some(from), Some(to)) => from < to,
            _ => false,
        },
        None => parse_port(text).is_some(),
    }
}

fn parse_port(text: &str) -> Option<u16> {
    // `parse` alone would accept `+80`.
    let is_digits = text.chars().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

/// netsh's keywords (Microsoft: netsh advfirewall firewall add rule, `remoteip`).
const PLACES: [&str; 6] = [
    "any",
    "localsubnet",
    "dns",
    "dhcp",
    "wins",
    "defaultgateway",
];

fn read_remote(fields: &TableReader<'_>) -> Vec<String> {
    let mut remote = Vec::new();
    for text in fields.read_strings("remote") {
        if PLACES.contains(&&*text.value.to_ascii_lowercase()) || is_network(&text.value) {
            remote.push(text.value);
            continue;
        }
        let fact = format!("`remote` has \"{}\", which is not an address", text.value);
        let help = "an address, a network such as \"10.0.0.0/8\", a range such as \
                    \"10.0.0.1-10.0.0.9\", or LocalSubnet, DNS, DHCP, WINS, DefaultGateway";
        fields.cx.error(fact, &text.place, "", help);
    }
    remote
}

fn is_network(text: &str) -> bool {
    if let Some((from, to)) = text.split_once('-') {
        return match (from.parse::<IpAddr>(), to.parse::<IpAddr>()) {
            (Ok(from), Ok(to)) => from.is_ipv4() == to.is_ipv4() && from <= to,
            _ => false,
        };
    }
    match text.split_once('/') {
        None => text.parse::<IpAddr>().is_ok(),
        Some((network, bits)) => match (network.parse::<IpAddr>(), bits.parse::<u8>()) {
            (Ok(IpAddr::V4(_)), Ok(bits)) => bits <= 32,
            (Ok(IpAddr::V6(_)), Ok(bits)) => bits <= 128,
            // 10.0.0.0/255.0.0.0
            (Ok(IpAddr::V4(_)), Err(_)) => bits.parse::<Ipv4Addr>().is_ok(),
            _ => false,
        },
    }
}

fn read_profiles(fields: &TableReader<'_>) -> Vec<FirewallProfile> {
    let mut profiles = Vec::new();
    for text in fields.read_strings("profiles") {
        let profile = match text.value.as_str() {
            "domain" => FirewallProfile::Domain,
            "private" => FirewallProfile::Private,
            "public" => FirewallProfile::Public,
            other => {
                let fact = format!("`profiles` cannot have \"{other}\"");
                let help = "use domain, private or public; omit `profiles` for all of them";
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

fn check_rule(fields: &TableReader<'_>, rule: &FirewallRule) {
    let cx = fields.cx;
    if !rule.present {
        nothing_else(fields, "a rule");
        return;
    }
    let ported = matches!(rule.protocol, FirewallProtocol::Tcp | FirewallProtocol::Udp);
    if let Some(entry) = fields.find_first(&["ports", "remote_ports"])
        && !ported
    {
        let fact = format!("`{}` needs TCP or UDP", entry.key);
        let help = "write `protocol = \"tcp\"` or \"udp\", or remove the ports";
        cx.error(fact, &entry.key_place, "", help);
    }
    if rule.edge
        && !rule.inbound
        && let Some(entry) = fields.table.find_entry("edge")
    {
        let fact = "edge traversal is only for inbound rules";
        cx.error(fact, &entry.key_place, "", "remove `edge`");
    }
}
