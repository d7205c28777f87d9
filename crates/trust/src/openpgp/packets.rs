//! Parses armor and packets from untrusted bytes.
//!
//! Refuses files of a different type with a specific message, and every signature that is
//! incomplete or weak.

use pgp::composed::{Deserializable as _, DetachedSignature, PublicOrSecret, SignedPublicKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::types::Fingerprint;

use super::super::reading::malformed;
use super::super::{RefusalReason, SignatureRefusal};
use winimg_base::markup;

/// Maximum number of signatures of one file.
const MAX_SIGNATURES: usize = 64;

/// Splits armored files into blocks, because the library stops after one; binary files are one
/// block.
fn split_blocks(bytes: &[u8]) -> Vec<&[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN PGP ";
    // Every packet starts with the high bit set.
    if bytes.first().is_some_and(|b| b & 0x80 != 0) && !bytes.starts_with("\u{feff}".as_bytes()) {
        return vec![bytes];
    }
    let mut starts: Vec<usize> = (0..bytes.len())
        .filter(|&at| bytes[at..].starts_with(BEGIN) && (at == 0 || bytes[at - 1] == b'\n'))
        .collect();
    if let Some(rest) = bytes.strip_prefix("\u{feff}".as_bytes())
        && rest.starts_with(BEGIN)
    {
        starts.insert(0, bytes.len() - rest.len());
    }
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| &bytes[start..end])
        .collect()
}

/// Returns the type of an armored block: `PUBLIC KEY BLOCK`.
fn find_armor_type(block: &[u8]) -> Option<&str> {
    let line = block.split(|b| *b == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim_end();
    line.strip_prefix("-----BEGIN PGP ")?.strip_suffix("-----")
}

/// Parses the certificates of a key file. The error is worded to follow "the OpenPGP key".
pub fn parse_certificates(bytes: &[u8]) -> Result<Vec<SignedPublicKey>, String> {
    if markup::is_web_page(bytes) {
        return Err("is a web page".into());
    }
    let mut found = Vec::new();
    for block in split_blocks(bytes) {
        match find_armor_type(block) {
            Some("PUBLIC KEY BLOCK") | None => {}
            Some("PRIVATE KEY BLOCK") => return Err(SECRET.into()),
            Some(other) => return Err(format!("is a PGP {other}, not a PUBLIC KEY BLOCK")),
        }
        let (parsed, _) = PublicOrSecret::from_reader_many(block).map_err(|_| DAMAGED)?;
        for one in parsed {
            match one.map_err(|_| DAMAGED)? {
                PublicOrSecret::Public(key) => found.push(key),
                PublicOrSecret::Secret(_) => return Err(SECRET.into()),
            }
        }
    }
    if found.is_empty() {
        Err("contains no certificate (export one with gpg --armor --export FINGERPRINT)".into())
    } else {
        Ok(found)
    }
}

/// The last line of an armored signature.
pub const END: &str = "-----END PGP SIGNATURE-----";

pub fn refuse_truncated() -> SignatureRefusal {
    malformed(format!("it is cut off: {END} is missing"))
}

const SECRET: &str =
    "is a secret key; a recipe needs the public key (gpg --armor --export FINGERPRINT)";
const DAMAGED: &str = "is damaged or cut off";

/// Parses the signatures of a detached signature file.
pub fn parse_signatures(bytes: &[u8]) -> Result<Vec<Signature>, SignatureRefusal> {
    let blocks = split_blocks(bytes);
    if blocks.is_empty() {
        return Err(malformed("it is not an OpenPGP signature"));
    }
    let mut found = Vec::new();
    for block in blocks {
        match find_armor_type(block) {
            Some("SIGNATURE") | None => {}
            Some("SIGNED MESSAGE") => {
                let fact = "its file is clearsigned text, not a detached signature";
                return Err(
                    malformed(fact).cure("set form = \"clearsigned\" in checksum_signature")
                );
            }
            Some(other) => {
                let fact = format!("its file is a PGP {other}, not a detached signature");
                return Err(malformed(fact));
            }
        }
        if find_armor_type(block).is_some() && !String::from_utf8_lossy(block).contains(END) {
            return Err(refuse_truncated());
        }
        let (parsed, _) = DetachedSignature::from_reader_many(block)
            .map_err(|_| malformed("it is damaged or cut off"))?;
        for one in parsed {
            let one = one.map_err(|_| malformed("it is damaged or cut off"))?;
            found.push(one.signature);
            if found.len() > MAX_SIGNATURES {
                return Err(malformed("its file contains more than 64 signatures"));
            }
        }
    }
    if found.is_empty() {
        return Err(malformed("it is damaged or cut off"));
    }
    Ok(found)
}

/// Returns the keys that a signature names as its issuers.
pub fn list_issuers(signature: &Signature) -> Vec<String> {
    let full: Vec<String> = signature
        .issuer_fingerprint()
        .into_iter()
        .map(|fp| format!("fingerprint {}", render_fingerprint(fp)))
        .collect();
    if !full.is_empty() {
        return full;
    }
    signature
        .issuer_key_id()
        .into_iter()
        .map(|id| format!("key id {}", hex::encode_upper(id.as_ref())))
        .collect()
}

/// Returns true for hashes stronger than SHA-224.
pub fn is_strong(hash: HashAlgorithm) -> bool {
    matches!(
        hash,
        HashAlgorithm::Sha256
            | HashAlgorithm::Sha384
            | HashAlgorithm::Sha512
            | HashAlgorithm::Sha3_256
            | HashAlgorithm::Sha3_512
    )
}

/// Checks the type and the algorithms of a signature, independent of its key.
pub fn check_signature(signature: &Signature) -> Result<(), SignatureRefusal> {
    let Some(config) = signature.config() else {
        return Err(RefusalReason::Unsupported.refusal("its version is not supported"));
    };
    if !matches!(config.typ, SignatureType::Binary | SignatureType::Text) {
        return Err(RefusalReason::WrongUse.refusal("it signs a key or a name, not a file"));
    }
    if !is_strong(config.hash_alg) {
        let fact = format!("it uses {}, which is insecure", config.hash_alg);
        return Err(RefusalReason::Weak
            .refusal(fact)
            .expected("SHA-256, SHA-384 or SHA-512")
            .cure("sign again with gpg --digest-algo SHA512"));
    }
    if config.pub_alg == PublicKeyAlgorithm::DSA {
        return Err(RefusalReason::Weak.refusal("it was made with a DSA key"));
    }
    let unknown = config.hashed_subpackets.iter().any(|p| {
        p.is_critical
            && matches!(
                p.data,
                SubpacketData::Notation(_)
                    | SubpacketData::Experimental(..)
                    | SubpacketData::Other(..)
            )
    });
    if unknown {
        return Err(
            RefusalReason::Unsupported.refusal("it has a critical subpacket that is not supported")
        );
    }
    Ok(())
}

/// Returns the expiration time of the signature itself.
pub fn find_expiry(signature: &Signature) -> Option<u64> {
    let span = u64::from(signature.signature_expiration_time()?.as_secs());
    let made = u64::from(signature.created()?.as_secs());
    (span != 0).then_some(made + span)
}

/// Checks that the signature itself has not expired and is not from the future.
pub fn check_lifetime(signature: &Signature, now: u64) -> Result<(), SignatureRefusal> {
    let Some(made) = signature.created() else {
        return Err(malformed("it does not say when it was made"));
    };
    let made = u64::from(made.as_secs());
    if made > now {
        return Err(RefusalReason::NotYetValid
            .refusal("it is dated in the future")
            .expected(format!("at most {}", render_time(now)))
            .found(render_time(made))
            .cure("check this machine's clock"));
    }
    match find_expiry(signature).filter(|end| *end <= now) {
        Some(end) => Err(RefusalReason::Expired
            .refusal("it has expired")
            .expected(format!("later than {}", render_time(now)))
            .found(render_time(end))),
        None => Ok(()),
    }
}

pub fn render_fingerprint(fingerprint: &Fingerprint) -> String {
    hex::encode_upper(fingerprint.as_bytes())
}

/// Renders seconds since 1970 as a timestamp.
pub fn render_time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |t| t.to_string())
}
