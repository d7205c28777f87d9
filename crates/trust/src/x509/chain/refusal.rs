//! Explains why a chain is not valid: the expected root, the end of the chain, and the time of the
//! check.

use webpki::Error;

use super::super::certificate::Certificate;
use super::super::purpose::CertificateUse;
use super::super::tlv::TlvWalk;
use super::super::{algorithm, name};
use super::{CheckTime, TimeSource, describe_root};
use crate::{RefusalReason, SignatureRefusal};

/// Maximum number of issuers listed for a chain.
const MAX_ISSUERS_SHOWN: usize = 8;

/// The inputs of the verification.
pub(super) struct ChainCase<'c> {
    pub(super) leaf: &'c Certificate<'c>,
    pub(super) set: &'c [&'c [u8]],
    pub(super) roots: &'c [Vec<u8>],
    pub(super) at: CheckTime,
    pub(super) wanted: CertificateUse,
}

impl ChainCase<'_> {
    pub(super) fn to_refusal(&self, error: &Error) -> SignatureRefusal {
        match error {
            Error::CertExpired { .. } => self.refuse_time(RefusalReason::Expired),
            Error::CertNotValidYet { .. } => self.refuse_time(RefusalReason::NotYetValid),
            Error::InvalidSignatureForPublicKey => match self.shortest_key() {
                Some(bits) if bits < algorithm::SHORTEST_RSA => algorithm::short_key(bits),
                _ => self.other_root("its chain names an authority that did not sign it"),
            },
            Error::UnknownIssuer => {
                self.other_root("its certificate is not issued under any of the recipe's roots")
            }
            Error::UnsupportedSignatureAlgorithmContext(context) => {
                let oid = TlvWalk::new(&context.signature_algorithm_id, "an algorithm")
                    .and_then(|mut w| w.read_oid());
                let oid = oid.map_or_else(
                    |_| hex::encode(&context.signature_algorithm_id),
                    |oid| oid.to_string(),
                );
                algorithm::refuse_algorithm(&oid)
                    .with_prefix("a certificate of its chain is not accepted: ")
                    .found(format_args!("{oid}, in {}", self.issued_by()))
            }
            Error::EmptyEkuExtension => {
                let wanted = self.wanted.describe();
                RefusalReason::WrongUse
                    .refusal(format!("an authority of its chain is not for {wanted}"))
                    .expected(format_args!("an EKU for {wanted}"))
                    .found(self.issued_by())
            }
            Error::CaUsedAsEndEntity => RefusalReason::WrongUse
                .refusal("its certificate is that of an authority, not of a signer")
                .found(self.leaf.subject_text()),
            Error::EndEntityUsedAsCa => RefusalReason::WrongUse
                .refusal("a certificate of its chain is not that of an authority")
                .found(self.issued_by()),
            Error::PathLenConstraintViolated | Error::NameConstraintViolation => {
                let fact = "an authority of its chain may not issue this certificate: its \
                    constraints limit the depth or the names";
                RefusalReason::WrongUse
                    .refusal(fact)
                    .found(self.issued_by())
            }
            // Some check failed in a chain that does not lead to any of the recipe's roots.
            _ if !self.leads_to_root() => {
                self.other_root("its certificate is not issued under any of the recipe's roots")
            }
            other => {
                let fact = "its chain is not supported";
                RefusalReason::Unsupported
                    .refusal(format!("{fact}: {other:?}"))
                    .found(self.issued_by())
            }
        }
    }

    /// Returns true if a root has the name of an authority above the leaf.
    fn leads_to_root(&self) -> bool {
        let roots: Vec<Vec<u8>> = self
            .roots
            .iter()
            .filter_map(|der| Some(Certificate::read(der).ok()?.subject.to_vec()))
            .collect();
        let mut issuers = vec![self.leaf.issuer.to_vec()];
        let mut next = 0;
        while let Some(issuer) = issuers.get(next).cloned() {
            next += 1;
            if roots.contains(&issuer) {
                return true;
            }
            let new: Vec<Vec<u8>> = self
                .set
                .iter()
                .filter_map(|der| Certificate::read(der).ok())
                .filter(|c| c.subject == issuer)
                .map(|c| c.issuer.to_vec())
                .filter(|i| !issuers.contains(i))
                .collect();
            issuers.extend(new);
        }
        false
    }

    pub(super) fn other_root(&self, fact: &str) -> SignatureRefusal {
        let expected: Vec<String> = self.roots.iter().map(|der| describe_root(der)).collect();
        let key = if self.wanted == CertificateUse::TimeStamping {
            "timestamp_roots"
        } else {
            "roots"
        };
        RefusalReason::OtherRoot
            .refusal(fact)
            .expected(if expected.is_empty() {
                "a root, but the recipe names none".into()
            } else {
                expected.join(" or ")
            })
            .found(self.issued_by())
            .cure(format!(
                "if this authority is trusted, add its root to `{key}`"
            ))
    }

    /// Returns the refusal of a chain in which the leaf or an authority is not valid at that time.
    fn refuse_time(&self, reason: RefusalReason) -> SignatureRefusal {
        let (at, leaf) = (self.at, self.leaf);
        let own = self.is_outside(leaf, reason);
        let mut all = self
            .set
            .iter()
            .filter_map(|der| Certificate::read(der).ok());
        let other = if own {
            None
        } else {
            all.find(|c| self.is_outside(c, reason))
        };
        let which = other.unwrap_or_else(|| leaf.clone());
        let whose = if own {
            "its certificate"
        } else {
            "a certificate of its chain"
        };
        let fact = match reason {
            RefusalReason::Expired => format!("{whose} had expired when it was used"),
            _ => format!("{whose} was not valid yet when it was used"),
        };
        let span = format!("from {} to {}", which.not_before, which.not_after);
        let refusal = reason
            .refusal(fact)
            .expected(format_args!("a time {span}, for {}", which.subject_text()))
            .found(at);
        match (reason, at.by) {
            (RefusalReason::Expired, TimeSource::Present) => {
                refusal.cure("use a file whose signature has a timestamp")
            }
            _ => refusal,
        }
    }

    fn is_outside(&self, certificate: &Certificate<'_>, reason: RefusalReason) -> bool {
        match reason {
            RefusalReason::Expired => self.at.moment > certificate.not_after,
            _ => self.at.moment < certificate.not_before,
        }
    }

    fn shortest_key(&self) -> Option<usize> {
        self.set
            .iter()
            .copied()
            .chain(self.roots.iter().map(Vec::as_slice))
            .filter_map(|der| Certificate::read(der).ok()?.rsa_bits)
            .min()
    }

    /// Renders `CN=Leaf, issued by CN=Authority, issued by CN=Root`, as far as the certificates are
    /// known.
    fn issued_by(&self) -> String {
        let mut text = self.leaf.subject_text();
        let mut at = self.leaf.clone();
        for _ in 0..MAX_ISSUERS_SHOWN {
            if at.is_self_issued() {
                break;
            }
            text.push_str(&format!(", issued by {}", name::render_name(at.issuer)));
            let mut all = self
                .set
                .iter()
                .filter_map(|der| Certificate::read(der).ok());
            match all.find(|c| c.subject == at.issuer) {
                Some(issuer) => at = issuer,
                None => break,
            }
        }
        text
    }
}
