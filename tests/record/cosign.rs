//! cosign and winimg read each other: what one signed with a key the other takes, and refuses by another key, of other
//! bytes, or changed. cosign reaches no network here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use winimg::record::sign::SignOptions;
use winimg::record::writer;
use winimg_base::digest::Digest;
use winimg_base::event::Cancel;
use winimg_trust::{FileSubject, RefusalReason, SignatureEvidence, SignatureResult, cosign};

use crate::record::judges::{must, run};
use crate::record::place::Place;
use crate::record::sample::EPOCH;
use support::{skip, tree};

/// No log, no service that it would ask for its times.
const ALONE: [&str; 3] = ["--yes", "--tlog-upload=false", "--use-signing-config=false"];

fn program() -> Option<PathBuf> {
    let program = tree::root().join("target/tools/bin/cosign");
    if !program.exists() {
        skip::skipped(
            "no target/tools/bin/cosign, which `make cosign` builds where Go is installed",
        );
        return None;
    }
    Some(program)
}

/// A folder with cosign's own key pair and a file, besides the keys that `Place` has.
struct Shop {
    place: Place,
    program: PathBuf,
}

impl Shop {
    fn new() -> Option<Self> {
        let shop = Self {
            program: program()?,
            place: Place::new(),
        };
        assert!(shop.cosign(&["generate-key-pair"]));
        fs::write(shop.place.path("app.exe"), "a program").unwrap();
        fs::write(shop.place.path("other.exe"), "another program").unwrap();
        Some(shop)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let folder = self.place.dir.path();
        command.current_dir(folder).env("HOME", folder);
        command.env("COSIGN_PASSWORD", "");
        for proxy in ["HTTP_PROXY", "HTTPS_PROXY"] {
            command.env(proxy, "http://127.0.0.1:9");
        }
        command
    }

    /// Whether cosign ends well.
    fn cosign(&self, arguments: &[&str]) -> bool {
        let mut command = self.command();
        command.args(arguments);
        let output = run(command);
        // Shown where the test fails.
        println!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    }

    fn signs(&self, arguments: &[&str]) {
        let mut all = vec![arguments[0]];
        all.extend(ALONE);
        all.extend(&arguments[1..]);
        assert!(self.cosign(&all), "{all:?}");
    }

    fn takes(&self, arguments: &[&str]) -> bool {
        let mut all = arguments.to_vec();
        all.insert(1, "--insecure-ignore-tlog");
        self.cosign(&all)
    }

    /// What winimg says of a file by what cosign wrote.
    fn judged(&self, key: &str, file: &str, signature: &str) -> SignatureResult {
        let rule = cosign::CosignRule::new(&self.place.read(key)).unwrap();
        let path = self.place.path(file);
        let subject = FileSubject {
            path: &path,
            name: file,
            published: file,
            digest: &Digest::sha256_of(&fs::read(&path).unwrap()),
        };
        let evidence = SignatureEvidence {
            signature: Some(fs::read(self.place.path(signature)).unwrap()),
            ..SignatureEvidence::default()
        };
        winimg_trust::SignatureRule::Cosign(rule).judge(subject, &evidence, SystemTime::now())
    }
}

#[test]
#[ignore = "builds cosign: make cosign"]
fn cosign_takes_what_winimg_signed_and_nothing_else() {
    let Some(shop) = Shop::new() else { return };
    let place = &shop.place;
    place.records(&["ec.key"]);
    fs::write(place.path("capi-ova.ova"), "the OVA").unwrap();
    let manifest = |key: &str| {
        let words = "verify-blob --signature manifest.json.sig manifest.json --key";
        let mut words: Vec<&str> = words.split(' ').collect();
        words.push(key);
        shop.takes(&words)
    };
    let provenance = |key: &str, kind: &str, file: &str| {
        let words = "verify-blob-attestation --bundle provenance.sigstore.json";
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["--key", key, "--type", kind, file]);
        shop.takes(&words)
    };
    assert!(manifest("ec.pub"));
    assert!(!manifest("other.pub"));
    assert!(provenance("ec.pub", "slsaprovenance1", "capi-ova.ova"));
    assert!(!provenance("other.pub", "slsaprovenance1", "capi-ova.ova"));
    assert!(!provenance("ec.pub", "slsaprovenance1", "app.exe"));
    assert!(!provenance("ec.pub", "spdx", "capi-ova.ova"));

    place.change("provenance.sigstore.json", "\"sig\": \"ME", "\"sig\": \"MF");
    assert!(!provenance("ec.pub", "slsaprovenance1", "capi-ova.ova"));
    place.change("manifest.json", "capi-ova", "capi-oga");
    assert!(!manifest("ec.pub"));
}

/// Both forms of a bundle, and the bare signature, of one file.
fn sign_in_each_form(shop: &Shop, key: &str, file: &str) -> [String; 3] {
    let forms = ["new.json", "old.json", "bare.sig"].map(|form| format!("{file}.{form}"));
    let [new, old, bare] = &forms;
    let before = "--new-bundle-format=false";
    shop.signs(&["sign-blob", "--key", key, "--bundle", new, file]);
    shop.signs(&["sign-blob", "--key", key, before, "--bundle", old, file]);
    shop.signs(&[
        "sign-blob",
        "--key",
        key,
        before,
        "--output-signature",
        bare,
        file,
    ]);
    forms
}

#[test]
#[ignore = "builds cosign: make cosign"]
fn winimg_takes_what_cosign_signed_and_nothing_else() {
    let Some(shop) = Shop::new() else { return };
    let own = sign_in_each_form(&shop, "cosign.key", "app.exe");
    let others = sign_in_each_form(&shop, "cosign.key", "other.exe");
    for (form, of_another) in own.iter().zip(&others) {
        let judged = |key: &str, file: &str, form: &str| shop.judged(key, file, form);
        let refused =
            |key: &str, file: &str, form: &str| judged(key, file, form).expect_err(form).reason;
        let good = judged("cosign.pub", "app.exe", form);
        assert!(good.is_ok(), "{form}: {good:?}");
        let other = refused("other.pub", "app.exe", form);
        assert!(
            [RefusalReason::OtherKey, RefusalReason::Changed].contains(&other),
            "{form}: {other:?}"
        );
        assert_eq!(
            refused("cosign.pub", "other.exe", form),
            RefusalReason::Changed
        );
        assert_eq!(
            refused("cosign.pub", "app.exe", of_another),
            RefusalReason::Changed
        );
        fs::write(shop.place.path("changed"), changed(&shop.place.read(form))).unwrap();
        refused("cosign.pub", "app.exe", "changed");
    }
}

/// A signature with one character of its base64 replaced.
fn changed(good: &str) -> String {
    let at = good.find("ME").unwrap() + 40;
    let with = if good.as_bytes()[at] == b'A' {
        "B"
    } else {
        "A"
    };
    format!("{}{with}{}", &good[..at], &good[at + 1..])
}

#[test]
#[ignore = "builds cosign: make cosign"]
fn winimg_takes_every_kind_of_key_that_cosign_imports() {
    let Some(shop) = Shop::new() else { return };
    let folder = shop.place.dir.path();
    for (name, kind) in [
        ("rsa", "-algorithm RSA -pkeyopt rsa_keygen_bits:3072"),
        ("p384", "-algorithm EC -pkeyopt ec_paramgen_curve:P-384"),
        ("ed25519", "-algorithm ED25519"),
    ] {
        let words = format!("genpkey {kind} -out plain.key");
        must(folder, "openssl", &words.split(' ').collect::<Vec<_>>());
        let import = format!("import-key-pair --yes --key plain.key --output-key-prefix {name}");
        assert!(shop.cosign(&import.split(' ').collect::<Vec<_>>()));
        let (key, public) = (format!("{name}.key"), format!("{name}.pub"));
        for form in sign_in_each_form(&shop, &key, "app.exe") {
            let judged = shop.judged(&public, "app.exe", &form);
            assert!(judged.is_ok(), "{name}, {form}: {judged:?}");
            assert!(
                shop.judged(&public, "other.exe", &form).is_err(),
                "{name}, {form}"
            );
        }
    }
}

/// cosign's own encrypted key signs the records, by itself and as `--sign-command`.
#[test]
#[ignore = "builds cosign: make cosign"]
fn winimg_verifies_records_that_cosign_signed() {
    let Some(shop) = Shop::new() else { return };
    let place = &shop.place;
    place.records(&[]);
    shop.signs(&[
        "sign-blob",
        "--key",
        "cosign.key",
        "--new-bundle-format=false",
        "--output-signature",
        "manifest.json.sig",
        "manifest.json",
    ]);
    shop.signs(&[
        "attest-blob",
        "--key",
        "cosign.key",
        "--statement",
        "provenance.intoto.json",
        "--bundle",
        "provenance.sigstore.json",
    ]);
    let good = "9 of 9 checks passed\n";
    assert_eq!(place.checked("cosign.pub"), good);
    assert_ne!(place.checked("other.pub"), good);

    for file in ["manifest.json.sig", "provenance.sigstore.json"] {
        place.remove(file);
    }
    let signers = place.open_with(SignOptions {
        command: Some(sign_command(&shop.program, place.dir.path())),
        public_key: Some(place.path("cosign.pub")),
        ..SignOptions::default()
    });
    writer::sign_all(
        place.dir.path(),
        &signers.unwrap(),
        EPOCH,
        &Cancel::default(),
    )
    .unwrap();
    assert_eq!(place.checked("cosign.pub"), good);
}

/// As docs/provenance.md has it, with this key.
fn sign_command(program: &Path, folder: &Path) -> String {
    let docs = fs::read_to_string(tree::root().join("docs/provenance.md")).unwrap();
    let line = docs
        .lines()
        .find_map(|l| l.strip_prefix("--sign-command 'cosign "));
    let line = line.unwrap().trim_end_matches('\'');
    let line = line.replace(
        "awskms:///alias/images",
        &format!("{}/cosign.key", folder.display()),
    );
    format!("env COSIGN_PASSWORD= {} {line}", program.display())
}
