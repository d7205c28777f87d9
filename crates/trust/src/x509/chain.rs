//! Verifies the chain from a signer's certificate to a root in the recipe, at one moment, for one
//! use.
//!
//! rustls-webpki builds and verifies the chain; this module adds the policy: the leaf must state
//! its use, and a refusal names the expected root and the end of the chain. Revocation is checked
//! in `revocation`. (RFC 5280)

mod policies;
mod refusal;

use std::fmt;

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, VerifiedPath, anchor_from_trusted_cert};

use self::refusal::ChainCase;
use super::certificate::Certificate;
use super::moment::Moment;
use super::purpose::{CertificateUse, PurposeValidator};
use crate::{RefusalReason, SignatureRefusal};
use winimg_base::digest::Digest;

/// The moment at which the chain must be valid.
#[derive(Clone, Copy, Debug)]
pub struct CheckTime {
    pub moment: Moment,
    pub by: TimeSource,
}

/// Source of a [`CheckTime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    Timestamp,
    /// The current time, because there is no timestamp.
    Present,
    /// The current time, because the certificate disallows timestamps (lifetime signing).
    Lifetime,
}

/// A valid chain.
#[derive(Clone, Debug)]
pub struct VerifiedChain {
    /// The root: `root sha256:… (CN=…)`.
    pub root: String,
    /// SHA-256 of each certificate between leaf and root.
    pub issuers: Vec<Digest>,
    /// DER from the leaf to the root.
    pub path: Vec<Vec<u8>>,
}

impl VerifiedChain {
    /// Returns the SHA-256 of every certificate in it, and of the recipe's roots.
    pub fn hash_certificates(&self, roots: &[Vec<u8>]) -> Vec<Digest> {
        self.path
            .iter()
            .chain(roots)
            .map(|der| Digest::sha256_of(der))
            .collect()
    }
}

impl fmt::Display for CheckTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.by {
            TimeSource::Timestamp => "its timestamp",
            TimeSource::Present => "the current time, because it has no timestamp",
            TimeSource::Lifetime => {
                "the current time, because its certificate disallows timestamps"
            }
        };
        write!(f, "{} ({source})", self.moment)
    }
}

/// Renders a root for refusals and records.
pub fn describe_root(der: &[u8]) -> String {
    let subject = Certificate::read(der)
        .map_or_else(|_| "not a certificate".to_string(), |c| c.subject_text());
    format!("root {} ({subject})", Digest::sha256_of(der))
}

/// Verifies a chain from `leaf` through certificates of `set` to one of `roots`. With `through`, a
/// chain that includes that certificate is preferred.
pub fn verify(
    leaf: &Certificate<'_>,
    set: &[&[u8]],
    roots: &[Vec<u8>],
    at: CheckTime,
    wanted: CertificateUse,
    through: Option<&[u8; 32]>,
) -> Result<VerifiedChain, SignatureRefusal> {
    wanted.check(leaf)?;
    let case = ChainCase {
        leaf,
        set,
        roots,
        at,
        wanted,
    };
    if leaf.is_self_issued() && !roots.iter().any(|root| root == leaf.der) {
        return Err(
            case.other_root("its certificate is self-signed and not one of the recipe's roots")
        );
    }
    let ders: Vec<CertificateDer<'_>> = roots.iter().map(|r| r.as_slice().into()).collect();
    let set_ders: Vec<CertificateDer<'_>> = set.iter().map(|der| (*der).into()).collect();
    let mut anchors = Vec::new();
    for (der, root) in ders.iter().zip(roots) {
        let trusted = anchor_from_trusted_cert(der).map_err(|e| {
            let fact = "a root of the recipe is not supported";
            RefusalReason::Unsupported.refusal(format!("{fact}: {e:?}"))
        })?;
        anchors.push(ChainAnchor {
            trusted,
            root,
            authority: None,
        });
    }
    for (der, authority) in set_ders.iter().zip(set) {
        if let Some(root) = policies::root_of(&case, authority)
            && let Ok(trusted) = anchor_from_trusted_cert(der)
        {
            anchors.push(ChainAnchor {
                trusted,
                root,
                authority: Some(authority),
            });
        }
    }
    // Prefer a chain through the pinned issuer; without one, the caller reports the issuers found.
    let built = match through {
        Some(_) => {
            build_chain(&case, &anchors, through).or_else(|_| build_chain(&case, &anchors, None))
        }
        None => build_chain(&case, &anchors, None),
    };
    let chain = built.map_err(|error| case.to_refusal(&error))?;
    check_issuers(set, &chain.issuers)?;
    Ok(chain)
}

/// A possible end of a chain.
struct ChainAnchor<'a> {
    trusted: TrustAnchor<'a>,
    /// DER of the root.
    root: &'a [u8],
    /// DER of the authority that is used in place of the root that issued it.
    authority: Option<&'a [u8]>,
}

impl ChainAnchor<'_> {
    /// Returns the SHA-256 of each certificate between the leaf and the root.
    fn hash_issuers(&self, path: &VerifiedPath<'_>) -> Vec<Digest> {
        path.intermediate_certificates()
            .map(|c| Digest::sha256_of(&c.der()))
            .chain(self.authority.map(Digest::sha256_of))
            .collect()
    }
}

fn build_chain(
    case: &ChainCase<'_>,
    anchors: &[ChainAnchor<'_>],
    through: Option<&[u8; 32]>,
) -> Result<VerifiedChain, Error> {
    let leaf = CertificateDer::from(case.leaf.der);
    let between: Vec<CertificateDer<'_>> = case
        .set
        .iter()
        .filter(|der| **der != case.leaf.der)
        .map(|der| CertificateDer::from(*der))
        .collect();
    let passes = |path: &VerifiedPath<'_>| {
        let anchor = find_anchor(anchors, path)?;
        if anchor.authority.is_some() && path.intermediate_certificates().next().is_some() {
            return Err(Error::PathLenConstraintViolated);
        }
        match through {
            Some(pin) if !anchor.hash_issuers(path).iter().any(|d| d.bytes() == pin) => {
                Err(Error::UnknownIssuer)
            }
            _ => Ok(()),
        }
    };
    let trusted: Vec<_> = anchors.iter().map(|a| a.trusted.clone()).collect();
    let entity = EndEntityCert::try_from(&leaf)?;
    let path = entity.verify_for_usage(
        ALL_VERIFICATION_ALGS,
        &trusted,
        &between,
        UnixTime::since_unix_epoch(case.at.moment.since_1970()),
        PurposeValidator(case.wanted),
        None,
        Some(&passes),
    )?;
    let anchor = find_anchor(anchors, &path)?;
    let issuers = anchor.hash_issuers(&path);
    let between = path.intermediate_certificates().map(|c| c.der().to_vec());
    let leaf = std::iter::once(case.leaf.der.to_vec());
    let mut path: Vec<Vec<u8>> = leaf.chain(between).collect();
    path.extend(anchor.authority.map(<[u8]>::to_vec));
    // The leaf may be the root itself.
    if path.last().is_none_or(|last| last != anchor.root) {
        path.push(anchor.root.to_vec());
    }
    Ok(VerifiedChain {
        root: describe_root(anchor.root),
        issuers,
        path,
    })
}

/// Returns the anchor at the end of a chain.
fn find_anchor<'s, 'a>(
    anchors: &'s [ChainAnchor<'a>],
    path: &VerifiedPath<'_>,
) -> Result<&'s ChainAnchor<'a>, Error> {
    let mut anchors = anchors.iter();
    let anchor = anchors.find(|anchor| anchor.trusted == *path.anchor());
    anchor.ok_or(Error::UnknownIssuer)
}

/// Checks that the certificates between leaf and root may sign certificates, because webpki ignores
/// keyUsage.
fn check_issuers(set: &[&[u8]], issuers: &[Digest]) -> Result<(), SignatureRefusal> {
    for der in set
        .iter()
        .filter(|der| issuers.contains(&Digest::sha256_of(der)))
    {
        let issuer = Certificate::read(der)?;
        if !issuer.may_certify() {
            return Err(RefusalReason::WrongUse
                .refusal("a certificate of its chain may not sign certificates")
                .expected("the key usage keyCertSign")
                .found(format_args!("{} without it", issuer.subject_text())));
        }
    }
    Ok(())
}
