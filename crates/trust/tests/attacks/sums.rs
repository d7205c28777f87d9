//! Attacks on checksum files, signed in clear or not at all.

use winimg_trust::checksum::{self, WantedChecksum};
use winimg_trust::openpgp as scheme;
use winimg_trust::{RefusalReason, SignatureEvidence};

use super::{Attack, Family, Good, Judge, Refused, Served};
use crate::openpgp;

const A: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const B: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const PATH: &str = "/v1.33.0/bin/windows/amd64/kubelet.exe";

pub fn goods() -> Vec<Good> {
    let of = |kind, judge, file, attack| Good {
        kind,
        judge: Judge::Own(judge),
        served: Served {
            name: "SHA256SUMS".into(),
            file,
            evidence: SignatureEvidence::default(),
        },
        attacks: vec![attack],
    };
    let list = format!("{B}  bin/linux/amd64/kubelet\n{A}  bin/windows/amd64/kubelet.exe\n");
    vec![
        of("checksum file", listed, list.into_bytes(), lines),
        of(
            "checksum file, signed in clear",
            clear,
            openpgp::made().bytes("clear.asc"),
            texts,
        ),
    ]
}

/// Taken: the file is A's.
fn listed(served: &Served) -> Result<(), Refused> {
    match checksum::find(&served.file, WantedChecksum::Path(PATH)) {
        Ok(found) if found.digest.hex() == A && found.also.is_none() => Ok(()),
        Ok(found) => Err(Refused {
            reason: None,
            fact: format!("it has to be {} and {:?} as well", found.digest, found.also),
        }),
        Err(problem) => Err(Refused {
            reason: None,
            fact: problem.fact,
        }),
    }
}

fn lines(good: &Good) -> Vec<Attack> {
    let long = format!("{B}{B}");
    let short = &A[..40];
    let cases = [
        (
            format!("{A}  bin/linux/amd64/kubelet.exe\n{B}  bin/windows/arm64/kubectl.exe\n"),
            "a different folder",
        ),
        (
            format!("{A}  a/kubelet.exe\n{B}  b/kubelet.exe\n"),
            "a different folder",
        ),
        (
            format!("{A}  x/bin/windows/amd64/kubelet.exe\n{B}  y/kubectl.exe\n"),
            "a different folder",
        ),
        (
            format!("{A}  kubelet.exe\n{B}  kubelet.exe\n"),
            "lists two different digests",
        ),
        (
            format!("{A}  kubelet.exe\n{long}  kubelet.exe\n"),
            "as well",
        ),
        (format!("{B}  kubelet.exe\n"), "as well"),
        (
            format!("{A}  kubelet.exe.old\n{B}  old/kubelet\n"),
            "does not list",
        ),
        (format!("{A}  Kubelet.exe\n"), "does not list"),
        (format!("{A}  notkubelet.exe\n{B}  b\n"), "does not list"),
        (format!("{A}\n{B}\n"), "several digests without names"),
        (
            format!("{A}  kubelet.exe\nkubelet.exe is {B} since today\n"),
            "that is not a checksum",
        ),
        (format!("MD5 (kubelet.exe) = {}\n", &A[..32]), "MD5"),
        (format!("{short}  kubelet.exe\n"), "SHA-1"),
        (
            format!("SHA256 (kubelet.exe) = {short}\n"),
            "that is not a checksum",
        ),
        (format!("SHA3-256 (kubelet.exe) = {A}\n"), "SHA3-256"),
        (format!("SHA512/256 (kubelet.exe) = {A}\n"), "SHA512/256"),
        (
            format!("SHA256  {A}  C:\\Users\\builder...\n"),
            "truncated by PowerShell",
        ),
        (format!("{}  kubelet.exe\n", &A[..63]), "63 hex digits"),
        (String::new(), "is empty"),
        ("# nothing\n".into(), "only comments"),
        (format!("<!DOCTYPE html>\n{A}  kubelet.exe\n"), "web page"),
        (format!("{{\"kubelet.exe\": \"{A}\"}}"), "JSON"),
        (
            format!("-----BEGIN PGP SIGNED MESSAGE-----\n\n{A}  kubelet.exe\n"),
            "is clearsigned",
        ),
        (
            format!("untrusted comment: x\n{A}  kubelet.exe\n"),
            "is a signature",
        ),
        (format!("{A}  kubelet.exe\0\n"), "is not text"),
    ];
    cases
        .into_iter()
        .map(|(text, says)| {
            let mut attack = good.file(text.escape_debug().to_string(), text.into_bytes(), &[]);
            attack.family = Family::Says(says);
            attack
        })
        .collect()
}

fn clear(served: &Served) -> Result<(), Refused> {
    match scheme::signed_text(&openpgp::pinned("release"), &served.file, openpgp::now()) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(Refused {
            reason: Some(refusal.reason),
            fact: refusal.problem.fact,
        }),
    }
}

fn texts(good: &Good) -> Vec<Attack> {
    use RefusalReason::{Changed, Malformed, Missing, OtherKey};
    let text = String::from_utf8(good.served.file.clone()).unwrap();
    let body = text.find("\n\n").unwrap() + 2;
    let end = text.find("-----BEGIN PGP SIGNATURE").unwrap();
    let with = |at: usize, more: &str| format!("{}{more}{}", &text[..at], &text[at..]);
    let line = format!("{B}  app.exe\n");
    let cases: Vec<(&str, String, &'static [RefusalReason])> = vec![
        ("a line before the text", with(body, &line), &[Changed]),
        ("a line behind the text", with(end, &line), &[Changed]),
        ("a line before all", with(0, &line), &[Malformed]),
        ("a line behind all", format!("{text}{line}"), &[Malformed]),
        ("another digit", with(body, "0"), &[Changed]),
        ("no signature", text[body..end].into(), &[Missing]),
        (
            "half of the signature",
            text[..end + 100].into(),
            &[Malformed],
        ),
        (
            "no text",
            format!("{}{}", &text[..body], &text[end..]),
            &[Changed, Malformed],
        ),
        ("nothing", String::new(), &[Malformed]),
        (
            "by another key",
            String::from_utf8(openpgp::made().bytes("clearother.asc")).unwrap(),
            &[OtherKey],
        ),
        ("itself twice", format!("{text}{text}"), &[Malformed]),
    ];
    cases
        .into_iter()
        .map(|(name, text, family)| good.file(name, text.into_bytes(), family))
        .collect()
}
