//! From a signer's certificate to a root that the recipe names, at one moment, for one use.
//!
//! rustls-webpki builds and proves the chain; what stands here is the policy: the use has to be said on the leaf, and a
//! refusal says which root was expected and where the chain ends instead. Whether it is revoked is `revocation`'s. (RFC 5280)

mod policies;
mod refusal;

use std::fmt;

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, VerifiedPath, anchor_from_trusted_cert};

use self::refusal::Case;
use super::certificate::Certificate;
use super::moment::Moment;
use super::purpose::{Purposes, Use};
use super::{Reason, Refusal};
use winimg_base::digest::Digest;

/// When the chain has to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) moment: Moment,
    pub(super) by: Clock,
}

/// Who says what time it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Timestamp,
    /// The present, for want of a timestamp.
    Present,
    /// The present, for the certificate says that a timestamp does not lengthen its life.
    Lifetime,
}

/// A chain that holds.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// The root: `root sha256:… (CN=…)`.
    pub(super) root: String,
    /// SHA-256 of each certificate between leaf and root.
    pub(super) issuers: Vec<Digest>,
    /// DER from the leaf to the root.
    pub(super) path: Vec<Vec<u8>>,
}

impl Chain {
    /// SHA-256 of every certificate that has its part in it, and of the recipe's roots.
    pub(super) fn used(&self, roots: &[Vec<u8>]) -> Vec<Digest> {
        let all = self.path.iter().chain(roots);
        all.map(|der| Digest::sha256_of(der)).collect()
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.by {
            Clock::Timestamp => "its timestamp",
            Clock::Present => "the present, as it has no timestamp",
            Clock::Lifetime => "the present, as its certificate lets no timestamp count",
        };
        write!(f, "{} ({whose})", self.moment)
    }
}

/// A root as refusals and records name it.
pub(super) fn root_text(der: &[u8]) -> String {
    let subject = Certificate::read(der)
        .map_or_else(|_| "not a certificate".to_string(), |c| c.subject_text());
    format!("root {} ({subject})", Digest::sha256_of(der))
}

/// Proves a chain from `leaf` by certificates of `set` to one of `roots`. With `through`, it has to pass that certificate.
pub(super) fn verify(
    leaf: &Certificate<'_>,
    set: &[&[u8]],
    roots: &[Vec<u8>],
    at: At,
    wanted: Use,
    through: Option<&[u8; 32]>,
) -> Result<Chain, Refusal> {
    wanted.check(leaf)?;
    let case = Case {
        leaf,
        set,
        roots,
        at,
        wanted,
    };
    if leaf.is_self_issued() && !roots.iter().any(|root| root == leaf.der) {
        return Err(case.other_root("its certificate is self-signed, so nobody vouches for it"));
    }
    let ders: Vec<CertificateDer<'_>> = roots.iter().map(|r| r.as_slice().into()).collect();
    let set_ders: Vec<CertificateDer<'_>> = set.iter().map(|der| (*der).into()).collect();
    let mut anchors = Vec::new();
    for (der, root) in ders.iter().zip(roots) {
        let trusted = anchor_from_trusted_cert(der).map_err(|e| {
            let fact = "a root of the recipe is not one that winimg can judge by";
            Reason::Unsupported.refusal(format!("{fact}: {e:?}"))
        })?;
        anchors.push(Anchor {
            trusted,
            root,
            authority: None,
        });
    }
    for (der, authority) in set_ders.iter().zip(set) {
        if let Some(root) = policies::root_of(&case, authority)
            && let Ok(trusted) = anchor_from_trusted_cert(der)
        {
            anchors.push(Anchor {
                trusted,
                root,
                authority: Some(authority),
            });
        }
    }
    // A chain through the pinned issuer first; where there is none, the caller says which ones there are.
    let proved = match through {
        Some(_) => prove(&case, &anchors, through).or_else(|_| prove(&case, &anchors, None)),
        None => prove(&case, &anchors, None),
    };
    let chain = proved.map_err(|error| case.refusal(&error))?;
    certifiers(set, &chain.issuers)?;
    Ok(chain)
}

/// Where a chain may end.
struct Anchor<'a> {
    trusted: TrustAnchor<'a>,
    /// DER of the root.
    root: &'a [u8],
    /// DER of the authority that stands in for the root that issued it.
    authority: Option<&'a [u8]>,
}

impl Anchor<'_> {
    /// SHA-256 of each certificate between the leaf and the root.
    fn issuers(&self, path: &VerifiedPath<'_>) -> Vec<Digest> {
        let between = path.intermediate_certificates();
        let between = between.map(|c| Digest::sha256_of(&c.der()));
        between
            .chain(self.authority.map(Digest::sha256_of))
            .collect()
    }
}

fn prove(
    case: &Case<'_>,
    anchors: &[Anchor<'_>],
    through: Option<&[u8; 32]>,
) -> Result<Chain, Error> {
    let leaf = CertificateDer::from(case.leaf.der);
    let between: Vec<CertificateDer<'_>> = case
        .set
        .iter()
        .filter(|der| **der != case.leaf.der)
        .map(|der| CertificateDer::from(*der))
        .collect();
    let end = |path: &VerifiedPath<'_>| {
        let mut anchors = anchors.iter();
        let anchor = anchors.find(|anchor| anchor.trusted == *path.anchor());
        anchor.ok_or(Error::UnknownIssuer)
    };
    let passes = |path: &VerifiedPath<'_>| {
        let anchor = end(path)?;
        if anchor.authority.is_some() && path.intermediate_certificates().next().is_some() {
            return Err(Error::PathLenConstraintViolated);
        }
        match through {
            Some(pin) if !anchor.issuers(path).iter().any(|d| d.bytes() == pin) => {
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
        Purposes(case.wanted),
        None,
        Some(&passes),
    )?;
    let anchor = end(&path)?;
    let issuers = anchor.issuers(&path);
    let between = path.intermediate_certificates().map(|c| c.der().to_vec());
    let leaf = std::iter::once(case.leaf.der.to_vec());
    let mut path: Vec<Vec<u8>> = leaf.chain(between).collect();
    path.extend(anchor.authority.map(<[u8]>::to_vec));
    // Of a leaf that is the root itself there is nothing above.
    if path.last().is_none_or(|last| last != anchor.root) {
        path.push(anchor.root.to_vec());
    }
    Ok(Chain {
        root: root_text(anchor.root),
        issuers,
        path,
    })
}

/// webpki leaves keyUsage alone: what is between leaf and root has to be allowed to sign certificates.
fn certifiers(set: &[&[u8]], issuers: &[Digest]) -> Result<(), Refusal> {
    for der in set
        .iter()
        .filter(|der| issuers.contains(&Digest::sha256_of(der)))
    {
        let issuer = Certificate::read(der)?;
        if !issuer.may_certify() {
            return Err(Reason::WrongUse
                .refusal("a certificate of its chain may not sign certificates")
                .expected("the key usage keyCertSign")
                .found(format_args!("{}, without it", issuer.subject_text())));
        }
    }
    Ok(())
}
