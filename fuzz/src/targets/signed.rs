//! Good signed files with some of their bytes changed: what is taken all the same must be what was signed.
//!
//! An input only describes changes ([`Base::changed`]), so nearly every one meets the checks behind the parsers. A change that
//! is taken and stands in no place that `winimg_trust::place` lists is a broken promise.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};
use std::path::PathBuf;
use std::sync::OnceLock;

use winimg_base::digest::Digest;
use winimg_trust::authenticode::{list_uncovered, read_signature};
use winimg_trust::uncovered::{UncoveredPlace, UncoveredRange};
use winimg_trust::{FileSubject, SignatureEvidence, SignatureResult, SignatureRule};

use super::signatures::{self, SIGNED};
use crate::ground::{self, Base};

/// A file that holds its signature.
struct Inside {
    name: &'static str,
    base: Base,
    file: Vec<u8>,
    signature: Vec<u8>,
    open: Vec<UncoveredRange>,
}

/// The files that the seeds sign, by the names that they are judged by.
pub const INSIDE: [&str; 5] = ["a.exe", "a.msi", "a.cab", "a.ps1", "a.cat"];

impl Inside {
    /// `None` where the tool that makes it is missing.
    fn load(name: &'static str) -> Option<Self> {
        let called = format!("signed-{name}");
        let is_there = ground::made().join("bases").join(&called).is_file();
        let base = is_there.then(|| Base::load(&called))?;
        let file = base.changed(&[]);
        let SignatureRule::Authenticode(rule) = signatures::authenticode_rule() else {
            return None;
        };
        let (open, signature) = ground::on_file(&file, |path| {
            let digest = Digest::sha256_of(&file);
            let subject = FileSubject {
                path,
                name,
                published: name,
                digest: &digest,
            };
            let open = list_uncovered(rule, subject, signatures::now()).expect("a good file");
            (open, read_signature(path, name))
        });
        let signature = signature.expect("a good file").expect("its signature");
        Some(Self {
            name,
            base,
            file,
            signature,
            open,
        })
    }

    /// What was taken is what was signed, but for the listed places.
    fn compare(&self, file: &[u8]) {
        assert_eq!(
            file.len(),
            self.file.len(),
            "{} of another length",
            self.name
        );
        let is_open = |at: usize, in_signature: bool| {
            self.open.iter().any(|open| {
                open.place.is_in_signature() == in_signature && open.range.contains(&(at as u64))
            })
        };
        for (at, _) in different(&self.file, file) {
            assert!(is_open(at, false), "{}: byte {at:#x} is taken", self.name);
        }
        let now = ground::on_file(file, |path| read_signature(path, self.name));
        let now = now
            .expect("it was read before")
            .expect("it was there before");
        assert_eq!(
            now.len(),
            self.signature.len(),
            "{}: its signature",
            self.name
        );
        for (at, _) in different(&self.signature, &now) {
            assert!(
                is_open(at, true),
                "{}: byte {at:#x} of its signature",
                self.name
            );
        }
        if self
            .open
            .iter()
            .any(|open| open.place == UncoveredPlace::PackageTables)
        {
            assert_eq!(
                streams(&self.file),
                streams(file),
                "{}: its streams",
                self.name
            );
        }
    }
}

fn different<'a>(one: &'a [u8], other: &'a [u8]) -> impl Iterator<Item = (usize, &'a u8)> {
    let both = one.iter().zip(other).enumerate();
    both.filter(|(_, (a, b))| a != b)
        .map(|(at, (_, b))| (at, b))
}

/// What Windows Installer reads of a package, but for its signature.
fn streams(file: &[u8]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut package = cfb::CompoundFile::open(Cursor::new(file)).expect("it was read before");
    let entries: Vec<_> = package.walk().filter(cfb::Entry::is_stream).collect();
    let mut streams = BTreeMap::new();
    for entry in entries {
        let mut content = Vec::new();
        let mut stream = package.open_stream(entry.path()).expect("a stream");
        stream.read_to_end(&mut content).expect("its content");
        if entry.name() != "\u{5}DigitalSignature" {
            streams.insert(entry.path().to_path_buf(), content);
        }
    }
    streams
}

/// The first byte chooses the file.
pub fn inside(input: &[u8]) -> bool {
    static FILES: OnceLock<Vec<Inside>> = OnceLock::new();
    let files = FILES.get_or_init(|| INSIDE.into_iter().filter_map(Inside::load).collect());
    let Some((which, changes)) = input.split_first() else {
        return false;
    };
    let Some(good) = files.get(usize::from(*which) % files.len().max(1)) else {
        return false;
    };
    let file = good.base.changed(changes);
    let rule = signatures::authenticode_rule();
    let judged = signatures::judged(good.name, rule, &file, &SignatureEvidence::default());
    if judged.is_ok() {
        good.compare(&file);
    }
    judged.is_ok()
}

/// A file and the signature beside it, one after the other.
struct Beside {
    rule: &'static SignatureRule,
    name: &'static str,
    base: Base,
    /// Bytes of the signature, which is first.
    length: usize,
    good: (Vec<u8>, String),
}

/// The targets of which one seed each is taken: the signature's rule, the seed, and the file that it signs.
type Scheme = (
    &'static str,
    &'static str,
    fn() -> Option<&'static SignatureRule>,
);

const BESIDE: [Scheme; 6] = [
    ("minisign", "good", signatures::minisign_rule),
    ("signify", "good", signatures::signify_rule),
    ("cosign", "bare", signatures::cosign_rule),
    ("openpgp", "binary", signatures::openpgp_rule),
    ("cms", "DER", || Some(signatures::cms_rule())),
    ("catalog", "one-file", || {
        Some(signatures::authenticode_rule())
    }),
];

impl Beside {
    fn load((target, seed, rule): Scheme) -> Option<Self> {
        let path = ground::made().join("seeds").join(target).join(seed);
        let signature = std::fs::read(path).ok()?;
        let (name, file) = match target {
            "catalog" => ("driver.inf", signatures::LISTED),
            _ => ("kubelet.exe", SIGNED),
        };
        let rule = rule()?;
        let signer = said(&signatures::judged(name, rule, file, &beside(&signature)))?;
        Some(Self {
            rule,
            name,
            base: Base::new([&signature[..], file].concat()),
            length: signature.len(),
            good: (file.to_vec(), signer),
        })
    }
}

fn beside(signature: &[u8]) -> SignatureEvidence {
    SignatureEvidence {
        signature: Some(signature.to_vec()),
        ..SignatureEvidence::default()
    }
}

/// Who signed, by which pins, and when.
fn said(judged: &SignatureResult) -> Option<String> {
    let signer = judged.as_ref().ok()?;
    let at = signer.signed_at.as_deref().unwrap_or_default();
    Some(format!("{} {} {at}", signer.signer, signer.pinned_by))
}

/// The first byte chooses the scheme. A signature beside a file covers each byte of it.
pub fn beside_file(input: &[u8]) -> bool {
    static FILES: OnceLock<Vec<Beside>> = OnceLock::new();
    let files = FILES.get_or_init(|| BESIDE.into_iter().filter_map(Beside::load).collect());
    let Some((which, changes)) = input.split_first() else {
        return false;
    };
    let Some(good) = files.get(usize::from(*which) % files.len().max(1)) else {
        return false;
    };
    let both = good.base.changed(changes);
    let (signature, file) = both.split_at(good.length.min(both.len()));
    let judged = signatures::judged(good.name, good.rule, file, &beside(signature));
    let Some(signer) = said(&judged) else {
        return false;
    };
    assert!(
        good.good.0 == file,
        "{} is taken, and is another",
        good.name
    );
    assert_eq!(good.good.1, signer, "{} is taken", good.name);
    true
}
