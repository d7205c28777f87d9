//! Attacks on files that hold their signature: programs, packages, cabinets, scripts and catalogs.

use std::fs;
use std::io::{Cursor, Write as _};
use std::time::{Duration, SystemTime};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use winimg_trust::RefusalReason::{
    Changed, Malformed, Missing, OtherName, OtherRoot, Uncovered, Unsupported,
};
use winimg_trust::SignatureEvidence;
use winimg_trust::authenticode;

use super::der;
use super::{Attack, Good, Judge, Served, flipped, spread};
use crate::containers::{fixtures, rule};
use crate::signed;

const ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Each with the name of its unsigned file, of another publisher's, and of another file whose
/// signature is moved into it.
const KINDS: [(&str, &str, [&str; 3]); 9] = [
    (
        "program",
        "tool.exe",
        ["driver.sys", "embedded.sys", "tool.exe~older"],
    ),
    ("package", "plain.msi", ["unsigned.msi", "other.msi", ""]),
    (
        "package, extended",
        "extended.msi",
        ["unsigned.msi", "", "sha384.msi"],
    ),
    ("cabinet", "signed.cab", ["unsigned.cab", "other.cab", ""]),
    (
        "script",
        "signed.ps1",
        ["unsigned.ps1", "other.ps1", "mark.ps1"],
    ),
    (
        "module of scripts",
        "module.psm1",
        ["unsigned.ps1", "other.ps1", "mark.ps1"],
    ),
    (
        "script in UTF-16",
        "wide.ps1",
        ["unsigned-wide.ps1", "", "mark.ps1"],
    ),
    ("format of scripts", "format.ps1xml", ["", "", "mark.ps1"]),
    (
        "catalog itself",
        "signed.cat",
        ["unsigned.cat", "other.cat", ""],
    ),
];

pub fn goods() -> Vec<Good> {
    let inside = KINDS.map(|(kind, name, _)| Good {
        kind,
        judge: Judge::Rule(Box::new(rule("root.pem")), SystemTime::now()),
        served: Served {
            name: name.into(),
            file: read(name),
            evidence: SignatureEvidence::default(),
        },
        attacks: vec![renamed, bytes, around, others, within],
    });
    let twice = Good {
        kind: "program, signed twice",
        judge: Judge::Rule(
            Box::new(signed::by(signed::pins())),
            SystemTime::UNIX_EPOCH + Duration::from_secs(signed::NOW),
        ),
        served: Served {
            name: "dual.exe".into(),
            file: fs::read(signed::folder().join("dual.exe")).unwrap(),
            evidence: SignatureEvidence::default(),
        },
        attacks: vec![renamed, bytes, around, within],
    };
    inside.into_iter().chain([twice]).collect()
}

fn read(name: &str) -> Vec<u8> {
    fs::read(fixtures().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn u32_at(file: &[u8], at: usize) -> usize {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize
}

/// What the file's first bytes say.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Program,
    Package,
    Cabinet,
    Script,
    Catalog,
}

fn form(good: &Good) -> Form {
    let (_, ending) = good.served.name.rsplit_once('.').unwrap();
    match ending {
        "exe" => Form::Program,
        "msi" => Form::Package,
        "cab" => Form::Cabinet,
        "cat" => Form::Catalog,
        _ => Form::Script,
    }
}

/// A publisher who signed a package vouched for no program.
fn renamed(good: &Good) -> Vec<Attack> {
    let names = [
        ("kubelet.exe", Form::Program),
        ("driver.sys", Form::Program),
        ("bin/tools/run", Form::Program),
        ("setup.msi", Form::Package),
        ("update.cab", Form::Cabinet),
        ("driver.cat", Form::Catalog),
        ("install.ps1", Form::Script),
    ];
    let own = form(good);
    let others = names.into_iter().filter(|(_, form)| *form != own);
    others
        .map(|(name, form)| {
            let family = match (own, form) {
                // The name says that it is text.
                (_, Form::Script) => &[Unsupported, Malformed][..],
                (Form::Script, _) => &[Unsupported],
                _ => &[OtherName],
            };
            let mut attack = good.file(format!("as {name}"), good.served.file.clone(), family);
            attack.served.name = name.into();
            attack
        })
        .collect()
}

/// Bytes that are signed.
fn covered(good: &Good) -> std::ops::Range<usize> {
    let file = &good.served.file;
    match form(good) {
        Form::Program => 0x200..table(file).1,
        Form::Package => {
            let cabinet = file.windows(4).position(|four| four == b"MSCF").unwrap();
            cabinet + 60..cabinet + 4000
        }
        Form::Cabinet => 60..u32_at(file, 44),
        Form::Script => 2..text_and_block(file).0.len().min(20),
        Form::Catalog => 60..200,
    }
}

fn bytes(good: &Good) -> Vec<Attack> {
    let file = &good.served.file;
    let family = match form(good) {
        // What the bytes of a catalog are is said by others of them.
        Form::Catalog => &[Changed, Malformed][..],
        _ => &[Changed],
    };
    let flips = spread(covered(good), 8).map(|at| {
        good.file(
            format!("another byte at {at:#x}"),
            flipped(file, at),
            family,
        )
    });
    let cuts = [4, 2].map(|part| {
        let left = file[..file.len() - file.len() / part].to_vec();
        // A script may end before its signature then.
        let family = &[Malformed, Missing];
        good.file(format!("cut by its last {part}th"), left, family)
    });
    let last = file[..file.len() - 1].to_vec();
    let last = good.file("without its last byte", last, &[Malformed]);
    flips.chain(cuts).chain([last]).collect()
}

/// Bytes behind the file and before it.
fn around(good: &Good) -> Vec<Attack> {
    let file = &good.served.file;
    let behind = [
        ("a byte", vec![b'A']),
        ("an archive", ZIP.to_vec()),
        ("eight zeros", vec![0; 8]),
        ("a sector of zeros", vec![0; 512]),
        ("itself", file.clone()),
    ];
    let mut attacks: Vec<Attack> = behind
        .into_iter()
        .map(|(what, bytes)| {
            let family = match form(good) {
                // Half a character, or a second block.
                Form::Script => &[Uncovered, Malformed][..],
                _ => &[Uncovered],
            };
            good.file(
                format!("{what} behind it"),
                [file.clone(), bytes].concat(),
                family,
            )
        })
        .collect();
    let before = [ZIP, file].concat();
    let family = match form(good) {
        Form::Script => &[Changed, Unsupported][..],
        _ => &[Unsupported],
    };
    attacks.push(good.file("an archive before it", before, family));
    attacks
}

/// No signature, another publisher's, and another file's.
fn others(good: &Good) -> Vec<Attack> {
    let (_, _, [unsigned, other, moved]) = KINDS.iter().find(|kind| kind.0 == good.kind).unwrap();
    let mut attacks = Vec::new();
    if !unsigned.is_empty() {
        let family = match form(good) {
            Form::Catalog => &[Malformed],
            _ => &[Missing],
        };
        attacks.push(good.file("never signed", read(unsigned), family));
    }
    if !other.is_empty() {
        attacks.push(good.file("signed by another", read(other), &[OtherRoot]));
    }
    let mut donors = vec![*moved];
    if form(good) != Form::Catalog {
        donors.extend([
            "signed.cab",
            "signed.ps1",
            "plain.msi",
            "driver.sys~embedded",
            "signed.cat",
        ]);
    }
    for donor in donors {
        let name = donor.split('~').next().unwrap();
        if donor.is_empty() || donor == good.served.name {
            continue;
        }
        let Some(signature) = signature(donor, name) else {
            continue;
        };
        let file = with(good, &signature);
        let family = match (form(good), donor) {
            // The text of both scripts is one.
            (Form::Script, "signed.ps1") if good.kind == "module of scripts" => continue,
            (_, "signed.cat") => &[Unsupported][..],
            _ => &[Changed],
        };
        attacks.push(good.file(format!("with the signature of {donor}"), file, family));
    }
    attacks
}

fn signature(file: &str, name: &str) -> Option<Vec<u8>> {
    authenticode::read_signature(&fixtures().join(file), name).unwrap()
}

fn within(good: &Good) -> Vec<Attack> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good");
    fs::write(&path, &good.served.file).unwrap();
    let signature = authenticode::read_signature(&path, &good.served.name)
        .unwrap()
        .unwrap();
    let changes = der::changed(&signature).into_iter();
    let mut attacks: Vec<Attack> = changes
        .filter(|(name, ..)| !is_free(good, name))
        .map(|(name, family, der)| good.file(name, with(good, &der), family))
        .collect();
    let behind = [&signature[..], b"PK\x05\x06 and more than eight bytes"].concat();
    attacks.push(good.file(
        "bytes behind its signature",
        with(good, &behind),
        &[Uncovered],
    ));
    attacks
}

/// A change of the first of two signatures, which is too weak to be taken: what it says counts for
/// nothing. And one that makes a package's signature so short that the library that writes it
/// leaves a sector behind.
fn is_free(good: &Good, change: &str) -> bool {
    match good.kind {
        "program, signed twice" => [
            "more certificates than vouch for anybody",
            "no certificates",
            "another content",
            "another signed attribute",
            "another signature value",
            "no signed attributes",
        ]
        .contains(&change),
        "package" | "package, extended" => change == "no certificates",
        _ => false,
    }
}

/// Where the directory names the certificate table, and where that is.
fn table(file: &[u8]) -> (usize, usize) {
    let optional = u32_at(file, 0x3c) + 24;
    let entry = optional + 144;
    (entry, u32_at(file, entry))
}

/// The file with another signature in the place of its own.
fn with(good: &Good, signature: &[u8]) -> Vec<u8> {
    let file = &good.served.file;
    let filled = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    };
    let number = |length: usize| u32::try_from(length).unwrap().to_le_bytes();
    match form(good) {
        Form::Program => {
            let (entry, offset) = table(file);
            let head = number(signature.len() + 8);
            let own = filled(&[&head[..], b"\0\x02\x02\0", signature].concat());
            let mut whole = file[..offset].to_vec();
            whole[entry + 4..entry + 8].copy_from_slice(&number(own.len()));
            [whole, own].concat()
        }
        Form::Cabinet => {
            let own = filled(signature);
            let mut whole = file[..u32_at(file, 44)].to_vec();
            whole[48..52].copy_from_slice(&number(own.len()));
            [whole, own].concat()
        }
        Form::Package => {
            let mut package = cfb::CompoundFile::open(Cursor::new(file.clone())).unwrap();
            let mut stream = package.create_stream("/\u{5}DigitalSignature").unwrap();
            stream.write_all(signature).unwrap();
            drop(stream);
            package.flush().unwrap();
            package.into_inner().into_inner()
        }
        Form::Script => script(file, signature),
        Form::Catalog => signature.to_vec(),
    }
}

/// A script's text, and its block.
fn text_and_block(file: &[u8]) -> (String, String) {
    let (pairs, _) = file.as_chunks::<2>();
    let text = if file.starts_with(&[0xff, 0xfe]) {
        let units: Vec<u16> = pairs.iter().copied().map(u16::from_le_bytes).collect();
        String::from_utf16(&units).unwrap()
    } else {
        String::from_utf8(file.to_vec()).unwrap()
    };
    let mark = text.find("SIG # Begin").unwrap();
    let at = text[..mark].rfind('\n').unwrap() + 1;
    (text[..at].into(), text[at..].into())
}

fn script(file: &[u8], signature: &[u8]) -> Vec<u8> {
    let (mut text, block) = text_and_block(file);
    let lines: Vec<&str> = block.lines().collect();
    let (begin, end) = (lines[0], lines[lines.len() - 1]);
    let is_xml = begin.starts_with("<!--");
    let base64 = BASE64_STANDARD.encode(signature);
    let mut inside: Vec<String> = Vec::new();
    for part in base64.as_bytes().chunks(64) {
        let part = std::str::from_utf8(part).unwrap();
        inside.push(if is_xml {
            format!("<!-- {part} -->")
        } else {
            format!("# {part}")
        });
    }
    text.push_str(&format!("{begin}\r\n{}\r\n{end}\r\n", inside.join("\r\n")));
    if file.starts_with(&[0xff, 0xfe]) {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    } else {
        text.into_bytes()
    }
}
