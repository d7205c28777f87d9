//! Folders of drivers, judged by the catalogs in them: what is taken, and the whole refusal of each
//! that is not.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use winimg_base::digest::Digest;
use winimg_trust::authenticode::{self, judge_package};
use winimg_trust::{FileSubject, SignatureEvidence, SignatureRule};

use crate::containers::{fixtures, rule};
use crate::workshop::words;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// A folder of these files, each called by the first name and with the bytes of the fixture.
fn judged(
    rule: &authenticode::AuthenticodeRule,
    folder: &[(&str, &str)],
    now: SystemTime,
) -> String {
    let at = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..)
        .zip(folder)
        .map(|(number, (name, fixture))| {
            let bytes = fs::read(fixtures().join(fixture)).unwrap();
            // By a number, as a copy of a medium's file is called.
            let path = at.path().join(format!("{number}"));
            fs::write(&path, &bytes).unwrap();
            (path, *name, Digest::sha256_of(&bytes))
        })
        .collect();
    let files: Vec<FileSubject<'_>> = files
        .iter()
        .map(|(path, name, digest)| FileSubject {
            path: Path::new(path),
            name,
            published: name,
            digest,
        })
        .collect();
    match judge_package(rule, &files, &SignatureEvidence::default(), now) {
        Ok(signers) => {
            let signers = signers.iter().map(|s| format!("  by {}\n", s.signer));
            signers.collect()
        }
        Err(refused) => {
            let line = |(number, refusal): &(Option<usize>, _)| {
                let file = number.map_or("the folder", |n| files[n].name);
                format!("  {file}: {}\n", words(refusal))
            };
            refused.iter().map(line).collect()
        }
    }
}

fn asked() -> authenticode::AuthenticodeRule {
    match rule("root.pem") {
        SignatureRule::Authenticode(rule) => rule,
        other => panic!("{other:?}"),
    }
}

const SYS: (&str, &str) = ("driver.sys", "driver.sys");
const INF: (&str, &str) = ("driver.inf", "driver.inf");
const CAT: (&str, &str) = ("driver.cat", "signed.cat");

#[test]
fn a_folder_is_what_its_catalogs_list() {
    let stranger = ("stranger.dll", "stranger.txt");
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("good", &[INF, SYS, CAT]),
        (
            "in capitals",
            &[
                ("DRIVER.INF", "driver.inf"),
                ("Driver.Sys", "driver.sys"),
                ("DRIVER.CAT", "signed.cat"),
            ],
        ),
        (
            "two catalogs, each of a part",
            &[INF, SYS, ("a.cat", "image.cat"), ("b.cat", "text.cat")],
        ),
        (
            "a second catalog that lists nothing here",
            &[INF, SYS, CAT, ("stranger.cat", "stranger.cat")],
        ),
        ("no catalog", &[INF, SYS]),
        ("nothing", &[]),
        ("a file that is not listed", &[INF, SYS, CAT, stranger]),
        (
            "one that neither of two lists",
            &[
                INF,
                SYS,
                ("a.cat", "image.cat"),
                ("b.cat", "text.cat"),
                stranger,
            ],
        ),
        (
            "a changed driver",
            &[INF, ("driver.sys", "driver.sys~byte"), CAT],
        ),
        (
            "a changed driver, and two catalogs",
            &[
                INF,
                ("driver.sys", "driver.sys~byte"),
                ("a.cat", "image.cat"),
                ("b.cat", "text.cat"),
            ],
        ),
        (
            "a changed text",
            &[("driver.inf", "driver.inf~byte"), SYS, CAT],
        ),
        (
            "both",
            &[
                ("driver.inf", "driver.inf~byte"),
                ("driver.sys", "driver.sys~byte"),
                CAT,
            ],
        ),
        (
            "a listed file by another name",
            &[INF, ("other.sys", "driver.sys"), CAT],
        ),
        (
            "the text in place of the driver",
            &[INF, ("driver.sys", "driver.inf"), CAT],
        ),
        (
            "the catalog of another driver",
            &[INF, SYS, ("driver.cat", "stranger.cat")],
        ),
        (
            "by another publisher",
            &[INF, SYS, ("driver.cat", "other.cat")],
        ),
        (
            "another publisher's beside a good one",
            &[INF, SYS, CAT, ("more.cat", "other.cat")],
        ),
        ("not signed", &[INF, SYS, ("driver.cat", "unsigned.cat")]),
        (
            "by SHA-1 members",
            &[INF, SYS, ("driver.cat", "signed-sha1.cat")],
        ),
        ("signed with SHA-1", &[INF, SYS, ("driver.cat", "weak.cat")]),
        (
            "a list that is no catalog",
            &[INF, SYS, ("driver.cat", "signed-list.cat")],
        ),
        (
            "a catalog with a changed member",
            &[INF, SYS, ("driver.cat", "signed.cat~member")],
        ),
        (
            "a catalog with a tail",
            &[INF, SYS, ("driver.cat", "signed.cat~appended")],
        ),
        (
            "a program called a catalog",
            &[INF, SYS, ("driver.cat", "driver.sys")],
        ),
        (
            "without a timestamp",
            &[INF, SYS, ("driver.cat", "unstamped.cat")],
        ),
    ];
    let rendered: String = cases
        .iter()
        .map(|(title, folder)| format!("{title}:\n{}", judged(&asked(), folder, SystemTime::now())))
        .collect();
    insta::assert_snapshot!(made_then_cut(&rendered));
}

/// A timestamp keeps a catalog good when its certificate has expired; without one the clock
/// decides.
#[test]
fn a_catalog_outlives_its_certificate_by_its_timestamp_alone() {
    let later = SystemTime::now() + 9 * YEAR;
    let rule = authenticode::AuthenticodeRule {
        needs_timestamp: false,
        ..asked()
    };
    let by = |catalog| judged(&rule, &[INF, SYS, ("driver.cat", catalog)], later);
    assert_eq!(
        by("signed.cat"),
        judged(&rule, &[INF, SYS, CAT], SystemTime::now())
    );
    insta::assert_snapshot!(made_then_cut(&by("unstamped.cat")));
}

/// The certificates were made when the tests ran first.
fn made_then_cut(text: &str) -> String {
    let date = regex::Regex::new(r"\d{4}-\d\d-\d\dT[\d:.]+Z").unwrap();
    let root = regex::Regex::new("root sha256:[0-9a-f]{64}").unwrap();
    let text = date.replace_all(text, "DATE");
    root.replace_all(&text, "root sha256:…").into_owned()
}
