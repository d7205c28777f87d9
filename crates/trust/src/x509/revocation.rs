//! Checks the certificates of a chain against the revocation lists (CRLs) in a recipe.
//!
//! Each certificate except for the root needs a list of its issuer, signed with the issuer's key.
//! Refuses delta, indirect and partial lists, lists for other certificates, and expired lists. Does
//! not use the network: the signer chose the addresses in a signature, so they are only shown. (RFC
//! 5280 5 and 6.3)

use std::fmt;

use x509_cert::crl::{CertificateList, RevokedCert};
use x509_cert::der::asn1::{GeneralizedTime, ObjectIdentifier};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::crl::dp::IssuingDistributionPoint;
use x509_cert::ext::pkix::name::{DistributionPointName, GeneralName};
use x509_cert::ext::pkix::{CrlDistributionPoints, CrlReason};
use x509_cert::ext::{Extension, Extensions};

use super::algorithm::IssuedData;
use super::certificate::Certificate;
use super::chain::{CheckTime, TimeSource};
use super::moment::Moment;
use super::{pem, tlv};
use crate::{RefusalReason, RevocationLists, SignatureRefusal};
use winimg_base::digest::Digest;

const WHAT: &str = "a revocation list";
/// Maximum number of lists; more than any chain has certificates.
const MAX_LISTS: usize = 32;

const REASON: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.21");
const INVALIDITY_DATE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.24");
const DELTA: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.27");
const ISSUING_DISTRIBUTION_POINT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.28");
const DISTRIBUTION_POINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.31");

/// A parsed list whose signature is not verified yet.
struct RevocationList {
    der: Vec<u8>,
    list: CertificateList,
    /// DER of the Name.
    issuer: Vec<u8>,
    from: Moment,
    until: Moment,
    scope: Option<IssuingDistributionPoint>,
}

/// Checks a chain from its leaf to its root at the time for which it was verified. Returns remarks.
pub fn check(
    path: &[Vec<u8>],
    lists: &RevocationLists,
    at: CheckTime,
    now: Moment,
) -> Result<Vec<String>, SignatureRefusal> {
    if lists.lists.len() > MAX_LISTS {
        let fact = format!("is one of more than {MAX_LISTS}");
        return Err(tlv::refuse_malformed(WHAT, &fact));
    }
    let mut read = Vec::new();
    for bytes in &lists.lists {
        read.extend(RevocationList::parse_all(bytes)?);
    }
    let mut remarks = Vec::new();
    for (index, pair) in path.windows(2).enumerate() {
        let (certificate, issuer) = (Certificate::read(&pair[0])?, Certificate::read(&pair[1])?);
        let is_leaf = index == 0;
        let (mut checked, mut other_key) = (0, None);
        for list in &read {
            if list.issuer != certificate.issuer || !list.covers(&certificate, is_leaf) {
                continue;
            }
            // An issuer with a new key has a list by each key, under one name.
            if let Err(refusal) = list.check_signature(&issuer) {
                other_key = other_key.or(Some(refusal));
                continue;
            }
            if !lists.are_locked {
                list.check_age(now)?;
            }
            checked += 1;
            remarks.push(format!("checked against {list}"));
            if let Some(entry) = list.find_entry(&certificate) {
                remarks.push(check_revoked(&certificate, entry, at)?);
            } else if certificate.not_after < list.from {
                remarks.push(format!(
                    "the certificate of {} expired before that list was made, and its issuer may \
                     omit expired certificates",
                    certificate.subject_text()
                ));
            }
        }
        if checked == 0 {
            return Err(other_key.unwrap_or_else(|| refuse_missing(&certificate)));
        }
    }
    Ok(remarks)
}

impl RevocationList {
    /// Parses DER, or one or more PEM blocks.
    fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, SignatureRefusal> {
        let blocks = pem::decode_blocks(bytes, &["X509 CRL"])
            .map_err(|why| tlv::refuse_malformed(WHAT, &why))?;
        if blocks.is_empty() {
            return Err(tlv::refuse_malformed(WHAT, "has no PEM block X509 CRL"));
        }
        blocks.into_iter().map(Self::read).collect()
    }

    fn read(der: Vec<u8>) -> Result<Self, SignatureRefusal> {
        let list = CertificateList::from_der(&der).map_err(refuse_unreadable)?;
        let body = &list.tbs_cert_list;
        let scope = parse_scope(&body.crl_extensions)?;
        let until = body
            .next_update
            .ok_or_else(|| tlv::refuse_malformed(WHAT, "has no nextUpdate"))?;
        Ok(Self {
            issuer: body.issuer.to_der().map_err(refuse_unreadable)?,
            from: body.this_update.to_system_time().into(),
            until: until.to_system_time().into(),
            scope,
            list,
            der,
        })
    }

    /// Returns true if its scope, if any, includes this certificate. (RFC 5280 5.2.5)
    fn covers(&self, certificate: &Certificate<'_>, is_leaf: bool) -> bool {
        let Some(scope) = &self.scope else {
            return true;
        };
        let excludes_kind = if is_leaf {
            scope.only_contains_ca_certs
        } else {
            scope.only_contains_user_certs
        };
        if excludes_kind || scope.only_contains_attribute_certs {
            return false;
        }
        let Some(point) = &scope.distribution_point else {
            return true;
        };
        let own = collect_urls(point);
        list_distribution_points(certificate.der)
            .iter()
            .any(|url| own.contains(url))
    }

    fn check_signature(&self, issuer: &Certificate<'_>) -> Result<(), SignatureRefusal> {
        let issued = IssuedData::read(&self.der, WHAT)?;
        if !issuer.may_sign_lists() {
            return Err(RefusalReason::WrongUse
                .refusal("the issuer of a revocation list may not sign lists")
                .expected("the key usage cRLSign")
                .found(format_args!("{} without it", issuer.subject_text())));
        }
        let verified = issued.verify(issuer);
        verified.map_err(|refusal| refusal.with_prefix("a revocation list: "))
    }

    fn check_age(&self, now: Moment) -> Result<(), SignatureRefusal> {
        let refusal = match (now < self.from, now >= self.until) {
            (true, _) => {
                RefusalReason::NotYetValid.refusal("a revocation list is dated in the future")
            }
            (_, true) => RefusalReason::Expired.refusal("a revocation list has expired"),
            _ => return Ok(()),
        };
        Err(refusal
            .expected(format_args!("one that is valid at {now}"))
            .found(self)
            .cure("use the issuer's current list"))
    }

    fn find_entry(&self, certificate: &Certificate<'_>) -> Option<&RevokedCert> {
        let entries = &self.list.tbs_cert_list.revoked_certificates;
        let mut entries = entries.iter().flatten();
        entries.find(|entry| certificate.has_serial(entry.serial_number.as_bytes()))
    }
}

/// `the revocation list of CN=… from 2026-11-20T00:00:00Z until 2026-11-27T00:00:00Z (sha256:…)`
impl fmt::Display for RevocationList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the revocation list of {} from {} until {} ({})",
            super::name::render_name(&self.issuer),
            self.from,
            self.until,
            Digest::sha256_of(&self.der)
        )
    }
}

fn refuse_unreadable(error: x509_cert::der::Error) -> SignatureRefusal {
    tlv::refuse_malformed(WHAT, &format!("cannot be read: {error}"))
}

fn refuse_unsupported(fact: &str) -> SignatureRefusal {
    RefusalReason::Unsupported
        .refusal(format!("{WHAT} {fact}"))
        .cure("use the issuer's complete list")
}

/// Parses the scope of a list. (RFC 5280 5.2)
fn parse_scope(
    extensions: &Option<Extensions>,
) -> Result<Option<IssuingDistributionPoint>, SignatureRefusal> {
    let mut scope = None;
    for extension in extensions.iter().flatten() {
        match extension.extn_id {
            DELTA => {
                return Err(refuse_unsupported(
                    "contains only changes since another list",
                ));
            }
            ISSUING_DISTRIBUTION_POINT => {
                let read = IssuingDistributionPoint::from_der(extension.extn_value.as_bytes());
                let read = read
                    .map_err(|e| tlv::refuse_malformed(WHAT, &format!("has a bad scope: {e}")))?;
                if read.indirect_crl || read.only_some_reasons.is_some() {
                    return Err(refuse_unsupported(
                        "is for other issuers, or only for some reasons",
                    ));
                }
                scope = Some(read);
            }
            other if extension.critical => {
                return Err(refuse_unsupported(&format!(
                    "has the critical extension {other}"
                )));
            }
            _ => {}
        }
    }
    Ok(scope)
}

/// Returns the refusal of a revoked certificate, or a remark if it is still accepted: its signature
/// was timestamped before it was revoked, for a reason that does not imply a compromised key.
fn check_revoked(
    certificate: &Certificate<'_>,
    entry: &RevokedCert,
    at: CheckTime,
) -> Result<String, SignatureRefusal> {
    let reason = find_extension(entry, REASON)
        .and_then(|e| CrlReason::from_der(e.extn_value.as_bytes()).ok())
        .unwrap_or(CrlReason::Unspecified);
    let mut since: Moment = entry.revocation_date.to_system_time().into();
    let invalid = find_extension(entry, INVALIDITY_DATE)
        .and_then(|e| GeneralizedTime::from_der(e.extn_value.as_bytes()).ok());
    if let Some(invalid) = invalid {
        since = since.min(invalid.to_system_time().into());
    }
    // With other reasons, including unspecified and privilegeWithdrawn, the key may be compromised.
    let is_harmless = matches!(
        reason,
        CrlReason::AffiliationChanged | CrlReason::Superseded | CrlReason::CessationOfOperation
    );
    let subject = certificate.subject_text();
    let why = name_reason(reason);
    if is_harmless && at.by == TimeSource::Timestamp && at.moment < since {
        return Ok(format!(
            "the certificate of {subject} was revoked at {since} ({why}), after its timestamp"
        ));
    }
    Err(RefusalReason::Revoked
        .refusal("a certificate of its chain is revoked")
        .expected(
            "a certificate that is not revoked, or that was superseded or retired after a \
             timestamp",
        )
        .found(format_args!(
            "{subject}, revoked at {since} ({why}); checked at {at}"
        ))
        .cure("use a release that is signed with a different certificate"))
}

fn find_extension(entry: &RevokedCert, oid: ObjectIdentifier) -> Option<&Extension> {
    let mut all = entry.crl_entry_extensions.iter().flatten();
    all.find(|extension| extension.extn_id == oid)
}

/// Returns the name of a reason in RFC 5280 5.3.1.
fn name_reason(reason: CrlReason) -> &'static str {
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

fn refuse_missing(certificate: &Certificate<'_>) -> SignatureRefusal {
    let points = list_distribution_points(certificate.der);
    let refusal = RefusalReason::Missing
        .refusal("no revocation list covers a certificate of its chain")
        .expected(format_args!(
            "a list of {}, for {}",
            super::name::render_name(certificate.issuer),
            certificate.subject_text()
        ));
    if points.is_empty() {
        refusal
            .cure("add the issuer's list to `crls`; the certificate does not contain its address")
    } else {
        refusal.cure(format!(
            "add it to `crls`; according to the certificate it is at {}",
            points.join(" or ")
        ))
    }
}

/// Returns the addresses of its issuer's lists in a certificate.
fn list_distribution_points(certificate: &[u8]) -> Vec<String> {
    let Ok(certificate) = x509_cert::Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let mut extensions = certificate.tbs_certificate.extensions.iter().flatten();
    extensions
        .find(|e| e.extn_id == DISTRIBUTION_POINTS)
        .and_then(|e| CrlDistributionPoints::from_der(e.extn_value.as_bytes()).ok())
        .into_iter()
        .flat_map(|points| points.0)
        .filter_map(|point| point.distribution_point)
        .flat_map(|point| collect_urls(&point))
        .collect()
}

fn collect_urls(point: &DistributionPointName) -> Vec<String> {
    let DistributionPointName::FullName(names) = point else {
        return Vec::new();
    };
    names
        .iter()
        .filter_map(|name| match name {
            GeneralName::UniformResourceIdentifier(uri) => {
                Some(crate::reading::sanitize(uri.as_str()))
            }
            _ => None,
        })
        .collect()
}
