//! Attacks on what is in a signature: DER is taken apart and put together again, with what nobody
//! signed in it.

use winimg_trust::RefusalReason::{self, Changed, Malformed, Uncovered, Unsupported};

/// An element of these parts.
pub fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut whole = vec![tag];
    match u8::try_from(body.len()) {
        Ok(short) if short < 0x80 => whole.push(short),
        _ => {
            let digits = body.len().to_be_bytes();
            let digits = &digits[digits.iter().position(|d| *d != 0).unwrap()..];
            whole.push(0x80 | digits.len() as u8);
            whole.extend(digits);
        }
    }
    whole.extend(body);
    whole
}

/// Bytes of the head, and of the value.
fn lengths(element: &[u8]) -> (usize, usize) {
    let first = usize::from(element[1]);
    if first < 0x80 {
        return (2, first);
    }
    let digits = &element[2..2 + (first & 0x7f)];
    let value = digits.iter().fold(0, |all, d| all << 8 | usize::from(*d));
    (2 + digits.len(), value)
}

pub fn value(element: &[u8]) -> &[u8] {
    let (head, length) = lengths(element);
    &element[head..head + length]
}

/// Each element in these bytes, whole.
pub fn elements(mut body: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let (head, length) = lengths(body);
        let (one, rest) = body.split_at(head + length);
        found.push(one.to_vec());
        body = rest;
    }
    found
}

/// A SignedData with one signer, taken apart.
#[derive(Clone)]
struct Parts {
    kind: Vec<u8>,
    version: Vec<u8>,
    algorithms: Vec<u8>,
    content: Vec<u8>,
    certificates: Vec<Vec<u8>>,
    lists: Option<Vec<u8>>,
    signers: Vec<Vec<u8>>,
    tail: Vec<u8>,
}

impl Parts {
    fn of(signature: &[u8]) -> Self {
        let mut outer = elements(value(signature)).into_iter();
        let kind = outer.next().unwrap();
        let inside = elements(value(value(&outer.next().unwrap())));
        Self {
            kind,
            version: inside[0].clone(),
            algorithms: inside[1].clone(),
            content: inside[2].clone(),
            certificates: elements(value(&inside[3])),
            lists: None,
            signers: elements(value(&inside[4])),
            tail: Vec::new(),
        }
    }

    fn whole(&self) -> Vec<u8> {
        let lists = self.lists.clone().unwrap_or_default();
        let parts: [&[u8]; 7] = [
            &self.version,
            &self.algorithms,
            &self.content,
            &der(0xa0, &[&self.certificates.concat()]),
            &lists,
            &der(0x31, &[&self.signers.concat()]),
            &self.tail,
        ];
        der(0x30, &[&self.kind, &der(0xa0, &[&der(0x30, &parts)])])
    }

    /// With these parts of the signer in place of its own.
    fn signer(&mut self, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
        let mut parts = elements(value(&self.signers[0]));
        change(&mut parts);
        self.signers[0] = der(0x30, &[&parts.concat()]);
    }

    /// With this unsigned attribute beside those that are there.
    fn unsigned(&mut self, attribute: &[u8]) {
        self.signer(|parts| {
            let last = parts.last_mut().unwrap();
            match last[0] {
                0xa1 => *last = der(0xa1, &[value(last), attribute]),
                _ => parts.push(der(0xa1, &[attribute])),
            }
        });
    }
}

fn attribute(oid: &[u8], value: &[u8]) -> Vec<u8> {
    der(0x30, &[&der(6, &[oid]), &der(0x31, &[value])])
}

/// 1.3.6.1.4.1.311.3.3.1, 1.2.840.113549.1.9.6, 1.3.6.1.4.1.311.2.4.1, and one that nobody knows.
const TOKEN: &[u8] = b"\x2b\x06\x01\x04\x01\x82\x37\x03\x03\x01";
const COUNTERSIGNATURE: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x06";
const NESTED: &[u8] = b"\x2b\x06\x01\x04\x01\x82\x37\x02\x04\x01";
const UNKNOWN: &[u8] = b"\x2b\x06\x01\x04\x01\x82\x37\x63\x01";
const SHA512: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x03";

type Change = (&'static str, &'static [RefusalReason], fn(&mut Parts));

const CHANGES: [Change; 26] = [
    ("revocation lists", &[Uncovered], |p| {
        p.lists = Some(der(0xa1, &[&der(0x30, &[&[0; 700]])]));
    }),
    ("an empty set of revocation lists", &[Uncovered], |p| {
        p.lists = Some(der(0xa1, &[]));
    }),
    ("a certificate of 5 KiB", &[Uncovered], |p| {
        p.certificates.push(der(0x30, &[&[0; 5 << 10]]));
    }),
    (
        "more certificates than vouch for anybody",
        &[Uncovered],
        |p| {
            let spare = p.certificates[0].clone();
            let count = (17 << 10) / spare.len() + 1;
            p.certificates.extend(vec![spare; count]);
        },
    ),
    ("a set of certificates of 40 KiB", &[Uncovered], |p| {
        p.certificates.extend(vec![der(0x30, &[&[0; 4000]]); 10]);
    }),
    ("a certificate that is none", &[Malformed], |p| {
        p.certificates.push(der(0x30, &[b"PK\x05\x06"]));
    }),
    ("octets among the certificates", &[Malformed], |p| {
        p.certificates.push(der(4, &[b"PK\x05\x06"]));
    }),
    ("an attribute certificate of 5 KiB", &[Uncovered], |p| {
        p.certificates.push(der(0xa1, &[&[0; 5 << 10]]));
    }),
    ("no certificates", &[Malformed], |p| p.certificates.clear()),
    (
        "an unsigned attribute of no known kind",
        &[Uncovered],
        |p| {
            p.unsigned(&attribute(UNKNOWN, &der(4, &[b"PK\x05\x06"])));
        },
    ),
    ("an unsigned attribute of 1 MiB", &[Uncovered], |p| {
        p.unsigned(&attribute(UNKNOWN, &der(4, &[&vec![0; 1 << 20]])));
    }),
    ("a timestamp that is none", &[Malformed], |p| {
        p.unsigned(&attribute(TOKEN, &der(4, &[b"PK\x05\x06"])));
    }),
    ("a timestamp of 40 KiB", &[Uncovered], |p| {
        p.unsigned(&attribute(TOKEN, &der(0x30, &[&vec![0; 40 << 10]])));
    }),
    ("a countersignature that is none", &[Malformed], |p| {
        p.unsigned(&attribute(COUNTERSIGNATURE, &der(4, &[b"PK\x05\x06"])));
    }),
    ("a nested signature that is none", &[Malformed], |p| {
        p.unsigned(&attribute(NESTED, &der(4, &[b"PK\x05\x06"])));
    }),
    ("a nested signature of 80 KiB", &[Uncovered], |p| {
        let mut nested = p.clone();
        let kind = elements(value(&nested.content))[0].clone();
        let large = der(0xa0, &[&der(0x30, &[&der(4, &[&vec![0; 80 << 10]])])]);
        nested.content = der(0x30, &[&kind, &large]);
        p.unsigned(&attribute(NESTED, &nested.whole()));
    }),
    ("a list of hashes that names none", &[Uncovered], |p| {
        let other = der(0x30, &[&der(6, &[UNKNOWN])]);
        p.algorithms = der(0x31, &[value(&p.algorithms), &other]);
    }),
    ("a hash with a parameter", &[Malformed], |p| {
        let other = der(0x30, &[&der(6, &[SHA512]), &der(4, &[b"PK\x05\x06"])]);
        p.algorithms = der(0x31, &[value(&p.algorithms), &other]);
    }),
    ("another hash in the list", &[Malformed], |p| {
        p.algorithms = der(0x31, &[&der(0x30, &[&der(6, &[SHA512])])]);
    }),
    ("two signers", &[Unsupported], |p| {
        p.signers.push(p.signers[0].clone());
    }),
    ("version 9", &[Malformed], |p| p.version = der(2, &[&[9]])),
    ("bytes behind the signers", &[Malformed], |p| {
        p.tail = der(4, &[b"PK\x05\x06"]);
    }),
    ("another content", &[Changed], |p| {
        let parts = elements(value(&p.content));
        let mut inside = value(&parts[1]).to_vec();
        *inside.last_mut().unwrap() ^= 1;
        p.content = der(0x30, &[&parts[0], &der(0xa0, &[&inside])]);
    }),
    ("another signed attribute", &[Changed], |p| {
        p.signer(|parts| {
            let at = parts.iter().position(|e| e[0] == 0xa0).unwrap();
            *parts[at].last_mut().unwrap() ^= 1;
        });
    }),
    ("another signature value", &[Changed], |p| {
        p.signer(|parts| {
            let at = parts.iter().rposition(|e| e[0] == 4).unwrap();
            *parts[at].last_mut().unwrap() ^= 1;
        });
    }),
    ("no signed attributes", &[Unsupported], |p| {
        p.signer(|parts| parts.retain(|e| e[0] != 0xa0));
    }),
];

/// The signature with each of the changes.
pub fn changed(signature: &[u8]) -> Vec<(&'static str, &'static [RefusalReason], Vec<u8>)> {
    assert_eq!(
        Parts::of(signature).whole(),
        signature,
        "it is not put together as it was"
    );
    let one = |(name, family, change): &Change| {
        let mut parts = Parts::of(signature);
        change(&mut parts);
        (*name, *family, parts.whole())
    };
    CHANGES.iter().map(one).collect()
}
