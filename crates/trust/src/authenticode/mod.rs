//! Authenticode: signatures inside PE files, installers, cabinets, scripts and catalogs, or in a catalog beside the file.
//!
//! Each kind of file is a module that finds the signature and computes the digest it is about; what a signature has to meet
//! is the same for all (`policy`). Every signature of a file that has several is judged, and one has to meet the whole rule.
//! Refuses MD5 and SHA-1, bytes that no signature covers, and kinds of files that it does not know. Asks nobody whether a
//! certificate was revoked. (Microsoft: Authenticode PE)

mod about;
mod cab;
mod carried;
mod catalog;
mod compound;
mod indirect;
mod kind;
mod msi;
mod package;
mod pe;
mod script;
mod source;
mod unsigned;

use std::path::Path;
use std::time::SystemTime;

use der::asn1::ObjectIdentifier;

use self::kind::{Kind, is_catalog};
use self::source::Source;
use super::certificate::Certificate;
use super::name::Name;
use super::place::{self, Open, Place};
use super::policy::{self, Policy};
use super::purpose::{self, Use};
use super::signed_data::SignedData;
use super::tlv::SEQUENCE;
use super::{Evidence, Judged, Reason, Refusal, Scheme, Signer, Subject, pem};
use crate::oid::NESTED;
pub use crate::policy::Pins;

pub use about::{About, Version};
pub use carried::{Carried, carried};
pub use package::judge_package;

/// szOID_CTL
const CERTIFICATE_TRUST_LIST: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.1");
/// Signatures of one file, with those nested in others.
const MAX_SIGNATURES: usize = 8;

#[derive(Clone, Debug)]
pub struct Rule {
    pub pins: Pins,
    /// A signature without a timestamp is refused, not judged by the present time.
    pub needs_timestamp: bool,
    /// A Windows Installer package whose streams' names and bounds are not signed (no MsiDigitalSignatureEx) is refused.
    pub needs_extended: bool,
    /// What the file has to say of itself.
    pub about: About,
}

/// The certificates of a PEM file (or one in DER), as DER. The error fits after the file's name.
pub fn certificates(file: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found = match std::str::from_utf8(file) {
        Ok(text) if text.contains("-----BEGIN ") => {
            pem::blocks(text, &["CERTIFICATE", "X509 CERTIFICATE"])?
        }
        _ if file.first() == Some(&SEQUENCE) => vec![file.to_vec()],
        _ => Vec::new(),
    };
    if found.is_empty() {
        return Err(
            "holds no certificate: PEM (-----BEGIN CERTIFICATE-----) or DER was expected".into(),
        );
    }
    for (number, der) in (1..).zip(&found) {
        let bad = |why: String| match found.len() {
            1 => format!("holds a certificate that cannot be read: {why}"),
            _ => format!("holds a certificate, number {number} in it, that cannot be read: {why}"),
        };
        let certificate = rustls_pki_types::CertificateDer::from(der.as_slice());
        webpki::anchor_from_trusted_cert(&certificate).map_err(|e| bad(format!("{e:?}")))?;
        Certificate::read(der).map_err(|r| bad(r.problem.fact))?;
    }
    Ok(found)
}

/// Whether a `subject` of a recipe can be read, and says whose a certificate is. The error fits after "subject".
pub fn check_subject(text: &str) -> Result<(), String> {
    match Name::parse(text)?.identifies() {
        true => Ok(()),
        false => Err("names a place or a unit alone, which thousands of signers have".into()),
    }
}

/// Whether an EKU says nothing about whose a certificate is: then it is no pin beside a root.
pub fn is_common_use(eku: &str) -> bool {
    purpose::is_common(eku)
}

pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence, now: SystemTime) -> Judged {
    let policy = policy(rule, evidence, now);
    let mut file = Source::open(subject.path)?;
    let (judged, _) = judge_file(rule, &policy, &mut file, subject, evidence)?;
    // The digest was taken by path, as this was: what is recorded has to be what was judged.
    file.finish(subject)?;
    Ok(judged)
}

/// The places of a file that is well signed and that its signature does not cover: those of the file, and those of the
/// signature, counted from its first byte.
pub fn open_places(
    rule: &Rule,
    subject: Subject<'_>,
    now: SystemTime,
) -> Result<Vec<Open>, Refusal> {
    let evidence = Evidence::default();
    let policy = policy(rule, &evidence, now);
    let mut file = Source::open(subject.path)?;
    let (_, in_signature) = judge_file(rule, &policy, &mut file, subject, &evidence)?;
    let mut open = Kind::of(&mut file, subject.name)?.open(&mut file)?;
    open.extend(in_signature);
    Ok(open)
}

/// The signature that a file carries, in DER; `None` when it carries none.
pub fn signature(path: &Path, name: &str) -> Result<Option<Vec<u8>>, Refusal> {
    let mut file = Source::open(path)?;
    Kind::of(&mut file, name)?.signature(&mut file)
}

fn policy<'r>(rule: &'r Rule, evidence: &'r Evidence, now: SystemTime) -> Policy<'r> {
    Policy {
        scheme: Scheme::Authenticode,
        pins: &rule.pins,
        needs_timestamp: rule.needs_timestamp,
        wanted: Use::CodeSigning,
        now: now.into(),
        lists: evidence.lists.as_ref(),
    }
}

fn judge_file(
    rule: &Rule,
    policy: &Policy<'_>,
    file: &mut Source,
    subject: Subject<'_>,
    evidence: &Evidence,
) -> Result<(Signer, Vec<Open>), Refusal> {
    let by_catalog = evidence.signature.as_deref();
    let asks = rule.about != About::default();
    let kind = match by_catalog {
        // A catalog lists files of every kind.
        Some(_) if !asks => None,
        _ => Some(Kind::of(file, subject.name)?),
    };
    let (mut signer, open) = match (by_catalog, kind) {
        (None, Some(kind)) => {
            let Some(signature) = kind.signature(file)? else {
                return Err(Reason::Missing.refusal("the file carries none").cure(
                    "take the publisher's signed file, or prove it by its catalog or a digest",
                ));
            };
            judge_all(policy, &signature, |signed| kind.covers(signed, file))?
        }
        (catalog, _) => judge_all(policy, catalog.unwrap_or_default(), |signed| {
            is_catalog(signed)?;
            catalog::judge_member(signed, file, subject)
        })?,
    };
    if let Some(kind) = kind {
        rule.about.check(kind, file)?;
    }
    if by_catalog.is_none() && kind == Some(Kind::Msi) {
        let remarks = msi::remarks(file, rule.needs_extended)?;
        signer.remarks.extend(remarks);
    }
    for word in rule.about.words() {
        signer.pinned_by.push_str(&format!(", {word}"));
    }
    Ok((signer, open))
}

/// Judges a signature and those nested in it. With it, what of them no signature covers.
fn judge_all(
    policy: &Policy<'_>,
    der: &[u8],
    mut covers: impl FnMut(&SignedData<'_>) -> Result<(), Refusal>,
) -> Result<(Signer, Vec<Open>), Refusal> {
    let mut judged = Vec::new();
    let mut places = Vec::new();
    each_signature(der, |signed| {
        // Whatever else holds: one good signature of several would carry what stands in the others.
        unsigned::check(signed)?;
        judged.push(policy.judge(signed, |signed| {
            signed.check_content()?;
            covers(signed)
        }));
        places.push((place::offset(der, signed.der), without_nested(signed)?));
        Ok(())
    })?;
    let (taken, met) = policy::verdict(judged)?;
    let mut open = Vec::new();
    for (number, (at, own)) in places.into_iter().enumerate() {
        if number == taken {
            open.extend(met.open.iter().cloned().map(|open| open.moved(at)));
            continue;
        }
        let bytes: u64 = own
            .iter()
            .map(|part| part.range.end - part.range.start)
            .sum();
        if bytes > unsigned::LARGEST_UNTAKEN {
            return Err(unsigned::untaken(bytes, at));
        }
        open.extend(own.into_iter().map(|part| part.moved(at)));
    }
    Ok((met.signer, open))
}

/// A signature, but for those nested in it.
fn without_nested(signed: &SignedData<'_>) -> Result<Vec<Open>, Refusal> {
    let mut parts = Vec::new();
    let mut from = 0;
    let open = |range| Open::new(Place::UntakenSignature, range);
    for nested in signed.signer.unsigned(NESTED, MAX_SIGNATURES)? {
        let at = place::offset(signed.der, nested.raw);
        parts.push(open(from..at));
        from = at + nested.raw.len() as u64;
    }
    parts.push(open(from..signed.der.len() as u64));
    Ok(parts)
}

/// Visits a signature, then those nested in it. One that cannot be read is refused: anything could stand there.
fn each_signature(
    der: &[u8],
    mut visit: impl FnMut(&SignedData<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut waiting = vec![SignedData::read(der)?];
    let mut at = 0;
    while let Some(signed) = waiting.get(at).cloned() {
        at += 1;
        visit(&signed)?;
        let left = MAX_SIGNATURES.saturating_sub(waiting.len());
        for nested in signed.signer.unsigned(NESTED, left)? {
            waiting.push(SignedData::read(nested.raw)?);
        }
    }
    Ok(())
}
