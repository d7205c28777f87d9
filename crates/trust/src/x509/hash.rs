//! The hash algorithms that a signature may use. Refuses MD5 and SHA-1 with a specific message, and
//! unknown ones.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256, SHA384, SHA512};
use der::asn1::ObjectIdentifier;

use super::oid::Oid;
use crate::{RefusalReason, SignatureRefusal};

const MD5: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.2.5");
const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA_384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA_512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    Sha256,
    Sha384,
    Sha512,
}

impl HashKind {
    pub fn from_oid(oid: Oid<'_>) -> Result<Self, SignatureRefusal> {
        let known = [
            (SHA_256, Self::Sha256),
            (SHA_384, Self::Sha384),
            (SHA_512, Self::Sha512),
        ];
        if let Some((_, kind)) = known.into_iter().find(|(known, _)| oid == *known) {
            return Ok(kind);
        }
        if oid == SHA1 {
            return Err(refuse_weak("SHA-1"));
        }
        if oid == MD5 {
            return Err(refuse_weak("MD5"));
        }
        let fact = "its hash algorithm is not supported";
        Err(RefusalReason::Unsupported
            .refusal(fact)
            .expected("SHA-256, SHA-384 or SHA-512")
            .found(format_args!("OID {oid}")))
    }

    /// Returns true for any known hash, even an insecure one.
    pub fn is_known(oid: Oid<'_>) -> bool {
        !matches!(Self::from_oid(oid), Err(refusal) if refusal.reason == RefusalReason::Unsupported)
    }

    pub fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Starts a hash: `update` it, then `finish().as_ref()`.
    pub fn start(self) -> Context {
        Context::new(match self {
            Self::Sha256 => &SHA256,
            Self::Sha384 => &SHA384,
            Self::Sha512 => &SHA512,
        })
    }

    pub fn compute(self, bytes: &[u8]) -> Vec<u8> {
        let mut hash = self.start();
        hash.update(bytes);
        hash.finish().as_ref().to_vec()
    }
}

fn refuse_weak(name: &str) -> SignatureRefusal {
    RefusalReason::Weak
        .refusal(format!("it uses {name}, which can be forged"))
        .expected("SHA-256, SHA-384 or SHA-512")
        .found(name)
        .cure("ask the publisher for a file signed with SHA-256")
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
            Self::Sha512 => "SHA-512",
        })
    }
}
