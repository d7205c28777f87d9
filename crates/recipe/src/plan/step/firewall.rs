//! Compiles `firewall` to `netsh.exe advfirewall` (Microsoft: netsh advfirewall firewall).
//!
//! `add rule` creates a second rule with the same name, so existing ones are deleted first. netsh
//! exits with 1 for every failure, even "no rule matches", so a query afterwards must find none.

use super::super::check::{FirewallCheck, FirewallScope};
use super::super::step_compiler::{QUICK, StepCompiler};
use super::super::{ExitRule, PlannedCheck};
use super::to_arguments;
use crate::recipe::verb::{FirewallProfile, FirewallProtocol, FirewallRule};

pub(super) const NETSH: &str = r"C:\Windows\System32\netsh.exe";

pub(super) fn compile_firewall(site: &mut StepCompiler<'_>, rule: &FirewallRule) -> Option<()> {
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

pub(in super::super) fn build_check(rule: &FirewallRule) -> FirewallCheck {
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
