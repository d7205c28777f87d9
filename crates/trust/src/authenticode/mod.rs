//! Authenticode: signatures inside PE files, installers, cabinets, scripts and catalogs, or in a catalog beside the file.
//!
//! Each kind of file is a module that finds the signature and computes the digest it is about; what a signature has to meet
//! is the same for all (`policy`). Every signature of a file that has several is judged, and one has to meet the whole rule.
//! Refuses MD5 and SHA-1, bytes that no signature covers, and kinds of files that it does not know. Asks nobody whether a
//! certificate was revoked. (Microsoft: Authenticode PE)

mod cab;
mod carried;
mod catalog;
mod compound;
mod indirect;
mod msi;
mod pe;
mod script;
mod source;
mod unsigned;

use std::time::SystemTime;

use der::asn1::ObjectIdentifier;

use self::source::Source;
use super::certificate::Certificate;
use super::hash::HashKind;
use super::name::Name;
use super::policy::{self, Policy};
use super::purpose::{self, Use};
use super::signed_data::SignedData;
use super::tlv::{self, SEQUENCE};
use super::{Evidence, Judged, Reason, Refusal, Scheme, Subject, pem};
use crate::oid::NESTED;
pub use crate::policy::Pins;

pub use carried::{Carried, carried};

/// szOID_CTL
const CERTIFICATE_TRUST_LIST: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.1");
/// Signatures of one file, with those nested in others.
const MAX_SIGNATURES: usize = 8;
const LARGEST_CATALOG: u64 = 64 << 20;

#[derive(Clone, Debug)]
pub struct Rule {
    pub pins: Pins,
    /// A signature without a timestamp is refused, not judged by the present time.
    pub needs_timestamp: bool,
    /// A Windows Installer package whose streams' names and bounds are not signed (no MsiDigitalSignatureEx) is refused.
    pub needs_extended: bool,
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

/// Whether a `subject` of a recipe can be read. The error fits after "subject".
pub fn check_subject(text: &str) -> Result<(), String> {
    Name::parse(text).map(|_| ())
}

/// Whether an EKU says nothing about whose a certificate is: then it is no pin beside a root.
pub fn is_common_use(eku: &str) -> bool {
    purpose::is_common(eku)
}

/// What kind of file it is, by its first bytes; scripts by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pe,
    Msi,
    Cab,
    Catalog,
    Script,
}

impl Kind {
    fn of(file: &mut Source, name: &str) -> Result<Self, Refusal> {
        let length = usize::try_from(file.length().min(8)).unwrap_or(0);
        let magic = file.bytes(0, length)?.unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        let is_script = [".ps1", ".psm1", ".psd1", ".ps1xml", ".cdxml"]
            .iter()
            .any(|end| lower.ends_with(end));
        match magic.as_slice() {
            _ if is_script => Ok(Self::Script),
            [b'M', b'Z', ..] => Ok(Self::Pe),
            [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1] => Ok(Self::Msi),
            [b'M', b'S', b'C', b'F', ..] => Ok(Self::Cab),
            [SEQUENCE, ..] => Ok(Self::Catalog),
            _ => Err(Reason::Unsupported
                .refusal("this kind of file carries no Authenticode signature")
                .expected("a PE file, an MSI, a cabinet, a catalog or a PowerShell script")
                .cure(
                    "prove it by its catalog (`catalog = URL`), or by another kind of signature",
                )),
        }
    }

    fn signature(self, file: &mut Source) -> Result<Option<Vec<u8>>, Refusal> {
        match self {
            Self::Pe => pe::signature(file),
            Self::Msi => msi::signature(file),
            Self::Cab => cab::signature(file),
            Self::Script => script::signature(file),
            Self::Catalog => whole(file).map(Some),
        }
    }

    fn digest(self, file: &mut Source, algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
        match self {
            Self::Pe => pe::digest(file, algorithm),
            Self::Msi => msi::digest(file, algorithm),
            Self::Cab => cab::digest(file, algorithm),
            Self::Script => script::digest(file, algorithm),
            Self::Catalog => Err(Reason::Unsupported.refusal("a catalog is signed as a whole")),
        }
    }

    /// This signature is of this file's bytes.
    fn covers(self, signed: &SignedData<'_>, file: &mut Source) -> Result<(), Refusal> {
        if self == Self::Catalog {
            return is_catalog(signed);
        }
        let claimed = indirect::read(signed)?;
        if !self.types().contains(&claimed.kind.to_string().as_str()) {
            return Err(Reason::Changed
                .refusal("it was made for another kind of file")
                .expected(self.types().join(" or "))
                .found(claimed.kind));
        }
        let found = self.digest(file, claimed.algorithm)?;
        if claimed.digest != found {
            return Err(Reason::Changed
                .refusal("it is of other bytes than this file's")
                .expected(format_args!(
                    "{} {}",
                    claimed.algorithm,
                    hex::encode(claimed.digest)
                ))
                .found(hex::encode(found)));
        }
        Ok(())
    }

    /// What the signed statement says it is about: SPC_PE_IMAGE_DATA, SPC_CAB_DATA, SPC_SIPINFO.
    fn types(self) -> &'static [&'static str] {
        match self {
            Self::Pe => &["1.3.6.1.4.1.311.2.1.15"],
            Self::Cab => &["1.3.6.1.4.1.311.2.1.25"],
            Self::Msi | Self::Script => &["1.3.6.1.4.1.311.2.1.30"],
            Self::Catalog => &[],
        }
    }
}

pub fn judge(rule: &Rule, subject: Subject<'_>, evidence: &Evidence, now: SystemTime) -> Judged {
    let policy = Policy {
        scheme: Scheme::Authenticode,
        pins: &rule.pins,
        needs_timestamp: rule.needs_timestamp,
        wanted: Use::CodeSigning,
        now: now.into(),
        lists: evidence.lists.as_ref(),
    };
    let mut file = Source::open(subject.path)?;
    let judged = judge_file(rule, &policy, &mut file, subject.name, evidence)?;
    // The digest was taken by path, as this was: what is recorded has to be what was judged.
    file.finish(subject)?;
    Ok(judged)
}

fn judge_file(
    rule: &Rule,
    policy: &Policy<'_>,
    file: &mut Source,
    name: &str,
    evidence: &Evidence,
) -> Judged {
    if let Some(catalog) = &evidence.signature {
        return judge_all(policy, catalog, |signed| {
            is_catalog(signed)?;
            catalog::judge_member(signed, file, name)
        });
    }
    let kind = Kind::of(file, name)?;
    let Some(signature) = kind.signature(file)? else {
        return Err(Reason::Missing
            .refusal("the file carries none")
            .cure("take the publisher's signed file, or prove it by its catalog or a digest"));
    };
    let mut signer = judge_all(policy, &signature, |signed| kind.covers(signed, file))?;
    if kind == Kind::Msi {
        let remarks = msi::remarks(file, rule.needs_extended)?;
        signer.remarks.extend(remarks);
    }
    Ok(signer)
}

/// Judges a signature and those nested in it.
fn judge_all(
    policy: &Policy<'_>,
    der: &[u8],
    mut covers: impl FnMut(&SignedData<'_>) -> Result<(), Refusal>,
) -> Judged {
    let mut judged = Vec::new();
    each_signature(der, |signed| {
        // Whatever else holds: one good signature of several would carry what stands in the others.
        unsigned::check(signed)?;
        judged.push(policy.judge(signed, |signed| {
            signed.check_content()?;
            covers(signed)
        }));
        Ok(())
    })?;
    policy::verdict(judged)
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

/// The content is a list of digests.
fn is_catalog(signed: &SignedData<'_>) -> Result<(), Refusal> {
    if signed.content_type() == CERTIFICATE_TRUST_LIST {
        return Ok(());
    }
    Err(Reason::Unsupported
        .refusal("it is not a catalog")
        .expected(CERTIFICATE_TRUST_LIST)
        .found(signed.content_type()))
}

/// A catalog file is its signature, and nothing after it.
fn whole(file: &mut Source) -> Result<Vec<u8>, Refusal> {
    let length = file.length();
    if length > LARGEST_CATALOG {
        return Err(tlv::malformed("the file", "is larger than any catalog is"));
    }
    let bytes = file.bytes(0, length as usize)?.unwrap_or_default();
    let (_, rest) = tlv::first(&bytes, SEQUENCE, "the file")?;
    if !rest.is_empty() {
        return Err(Reason::Uncovered
            .refusal("the catalog has unsigned bytes after its signature")
            .found(format_args!("{} bytes more", rest.len())));
    }
    Ok(bytes)
}
