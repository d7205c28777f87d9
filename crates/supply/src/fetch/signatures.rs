//! Fetches the published evidence of each signature that a recipe requires.

use crate::store::{self, SignatureDemand};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Located;
use winimg_recipe::{FileAddress, LockedInput, SignatureSpec};
use winimg_trust::{RevocationLists, SignatureEvidence};

use super::FetchContext;
use super::evidence::{EvidenceRequest, GatheredEvidence, LIMIT};

/// Maximum size of a certificate revocation list in bytes. Those of large issuers have a few MiB.
const MAX_CRL_SIZE: u64 = 32 << 20;

/// The signatures of one file, and how to fetch them.
pub(super) struct SignatureFetcher<'a> {
    pub context: &'a FetchContext,
    /// For errors: `kubelet`, or `the checksum file of kubelet`.
    pub what: &'a str,
    pub groups: &'a [Vec<SignatureSpec>],
    pub locked: Option<&'a LockedInput>,
    /// Fetch from the network even if the store has them.
    pub refetch: bool,
}

/// Returns true if the file's digest must be known before its signatures can be fetched.
pub(super) fn needs_log(groups: &[Vec<SignatureSpec>]) -> bool {
    groups.iter().flatten().any(|s| s.log.is_some())
}

impl SignatureFetcher<'_> {
    /// Fetches the evidence of all groups. In each group an alternative may be missing if another
    /// one is there. `file` is the SHA-256 of the signed file, for logs.
    pub async fn fetch_all(
        &self,
        file: Option<&Digest>,
        gathered: &mut GatheredEvidence,
    ) -> Result<Vec<Vec<SignatureDemand>>> {
        let mut groups = Vec::with_capacity(self.groups.len());
        let mut errors = Vec::new();
        for group in self.groups {
            match self.fetch_group(group, file, gathered).await {
                Ok(demands) => groups.push(demands),
                Err(error) if error.kind() == Kind::Cancelled => return Err(error),
                Err(error) => errors.push(error),
            }
        }
        let kind = errors.first().map(Error::kind);
        match (store::merge_errors(self.what, errors), kind) {
            (Some(error), Some(kind)) => Err(error.with_kind(kind)),
            _ => Ok(groups),
        }
    }

    async fn fetch_group(
        &self,
        group: &[SignatureSpec],
        file: Option<&Digest>,
        gathered: &mut GatheredEvidence,
    ) -> Result<Vec<SignatureDemand>> {
        let mut demands = Vec::with_capacity(group.len());
        let mut errors = Vec::new();
        for signature in group {
            let (evidence, lacking) = match self.fetch_one(signature, file, gathered).await {
                Ok(evidence) => (evidence, None),
                Err(error) if error.kind() == Kind::Cancelled => return Err(error),
                Err(error) => {
                    // The caller adds the scheme's name in its place.
                    let prefix = format!("the signature of {}: ", self.what);
                    let fact = error.fact();
                    let fact = fact.strip_prefix(&prefix).unwrap_or(fact).to_string();
                    errors.push(error.or_place(&signature.place));
                    (SignatureEvidence::default(), Some(fact))
                }
            };
            demands.push(SignatureDemand {
                place: signature.place.clone(),
                rule: signature.rule.clone(),
                evidence,
                from: describe_source(signature),
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
        let error = Error::from_several(kind, fact, &errors);
        Err(match group.first() {
            Some(first) => error.or_place(&first.place),
            None => error,
        })
    }

    async fn fetch_one(
        &self,
        signature: &SignatureSpec,
        file: Option<&Digest>,
        gathered: &mut GatheredEvidence,
    ) -> Result<SignatureEvidence> {
        let mut evidence = SignatureEvidence::default();
        if let Some(url) = &signature.url {
            let bytes = self.fetch_piece("signature", url, gathered).await?;
            evidence.signature = Some(bytes);
        }
        if let Some(url) = &signature.certificate {
            let bytes = self.fetch_piece("certificate", url, gathered).await?;
            evidence.certificate = Some(bytes);
        }
        let loose = evidence
            .signature
            .as_ref()
            .zip(evidence.certificate.as_ref());
        if let (Some(log), Some(file), Some((bytes, certificate))) = (&signature.log, file, loose) {
            let request = self.make_request("signature");
            let entry = request
                .fetch_log_entry(&log.value, file, bytes, certificate, gathered)
                .await?;
            evidence.log_entry = Some(entry);
        }
        if !signature.crls.is_empty() {
            evidence.lists = Some(self.fetch_crls(signature, gathered).await?);
        }
        Ok(evidence)
    }

    /// Fetches the certificate revocation lists. Lists named in a lock stay valid at any age.
    async fn fetch_crls(
        &self,
        signature: &SignatureSpec,
        gathered: &mut GatheredEvidence,
    ) -> Result<RevocationLists> {
        let mut lists = RevocationLists {
            lists: Vec::new(),
            are_locked: true,
        };
        for url in &signature.crls {
            let mut request = self.make_request("list of revoked certificates");
            request.limit = MAX_CRL_SIZE;
            // A stored list may still be valid, but does not contain later revocations.
            request.refetch = true;
            let bytes = request.fetch(&url.value, gathered).await?;
            let locked = self
                .locked
                .and_then(|l| l.evidence.get(&url.value.to_recorded()));
            lists.are_locked &= locked == Some(&Digest::sha256_of(&bytes));
            lists.lists.push(bytes);
        }
        Ok(lists)
    }

    async fn fetch_piece(
        &self,
        kind: &str,
        url: &Located<FileAddress>,
        gathered: &mut GatheredEvidence,
    ) -> Result<Vec<u8>> {
        self.make_request(kind).fetch(&url.value, gathered).await
    }

    fn make_request<'k>(&'k self, kind: &'k str) -> EvidenceRequest<'k> {
        EvidenceRequest {
            context: self.context,
            watch: self.context.watch(&format!("the {kind} of {}", self.what)),
            locked: self.locked,
            limit: LIMIT,
            missing: Kind::Unproved,
            called: kind,
            refetch: self.refetch,
        }
    }
}

fn describe_source(signature: &SignatureSpec) -> Option<String> {
    Some(signature.url.as_ref()?.value.to_string())
}
