//! Parses the claims of a Fulcio certificate for messages. Decides nothing: the library verifies.

use std::fmt;

use jiff::Timestamp;
use sigstore_types::{Bundle, DerCertificate};
use sigstore_verify::crypto::parse_certificate_info;
use x509_cert::Certificate;
use x509_cert::der::asn1::{OctetStringRef, Utf8StringRef};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, ExtendedKeyUsage, SubjectAltName, SubjectKeyIdentifier,
};

use super::sanitize;

const CODE_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");
/// RFC 6962 3.3: the list of SCTs in a certificate.
const SCT_LIST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.11129.2.4.2");

/// Signed timestamp of a certificate transparency log.
pub(super) enum Sct {
    Absent,
    Unreadable,
    /// The log's key ID, and the time at which it saw the certificate.
    Of {
        log: [u8; 32],
        at: Timestamp,
    },
}

/// A certificate authority by name and, if known, key identifier (RFC 5280 4.2.1.1 and 4.2.1.2).
///
/// Sigstore's instances use the same name for their authorities.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct FulcioAuthority {
    name: String,
    key: Option<Vec<u8>>,
}

impl FulcioAuthority {
    /// Returns the authority that a CA certificate belongs to.
    pub(super) fn from_certificate(der: &DerCertificate) -> Option<Self> {
        let certificate = Certificate::from_der(der.as_bytes()).ok()?;
        let body = &certificate.tbs_certificate;
        let key = body.get::<SubjectKeyIdentifier>().ok().flatten();
        Some(Self {
            name: sanitize(&body.subject),
            key: key.map(|(_, id)| id.0.as_bytes().to_vec()),
        })
    }

    /// Returns true if both may be the same: an unknown key matches any.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        let same_key = match (&self.key, &other.key) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => true,
        };
        self.name == other.name && same_key
    }
}

impl fmt::Display for FulcioAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.key {
            Some(key) => {
                let head = key.get(..8).unwrap_or(key);
                write!(f, " (key {}…)", hex::encode(head))
            }
            None => Ok(()),
        }
    }
}

pub(super) struct FulcioClaims {
    /// Every subject alternative name.
    pub(super) identities: Vec<String>,
    /// Issuer of the OpenID Connect token. `None`: none, or unreadable.
    pub(super) issuer: Option<String>,
    /// The authority that issued this certificate, according to itself.
    pub(super) authority: FulcioAuthority,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    pub(super) code_signing: bool,
    pub(super) sct: Sct,
}

impl FulcioClaims {
    /// Parses the bundle's certificate. `None`: there is none, or it is unreadable.
    pub(super) fn from_bundle(bundle: &Bundle) -> Option<Self> {
        Self::read(bundle.signing_certificate()?)
    }

    pub(super) fn read(der: &DerCertificate) -> Option<Self> {
        let certificate = Certificate::from_der(der.as_bytes()).ok()?;
        let body = &certificate.tbs_certificate;
        let uses = body.get::<ExtendedKeyUsage>().ok().flatten();
        Some(Self {
            identities: read_identities(&certificate),
            issuer: parse_certificate_info(der)
                .ok()
                .and_then(|info| info.issuer)
                .map(sanitize),
            authority: FulcioAuthority {
                name: sanitize(&body.issuer),
                key: body
                    .get::<AuthorityKeyIdentifier>()
                    .ok()
                    .flatten()
                    .and_then(|(_, id)| id.key_identifier)
                    .map(|id| id.as_bytes().to_vec()),
            },
            not_before: convert_time(body.validity.not_before)?,
            not_after: convert_time(body.validity.not_after)?,
            code_signing: uses.is_some_and(|(_, uses)| uses.0.contains(&CODE_SIGNING)),
            sct: find_sct(&certificate),
        })
    }

    /// Describes the identity for messages.
    pub(super) fn describe_identity(&self) -> String {
        match self.identities.as_slice() {
            [] => "no identity".into(),
            names => names.join(", "),
        }
    }

    /// Describes the identity with its issuer.
    pub(super) fn describe(&self) -> String {
        match &self.issuer {
            Some(issuer) => format!("{} of issuer {issuer}", self.describe_identity()),
            None => format!("{}, with no issuer", self.describe_identity()),
        }
    }

    pub(super) fn describe_lifetime(&self) -> String {
        format!("{} to {}", self.not_before, self.not_after)
    }
}

fn convert_time(time: x509_cert::time::Time) -> Option<Timestamp> {
    Timestamp::try_from(time.to_system_time()).ok()
}

fn read_identities(certificate: &Certificate) -> Vec<String> {
    let Ok(Some((_, names))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let identities = names.0.iter().map(|name| match name {
        GeneralName::Rfc822Name(address) => sanitize(address),
        GeneralName::UniformResourceIdentifier(uri) => sanitize(uri),
        GeneralName::DnsName(host) => format!("the host {}", sanitize(host)),
        GeneralName::OtherName(other) => {
            let der = other.value.to_der().unwrap_or_default();
            let text = Utf8StringRef::from_der(&der).map(|t| sanitize(t.as_str()));
            let text = text.unwrap_or_else(|_| "unreadable".into());
            format!("the user name {text} (otherName {})", other.type_id)
        }
        _ => "a name that is neither an e-mail address nor a URI".into(),
    });
    identities.take(8).collect()
}

/// Parses the first SCT (RFC 6962 3.2 and 3.3): a list with its length, each SCT with its length,
/// version, the log's ID, milliseconds.
fn find_sct(certificate: &Certificate) -> Sct {
    let extensions = certificate.tbs_certificate.extensions.as_deref();
    let mut extensions = extensions.unwrap_or_default().iter();
    let Some(extension) = extensions.find(|e| e.extn_id == SCT_LIST) else {
        return Sct::Absent;
    };
    read_sct(extension.extn_value.as_bytes()).unwrap_or(Sct::Unreadable)
}

fn read_sct(extension: &[u8]) -> Option<Sct> {
    let list = OctetStringRef::from_der(extension).ok()?;
    let log = list.as_bytes().get(5..37)?.try_into().ok()?;
    let at = u64::from_be_bytes(list.as_bytes().get(37..45)?.try_into().ok()?);
    let at = Timestamp::from_millisecond(at.try_into().ok()?).ok()?;
    Some(Sct::Of { log, at })
}
