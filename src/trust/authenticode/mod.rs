//! Authenticode.

mod cab;
mod catalog;
mod compound;
mod msi;
mod pe;
mod script;
mod source;

use std::time::SystemTime;

use super::{Evidence, Judged, Reason, Refusal, Subject};

/// Whose certificate has to be at the end of the chain. Roots, and at least one of the others.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    /// DER certificates.
    pub roots: Vec<Vec<u8>>,
    /// Roots of the timestamp authority; those above unless given.
    pub timestamp_roots: Vec<Vec<u8>>,
    /// RFC 4514, exact: `CN=Example Corp,O=Example Corp,C=US`; a part of it such as `CN=Example Corp` has to match whole attributes.
    pub subject: Option<String>,
    /// A durable EKU of the leaf, dotted.
    pub eku: Option<String>,
    /// SHA-256 of an intermediate's DER that must be in the chain.
    pub issuer: Option<[u8; 32]>,
    /// SHA-256 of the leaf's DER.
    pub leaf: Option<[u8; 32]>,
}

#[derive(Clone, Debug)]
pub struct Rule {
    pub pins: Pins,
    /// A signature without a timestamp is refused, not judged by the present time.
    pub needs_timestamp: bool,
}

/// The certificates of a PEM file (or one in DER), as DER. The error fits after the file's name.
pub fn certificates(_file: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    Err("holds no certificate".into())
}

pub fn judge(
    _rule: &Rule,
    _subject: Subject<'_>,
    _evidence: &Evidence,
    _now: SystemTime,
) -> Judged {
    Err(Refusal::new(Reason::Unsupported, "not judged"))
}
