//! Whom a firewall rule is for: addresses, program, profiles, edge traversal.
//!
//! Windows writes what netsh was given in another form, `10.0.0.0/255.0.0.0` for `10.0.0.0/8`, so addresses are compared
//! as the range that they stand for.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use winimg_recipe::plan::check::FirewallScope;

/// What a rule says of it; what it does not say is any.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    local: BTreeSet<Address>,
    remote: BTreeSet<Address>,
    /// In lower case, with Windows' own variables filled in.
    program: Option<String>,
    /// In lower case.
    service: Option<String>,
    profiles: BTreeSet<String>,
    edge: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Address {
    /// The first and the last.
    Range(IpAddr, IpAddr),
    /// `localsubnet` and the like, in lower case. Windows writes the word once for IPv4 and once for IPv6.
    Other(String),
}

impl Scope {
    /// Takes one field of a rule's text.
    pub(super) fn take(&mut self, field: &str, value: &str) {
        match field {
            "LA4" | "LA6" => _ = self.local.insert(Address::parse(value)),
            "RA4" | "RA6" => _ = self.remote.insert(Address::parse(value)),
            "App" => self.program = Some(program(value)),
            "Svc" => self.service = Some(value.to_lowercase()),
            "Profile" => self.profile(value),
            "Edge" => self.edge = value.eq_ignore_ascii_case("TRUE"),
            _ => {}
        }
    }

    pub(super) fn wanted(scope: &FirewallScope) -> Self {
        let named = scope.remote.iter();
        let remote = named.filter(|text| !text.eq_ignore_ascii_case("any"));
        let mut wanted = Self {
            remote: remote.map(|text| Address::parse(text)).collect(),
            program: scope.program.as_ref().map(|p| program(p.as_str())),
            edge: scope.edge,
            ..Self::default()
        };
        for profile in &scope.profiles {
            wanted.profile(profile);
        }
        wanted
    }

    /// There are three, and all of them are any.
    fn profile(&mut self, name: &str) {
        self.profiles.insert(name.to_lowercase());
        if self.profiles.len() == 3 {
            self.profiles.clear();
        }
    }
}

/// What limits the rule, each part after a comma; nothing where nothing does.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("local addresses", &self.local),
            ("remote addresses", &self.remote),
        ];
        for (what, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            let list: Vec<String> = list.iter().map(Address::to_string).collect();
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
        match self.edge {
            true => f.write_str(", edge traversal"),
            false => Ok(()),
        }
    }
}

impl Address {
    fn parse(text: &str) -> Self {
        match range(text) {
            Some((first, last)) => Self::Range(first, last),
            None => Self::Other(text.to_lowercase()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(first, last) if first == last => write!(f, "{first}"),
            Self::Range(first, last) => write!(f, "{first}-{last}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// An address, `FIRST-LAST`, or a network with a prefix length or an IPv4 mask.
fn range(text: &str) -> Option<(IpAddr, IpAddr)> {
    let address = |text: &str| text.parse::<IpAddr>().ok();
    if let Some((first, last)) = text.split_once('-') {
        return Some((address(first)?, address(last)?));
    }
    let Some((base, length)) = text.split_once('/') else {
        return address(text).map(|one| (one, one));
    };
    match address(base)? {
        IpAddr::V4(base) => {
            let mask = match length.parse::<Ipv4Addr>() {
                Ok(mask) => u32::from(mask),
                Err(_) => {
                    let bits = length.parse::<u32>().ok().filter(|bits| *bits <= 32)?;
                    u32::MAX.checked_shl(32 - bits).unwrap_or(0)
                }
            };
            // Bits between its ends that are not set: no range.
            let whole = mask.leading_ones() + mask.trailing_zeros() == 32;
            let base = u32::from(base);
            let ends = [base & mask, base | !mask].map(|n| IpAddr::V4(Ipv4Addr::from(n)));
            whole.then_some((ends[0], ends[1]))
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

/// The variables that Windows' own tools put in place of a path's beginning.
fn program(text: &str) -> String {
    let text = text.to_lowercase();
    let known = [
        ("%systemroot%", r"c:\windows"),
        ("%windir%", r"c:\windows"),
        ("%systemdrive%", "c:"),
        ("%programfiles%", r"c:\program files"),
    ];
    let filled = known
        .iter()
        .find_map(|(name, path)| Some(format!("{path}{}", text.strip_prefix(name)?)));
    filled.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&str, &str)]) -> Scope {
        let mut scope = Scope::default();
        fields.iter().for_each(|(f, v)| scope.take(f, v));
        scope
    }

    fn asked(remote: &[&str], program: Option<&str>, profiles: &[&str]) -> Scope {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Scope::wanted(&FirewallScope {
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
