//! The verb `firewall`: one rule of Windows' firewall, compiled to `netsh advfirewall`; also in a
//! clone check.

use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;

use crate::GuestPath;
use crate::document::value::{TomlData, TomlValue};
use crate::fields::{LoweringContext, TableReader};
use crate::ops::check::{FirewallCheck, FirewallScope};
use crate::ops::compiler::{QUICK, StepCompiler};
use crate::ops::programs::to_arguments;
use crate::ops::{ExitRule, PlannedCheck};
use crate::verbs::absent::nothing_else;
use winimg_base::text::Located;

/// `firewall`: one rule.
#[derive(Clone, Debug)]
pub struct FirewallRule {
    pub name: Located<String>,
    pub present: bool,
    pub inbound: bool,
    pub allow: bool,
    pub protocol: FirewallProtocol,
    /// Local ports or ranges; empty: any.
    pub ports: Vec<String>,
    pub remote_ports: Vec<String>,
    /// Addresses, networks, ranges, or keywords of netsh such as `LocalSubnet`; empty: any.
    pub remote: Vec<String>,
    pub program: Option<Located<GuestPath>>,
    /// Empty: any.
    pub profiles: Vec<FirewallProfile>,
    /// Edge traversal.
    pub edge: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirewallProtocol {
    Any,
    Tcp,
    Udp,
    IcmpV4,
    IcmpV6,
    /// IANA number.
    Number(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirewallProfile {
    Domain,
    Private,
    Public,
}

const NETSH: &str = r"C:\Windows\System32\netsh.exe";

const PORT_HELP: &str = "write `[10250, \"30000-32767\"]`; ports are 0 to 65535";

/// netsh's keywords (Microsoft: netsh advfirewall firewall add rule, `remoteip`).
const PLACES: [&str; 6] = [
    "any",
    "localsubnet",
    "dns",
    "dhcp",
    "wins",
    "defaultgateway",
];

/// Reads a firewall rule. netsh takes `name=all` for every rule, and a name with a leading `@` for
/// a resource of a DLL; the rule's text in the registry is split at `|` (Microsoft: netsh
/// advfirewall firewall; MS-GPFAS, firewall rule grammar).
pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<FirewallRule> {
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
    } else if text.starts_with('@')
        || text.contains(['|', '"'])
        || text.chars().any(char::is_control)
    {
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

pub fn compile(site: &mut StepCompiler<'_>, rule: &FirewallRule) -> Option<()> {
    let name = format!("name={}", rule.name.value);
    let delete = to_arguments(["advfirewall", "firewall", "delete", "rule", &name]);
    let show = to_arguments(["advfirewall", "firewall", "show", "rule", &name]);
    if !rule.present {
        // Fails if the firewall service does not respond, so that the query below is meaningful.
        let ask = to_arguments(["advfirewall", "show", "allprofiles", "state"]);
        site.run(NETSH, ask, ExitRule::Zero, QUICK);
    }
    site.run(NETSH, delete, allow_codes(&[0, 1]), QUICK);
    site.run(NETSH, show, allow_codes(&[1]), QUICK);
    if rule.present {
        let add = render_add_arguments(rule, name);
        site.run(NETSH, add, ExitRule::Zero, QUICK);
    }
    site.expect(PlannedCheck::Firewall(build_check(rule)));
    Some(())
}

fn allow_codes(ok: &[i64]) -> ExitRule {
    ExitRule::Listed {
        ok: ok.to_vec(),
        reboot: vec![],
    }
}

fn render_add_arguments(rule: &FirewallRule, name: String) -> Vec<String> {
    let mut words = to_arguments(["advfirewall", "firewall", "add", "rule"]);
    words.push(name);
    words.push(format!("dir={}", if rule.inbound { "in" } else { "out" }));
    let action = if rule.allow { "allow" } else { "block" };
    words.push(format!("action={action}"));
    let profiles = if rule.profiles.is_empty() {
        "any".to_owned()
    } else {
        render_profiles(&rule.profiles).join(",")
    };
    words.push(format!("profile={profiles}"));
    words.push(format!("protocol={}", render_protocol(rule.protocol)));
    let lists = [
        ("localport", &rule.ports),
        ("remoteport", &rule.remote_ports),
        ("remoteip", &rule.remote),
    ];
    for (key, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        words.push(format!("{key}={}", list.join(",")));
    }
    words.extend(rule.program.iter().map(|p| format!("program={}", p.value)));
    if rule.edge {
        words.push("edge=yes".to_owned());
    }
    words
}

fn render_profiles(profiles: &[FirewallProfile]) -> Vec<String> {
    profiles
        .iter()
        .map(|profile| match profile {
            FirewallProfile::Domain => "domain".to_owned(),
            FirewallProfile::Private => "private".to_owned(),
            FirewallProfile::Public => "public".to_owned(),
        })
        .collect()
}

fn render_protocol(protocol: FirewallProtocol) -> String {
    match protocol {
        FirewallProtocol::Any => "any".to_owned(),
        FirewallProtocol::Tcp => "TCP".to_owned(),
        FirewallProtocol::Udp => "UDP".to_owned(),
        FirewallProtocol::IcmpV4 => "icmpv4".to_owned(),
        FirewallProtocol::IcmpV6 => "icmpv6".to_owned(),
        FirewallProtocol::Number(number) => number.to_string(),
    }
}

pub fn build_check(rule: &FirewallRule) -> FirewallCheck {
    FirewallCheck {
        name: rule.name.value.clone(),
        present: rule.present,
        inbound: rule.inbound,
        allow: rule.allow,
        protocol: match rule.protocol {
            FirewallProtocol::Any => None,
            FirewallProtocol::Tcp => Some(6),
            FirewallProtocol::Udp => Some(17),
            FirewallProtocol::IcmpV4 => Some(1),
            FirewallProtocol::IcmpV6 => Some(58),
            FirewallProtocol::Number(number) => Some(number),
        },
        ports: sort_ports(&rule.ports),
        remote_ports: sort_ports(&rule.remote_ports),
        scope: rule.present.then(|| FirewallScope {
            remote: rule.remote.clone(),
            program: rule.program.as_ref().map(|p| p.value.clone()),
            profiles: render_profiles(&rule.profiles),
            edge: rule.edge,
        }),
    }
}

fn sort_ports(ports: &[String]) -> Vec<String> {
    let mut ports = ports.to_vec();
    ports.sort();
    ports
}
