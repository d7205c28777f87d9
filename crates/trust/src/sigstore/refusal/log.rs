//! Refusals of transparency log entries and timestamps.

use jiff::Timestamp;
use sigstore_trust_root::trusted_root::PublicKey;
use sigstore_types::{HashAlgorithm, SignatureContent, TransparencyLogEntry};
use sigstore_verify::tsa::verify_timestamp_for_authority;
use sigstore_verify::{TimestampError, TransparencyLogError};

use super::super::sanitize;
use super::{SigstoreCase, TRUSTED_ROOT_CURE, refuse_lifetime};
use crate::{RefusalReason, SignatureRefusal};

impl SigstoreCase<'_> {
    pub(super) fn log(&self, why: TransparencyLogError) -> SignatureRefusal {
        if let TransparencyLogError::MalformedEntry(detail) = &why {
            if let Some(algorithm) = self.logged_algorithm() {
                let fact = "its log entry has a digest algorithm that is not supported";
                return RefusalReason::Unsupported
                    .refusal(fact)
                    .expected(HashAlgorithm::Sha2256)
                    .found(algorithm);
            }
            return RefusalReason::Malformed
                .refusal("its log entry cannot be read")
                .found(sanitize(detail));
        }
        let mut entries = self.bundle.verification_material.tlog_entries.iter();
        if let Some(refusal) = entries.find_map(|entry| self.log_of(entry)) {
            return refusal;
        }
        let (fact, detail) = match &why {
            TransparencyLogError::IntegratedTime(_) => return self.integrated_time(why),
            TransparencyLogError::InclusionProof(detail) => (
                "the log's inclusion proof does not match the log's root",
                sanitize(detail),
            ),
            TransparencyLogError::Checkpoint(detail) => (
                "the checkpoint is not signed by the log, or is for a different tree",
                sanitize(detail),
            ),
            TransparencyLogError::InclusionPromise(detail) => (
                "the log's promise does not match the entry's time, index or content",
                sanitize(detail),
            ),
            TransparencyLogError::EntryMismatch(detail) => (
                "its log entry is for a different signature",
                sanitize(detail),
            ),
            why => (
                "the transparency log does not prove that the signature was logged",
                sanitize(why),
            ),
        };
        RefusalReason::NotLogged.refusal(fact).found(detail)
    }

    /// Returns the refusal if the log itself is not in the trust root, or was not valid at that
    /// time.
    fn log_of(&self, entry: &TransparencyLogEntry) -> Option<SignatureRefusal> {
        let id = &entry.log_id.key_id;
        let Some(key) = self.rule.root.log(id) else {
            return Some(self.find_unknown_root().unwrap_or_else(|| {
                RefusalReason::NotLogged
                    .refusal("its log entry is from a log that is not in the trust root")
                    .expected(self.rule.root.describe_logs())
                    .found(format!("log {}", hex::encode(id.as_bytes())))
                    .cure(TRUSTED_ROOT_CURE)
            }));
        };
        let time = entry.integrated_time.filter(|at| !was_valid(key, *at))?;
        Some(
            RefusalReason::NotLogged
                .refusal("its log entry was made when the log was not valid")
                .found(time),
        )
    }

    fn integrated_time(&self, why: TransparencyLogError) -> SignatureRefusal {
        let times = self.collect_times();
        let now = Timestamp::now();
        if let Some(time) = times.iter().find(|t| **t > now) {
            return RefusalReason::NotYetValid
                .refusal("its log entry is dated in the future")
                .expected(format!("before {now}"))
                .found(time)
                .cure("check this machine's clock");
        }
        match (&self.claims, times.first()) {
            (Some(claims), Some(time)) => refuse_lifetime(claims, *time),
            _ => RefusalReason::Expired
                .refusal("the integrated time of its log entry is invalid")
                .found(sanitize(why)),
        }
    }

    pub(super) fn refuse_timestamp(&self, why: TimestampError) -> SignatureRefusal {
        if let Some(refusal) = self.find_unknown_root() {
            return refusal;
        }
        match why {
            TimestampError::OutsideAuthorityValidity { time } => RefusalReason::NoTimestamp
                .refusal("its timestamp was made when the timestamp authority was not valid")
                .found(time),
            TimestampError::NoVerifiedTimestamp(_) => RefusalReason::NoTimestamp
                .refusal("it has no timestamp from an authority or log in the trust root")
                .expected("a log entry with time and promise (SET), or an RFC 3161 timestamp"),
            TimestampError::Invalid(detail) => {
                let fact = "its timestamp is not from an authority in the trust root, or is for a \
                    different signature";
                RefusalReason::NoTimestamp
                    .refusal(fact)
                    .found(sanitize(detail))
            }
            why => RefusalReason::NoTimestamp
                .refusal("its timestamps are not valid")
                .found(sanitize(why)),
        }
    }

    /// Returns all claimed times of the signature. Some are unverified, so they are only used in
    /// messages.
    pub(super) fn collect_times(&self) -> Vec<Timestamp> {
        let material = &self.bundle.verification_material;
        let mut times: Vec<_> = material
            .tlog_entries
            .iter()
            .filter_map(|entry| entry.integrated_time)
            .collect();
        let signature = match &self.bundle.content {
            SignatureContent::MessageSignature(message) => &message.signature,
            SignatureContent::DsseEnvelope(envelope) => &envelope.signature.sig,
            _ => return times,
        };
        let authorities = self.rule.root.trusted.tsa_authorities();
        for stamp in &material.timestamp_verification_data.rfc3161_timestamps {
            let stamp = &stamp.signed_timestamp;
            times.extend(
                authorities
                    .iter()
                    .find_map(|a| verify_timestamp_for_authority(stamp, signature, a).ok()),
            );
        }
        times
    }
}

pub(super) fn was_valid(key: &PublicKey, at: Timestamp) -> bool {
    key.valid_for.is_none_or(|range| range.contains(at))
}
