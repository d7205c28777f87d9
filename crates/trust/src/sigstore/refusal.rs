//! Converts errors of the library to refusals: the reason from the error's variant, the expected
//! and found values from the bundle.
//!
//! Only called after a verification has failed; decides nothing.

mod log;

use jiff::Timestamp;
use sigstore_types::{Bundle, HashAlgorithm, SignatureContent};
use sigstore_verify::bundle::Error as BundleError;
use sigstore_verify::crypto::Error as CryptoError;
use sigstore_verify::rekor::RekorEntryBody;
use sigstore_verify::rekor::body::HashedRekordV001Body;
use sigstore_verify::{CertificateError, Error};

use self::log::was_valid;
use super::certificate::{FulcioClaims, Sct};
use super::{SigstoreRule, sanitize};
use crate::reading::refuse_unreadable;
use crate::{FileSubject, RefusalReason, SignatureRefusal};

/// The cure for unknown authorities and logs, which may be newer than the trust root that winimg
/// ships.
const TRUSTED_ROOT_CURE: &str = "if you trust it (another Sigstore instance, or a newer \
    authority or log), set `trusted_root` to its trusted_root.json";

/// A bundle that was not verified, with the claims of its certificate.
struct SigstoreCase<'a> {
    rule: &'a SigstoreRule,
    subject: FileSubject<'a>,
    bundle: &'a Bundle,
    claims: Option<FulcioClaims>,
}

pub(super) fn to_refusal(
    error: Error,
    rule: &SigstoreRule,
    subject: FileSubject<'_>,
    bundle: &Bundle,
) -> SignatureRefusal {
    let case = SigstoreCase {
        rule,
        subject,
        bundle,
        claims: FulcioClaims::from_bundle(bundle),
    };
    match error {
        Error::IdentityMismatch { .. } => case.refuse_identity(),
        Error::IssuerMismatch { actual, .. } => RefusalReason::OtherIssuer
            .refusal("its identity was vouched for by a different issuer")
            .expected(&rule.issuer)
            .found(actual.map_or("none".into(), sanitize)),
        Error::SignatureInvalid(_) => {
            case.refuse_changed("its signature does not match the signed content")
        }
        Error::ArtifactMismatch(_) => case.refuse_other_file(),
        Error::Certificate(why) => case.refuse_certificate(why),
        Error::TransparencyLog(why) => case.log(why),
        Error::Timestamp(why) => case.refuse_timestamp(why),
        Error::Bundle(why) => refuse_structure(&why),
        Error::UnsupportedArtifact(_) => RefusalReason::Unsupported.refusal(
            "it needs the whole file in memory (Ed25519 without a digest), which is not supported",
        ),
        Error::UnsupportedBundle(why) | Error::Crypto(CryptoError::UnsupportedAlgorithm(why)) => {
            RefusalReason::Unsupported
                .refusal("its form is not supported")
                .found(sanitize(why))
        }
        Error::InvalidTrustRoot(_) | Error::TrustRoot(_) | Error::TrustedCertificate(_) => {
            RefusalReason::OtherRoot
                .refusal("the trust root cannot verify it")
                .found(sanitize(&error))
        }
        Error::ArtifactRead(error) => refuse_unreadable(error),
        Error::InvalidBundle(_) | Error::Types(_) | Error::Crypto(_) => RefusalReason::Malformed
            .refusal("it cannot be read as a Sigstore bundle")
            .found(sanitize(&error)),
        other => RefusalReason::Unsupported
            .refusal("it could not be verified")
            .found(sanitize(other)),
    }
}

/// Returns the refusal of a structural error in the bundle.
fn refuse_structure(error: &BundleError) -> SignatureRefusal {
    match error {
        BundleError::MissingInclusionProof(_)
        | BundleError::MissingInclusionPromise(_)
        | BundleError::MissingSigningTimeEvidence
        | BundleError::MissingCheckpoint => {
            RefusalReason::NotLogged.refusal("its transparency log proof is incomplete")
        }
        BundleError::LogIndexOutOfRange { .. } | BundleError::CheckpointRootMismatch => {
            RefusalReason::NotLogged.refusal("its inclusion proof contradicts its checkpoint")
        }
        BundleError::MissingTimestamp => RefusalReason::NoTimestamp.refusal("it has no timestamp"),
        _ => RefusalReason::Malformed.refusal("the bundle is invalid for its version"),
    }
    .found(sanitize(error))
}

impl SigstoreCase<'_> {
    fn refuse_identity(&self) -> SignatureRefusal {
        let refusal = RefusalReason::OtherIdentity
            .refusal("its certificate was issued to a different identity")
            .expected(format!(
                "{} of issuer {}",
                self.rule.identity, self.rule.issuer
            ));
        match &self.claims {
            Some(claims) => refusal.found(claims.describe()),
            None => refusal,
        }
    }

    /// Returns the refusal of a changed file, with both digests if the bundle contains one.
    fn refuse_changed(&self, fact: &str) -> SignatureRefusal {
        if let SignatureContent::DsseEnvelope(_) = &self.bundle.content {
            return RefusalReason::Changed
                .refusal("its statement or signature was changed after signing");
        }
        let found = self.subject.digest;
        match self.signed_digest() {
            Some(digest) if digest == found.to_string() => {
                let around = "the signature or the bundle around it was changed";
                RefusalReason::Changed.refusal(format!("{fact}: {around}"))
            }
            Some(digest) => RefusalReason::Changed
                .refusal(fact)
                .expected(digest)
                .found(found),
            None => RefusalReason::Changed.refusal(fact).found(found),
        }
    }

    /// Returns the refusal if the bundle, or only its log entry, is for a different file.
    fn refuse_other_file(&self) -> SignatureRefusal {
        let found = self.subject.digest.to_string();
        let logged = self.logged_digest();
        if self.signed_digest().as_ref() == Some(&found) && logged.is_some() {
            return RefusalReason::NotLogged
                .refusal("its log entry is for a different file")
                .expected(found)
                .found(logged.unwrap_or_default());
        }
        self.refuse_changed("it does not match the file")
    }

    /// Returns the digest that the bundle claims, or that of its log entry.
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

    /// Parses its log entry.
    fn parse_log_entry(&self) -> Option<HashedRekordV001Body> {
        let entry = self.bundle.verification_material.tlog_entries.first()?;
        match RekorEntryBody::parse(&entry.canonicalized_body, entry.kind_version).ok()? {
            RekorEntryBody::HashedRekordV001(body) => Some(body),
            _ => None,
        }
    }

    /// Returns the algorithm of the digest in its log entry, unless it is SHA-256.
    fn logged_algorithm(&self) -> Option<HashAlgorithm> {
        let algorithm = self.parse_log_entry()?.spec.data.hash.algorithm;
        (algorithm != HashAlgorithm::Sha2256).then_some(algorithm)
    }

    /// Returns the digest in its log entry.
    fn logged_digest(&self) -> Option<String> {
        let hex = self.parse_log_entry()?.spec.data.hash.value;
        Some(format!("sha256:{}", sanitize(hex.as_str())))
    }

    /// Returns the refusal if it is from a different Sigstore instance, whose logs and timestamps
    /// are also unknown.
    fn find_unknown_root(&self) -> Option<SignatureRefusal> {
        let claims = self.claims.as_ref()?;
        if self.rule.root.names_authority(&claims.authority) {
            return None;
        }
        let refusal = RefusalReason::OtherRoot
            .refusal("its certificate was issued by an authority that is not in the trust root")
            .expected(self.rule.root.describe_authorities())
            .found(&claims.authority);
        Some(refusal.cure(TRUSTED_ROOT_CURE))
    }

    fn refuse_certificate(&self, why: CertificateError) -> SignatureRefusal {
        let unreadable = RefusalReason::Malformed.refusal("its certificate cannot be read");
        if let CertificateError::Malformed(detail) = &why {
            return unreadable.found(sanitize(detail));
        }
        let Some(claims) = &self.claims else {
            return unreadable.found(sanitize(why));
        };
        match why {
            CertificateError::NotYetValid { time, .. } | CertificateError::Expired { time, .. } => {
                refuse_lifetime(claims, time)
            }
            CertificateError::NoValidAuthority { time } => RefusalReason::OtherRoot
                .refusal("no authority of the trust root was valid when it was signed")
                .found(format!("signed at {time}")),
            CertificateError::Sct(detail) => self.refuse_sct(claims, &detail),
            // The library only reports "invalid" for four different causes.
            why => {
                let times = self.collect_times();
                let outside = times
                    .iter()
                    .find(|time| **time < claims.not_before || **time > claims.not_after);
                if let Some(time) = outside {
                    return refuse_lifetime(claims, *time);
                }
                if !claims.code_signing {
                    return RefusalReason::WrongUse
                        .refusal("its certificate is not for signing code")
                        .expected("the extended key usage codeSigning");
                }
                self.find_unknown_root().unwrap_or_else(|| {
                    let fact = "its certificate was changed after it was issued, or forged in the \
                        name of its authority";
                    RefusalReason::OtherRoot
                        .refusal(fact)
                        .expected(format!("a signature by {}", claims.authority))
                        .found(match &why {
                            CertificateError::ChainInvalid(detail) => sanitize(detail),
                            other => sanitize(other),
                        })
                })
            }
        }
    }

    fn refuse_sct(&self, claims: &FulcioClaims, detail: &str) -> SignatureRefusal {
        let Sct::Of { log, at } = &claims.sct else {
            return RefusalReason::NotLogged.refusal(match claims.sct {
                Sct::Absent => {
                    "its certificate has no SCT: no certificate transparency log has seen it"
                }
                _ => "the SCT in its certificate cannot be read",
            });
        };
        let fact = match self.rule.root.ct_log(log) {
            None => "the SCT in its certificate is from a log that is not in the trust root",
            Some(key) if !was_valid(key, *at) => {
                "the SCT in its certificate was made when its log was not valid"
            }
            Some(_) => {
                return RefusalReason::NotLogged
                    .refusal("the SCT in its certificate is for a different certificate")
                    .found(sanitize(detail));
            }
        };
        RefusalReason::NotLogged
            .refusal(fact)
            .found(format!("log {} at {at}", hex::encode(log)))
            .cure(TRUSTED_ROOT_CURE)
    }
}

fn refuse_lifetime(claims: &FulcioClaims, time: Timestamp) -> SignatureRefusal {
    let refusal = if time < claims.not_before {
        RefusalReason::NotYetValid.refusal("its certificate was not yet valid when it was signed")
    } else {
        RefusalReason::Expired.refusal("its certificate had expired when it was signed")
    };
    refusal.expected(claims.describe_lifetime()).found(time)
}
