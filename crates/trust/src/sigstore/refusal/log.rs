//! What the transparency log and the timestamps do not prove, in words.

use jiff::Timestamp;
use sigstore_trust_root::trusted_root::PublicKey;
use sigstore_types::{HashAlgorithm, SignatureContent, TransparencyLogEntry};
use sigstore_verify::tsa::verify_timestamp_for_authority;
use sigstore_verify::{TimestampError, TransparencyLogError};

use super::super::shown;
use super::{Case, NEWER, lifetime};
use crate::{Reason, Refusal};

impl Case<'_> {
    pub(super) fn log(&self, why: TransparencyLogError) -> Refusal {
        if let TransparencyLogError::MalformedEntry(detail) = &why {
            if let Some(algorithm) = self.logged_algorithm() {
                return Refusal::new(
                    Reason::Unsupported,
                    "its log entry knows the file by a digest that winimg does not judge here",
                )
                .expected(HashAlgorithm::Sha2256)
                .found(algorithm);
            }
            return Refusal::new(Reason::Malformed, "its log entry cannot be read")
                .found(shown(detail));
        }
        let entries = &self.bundle.verification_material.tlog_entries;
        for entry in entries {
            if let Some(refusal) = self.log_of(entry) {
                return refusal;
            }
        }
        let (fact, detail) = match &why {
            TransparencyLogError::InclusionProof(detail) => (
                "the log's inclusion proof does not lead to the log's root",
                detail,
            ),
            TransparencyLogError::Checkpoint(detail) => (
                "the checkpoint is not signed by the log, or is of another tree",
                detail,
            ),
            TransparencyLogError::InclusionPromise(detail) => (
                "the log's promise does not fit the entry: its time, its place or its content is another",
                detail,
            ),
            TransparencyLogError::EntryMismatch(detail) => {
                ("its log entry is of another signature", detail)
            }
            TransparencyLogError::IntegratedTime(_) => return self.integrated_time(why),
            why => {
                let fact = "the transparency log does not prove it";
                return Refusal::new(Reason::NotLogged, fact).found(shown(why));
            }
        };
        Refusal::new(Reason::NotLogged, fact).found(shown(detail))
    }

    /// Where the log itself does not count: unknown to the trust root, or not in force at that time.
    fn log_of(&self, entry: &TransparencyLogEntry) -> Option<Refusal> {
        let id = &entry.log_id.key_id;
        let Some(key) = self.rule.root.log(id) else {
            let unknown = || {
                Refusal::new(
                    Reason::NotLogged,
                    "its log entry is of a log that the trust root does not name",
                )
                .expected(self.rule.root.logs())
                .found(format!("log {}", hex::encode(id.as_bytes())))
                .cure(NEWER)
            };
            return Some(self.other_root().unwrap_or_else(unknown));
        };
        let time = entry.integrated_time.filter(|at| !in_force(key, *at))?;
        Some(
            Refusal::new(
                Reason::NotLogged,
                "its log entry was made when the log was not in force",
            )
            .found(time),
        )
    }

    fn integrated_time(&self, why: TransparencyLogError) -> Refusal {
        let times = self.times();
        let now = Timestamp::now();
        if let Some(time) = times.iter().find(|t| **t > now) {
            return Refusal::new(Reason::NotYetValid, "the log saw it in the future")
                .expected(format!("before {now}"))
                .found(time)
                .cure("set this machine's clock");
        }
        match (&self.claims, times.first()) {
            (Some(claims), Some(time)) => lifetime(claims, *time),
            _ => Refusal::new(Reason::Expired, "the log saw it at a wrong time").found(shown(why)),
        }
    }

    pub(super) fn time(&self, why: TimestampError) -> Refusal {
        if let Some(refusal) = self.other_root() {
            return refusal;
        }
        match why {
            TimestampError::OutsideAuthorityValidity { time } => Refusal::new(
                Reason::NoTimestamp,
                "its timestamp was made when the timestamp authority was not in force",
            )
            .found(time),
            TimestampError::NoVerifiedTimestamp(_) => {
                Refusal::new(Reason::NoTimestamp, "nobody whom the trust root names says when it was made")
                    .expected("a log entry with time and promise (SET), or an RFC 3161 timestamp")
            }
            TimestampError::Invalid(detail) => Refusal::new(
                Reason::NoTimestamp,
                "its timestamp is not by an authority of the trust root, or is of another signature",
            )
            .found(shown(detail)),
            why => Refusal::new(Reason::NoTimestamp, "its timestamps do not say when it was made")
                .found(shown(why)),
        }
    }

    /// Every time that was said of the signature. Not all are proved: for messages.
    pub(super) fn times(&self) -> Vec<Timestamp> {
        let material = &self.bundle.verification_material;
        let logged = material.tlog_entries.iter();
        let mut times: Vec<_> = logged.filter_map(|e| e.integrated_time).collect();
        let signature = match &self.bundle.content {
            SignatureContent::MessageSignature(message) => &message.signature,
            SignatureContent::DsseEnvelope(envelope) => &envelope.signature.sig,
            _ => return times,
        };
        let authorities = self.rule.root.trusted().tsa_authorities();
        for stamp in &material.timestamp_verification_data.rfc3161_timestamps {
            let stamp = &stamp.signed_timestamp;
            let said = authorities
                .iter()
                .find_map(|a| verify_timestamp_for_authority(stamp, signature, a).ok());
            times.extend(said);
        }
        times
    }
}

pub(super) fn in_force(key: &PublicKey, at: Timestamp) -> bool {
    key.valid_for.is_none_or(|range| range.contains(at))
}
