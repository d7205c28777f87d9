//! Firewall rules as the registry keeps them: one value a rule, `v2.31|Action=Allow|Active=TRUE|Dir=In|…`.
//!
//! Source: Microsoft, [MS-GPFAS] 2.2.2.19 "Firewall Rule and the Firewall Rule Grammar Rule".

mod scope;

use winimg_formats::hive::Data;

use super::finding::{Finding, Verdict};
use super::image::Image;
use scope::Scope;
use winimg_recipe::plan::check::Firewall;
use winimg_recipe::recipe::RegistryKey;

const RULES: RegistryKey = RegistryKey::known(concat!(
    r"HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters",
    r"\FirewallPolicy\FirewallRules"
));

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    name: String,
    active: bool,
    allow: bool,
    inbound: bool,
    protocol: Option<u8>,
    ports: Vec<String>,
    remote_ports: Vec<String>,
    /// `None`: nobody asks.
    scope: Option<Scope>,
}

impl Rule {
    /// `None`: not a rule.
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
        let mut scope = Scope::default();
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
                _ => scope.take(field, value),
            }
        }
        rule.scope = Some(scope);
        rule.ports.sort();
        rule.remote_ports.sort();
        Some(rule)
    }

    /// But for its name, whose case does not matter, and for what is not asked.
    fn says(&self, wanted: &Self) -> bool {
        let parts = |r: &Self| (r.active, r.allow, r.inbound, r.protocol);
        parts(self) == parts(wanted)
            && self.ports == wanted.ports
            && self.remote_ports == wanted.remote_ports
            && (wanted.scope.is_none() || self.scope == wanted.scope)
    }

    fn describe(&self) -> String {
        let any = |ports: &[String]| match ports {
            [] => "any".to_owned(),
            ports => ports.join(","),
        };
        format!(
            "{}{} {}, protocol {}, ports {}, remote ports {}{}",
            if self.active { "" } else { "switched off: " },
            if self.allow { "allows" } else { "blocks" },
            if self.inbound { "in" } else { "out" },
            self.protocol.map_or("any".to_owned(), |n| n.to_string()),
            any(&self.ports),
            any(&self.remote_ports),
            self.scope
                .as_ref()
                .map(Scope::to_string)
                .unwrap_or_default(),
        )
    }
}

pub fn rule(image: &Image<'_>, wanted: &Firewall) -> Verdict {
    let values = match image.key(&RULES)? {
        Some(key) => key.values()?,
        None => Vec::new(),
    };
    let named: Vec<Rule> = values
        .into_iter()
        .filter_map(|(_, data)| match data {
            Data::Sz(text) => Rule::parse(&text),
            _ => None,
        })
        .filter(|rule| rule.name.to_lowercase() == wanted.name.to_lowercase())
        .collect();
    let name = &wanted.name;
    let described: Vec<String> = named.iter().map(Rule::describe).collect();
    let found = described.join("; ");
    if !wanted.present {
        return match named.is_empty() {
            true => Ok(()),
            false => {
                let fact = format!("the firewall rule {name} is still there");
                Err(Finding::error(fact).found(found))
            }
        };
    }
    let sorted = |ports: &[String]| {
        let mut ports = ports.to_vec();
        ports.sort();
        ports
    };
    let expected = Rule {
        name: name.clone(),
        active: true,
        allow: wanted.allow,
        inbound: wanted.inbound,
        protocol: wanted.protocol,
        ports: sorted(&wanted.ports),
        remote_ports: sorted(&wanted.remote_ports),
        scope: wanted.scope.as_ref().map(Scope::wanted),
    };
    if named.iter().any(|rule| rule.says(&expected)) {
        return Ok(());
    }
    Err(match named.is_empty() {
        true => Finding::error(format!("there is no firewall rule {name}"))
            .expected(expected.describe())
            .cure("see the log of the step that makes it"),
        false => Finding::error(format!("the firewall rule {name} says something else"))
            .expected(expected.describe())
            .found(found)
            .cure("see which later step or program changes the rule"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_windows_writes_it() {
        let text = "v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort2_10=30000-32767|LPort=10250|Name=kubelet|\
                    Desc=a=b|Edge=TRUE|";
        let rule = Rule::parse(text).expect("a rule");
        assert_eq!(
            rule.describe(),
            "allows in, protocol 6, ports 10250,30000-32767, remote ports any, edge traversal"
        );
        assert_eq!(rule.name, "kubelet");
        let off = Rule::parse("v2.10|Action=Block|Active=FALSE|Dir=Out|Name=x|").expect("a rule");
        assert_eq!(
            off.describe(),
            "switched off: blocks out, protocol any, ports any, remote ports any"
        );
        assert_eq!(Rule::parse("Action=Allow|"), None);
    }
}
