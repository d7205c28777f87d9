//! Cabinets: the signature is behind the cabinet, and the header's reserve points to it.
//!
//! The digest omits the header's checksum, the sizes of the reserves and the pointer itself, so
//! these must have exactly the values that a signing tool writes. Refuses bytes between the cabinet
//! and its signature, and after that. (Microsoft: MS-CAB 2.1; Cabinet SDK: reserved areas)

use super::super::uncovered::{UncoveredPlace, UncoveredRange};
use super::source::{SignedSource, u16_at, u32_at};
use crate::x509::hash::HashKind;
use crate::x509::tlv;
use crate::{RefusalReason, SignatureRefusal};

/// The header with the reserve that a signature needs.
const HEADER: usize = 60;
const RESERVE_PRESENT: u16 = 0x0004;
/// Size of that reserve, and its first four bytes.
const RESERVE: u16 = 20;
const RESERVE_MARK: [u8; 4] = [0, 0, 0x10, 0];
const MAX_SIGNATURE_SIZE: u32 = 16 << 20;

/// Location of the signature.
struct CabSignature {
    offset: u64,
    size: u32,
}

/// Returns the PKCS#7 DER; `None` if the file is not signed. Refuses bytes that no signature
/// covers.
pub(super) fn read_signature(file: &mut SignedSource) -> Result<Option<Vec<u8>>, SignatureRefusal> {
    let Some(place) = find_signature(file)? else {
        return Ok(None);
    };
    if place.size > MAX_SIGNATURE_SIZE {
        return Err(malformed("its signature exceeds the maximum size")
            .found(format_args!("{} bytes", place.size)));
    }
    let end = place.offset + u64::from(place.size);
    let length = file.length();
    if length > end {
        return Err(refuse_uncovered(format!(
            "unsigned bytes after the cabinet's signature: {} from offset {end}",
            length - end
        )));
    }
    let bytes = file
        .read_bytes(place.offset, place.size as usize)?
        .ok_or_else(|| {
            malformed("the file is cut off")
                .expected(format_args!("{end} bytes, by its header"))
                .found(format_args!("{length} bytes"))
        })?;
    let (der, rest) = tlv::parse_first(&bytes, tlv::SEQUENCE, "the cabinet's signature")?;
    // Signing tools pad to eight bytes.
    if rest.len() > 7 || rest.iter().any(|&byte| byte != 0) {
        return Err(refuse_uncovered(format!(
            "unsigned bytes after the signature within the cabinet: {} from offset {}",
            rest.len(),
            end - rest.len() as u64
        )));
    }
    Ok(Some(der.raw.to_vec()))
}

/// Computes the digest that is signed.
pub(super) fn compute_digest(
    file: &mut SignedSource,
    algorithm: HashKind,
) -> Result<Vec<u8>, SignatureRefusal> {
    let place = find_signature(file)?.ok_or_else(|| malformed("it has no signature"))?;
    if place.offset > file.length() {
        return Err(malformed("the file is cut off"));
    }
    let mut hash = algorithm.start();
    file.hash_but(&mut hash, &left_out(), place.offset)?;
    Ok(hash.finish().as_ref().to_vec())
}

/// Returns the ranges that the digest omits.
pub(super) fn list_uncovered(
    file: &mut SignedSource,
) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
    let mut open = left_out().to_vec();
    if let (Some(place), Some(signature)) = (find_signature(file)?, read_signature(file)?) {
        let end = place.offset + signature.len() as u64;
        open.push(UncoveredRange::new(
            UncoveredPlace::Signature,
            place.offset..end,
        ));
        open.push(UncoveredRange::new(
            UncoveredPlace::Padding,
            end..file.length(),
        ));
    }
    Ok(open)
}

/// Returns the omitted ranges of the header.
fn left_out() -> [UncoveredRange; 3] {
    [
        UncoveredRange::new(UncoveredPlace::CabChecksum, 4..8),
        UncoveredRange::new(UncoveredPlace::CabReserve, 34..44),
        UncoveredRange::new(UncoveredPlace::CabPointer, 44..56),
    ]
}

/// Reads the location of the signature from the header, and checks everything in it that the digest
/// omits.
fn find_signature(file: &mut SignedSource) -> Result<Option<CabSignature>, SignatureRefusal> {
    let Some(header) = file.read_bytes(0, HEADER)? else {
        return Ok(None);
    };
    if u16_at(&header, 30) & RESERVE_PRESENT == 0
        || u16_at(&header, 36) != RESERVE
        || header[40..44] != RESERVE_MARK
        || (u32_at(&header, 44) == 0 && u32_at(&header, 48) == 0)
    {
        return Ok(None);
    }
    let (offset, cabinet) = (u32_at(&header, 44), u32_at(&header, 8));
    if u16_at(&header, 34) != 0 {
        return Err(RefusalReason::Unsupported
            .refusal("it is a later cabinet of a set, whose number is not signed")
            .expected("a single cabinet, or the first of a set")
            .found(format_args!("number {} of its set", u16_at(&header, 34))));
    }
    if u32_at(&header, 4) != 0 || header[38..40] != [0, 0] || header[52..60] != [0; 8] {
        return Err(refuse_uncovered(
            "the reserved fields of the cabinet's header contain unsigned bytes",
        ));
    }
    if (offset as usize) < HEADER {
        return Err(
            malformed("its signature overlaps its header").found(format_args!("offset {offset}"))
        );
    }
    if offset != cabinet {
        return Err(refuse_uncovered(
            "the cabinet's signature does not start at the end of the cabinet",
        )
        .expected(format_args!("offset {cabinet}"))
        .found(format_args!("offset {offset}")));
    }
    Ok(Some(CabSignature {
        offset: u64::from(offset),
        size: u32_at(&header, 48),
    }))
}

fn malformed(fact: &str) -> SignatureRefusal {
    RefusalReason::Malformed.refusal(format!("the cabinet cannot be read: {fact}"))
}

fn refuse_uncovered(fact: impl Into<String>) -> SignatureRefusal {
    RefusalReason::Uncovered
        .refusal(fact)
        .cure("download the cabinet from its publisher again")
}
