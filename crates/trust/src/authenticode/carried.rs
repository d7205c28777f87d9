//! What a file says of its signers, for people who decide whether to believe it. Believes nothing itself: anyone can make a
//! certificate of any name. Only a root that winimg carries is named as one that vouches for it.

use std::path::Path;
use std::time::SystemTime;

use super::kind::Kind;
use super::{About, Pins, Rule, Source, each_signature, judge};
use crate::roots;
use crate::signed_data::SignedData;
use crate::{Evidence, Reason, Refusal, Subject};
use winimg_base::digest::Digest;

/// A signature that a file carries and that is of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The certificate's subject as RFC 4514 writes it.
    pub subject: String,
    /// The name of winimg's own root at the end of its chain; without one nobody that winimg knows vouches for the subject.
    pub root: Option<&'static str>,
}

/// Every signature in the file; none when the file is not signed, or of a kind that carries none. Refuses a file
/// that has none that can be read and is of its bytes.
pub fn carried(path: &Path, name: &str, digest: &Digest) -> Result<Vec<Carried>, Refusal> {
    let mut subjects = Vec::new();
    for subject in subjects_in(path, name)? {
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    let file = Subject {
        path,
        name,
        published: name,
        digest,
    };
    let vouched = |subject: String| Carried {
        root: roots::NAMES
            .into_iter()
            .find(|root| is_below(root, &subject, file)),
        subject,
    };
    Ok(subjects.into_iter().map(vouched).collect())
}

fn subjects_in(path: &Path, name: &str) -> Result<Vec<String>, Refusal> {
    let mut file = Source::open(path)?;
    let kind = match Kind::of(&mut file, name) {
        Err(refusal) if matches!(refusal.reason, Reason::Unsupported | Reason::OtherName) => {
            return Ok(Vec::new());
        }
        kind => kind?,
    };
    let Some(signature) = kind.signature(&mut file)? else {
        return Ok(Vec::new());
    };
    let (mut subjects, mut refused) = (Vec::new(), None);
    each_signature(&signature, |signed| {
        // Of two signatures the older one is often too weak.
        match subject(kind, signed, &mut file) {
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

/// Whose certificate made this signature of the file's bytes.
fn subject(kind: Kind, signed: &SignedData<'_>, file: &mut Source) -> Result<String, Refusal> {
    signed.check_content()?;
    kind.covers(signed, file)?;
    let leaf = signed.signer_certificate()?;
    signed.signer.check_value(&leaf)?;
    Ok(leaf.subject_text())
}

/// Whether a rule with this root and this subject would take the file.
fn is_below(root: &str, subject: &str, file: Subject<'_>) -> bool {
    let all = roots::NAMES.iter().filter_map(|name| roots::named(name));
    let rule = Rule {
        pins: Pins {
            roots: roots::named(root).into_iter().map(<[u8]>::to_vec).collect(),
            timestamp_roots: all.map(<[u8]>::to_vec).collect(),
            subject: Some(subject.into()),
            ..Pins::default()
        },
        needs_timestamp: false,
        needs_extended: false,
        about: About::default(),
    };
    judge(&rule, file, &Evidence::default(), SystemTime::now()).is_ok()
}
