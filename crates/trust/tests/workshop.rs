//! What the tests of key-based signatures share: a folder that a script fills, and a judgement as
//! whole text.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use winimg_base::digest::{Algorithm, Digest};
use winimg_trust::{
    FileSubject, RefusalReason, SignatureEvidence, SignatureRefusal, SignatureResult, SignatureRule,
};

use crate::kept::{self, Kept};

/// A folder full of files and signatures.
pub struct Shop {
    folder: Kept,
}

/// What `crates/trust/tests/SCRIPT` makes.
pub fn shop(cell: &'static OnceLock<Shop>, script: &str) -> &'static Shop {
    cell.get_or_init(|| Shop {
        folder: kept::folder(script),
    })
}

impl Shop {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name))
            .unwrap()
            .trim()
            .to_string()
    }

    /// Judges a file of the folder by a signature of the folder.
    pub fn judge(
        &self,
        rule: &SignatureRule,
        file: &str,
        signature: &str,
        now: SystemTime,
    ) -> SignatureResult {
        self.judge_by(rule, file, Some(self.bytes(signature)), now)
    }

    pub fn judge_by(
        &self,
        rule: &SignatureRule,
        file: &str,
        signature: Option<Vec<u8>>,
        now: SystemTime,
    ) -> SignatureResult {
        self.judge_as(rule, file, &self.digest(file), signature, now)
    }

    /// What no server should send in place of a signature, each with its sentence; `more` are the
    /// scheme's own.
    #[track_caller]
    pub fn refuses_what_is_no_signature(
        &self,
        rule: &SignatureRule,
        now: SystemTime,
        more: &[(&[u8], &str)],
    ) {
        let mut cases = vec![
            (None, (RefusalReason::Missing, IS_MISSING.to_string())),
            (
                Some(&b""[..]),
                (RefusalReason::Malformed, "its file is empty".into()),
            ),
            (Some(PAGE), (RefusalReason::Malformed, IS_PAGE.into())),
        ];
        cases.extend(
            more.iter().map(|(bytes, words)| {
                (Some(*bytes), (RefusalReason::Malformed, words.to_string()))
            }),
        );
        for (signature, expected) in cases {
            let judged = self.judge_by(rule, "app.exe", signature.map(Into::into), now);
            assert_eq!(rendered(judged), expected);
        }
    }

    pub fn digest(&self, file: &str) -> Digest {
        let reader = std::fs::File::open(self.path(file)).unwrap();
        Digest::of_reader(Algorithm::Sha256, reader).unwrap().0
    }

    /// A file whose digest is said to be this one.
    fn judge_as(
        &self,
        rule: &SignatureRule,
        file: &str,
        digest: &Digest,
        signature: Option<Vec<u8>>,
        now: SystemTime,
    ) -> SignatureResult {
        let path = self.path(file);
        let subject = FileSubject {
            path: &path,
            name: file,
            published: file,
            digest,
        };
        let evidence = SignatureEvidence {
            signature,
            ..SignatureEvidence::default()
        };
        rule.judge(subject, &evidence, now)
    }
}

/// Seconds since 1970.
pub fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A refusal as a user would read it, whole.
pub fn rendered(judged: SignatureResult) -> (RefusalReason, String) {
    match judged {
        Ok(signer) => panic!("was taken: {signer:?}"),
        Err(refusal) => (refusal.reason, words(&refusal)),
    }
}

pub fn words(refusal: &SignatureRefusal) -> String {
    let part = |name: &str, value: &Option<String>| value.as_ref().map(|v| format!("{name}: {v}"));
    let parts = [
        Some(refusal.problem.fact.clone()),
        part("expected", &refusal.problem.expected),
        part("found", &refusal.problem.found),
        part("cure", &refusal.problem.cures.first().cloned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" | ")
}

pub const PAGE: &[u8] = b"<!DOCTYPE html>\n<html><title>404 Not Found</title></html>\n";
pub const IS_PAGE: &str =
    "its file is a web page | cure: open the address in a browser to see the page";
const IS_MISSING: &str =
    "there is none | cure: if the signature file is elsewhere, name it with `url`";
pub const IS_ANOTHER: &str =
    "it does not match the file: the file was changed, was cut off, or is a different one";

/// A file that is well signed, and is not the one whose digest was proved.
pub fn notices_a_change(shop: &Shop, rule: &SignatureRule, file: &str, signature: &str) {
    let proved = Digest::sha256_of(b"what was proved");
    let found = shop.digest(file);
    let judged = shop.judge_as(
        rule,
        file,
        &proved,
        Some(shop.bytes(signature)),
        SystemTime::now(),
    );
    let words =
        format!("the file changed while it was verified | expected: {proved} | found: {found}");
    assert_eq!(rendered(judged), (RefusalReason::Changed, words));
}

/// No beginning of a signature is taken, and no byte of it can be another without a refusal, but
/// for those that `free` says are not covered. Nothing of that may panic.
pub fn survives(
    shop: &Shop,
    rule: &SignatureRule,
    file: &str,
    signature: &str,
    free: &[std::ops::Range<usize>],
) {
    let whole = shop.bytes(signature);
    let now = SystemTime::now();
    let judge = |bytes: Vec<u8>| shop.judge_by(rule, file, Some(bytes), now);
    assert!(judge(whole.clone()).is_ok());
    for end in 0..whole.trim_ascii_end().len() {
        let judged = judge(whole[..end].to_vec());
        assert!(judged.is_err(), "{signature} cut at {end}: {judged:?}");
    }
    for at in 0..whole.len() {
        for mask in [0x01, 0x20, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            let judged = judge(bytes);
            let may =
                free.iter().any(|range| range.contains(&at)) || whole[at].is_ascii_whitespace();
            assert!(
                may || judged.is_err(),
                "{signature}, byte {at} ^ {mask}: {judged:?}"
            );
        }
    }
}
