//! Why a chain does not hold, in words: which root was expected and where the chain ends instead, and which time counted.

use webpki::Error;

use super::super::algorithm;
use super::super::certificate::Certificate;
use super::super::purpose::Use;
use super::super::tlv::Walk;
use super::super::{Reason, Refusal, name};
use super::{At, Clock, root_text};

/// How far a chain is followed to say where it ends.
const LONGEST: usize = 8;

/// What was to be proved.
pub(super) struct Case<'c> {
    pub(super) leaf: &'c Certificate<'c>,
    pub(super) set: &'c [&'c [u8]],
    pub(super) roots: &'c [Vec<u8>],
    pub(super) at: At,
    pub(super) wanted: Use,
}

impl Case<'_> {
    pub(super) fn refusal(&self, error: &Error) -> Refusal {
        match error {
            Error::CertExpired { .. } => self.outside(Reason::Expired),
            Error::CertNotValidYet { .. } => self.outside(Reason::NotYetValid),
            Error::InvalidSignatureForPublicKey => match self.shortest_key() {
                Some(bits) if bits < algorithm::SHORTEST_RSA => algorithm::short_key(bits),
                _ => {
                    self.other_root("its chain bears the name of an authority that did not sign it")
                }
            },
            Error::UnknownIssuer => {
                self.other_root("its certificate does not come from a root that the recipe names")
            }
            Error::UnsupportedSignatureAlgorithmContext(context) => {
                let oid = Walk::new(&context.signature_algorithm_id, "an algorithm")
                    .and_then(|mut w| w.oid());
                let oid = oid.map_or_else(
                    |_| hex::encode(&context.signature_algorithm_id),
                    |oid| oid.to_string(),
                );
                let mut refusal = algorithm::refused(&oid);
                let words = "a certificate of its chain was not taken: ";
                refusal.problem = refusal.problem.prefixed(words);
                refusal.found(format_args!("{oid}, in {}", self.issued_by()))
            }
            Error::EmptyEkuExtension => {
                let wanted = self.wanted.words();
                Reason::WrongUse
                    .refusal(format!("an authority of its chain is not one for {wanted}"))
                    .expected(format_args!("an EKU for {wanted}"))
                    .found(self.issued_by())
            }
            Error::CaUsedAsEndEntity => Reason::WrongUse
                .refusal("its certificate is an authority's, not a signer's")
                .found(self.leaf.subject_text()),
            Error::EndEntityUsedAsCa => Reason::WrongUse
                .refusal("a certificate of its chain is no authority's")
                .found(self.issued_by()),
            Error::PathLenConstraintViolated | Error::NameConstraintViolation => {
                let fact = "an authority of its chain may not vouch for this one: its certificate bounds how many are below it, or whose";
                Reason::WrongUse.refusal(fact).found(self.issued_by())
            }
            // Some check failed on the way to a certificate that no root of the recipe is above.
            _ if !self.leads_to_root() => {
                self.other_root("its certificate does not come from a root that the recipe names")
            }
            other => {
                let fact = "its chain is not one that winimg can judge";
                Reason::Unsupported
                    .refusal(format!("{fact}: {other:?}"))
                    .found(self.issued_by())
            }
        }
    }

    /// Whether a root has the name of an authority above the leaf.
    fn leads_to_root(&self) -> bool {
        let subject_of = |der: &[u8]| Certificate::read(der).ok().map(|c| c.subject.to_vec());
        let roots: Vec<Vec<u8>> = self
            .roots
            .iter()
            .filter_map(|der| subject_of(der))
            .collect();
        let mut issuers = vec![self.leaf.issuer.to_vec()];
        let mut next = 0;
        while let Some(issuer) = issuers.get(next).cloned() {
            next += 1;
            if roots.contains(&issuer) {
                return true;
            }
            let above = self
                .set
                .iter()
                .filter_map(|der| Certificate::read(der).ok());
            let above = above
                .filter(|c| c.subject == issuer)
                .map(|c| c.issuer.to_vec());
            let new: Vec<Vec<u8>> = above.filter(|i| !issuers.contains(i)).collect();
            issuers.extend(new);
        }
        false
    }

    pub(super) fn other_root(&self, fact: &str) -> Refusal {
        let expected: Vec<String> = self.roots.iter().map(|der| root_text(der)).collect();
        let key = if self.wanted == Use::TimeStamping {
            "timestamp_roots"
        } else {
            "roots"
        };
        Reason::OtherRoot
            .refusal(fact)
            .expected(if expected.is_empty() {
                "a root, but none is named".into()
            } else {
                expected.join(" or ")
            })
            .found(self.issued_by())
            .cure(format!(
                "if this authority is meant, name its root in `{key}`"
            ))
    }

    /// The leaf or a certificate above it does not hold at that time.
    fn outside(&self, reason: Reason) -> Refusal {
        let (at, leaf) = (self.at, self.leaf);
        let is_out = |c: &Certificate<'_>| match reason {
            Reason::Expired => at.moment > c.not_after,
            _ => at.moment < c.not_before,
        };
        let own = is_out(leaf);
        let mut all = self
            .set
            .iter()
            .filter_map(|der| Certificate::read(der).ok());
        let other = if own { None } else { all.find(|c| is_out(c)) };
        let which = other.unwrap_or_else(|| leaf.clone());
        let whose = if own {
            "its certificate"
        } else {
            "a certificate of its chain"
        };
        let fact = match reason {
            Reason::Expired => format!("{whose} had expired when it was used"),
            _ => format!("{whose} was not valid yet when it was used"),
        };
        let span = format!("from {} to {}", which.not_before, which.not_after);
        let refusal = reason
            .refusal(fact)
            .expected(format_args!("a time {span}, for {}", which.subject_text()))
            .found(at);
        match (reason, at.by) {
            (Reason::Expired, Clock::Present) => {
                refusal.cure("take a file whose signature carries a timestamp")
            }
            _ => refusal,
        }
    }

    fn shortest_key(&self) -> Option<usize> {
        let roots = self.roots.iter().map(Vec::as_slice);
        let all = self.set.iter().copied().chain(roots);
        all.filter_map(|der| Certificate::read(der).ok()?.rsa_bits)
            .min()
    }

    /// `CN=Leaf, issued by CN=Authority, issued by CN=Root`, as far as the certificates beside it show.
    fn issued_by(&self) -> String {
        let mut text = self.leaf.subject_text();
        let mut at = self.leaf.clone();
        for _ in 0..LONGEST {
            if at.is_self_issued() {
                break;
            }
            text.push_str(&format!(", issued by {}", name::shown(at.issuer)));
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
