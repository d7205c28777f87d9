//! Attacks on files whose signature stands beside them: keys, keyless signatures, CMS and catalogs.

use std::fs;
use std::time::{Duration, SystemTime};

use winimg_trust::RefusalReason::{
    self, Changed, Malformed, Missing, NotLogged, OtherIdentity, OtherKey, OtherName, OtherRoot,
    Unsupported,
};
use winimg_trust::{SignatureEvidence, SignatureRule};

use super::{Attack, Good, Judge, Served, flipped, others, spread};
use crate::workshop::{PAGE, Shop};
use crate::{containers, cosign, minisign, openpgp, signed, signify, sigstore};

pub fn goods() -> Vec<Good> {
    let by_key = [
        shop(
            "minisign",
            minisign::made(),
            minisign::rule("release"),
            "good.minisig",
        ),
        shop(
            "signify",
            signify::made(),
            signify::rule("release"),
            "good.sig",
        ),
        shop(
            "cosign key, base64",
            cosign::made(),
            cosign::rule("release"),
            "good.sig",
        ),
        shop(
            "cosign key, DER",
            cosign::made(),
            cosign::rule("release"),
            "good.sig.der",
        ),
        shop(
            "cosign key, bundle",
            cosign::made(),
            cosign::rule("release"),
            "good.json",
        ),
        shop(
            "OpenPGP, binary",
            openpgp::made(),
            openpgp::rule("release"),
            "release.sig",
        ),
        shop(
            "OpenPGP, armoured",
            openpgp::made(),
            openpgp::rule("release"),
            "release.asc.sig",
        ),
    ];
    let by_certificate = [
        cms("CMS, DER", "sums.p7s"),
        cms("CMS, PEM", "pem.p7s"),
        cms("CMS, BER", "streamed.p7s"),
        listed("catalog, of a program", "driver.sys"),
        listed("catalog, of a file", "driver.inf"),
    ];
    let keyless = [
        bundle("Sigstore, bundle", "good.sigstore.json", None),
        bundle(
            "Sigstore, attestation",
            "provenance.sigstore.json",
            Some(sigstore::SLSA),
        ),
        loose(),
    ];
    by_key
        .into_iter()
        .chain(by_certificate)
        .chain(keyless)
        .collect()
}

fn good(kind: &'static str, rule: SignatureRule, now: SystemTime, served: Served) -> Good {
    Good {
        kind,
        judge: Judge::Rule(Box::new(rule), now),
        served,
        attacks: vec![
            other_files,
            no_signatures,
            changed_signatures,
            others::by_others,
        ],
    }
}

fn shop(kind: &'static str, made: &Shop, rule: SignatureRule, signature: &str) -> Good {
    let served = Served {
        name: "app.exe".into(),
        // A shop's file is large, and is the same for all.
        file: made.bytes("app.exe"),
        evidence: beside(made.bytes(signature)),
    };
    good(kind, rule, SystemTime::now(), served)
}

fn cms(kind: &'static str, signature: &str) -> Good {
    let read = |name: &str| fs::read(signed::folder().join(name)).unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(signed::NOW);
    let served = Served {
        name: "sums".into(),
        file: read("sums"),
        evidence: beside(read(signature)),
    };
    good(kind, signed::detached(signed::pins()), now, served)
}

fn listed(kind: &'static str, name: &str) -> Good {
    let read = |name: &str| fs::read(containers::fixtures().join(name)).unwrap();
    let served = Served {
        name: name.into(),
        file: read(name),
        evidence: beside(read("signed.cat")),
    };
    let mut good = good(
        kind,
        containers::rule("root.pem"),
        SystemTime::now(),
        served,
    );
    good.attacks.push(renamed);
    good
}

fn bundle(kind: &'static str, name: &str, predicate: Option<&str>) -> Good {
    let rule = sigstore::own(sigstore::IDENTITY, sigstore::GITHUB, predicate);
    let served = Served {
        name: "tool.exe".into(),
        file: sigstore::read("own/tool.exe"),
        evidence: beside(sigstore::read(&format!("own/{name}"))),
    };
    good(kind, rule, SystemTime::now(), served)
}

fn loose() -> Good {
    let own = |name: &str| sigstore::read(&format!("own/{name}"));
    let rule = sigstore::own(sigstore::IDENTITY, sigstore::GITHUB, None);
    let served = Served {
        name: "tool.exe".into(),
        file: own("tool.exe"),
        evidence: SignatureEvidence {
            signature: Some(own("tool.exe.sig")),
            certificate: Some(own("tool.exe.cert")),
            log_entry: Some(own("entries.json")),
            ..SignatureEvidence::default()
        },
    };
    good("Sigstore, loose parts", rule, SystemTime::now(), served)
}

fn beside(signature: Vec<u8>) -> SignatureEvidence {
    SignatureEvidence {
        signature: Some(signature),
        ..SignatureEvidence::default()
    }
}

/// By who made the signature, the reason for which bytes of the file are another's.
fn of_other_bytes(good: &Good) -> &'static [RefusalReason] {
    match good.kind {
        // It names files by their digests: this one is not among them, but a program without its
        // head is no program.
        "catalog, of a program" => &[Changed, Malformed, OtherName],
        _ => &[Changed],
    }
}

fn other_files(good: &Good) -> Vec<Attack> {
    let file = &good.served.file;
    let family = of_other_bytes(good);
    let last = file.len() - 1;
    let flips = spread(0..file.len(), 4).map(|at| {
        good.file(
            format!("another byte at {at:#x}"),
            flipped(file, at),
            family,
        )
    });
    let others = [
        ("without its last byte", file[..last].to_vec()),
        ("half of it", file[..file.len() / 2].to_vec()),
        ("nothing", Vec::new()),
        ("a byte behind it", [&file[..], b"A"].concat()),
        ("an archive behind it", [&file[..], b"PK\x05\x06"].concat()),
        ("a byte before it", [b"A", &file[..]].concat()),
        ("itself twice", [&file[..], &file[..]].concat()),
    ];
    let others = others
        .into_iter()
        .map(|(what, bytes)| good.file(what, bytes, family));
    flips.chain(others).collect()
}

fn no_signatures(good: &Good) -> Vec<Attack> {
    let signature = good.served.evidence.signature.clone().unwrap();
    let half = signature[..signature.len() / 2].to_vec();
    // Without a catalog the file's own signature is asked for, and there is none, nor can be.
    let missing: &[RefusalReason] = &[Missing, Unsupported];
    let empty: &[RefusalReason] = match good.kind.split(',').next().unwrap() {
        "CMS" => &[Missing],
        _ => &[Malformed],
    };
    // Base64 has no end of its own: it is another signature, which no log has.
    let torn: &[RefusalReason] = match good.kind {
        "Sigstore, loose parts" => &[NotLogged],
        _ => &[Malformed],
    };
    vec![
        good.signature("no signature", None, missing),
        good.signature("an empty signature", Some(Vec::new()), empty),
        good.signature("a web page as signature", Some(PAGE.to_vec()), &[Malformed]),
        good.signature("half of the signature", Some(half), torn),
        good.signature(
            "zeros as signature",
            Some(vec![0; signature.len()]),
            &[Malformed],
        ),
        good.signature(
            "the file as signature",
            Some(good.served.file.clone()),
            &[Malformed],
        ),
    ]
}

/// Bytes of the signature that are no white space and no name.
fn changed_signatures(good: &Good) -> Vec<Attack> {
    let signature = good.served.evidence.signature.clone().unwrap();
    let length = signature.len();
    let range = match good.kind {
        // The second line.
        "minisign" | "signify" => {
            let start = signature.iter().position(|b| *b == b'\n').unwrap() + 20;
            start..start + 60
        }
        "OpenPGP, binary" => length - 30..length,
        "OpenPGP, armoured" => length / 2..length / 2 + 20,
        "cosign key, bundle" => length - 60..length - 20,
        _ => length / 2..length - length / 4,
    };
    let family = &[
        Changed,
        Malformed,
        NotLogged,
        OtherKey,
        OtherIdentity,
        OtherRoot,
        Unsupported,
    ];
    spread(range, 4)
        .map(|at| {
            let name = format!("another byte in the signature at {at:#x}");
            good.signature(name, Some(flipped(&signature, at)), family)
        })
        .collect()
}

/// A catalog gives each file a name.
fn renamed(good: &Good) -> Vec<Attack> {
    let names = match good.kind {
        "catalog, of a program" => ["other.sys", "kubelet.exe"],
        _ => ["other.inf", "setup.txt"],
    };
    names
        .map(|name| {
            let mut attack =
                good.file(format!("as {name}"), good.served.file.clone(), &[OtherName]);
            attack.served.name = name.into();
            attack
        })
        .into()
}
