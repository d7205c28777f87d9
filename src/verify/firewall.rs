//! Firewall rules in the registry: one value per rule, `v2.31|Action=Allow|Active=TRUE|Dir=In|…`.
//!
//! Source: Microsoft, [MS-GPFAS] 2.2.2.19 "Firewall Rule and the Firewall Rule Grammar Rule".

mod scope;

use winimg_formats::hive::HiveValueData;

use super::finding::{Verdict, VerifyFinding};
use super::image::InspectedImage;
use scope::RuleScope;
use winimg_recipe::RegistryKey;
use winimg_recipe::plan::check::FirewallCheck;

const RULES: RegistryKey = RegistryKey::from_static(concat!(
    r"HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters",
    r"\FirewallPolicy\FirewallRules"
));

#[derive(Debug, PartialEq, Eq)]
struct RegistryFirewallRule {
    name: String,
    active: bool,
    allow: bool,
    inbound: bool,
    protocol: Option<u8>,
    ports: Vec<String>,
    remote_ports: Vec<String>,
    /// `None` if it is not compared.
    scope: Option<RuleScope>,
}

impl RegistryFirewallRule {
    /// Parses a rule; `None` if the text is not one.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('|');
        let version = fields.next()?;
        if !version.starts_with(['v', 'V']) {
            return None;
        }
        let mut rule = Self {
            name: String::new(),
            active: true,
            allow: true,
            inbound: true,
            protocol: None,
            ports: Vec::new(),
            remote_ports: Vec::new(),
            scope: None,
        };
        let mut scope = RuleScope::default();
        for (field, value) in fields.filter_map(|f| f.split_once('=')) {
            match field {
                "Name" => rule.name = value.to_owned(),
                "Active" => rule.active = value.eq_ignore_ascii_case("TRUE"),
                "Action" => rule.allow = value.eq_ignore_ascii_case("Allow"),
                "Dir" => rule.inbound = value.eq_ignore_ascii_case("In"),
                // 256 is any.
                "Protocol" => rule.protocol = value.parse().ok(),
                "LPort" | "LPort2_10" => rule.ports.push(value.to_owned()),
                "RPort" | "RPort2_10" => rule.remote_ports.push(value.to_owned()),
                _ => scope.add_field(field, value),
            }
        }
        rule.scope = Some(scope);
        rule.ports.sort();
        rule.remote_ports.sort();
        Some(rule)
    }

    /// Returns true if the rules are equal, except for their names and an unset scope.
    fn match_rule(&self, wanted: &Self) -> bool {
        self.active == wanted.active
            && self.allow == wanted.allow
            && self.inbound == wanted.inbound
            && self.protocol == wanted.protocol
            && self.ports == wanted.ports
            && self.remote_ports == wanted.remote_ports
            && (wanted.scope.is_none() || self.scope == wanted.scope)
    }

    fn describe(&self) -> String {
        format!(
            "{}{} {}, protocol {}, ports {}, remote ports {}{}",
            if self.active { "" } else { "disabled: " },
            if self.allow { "allows" } else { "blocks" },
            if self.inbound { "in" } else { "out" },
            self.protocol.map_or("any".to_owned(), |n| n.to_string()),
            join_ports(&self.ports),
            join_ports(&self.remote_ports),
            self.scope
                .as_ref()
                .map(RuleScope::to_string)
                .unwrap_or_default(),
        )
    }
}

fn join_ports(ports: &[String]) -> String {
    match ports {
        [] => "any".to_owned(),
        ports => ports.join(","),
    }
}

fn sort_ports(ports: &[String]) -> Vec<String> {
    let mut ports = ports.to_vec();
    ports.sort();
    ports
}

pub fn check_rule(image: &InspectedImage<'_>, wanted: &FirewallCheck) -> Verdict {
    let values = match image.open_key(&RULES)? {
        Some(key) => key.read_values()?,
        None => Vec::new(),
    };
    let named: Vec<RegistryFirewallRule> = values
        .into_iter()
        .filter_map(|(_, data)| match data {
            HiveValueData::Sz(text) => RegistryFirewallRule::parse(&text),
            _ => None,
        })
        .filter(|rule| rule.name.to_lowercase() == wanted.name.to_lowercase())
        .collect();
    let name = &wanted.name;
    let described: Vec<String> = named.iter().map(RegistryFirewallRule::describe).collect();
    let found = described.join("; ");
    if !wanted.present {
        return if named.is_empty() {
            Ok(())
        } else {
            let fact = format!("the firewall rule {name} still exists");
            Err(VerifyFinding::error(fact).found(found))
        };
    }
    let expected = RegistryFirewallRule {
        name: name.clone(),
        active: true,
        allow: wanted.allow,
        inbound: wanted.inbound,
        protocol: wanted.protocol,
        ports: sort_ports(&wanted.ports),
        remote_ports: sort_ports(&wanted.remote_ports),
        scope: wanted.scope.as_ref().map(RuleScope::from_expected),
    };
    if named.iter().any(|rule| rule.match_rule(&expected)) {
        return Ok(());
    }
    Err(if named.is_empty() {
        VerifyFinding::error(format!("there is no firewall rule {name}"))
            .expected(expected.describe())
            .cure("check the log of the step that creates it")
    } else {
        VerifyFinding::error(format!("the firewall rule {name} differs"))
            .expected(expected.describe())
            .found(found)
            .cure("find the later step or program that changes the rule")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_windows_writes_it() {
        let text = "v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort2_10=30000-32767|LPort=10250|Name=kubelet|\
                    Desc=a=b|Edge=TRUE|";
        let rule = RegistryFirewallRule::parse(text).expect("a rule");
        assert_eq!(
            rule.describe(),
            "allows in, protocol 6, ports 10250,30000-32767, remote ports any, edge traversal"
        );
        assert_eq!(rule.name, "kubelet");
        let off = RegistryFirewallRule::parse("v2.10|Action=Block|Active=FALSE|Dir=Out|Name=x|")
            .expect("a rule");
        assert_eq!(
            off.describe(),
            "disabled: blocks out, protocol any, ports any, remote ports any"
        );
        assert_eq!(RegistryFirewallRule::parse("Action=Allow|"), None);
    }
}
