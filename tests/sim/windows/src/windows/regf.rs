//! Registry hive files ("regf"): a key tree in memory, read from and written to disk.
//!
//! A hive is written whole and compact each time, clean (both sequence numbers equal), so a reader never needs a
//! transaction log. It refuses to read a hive that is not clean, has a wrong checksum or points outside its bins:
//! the stand-in is the only writer of its hives, so damage is a fault to show, not to mend.
//!
//! libhivex is not used: its names and values go through iconv's loadable LATIN1 and UTF-16 converters, which a
//! static program in an initrd does not have (`hivex_node_name` fails there), it can't make a hive, and it needs a C
//! library on every machine that builds the workspace. It is the judge in the tests instead.
//!
//! Sources: "Windows registry file format specification" (M. Suhanov), libhivex's `hivex.h` types.

mod read;
mod write;

use std::collections::BTreeMap;

pub use read::parse;
pub use write::{replace, serialize};

pub const REG_NONE: u32 = 0;
pub const REG_SZ: u32 = 1;
pub const REG_EXPAND_SZ: u32 = 2;
pub const REG_BINARY: u32 = 3;
pub const REG_DWORD: u32 = 4;
pub const REG_MULTI_SZ: u32 = 7;
pub const REG_QWORD: u32 = 11;

/// Largest value data kept in one cell; longer data is cut into segments of this size ("db").
const SEGMENT: usize = 16344;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub name: String,
    pub kind: u32,
    pub data: Vec<u8>,
}

/// A key: its name as first written, values in the order they were set, subkeys by upper-cased name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    pub values: Vec<Value>,
    pub subkeys: BTreeMap<String, Key>,
}

impl Key {
    pub fn new(name: &str) -> Key {
        Key {
            name: name.to_owned(),
            ..Key::default()
        }
    }

    pub fn subkey(&self, name: &str) -> Option<&Key> {
        self.subkeys.get(&name.to_uppercase())
    }

    pub fn subkey_mut(&mut self, name: &str) -> Option<&mut Key> {
        self.subkeys.get_mut(&name.to_uppercase())
    }

    /// The key at `path`, made with everything above it when absent.
    pub fn make(&mut self, path: &[&str]) -> &mut Key {
        path.iter().fold(self, |key, name| {
            key.subkeys
                .entry(name.to_uppercase())
                .or_insert_with(|| Key::new(name))
        })
    }

    pub fn find(&self, path: &[&str]) -> Option<&Key> {
        path.iter().try_fold(self, |key, name| key.subkey(name))
    }

    pub fn find_mut(&mut self, path: &[&str]) -> Option<&mut Key> {
        path.iter().try_fold(self, |key, name| key.subkey_mut(name))
    }

    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|value| same(&value.name, name))
    }

    pub fn set(&mut self, name: &str, kind: u32, data: Vec<u8>) {
        match self.values.iter_mut().find(|value| same(&value.name, name)) {
            Some(value) => (value.kind, value.data) = (kind, data),
            None => self.values.push(Value {
                name: name.to_owned(),
                kind,
                data,
            }),
        }
    }

    /// Whether there was such a value.
    pub fn unset(&mut self, name: &str) -> bool {
        let before = self.values.len();
        self.values.retain(|value| !same(&value.name, name));
        self.values.len() != before
    }
}

/// Names of keys, values, files and services are compared as Windows does: without regard to case.
pub fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!a.is_ascii() && a.to_uppercase() == b.to_uppercase())
}

/// The sum of the header: all words before it, exclusive-or.
fn checksum(header: &[u8]) -> u32 {
    let sum = header[..508].chunks_exact(4).fold(0, |sum, w| {
        sum ^ u32::from_le_bytes([w[0], w[1], w[2], w[3]])
    });
    match sum {
        u32::MAX => u32::MAX - 1,
        0 => 1,
        sum => sum,
    }
}

/// UTF-16LE without an end.
pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
