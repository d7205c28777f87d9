//! What was published for each signature that a recipe asks for, brought together.

use crate::store::{self, Demand};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Located;
use winimg_recipe::recipe::{Address, Locked, Signature};
use winimg_trust::{Evidence, Lists};

use super::Context;
use super::evidence::{Asked, Gathered, LIMIT};

/// Bytes of a list of revoked certificates. Those of the large issuers have a few.
const LONGEST_LIST: u64 = 32 << 20;

/// The signatures of one file, and how to bring them.
pub(super) struct Bring<'a> {
    pub context: &'a Context,
    /// For errors: `kubelet`, or `the checksum file of kubelet`.
    pub what: &'a str,
    pub groups: &'a [Vec<Signature>],
    pub locked: Option<&'a Locked>,
    /// Asked of the network although the store may have them.
    pub anew: bool,
}

/// Whether the file's digest has to be known before its signatures can be brought.
pub(super) fn ask_a_log(groups: &[Vec<Signature>]) -> bool {
    groups.iter().flatten().any(|s| s.log.is_some())
}

impl Bring<'_> {
    /// The evidence of all; one alternative of each group may be lacking where another one is there. `file` is the
    /// SHA-256 of what is signed, for logs.
    pub async fn all(
        &self,
        file: Option<&Digest>,
        gathered: &mut Gathered,
    ) -> Result<Vec<Vec<Demand>>> {
        let mut groups = Vec::with_capacity(self.groups.len());
        let mut errors = Vec::new();
        for group in self.groups {
            match self.group(group, file, gathered).await {
                Ok(demands) => groups.push(demands),
                Err(error) if error.kind() == Kind::Cancelled => return Err(error),
                Err(error) => errors.push(error),
            }
        }
        let kind = errors.first().map(Error::kind);
        match (store::together(self.what, errors), kind) {
            (Some(error), Some(kind)) => Err(error.of_kind(kind)),
            _ => Ok(groups),
        }
    }

    async fn group(
        &self,
        group: &[Signature],
        file: Option<&Digest>,
        gathered: &mut Gathered,
    ) -> Result<Vec<Demand>> {
        let mut demands = Vec::with_capacity(group.len());
        let mut errors = Vec::new();
        for signature in group {
            let (evidence, lacking) = match self.one(signature, file, gathered).await {
                Ok(evidence) => (evidence, None),
                Err(error) if error.kind() == Kind::Cancelled => return Err(error),
                Err(error) => {
                    // It stands behind the scheme's name then.
                    let whose = format!("the signature of {}: ", self.what);
                    let fact = error.fact();
                    let fact = fact.strip_prefix(&whose).unwrap_or(fact).to_string();
                    errors.push(error.from_place(&signature.place));
                    (Evidence::default(), Some(fact))
                }
            };
            demands.push(Demand {
                place: signature.place.clone(),
                rule: signature.rule.clone(),
                evidence,
                from: shown(signature),
                covers: signature.covers.clone(),
                lacking,
            });
        }
        if errors.len() < demands.len() {
            return Ok(demands);
        }
        if errors.len() == 1 {
            return Err(errors.remove(0));
        }
        let kind = errors.first().map_or(Kind::Unproved, Error::kind);
        let fact = format!(
            "none of the {} alternative signatures of {} could be fetched",
            errors.len(),
            self.what
        );
        let error = Error::of_several(kind, fact, &errors);
        Err(match group.first() {
            Some(first) => error.from_place(&first.place),
            None => error,
        })
    }

    async fn one(
        &self,
        signature: &Signature,
        file: Option<&Digest>,
        gathered: &mut Gathered,
    ) -> Result<Evidence> {
        let mut evidence = Evidence::default();
        if let Some(url) = &signature.url {
            let bytes = self.piece("signature", url, gathered).await?;
            evidence.signature = Some(bytes);
        }
        if let Some(url) = &signature.certificate {
            let bytes = self.piece("certificate", url, gathered).await?;
            evidence.certificate = Some(bytes);
        }
        let loose = evidence
            .signature
            .as_ref()
            .zip(evidence.certificate.as_ref());
        if let (Some(log), Some(file), Some((bytes, certificate))) = (&signature.log, file, loose) {
            let asked = self.asked("signature");
            let entry = asked
                .log_entry(&log.value, file, bytes, certificate, gathered)
                .await?;
            evidence.log_entry = Some(entry);
        }
        if !signature.crls.is_empty() {
            evidence.lists = Some(self.lists(signature, gathered).await?);
        }
        Ok(evidence)
    }

    /// The lists of revoked certificates. Those of a lock hold as old as they are.
    async fn lists(&self, signature: &Signature, gathered: &mut Gathered) -> Result<Lists> {
        let mut lists = Lists {
            lists: Vec::new(),
            are_locked: true,
        };
        for url in &signature.crls {
            let mut asked = self.asked("list of revoked certificates");
            asked.limit = LONGEST_LIST;
            // The one of an earlier run may hold still, and say nothing of what was revoked since.
            asked.anew = true;
            let bytes = asked.bring(&url.value, gathered).await?;
            let locked = self
                .locked
                .and_then(|l| l.evidence.get(&url.value.recorded()));
            lists.are_locked &= locked == Some(&Digest::sha256_of(&bytes));
            lists.lists.push(bytes);
        }
        Ok(lists)
    }

    async fn piece(
        &self,
        kind: &str,
        url: &Located<Address>,
        gathered: &mut Gathered,
    ) -> Result<Vec<u8>> {
        self.asked(kind).bring(&url.value, gathered).await
    }

    fn asked<'k>(&'k self, kind: &'k str) -> Asked<'k> {
        Asked {
            context: self.context,
            watch: self.context.watch(&format!("the {kind} of {}", self.what)),
            locked: self.locked,
            limit: LIMIT,
            missing: Kind::Unproved,
            called: kind,
            anew: self.anew,
        }
    }
}

fn shown(signature: &Signature) -> Option<String> {
    Some(signature.url.as_ref()?.value.to_string())
}
