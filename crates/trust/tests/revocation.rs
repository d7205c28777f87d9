//! Certificates that their issuers revoked, by lists that openssl makes, and those that winimg
//! lists as misused.

use std::fs;
use std::path::Path;
use std::process::Command;

use winimg_base::digest::Digest;
use winimg_trust::authenticode::CertificatePins;
use winimg_trust::{
    FileSubject, RevocationLists, SignatureEvidence, SignatureResult, SignatureRule, misused,
};

use crate::render::rendered;
use crate::signed::{NOW, by, detached, folder, pins, unstamped, without_digests};
use crate::workshop::at;

/// A list to be made.
#[derive(Clone, Copy)]
struct Made<'a> {
    /// The certificate of its issuer, and whose key signs.
    issuer: &'a str,
    key: &'a str,
    /// A certificate, when it was revoked, and why.
    revoked: Option<(&'a str, &'a str, &'a str)>,
    from: &'a str,
    until: &'a str,
    extensions: &'a str,
}

const CA: Made<'_> = Made {
    issuer: "ca",
    key: "ca",
    revoked: None,
    from: "20261115000000Z",
    until: "20261201000000Z",
    extensions: "authorityKeyIdentifier = keyid",
};
const ROOT: Made<'_> = Made {
    issuer: "root",
    key: "root",
    ..CA
};
const TSA: Made<'_> = Made {
    issuer: "tsa-root",
    key: "tsa-root",
    ..CA
};

fn run(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Made<'_> {
    /// PEM.
    fn list(&self) -> Vec<u8> {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let own = |name: &str| folder().join(name);
        let mut index = String::new();
        if let Some((certificate, when, why)) = self.revoked {
            let certificate = own(&format!("{certificate}.pem"));
            let serial = run(
                "openssl",
                &["x509", "-in", text(&certificate), "-noout", "-serial"],
            );
            let serial = serial.trim().strip_prefix("serial=").unwrap();
            index = format!("R\t450101000000Z\t{when},{why}\t{serial}\tunknown\t/CN=x\n");
        }
        fs::write(path("index"), index).unwrap();
        let config = format!(
            "[ca]\ndefault_ca = here\n[here]\ndatabase = {}\ndefault_md = sha256\ncrl_extensions = more\n[more]\n{}\n",
            text(&path("index")),
            self.extensions
        );
        fs::write(path("ca.cnf"), config).unwrap();
        let (config, out) = (path("ca.cnf"), path("list.pem"));
        let (cert, key) = (
            own(&format!("{}.pem", self.issuer)),
            own(&format!("{}.key", self.key)),
        );
        let mut arguments = vec![
            "ca",
            "-gencrl",
            "-config",
            text(&config),
            "-out",
            text(&out),
        ];
        arguments.extend(["-cert", text(&cert), "-keyfile", text(&key)]);
        arguments.extend(["-crl_lastupdate", self.from, "-crl_nextupdate", self.until]);
        run("openssl", &arguments);
        fs::read(out).unwrap()
    }

    fn der(&self) -> Vec<u8> {
        let place = tempfile::tempdir().unwrap();
        let (pem, der) = (place.path().join("pem"), place.path().join("der"));
        fs::write(&pem, self.list()).unwrap();
        run(
            "openssl",
            &[
                "crl",
                "-in",
                text(&pem),
                "-outform",
                "DER",
                "-out",
                text(&der),
            ],
        );
        fs::read(der).unwrap()
    }
}

fn judge(rule: &SignatureRule, file: &Path, evidence: &SignatureEvidence) -> SignatureResult {
    let digest = Digest::sha256_of(&fs::read(file).unwrap());
    let subject = FileSubject {
        path: file,
        name: "app.exe",
        published: "app.exe",
        digest: &digest,
    };
    rule.judge(subject, evidence, at(NOW))
}

fn asking() -> CertificatePins {
    CertificatePins {
        needs_lists: true,
        ..pins()
    }
}

fn by_lists(
    rule: &SignatureRule,
    file: &str,
    lists: Vec<Vec<u8>>,
    are_locked: bool,
) -> SignatureResult {
    let evidence = SignatureEvidence {
        lists: Some(RevocationLists { lists, are_locked }),
        ..SignatureEvidence::default()
    };
    judge(rule, &folder().join(file), &evidence)
}

/// Each case by what it is called: with these lists in place of the three that hold.
fn table(cases: &[(&str, &[Made<'_>])]) -> String {
    let lines = cases.iter().map(|(case, lists)| {
        let lists = lists.iter().map(Made::list).collect();
        let judged = by_lists(&by(asking()), "good.exe", lists, false);
        format!("{case}: {}", rendered(&judged))
    });
    without_digests(&lines.collect::<Vec<_>>().join("\n"))
}

fn leaf<'a>(when: &'a str, why: &'a str) -> Made<'a> {
    Made {
        revoked: Some(("leaf", when, why)),
        ..CA
    }
}

#[test]
fn a_chain_that_nobody_revoked_is_taken_and_one_that_was_given_up_after_the_timestamp() {
    let superseded = leaf("260601000000Z", "superseded");
    let others = Made {
        revoked: Some(("p256", "250601000000Z", "keyCompromise")),
        ..CA
    };
    insta::assert_snapshot!(table(&[
        ("nobody", &[CA, ROOT, TSA]),
        ("another certificate", &[others, ROOT, TSA]),
        ("superseded after the timestamp", &[superseded, ROOT, TSA]),
    ]));
}

#[test]
fn what_is_revoked_is_refused() {
    let ca = Made {
        revoked: Some(("ca", "260601000000Z", "CACompromise")),
        ..ROOT
    };
    let tsa = Made {
        revoked: Some(("tsa", "260601000000Z", "keyCompromise")),
        ..TSA
    };
    insta::assert_snapshot!(table(&[
        (
            "before the timestamp",
            &[leaf("251201000000Z", "superseded"), ROOT, TSA]
        ),
        (
            "the key was another's",
            &[leaf("260601000000Z", "keyCompromise"), ROOT, TSA]
        ),
        (
            "no reason",
            &[leaf("260601000000Z", "unspecified"), ROOT, TSA]
        ),
        (
            "on hold",
            &[leaf("260601000000Z", "certificateHold"), ROOT, TSA]
        ),
        ("its authority", &[CA, ca, TSA]),
        ("the timestamp's authority", &[CA, ROOT, tsa]),
    ]));
    let rule = unstamped(asking());
    let superseded = leaf("260601000000Z", "superseded").list();
    let judged = by_lists(&rule, "unstamped.exe", vec![superseded, ROOT.list()], false);
    insta::assert_snapshot!("without_a_timestamp", without_digests(&rendered(&judged)));
}

#[test]
fn lists_that_say_nothing_of_the_chain_are_refused() {
    let with = |extensions| Made { extensions, ..CA };
    let delta = with("2.5.29.27 = critical, DER:020101");
    let indirect = with("issuingDistributionPoint = critical, @point\n[point]\nindirectCRL = TRUE");
    let some = with(
        "issuingDistributionPoint = critical, @point\n[point]\nonlysomereasons = keyCompromise",
    );
    let authorities = with("issuingDistributionPoint = critical, @point\n[point]\nonlyCA = TRUE");
    let elsewhere = with(
        "issuingDistributionPoint = critical, @point\n[point]\nfullname = URI:http://example.com/other.crl",
    );
    let unknown = with("1.2.3.4 = critical, DER:0500");
    let forged = Made {
        key: "same-name",
        issuer: "same-name",
        ..CA
    };
    let ended = Made {
        until: "20261116000000Z",
        ..CA
    };
    let early = Made {
        from: "20261130000000Z",
        ..CA
    };
    insta::assert_snapshot!(table(&[
        ("none", &[]),
        ("none of the authority", &[CA, TSA]),
        ("none of the timestamp", &[CA, ROOT]),
        ("another's key under the same name", &[CA, forged, TSA]),
        ("of authorities alone", &[authorities, ROOT, TSA]),
        ("of another place", &[elsewhere, ROOT, TSA]),
        ("of changes alone", &[delta, ROOT, TSA]),
        ("indirect", &[indirect, ROOT, TSA]),
        ("of some reasons", &[some, ROOT, TSA]),
        ("with something critical", &[unknown, ROOT, TSA]),
        ("ended", &[ended, ROOT, TSA]),
        ("of the future", &[early, ROOT, TSA]),
    ]));
    // A list by another key of the same name does not hinder the right one.
    let lists = vec![CA.list(), forged.list(), ROOT.list(), TSA.list()];
    assert!(by_lists(&by(asking()), "good.exe", lists, false).is_ok());
    // What a lock names was judged when it was locked.
    let lists = vec![ended.list(), ROOT.list(), TSA.list()];
    assert!(by_lists(&by(asking()), "good.exe", lists, true).is_ok());
}

#[test]
fn no_change_to_a_list_is_taken_and_none_panics() {
    let list = leaf("251201000000Z", "keyCompromise").der();
    let (root, tsa) = (ROOT.der(), TSA.der());
    let rule = by(asking());
    let judged = |list: Vec<u8>| {
        by_lists(
            &rule,
            "good.exe",
            vec![list, root.clone(), tsa.clone()],
            false,
        )
    };
    assert!(judged(CA.der()).is_ok());
    for at in 0..list.len() {
        let mut flipped = list.clone();
        flipped[at] ^= 0x01;
        assert!(judged(flipped).is_err(), "byte {at}");
        assert!(judged(list[..at].to_vec()).is_err(), "cut at {at}");
    }
    let longer = [list.as_slice(), b"more"].concat();
    assert!(judged(longer).is_err());
}

#[test]
fn a_certificate_that_was_stolen_is_refused_unless_the_recipe_accepts_it() {
    let row = misused::LIST[0];
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let (key, root) = (path("key"), path("root.pem"));
    let issuer = format!("/CN={}", row.issuer);
    run(
        "openssl",
        &["genpkey", "-algorithm", "RSA", "-out", text(&key)],
    );
    let mut own = vec!["req", "-x509", "-new", "-key", text(&key), "-subj", &issuer];
    own.extend(["-days", "9000", "-out", text(&root)]);
    run("openssl", &own);
    let (request, leaf) = (path("leaf.csr"), path("leaf.pem"));
    let subject = [
        "req",
        "-new",
        "-key",
        text(&key),
        "-subj",
        "/CN=Example Corp",
        "-out",
        text(&request),
    ];
    run("openssl", &subject);
    let serial = format!("0x{}", row.serial);
    let mut sign = vec![
        "x509",
        "-req",
        "-in",
        text(&request),
        "-CA",
        text(&root),
        "-CAkey",
        text(&key),
    ];
    let extensions = path("leaf.ext");
    fs::write(&extensions, "basicConstraints = critical, CA:FALSE\n").unwrap();
    sign.extend([
        "-set_serial",
        &serial,
        "-days",
        "9000",
        "-extfile",
        text(&extensions),
    ]);
    sign.extend(["-out", text(&leaf)]);
    run("openssl", &sign);
    let (file, beside) = (path("file"), path("file.p7s"));
    fs::write(&file, "a driver\n").unwrap();
    let mut cms = vec![
        "cms",
        "-sign",
        "-binary",
        "-in",
        text(&file),
        "-signer",
        text(&leaf),
    ];
    cms.extend([
        "-inkey",
        text(&key),
        "-outform",
        "DER",
        "-out",
        text(&beside),
    ]);
    run("openssl", &cms);

    let roots = winimg_trust::authenticode::parse_certificates(&fs::read(&root).unwrap()).unwrap();
    let accepting = |accepted: &[&str]| {
        detached(CertificatePins {
            roots: roots.clone(),
            subject: Some("CN=Example Corp".into()),
            accepted: accepted.iter().map(|s| s.to_string()).collect(),
            ..CertificatePins::default()
        })
    };
    let evidence = SignatureEvidence {
        signature: Some(fs::read(&beside).unwrap()),
        ..SignatureEvidence::default()
    };
    let refused = judge_now(&accepting(&[]), &file, &evidence);
    insta::assert_snapshot!(rendered(&refused));
    assert!(judge_now(&accepting(&[misused::LIST[1].serial]), &file, &evidence).is_err());
    assert!(judge_now(&accepting(&[row.serial]), &file, &evidence).is_ok());
}

/// At the present, in which the certificates were made.
fn judge_now(rule: &SignatureRule, file: &Path, evidence: &SignatureEvidence) -> SignatureResult {
    let digest = Digest::sha256_of(&fs::read(file).unwrap());
    let subject = FileSubject {
        path: file,
        name: "file",
        published: "file",
        digest: &digest,
    };
    rule.judge(subject, evidence, std::time::SystemTime::now())
}

#[test]
fn every_row_of_the_list_has_a_number_a_source_and_a_line_in_the_docs() {
    let docs = include_str!("../../../docs/revocation.md");
    for row in misused::LIST {
        let is_hex = row.serial.bytes().all(|b| b"0123456789abcdef".contains(&b));
        assert!(is_hex && row.serial.len() % 2 == 0, "{row:?}");
        let (repository, file) = row.source.split_once(' ').expect("a source");
        let line = format!(
            "| `{}` | {} | {} | [{file}](https://{repository}/blob/master/{file}) |",
            row.serial, row.issuer, row.why
        );
        assert!(docs.contains(&line), "{line}");
    }
}
