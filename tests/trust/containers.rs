//! Packages, cabinets, scripts and catalogs that the field's own tools made and signed, and what is refused of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use regex::Regex;
use winimg::digest::Digest;
use winimg::trust::authenticode::{Pins, Rule, certificates};
use winimg::trust::{self, Evidence, Judged, Subject};

/// The files of `containers.py`, made once.
fn fixtures() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("containers");
        let _ = fs::remove_dir_all(&folder);
        let script = Path::new(file!()).with_extension("py");
        let script = [env!("CARGO_MANIFEST_DIR").as_ref(), Path::new("")]
            .iter()
            .map(|root| root.join(&script))
            .find(|path| path.exists())
            .expect("containers.py stands beside this file");
        let made = Command::new("python3")
            .arg(script)
            .arg(&folder)
            .output()
            .expect("python3 starts");
        assert!(
            made.status.success(),
            "containers.py: {}{}",
            String::from_utf8_lossy(&made.stdout),
            String::from_utf8_lossy(&made.stderr)
        );
        folder
    })
}

fn rule(root: &str) -> trust::Rule {
    let roots = certificates(&fs::read(fixtures().join(root)).unwrap()).unwrap();
    trust::Rule::Authenticode(Rule {
        pins: Pins {
            roots,
            subject: Some("CN=Example Corp".into()),
            ..Pins::default()
        },
        needs_timestamp: true,
    })
}

fn judge(path: &Path, name: &str, catalog: Option<&[u8]>) -> Judged {
    let digest = Digest::sha256_of(&fs::read(path).unwrap());
    let subject = Subject {
        path,
        name,
        digest: &digest,
    };
    let evidence = Evidence {
        signature: catalog.map(<[u8]>::to_vec),
        ..Evidence::default()
    };
    rule("root.pem").judge(subject, &evidence, SystemTime::now())
}

/// One file's outcome in a line. The name that its publisher calls it ends before `~`.
fn line(name: &str, catalog: Option<&str>) -> String {
    let path = fixtures().join(name);
    let called = name.split('~').next().unwrap();
    let list = catalog.map(|catalog| fs::read(fixtures().join(catalog)).unwrap());
    let outcome = match judge(&path, called, list.as_deref()) {
        Ok(signer) => {
            let mut told = format!("taken: {}", signer.signer);
            for remark in signer.remarks {
                told += &format!("; {remark}");
            }
            told
        }
        Err(refusal) => {
            let mut told = format!("{:?}: {}", refusal.reason, refusal.fact);
            for (word, part) in [
                ("expected ", refusal.expected),
                ("found ", refusal.found),
                ("", refusal.cure),
            ] {
                if let Some(part) = part {
                    told += &format!("; {word}{part}");
                }
            }
            told
        }
    };
    let with = catalog.map_or(String::new(), |catalog| format!(" by {catalog}"));
    format!("{name}{with}: {}\n", settled(&outcome))
}

/// Without what differs from run to run: digests, and offsets that depend on a signature's length.
fn settled(text: &str) -> String {
    let digests = Regex::new("[0-9a-f]{40,}").unwrap();
    let offsets = Regex::new(r"\b[0-9]{3,}\b( bytes|,|;|$)").unwrap();
    let text = digests.replace_all(text, "<digest>");
    offsets.replace_all(&text, "<n>$1").into_owned()
}

fn table(names: &[&str]) -> String {
    names.iter().map(|name| line(name, None)).collect()
}

#[test]
fn packages() {
    let told = table(&[
        "plain.msi",
        "extended.msi",
        "sha384.msi",
        "unsigned.msi",
        "other.msi",
        "sha1.msi",
        "plain.msi~stream",
        "extended.msi~stream",
        // Without MsiDigitalSignatureEx nothing but contents is signed.
        "plain.msi~state",
        "extended.msi~state",
        "plain.msi~time",
        "extended.msi~time",
        "extended.msi~digest",
        "plain.msi~truncated",
        "extended.msi~cut",
        "plain.msi~appended",
        "extended.msi~appended",
        "plain.msi~zeros",
        "plain.msi~free-zero",
        "plain.msi~free",
        "extended.msi~free",
        "plain.msi~unowned",
        "plain.msi~behind",
        "extended.msi~behind",
        "plain.msi~header",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn cabinets() {
    let told = table(&[
        "signed.cab",
        "unsigned.cab",
        "other.cab",
        "signed.cab~stream",
        "signed.cab~header",
        "signed.cab~truncated",
        "signed.cab~cut",
        "signed.cab~appended",
        "signed.cab~behind",
        "signed.cab~zeros",
        "signed.cab~between",
        "signed.cab~reserve",
        "signed.cab~folders",
        "signed.cab~set",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn scripts() {
    let told = table(&[
        "signed.ps1",
        "module.psm1",
        "data.psd1",
        "format.ps1xml",
        "mark.ps1",
        "utf8.ps1",
        "wide.ps1",
        "lf.ps1",
        "signed.ps1~no-end",
        "unsigned.ps1",
        "other.ps1",
        "utf8.ps1xml",
        "signed.ps1~text",
        "signed.ps1~appended",
        "signed.ps1~blank",
        "signed.ps1~lf",
        "signed.ps1~text-lf",
        "signed.ps1~two",
        "signed.ps1~truncated",
        "signed.ps1~stripped",
        "signed.ps1~base64",
        "signed.ps1~code",
        "signed.ps1~headless",
        "signed.ps1~ansi",
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn catalogs() {
    let cases = [
        ("driver.sys", "signed.cat"),
        ("driver.inf", "signed.cat"),
        ("driver.sys", "signed-sha384.cat"),
        ("driver.inf", "signed-sha384.cat"),
        ("driver.sys", "signed-tags.cat"),
        ("driver.inf", "signed-tags.cat"),
        ("driver.sys", "signed-tags-sha1.cat"),
        ("driver.inf", "signed-tags-sha1.cat"),
        ("driver.sys~byte", "signed.cat"),
        ("driver.inf~byte", "signed.cat"),
        ("stranger.txt", "signed.cat"),
        ("driver.sys", "signed-sha1.cat"),
        ("driver.inf", "signed-sha1.cat"),
        ("driver.sys", "signed-kinds.cat"),
        ("driver.inf", "signed-kinds.cat"),
        ("driver.inf", "signed-list.cat"),
        ("driver.inf", "other.cat"),
        ("driver.inf", "unsigned.cat"),
        ("driver.inf", "weak.cat"),
        ("driver.inf", "signed.cat~member"),
        ("driver.inf", "signed.cat~truncated"),
        ("driver.inf", "signed.cat~appended"),
        ("driver.inf", "root.pem"),
    ];
    let told: String = cases
        .iter()
        .map(|(name, catalog)| line(name, Some(catalog)))
        .collect();
    insta::assert_snapshot!(told);
}

/// What no package of wixl has: storages within storages, class identifiers, times, sectors of 4096 bytes, and an
/// allocation table that does not fit the header. osslsigncode says and signs the digests; it cannot write such packages
/// itself, so the signature is put in here.
#[test]
fn storages_within_storages_and_large_packages() {
    let mut told = String::new();
    for (name, version, large) in [
        ("nested", cfb::Version::V3, 0),
        ("large", cfb::Version::V3, 9 << 20),
        ("wide", cfb::Version::V4, 100_000),
    ] {
        for extended in [false, true] {
            let name = format!("{name}-{extended}.msi");
            let package = fixtures().join(&name);
            nested(&package, version, large);
            let signature = signature_of(&package, extended);
            if extended {
                // The refusal of a wrong digest says the right one; osslsigncode has signed its own.
                put(&package, "/\u{5}MsiDigitalSignatureEx", &[0; 32]);
                put(&package, "/\u{5}DigitalSignature", &signature);
                let refusal = judge(&package, &name, None).unwrap_err();
                let names = hex::decode(refusal.found.unwrap()).unwrap();
                put(&package, "/\u{5}MsiDigitalSignatureEx", &names);
            }
            put(&package, "/\u{5}DigitalSignature", &signature);
            told += &line(&name, None);
            put(&package, "/Outer/Inner/x", b"x");
            told += &line(&name, None);
        }
    }
    insta::assert_snapshot!(told);
}

fn nested(path: &Path, version: cfb::Version, large: usize) {
    let _ = fs::remove_file(path);
    let file = fs::File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut package = cfb::CompoundFile::create_with_version(version, file).unwrap();
    for storage in ["/Outer", "/Outer/Inner", "/outes"] {
        package.create_storage(storage).unwrap();
        let class = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, storage.as_bytes());
        package.set_storage_clsid(storage, class).unwrap();
        package.set_state_bits(storage, 0x0102_0304).unwrap();
    }
    for (stream, length) in [
        ("/Ab", 10),
        ("/b", 5000),
        ("/ä𝄞", 70),
        ("/Outer/Inner/x", 0),
        ("/Outer/y", 4096),
        ("/huge", large),
    ] {
        let mut stream = package.create_stream(stream).unwrap();
        stream.write_all(&vec![7; length]).unwrap();
    }
    package.flush().unwrap();
}

/// A stream's new content.
fn put(path: &Path, stream: &str, content: &[u8]) {
    let mut package = cfb::open_rw(path).unwrap();
    let mut stream = package.create_stream(stream).unwrap();
    stream.write_all(content).unwrap();
    drop(stream);
    package.flush().unwrap();
}

/// osslsigncode's signature of a package, which stays as it is.
fn signature_of(package: &Path, extended: bool) -> Vec<u8> {
    let (data, signed) = (fixtures().join("digest.der"), fixtures().join("digest.p7"));
    let _ = (fs::remove_file(&data), fs::remove_file(&signed));
    let run = |command: &mut Command| {
        let done = command.current_dir(fixtures()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    run(Command::new("osslsigncode")
        .args(["extract-data", "-h", "sha256"])
        .args(extended.then_some("-add-msi-dse"))
        .args(["-in".as_ref(), package, "-out".as_ref(), data.as_path()]));
    run(Command::new("osslsigncode")
        .args([
            "sign",
            "-certs",
            "signer.pem",
            "-key",
            "signer.key",
            "-h",
            "sha256",
        ])
        .args(["-TSA-certs", "clock.pem", "-TSA-key", "clock.key"])
        .args([
            "-in".as_ref(),
            data.as_path(),
            "-out".as_ref(),
            signed.as_path(),
        ]));
    fs::read(signed).unwrap()
}

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

/// Judges `count` damaged copies of a file. None may panic, and one that is taken has to say what the good one says.
fn damaged<T: PartialEq>(name: &str, count: usize, says: fn(&[u8]) -> T) {
    let good = fs::read(fixtures().join(name)).unwrap();
    let said = says(&good);
    let path = fixtures().join(format!("mutated-{name}"));
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for turn in 0..count {
        let bytes = mutated(&good, &mut numbers);
        fs::write(&path, &bytes).unwrap();
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&path, name, None)));
        match judged {
            Err(_) => panic!("{name}: damage {turn} panics; it is in {}", path.display()),
            Ok(Err(_)) => refused += 1,
            Ok(Ok(_)) => assert!(
                bytes == good || says(&bytes) == said,
                "{name}: damage {turn} is taken; it is in {}",
                path.display()
            ),
        }
    }
    // Most bytes of a file are signed; if hardly any damage were refused, nothing would have been judged.
    assert!(refused > count / 2, "{name}: {refused} of {count} refused");
}

/// What Windows Installer reads: every stream by its name.
fn streams(bytes: &[u8]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut package = cfb::CompoundFile::open(Cursor::new(bytes)).unwrap();
    let entries: Vec<_> = package.walk().filter(cfb::Entry::is_stream).collect();
    let mut streams = BTreeMap::new();
    for entry in entries {
        let mut content = Vec::new();
        let mut stream = package.open_stream(entry.path()).unwrap();
        stream.read_to_end(&mut content).unwrap();
        if !entry.name().ends_with("DigitalSignature") {
            streams.insert(entry.path().to_path_buf(), content);
        }
    }
    streams
}

#[test]
fn damaged_packages() {
    damaged("extended.msi", 2000, streams);
    // The names are not signed here, only what the streams hold and in which order.
    damaged("plain.msi", 2000, |bytes| {
        streams(bytes)
            .into_values()
            .collect::<std::collections::BTreeSet<_>>()
    });
}

#[test]
fn damaged_cabinets() {
    damaged("signed.cab", 2000, |bytes| {
        let end = u32::from_le_bytes(bytes[44..48].try_into().unwrap()) as usize;
        // The size of the signature may differ.
        [&bytes[..48], &bytes[52..end]].concat()
    });
}

#[test]
fn damaged_scripts() {
    for name in ["signed.ps1", "wide.ps1", "format.ps1xml"] {
        damaged(name, 1000, |bytes| {
            let narrow: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != 0).collect();
            let block = narrow.windows(5).position(|five| five == b"SIG #").unwrap();
            narrow[..block].to_vec()
        });
    }
}

#[test]
fn damaged_catalogs() {
    let good = fs::read(fixtures().join("signed.cat")).unwrap();
    let text = fs::read(fixtures().join("driver.inf")).unwrap();
    let path = fixtures().join("mutated-driver.inf");
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    for turn in 0..1500 {
        fs::write(&path, &text).unwrap();
        let list = mutated(&good, &mut numbers);
        let judged = catch_unwind(|| {
            let _ = judge(&path, "driver.inf", Some(&list));
        });
        assert!(judged.is_ok(), "catalog damage {turn} panics");
        let bytes = mutated(&text, &mut numbers);
        fs::write(&path, &bytes).unwrap();
        let judged = judge(&path, "driver.inf", Some(&good));
        assert!(judged.is_err() || bytes == text, "damage {turn} is taken");
    }
}
