//! Object identifiers of any size, as encoded octets.
//!
//! `der`'s own type limits arcs to 28 bits, but the identities that Azure Artifact Signing assigns
//! to its customers have longer ones (`1.3.6.1.4.1.311.97.368317130.…`). Known identifiers still
//! use its constants. Refuses invalid encodings (X.690 8.19): an arc that is cut off or has a
//! leading zero.

use std::fmt;

use der::asn1::ObjectIdentifier;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Oid<'a>(&'a [u8]);

impl<'a> Oid<'a> {
    pub fn read(value: &'a [u8]) -> Option<Self> {
        let whole = value.last().is_some_and(|last| last & 0x80 == 0);
        let starts = [0].iter().chain(value).zip(value);
        let padded = starts
            .into_iter()
            .any(|(before, first)| before & 0x80 == 0 && *first == 0x80);
        (whole && !padded).then_some(Self(value))
    }

    pub fn from_known(known: &'a ObjectIdentifier) -> Self {
        Self(known.as_bytes())
    }
}

impl PartialEq<ObjectIdentifier> for Oid<'_> {
    fn eq(&self, known: &ObjectIdentifier) -> bool {
        self.0 == known.as_bytes()
    }
}

/// Shows dotted decimal, or hexadecimal if an arc exceeds 128 bits (the size of a UUID, the largest
/// in use).
impl fmt::Display for Oid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut arcs = Vec::new();
        let mut arc = 0_u128;
        for byte in self.0 {
            let Some(shifted) = arc.checked_mul(128) else {
                return write!(f, "#{}", hex::encode(self.0));
            };
            arc = shifted | u128::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                if arcs.is_empty() {
                    let root = (arc / 40).min(2);
                    arcs.push(root);
                    arc -= root * 40;
                }
                arcs.push(arc);
                arc = 0;
            }
        }
        let text: Vec<String> = arcs.iter().map(u128::to_string).collect();
        f.write_str(&text.join("."))
    }
}

impl fmt::Debug for Oid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// szOID_NESTED_SIGNATURE
pub const NESTED_SIGNATURE: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.4.1");

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(hex: &str) -> Option<String> {
        let bytes = hex::decode(hex).unwrap();
        Oid::read(&bytes).map(|oid| oid.to_string())
    }

    #[test]
    fn arcs_of_any_size_are_shown_and_bad_ones_refused() {
        let azure = "2b0601040182376181afd0a54a";
        assert_eq!(shown(azure).unwrap(), "1.3.6.1.4.1.311.97.368317130");
        assert_eq!(shown("2a864886f70d010702").unwrap(), "1.2.840.113549.1.7.2");
        assert_eq!(shown("883703").unwrap(), "2.999.3");
        let long = format!("2b{}7f", "ff".repeat(30));
        assert_eq!(shown(&long).unwrap(), format!("#{long}"));
        for bad in ["", "2b86", "2b8001", "80"] {
            assert_eq!(shown(bad), None, "{bad}");
        }
        let known = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");
        assert_eq!(Oid::from_known(&known), known);
        assert_eq!(Oid::from_known(&known).to_string(), known.to_string());
    }
}
