//! What the library refused, in words: the reason by its error's variant, expected and found from the bundle itself.
//!
//! Nothing here decides whether a signature is taken; it is asked only once one was not.

mod log;

use jiff::Timestamp;
use sigstore_types::{Bundle, HashAlgorithm, SignatureContent};
use sigstore_verify::bundle::Error as BundleError;
use sigstore_verify::crypto::Error as CryptoError;
use sigstore_verify::rekor::RekorEntryBody;
use sigstore_verify::rekor::body::HashedRekordV001Body;
use sigstore_verify::{CertificateError, Error};

use self::log::in_force;
use super::certificate::{Claims, Sct};
use super::{Rule, shown};
use crate::reading::unreadable;
use crate::{Reason, Refusal, Subject};

/// The trust root that winimg ships is as old as winimg; authorities and logs get successors.
const NEWER: &str = "if that is another Sigstore instance or a newer part of this one, and you trust it: its trusted_root.json as `trusted_root`";

/// The bundle with what its certificate claims.
struct Case<'a> {
    rule: &'a Rule,
    subject: Subject<'a>,
    bundle: &'a Bundle,
    claims: Option<Claims>,
}

pub(super) fn of(error: Error, rule: &Rule, subject: Subject<'_>, bundle: &Bundle) -> Refusal {
    let case = Case {
        rule,
        subject,
        bundle,
        claims: Claims::of(bundle),
    };
    match error {
        Error::IdentityMismatch { .. } => case.other_identity(),
        Error::IssuerMismatch { actual, .. } => Reason::OtherIssuer
            .refusal("its identity was vouched for by another issuer")
            .expected(&rule.issuer)
            .found(actual.map_or("none".into(), shown)),
        Error::SignatureInvalid(_) => case.changed("its signature does not fit what is signed"),
        Error::ArtifactMismatch(_) => case.other_bytes(),
        Error::Certificate(why) => case.certificate(why),
        Error::TransparencyLog(why) => case.log(why),
        Error::Timestamp(why) => case.time(why),
        Error::Bundle(why) => shape(&why),
        Error::UnsupportedArtifact(_) => Reason::Unsupported.refusal(
            "it is of a kind that needs the whole file at once (Ed25519 without a digest)",
        ),
        Error::UnsupportedBundle(why) | Error::Crypto(CryptoError::UnsupportedAlgorithm(why)) => {
            Reason::Unsupported
                .refusal("it is made in a way that winimg cannot judge")
                .found(shown(why))
        }
        Error::InvalidTrustRoot(_) | Error::TrustRoot(_) | Error::TrustedCertificate(_) => {
            Reason::OtherRoot
                .refusal("the trust root cannot judge it")
                .found(shown(&error))
        }
        Error::ArtifactRead(error) => unreadable(error),
        Error::InvalidBundle(_) | Error::Types(_) | Error::Crypto(_) => Reason::Malformed
            .refusal("it cannot be read as a Sigstore bundle")
            .found(shown(&error)),
        other => Reason::Unsupported
            .refusal("it could not be verified")
            .found(shown(other)),
    }
}

/// What the bundle's shape lacks.
fn shape(error: &BundleError) -> Refusal {
    match error {
        BundleError::MissingInclusionProof(_)
        | BundleError::MissingInclusionPromise(_)
        | BundleError::MissingSigningTimeEvidence
        | BundleError::MissingCheckpoint => {
            Reason::NotLogged.refusal("its proof of the transparency log is not complete")
        }
        BundleError::LogIndexOutOfRange { .. } | BundleError::CheckpointRootMismatch => {
            Reason::NotLogged.refusal("its inclusion proof contradicts its checkpoint")
        }
        BundleError::MissingTimestamp => {
            Reason::NoTimestamp.refusal("nobody says when it was made")
        }
        _ => Reason::Malformed.refusal("the bundle is not as its version asks"),
    }
    .found(shown(error))
}

impl Case<'_> {
    fn other_identity(&self) -> Refusal {
        let refusal = Reason::OtherIdentity
            .refusal("its certificate was issued to another identity")
            .expected(format!(
                "{} of issuer {}",
                self.rule.identity, self.rule.issuer
            ));
        match &self.claims {
            Some(claims) => refusal.found(claims.who()),
            None => refusal,
        }
    }

    /// Digests of both sides, as far as the bundle says of which bytes it is.
    fn changed(&self, fact: &str) -> Refusal {
        if let SignatureContent::DsseEnvelope(_) = &self.bundle.content {
            return Reason::Changed
                .refusal("the statement in it or its signature was changed after it was signed");
        }
        let found = self.subject.digest;
        match self.signed_digest() {
            Some(digest) if digest == found.to_string() => {
                let around = "the signature or the bundle around it was changed";
                Reason::Changed.refusal(format!("{fact}: {around}"))
            }
            Some(digest) => Reason::Changed.refusal(fact).expected(digest).found(found),
            None => Reason::Changed.refusal(fact).found(found),
        }
    }

    /// The bundle, or only the log entry in it, is of another file.
    fn other_bytes(&self) -> Refusal {
        let found = self.subject.digest.to_string();
        let logged = self.logged_digest();
        if self.signed_digest().as_ref() == Some(&found) && logged.is_some() {
            return Reason::NotLogged
                .refusal("its log entry is of other bytes")
                .expected(found)
                .found(logged.unwrap_or_default());
        }
        self.changed("it is of other bytes")
    }

    /// The digest that the bundle is about: its own word, or that of its log entry.
    fn signed_digest(&self) -> Option<String> {
        let SignatureContent::MessageSignature(signature) = &self.bundle.content else {
            return None;
        };
        if let Some(digest) = &signature.message_digest {
            let name = match digest.digest.len() {
                32 => "sha256",
                48 => "sha384",
                64 => "sha512",
                _ => return None,
            };
            return Some(format!("{name}:{}", digest.digest.to_hex()));
        }
        self.logged_digest()
    }

    /// What its log entry says of a file.
    fn logged(&self) -> Option<HashedRekordV001Body> {
        let entry = self.bundle.verification_material.tlog_entries.first()?;
        match RekorEntryBody::parse(&entry.canonicalized_body, entry.kind_version).ok()? {
            RekorEntryBody::HashedRekordV001(body) => Some(body),
            _ => None,
        }
    }

    /// The algorithm of the digest in its log entry, where it is not SHA-256.
    fn logged_algorithm(&self) -> Option<HashAlgorithm> {
        let algorithm = self.logged()?.spec.data.hash.algorithm;
        (algorithm != HashAlgorithm::Sha2256).then_some(algorithm)
    }

    /// The digest in its log entry.
    fn logged_digest(&self) -> Option<String> {
        let hex = self.logged()?.spec.data.hash.value;
        Some(format!("sha256:{}", shown(hex.as_str())))
    }

    /// Of another Sigstore instance altogether: then its logs and timestamps are unknown, too.
    fn other_root(&self) -> Option<Refusal> {
        let claims = self.claims.as_ref()?;
        if self.rule.root.names_authority(&claims.authority) {
            return None;
        }
        let refusal = Reason::OtherRoot
            .refusal("its certificate comes from an authority that the trust root does not name")
            .expected(self.rule.root.authorities())
            .found(&claims.authority);
        Some(refusal.cure(NEWER))
    }

    fn certificate(&self, why: CertificateError) -> Refusal {
        let unread = || Reason::Malformed.refusal("its certificate cannot be read");
        if let CertificateError::Malformed(detail) = &why {
            return unread().found(shown(detail));
        }
        let Some(claims) = &self.claims else {
            return unread().found(shown(why));
        };
        match why {
            CertificateError::NotYetValid { time, .. } | CertificateError::Expired { time, .. } => {
                lifetime(claims, time)
            }
            CertificateError::NoValidAuthority { time } => Reason::OtherRoot
                .refusal("no authority of the trust root was in force when it was signed")
                .found(format!("signed at {time}")),
            CertificateError::Sct(detail) => self.sct(claims, &detail),
            // The library's path building says only "invalid": find out which of the four it is.
            why => {
                let times = self.times();
                let outside = |t: &&Timestamp| **t < claims.not_before || **t > claims.not_after;
                if let Some(time) = times.iter().find(outside) {
                    return lifetime(claims, *time);
                }
                if !claims.code_signing {
                    return Reason::WrongUse
                        .refusal("its certificate is not for signing code")
                        .expected("the extended key usage codeSigning");
                }
                self.other_root().unwrap_or_else(|| {
                    let fact = "its certificate was changed after its authority had signed it, or another made it in its name";
                    Reason::OtherRoot
                        .refusal(fact)
                        .expected(format!("a signature by {}", claims.authority))
                        .found(match &why {
                            CertificateError::ChainInvalid(detail) => shown(detail),
                            other => shown(other),
                        })
                })
            }
        }
    }

    fn sct(&self, claims: &Claims, detail: &str) -> Refusal {
        let Sct::Of { log, at } = &claims.sct else {
            return Reason::NotLogged.refusal(match claims.sct {
                Sct::Absent => {
                    "its certificate carries no SCT: no certificate transparency log has seen it"
                }
                _ => "the SCT in its certificate cannot be read",
            });
        };
        let fact = match self.rule.root.ct_log(log) {
            None => "the SCT in its certificate is of a log that the trust root does not name",
            Some(key) if !in_force(key, *at) => {
                "the SCT in its certificate was made when its log was not in force"
            }
            Some(_) => {
                return Reason::NotLogged
                    .refusal("the SCT in its certificate is of another certificate")
                    .found(shown(detail));
            }
        };
        Reason::NotLogged
            .refusal(fact)
            .found(format!("log {} at {at}", hex::encode(log)))
            .cure(NEWER)
    }
}

fn lifetime(claims: &Claims, time: Timestamp) -> Refusal {
    let refusal = match time < claims.not_before {
        true => Reason::NotYetValid.refusal("its certificate was not yet valid when it was signed"),
        false => Reason::Expired.refusal("its certificate had expired when it was signed"),
    };
    refusal.expected(claims.lifetime()).found(time)
}
