//! What an attacker does to signed files, as a table: each kind of signature, each attack, and the
//! family of its refusal.
//!
//! The good files are those of the test's own authorities and keys. Every one has to be taken as it
//! is; every attack on it has to be refused for its own reason, not for another that stands in its
//! way.

mod beside;
mod der;
mod inside;
mod others;
mod sums;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;

use winimg_base::digest::Digest;
use winimg_trust::{FileSubject, RefusalReason, SignatureEvidence, SignatureRule};

use crate::render::rewrite;

/// A file and what stands beside it, as an attacker would serve them.
#[derive(Clone)]
pub struct Served {
    pub name: String,
    pub file: Vec<u8>,
    pub evidence: SignatureEvidence,
}

/// Why it was not taken.
pub struct Refused {
    /// `None` for a checksum file, whose problems have none.
    pub reason: Option<RefusalReason>,
    pub fact: String,
}

pub enum Judge {
    Rule(Box<SignatureRule>, SystemTime),
    /// What is no signature of one file.
    Own(fn(&Served) -> Result<(), Refused>),
}

/// A kind of signature, and a file that is well signed by it.
pub struct Good {
    pub kind: &'static str,
    pub judge: Judge,
    pub served: Served,
    /// What is done to it.
    pub attacks: Vec<Generator>,
}

pub type Generator = fn(&Good) -> Vec<Attack>;

/// What an attack has to be refused for.
#[derive(Debug)]
pub enum Family {
    Of(&'static [RefusalReason]),
    /// A part of the fact.
    Says(&'static str),
}

pub struct Attack {
    pub name: String,
    pub served: Served,
    pub family: Family,
}

impl Good {
    /// The same with another file.
    pub fn file(
        &self,
        name: impl Into<String>,
        file: Vec<u8>,
        family: &'static [RefusalReason],
    ) -> Attack {
        let served = Served {
            file,
            ..self.served.clone()
        };
        Attack {
            name: name.into(),
            served,
            family: Family::Of(family),
        }
    }

    /// The same with another signature beside it.
    pub fn signature(
        &self,
        name: impl Into<String>,
        signature: Option<Vec<u8>>,
        family: &'static [RefusalReason],
    ) -> Attack {
        let mut attack = self.file(name, self.served.file.clone(), family);
        attack.served.evidence.signature = signature;
        attack
    }

    fn judged(&self, served: &Served, place: &std::path::Path) -> Result<(), Refused> {
        let (rule, now) = match &self.judge {
            Judge::Own(judge) => return judge(served),
            Judge::Rule(rule, now) => (rule, *now),
        };
        let path = place.join("file");
        rewrite(&path, &served.file);
        let subject = FileSubject {
            path: &path,
            name: &served.name,
            published: &served.name,
            digest: &Digest::sha256_of(&served.file),
        };
        match rule.judge(subject, &served.evidence, now) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(Refused {
                reason: Some(refusal.reason),
                fact: refusal.problem.fact,
            }),
        }
    }
}

impl Family {
    fn holds(&self, refused: &Refused) -> bool {
        match self {
            Self::Of(reasons) => refused.reason.is_some_and(|r| reasons.contains(&r)),
            Self::Says(part) => refused.fact.contains(part),
        }
    }
}

/// Bytes spread over these, never the same twice.
pub fn spread(range: std::ops::Range<usize>, count: usize) -> impl Iterator<Item = usize> {
    let step = (range.len() / (count + 1)).max(1);
    range.skip(step).step_by(step).take(count)
}

pub fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

#[test]
fn every_attack_is_refused_for_its_own_reason() {
    let goods = [inside::goods(), beside::goods(), sums::goods()];
    let place = tempfile::tempdir().unwrap();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = String::new();
    for good in goods.iter().flatten() {
        if let Err(refused) = good.judged(&good.served, place.path()) {
            let _ = writeln!(wrong, "{}: the good one: {}", good.kind, refused.fact);
        }
        for attack in good.attacks.iter().flat_map(|generator| generator(good)) {
            *counts.entry(good.kind).or_default() += 1;
            let (kind, name, family) = (good.kind, &attack.name, &attack.family);
            match good.judged(&attack.served, place.path()) {
                Ok(()) => {
                    let _ = writeln!(wrong, "{kind}: {name}: is taken, expected {family:?}");
                }
                Err(refused) if !family.holds(&refused) => {
                    let Refused { reason, fact } = refused;
                    let _ = writeln!(
                        wrong,
                        "{kind}: {name}: {reason:?}: {fact}; expected {family:?}"
                    );
                }
                Err(_) => {}
            }
        }
    }
    for (kind, count) in &counts {
        println!("{count:4} {kind}");
    }
    let all: usize = counts.values().sum();
    println!("{all:4} attacks on {} kinds", counts.len());
    assert!(wrong.is_empty(), "{wrong}");
    assert!(all >= 400 && counts.len() >= 15, "{counts:?}");
}
