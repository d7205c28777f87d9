//! The files that `signed.sh` makes.

use std::path::Path;
use std::sync::OnceLock;

use regex::Regex;
use winimg_trust::authenticode::{self, CertificatePins};
use winimg_trust::{SignatureRule, cms};

use crate::kept::{self, Kept};

/// 2026-11-21.
pub const NOW: u64 = 1_795_219_200;

pub fn folder() -> &'static Path {
    static MADE: OnceLock<Kept> = OnceLock::new();
    MADE.get_or_init(|| kept::folder("signed.sh")).path()
}

pub fn certificates(name: &str) -> Vec<Vec<u8>> {
    let file = std::fs::read(folder().join(name)).unwrap();
    authenticode::parse_certificates(&file).unwrap()
}

/// By the example's roots, for the example's subject.
pub fn pins() -> CertificatePins {
    CertificatePins {
        roots: certificates("root.pem"),
        timestamp_roots: certificates("tsa-root.pem"),
        subject: Some("CN=Example Corp".into()),
        ..CertificatePins::default()
    }
}

pub fn by(pins: CertificatePins) -> SignatureRule {
    SignatureRule::Authenticode(authenticode::AuthenticodeRule {
        pins,
        needs_timestamp: true,
        needs_extended: true,
        about: authenticode::PinnedProperties::default(),
    })
}

pub fn unstamped(pins: CertificatePins) -> SignatureRule {
    SignatureRule::Authenticode(authenticode::AuthenticodeRule {
        pins,
        needs_timestamp: false,
        needs_extended: true,
        about: authenticode::PinnedProperties::default(),
    })
}

pub fn detached(pins: CertificatePins) -> SignatureRule {
    SignatureRule::Cms(cms::CmsRule { pins })
}

/// Digests of certificates that were made just now are not the same twice.
pub fn without_digests(text: &str) -> String {
    let hex = Regex::new("[0-9a-f]{64,128}").unwrap();
    hex.replace_all(text, "<digest>").into_owned()
}
