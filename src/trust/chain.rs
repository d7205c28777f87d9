//! From a signer's certificate to a root that the recipe names, at one moment, for one use.
//!
//! rustls-webpki builds and proves the chain; what stands here is the policy: the use has to be said on the leaf, and a
//! refusal says which root was expected and where the chain ends instead. Refuses nothing for being revoked: no list of
//! revoked certificates is asked. (RFC 5280)

use std::fmt;

use der::asn1::ObjectIdentifier;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{
    ALL_VERIFICATION_ALGS, EndEntityCert, Error, ExtendedKeyUsageValidator, KeyPurposeId,
    KeyPurposeIdIter, VerifiedPath, anchor_from_trusted_cert,
};

use super::algorithm;
use super::certificate::Certificate;
use super::moment::Moment;
use super::oid::Oid;
use super::{Reason, Refusal, name};
use crate::digest::Digest;

pub(super) const CODE_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");
pub(super) const TIME_STAMPING: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8");
const EMAIL_PROTECTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4");
const DOCUMENT_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.36");
const ANY: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");

/// What the leaf has to be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The EKU has to be there.
    CodeSigning,
    /// The EKU has to be there.
    TimeStamping,
    /// A signed message: an EKU, if there is one, has to be of those that sign.
    Message,
}

/// When the chain has to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) moment: Moment,
    /// A timestamp says so; otherwise it is the present.
    pub(super) stamped: bool,
}

/// A chain that holds.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// The root: `root sha256:… (CN=…)`.
    pub(super) root: String,
    /// SHA-256 of each certificate between leaf and root.
    pub(super) issuers: Vec<Digest>,
}

impl Use {
    fn purposes(self) -> &'static [ObjectIdentifier] {
        match self {
            Self::CodeSigning => &[CODE_SIGNING],
            Self::TimeStamping => &[TIME_STAMPING],
            Self::Message => &[CODE_SIGNING, EMAIL_PROTECTION, DOCUMENT_SIGNING],
        }
    }

    /// In the middle of "not one for …".
    fn words(self) -> &'static str {
        match self {
            Self::CodeSigning => "signing code",
            Self::TimeStamping => "timestamps",
            Self::Message => "signing files",
        }
    }

    /// The leaf itself says that it is for this.
    pub(super) fn check(self, leaf: &Certificate<'_>) -> Result<(), Refusal> {
        let told = leaf.purposes.as_deref();
        let said = self.purposes().iter().any(|p| leaf.is_for(*p));
        let silent = self == Self::Message && (told.is_none() || leaf.is_for(ANY));
        if !leaf.may_sign() {
            return Err(Refusal::new(
                Reason::WrongUse,
                format!("its certificate is not one for {}", self.words()),
            )
            .expected("the key usage digitalSignature")
            .found(format_args!("{}, without it", leaf.subject_text())));
        }
        if said || silent {
            return Ok(());
        }
        let found = match told {
            None => "no EKU".to_string(),
            Some(all) => all.iter().map(purpose_text).collect::<Vec<_>>().join(", "),
        };
        let wanted = self.purposes().iter().map(Oid::of);
        let wanted: Vec<_> = wanted.map(|oid| purpose_text(&oid)).collect();
        Err(Refusal::new(
            Reason::WrongUse,
            format!("its certificate is not one for {}", self.words()),
        )
        .expected(format_args!("the EKU {}", wanted.join(" or ")))
        .found(format_args!("{found}, on {}", leaf.subject_text())))
    }
}

fn purpose_text(oid: &Oid<'_>) -> String {
    let words = match oid.to_string().as_str() {
        "1.3.6.1.5.5.7.3.1" => "TLS servers",
        "1.3.6.1.5.5.7.3.2" => "TLS clients",
        "1.3.6.1.5.5.7.3.3" => "code signing",
        "1.3.6.1.5.5.7.3.4" => "mail",
        "1.3.6.1.5.5.7.3.8" => "timestamps",
        "1.3.6.1.5.5.7.3.36" => "documents",
        _ => return oid.to_string(),
    };
    format!("{oid} ({words})")
}

/// An intermediate that names uses has to name one of ours; one that names none is for any. The leaf was looked at before.
struct Purposes(Use);

impl ExtendedKeyUsageValidator for Purposes {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let mut told = false;
        for purpose in purposes {
            told = true;
            let purpose = purpose?;
            let mut wanted = self.0.purposes().iter().chain([&ANY]);
            if wanted.any(|w| KeyPurposeId::new(w.as_bytes()) == purpose) {
                return Ok(());
            }
        }
        if told {
            Err(Error::EmptyEkuExtension)
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.stamped {
            "its timestamp"
        } else {
            "the present, as it has no timestamp"
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
    let roots: Vec<CertificateDer<'_>> = roots
        .iter()
        .map(|r| CertificateDer::from(r.as_slice()))
        .collect();
    let mut anchors: Vec<TrustAnchor<'_>> = Vec::new();
    for root in &roots {
        anchors.push(anchor_from_trusted_cert(root).map_err(|e| {
            Refusal::new(
                Reason::Unsupported,
                format!("a root of the recipe is not one that winimg can judge by: {e:?}"),
            )
        })?);
    }
    let named: Vec<&[u8]> = roots.iter().map(|r| r.as_ref()).collect();
    if leaf.is_self_issued() && !named.contains(&leaf.der) {
        return Err(other_root(
            "its certificate is self-signed, so nobody vouches for it",
            leaf,
            set,
            &named,
        ));
    }
    let between: Vec<CertificateDer<'_>> = set
        .iter()
        .filter(|der| **der != leaf.der)
        .map(|der| CertificateDer::from(*der))
        .collect();
    let der = CertificateDer::from(leaf.der);
    let prove = |through: Option<&[u8; 32]>| {
        let entity = EndEntityCert::try_from(&der)?;
        let passes = |path: &VerifiedPath<'_>| match through {
            Some(pin) if !issuers(path).iter().any(|d| d.bytes() == pin) => {
                Err(Error::UnknownIssuer)
            }
            _ => Ok(()),
        };
        let time = UnixTime::since_unix_epoch(at.moment.since_1970());
        let path = entity.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            &between,
            time,
            Purposes(wanted),
            None,
            Some(&passes),
        )?;
        let root = anchors
            .iter()
            .zip(&named)
            .find(|(anchor, _)| *anchor == path.anchor());
        Ok((
            root.map(|(_, der)| root_text(der)).unwrap_or_default(),
            issuers(&path),
        ))
    };
    // A chain through the pinned issuer first; where there is none, the caller says which ones there are.
    let proved = match through {
        Some(_) => prove(through).or_else(|_| prove(None)),
        None => prove(None),
    };
    let (root, issuers) = proved.map_err(|e| refusal(&e, leaf, set, &named, at, wanted))?;
    certifiers(set, &issuers)?;
    Ok(Chain { root, issuers })
}

fn issuers(path: &VerifiedPath<'_>) -> Vec<Digest> {
    path.intermediate_certificates()
        .map(|c| Digest::sha256_of(&c.der()))
        .collect()
}

/// webpki leaves keyUsage alone: what is between leaf and root has to be allowed to sign certificates.
fn certifiers(set: &[&[u8]], issuers: &[Digest]) -> Result<(), Refusal> {
    for der in set
        .iter()
        .filter(|der| issuers.contains(&Digest::sha256_of(der)))
    {
        let issuer = Certificate::read(der)?;
        if !issuer.may_certify() {
            return Err(Refusal::new(
                Reason::WrongUse,
                "a certificate of its chain may not sign certificates",
            )
            .expected("the key usage keyCertSign")
            .found(format_args!("{}, without it", issuer.subject_text())));
        }
    }
    Ok(())
}

fn refusal(
    error: &Error,
    leaf: &Certificate<'_>,
    set: &[&[u8]],
    roots: &[&[u8]],
    at: At,
    wanted: Use,
) -> Refusal {
    let weak = set
        .iter()
        .chain(roots)
        .filter_map(|der| Certificate::read(der).ok()?.rsa_bits)
        .min();
    match error {
        Error::CertExpired { .. } => outside(Reason::Expired, leaf, set, at),
        Error::CertNotValidYet { .. } => outside(Reason::NotYetValid, leaf, set, at),
        Error::InvalidSignatureForPublicKey
            if weak.is_some_and(|bits| bits < algorithm::SHORTEST_RSA) =>
        {
            algorithm::short_key(weak.unwrap_or_default())
        }
        Error::InvalidSignatureForPublicKey => other_root(
            "its chain bears the name of a certificate that did not sign it",
            leaf,
            set,
            roots,
        ),
        Error::UnknownIssuer => other_root(
            "its certificate does not come from a root that the recipe names",
            leaf,
            set,
            roots,
        ),
        Error::UnsupportedSignatureAlgorithmContext(context) => {
            let mut refusal = algorithm::refused(&identifier(&context.signature_algorithm_id));
            refusal.fact = format!("a certificate of its chain: {}", refusal.fact);
            refusal
        }
        Error::EmptyEkuExtension => Refusal::new(
            Reason::WrongUse,
            format!(
                "an authority of its chain is not one for {}",
                wanted.words()
            ),
        )
        .expected(format_args!(
            "an EKU for {}",
            wanted.words()
        ))
        .found(issued_by(leaf, set)),
        Error::CaUsedAsEndEntity => Refusal::new(
            Reason::WrongUse,
            "its certificate is an authority's, not a signer's",
        )
        .found(leaf.subject_text()),
        Error::EndEntityUsedAsCa => Refusal::new(
            Reason::WrongUse,
            "a certificate of its chain is no authority's",
        )
        .found(issued_by(leaf, set)),
        other => Refusal::new(
            Reason::Unsupported,
            format!("its chain is not one that winimg can judge: {other:?}"),
        )
        .found(issued_by(leaf, set)),
    }
}

/// The AlgorithmIdentifier's OID, dotted.
fn identifier(value: &[u8]) -> String {
    let oid = super::tlv::Walk::new(value, "an algorithm").and_then(|mut w| w.oid());
    oid.map_or_else(|_| hex::encode(value), |oid| oid.to_string())
}

fn outside(reason: Reason, leaf: &Certificate<'_>, set: &[&[u8]], at: At) -> Refusal {
    let all = set.iter().filter_map(|der| Certificate::read(der).ok());
    let is_out = |c: &Certificate<'_>| match reason {
        Reason::Expired => at.moment > c.not_after,
        _ => at.moment < c.not_before,
    };
    let own = is_out(leaf);
    let which = if own {
        Some(leaf.clone())
    } else {
        all.into_iter().find(|c| is_out(c))
    };
    let which = which.unwrap_or_else(|| leaf.clone());
    let whose = if own {
        "its certificate"
    } else {
        "a certificate of its chain"
    };
    let fact = match reason {
        Reason::Expired => format!("{whose} had expired when it was used"),
        _ => format!("{whose} was not valid yet when it was used"),
    };
    let refusal = Refusal::new(reason, fact)
        .expected(format_args!(
            "a time from {} to {}, for {}",
            which.not_before,
            which.not_after,
            which.subject_text()
        ))
        .found(at);
    match (reason, at.stamped) {
        (Reason::Expired, false) => refusal.cure("take a file whose signature carries a timestamp"),
        _ => refusal,
    }
}

fn other_root(fact: &str, leaf: &Certificate<'_>, set: &[&[u8]], roots: &[&[u8]]) -> Refusal {
    let expected: Vec<String> = roots.iter().map(|der| root_text(der)).collect();
    Refusal::new(Reason::OtherRoot, fact)
        .expected(if expected.is_empty() {
            "a root, but none is named".into()
        } else {
            expected.join(" or ")
        })
        .found(issued_by(leaf, set))
}

/// `CN=Leaf, issued by CN=Authority, issued by CN=Root`, as far as the certificates beside it tell.
fn issued_by(leaf: &Certificate<'_>, set: &[&[u8]]) -> String {
    let mut text = leaf.subject_text();
    let mut at = leaf.clone();
    for _ in 0..8 {
        if at.is_self_issued() {
            break;
        }
        text.push_str(&format!(", issued by {}", name::shown(at.issuer)));
        let mut all = set.iter().filter_map(|der| Certificate::read(der).ok());
        match all.find(|c| c.subject == at.issuer) {
            Some(issuer) => at = issuer,
            None => break,
        }
    }
    text
}
