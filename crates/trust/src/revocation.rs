//! Lists of revoked certificates (CRLs) that a recipe names: whether a chain's certificates stand in them.
//!
//! Each certificate but the root needs a list of its issuer, signed with the issuer's key. Refuses delta, indirect and partial
//! lists, one for other certificates than this, and one that had ended when it was asked for. Asks no network: the addresses
//! that a signature names are its signer's, so they are only shown. (RFC 5280 5 and 6.3)

use std::fmt;

use x509_cert::crl::{CertificateList, RevokedCert};
use x509_cert::der::asn1::{GeneralizedTime, ObjectIdentifier};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::crl::dp::IssuingDistributionPoint;
use x509_cert::ext::pkix::name::{DistributionPointName, GeneralName};
use x509_cert::ext::pkix::{CrlDistributionPoints, CrlReason};
use x509_cert::ext::{Extension, Extensions};

use super::algorithm::Issued;
use super::certificate::Certificate;
use super::chain::{At, Clock};
use super::moment::Moment;
use super::tlv;
use super::{Lists, Reason, Refusal, pem};
use winimg_base::digest::Digest;

const WHAT: &str = "a list of revoked certificates";
/// More lists than any chain has certificates.
const MOST: usize = 32;

const REASON: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.21");
const INVALIDITY_DATE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.24");
const DELTA: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.27");
const ISSUING_DISTRIBUTION_POINT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.28");
const DISTRIBUTION_POINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.31");

/// A list, read and not yet believed.
struct List {
    der: Vec<u8>,
    list: CertificateList,
    /// DER of the Name.
    issuer: Vec<u8>,
    from: Moment,
    until: Moment,
    scope: Option<IssuingDistributionPoint>,
}

/// Judges a chain from its leaf to its root at the time for which it was proved. What a reader should know comes back.
pub(super) fn check(
    path: &[Vec<u8>],
    lists: &Lists,
    at: At,
    now: Moment,
) -> Result<Vec<String>, Refusal> {
    if lists.lists.len() > MOST {
        let fact = format!("is one of more than {MOST}");
        return Err(tlv::malformed(WHAT, &fact));
    }
    let mut read = Vec::new();
    for bytes in &lists.lists {
        read.extend(List::all(bytes)?);
    }
    let mut remarks = Vec::new();
    for (leaf_first, pair) in path.windows(2).enumerate() {
        let (certificate, issuer) = (Certificate::read(&pair[0])?, Certificate::read(&pair[1])?);
        let is_leaf = leaf_first == 0;
        let (mut judged, mut other_key) = (0, None);
        for list in &read {
            if list.issuer != certificate.issuer || !list.is_for(&certificate, is_leaf) {
                continue;
            }
            // An issuer that has another key now has a list by each of them, under one name.
            if let Err(refusal) = list.check_value(&issuer) {
                other_key = other_key.or(Some(refusal));
                continue;
            }
            if !lists.are_locked {
                list.check_age(now)?;
            }
            judged += 1;
            remarks.push(format!("judged by {list}"));
            if let Some(entry) = list.entry(&certificate) {
                remarks.push(revoked(&certificate, entry, at)?);
            } else if certificate.not_after < list.from {
                remarks.push(format!(
                    "the certificate of {} ended before that list was made, and its issuer may leave out what has ended",
                    certificate.subject_text()
                ));
            }
        }
        if judged == 0 {
            return Err(other_key.unwrap_or_else(|| missing(&certificate)));
        }
    }
    Ok(remarks)
}

impl List {
    /// DER, or one or more PEM blocks.
    fn all(bytes: &[u8]) -> Result<Vec<Self>, Refusal> {
        let text = std::str::from_utf8(bytes).ok();
        let Some(text) = text.filter(|text| text.contains("-----BEGIN ")) else {
            return Ok(vec![Self::read(bytes.to_vec())?]);
        };
        let blocks = pem::blocks(text, &["X509 CRL"]).map_err(|why| tlv::malformed(WHAT, &why))?;
        if blocks.is_empty() {
            return Err(tlv::malformed(WHAT, "has no PEM block X509 CRL"));
        }
        blocks.into_iter().map(Self::read).collect()
    }

    fn read(der: Vec<u8>) -> Result<Self, Refusal> {
        let bad = |e: x509_cert::der::Error| tlv::malformed(WHAT, &format!("cannot be read: {e}"));
        let list = CertificateList::from_der(&der).map_err(bad)?;
        let body = &list.tbs_cert_list;
        let scope = scope(&body.crl_extensions)?;
        let until = body
            .next_update
            .ok_or_else(|| tlv::malformed(WHAT, "does not say until when it holds"))?;
        Ok(Self {
            issuer: body.issuer.to_der().map_err(bad)?,
            from: body.this_update.to_system_time().into(),
            until: until.to_system_time().into(),
            scope,
            list,
            der,
        })
    }

    /// Whether it speaks of this certificate, as far as it says what it speaks of. (RFC 5280 5.2.5)
    fn is_for(&self, certificate: &Certificate<'_>, is_leaf: bool) -> bool {
        let Some(scope) = &self.scope else {
            return true;
        };
        let others = match is_leaf {
            true => scope.only_contains_ca_certs,
            false => scope.only_contains_user_certs,
        };
        if others || scope.only_contains_attribute_certs {
            return false;
        }
        let Some(point) = &scope.distribution_point else {
            return true;
        };
        let own = urls(point);
        distribution_points(certificate.der)
            .iter()
            .any(|url| own.contains(url))
    }

    fn check_value(&self, issuer: &Certificate<'_>) -> Result<(), Refusal> {
        let issued = Issued::read(&self.der, WHAT)?;
        if !issuer.may_sign_lists() {
            return Err(Reason::WrongUse
                .refusal("the issuer of a list of revoked certificates may not sign lists")
                .expected("the key usage cRLSign")
                .found(format_args!("{}, without it", issuer.subject_text())));
        }
        issued.verify(issuer).map_err(|mut refusal| {
            refusal.problem = refusal.problem.prefixed("a list of revoked certificates: ");
            refusal
        })
    }

    fn check_age(&self, now: Moment) -> Result<(), Refusal> {
        let refusal = match (now < self.from, now >= self.until) {
            (true, _) => {
                Reason::NotYetValid.refusal("a list of revoked certificates is of the future")
            }
            (_, true) => Reason::Expired.refusal("a list of revoked certificates has ended"),
            _ => return Ok(()),
        };
        Err(refusal
            .expected(format_args!("one that holds at {now}"))
            .found(self)
            .cure("take the issuer's present one"))
    }

    fn entry(&self, certificate: &Certificate<'_>) -> Option<&RevokedCert> {
        let entries = &self.list.tbs_cert_list.revoked_certificates;
        let mut entries = entries.iter().flatten();
        entries.find(|entry| certificate.has_serial(entry.serial_number.as_bytes()))
    }
}

/// `the list of revoked certificates of CN=… from 2026-11-20T00:00:00Z until 2026-11-27T00:00:00Z (sha256:…)`
impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the list of revoked certificates of {} from {} until {} ({})",
            super::name::shown(&self.issuer),
            self.from,
            self.until,
            Digest::sha256_of(&self.der)
        )
    }
}

/// What the list says of its own scope. (RFC 5280 5.2)
fn scope(extensions: &Option<Extensions>) -> Result<Option<IssuingDistributionPoint>, Refusal> {
    let unsupported = |fact: &str| {
        Reason::Unsupported
            .refusal(format!("a list of revoked certificates {fact}"))
            .cure("take the issuer's whole list")
    };
    let mut scope = None;
    for extension in extensions.iter().flatten() {
        match extension.extn_id {
            DELTA => return Err(unsupported("holds only what changed since another one")),
            ISSUING_DISTRIBUTION_POINT => {
                let read = IssuingDistributionPoint::from_der(extension.extn_value.as_bytes());
                let read =
                    read.map_err(|e| tlv::malformed(WHAT, &format!("has a bad scope: {e}")))?;
                if read.indirect_crl || read.only_some_reasons.is_some() {
                    return Err(unsupported("is of other issuers, or of some reasons only"));
                }
                scope = Some(read);
            }
            other if extension.critical => {
                return Err(unsupported(&format!("has the critical extension {other}")));
            }
            _ => {}
        }
    }
    Ok(scope)
}

/// The refusal of a revoked certificate, or the remark for one that may stay: its signature was timestamped before it was
/// revoked, and the reason says that nobody else had its key.
fn revoked(certificate: &Certificate<'_>, entry: &RevokedCert, at: At) -> Result<String, Refusal> {
    let find = |oid: ObjectIdentifier| -> Option<&Extension> {
        let mut all = entry.crl_entry_extensions.iter().flatten();
        all.find(|extension| extension.extn_id == oid)
    };
    let reason = find(REASON).map(|e| CrlReason::from_der(e.extn_value.as_bytes()));
    let reason = reason
        .and_then(Result::ok)
        .unwrap_or(CrlReason::Unspecified);
    let mut since: Moment = entry.revocation_date.to_system_time().into();
    let invalid = find(INVALIDITY_DATE).map(|e| GeneralizedTime::from_der(e.extn_value.as_bytes()));
    if let Some(Ok(invalid)) = invalid {
        since = since.min(invalid.to_system_time().into());
    }
    // Of the others, unspecified and privilegeWithdrawn among them, nothing says that the key was not another's.
    let is_harmless = matches!(
        reason,
        CrlReason::AffiliationChanged | CrlReason::Superseded | CrlReason::CessationOfOperation
    );
    let whose = certificate.subject_text();
    let why = words(reason);
    if is_harmless && at.by == Clock::Timestamp && at.moment < since {
        return Ok(format!(
            "the certificate of {whose} was revoked at {since} ({why}), after its timestamp"
        ));
    }
    Err(Reason::Revoked
        .refusal("a certificate of its chain is revoked")
        .expected(
            "a certificate that is not, or one that was superseded or given up after a timestamp",
        )
        .found(format_args!(
            "{whose}, revoked at {since} ({why}); judged at {at}"
        ))
        .cure("take a release that is signed with another certificate"))
}

/// As RFC 5280 5.3.1 calls them.
fn words(reason: CrlReason) -> &'static str {
    match reason {
        CrlReason::Unspecified => "unspecified",
        CrlReason::KeyCompromise => "keyCompromise",
        CrlReason::CaCompromise => "cACompromise",
        CrlReason::AffiliationChanged => "affiliationChanged",
        CrlReason::Superseded => "superseded",
        CrlReason::CessationOfOperation => "cessationOfOperation",
        CrlReason::CertificateHold => "certificateHold",
        CrlReason::RemoveFromCRL => "removeFromCRL",
        CrlReason::PrivilegeWithdrawn => "privilegeWithdrawn",
        CrlReason::AaCompromise => "aACompromise",
    }
}

fn missing(certificate: &Certificate<'_>) -> Refusal {
    let points = distribution_points(certificate.der);
    let refusal = Reason::Missing
        .refusal("none of the lists of revoked certificates is for a certificate of its chain")
        .expected(format_args!(
            "a list of {}, for {}",
            super::name::shown(certificate.issuer),
            certificate.subject_text()
        ));
    match points.is_empty() {
        true => refusal
            .cure("name the issuer's list under `crls`: the certificate does not say where it is"),
        false => refusal.cure(format!(
            "name it under `crls`; the certificate says that it is at {}",
            points.join(" or ")
        )),
    }
}

/// The http addresses at which a certificate says that its issuer publishes lists.
fn distribution_points(certificate: &[u8]) -> Vec<String> {
    let Ok(certificate) = x509_cert::Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let mut extensions = certificate.tbs_certificate.extensions.iter().flatten();
    let points = extensions.find(|e| e.extn_id == DISTRIBUTION_POINTS);
    let points = points.and_then(|e| CrlDistributionPoints::from_der(e.extn_value.as_bytes()).ok());
    let points = points.into_iter().flat_map(|points| points.0);
    points
        .filter_map(|point| point.distribution_point)
        .flat_map(|point| urls(&point))
        .collect()
}

fn urls(point: &DistributionPointName) -> Vec<String> {
    let DistributionPointName::FullName(names) = point else {
        return Vec::new();
    };
    let url = |name: &GeneralName| match name {
        GeneralName::UniformResourceIdentifier(uri) => Some(super::reading::shown(uri.as_str())),
        _ => None,
    };
    names.iter().filter_map(url).collect()
}
