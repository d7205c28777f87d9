//! Random damages of good files: nothing panics, and what is taken says what the good file says.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use support::tree;

use super::{fixtures, judge};
use crate::render::rewrite;

/// A small generator whose numbers are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// A damaged copy: bits flipped, bytes set, the end cut off, bytes put in or taken out.
fn mutated(good: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = good.to_vec();
    match numbers.below(10) {
        0 => bytes.truncate(numbers.below(good.len())),
        1 => {
            let at = numbers.below(good.len());
            bytes.insert(at, numbers.below(256) as u8);
        }
        2 => {
            bytes.remove(numbers.below(good.len()));
        }
        3 => {
            // A whole number, as sizes and offsets are.
            let at = numbers.below(good.len() - 4);
            let value = [0, 1, 0x7fff_ffff, 0xffff_ffff, 0xffff_fffe][numbers.below(5)];
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        _ => {
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(good.len());
                bytes[at] ^= 1 << numbers.below(8);
            }
        }
    }
    bytes
}

/// Judges `count` damaged copies of a file. None may panic, and one that is taken has to say what
/// the good one says.
fn damaged(name: &str, count: usize, same: fn(&[u8], &[u8]) -> bool) {
    let good = fs::read(fixtures().join(name)).unwrap();
    let place = tree::folder();
    let path = place.path().join(name);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for turn in 0..count {
        let bytes = mutated(&good, &mut numbers);
        rewrite(&path, &bytes);
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&path, name, None)));
        let what = match judged {
            Err(_) => "panics",
            Ok(Ok(_)) if !same(&good, &bytes) => "is taken",
            Ok(judged) => {
                refused += usize::from(judged.is_err());
                continue;
            }
        };
        let path = place.keep().join(name);
        panic!("{name}: damage {turn} {what}; it is in {}", path.display());
    }
    // Most bytes of a file are signed; if hardly any damage were refused, nothing would have been
    // judged.
    assert!(refused > count / 2, "{name}: {refused} of {count} refused");
}

/// What Windows Installer reads: every stream by its name, but for the signature.
pub fn streams(bytes: &[u8]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut package = cfb::CompoundFile::open(Cursor::new(bytes)).unwrap();
    let entries: Vec<_> = package.walk().filter(cfb::Entry::is_stream).collect();
    let mut streams = BTreeMap::new();
    for entry in entries {
        let mut content = Vec::new();
        let mut stream = package.open_stream(entry.path()).unwrap();
        stream.read_to_end(&mut content).unwrap();
        if entry.name() != "\u{5}DigitalSignature" {
            streams.insert(entry.path().to_path_buf(), content);
        }
    }
    streams
}

#[test]
fn damaged_packages() {
    damaged("extended.msi", 2000, |good, bytes| {
        let (good, streams) = (streams(good), streams(bytes));
        // Without that stream only the bytes of all are signed, as in the other package.
        let signs_names = streams.contains_key(Path::new("/\u{5}MsiDigitalSignatureEx"));
        good == streams || (!signs_names && sorted(good) == sorted(streams))
    });
    damaged("plain.msi", 2000, |good, bytes| {
        sorted(streams(good)) == sorted(streams(bytes))
    });
}

/// Every byte of every stream, in whatever order.
fn sorted(streams: BTreeMap<PathBuf, Vec<u8>>) -> Vec<u8> {
    let mut bytes: Vec<u8> = streams.into_values().flatten().collect();
    bytes.sort_unstable();
    bytes
}

#[test]
fn damaged_cabinets() {
    damaged("signed.cab", 2000, |good, bytes| {
        let end = u32::from_le_bytes(good[44..48].try_into().unwrap()) as usize;
        // All but the signature and its size.
        good[..48] == bytes[..48] && good[52..end] == bytes[52..end]
    });
}

#[test]
fn damaged_scripts() {
    for name in ["signed.ps1", "wide.ps1", "format.ps1xml"] {
        damaged(name, 1000, |good, bytes| {
            let narrow = b"SIG #".to_vec();
            let wide = narrow.iter().flat_map(|&byte| [byte, 0]).collect();
            let before = [narrow, wide]
                .iter()
                .find_map(|mark| good.windows(mark.len()).position(|part| part == mark));
            let before = before.unwrap();
            good[..before] == bytes[..before]
        });
    }
}

#[test]
fn damaged_catalogs() {
    let good = fs::read(fixtures().join("signed.cat")).unwrap();
    let text = fs::read(fixtures().join("driver.inf")).unwrap();
    let place = tree::folder();
    let path = place.path().join("driver.inf");
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    for turn in 0..1500 {
        rewrite(&path, &text);
        let list = mutated(&good, &mut numbers);
        let judged = catch_unwind(|| {
            let _ = judge(&path, "driver.inf", Some(&list));
        });
        assert!(judged.is_ok(), "catalog damage {turn} panics");
        let bytes = mutated(&text, &mut numbers);
        rewrite(&path, &bytes);
        let judged = judge(&path, "driver.inf", Some(&good));
        assert!(judged.is_err() || bytes == text, "damage {turn} is taken");
    }
}
