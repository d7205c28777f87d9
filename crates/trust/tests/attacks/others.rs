//! Good signatures in the wrong place: by another key, of another file, or of another form.

use std::fs;

use winimg_trust::RefusalReason::{
    self, Changed, Malformed, Missing, OtherIdentity, OtherKey, OtherName, OtherRoot, Unsupported,
};

use super::{Attack, Good};
use crate::{containers, cosign, minisign, openpgp, signed, signify, sigstore};

/// Good signatures: by another key, and of another file.
pub fn by_others(good: &Good) -> Vec<Attack> {
    let own = |name: &str| sigstore::read(&format!("own/{name}"));
    let cms = |name: &str| fs::read(signed::folder().join(name)).unwrap();
    let catalog = |name: &str| fs::read(containers::fixtures().join(name)).unwrap();
    let all: Vec<(&str, Vec<u8>, &'static [RefusalReason])> = match good.kind {
        "minisign" => vec![
            (
                "by another key",
                minisign::made().bytes("other.minisig"),
                &[OtherKey],
            ),
            (
                "of another file",
                minisign::made().bytes("second.minisig"),
                &[Changed],
            ),
            (
                "that names another file",
                minisign::made().bytes("named.minisig"),
                &[OtherName],
            ),
            (
                "with another comment",
                minisign::made().bytes("comment.minisig"),
                &[Changed],
            ),
            (
                "of the legacy kind",
                minisign::made().bytes("legacy.minisig"),
                &[Unsupported],
            ),
        ],
        "signify" => vec![
            (
                "by another key",
                signify::made().bytes("other.sig"),
                &[OtherKey],
            ),
            (
                "of another file",
                signify::made().bytes("second.sig"),
                &[Changed],
            ),
            (
                "with its own message",
                signify::made().bytes("embedded.sig"),
                &[Unsupported],
            ),
        ],
        "cosign key, base64" | "cosign key, DER" => vec![
            (
                "by another key",
                cosign::made().bytes("other.sig"),
                &[Changed],
            ),
            (
                "of another file",
                cosign::made().bytes("second.sig"),
                &[Changed],
            ),
            ("over SHA-1", cosign::made().bytes("sha1.sig"), &[Changed]),
        ],
        "cosign key, bundle" => vec![
            (
                "by another key",
                cosign::made().bytes("other.json"),
                &[OtherKey],
            ),
            (
                "that names another key",
                cosign::made().bytes("liar.json"),
                &[OtherKey],
            ),
            (
                "without a key",
                cosign::made().bytes("keyless.json"),
                &[OtherKey],
            ),
            (
                "of a statement",
                cosign::made().bytes("attestation.json"),
                &[RefusalReason::WrongUse, Unsupported],
            ),
        ],
        "OpenPGP, binary" | "OpenPGP, armoured" => vec![
            (
                "by another key",
                openpgp::made().bytes("other.sig"),
                &[OtherKey],
            ),
            (
                "of another file",
                openpgp::made().bytes("second.sig"),
                &[Changed],
            ),
            (
                "of text",
                openpgp::made().bytes("text.sig"),
                &[RefusalReason::Uncovered],
            ),
            (
                "limited in time",
                openpgp::made().bytes("limited.sig"),
                &[RefusalReason::Expired],
            ),
            (
                "with a condition",
                openpgp::made().bytes("notation.sig"),
                &[Unsupported],
            ),
        ],
        "CMS, DER" | "CMS, PEM" | "CMS, BER" => vec![
            ("below another root", cms("other-sums.p7s"), &[OtherRoot]),
            ("by itself", cms("self-sums.p7s"), &[OtherRoot]),
            (
                "by a server's certificate",
                cms("tls-sums.p7s"),
                &[RefusalReason::WrongUse],
            ),
            ("expired", cms("short-sums.p7s"), &[RefusalReason::Expired]),
            ("over SHA-1", cms("sha1-sums.p7s"), &[RefusalReason::Weak]),
            (
                "without signed attributes",
                cms("noattr.p7s"),
                &[Unsupported],
            ),
            ("of another file", cms("streamed-changed.p7s"), &[Changed]),
            ("of something else", cms("typed.p7s"), &[Unsupported]),
        ],
        "catalog, of a program" | "catalog, of a file" => vec![
            ("by another", catalog("other.cat"), &[OtherRoot]),
            (
                "of SHA-1",
                catalog("signed-sha1.cat"),
                &[RefusalReason::Weak],
            ),
            (
                "signed over SHA-1",
                catalog("weak.cat"),
                &[RefusalReason::Weak],
            ),
            ("of other kinds", catalog("signed-kinds.cat"), &[Changed]),
            (
                "that is a list of trust",
                catalog("signed-list.cat"),
                &[RefusalReason::WrongUse],
            ),
            ("never signed", catalog("unsigned.cat"), &[Malformed]),
            (
                "with bytes behind it",
                catalog("signed.cat~appended"),
                &[Malformed],
            ),
        ],
        "Sigstore, bundle" => vec![
            ("by another", own("email.sigstore.json"), &[OtherIdentity]),
            ("of another file", own("other.sigstore.json"), &[Changed]),
            (
                "expired",
                own("expired.sigstore.json"),
                &[RefusalReason::Expired],
            ),
            (
                "below another root",
                own("foreign-root.sigstore.json"),
                &[OtherRoot],
            ),
            (
                "in another log",
                own("foreign-log.sigstore.json"),
                &[RefusalReason::NotLogged],
            ),
            (
                "by a server's certificate",
                own("tls-server.sigstore.json"),
                &[RefusalReason::WrongUse],
            ),
            (
                "without an SCT",
                own("no-sct.sigstore.json"),
                &[RefusalReason::NotLogged, Malformed],
            ),
            (
                "that is a statement",
                own("provenance.sigstore.json"),
                &[RefusalReason::WrongUse],
            ),
        ],
        "Sigstore, attestation" => vec![
            (
                "that is a signature",
                own("good.sigstore.json"),
                &[RefusalReason::WrongUse],
            ),
            (
                "of another kind",
                own("other-predicate.sigstore.json"),
                &[Missing],
            ),
        ],
        _ => vec![("of another file", own("other.sigstore.json"), &[Changed])],
    };
    let attacks = all.into_iter();
    attacks
        .map(|(name, bytes, family)| {
            let name = format!("a signature {name}");
            good.signature(name, Some(bytes), family)
        })
        .collect()
}
