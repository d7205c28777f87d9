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
                let fact =
                    "its log entry knows the file by a digest that winimg does not judge here";
                return Reason::Unsupported
                    .refusal(fact)
                    .expected(HashAlgorithm::Sha2256)
                    .found(algorithm);
            }
            return Reason::Malformed
                .refusal("its log entry cannot be read")
                .found(shown(detail));
        }
        let mut entries = self.bundle.verification_material.tlog_entries.iter();
        if let Some(refusal) = entries.find_map(|entry| self.log_of(entry)) {
            return refusal;
        }
        let refusal = |fact, detail: &String| Reason::NotLogged.refusal(fact).found(shown(detail));
        match &why {
            TransparencyLogError::InclusionProof(detail) => {
                let fact = "the log's inclusion proof does not lead to the log's root";
                refusal(fact, detail)
            }
            TransparencyLogError::Checkpoint(detail) => {
                let fact = "the checkpoint is not signed by the log, or is of another tree";
                refusal(fact, detail)
            }
            TransparencyLogError::InclusionPromise(detail) => {
                let fact = "the log's promise does not fit the entry: its time, its place or its content is another";
                refusal(fact, detail)
            }
            TransparencyLogError::EntryMismatch(detail) => {
                refusal("its log entry is of another signature", detail)
            }
            TransparencyLogError::IntegratedTime(_) => self.integrated_time(why),
            why => refusal("the transparency log does not prove it", &why.to_string()),
        }
    }

    /// Where the log itself does not count: unknown to the trust root, or not in force at that time.
    fn log_of(&self, entry: &TransparencyLogEntry) -> Option<Refusal> {
        let id = &entry.log_id.key_id;
        let Some(key) = self.rule.root.log(id) else {
            let unknown = || {
                Reason::NotLogged
                    .refusal("its log entry is of a log that the trust root does not name")
                    .expected(self.rule.root.logs())
                    .found(format!("log {}", hex::encode(id.as_bytes())))
                    .cure(NEWER)
            };
            return Some(self.other_root().unwrap_or_else(unknown));
        };
        let time = entry.integrated_time.filter(|at| !in_force(key, *at))?;
        Some(
            Reason::NotLogged
                .refusal("its log entry was made when the log was not in force")
                .found(time),
        )
    }

    fn integrated_time(&self, why: TransparencyLogError) -> Refusal {
        let times = self.times();
        let now = Timestamp::now();
        if let Some(time) = times.iter().find(|t| **t > now) {
            return Reason::NotYetValid
                .refusal("the log saw it in the future")
                .expected(format!("before {now}"))
                .found(time)
                .cure("set this machine's clock");
        }
        match (&self.claims, times.first()) {
            (Some(claims), Some(time)) => lifetime(claims, *time),
            _ => Reason::Expired
                .refusal("the log saw it at a wrong time")
                .found(shown(why)),
        }
    }

    pub(super) fn time(&self, why: TimestampError) -> Refusal {
        if let Some(refusal) = self.other_root() {
            return refusal;
        }
        match why {
            TimestampError::OutsideAuthorityValidity { time } => Reason::NoTimestamp
                .refusal("its timestamp was made when the timestamp authority was not in force")
                .found(time),
            TimestampError::NoVerifiedTimestamp(_) => Reason::NoTimestamp
                .refusal("nobody whom the trust root names says when it was made")
                .expected("a log entry with time and promise (SET), or an RFC 3161 timestamp"),
            TimestampError::Invalid(detail) => {
                let fact = "its timestamp is not by an authority of the trust root, or is of another signature";
                Reason::NoTimestamp.refusal(fact).found(shown(detail))
            }
            why => Reason::NoTimestamp
                .refusal("its timestamps do not say when it was made")
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
        let authorities = self.rule.root.trusted.tsa_authorities();
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
