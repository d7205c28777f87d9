//! Scope of a firewall rule: addresses, program, profiles, edge traversal.
//!
//! Windows rewrites netsh's arguments, for example `10.0.0.0/8` as `10.0.0.0/255.0.0.0`, so
//! addresses are compared as ranges.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use winimg_recipe::plan::check::FirewallScope;

/// Restrictions of a rule; an empty one means any.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RuleScope {
    local: BTreeSet<AddressRange>,
    remote: BTreeSet<AddressRange>,
    /// In lower case, with Windows' own variables expanded.
    program: Option<String>,
    /// In lower case.
    service: Option<String>,
    profiles: BTreeSet<String>,
    edge: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressRange {
    /// The first and the last address.
    Range(IpAddr, IpAddr),
    /// A keyword such as `localsubnet`, in lower case. Windows writes it once for IPv4 and once for
    /// IPv6.
    Other(String),
}

impl RuleScope {
    /// Adds one field of a rule's text.
    pub(super) fn add_field(&mut self, field: &str, value: &str) {
        match field {
            "LA4" | "LA6" => _ = self.local.insert(AddressRange::parse(value)),
            "RA4" | "RA6" => _ = self.remote.insert(AddressRange::parse(value)),
            "App" => self.program = Some(expand_program(value)),
            "Svc" => self.service = Some(value.to_lowercase()),
            "Profile" => self.add_profile(value),
            "Edge" => self.edge = value.eq_ignore_ascii_case("TRUE"),
            _ => {}
        }
    }

    pub(super) fn from_expected(scope: &FirewallScope) -> Self {
        let mut wanted = Self {
            remote: scope
                .remote
                .iter()
                .filter(|text| !text.eq_ignore_ascii_case("any"))
                .map(|text| AddressRange::parse(text))
                .collect(),
            program: scope.program.as_ref().map(|p| expand_program(p.as_str())),
            edge: scope.edge,
            ..Self::default()
        };
        for profile in &scope.profiles {
            wanted.add_profile(profile);
        }
        wanted
    }

    /// Adds a profile. There are three: all of them together mean any.
    fn add_profile(&mut self, name: &str) {
        self.profiles.insert(name.to_lowercase());
        if self.profiles.len() == 3 {
            self.profiles.clear();
        }
    }
}

/// Shows each restriction after a comma; empty if there are none.
impl fmt::Display for RuleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("local addresses", &self.local),
            ("remote addresses", &self.remote),
        ];
        for (what, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            let list: Vec<String> = list.iter().map(AddressRange::to_string).collect();
            write!(f, ", {what} {}", list.join(","))?;
        }
        for (what, name) in [("program", &self.program), ("service", &self.service)] {
            if let Some(name) = name {
                write!(f, ", {what} {name}")?;
            }
        }
        if !self.profiles.is_empty() {
            let list: Vec<&str> = self.profiles.iter().map(String::as_str).collect();
            write!(f, ", profiles {}", list.join(","))?;
        }
        if self.edge {
            f.write_str(", edge traversal")
        } else {
            Ok(())
        }
    }
}

impl AddressRange {
    fn parse(text: &str) -> Self {
        match parse_range(text) {
            Some((first, last)) => Self::Range(first, last),
            None => Self::Other(text.to_lowercase()),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(first, last) if first == last => write!(f, "{first}"),
            Self::Range(first, last) => write!(f, "{first}-{last}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Parses an address, `FIRST-LAST`, or a network with a prefix length or an IPv4 mask.
fn parse_range(text: &str) -> Option<(IpAddr, IpAddr)> {
    if let Some((first, last)) = text.split_once('-') {
        return Some((first.parse().ok()?, last.parse().ok()?));
    }
    let Some((base, length)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(|one| (one, one));
    };
    match base.parse::<IpAddr>().ok()? {
        IpAddr::V4(base) => {
            let mask = match length.parse::<Ipv4Addr>() {
                Ok(mask) => u32::from(mask),
                Err(_) => {
                    let bits = length.parse::<u32>().ok().filter(|bits| *bits <= 32)?;
                    u32::MAX.checked_shl(32 - bits).unwrap_or(0)
                }
            };
            // A mask with gaps is not a range.
            let is_contiguous = mask.leading_ones() + mask.trailing_zeros() == 32;
            let base = u32::from(base);
            let ends = [base & mask, base | !mask].map(|n| IpAddr::V4(Ipv4Addr::from(n)));
            is_contiguous.then_some((ends[0], ends[1]))
        }
        IpAddr::V6(base) => {
            let bits = length.parse::<u32>().ok().filter(|bits| *bits <= 128)?;
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            let base = u128::from(base);
            let ends = [base & mask, base | !mask].map(|n| IpAddr::V6(Ipv6Addr::from(n)));
            Some((ends[0], ends[1]))
        }
    }
}

/// Expands the variables that Windows' own tools use at the start of a path.
fn expand_program(text: &str) -> String {
    let text = text.to_lowercase();
    [
        ("%systemroot%", r"c:\windows"),
        ("%windir%", r"c:\windows"),
        ("%systemdrive%", "c:"),
        ("%programfiles%", r"c:\program files"),
    ]
    .iter()
    .find_map(|(name, path)| Some(format!("{path}{}", text.strip_prefix(name)?)))
    .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&str, &str)]) -> RuleScope {
        let mut scope = RuleScope::default();
        fields.iter().for_each(|(f, v)| scope.add_field(f, v));
        scope
    }

    fn asked(remote: &[&str], program: Option<&str>, profiles: &[&str]) -> RuleScope {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        RuleScope::from_expected(&FirewallScope {
            remote: texts(remote),
            program: program.map(|p: &str| p.parse().expect("a path")),
            profiles: texts(profiles),
            edge: false,
        })
    }

    #[test]
    fn what_windows_writes_is_what_netsh_was_given() {
        let written = of(&[
            ("Profile", "Private"),
            ("Profile", "Domain"),
            ("RA4", "LocalSubnet"),
            ("RA4", "10.0.0.0/255.0.0.0"),
            ("RA4", "10.1.1.1-10.1.1.9"),
            ("RA4", "192.168.7.1"),
            ("RA6", "LocalSubnet"),
            ("RA6", "fd00::/8"),
            ("App", r"%SystemRoot%\System32\svchost.exe"),
        ]);
        let remote = [
            "fd00::/8",
            "localsubnet",
            "10.1.1.1-10.1.1.9",
            "10.0.0.0/8",
            "192.168.7.1/32",
        ];
        let program = r"C:\Windows\system32\svchost.exe";
        assert_eq!(
            written,
            asked(&remote, Some(program), &["domain", "private"])
        );
        assert_eq!(of(&[]), asked(&["Any"], None, &[]));
        let all = ["domain", "private", "public"];
        assert_eq!(of(&[]), asked(&[], None, &all));
        assert_eq!(
            of(&[("RA4", "0.0.0.0/0")]),
            asked(&["0.0.0.0-255.255.255.255"], None, &[])
        );
    }

    #[test]
    fn each_limit_counts_and_is_reported() {
        let open = asked(&[], None, &[]);
        assert_eq!(open.to_string(), "");
        for (field, value, rendered) in [
            ("LA4", "10.0.0.5", ", local addresses 10.0.0.5"),
            (
                "RA4",
                "10.0.0.0/255.255.0.0",
                ", remote addresses 10.0.0.0-10.0.255.255",
            ),
            (
                "RA4",
                "10.0.0.0/255.0.255.0",
                ", remote addresses 10.0.0.0/255.0.255.0",
            ),
            ("RA6", "fe80::1", ", remote addresses fe80::1"),
            ("App", r"C:\k\a.exe", r", program c:\k\a.exe"),
            ("Svc", "Dnscache", ", service dnscache"),
            ("Profile", "Public", ", profiles public"),
            ("Edge", "TRUE", ", edge traversal"),
        ] {
            let one = of(&[(field, value)]);
            assert_ne!(one, open, "{field}={value}");
            assert_eq!(one.to_string(), rendered);
        }
    }
}
