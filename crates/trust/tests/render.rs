//! A judgement as one text, and the file that it is about.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use winimg_base::digest::Digest;
use winimg_trust::{FileSubject, SignatureEvidence, SignatureResult, SignatureRule};

/// Judged as of that second, with what was published beside the file.
pub fn judge(
    rule: &SignatureRule,
    file: &Path,
    beside: Option<&Path>,
    now: u64,
) -> SignatureResult {
    let digest = Digest::sha256_of(&fs::read(file).unwrap());
    judge_as(rule, file, beside, &digest, now)
}

/// A file whose digest is said to be this one.
pub fn judge_as(
    rule: &SignatureRule,
    file: &Path,
    beside: Option<&Path>,
    digest: &Digest,
    now: u64,
) -> SignatureResult {
    let name = file.file_name().unwrap().to_str().unwrap();
    let evidence = SignatureEvidence {
        signature: beside.map(|path| fs::read(path).unwrap()),
        ..SignatureEvidence::default()
    };
    let subject = FileSubject {
        path: file,
        name,
        published: name,
        digest,
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
    rule.judge(subject, &evidence, now)
}

/// Another content for a file, thousands of times: ext4 writes one that was truncated first to the
/// disk at once (auto_da_alloc).
pub fn rewrite(file: &Path, content: &[u8]) {
    let mut file = fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(file)
        .unwrap();
    file.write_all(content).unwrap();
    file.set_len(content.len() as u64).unwrap();
}

/// All that a user is told.
pub fn rendered(judged: &SignatureResult) -> String {
    let (head, rest) = match judged {
        Ok(signer) => {
            let mut rest = vec![("pinned by", signer.pinned_by.clone())];
            rest.extend(signer.signed_at.clone().map(|t| ("signed at", t)));
            rest.extend(signer.remarks.iter().map(|r| ("remark", r.clone())));
            (format!("taken: {}", signer.signer), rest)
        }
        Err(refusal) => {
            let parts = [
                ("expected", &refusal.problem.expected),
                ("found", &refusal.problem.found),
                ("cure", &refusal.problem.cures.first().cloned()),
            ];
            let rest = parts.into_iter().filter_map(|(w, t)| Some((w, t.clone()?)));
            (
                format!("refused, {:?}: {}", refusal.reason, refusal.problem.fact),
                rest.collect(),
            )
        }
    };
    rest.into_iter()
        .fold(head, |all, (word, text)| format!("{all}\n  {word}: {text}"))
}
