//! No unread byte: of good files, every change that is taken stands in a place that `place` lists.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use support::tree;
use winimg_base::digest::Digest;
use winimg_trust::authenticode::{self, list_uncovered, read_signature};
use winimg_trust::uncovered::{UncoveredPlace, UncoveredRange};
use winimg_trust::{FileSubject, SignatureEvidence, SignatureRule};

use crate::containers::damaged::streams;
use crate::containers::{fixtures, rule};
use crate::render::rewrite;
use crate::signed;

/// A file, and the rule that it meets.
struct Good {
    name: &'static str,
    file: Vec<u8>,
    rule: SignatureRule,
    now: SystemTime,
}

impl Good {
    fn subject<'a>(&'a self, path: &'a Path, digest: &'a Digest) -> FileSubject<'a> {
        FileSubject {
            path,
            name: self.name,
            published: self.name,
            digest,
        }
    }

    /// Its places, and its signature.
    fn places(&self, path: &Path) -> (Vec<UncoveredRange>, Vec<u8>) {
        rewrite(path, &self.file);
        let digest = Digest::sha256_of(&self.file);
        let SignatureRule::Authenticode(rule) = &self.rule else {
            panic!("{} is judged by Authenticode", self.name);
        };
        let open = list_uncovered(rule, self.subject(path, &digest), self.now).unwrap();
        (open, read_signature(path, self.name).unwrap().unwrap())
    }

    fn is_taken(&self, path: &Path, file: &[u8]) -> bool {
        rewrite(path, file);
        let digest = Digest::sha256_of(file);
        let evidence = SignatureEvidence::default();
        self.rule
            .judge(self.subject(path, &digest), &evidence, self.now)
            .is_ok()
    }
}

/// Where a change of this file that was taken does not stand in a listed place; `None`: it does.
fn unlisted(
    good: &Good,
    open: &[UncoveredRange],
    own: &[u8],
    path: &Path,
    at: u64,
) -> Option<String> {
    let of_file = |o: &&UncoveredRange| !o.place.is_in_signature() && o.range.contains(&at);
    let Some(place) = open.iter().find(of_file) else {
        return Some("a byte that is signed".into());
    };
    // What a script's or a package's signature holds is the same wherever it stands.
    if place.place == UncoveredPlace::PackageTables {
        let now = fs::read(path).unwrap();
        return (streams(&good.file) != streams(&now)).then(|| "it leads to other streams".into());
    }
    if !matches!(
        place.place,
        UncoveredPlace::Signature | UncoveredPlace::ScriptBlock
    ) {
        return None;
    }
    let now = read_signature(path, good.name).unwrap().unwrap();
    let changed = (0..own.len().max(now.len())).find(|n| {
        let in_place =
            |o: &UncoveredRange| o.place.is_in_signature() && o.range.contains(&(*n as u64));
        own.get(*n) != now.get(*n) && !open.iter().any(in_place)
    });
    changed.map(|at| format!("byte {at:#x} of its signature, which is signed"))
}

fn goods() -> Vec<Good> {
    let SignatureRule::Authenticode(loose) = rule("root.pem") else {
        unreachable!("it is one of Authenticode");
    };
    let contained = |name| Good {
        name,
        file: fs::read(fixtures().join(name)).unwrap(),
        // Without it a package's streams may have other names.
        rule: SignatureRule::Authenticode(authenticode::AuthenticodeRule {
            needs_extended: true,
            ..loose.clone()
        }),
        now: SystemTime::now(),
    };
    let program = |name| Good {
        name,
        file: fs::read(signed::folder().join(name)).unwrap(),
        rule: signed::by(signed::pins()),
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(signed::NOW),
    };
    let names = [
        "extended.msi",
        "signed.cab",
        "signed.ps1",
        "wide.ps1",
        "format.ps1xml",
        "signed.cat",
    ];
    let contained = names.into_iter().map(contained);
    let programs = ["dual.exe", "dual-good-last.exe", "legacy.exe"].map(program);
    let unstamped = Good {
        rule: signed::unstamped(signed::pins()),
        ..program("stamped-by-other.exe")
    };
    contained.chain(programs).chain([unstamped]).collect()
}

/// Every byte of a small part, and of the rest one of a few, each with another bit.
#[test]
fn a_change_that_is_taken_stands_in_a_listed_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut seen = Vec::new();
    for good in goods() {
        let (open, own) = good.places(&path);
        let length = good.file.len() as u64;
        for o in open.iter().filter(|o| !o.place.is_in_signature()) {
            assert!(
                o.range.start < o.range.end && o.range.end <= length,
                "{}: {o:?}",
                good.name
            );
        }
        let small = |o: &UncoveredRange| o.range.end - o.range.start < 64;
        let near = |at: u64| {
            open.iter()
                .any(|o| small(o) && !o.place.is_in_signature() && o.range.contains(&at))
        };
        let step = (length / 400).max(1);
        let mut taken = 0;
        for at in (0..length).filter(|at| at % step == 0 || near(*at)) {
            let mut file = good.file.clone();
            file[at as usize] ^= 1 << (at % 8);
            if !good.is_taken(&path, &file) {
                continue;
            }
            taken += 1;
            if let Some(what) = unlisted(&good, &open, &own, &path, at) {
                panic!("{}: another byte at {at:#x} is taken: {what}", good.name);
            }
        }
        seen.extend(open.iter().map(|o| o.place));
        println!(
            "{}: {taken} changes are taken, all in listed places",
            good.name
        );
    }
    // Files that show each place are among those that were changed.
    let unseen = UncoveredPlace::ALL
        .into_iter()
        .filter(|place| !seen.contains(place));
    // Whether a signature has to be filled up depends on its length, which serial numbers change.
    let unseen: Vec<UncoveredPlace> = unseen
        .filter(|place| *place != UncoveredPlace::Padding)
        .collect();
    assert_eq!(unseen, [], "no file has such a place");
}

/// Places and covered bytes are all of a file: nothing is between them, and no two lie over each
/// other.
#[test]
fn places_do_not_lie_over_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for good in goods() {
        let (open, own) = good.places(&path);
        for in_signature in [false, true] {
            let mut ranges: Vec<_> = open
                .iter()
                .filter(|o| o.place.is_in_signature() == in_signature)
                .map(|o| o.range.clone())
                .collect();
            ranges.sort_by_key(|range| range.start);
            let apart = ranges.windows(2).all(|two| two[0].end <= two[1].start);
            assert!(apart, "{}: {ranges:x?}", good.name);
            let whole = if in_signature {
                own.len()
            } else {
                good.file.len()
            } as u64;
            assert!(
                ranges.last().is_some_and(|range| range.end <= whole),
                "{}",
                good.name
            );
        }
    }
}

/// Each place has words of its own, for people.
#[test]
fn every_place_has_its_words() {
    let mut words = UncoveredPlace::ALL.map(UncoveredPlace::describe).to_vec();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), UncoveredPlace::ALL.len());
}

/// docs/trust.md is for those who decide whether a signature is enough.
#[test]
fn the_page_lists_every_place() {
    let row = |place: UncoveredPlace| match place.describe().split_once(": ") {
        Some((place, may)) => format!("| {place} | {may} |\n"),
        None => format!("| {place} | |\n"),
    };
    let table = UncoveredPlace::ALL.map(row).concat();
    let page = fs::read_to_string(tree::root().join("docs/trust.md")).unwrap();
    assert!(page.contains(&format!("|---|---|\n{table}\n")), "{table}");
}
