//! Hosts that are reached without a proxy, as `NO_PROXY` lists them. Pure.
//!
//! Clients support different forms, and users write all of them. Each is supported, or reported as
//! not understood. (curl: NO_PROXY; Go: golang.org/x/net/http/httpproxy; Python: urllib.request)

use std::net::IpAddr;

use url::{Host, Url};

/// The hosts of one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoProxyList(Vec<NoProxyEntry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct NoProxyEntry {
    hosts: NoProxyHosts,
    /// `None`: every port.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NoProxyHosts {
    All,
    /// A name and all its subdomains.
    Domain(String),
    /// All subdomains of a name.
    Below(String),
    /// An address, or all addresses with the same first bits.
    Network {
        address: IpAddr,
        bits: u32,
    },
}

impl NoProxyList {
    /// Parses a list separated by commas, semicolons or white space. Also returns the entries that
    /// are not understood.
    pub fn read(text: &str) -> (Self, Vec<&str>) {
        let parts = text.split(|c: char| c == ',' || c == ';' || c.is_whitespace());
        let (mut entries, mut unread) = (Vec::new(), Vec::new());
        for part in parts.filter(|part| !part.is_empty()) {
            match parse_entry(part) {
                Some(entry) => entries.push(entry),
                None => unread.push(part),
            }
        }
        (Self(entries), unread)
    }

    pub fn has(&self, url: &Url) -> bool {
        let Some(host) = url.host() else {
            return false;
        };
        let port = url.port_or_known_default();
        let mut entries = self.0.iter();
        entries.any(|entry| {
            entry.hosts.has(&host) && entry.port.is_none_or(|wanted| Some(wanted) == port)
        })
    }
}

impl NoProxyHosts {
    fn has(&self, host: &Host<&str>) -> bool {
        match (self, host) {
            (Self::All, _) => true,
            (Self::Domain(name), Host::Domain(host)) => {
                let host = host.trim_end_matches('.');
                host == name || is_below(host, name)
            }
            (Self::Below(name), Host::Domain(host)) => is_below(host.trim_end_matches('.'), name),
            (Self::Network { address, bits }, Host::Ipv4(host)) => {
                has_bits(IpAddr::V4(*host), *address, *bits)
            }
            (Self::Network { address, bits }, Host::Ipv6(host)) => {
                has_bits(IpAddr::V6(*host), *address, *bits)
            }
            _ => false,
        }
    }
}

fn is_below(host: &str, name: &str) -> bool {
    let above = host.strip_suffix(name);
    above.is_some_and(|above| above.len() > 1 && above.ends_with('.'))
}

fn has_bits(host: IpAddr, network: IpAddr, bits: u32) -> bool {
    let (host, network, width) = match (host, network) {
        (IpAddr::V4(host), IpAddr::V4(network)) => (
            u128::from(host.to_bits()),
            u128::from(network.to_bits()),
            32,
        ),
        (IpAddr::V6(host), IpAddr::V6(network)) => (host.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let differing = host ^ network;
    differing.checked_shr(width - bits).unwrap_or(0) == 0
}

fn parse_entry(text: &str) -> Option<NoProxyEntry> {
    if text == "*" {
        return Some(NoProxyEntry {
            hosts: NoProxyHosts::All,
            port: None,
        });
    }
    if let Some(hosts) = parse_network(text) {
        return Some(NoProxyEntry { hosts, port: None });
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    let hosts = parse_network(host).or_else(|| parse_domain(host))?;
    Some(NoProxyEntry { hosts, port })
}

/// `10.0.0.0/8`, `10.1.2.3`, `fd00::/8`, `[::1]`
fn parse_network(text: &str) -> Option<NoProxyHosts> {
    let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (inside.unwrap_or(text), None),
    };
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    (bits <= width).then_some(NoProxyHosts::Network { address, bits })
}

/// `corp.example`, `.corp.example`, `*.corp.example`
fn parse_domain(text: &str) -> Option<NoProxyHosts> {
    let (is_below, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, text.strip_prefix('.').unwrap_or(text)),
    };
    let name = name.trim_end_matches('.');
    // Normalized as in addresses: lower case, ASCII only. The parser accepts stars as well.
    let Ok(Host::Domain(name)) = Host::parse(name) else {
        return None;
    };
    if name.contains('*') {
        return None;
    }
    Some(if is_below {
        NoProxyHosts::Below(name)
    } else {
        NoProxyHosts::Domain(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_clients_read_is_honoured() {
        for (list, yes, no) in [
            (
                "*",
                &["http://a.example/", "https://10.0.0.1/", "http://[::1]/"][..],
                &[][..],
            ),
            (
                "corp.example",
                &[
                    "http://corp.example/",
                    "https://a.b.corp.example:8443/",
                    "http://CORP.example./",
                ],
                &[
                    "http://xcorp.example/",
                    "http://corp.example.org/",
                    "http://example/",
                ],
            ),
            (
                ".corp.example",
                &["http://corp.example/", "http://a.corp.example/"],
                &["http://xcorp.example/"],
            ),
            (
                "*.corp.example",
                &["http://a.corp.example/", "http://a.b.corp.example/"],
                &["http://corp.example/"],
            ),
            (
                "files.example:8443",
                &[
                    "https://files.example:8443/",
                    "https://a.files.example:8443/",
                ],
                &["https://files.example/", "http://files.example:844/"],
            ),
            (
                "files.example:443",
                &["https://files.example/"],
                &["http://files.example/"],
            ),
            (
                "10.0.0.0/8",
                &["http://10.255.0.1/"],
                &["http://11.0.0.1/", "http://x10.0.0.1.example/"],
            ),
            (
                "10.1.2.3",
                &["http://10.1.2.3/", "http://10.1.2.3:81/"],
                &["http://10.1.2.4/"],
            ),
            (
                "10.1.2.3:81",
                &["http://10.1.2.3:81/"],
                &["http://10.1.2.3/"],
            ),
            (
                "192.168.1.7/24",
                &["http://192.168.1.200/"],
                &["http://192.168.2.7/"],
            ),
            (
                "0.0.0.0/0",
                &["http://8.8.8.8/"],
                &["http://a.example/", "http://[::1]/"],
            ),
            (
                "fd00::/8",
                &["http://[fd12::1]/"],
                &["http://[fe80::1]/", "http://10.0.0.1/"],
            ),
            ("::1", &["http://[::1]:81/"], &["http://[::2]/"]),
            ("[::1]:81", &["http://[::1]:81/"], &["http://[::1]/"]),
            (
                "bücher.example",
                &[
                    "http://b\u{fc}cher.example/",
                    "http://xn--bcher-kva.example/",
                ],
                &[],
            ),
            (
                "localhost",
                &["http://localhost:5000/"],
                &["http://127.0.0.1/"],
            ),
        ] {
            let (except, unread) = NoProxyList::read(list);
            assert_eq!(unread, Vec::<&str>::new(), "{list}");
            let has = |text: &str| except.has(&Url::parse(text).unwrap());
            for url in yes {
                assert!(has(url), "{list}: {url}");
            }
            for url in no {
                assert!(!has(url), "{list}: {url}");
            }
        }
    }

    #[test]
    fn entries_have_commas_semicolons_or_white_space_between_them() {
        for list in [
            "a.example,b.example",
            "a.example b.example",
            " a.example ,\tb.example\n,",
            "a.example;b.example",
        ] {
            let (except, unread) = NoProxyList::read(list);
            assert_eq!((except.0.len(), unread.len()), (2, 0), "{list}");
        }
        assert_eq!(
            NoProxyList::read(" , "),
            (NoProxyList::default(), Vec::new())
        );
    }

    #[test]
    fn what_is_no_form_of_a_host_is_named() {
        for entry in [
            "192.168.*",
            "a*.example",
            "http://a.example",
            "a.example/path",
            "10.0.0.0/33",
            "10.0.0.0/255.0.0.0",
            "a.example:port",
            "<local>",
            "*.",
        ] {
            let (except, unread) = NoProxyList::read(entry);
            assert_eq!((except, unread), (NoProxyList::default(), vec![entry]));
        }
    }
}
