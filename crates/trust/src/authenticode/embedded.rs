//! Lists the signers of a file, for people who decide whether to trust it. Trusts nothing itself:
//! anyone can create a certificate with any name. Only roots that winimg ships are reported as
//! vouching for it.

use std::path::Path;
use std::time::SystemTime;

use super::kind::SignedFileKind;
use super::{
    AuthenticodeRule, CertificatePins, PinnedProperties, SignedSource, judge, visit_signatures,
};
use crate::roots;
use crate::x509::signed_data::SignedData;
use crate::{FileSubject, RefusalReason, SignatureEvidence, SignatureRefusal};
use winimg_base::digest::Digest;

/// An embedded signature that matches the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedSignature {
    /// The certificate's subject in RFC 4514 form.
    pub subject: String,
    /// Name of the root at the end of its chain, if winimg ships that root.
    pub root: Option<&'static str>,
}

/// Returns every signature in the file; empty if the file is not signed or cannot be. Refuses a
/// file with signatures of which none is readable and matches the file.
pub fn list_signatures(
    path: &Path,
    name: &str,
    digest: &Digest,
) -> Result<Vec<EmbeddedSignature>, SignatureRefusal> {
    let mut subjects = Vec::new();
    for subject in subjects_in(path, name)? {
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    let file = FileSubject {
        path,
        name,
        published: name,
        digest,
    };
    Ok(subjects
        .into_iter()
        .map(|subject| EmbeddedSignature {
            root: roots::NAMES
                .into_iter()
                .find(|root| is_below(root, &subject, file)),
            subject,
        })
        .collect())
}

fn subjects_in(path: &Path, name: &str) -> Result<Vec<String>, SignatureRefusal> {
    let mut file = SignedSource::open(path)?;
    let kind = match SignedFileKind::detect(&mut file, name) {
        Err(refusal)
            if matches!(
                refusal.reason,
                RefusalReason::Unsupported | RefusalReason::OtherName
            ) =>
        {
            return Ok(Vec::new());
        }
        kind => kind?,
    };
    let Some(signature) = kind.read_signature(&mut file)? else {
        return Ok(Vec::new());
    };
    let (mut subjects, mut refused) = (Vec::new(), None);
    visit_signatures(&signature, |signed| {
        // With two signatures, the older one is often too weak.
        match verify_subject(kind, signed, &mut file) {
            Ok(subject) => subjects.push(subject),
            Err(refusal) => refused = refused.take().or(Some(refusal)),
        }
        Ok(())
    })?;
    match refused {
        Some(refusal) if subjects.is_empty() => Err(refusal),
        _ => Ok(subjects),
    }
}

/// Returns the subject of the certificate that signed the file.
fn verify_subject(
    kind: SignedFileKind,
    signed: &SignedData<'_>,
    file: &mut SignedSource,
) -> Result<String, SignatureRefusal> {
    signed.check_content()?;
    kind.check_coverage(signed, file)?;
    let leaf = signed.signer_certificate()?;
    signed.signer.check_value(&leaf)?;
    Ok(leaf.subject_text())
}

/// Returns true if a rule with this root and this subject would accept the file.
fn is_below(root: &str, subject: &str, file: FileSubject<'_>) -> bool {
    let all = roots::NAMES
        .iter()
        .filter_map(|name| roots::find_root(name));
    let rule = AuthenticodeRule {
        pins: CertificatePins {
            roots: roots::find_root(root)
                .into_iter()
                .map(<[u8]>::to_vec)
                .collect(),
            timestamp_roots: all.map(<[u8]>::to_vec).collect(),
            subject: Some(subject.into()),
            ..CertificatePins::default()
        },
        needs_timestamp: false,
        needs_extended: false,
        about: PinnedProperties::default(),
    };
    judge(
        &rule,
        file,
        &SignatureEvidence::default(),
        SystemTime::now(),
    )
    .is_ok()
}
