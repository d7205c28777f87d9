//! GnuPG's own signatures.

use std::sync::OnceLock;
use std::time::SystemTime;

use winimg_trust::openpgp::{OpenPgpRule, signed_text};
use winimg_trust::{
    RefusalReason, Scheme, SignatureResult, SignatureRule as Any, Signer, checksum,
};

use super::workshop::{
    IS_ANOTHER, IS_PAGE, PAGE, Shop, at, notices_a_change, rendered, shop, survives, words,
};

pub fn made() -> &'static Shop {
    static MADE: OnceLock<Shop> = OnceLock::new();
    shop(&MADE, "openpgp.sh")
}

fn fingerprint(who: &str) -> String {
    made().text(&format!("{who}.fpr"))
}

pub fn pinned(who: &str) -> OpenPgpRule {
    OpenPgpRule::new(&made().bytes(&format!("{who}.asc")), &[fingerprint(who)]).unwrap()
}

pub fn rule(who: &str) -> Any {
    Any::Openpgp(pinned(who))
}

/// 2024-01-01, unless a case says another time.
pub fn now() -> SystemTime {
    at(1_704_067_200)
}

fn judge(who: &str, file: &str, signature: &str) -> SignatureResult {
    made().judge(&rule(who), file, signature, now())
}

fn signer(who: &str, remarks: &[&str]) -> Signer {
    Signer {
        scheme: Scheme::Openpgp,
        signer: fingerprint(who),
        pinned_by: format!("fingerprint {}", fingerprint(who)),
        signed_at: None,
        remarks: remarks.iter().map(ToString::to_string).collect(),
    }
}

const DATED: &str = "dated 2020-06-01T00:00:00Z by its signer";

#[test]
fn good_files_are_taken() {
    let more = "1 more by other keys";
    let cases: &[(&str, &str, &[&str])] = &[
        ("release", "release.sig", &[DATED]),
        ("release", "release.asc.sig", &[DATED]),
        ("rsa", "rsa.sig", &[DATED]),
        ("release", "two.sig", &[DATED, more]),
        ("release", "two.asc.sig", &[DATED, more]),
    ];
    for (who, signature, remarks) in cases {
        assert_eq!(
            judge(who, "app.exe", signature),
            Ok(signer(who, remarks)),
            "{signature}"
        );
    }
    let subkey = format!("made by the subkey {}", fingerprint("split2"));
    assert_eq!(
        judge("split", "app.exe", "split2.sig"),
        Ok(signer("split", &[&subkey, DATED]))
    );
}

/// A subkey on a curve that winimg does not have takes nothing from the key's other subkeys.
#[test]
fn a_curve_is_named_where_signatures_on_it_cannot_be_judged() {
    let judged = judge("mixed", "app.exe", "mixed2.sig");
    let words = format!(
        "the subkey {} of {} uses the curve brainpoolP384r1, which is not supported",
        fingerprint("mixed2"),
        fingerprint("mixed")
    );
    assert_eq!(rendered(judged), (RefusalReason::Unsupported, words));
    assert!(judge("mixed", "app.exe", "mixed3.sig").is_ok());
}

#[test]
fn a_key_file_is_recorded_by_what_it_holds() {
    let recorded = |file: &str, who: &str| {
        let rule = OpenPgpRule::new(&made().bytes(file), &[fingerprint(who)]).unwrap();
        Any::Openpgp(rule).key_content().unwrap()
    };
    let armoured = recorded("release.asc", "release");
    assert_eq!(armoured.key, format!("key {}", fingerprint("release")));
    for same in ["release.gpg", "release-crlf.asc", "keys.asc"] {
        assert_eq!(recorded(same, "release"), armoured, "{same}");
    }
    // The same fingerprint, and another subkey may sign.
    let (before, after) = (
        recorded("other.asc", "other"),
        recorded("other-later.asc", "other"),
    );
    assert_eq!(before.key, after.key);
    assert_ne!(before.digest, after.digest);
}

#[test]
fn each_refusal_has_its_sentence() {
    use RefusalReason::{
        Changed, Expired, Malformed, NotYetValid, OtherKey, Revoked, Uncovered, Unsupported, Weak,
    };
    let release = fingerprint("release");
    let other = format!(
        "no pinned key made it | expected: fingerprint {release} | found: fingerprint {}",
        fingerprint("other")
    );
    let another = format!("{IS_ANOTHER} | expected: a signature by {release}");
    let sha = |name: &str| {
        format!(
            "it uses {name}, which is insecure | expected: SHA-256, SHA-384 or SHA-512 \
             | cure: sign again with gpg --digest-algo SHA512"
        )
    };
    let revoked = |who: &str| {
        format!(
            "the key {} is revoked | cure: ask its owner which key signs now",
            fingerprint(who)
        )
    };
    let split3 = format!(
        "the subkey {} of {} is revoked | cure: ask its owner which key signs now",
        fingerprint("split3"),
        fingerprint("split")
    );
    let later = "cure: ask its owner for a key file with a later expiration time";
    let expired = format!(
        "the key {} has expired | expected: later than 2024-01-01T00:00:00Z \
         | found: 2020-12-31T00:00:00Z | {later}",
        fingerprint("expired")
    );
    let late = format!(
        "the key {} had expired when it was made | expected: later than 2022-06-01T00:00:00Z \
         | found: 2020-12-31T00:00:00Z | {later}",
        fingerprint("late")
    );
    let split5 = format!(
        "the subkey {} of {} has expired | expected: later than 2024-01-01T00:00:00Z \
         | found: 2021-01-31T00:00:00Z | {later}",
        fingerprint("split5"),
        fingerprint("split")
    );
    let early = format!(
        "it is dated before the key {release} was created | expected: at least 2020-01-01T00:00:00Z \
         | found: 2019-06-01T00:00:00Z"
    );
    let weak = format!("the key {} is an RSA key of 1024 bits", fingerprint("weak"));
    let limited = "it has expired | expected: later than 2024-01-01T00:00:00Z \
                   | found: 2020-07-01T00:00:00Z";
    let text =
        "it is a text signature, which does not cover line ends | cure: sign without --textmode";
    let notation = "it has a critical subpacket that is not supported";
    let cut = "it is cut off: -----END PGP SIGNATURE----- is missing";
    let clear = "its file is clearsigned text, not a detached signature \
                 | cure: set form = \"clearsigned\" in checksum_signature";
    let cases: &[(&str, &str, &str, RefusalReason, &str)] = &[
        ("release", "app.exe", "other.sig", OtherKey, &other),
        ("release", "changed.exe", "release.sig", Changed, &another),
        ("release", "short.exe", "release.asc.sig", Changed, &another),
        ("release", "app.exe", "second.sig", Changed, &another),
        ("release", "second.exe", "release.sig", Changed, &another),
        ("rsa", "app.exe", "sha1.sig", Weak, &sha("SHA1")),
        ("rsa", "app.exe", "oldsha1.sig", Weak, &sha("SHA1")),
        ("rsa", "app.exe", "md5.sig", Weak, &sha("MD5")),
        ("weak", "app.exe", "weak.sig", Weak, &weak),
        (
            "revoked",
            "app.exe",
            "revoked.sig",
            Revoked,
            &revoked("revoked"),
        ),
        (
            "retired",
            "app.exe",
            "retired.sig",
            Revoked,
            &revoked("retired"),
        ),
        ("split", "app.exe", "split3.sig", Revoked, &split3),
        ("split", "app.exe", "split5.sig", Expired, &split5),
        ("expired", "app.exe", "expired.sig", Expired, &expired),
        ("late", "app.exe", "late.sig", Expired, &late),
        ("release", "app.exe", "limited.sig", Expired, limited),
        ("release", "app.exe", "early.sig", NotYetValid, &early),
        ("release", "app.exe", "text.sig", Uncovered, text),
        ("release", "app.exe", "notation.sig", Unsupported, notation),
        ("release", "app.exe", "cut.asc.sig", Malformed, cut),
        (
            "release",
            "app.exe",
            "cut.sig",
            Malformed,
            "it is damaged or cut off",
        ),
        (
            "release",
            "app.exe",
            "torn.asc.sig",
            Malformed,
            "it is damaged or cut off",
        ),
        ("release", "app.exe", "clear.asc", Malformed, clear),
        (
            "release",
            "app.exe",
            "message.sig",
            Malformed,
            "its file is a PGP MESSAGE, not a detached signature",
        ),
        (
            "release",
            "app.exe",
            "release.asc",
            Malformed,
            "its file is a PGP PUBLIC KEY BLOCK, not a detached signature",
        ),
    ];
    let mut wrong = Vec::new();
    for (who, file, signature, reason, text) in cases {
        let found = match judge(who, file, signature) {
            Err(refusal) => (Some(refusal.reason), words(&refusal)),
            Ok(signer) => (None, format!("{signer:?}")),
        };
        if found != (Some(*reason), text.to_string()) {
            wrong.push(format!(
                "{file} {signature}\n  {found:?}\n  {:?}",
                (reason, text)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let more: &[(&[u8], &str)] = &[(b"Not Found", "it is not an OpenPGP signature")];
    made().refuses_what_is_no_signature(&rule("release"), now(), more);
}

/// One good signature by a pinned key is enough, and one bad one by it is too much.
#[test]
fn several_signatures_and_several_pins() {
    let both = OpenPgpRule::new(
        &[made().bytes("release.asc"), made().bytes("rsa.asc")].concat(),
        &[fingerprint("release"), fingerprint("rsa")],
    );
    let both = Any::Openpgp(both.unwrap());
    let taken = made().judge(&both, "app.exe", "both.sig", now());
    assert_eq!(taken, Ok(signer("release", &[DATED])));
    let refused = made().judge(&both, "app.exe", "onebad.sig", now());
    let bad = format!(
        "{IS_ANOTHER} | expected: a signature by {}",
        fingerprint("rsa")
    );
    assert_eq!(rendered(refused), (RefusalReason::Changed, bad));
    // The other key's bad signature says nothing to those who do not pin it.
    let taken = judge("release", "app.exe", "onebad.sig");
    let more = "1 more by other keys";
    assert_eq!(taken, Ok(signer("release", &[DATED, more])));
}

#[test]
fn a_signature_from_the_future_is_refused() {
    let judged = made().judge(
        &rule("release"),
        "app.exe",
        "release.sig",
        at(1_580_000_000),
    );
    let words = "it is dated in the future | expected: at most 2020-01-26T00:53:20Z \
                 | found: 2020-06-01T00:00:00Z | cure: check this machine's clock";
    assert_eq!(rendered(judged), (RefusalReason::NotYetValid, words.into()));
    // Before its end, the key that has expired since was good.
    let judged = made().judge(
        &rule("expired"),
        "app.exe",
        "expired.sig",
        at(1_600_000_000),
    );
    assert_eq!(judged, Ok(signer("expired", &[DATED])));
}

#[test]
fn a_key_that_cannot_be_pinned_is_refused_in_words() {
    let release = fingerprint("release");
    let other = fingerprint("other");
    let none = "contains no certificate (export one with gpg --armor --export FINGERPRINT)";
    let spaced = release
        .to_lowercase()
        .as_bytes()
        .chunks(4)
        .map(|c| String::from_utf8_lossy(c).into_owned())
        .collect::<Vec<_>>()
        .join(" ");
    for (file, pin) in [
        ("release.asc", &spaced),
        ("release.gpg", &release),
        ("keys.asc", &other),
    ] {
        OpenPgpRule::new(&made().bytes(file), std::slice::from_ref(pin)).unwrap();
    }
    let short = |id: &str| {
        format!(
            "is pinned by the short id {id}, which can be forged: use the full fingerprint of 40 or 64 digits, as shown by gpg --fingerprint"
        )
    };
    let (old, split2) = (fingerprint("old"), fingerprint("split2"));
    let brainpool = fingerprint("brainpool");
    let (eight, sixteen) = (&release[32..], &release[24..]);
    let (key, page) = (made().bytes("release.asc"), PAGE.to_vec());
    let secret =
        "is a secret key; a recipe needs the public key (gpg --armor --export FINGERPRINT)";
    let cases: &[(&[u8], Vec<&str>, String)] = &[
        (&key, vec![eight], short(eight)),
        (&key, vec![sixteen], short(sixteen)),
        (
            &key,
            vec![eight, "xyz"],
            format!(
                "{}; is pinned by xyz, which is not hexadecimal",
                short(eight)
            ),
        ),
        (
            &key,
            vec![&release[8..]],
            format!(
                "is pinned by {}, the MD5 fingerprint of a version 3 key, which is insecure",
                &release[8..]
            ),
        ),
        (
            &key,
            vec![&release[1..]],
            format!(
                "is pinned by {}, which has 39 hex digits; a fingerprint has 40 or 64",
                &release[1..]
            ),
        ),
        (
            &key,
            vec![&other],
            format!("file does not contain {other}, only {release}"),
        ),
        (
            &key,
            vec![&release, &other],
            format!("file does not contain {other}, only {release}"),
        ),
        (&key, vec![], "is pinned by no fingerprint".into()),
        (&page, vec![&release], "is a web page".into()),
        (b"", vec![&release], none.into()),
        (b"words", vec![&release], none.into()),
        (&made().bytes("secret.asc"), vec![&other], secret.into()),
        (
            &made().bytes("release.asc.sig"),
            vec![&release],
            "is a PGP SIGNATURE, not a PUBLIC KEY BLOCK".into(),
        ),
        (
            &key[..key.len() / 2],
            vec![&release],
            "is damaged or cut off".into(),
        ),
        (
            &made().bytes("old.asc"),
            vec![&old],
            format!(
                "{} has no self-signature with SHA-256 or better: ask its owner for a new key file",
                fingerprint("old")
            ),
        ),
        (
            &made().bytes("brainpool.asc"),
            vec![&brainpool],
            format!(
                "{brainpool} uses the curve brainpoolP256r1, which is not supported: ask its owner for a key on Ed25519, a NIST curve, or RSA"
            ),
        ),
        (
            &made().bytes("split.asc"),
            vec![&split2],
            format!(
                "is pinned by {}, which is a subkey: use its primary key's fingerprint {}",
                fingerprint("split2"),
                fingerprint("split")
            ),
        ),
    ];
    let mut wrong = Vec::new();
    for (file, pins, fact) in cases {
        let pins: Vec<String> = pins.iter().map(ToString::to_string).collect();
        let found = match OpenPgpRule::new(file, &pins) {
            Ok(_) => "was taken".into(),
            Err(found) => found,
        };
        if found != *fact {
            wrong.push(format!("{pins:?}\n  {found}\n  {fact}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is read is what was signed: nothing that stands around it, and no text without a signature.
#[test]
fn clearsigned_text_is_returned_alone() {
    let hex = winimg_base::digest::Digest::sha256_of(&made().bytes("app.exe")).hex();
    let plain = format!("{hex}  app.exe\n# end");
    let dashed = format!("{hex}  app.exe\n# - dashed\n-# not a list\n# end");
    for (file, text) in [
        ("clear.asc", &plain),
        ("clearcrlf.asc", &plain),
        ("dashed.asc", &dashed),
    ] {
        let read = signed_text(&pinned("release"), &made().bytes(file), now());
        assert_eq!(
            read,
            Ok((text.clone(), signer("release", &[DATED]))),
            "{file}"
        );
    }
    let (text, _) = signed_text(&pinned("release"), &made().bytes("clear.asc"), now()).unwrap();
    let found =
        checksum::find(text.as_bytes(), checksum::WantedChecksum::Entry("app.exe")).unwrap();
    assert_eq!(found.digest.hex(), hex);
}

#[test]
fn clearsigned_text_that_is_not_what_was_signed_is_refused() {
    use RefusalReason::{Changed, Malformed, Missing, OtherKey, Uncovered, Weak};
    let release = fingerprint("release");
    let other = format!(
        "no pinned key made it | expected: fingerprint {release} | found: fingerprint {}",
        fingerprint("other")
    );
    let another = format!("{IS_ANOTHER} | expected: a signature by {release}");
    let weak = "it uses SHA1, which is insecure | expected: SHA-256, SHA-384 or SHA-512 \
                | cure: sign again with gpg --digest-algo SHA512";
    let none = "there is none: the file is not clearsigned | cure: if its signature is a separate file, remove `form`";
    let cut = "it is cut off: -----END PGP SIGNATURE----- is missing";
    let header = format!(
        "there is an unsigned header above the text | expected: `Hash: …` and an \
         empty line | found: {}  evil.exe",
        winimg_base::digest::Digest::sha256_of(&made().bytes("app.exe")).hex()
    );
    let long = "# a line\n".repeat(20_000);
    let long = format!("-----BEGIN PGP SIGNED MESSAGE-----\n{long}");
    let file = |name: &str| made().bytes(name);
    let cases: &[(&str, Vec<u8>, RefusalReason, &str)] = &[
        ("release", file("clearother.asc"), OtherKey, &other),
        ("release", file("clearchanged.asc"), Changed, &another),
        ("rsa", file("clearsha1.asc"), Weak, weak),
        (
            "release",
            file("clearbefore.asc"),
            Malformed,
            "there is unsigned text before the signed text",
        ),
        (
            "release",
            file("clearafter.asc"),
            Malformed,
            "it is not valid clearsigned text, or there is unsigned text around it",
        ),
        ("release", file("clearheader.asc"), Uncovered, &header),
        ("release", file("clearcut.asc"), Malformed, cut),
        ("release", file("unsigned"), Missing, none),
        ("release", PAGE.to_vec(), Malformed, IS_PAGE),
        ("release", vec![], Malformed, "its file is empty"),
        ("release", vec![0xff; 9], Malformed, "its file is not text"),
        (
            "release",
            long.into_bytes(),
            Malformed,
            "its file has more than 10000 lines",
        ),
    ];
    let mut wrong = Vec::new();
    for (who, bytes, reason, text) in cases {
        let found = match signed_text(&pinned(who), bytes, now()) {
            Err(refusal) => (Some(refusal.reason), words(&refusal)),
            Ok(read) => (None, format!("{read:?}")),
        };
        if found != (Some(*reason), text.to_string()) {
            wrong.push(format!("{found:?}\n  {:?}", (reason, text)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_that_is_not_the_proved_one_is_refused() {
    notices_a_change(made(), &rule("release"), "app.exe", "release.sig");
}

#[test]
fn no_part_of_a_signature_and_no_other_byte_is_taken() {
    // A packet's head of 2 bytes, 4 bytes of algorithms, then two areas after their lengths; the
    // second is not signed. Then 2 bytes of the digest and two numbers after their lengths in bits,
    // which say the same bytes in several ways.
    let bytes = made().bytes("small.sig");
    let length = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let unsigned = 8 + length(6) + 2;
    let unsigned = unsigned..unsigned + length(unsigned - 2);
    let r = unsigned.end + 2;
    let s = r + 2 + length(r).div_ceil(8);
    assert_eq!(s + 2 + length(s).div_ceil(8), bytes.len());
    let free = [unsigned, r..r + 2, s..s + 2];
    survives(made(), &rule("release"), "small", "small.sig", &free);
}

/// What GnuPG would not make: certificates and signatures put together by hand.
mod made_by_hand {
    use pgp::composed::{Deserializable as _, SignedPublicKey, SignedSecretKey};
    use pgp::crypto::hash::HashAlgorithm;
    use pgp::packet::{KeyFlags, SignatureConfig, SignatureType, Subpacket, SubpacketData};
    use pgp::ser::Serialize as _;
    use pgp::types::{Duration, KeyDetails as _, Password, Tag, Timestamp};

    use super::*;

    fn certificate(who: &str) -> SignedPublicKey {
        let bytes = made().bytes(&format!("{who}.asc"));
        SignedPublicKey::from_reader_single(&bytes[..]).unwrap().0
    }

    /// The key `other` says that a subkey of `split` is its own, which that subkey never said.
    fn thief(flags: KeyFlags) -> Vec<u8> {
        let bytes = made().bytes("secret.asc");
        let (secret, _) = SignedSecretKey::from_reader_single(&bytes[..]).unwrap();
        let mut thief = certificate("other");
        let mut stolen = certificate("split").public_subkeys.remove(0);
        let key = &secret.primary_key;
        let mut config = SignatureConfig::v4(
            SignatureType::SubkeyBinding,
            key.algorithm(),
            HashAlgorithm::Sha512,
        );
        let made = SubpacketData::SignatureCreationTime(Timestamp::from_secs(1_585_000_000));
        config.hashed_subpackets = vec![
            Subpacket::regular(made).unwrap(),
            Subpacket::regular(SubpacketData::IssuerFingerprint(key.fingerprint())).unwrap(),
            Subpacket::regular(SubpacketData::KeyFlags(flags)).unwrap(),
        ];
        let binding =
            config.sign_subkey_binding(key, &thief.primary_key, &Password::empty(), &stolen.key);
        stolen.signatures = vec![binding.unwrap()];
        thief.public_subkeys = vec![stolen];
        thief.to_bytes().unwrap()
    }

    #[test]
    fn a_subkey_that_did_not_agree_or_is_not_for_signing_is_refused() {
        let mut sign = KeyFlags::default();
        sign.set_sign(true);
        let mut encrypt = KeyFlags::default();
        encrypt.set_encrypt_comms(true);
        let words = format!(
            "the subkey {} of {} is not allowed to sign files",
            fingerprint("split2"),
            fingerprint("other")
        );
        for flags in [sign, encrypt] {
            let rule = OpenPgpRule::new(&thief(flags), &[fingerprint("other")]).unwrap();
            let judged = made().judge(&Any::Openpgp(rule), "app.exe", "split2.sig", now());
            assert_eq!(rendered(judged), (RefusalReason::WrongUse, words.clone()));
        }
    }

    /// 32 bits of seconds end in 2106, and a sum that goes round would end a key in 1970 or never.
    #[test]
    fn a_time_that_cannot_be_said_is_refused() {
        let bytes = made().bytes("secret.asc");
        let (secret, _) = SignedSecretKey::from_reader_single(&bytes[..]).unwrap();
        let mut endless = certificate("other");
        let user = &mut endless.details.users[0];
        let mut config = user.signatures[0].config().unwrap().clone();
        let span = SubpacketData::KeyExpirationTime(Duration::from_secs(u32::MAX));
        config
            .hashed_subpackets
            .push(Subpacket::regular(span).unwrap());
        let certification = config.sign_certification(
            &secret.primary_key,
            &endless.primary_key,
            &Password::empty(),
            Tag::UserId,
            &user.id,
        );
        user.signatures = vec![certification.unwrap()];
        let other = fingerprint("other");
        let rendered = OpenPgpRule::new(&endless.to_bytes().unwrap(), std::slice::from_ref(&other));
        let words =
            format!("{other} has an expiration time after 2106, the maximum of a 32-bit timestamp");
        assert_eq!(rendered.unwrap_err(), words);
    }

    /// Who made it stands outside of what is signed too, so an expired subkey's signature can be
    /// made to name a good one.
    #[test]
    fn the_subkey_that_was_found_able_has_to_be_the_one_that_signed() {
        let bytes = made().bytes("split5.sig");
        let detached = pgp::composed::DetachedSignature::from_reader_single(&bytes[..]);
        let mut signature = detached.unwrap().0.signature;
        let good = certificate("split")
            .public_subkeys
            .remove(0)
            .key
            .fingerprint();
        let named = Subpacket::regular(SubpacketData::IssuerFingerprint(good)).unwrap();
        signature.unhashed_subpacket_push(named).unwrap();
        let packet = pgp::packet::Packet::from(signature).to_bytes().unwrap();
        let judged = made().judge_by(&rule("split"), "app.exe", Some(packet), now());
        let words = format!(
            "{IS_ANOTHER} | expected: a signature by {}",
            fingerprint("split")
        );
        assert_eq!(rendered(judged), (RefusalReason::Changed, words));
    }
}
