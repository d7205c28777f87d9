//! Armour and packets, as far as they are other people's bytes.
//!
//! Refuses what is not the thing that was asked for, by its name, and every signature that is not whole and strong.

use pgp::composed::{Deserializable as _, DetachedSignature, PublicOrSecret, SignedPublicKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::types::Fingerprint;

use super::super::{Reason, Refusal};
use winimg_base::markup;

/// Signatures of one file.
const MANY: usize = 64;

/// Each armoured block, or the whole if it is binary: readers stop after one block.
fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN PGP ";
    // Every packet begins with the high bit set.
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
    let ends: Vec<usize> = ends.collect();
    starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| &bytes[start..end])
        .collect()
}

/// What an armoured block calls itself: `PUBLIC KEY BLOCK`.
fn armour_of(block: &[u8]) -> Option<&str> {
    let line = block.split(|b| *b == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim_end();
    line.strip_prefix("-----BEGIN PGP ")?.strip_suffix("-----")
}

/// The certificates of a key file. The error fits after "the OpenPGP key".
pub fn certificates(bytes: &[u8]) -> Result<Vec<SignedPublicKey>, String> {
    if markup::is_page(bytes) {
        return Err("is a web page".into());
    }
    let mut found = Vec::new();
    for block in blocks(bytes) {
        match armour_of(block) {
            Some("PUBLIC KEY BLOCK") | None => {}
            Some("PRIVATE KEY BLOCK") => return Err(SECRET.into()),
            Some(other) => return Err(format!("is a PGP {other}, not a PUBLIC KEY BLOCK")),
        }
        let unread = |_| "cannot be read: it is damaged or cut off".to_string();
        let (parsed, _) = PublicOrSecret::from_reader_many(block).map_err(unread)?;
        for one in parsed {
            match one.map_err(unread)? {
                PublicOrSecret::Public(key) => found.push(key),
                PublicOrSecret::Secret(_) => return Err(SECRET.into()),
            }
        }
    }
    match found.is_empty() {
        true => Err("holds no certificate (gpg --armor --export FINGERPRINT writes one)".into()),
        false => Ok(found),
    }
}

/// The last line of an armoured signature.
pub const END: &str = "-----END PGP SIGNATURE-----";

pub fn cut_off() -> Refusal {
    Reason::Malformed.refusal(format!("it is cut off: {END} is missing"))
}

const SECRET: &str =
    "is a secret key; a recipe needs the public one (gpg --armor --export FINGERPRINT)";

/// The signatures of a detached signature file.
pub fn detached(bytes: &[u8]) -> Result<Vec<Signature>, Refusal> {
    let malformed = |fact: &str| Reason::Malformed.refusal(fact);
    let blocks = blocks(bytes);
    if blocks.is_empty() {
        return Err(malformed("it is not an OpenPGP signature"));
    }
    let mut found = Vec::new();
    for block in blocks {
        match armour_of(block) {
            Some("SIGNATURE") | None => {}
            Some("SIGNED MESSAGE") => {
                let fact = "its file is clearsigned text, not a detached signature";
                return Err(malformed(fact).cure("form = \"clearsigned\" in checksum_signature"));
            }
            Some(other) => {
                let fact = format!("its file is a PGP {other}, not a detached signature");
                return Err(malformed(&fact));
            }
        }
        if armour_of(block).is_some() && !String::from_utf8_lossy(block).contains(END) {
            return Err(cut_off());
        }
        let unread = |_| malformed("it is damaged or cut off");
        let (parsed, _) = DetachedSignature::from_reader_many(block).map_err(unread)?;
        for one in parsed {
            found.push(one.map_err(unread)?.signature);
            if found.len() > MANY {
                return Err(malformed("its file holds more than 64 signatures"));
            }
        }
    }
    if found.is_empty() {
        return Err(malformed("it is damaged or cut off"));
    }
    Ok(found)
}

/// The keys that a signature names as its makers.
pub fn makers(signature: &Signature) -> Vec<String> {
    let full: Vec<String> = signature
        .issuer_fingerprint()
        .into_iter()
        .map(|fp| format!("fingerprint {}", hex_of(fp)))
        .collect();
    if !full.is_empty() {
        return full;
    }
    let ids = signature.issuer_key_id().into_iter();
    ids.map(|id| format!("key id {}", hex::encode_upper(id.as_ref())))
        .collect()
}

/// SHA-224 and what is below prove nothing here.
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

/// Whether the signature is of a kind that says anything, by any key.
pub fn sound(signature: &Signature) -> Result<(), Refusal> {
    let unsupported = |fact: &str| Reason::Unsupported.refusal(fact);
    let Some(config) = signature.config() else {
        return Err(unsupported("it is of a version that winimg does not know"));
    };
    if !matches!(config.typ, SignatureType::Binary | SignatureType::Text) {
        return Err(Reason::WrongUse.refusal("it signs a key or a name, not a file"));
    }
    if !is_strong(config.hash_alg) {
        let fact = format!("it is over {}, which proves nothing", config.hash_alg);
        return Err(Reason::Weak
            .refusal(fact)
            .expected("SHA-256, SHA-384 or SHA-512")
            .cure("sign again with gpg --digest-algo SHA512"));
    }
    if config.pub_alg == PublicKeyAlgorithm::DSA {
        return Err(Reason::Weak.refusal("it was made with a DSA key"));
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
        return Err(unsupported(
            "it carries a condition, marked as critical, that winimg does not know",
        ));
    }
    Ok(())
}

/// The end of the time for which the signature itself was made.
pub fn expiry(signature: &Signature) -> Option<u64> {
    let span = u64::from(signature.signature_expiration_time()?.as_secs());
    let made = u64::from(signature.created()?.as_secs());
    (span != 0).then_some(made + span)
}

/// Whether the signature's own time is over.
pub fn in_time(signature: &Signature, now: u64) -> Result<(), Refusal> {
    let Some(made) = signature.created() else {
        return Err(Reason::Malformed.refusal("it does not say when it was made"));
    };
    let made = u64::from(made.as_secs());
    if made > now {
        return Err(Reason::NotYetValid
            .refusal("it is dated in the future")
            .expected(format!("at most {}", shown(now)))
            .found(shown(made))
            .cure("look at this machine's clock"));
    }
    match expiry(signature).filter(|end| *end <= now) {
        Some(end) => Err(Reason::Expired
            .refusal("its signer limited it to a time that is over")
            .expected(format!("later than {}", shown(now)))
            .found(shown(end))),
        None => Ok(()),
    }
}

pub fn hex_of(fingerprint: &Fingerprint) -> String {
    hex::encode_upper(fingerprint.as_bytes())
}

/// Seconds since 1970 as a reader knows them.
pub fn shown(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |t| t.to_string())
}
