//! Digests in the usual notation: `sha256:<hex>`.
//!
//! Supports SHA-256 and SHA-512 and refuses everything weaker.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::str::FromStr;

use serde::Serialize;
use sha2::{Digest as _, Sha256, Sha512};

/// The supported algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// A digest and its algorithm. Formatted as `sha256:<lower-case hex>`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    pub algorithm: Algorithm,
    bytes: Vec<u8>,
}

impl Digest {
    /// Returns lower-case hex without the algorithm.
    pub fn hex(&self) -> String {
        hex::encode(&self.bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Parses bare hex; its length determines the algorithm (64 digits: SHA-256, 128: SHA-512).
    /// The error is worded to follow "digest".
    pub fn from_hex(text: &str) -> Result<Self, String> {
        // The length is checked before decoding, which would only report an odd number of digits.
        if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("is not hexadecimal".into());
        }
        let algorithm = match text.len() {
            64 => Algorithm::Sha256,
            128 => Algorithm::Sha512,
            32 => return Err("is an MD5, which is not secure: use SHA-256".into()),
            40 => return Err("is a SHA-1, which is not secure: use SHA-256".into()),
            n => {
                let s = if n == 1 { "" } else { "s" };
                return Err(format!(
                    "has {n} hex digit{s}; SHA-256 has 64, SHA-512 has 128"
                ));
            }
        };
        let bytes = hex::decode(text).map_err(|e| format!("is not hexadecimal: {e}"))?;
        Ok(Self { algorithm, bytes })
    }

    pub fn sha256_of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Hashes a value as [`to_canonical_json`] JSON. The value includes a format version, which is
    /// increased when the meaning of the same content changes. It must not contain human-readable
    /// text (`Display`, `Debug`), whose wording may change.
    pub fn of_json(value: &impl Serialize) -> Self {
        Self::sha256_of(to_canonical_json(value).as_bytes())
    }

    /// Hashes a reader to its end, and returns the number of bytes.
    pub fn of_reader(algorithm: Algorithm, reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = Hasher::new(algorithm);
        let mut reader = BufReader::with_capacity(1 << 20, reader);
        let total = io::copy(&mut reader, &mut hasher)?;
        Ok((hasher.finish(), total))
    }
}

/// Serializes a value to JSON without spaces and with sorted keys, so that the text does not depend
/// on the order of fields. All maps must have text keys, so that serialization cannot fail.
pub fn to_canonical_json(value: &impl Serialize) -> String {
    let mut value = serde_json::json!(value);
    value.sort_all_objects();
    value.to_string()
}

impl FromStr for Digest {
    type Err = String;

    /// Parses `sha256:<hex>`, `sha512:<hex>`, ignoring the name's case, or bare hex.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, hex) = match text.split_once(':') {
            Some((name, hex)) => (Some(name), hex),
            None => (None, text),
        };
        let digest = Self::from_hex(hex)?;
        match name {
            Some(name) if !name.eq_ignore_ascii_case(digest.algorithm.name()) => Err(format!(
                "is labelled {name} but has the length of a {}",
                digest.algorithm.name()
            )),
            _ => Ok(digest),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An incremental hasher. `Clone` forks the state: a fixed VHD shares its raw disk's prefix this
/// way.
#[derive(Clone)]
pub enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    /// Adds `length` zero bytes.
    pub fn update_zeros(&mut self, mut length: u64) {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        while length > 0 {
            let chunk = length.min(ZEROS.len() as u64);
            self.update(&ZEROS[..chunk as usize]);
            length -= chunk;
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(h) => h.update(bytes),
            Self::Sha512(h) => h.update(bytes),
        }
    }

    pub fn finish(self) -> Digest {
        let (algorithm, bytes) = match self {
            Self::Sha256(h) => (Algorithm::Sha256, h.finalize().to_vec()),
            Self::Sha512(h) => (Algorithm::Sha512, h.finalize().to_vec()),
        };
        Digest { algorithm, bytes }
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_mislabelled_and_miscounted_digests_are_refused_in_words() {
        for (text, why) in [
            (
                "d41d8cd98f00b204e9800998ecf8427e".into(),
                "is an MD5, which is not secure: use SHA-256",
            ),
            (
                format!("sha512:{}", "ab".repeat(32)),
                "is labelled sha512 but has the length of a sha256",
            ),
            (
                "a".repeat(63),
                "has 63 hex digits; SHA-256 has 64, SHA-512 has 128",
            ),
            (
                format!("sha256:{}", "a".repeat(65)),
                "has 65 hex digits; SHA-256 has 64, SHA-512 has 128",
            ),
            (
                format!("sha512:{}", "a".repeat(127)),
                "has 127 hex digits; SHA-256 has 64, SHA-512 has 128",
            ),
            (
                "a".into(),
                "has 1 hex digit; SHA-256 has 64, SHA-512 has 128",
            ),
            (format!("{}g", "a".repeat(63)), "is not hexadecimal"),
        ] {
            assert_eq!(text.parse::<Digest>().unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn canonical_json_does_not_depend_on_the_order_of_fields() {
        let one = serde_json::json!({ "b": [{ "y": "\u{e9}\n", "x": null }], "a": 1 });
        let other = serde_json::json!({ "a": 1, "b": [{ "x": null, "y": "\u{e9}\n" }] });
        assert_eq!(
            to_canonical_json(&one),
            "{\"a\":1,\"b\":[{\"x\":null,\"y\":\"\u{e9}\\n\"}]}"
        );
        assert_eq!(Digest::of_json(&one), Digest::of_json(&other));
        assert_eq!(
            Digest::of_json(&one),
            Digest::sha256_of(to_canonical_json(&one).as_bytes())
        );
    }

    #[test]
    fn a_known_vector() {
        assert_eq!(
            Digest::sha256_of(b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
