//! Packages, cabinets, scripts and catalogs that the field's own tools made and signed, and what is
//! refused of them.

use support::tree;
pub mod damaged;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use regex::Regex;
use winimg_base::digest::Digest;
use winimg_trust::authenticode::{
    AuthenticodeRule, CertificatePins, FileVersion, PinnedProperties, parse_certificates,
};
use winimg_trust::{self, FileSubject, SignatureEvidence, SignatureResult};

use crate::kept::{self, Kept};

/// The files of `containers.py`.
pub fn fixtures() -> &'static Path {
    static MADE: OnceLock<Kept> = OnceLock::new();
    MADE.get_or_init(|| kept::folder("containers.py")).path()
}

fn script() -> PathBuf {
    let script = Path::new(file!()).with_extension("py");
    tree::root().join(script)
}

/// By that root, for the example's subject, with or without MsiDigitalSignatureEx.
pub fn rule(root: &str) -> winimg_trust::SignatureRule {
    let roots = parse_certificates(&fs::read(fixtures().join(root)).unwrap()).unwrap();
    winimg_trust::SignatureRule::Authenticode(AuthenticodeRule {
        pins: CertificatePins {
            roots,
            subject: Some("CN=Example Corp".into()),
            ..CertificatePins::default()
        },
        needs_timestamp: true,
        needs_extended: false,
        about: PinnedProperties::default(),
    })
}

fn judge(path: &Path, name: &str, catalog: Option<&[u8]>) -> SignatureResult {
    let digest = Digest::sha256_of(&fs::read(path).unwrap());
    let subject = FileSubject {
        path,
        name,
        published: name,
        digest: &digest,
    };
    let evidence = SignatureEvidence {
        signature: catalog.map(<[u8]>::to_vec),
        ..SignatureEvidence::default()
    };
    rule("root.pem").judge(subject, &evidence, SystemTime::now())
}

#[test]
fn packages_whose_streams_are_not_named_by_their_signature_are_refused() {
    let winimg_trust::SignatureRule::Authenticode(loose) = rule("root.pem") else {
        unreachable!("it is one of Authenticode");
    };
    let strict = winimg_trust::SignatureRule::Authenticode(AuthenticodeRule {
        needs_extended: true,
        ..loose
    });
    let judged = |name: &str| {
        let path = fixtures().join(name);
        let digest = Digest::sha256_of(&fs::read(&path).unwrap());
        let subject = FileSubject {
            path: &path,
            name,
            published: name,
            digest: &digest,
        };
        strict.judge(subject, &SignatureEvidence::default(), SystemTime::now())
    };
    assert_eq!(judged("extended.msi").unwrap().remarks, [""; 0]);
    let refusal = judged("plain.msi").unwrap_err();
    assert_eq!(refusal.reason, winimg_trust::RefusalReason::Uncovered);
    assert_eq!(
        refusal.problem.fact,
        "the names and bounds of the package's streams are not signed, only their contents"
    );
}

/// One fixture's outcome in a line.
fn line(name: &str, catalog: Option<&str>) -> String {
    outcome(&fixtures().join(name), catalog)
}

/// One file's outcome in a line. The name that its publisher calls it ends before `~`.
fn outcome(path: &Path, catalog: Option<&str>) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    let called = name.split('~').next().unwrap();
    let list = catalog.map(|catalog| fs::read(fixtures().join(catalog)).unwrap());
    let outcome = match judge(path, called, list.as_deref()) {
        Ok(signer) => {
            let mut rendered = format!("taken: {}", signer.signer);
            for remark in signer.remarks {
                rendered += &format!("; {remark}");
            }
            rendered
        }
        Err(refusal) => {
            let mut rendered = format!("{:?}: {}", refusal.reason, refusal.problem.fact);
            for (word, part) in [
                ("expected ", refusal.problem.expected),
                ("found ", refusal.problem.found),
                ("", refusal.problem.cures.into_iter().next()),
            ] {
                if let Some(part) = part {
                    rendered += &format!("; {word}{part}");
                }
            }
            rendered
        }
    };
    let with = catalog.map_or(String::new(), |catalog| format!(" by {catalog}"));
    format!("{name}{with}: {}\n", settled(&outcome))
}

/// Without what differs from run to run: digests, and offsets that depend on a signature's length.
fn settled(text: &str) -> String {
    let digests = Regex::new("[0-9a-f]{40,}").unwrap();
    let offsets =
        Regex::new(r"(^| )(?:0x[0-9a-f]+|[0-9]{3,}( bytes|,|;|$)|[0-9]+( from))").unwrap();
    let text = digests.replace_all(text, "<digest>");
    offsets.replace_all(&text, "$1<n>$2$3").into_owned()
}

fn table(names: &[&str]) -> String {
    names.iter().map(|name| line(name, None)).collect()
}

#[test]
fn packages() {
    let rendered = table(&[
        "plain.msi",
        "extended.msi",
        "sha384.msi",
        "dual.msi",
        "dual-other.msi",
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
        // This makes a package without it.
        "extended.msi~renamed",
        "plain.msi~truncated",
        "extended.msi~cut",
        "plain.msi~appended",
        "extended.msi~appended",
        "plain.msi~zeros",
        "plain.msi~free-zero",
        "plain.msi~free",
        "extended.msi~free",
        "plain.msi~unowned",
        "plain.msi~small",
        "extended.msi~small",
        "plain.msi~orphan",
        "plain.msi~entry",
        "plain.msi~table",
        "plain.msi~shared",
        "plain.msi~miscounted",
        "plain.msi~behind-name",
        "extended.msi~behind-name",
        "extended.msi~behind-stream",
        "extended.msi~many-small",
        "plain.msi~behind",
        "extended.msi~behind",
        "plain.msi~header",
    ]);
    insta::assert_snapshot!(rendered);
}

#[test]
fn cabinets() {
    let rendered = table(&[
        "signed.cab",
        "dual.cab",
        "sha1.cab",
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
    insta::assert_snapshot!(rendered);
}

#[test]
fn scripts() {
    let rendered = table(&[
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
    insta::assert_snapshot!(rendered);
}

#[test]
fn catalogs() {
    let cases = [
        ("driver.sys", "signed.cat"),
        ("driver.inf", "signed.cat"),
        // Under another name than the catalog has.
        ("embedded.sys", "signed.cat"),
        ("driver.sys~embedded", "signed.cat"),
        ("driver.sys~appended", "signed.cat"),
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
    let rendered: String = cases
        .iter()
        .map(|(name, catalog)| line(name, Some(catalog)))
        .collect();
    insta::assert_snapshot!(rendered);
}

/// Well signed by the right publisher all of them, and only one is the tool.
#[test]
fn what_a_file_says_of_itself() {
    let ask = |about: PinnedProperties| {
        let winimg_trust::SignatureRule::Authenticode(plain) = rule("root.pem") else {
            unreachable!("it is one of Authenticode");
        };
        winimg_trust::SignatureRule::Authenticode(AuthenticodeRule { about, ..plain })
    };
    let text = |text: &str| Some(text.to_string());
    let tool = PinnedProperties {
        product: text("Example Tool"),
        original_filename: text("TOOL.EXE"),
        min_version: FileVersion::parse("2.3"),
    };
    let package = PinnedProperties {
        product: text("Example"),
        original_filename: None,
        min_version: FileVersion::parse("1.0.0"),
    };
    let newer = PinnedProperties {
        min_version: FileVersion::parse("1.0.1"),
        ..package.clone()
    };
    let named = PinnedProperties {
        original_filename: text("a.msi"),
        ..package.clone()
    };
    let mut rendered = String::new();
    for (name, about) in [
        ("tool.exe", &tool),
        ("tool.exe~older", &tool),
        ("tool.exe~other", &tool),
        ("tool.exe~called", &tool),
        ("tool.exe~twice", &tool),
        ("tool.exe~silent", &tool),
        ("extended.msi", &package),
        ("extended.msi", &newer),
        ("extended.msi", &named),
        ("extended.msi", &tool),
        ("signed.cab", &tool),
        ("signed.ps1", &tool),
    ] {
        let path = fixtures().join(name);
        let digest = Digest::sha256_of(&fs::read(&path).unwrap());
        let called = name.split('~').next().unwrap();
        let subject = FileSubject {
            path: &path,
            name: called,
            published: called,
            digest: &digest,
        };
        let now = SystemTime::now();
        let judged = ask(about.clone()).judge(subject, &SignatureEvidence::default(), now);
        rendered += &format!("{name}: {}\n", settled(&crate::render::rendered(&judged)));
    }
    let times = Regex::new("20[0-9T:-]+Z").unwrap();
    let rendered = times.replace_all(&rendered, "<time>");
    insta::assert_snapshot!(rendered);
}

/// What no package of wixl has: storages within storages, class identifiers, times, sectors of 4096
/// bytes, and an allocation table that does not fit the header. osslsigncode says and signs the
/// digests; it cannot write such packages itself, so the signature is put in here.
#[test]
fn storages_within_storages_and_large_packages() {
    let place = tree::folder();
    let mut rendered = String::new();
    for (name, version, large) in [
        ("nested", cfb::Version::V3, 0),
        ("large", cfb::Version::V3, 9 << 20),
        ("wide", cfb::Version::V4, 100_000),
    ] {
        for extended in [false, true] {
            let package = place.path().join(format!("{name}-{extended}.msi"));
            nested(&package, version, large);
            let (signature, metadata) = signed(&package, extended);
            if extended {
                put(&package, "/\u{5}MsiDigitalSignatureEx", &metadata);
            }
            put(&package, "/\u{5}DigitalSignature", &signature);
            rendered += &outcome(&package, None);
            put(&package, "/Outer/Inner/x", b"x");
            rendered += &outcome(&package, None);
        }
    }
    insta::assert_snapshot!(rendered);
}

fn nested(path: &Path, version: cfb::Version, large: usize) {
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

/// The streams that osslsigncode puts into a copy of a package, whose directory it breaks.
fn signed(package: &Path, extended: bool) -> (Vec<u8>, Vec<u8>) {
    let copy = package.with_file_name("copy.msi");
    let _ = fs::remove_file(&copy);
    let run = |command: &mut Command| {
        let done = command.current_dir(fixtures()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        done.stdout
    };
    run(Command::new("osslsigncode")
        .args(["sign", "-certs", "signer.pem", "-key", "signer.key"])
        .args(["-TSA-certs", "clock.pem", "-TSA-key", "clock.key"])
        .args(["-h", "sha256"])
        .args(extended.then_some("-add-msi-dse"))
        .args(["-in".as_ref(), package, "-out".as_ref(), copy.as_path()]));
    let stream = |name: &str| {
        run(Command::new("python3")
            .args([&script(), Path::new("--stream"), &copy])
            .arg(name))
    };
    let metadata = if extended {
        stream("\u{5}MsiDigitalSignatureEx")
    } else {
        Vec::new()
    };
    (stream("\u{5}DigitalSignature"), metadata)
}
