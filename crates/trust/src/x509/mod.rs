//! Signatures by certificate: the structures of PKCS#7 and CMS, chains, timestamps and revocation,
//! and the policy that Authenticode and CMS share.

pub mod algorithm;
pub mod ber;
pub mod certificate;
pub mod chain;
pub mod hash;
pub mod misused;
pub mod moment;
pub mod name;
pub mod oid;
pub mod pem;
pub mod policy;
pub mod purpose;
pub mod revocation;
pub mod signed_data;
pub mod timestamp;
pub mod tlv;
