//! Network zones of addresses: the internet, a private network, this machine.
//!
//! Pure. No server may redirect to link-local or reserved addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network zone of an address, farthest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkZone {
    Public,
    /// Private networks (RFC 1918, RFC 4193), those of carriers (RFC 6598) and of benchmarks (RFC
    /// 2544).
    Private,
    /// This machine.
    Here,
    /// Link-local, where clouds serve a machine's credentials, and reserved addresses (RFC 6890).
    Special,
}

impl NetworkZone {
    pub fn from_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(ip) => Self::of_v4(ip),
            IpAddr::V6(ip) => Self::of_v6(ip),
        }
    }

    fn of_v4(ip: Ipv4Addr) -> Self {
        match ip.octets() {
            [127, ..] => Self::Here,
            [0 | 224..=255, ..] | [169, 254, ..] | [192, 0, 0, _] => Self::Special,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Self::Private,
            [100, 64..=127, ..] | [198, 18 | 19, ..] => Self::Private,
            _ => Self::Public,
        }
    }

    fn of_v6(ip: Ipv6Addr) -> Self {
        match ip.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Here,
            [0, 0, 0, 0, 0, 0, ..] => Self::Special,
            // NAT64 (RFC 6052, RFC 8215) and 6to4 (RFC 3056)
            [0x64, 0xff9b, 0 | 1, _, _, _, high, low] | [0x2002, high, low, ..] => {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                Self::of_v4(Ipv4Addr::new(a, b, c, d))
            }
            [0xfc00..=0xfdff, ..] => Self::Private,
            [0xfe80..=0xfeff | 0xff00.., ..] => Self::Special,
            _ => Self::Public,
        }
    }

    /// Returns true if a server in this zone may redirect to an address in `other` that the user
    /// did not name.
    pub fn may_lead_to(self, other: Self) -> bool {
        other != Self::Special && other <= self
    }
}

impl fmt::Display for NetworkZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "an address of the internet",
            Self::Private => "an address of a private network",
            Self::Here => "an address of this machine",
            Self::Special => "a link-local or reserved address",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_where_the_registries_of_addresses_say() {
        use NetworkZone::{Here, Private, Public, Special};
        for (text, space) in [
            ("93.184.216.34", Public),
            ("172.15.0.1", Public),
            ("172.32.0.1", Public),
            ("100.128.0.1", Public),
            ("2606:2800:220:1::1", Public),
            ("10.0.0.5", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("100.64.0.1", Private),
            ("198.19.0.1", Private),
            ("fd00:ec2::254", Private),
            ("127.0.0.1", Here),
            ("127.8.8.8", Here),
            ("::1", Here),
            ("::ffff:127.0.0.1", Here),
            ("::ffff:10.0.0.1", Private),
            ("64:ff9b::7f00:1", Here),
            ("64:ff9b::a9fe:a9fe", Special),
            ("2002:a00:1::", Private),
            ("169.254.169.254", Special),
            ("0.0.0.0", Special),
            ("::", Special),
            ("255.255.255.255", Special),
            ("224.0.0.1", Special),
            ("fe80::1", Special),
            ("ff02::1", Special),
        ] {
            assert_eq!(NetworkZone::from_ip(text.parse().unwrap()), space, "{text}");
        }
    }
}
