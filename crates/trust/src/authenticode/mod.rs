//! Authenticode: signatures in PE files, installers, cabinets, scripts and catalogs, or in a
//! catalog beside the file.
//!
//! Each kind of file has a module that finds the signature and computes the signed digest; the
//! policy is the same for all (`policy`). If a file has several signatures, all are checked and one
//! must meet the whole rule. Refuses MD5 and SHA-1, unsigned bytes, and unknown kinds of files.
//! Does not query revocation over the network. (Microsoft: Authenticode PE)

mod cab;
mod catalog;
mod compound;
mod embedded;
mod indirect;
mod kind;
mod msi;
mod package;
mod pe;
mod properties;
mod script;
mod source;
mod unsigned;

use std::path::Path;
use std::time::SystemTime;

use der::asn1::ObjectIdentifier;

use self::kind::{SignedFileKind, is_catalog};
use self::source::SignedSource;
use super::uncovered::{self, UncoveredPlace, UncoveredRange};
use crate::x509::certificate::Certificate;
use crate::x509::name::DistinguishedName;
use crate::x509::oid::NESTED_SIGNATURE;
use crate::x509::pem;
pub use crate::x509::policy::CertificatePins;
use crate::x509::policy::{self, CertificatePolicy};
use crate::x509::purpose::{self, CertificateUse};
use crate::x509::signed_data::SignedData;
use crate::x509::tlv::SEQUENCE;
use crate::{
    FileSubject, RefusalReason, Scheme, SignatureEvidence, SignatureRefusal, SignatureResult,
    Signer,
};

pub use embedded::{EmbeddedSignature, list_signatures};
pub use package::judge_package;
pub use properties::{FileVersion, PinnedProperties};

/// szOID_CTL
const CERTIFICATE_TRUST_LIST: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.1");
/// Maximum number of signatures of one file, including nested ones.
const MAX_SIGNATURES: usize = 8;

#[derive(Clone, Debug)]
pub struct AuthenticodeRule {
    pub pins: CertificatePins,
    /// Refuses a signature without a timestamp; otherwise it is checked at the current time.
    pub needs_timestamp: bool,
    /// Refuses a Windows Installer package whose stream names and bounds are not signed (no
    /// MsiDigitalSignatureEx).
    pub needs_extended: bool,
    /// Required properties of the file.
    pub about: PinnedProperties,
}

/// Parses the certificates of a PEM file (or one in DER) to DER. The error is worded to
/// follow the file's name.
pub fn parse_certificates(file: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found = pem::decode_blocks(file, &["CERTIFICATE", "X509 CERTIFICATE"])?;
    let is_neither = found.first().is_none_or(|der| der == file) && file.first() != Some(&SEQUENCE);
    if is_neither {
        return Err(
            "contains no certificate: expected PEM (-----BEGIN CERTIFICATE-----) or DER".into(),
        );
    }
    for (number, der) in (1..).zip(&found) {
        check_anchor(der).map_err(|why| match found.len() {
            1 => format!("contains an invalid certificate: {why}"),
            _ => format!("contains an invalid certificate (number {number}): {why}"),
        })?;
    }
    Ok(found)
}

/// Checks that a certificate can be a root.
fn check_anchor(der: &[u8]) -> Result<(), String> {
    let certificate = rustls_pki_types::CertificateDer::from(der);
    webpki::anchor_from_trusted_cert(&certificate).map_err(|e| format!("{e:?}"))?;
    Certificate::read(der).map_err(|refusal| refusal.problem.fact)?;
    Ok(())
}

/// Checks that a `subject` of a recipe can be parsed and identifies a signer. The error is worded
/// to follow "subject".
pub fn check_subject(text: &str) -> Result<(), String> {
    if DistinguishedName::parse(text)?.is_identifying() {
        Ok(())
    } else {
        Err("names only a place or a unit, which thousands of signers share".into())
    }
}

/// Returns true if an EKU does not identify a signer, so that it is not a pin in addition to a
/// root.
pub fn is_common_use(eku: &str) -> bool {
    purpose::is_common(eku)
}

pub fn judge(
    rule: &AuthenticodeRule,
    subject: FileSubject<'_>,
    evidence: &SignatureEvidence,
    now: SystemTime,
) -> SignatureResult {
    let policy = build_policy(rule, evidence, now);
    let mut file = SignedSource::open(subject.path)?;
    let (judged, _) = judge_file(rule, &policy, &mut file, subject, evidence)?;
    // The digest was computed from the path, too: the recorded file must be the one that was
    // checked.
    file.finish(subject)?;
    Ok(judged)
}

/// Returns the ranges of a validly signed file that its signature does not cover: those of the
/// file, and those of the signature, relative to its first byte.
pub fn list_uncovered(
    rule: &AuthenticodeRule,
    subject: FileSubject<'_>,
    now: SystemTime,
) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
    let evidence = SignatureEvidence::default();
    let policy = build_policy(rule, &evidence, now);
    let mut file = SignedSource::open(subject.path)?;
    let (_, in_signature) = judge_file(rule, &policy, &mut file, subject, &evidence)?;
    let mut uncovered =
        SignedFileKind::detect(&mut file, subject.name)?.list_uncovered(&mut file)?;
    uncovered.extend(in_signature);
    Ok(uncovered)
}

/// Reads the embedded signature of a file in DER; `None` if it has none.
pub fn read_signature(path: &Path, name: &str) -> Result<Option<Vec<u8>>, SignatureRefusal> {
    let mut file = SignedSource::open(path)?;
    SignedFileKind::detect(&mut file, name)?.read_signature(&mut file)
}

fn build_policy<'r>(
    rule: &'r AuthenticodeRule,
    evidence: &'r SignatureEvidence,
    now: SystemTime,
) -> CertificatePolicy<'r> {
    CertificatePolicy {
        scheme: Scheme::Authenticode,
        pins: &rule.pins,
        needs_timestamp: rule.needs_timestamp,
        wanted: CertificateUse::CodeSigning,
        now: now.into(),
        lists: evidence.lists.as_ref(),
    }
}

fn judge_file(
    rule: &AuthenticodeRule,
    policy: &CertificatePolicy<'_>,
    file: &mut SignedSource,
    subject: FileSubject<'_>,
    evidence: &SignatureEvidence,
) -> Result<(Signer, Vec<UncoveredRange>), SignatureRefusal> {
    let catalog = evidence.signature.as_deref();
    let has_pinned_properties = rule.about != PinnedProperties::default();
    let kind = match catalog {
        // A catalog lists files of every kind.
        Some(_) if !has_pinned_properties => None,
        _ => Some(SignedFileKind::detect(file, subject.name)?),
    };
    let (mut signer, uncovered) = match (catalog, kind) {
        (None, Some(kind)) => {
            let Some(signature) = kind.read_signature(file)? else {
                return Err(RefusalReason::Missing.refusal("the file has none").cure(
                    "use the publisher's signed file, or prove it by its catalog or a digest",
                ));
            };
            judge_all(policy, &signature, |signed| {
                kind.check_coverage(signed, file)
            })?
        }
        (catalog, _) => judge_all(policy, catalog.unwrap_or_default(), |signed| {
            is_catalog(signed)?;
            catalog::judge_member(signed, file, subject)
        })?,
    };
    if let Some(kind) = kind {
        rule.about.check(kind, file)?;
    }
    if catalog.is_none() && kind == Some(SignedFileKind::Msi) {
        let remarks = msi::collect_remarks(file, rule.needs_extended)?;
        signer.remarks.extend(remarks);
    }
    for property in rule.about.describe() {
        signer.pinned_by.push_str(&format!(", {property}"));
    }
    Ok((signer, uncovered))
}

/// Checks a signature and those nested in it. Also returns the ranges in them that are not signed.
fn judge_all(
    policy: &CertificatePolicy<'_>,
    der: &[u8],
    mut covers: impl FnMut(&SignedData<'_>) -> Result<(), SignatureRefusal>,
) -> Result<(Signer, Vec<UncoveredRange>), SignatureRefusal> {
    let mut judged = Vec::new();
    let mut places = Vec::new();
    visit_signatures(der, |signed| {
        // Checked first: with several signatures, a valid one would accept unsigned bytes in
        // others.
        unsigned::check(signed)?;
        judged.push(policy.judge(signed, |signed| {
            signed.check_content()?;
            covers(signed)
        }));
        places.push((
            uncovered::find_offset(der, signed.der),
            list_own_ranges(signed)?,
        ));
        Ok(())
    })?;
    let (chosen, verified) = policy::choose_signature(judged)?;
    let mut uncovered = Vec::new();
    for (number, (at, own)) in places.into_iter().enumerate() {
        if number == chosen {
            uncovered.extend(
                verified
                    .uncovered
                    .iter()
                    .cloned()
                    .map(|uncovered| uncovered.shift(at)),
            );
            continue;
        }
        let bytes: u64 = own
            .iter()
            .map(|part| part.range.end - part.range.start)
            .sum();
        if bytes > unsigned::MAX_UNUSED_SIGNATURE {
            return Err(unsigned::refuse_unused(bytes, at));
        }
        uncovered.extend(own.into_iter().map(|part| part.shift(at)));
    }
    Ok((verified.signer, uncovered))
}

/// Returns the ranges of a signature, except those of the signatures nested in it.
fn list_own_ranges(signed: &SignedData<'_>) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
    let mut parts = Vec::new();
    let mut from = 0;
    for nested in signed
        .signer
        .find_unsigned(NESTED_SIGNATURE, MAX_SIGNATURES)?
    {
        let at = uncovered::find_offset(signed.der, nested.raw);
        parts.push(UncoveredRange::new(
            UncoveredPlace::UnusedSignature,
            from..at,
        ));
        from = at + nested.raw.len() as u64;
    }
    let end = signed.der.len() as u64;
    parts.push(UncoveredRange::new(
        UncoveredPlace::UnusedSignature,
        from..end,
    ));
    Ok(parts)
}

/// Visits a signature, then those nested in it. An unreadable one is refused, as it could contain
/// anything.
fn visit_signatures(
    der: &[u8],
    mut visit: impl FnMut(&SignedData<'_>) -> Result<(), SignatureRefusal>,
) -> Result<(), SignatureRefusal> {
    let mut queue = vec![SignedData::read(der)?];
    let mut at = 0;
    while let Some(signed) = queue.get(at).cloned() {
        at += 1;
        visit(&signed)?;
        let remaining = MAX_SIGNATURES.saturating_sub(queue.len());
        for nested in signed.signer.find_unsigned(NESTED_SIGNATURE, remaining)? {
            queue.push(SignedData::read(nested.raw)?);
        }
    }
    Ok(())
}
