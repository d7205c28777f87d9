//! Damaged evidence: never a panic, and never taken where a byte that is signed is another.

use super::*;

/// xorshift: the same damage in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// `DAMAGE=20 cargo test …` damages twenty times as much.
fn longer() -> usize {
    let asked = std::env::var("DAMAGE").ok();
    asked.map_or(1, |n| n.parse().expect("DAMAGE is a number"))
}

/// Flips, cuts, doubles, swaps and overwrites bytes.
fn damaged(good: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=dice.roll(3) {
        if bytes.is_empty() {
            break;
        }
        let at = dice.roll(bytes.len());
        let span = (1 + dice.roll(40)).min(bytes.len() - at);
        match dice.roll(6) {
            0 => bytes[at] ^= 1 << dice.roll(8),
            1 => bytes[at] = b"09AZaz\"{}[],:=/\\ \x00\xff-"[dice.roll(20)],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + span)),
            4 => {
                let piece = bytes[at..at + span].to_vec();
                let to = dice.roll(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => {
                let to = dice.roll(bytes.len());
                bytes.swap(at, to);
            }
        }
    }
    bytes
}

/// A refusal has something to say, in one line each.
fn speaks(judged: &SignatureResult) {
    if let Err(refusal) = judged {
        assert!(!refusal.problem.fact.is_empty());
        let texts = [
            Some(&refusal.problem.fact),
            refusal.problem.expected.as_ref(),
            refusal.problem.found.as_ref(),
        ];
        for text in texts.into_iter().flatten() {
            assert!(!text.contains(char::is_control), "{text:?}");
            assert!(text.len() < 4000, "{text}");
        }
    }
}

/// Judges thousands of damaged copies. What is still taken has to say the same of the same file.
fn survives(
    rule: &winimg_trust::SignatureRule,
    file: &str,
    good: &[u8],
    seed: u64,
    evidence: impl Fn(Vec<u8>) -> SignatureEvidence,
) {
    let whole = judge(rule, file, &evidence(good.to_vec()));
    let good_signer = whole.unwrap_or_else(|_| panic!("{file} is met"));
    let mut dice = Dice(seed);
    let mut refused = 0;
    for _ in 0..3000 * longer() {
        let bytes = damaged(good, &mut dice);
        let judged = judge(rule, file, &evidence(bytes.clone()));
        speaks(&judged);
        match judged {
            Err(_) => refused += 1,
            // A field that nothing reads, or one of two timestamps.
            Ok(mut signer) => {
                assert!(signer.signed_at >= good_signer.signed_at);
                signer.signed_at = good_signer.signed_at.clone();
                assert_eq!(signer, good_signer, "{}", String::from_utf8_lossy(&bytes));
            }
        }
    }
    assert!(refused > 2000 * longer(), "{refused} are refused");
}

#[test]
fn damaged_bundles_are_judged() {
    let bundle = |bytes: Vec<u8>| signed_by(&bytes);
    let rule = own(IDENTITY, GITHUB, None);
    survives(
        &rule,
        "own/tool.exe",
        &read("own/good.sigstore.json"),
        1,
        bundle,
    );
    let rule = own(IDENTITY, GITHUB, Some(SLSA));
    survives(
        &rule,
        "own/tool.exe",
        &read("own/provenance.sigstore.json"),
        2,
        bundle,
    );
    let rule = public(
        "w.vollprecht@gmail.com",
        "https://github.com/login/oauth",
        None,
    );
    survives(
        &rule,
        "real/cosign-v3-blob.txt",
        &read("real/cosign-v3-blob.sigstore.json"),
        3,
        bundle,
    );
}

/// Every text in a JSON value.
fn texts<'a>(value: &'a mut Value, found: &mut Vec<&'a mut String>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => values.iter_mut().for_each(|v| texts(v, found)),
        Value::Object(fields) => fields.values_mut().for_each(|v| texts(v, found)),
        _ => {}
    }
}

/// Damage below JSON and base64: in certificates, signatures, timestamps, statements, log entries
/// and checkpoints.
fn damaged_within(good: &Value, dice: &mut Dice) -> Vec<u8> {
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    let mut value = good.clone();
    let mut found = Vec::new();
    texts(&mut value, &mut found);
    let at = dice.roll(found.len());
    let text = &mut *found[at];
    *text = match engine.decode(&*text) {
        Ok(bytes) => {
            let bytes = damaged(&bytes, dice);
            // Base64 in base64: certificates in a log entry.
            match serde_json::from_slice::<Value>(&bytes) {
                Ok(inner) if inner.is_object() && dice.roll(2) == 0 => {
                    engine.encode(damaged_within(&inner, dice))
                }
                _ => engine.encode(bytes),
            }
        }
        Err(_) => String::from_utf8_lossy(&damaged(text.as_bytes(), dice)).into_owned(),
    };
    serde_json::to_vec(&value).unwrap()
}

#[test]
fn damage_below_the_encodings_is_judged() {
    let own_rule = own(IDENTITY, GITHUB, None);
    let attested = own(IDENTITY, GITHUB, Some(SLSA));
    let conda = "https://schemas.conda.org/attestations-publish-1.schema.json";
    let stamped = staging("jku@goto.fi", "https://github.com/login/oauth", Some(conda));
    let package = "real/signed-package-2.1.0-hb0f4dca_0.conda";
    let root = read("own/trusted_root.json");
    let good = signed_by(&read("own/good.sigstore.json"));
    let parts = SignatureEvidence {
        signature: Some(read("own/tool.exe.sig")),
        certificate: Some(read("own/tool.exe.cert")),
        ..SignatureEvidence::default()
    };
    let json = |name: &str| serde_json::from_slice::<Value>(&read(name)).unwrap();
    let bundles = [
        (&own_rule, "own/tool.exe", json("own/good.sigstore.json")),
        (
            &attested,
            "own/tool.exe",
            json("own/provenance.sigstore.json"),
        ),
        (
            &stamped,
            package,
            json("real/conda-attestation-rekor2.sigstore.json"),
        ),
    ];
    let (entries, root) = (
        json("own/entries.json"),
        serde_json::from_slice(&root).unwrap(),
    );
    let mut dice = Dice(8);
    for _ in 0..1000 * longer() {
        for (rule, file, good) in &bundles {
            let bytes = damaged_within(good, &mut dice);
            speaks(&judge(rule, file, &signed_by(&bytes)));
        }
        let log_entry = Some(damaged_within(&entries, &mut dice));
        speaks(&judge(
            &own_rule,
            "own/tool.exe",
            &SignatureEvidence {
                log_entry,
                ..parts.clone()
            },
        ));
        let bytes = damaged_within(&root, &mut dice);
        if let Ok(rule) = sigstore::SigstoreRule::new(IDENTITY, GITHUB, None, Some(&bytes)) {
            speaks(&judge(
                &winimg_trust::SignatureRule::Sigstore(rule),
                "own/tool.exe",
                &good,
            ));
        }
    }
}

#[test]
fn damaged_loose_parts_are_judged() {
    let rule = own(IDENTITY, GITHUB, None);
    let parts = SignatureEvidence {
        signature: Some(read("own/tool.exe.sig")),
        certificate: Some(read("own/tool.exe.cert")),
        log_entry: Some(read("own/entries.json")),
        lists: None,
    };
    let part = |name: &str, seed, with: &dyn Fn(Vec<u8>) -> SignatureEvidence| {
        survives(&rule, "own/tool.exe", &read(name), seed, with);
    };
    part("own/tool.exe.sig", 4, &|b| SignatureEvidence {
        signature: Some(b),
        ..parts.clone()
    });
    part("own/tool.exe.cert", 5, &|b| SignatureEvidence {
        certificate: Some(b),
        ..parts.clone()
    });
    let mut dice = Dice(6);
    for _ in 0..3000 * longer() {
        // Damage in the strangers' entries does not matter.
        let bytes = damaged(&read("own/entries.json"), &mut dice);
        speaks(&judge(
            &rule,
            "own/tool.exe",
            &SignatureEvidence {
                log_entry: Some(bytes.clone()),
                ..parts.clone()
            },
        ));
        let _ = sigstore::entry_ids(&bytes);
    }
}

#[test]
fn damaged_trust_roots_are_read_or_refused() {
    let good = read("own/trusted_root.json");
    let bundle = signed_by(&read("own/good.sigstore.json"));
    let mut dice = Dice(7);
    let mut refused = 0;
    for _ in 0..3000 * longer() {
        let bytes = damaged(&good, &mut dice);
        match sigstore::SigstoreRule::new(IDENTITY, GITHUB, None, Some(&bytes)) {
            Ok(rule) => speaks(&judge(
                &winimg_trust::SignatureRule::Sigstore(rule),
                "own/tool.exe",
                &bundle,
            )),
            Err(text) => {
                refused += 1;
                assert!(!text.contains(char::is_control), "{text:?}");
            }
        }
    }
    assert!(refused > 1000 * longer(), "{refused} are refused");
}

#[test]
fn every_signed_part_of_a_certificate_counts() {
    use base64::Engine;
    let rule = own(IDENTITY, GITHUB, None);
    let good: Value = serde_json::from_slice(&read("own/good.sigstore.json")).unwrap();
    let der = good
        .pointer("/verificationMaterial/certificate/rawBytes")
        .unwrap()
        .as_str()
        .unwrap();
    let engine = base64::engine::general_purpose::STANDARD;
    let der = engine.decode(der).unwrap();
    for at in 0..der.len() {
        let mut bytes = der.clone();
        bytes[at] ^= 0x10;
        let bundle = edited("own/good.sigstore.json", |v| {
            *v.pointer_mut("/verificationMaterial/certificate/rawBytes")
                .unwrap() = engine.encode(&bytes).into();
        });
        let judged = judge(&rule, "own/tool.exe", &signed_by(&bundle));
        assert!(
            judged.is_err(),
            "byte {at} of the certificate does not count"
        );
        speaks(&judged);
    }
}
