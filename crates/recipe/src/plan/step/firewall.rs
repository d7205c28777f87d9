//! `firewall`: one rule, through `netsh.exe advfirewall` (Microsoft: netsh advfirewall firewall).
//!
//! `add rule` makes a second rule of the same name, so those that are there go first. netsh ends with 1 for every
//! failure, "no rule matches" too; hence the look afterwards, which must find none.

use super::super::check::{Firewall, FirewallScope};
use super::super::site::{QUICK, Site};
use super::super::{ExitRule, Planned};
use super::args;
use crate::recipe::verb::{FirewallRule, Profile, Protocol};

pub(super) const NETSH: &str = r"C:\Windows\System32\netsh.exe";

pub(super) fn firewall(site: &mut Site<'_>, rule: &FirewallRule) -> Option<()> {
    let name = format!("name={}", rule.name.value);
    let delete = args(["advfirewall", "firewall", "delete", "rule", &name]);
    let show = args(["advfirewall", "firewall", "show", "rule", &name]);
    if !rule.present {
        // Fails where the firewall's service does not answer, so that the look below means something.
        let ask = args(["advfirewall", "show", "allprofiles", "state"]);
        site.run(NETSH, ask, ExitRule::Zero, QUICK);
    }
    site.run(NETSH, delete, listed(&[0, 1]), QUICK);
    site.run(NETSH, show, listed(&[1]), QUICK);
    if rule.present {
        let words = words(rule, name);
        site.run(NETSH, words, ExitRule::Zero, QUICK);
    }
    site.expect(Planned::Firewall(expected(rule)));
    Some(())
}

fn listed(ok: &[i64]) -> ExitRule {
    ExitRule::Listed {
        ok: ok.to_vec(),
        reboot: vec![],
    }
}

fn words(rule: &FirewallRule, name: String) -> Vec<String> {
    let mut words = args(["advfirewall", "firewall", "add", "rule"]);
    words.push(name);
    words.push(format!("dir={}", if rule.inbound { "in" } else { "out" }));
    let action = if rule.allow { "allow" } else { "block" };
    words.push(format!("action={action}"));
    let profiles = match rule.profiles.is_empty() {
        true => "any".to_owned(),
        false => profiles(&rule.profiles).join(","),
    };
    words.push(format!("profile={profiles}"));
    words.push(format!("protocol={}", protocol(rule.protocol)));
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

fn profiles(profiles: &[Profile]) -> Vec<String> {
    let name = |profile: &Profile| match profile {
        Profile::Domain => "domain".to_owned(),
        Profile::Private => "private".to_owned(),
        Profile::Public => "public".to_owned(),
    };
    profiles.iter().map(name).collect()
}

fn protocol(protocol: Protocol) -> String {
    match protocol {
        Protocol::Any => "any".to_owned(),
        Protocol::Tcp => "TCP".to_owned(),
        Protocol::Udp => "UDP".to_owned(),
        Protocol::IcmpV4 => "icmpv4".to_owned(),
        Protocol::IcmpV6 => "icmpv6".to_owned(),
        Protocol::Number(number) => number.to_string(),
    }
}

pub(in super::super) fn expected(rule: &FirewallRule) -> Firewall {
    let sorted = |ports: &[String]| {
        let mut ports = ports.to_vec();
        ports.sort();
        ports
    };
    Firewall {
        name: rule.name.value.clone(),
        present: rule.present,
        inbound: rule.inbound,
        allow: rule.allow,
        protocol: match rule.protocol {
            Protocol::Any => None,
            Protocol::Tcp => Some(6),
            Protocol::Udp => Some(17),
            Protocol::IcmpV4 => Some(1),
            Protocol::IcmpV6 => Some(58),
            Protocol::Number(number) => Some(number),
        },
        ports: sorted(&rule.ports),
        remote_ports: sorted(&rule.remote_ports),
        scope: rule.present.then(|| FirewallScope {
            remote: rule.remote.clone(),
            program: rule.program.as_ref().map(|p| p.value.clone()),
            profiles: profiles(&rule.profiles),
            edge: rule.edge,
        }),
    }
}
