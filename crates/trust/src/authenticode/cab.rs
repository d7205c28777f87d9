//! Cabinets: the signature behind the cabinet, and where the header's reserve points to it.
//!
//! The digest leaves out the header's checksum, the sizes of the reserves and the pointer itself; these may therefore say
//! nothing but what a signing tool writes. Refuses bytes between the cabinet and its signature, and after that.
//! (Microsoft: MS-CAB 2.1; Cabinet SDK: reserved areas)

use super::super::hash::HashKind;
use super::super::place::{Open, Place};
use super::super::{Reason, Refusal, tlv};
use super::source::Source;

/// The header with the reserve that a signature needs.
const HEADER: usize = 60;
const RESERVE_PRESENT: u16 = 0x0004;
/// The size of that reserve, and the four bytes that it begins with.
const RESERVE: u16 = 20;
const RESERVE_MARK: [u8; 4] = [0, 0, 0x10, 0];
const LONGEST_SIGNATURE: u32 = 16 << 20;

/// Where the signature is.
struct Pointer {
    offset: u64,
    size: u32,
}

/// The PKCS#7 DER; `None` when the file is not signed. Refuses what no signature covers.
pub(super) fn signature(file: &mut Source) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(place) = place(file)? else {
        return Ok(None);
    };
    if place.size > LONGEST_SIGNATURE {
        return Err(malformed("its signature is longer than any is")
            .found(format_args!("{} bytes", place.size)));
    }
    let end = place.offset + u64::from(place.size);
    let length = file.length();
    if length > end {
        return Err(uncovered(format!(
            "bytes follow the cabinet's signature, which it does not cover: {} from offset {end}",
            length - end
        )));
    }
    let bytes = file
        .bytes(place.offset, place.size as usize)?
        .ok_or_else(|| {
            malformed("the file is cut off")
                .expected(format_args!("{end} bytes, by its header"))
                .found(format_args!("{length} bytes"))
        })?;
    let (der, rest) = tlv::first(&bytes, tlv::SEQUENCE, "the cabinet's signature")?;
    // Signing tools fill up to eight bytes.
    if rest.len() > 7 || rest.iter().any(|&byte| byte != 0) {
        return Err(uncovered(format!(
            "bytes follow the signature within the cabinet, which it does not cover: {} from offset {}",
            rest.len(),
            end - rest.len() as u64
        )));
    }
    Ok(Some(der.raw.to_vec()))
}

/// The digest that the signature is about.
pub(super) fn digest(file: &mut Source, algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
    let place = place(file)?.ok_or_else(|| malformed("it has no signature"))?;
    if place.offset > file.length() {
        return Err(malformed("the file is cut off"));
    }
    let mut hash = algorithm.start();
    file.hash_but(&mut hash, &left_out(), place.offset)?;
    Ok(hash.finish().as_ref().to_vec())
}

/// The places that the digest leaves out.
pub(super) fn open(file: &mut Source) -> Result<Vec<Open>, Refusal> {
    let mut open = left_out().to_vec();
    if let (Some(place), Some(signature)) = (place(file)?, signature(file)?) {
        let end = place.offset + signature.len() as u64;
        open.push(Open::new(Place::Signature, place.offset..end));
        open.push(Open::new(Place::Padding, end..file.length()));
    }
    Ok(open)
}

/// Those of the header.
fn left_out() -> [Open; 3] {
    [
        Open::new(Place::CabChecksum, 4..8),
        Open::new(Place::CabReserve, 34..44),
        Open::new(Place::CabPointer, 44..56),
    ]
}

/// What the header says of the signature, after everything in it that the digest leaves out was looked at.
fn place(file: &mut Source) -> Result<Option<Pointer>, Refusal> {
    let Some(header) = file.bytes(0, HEADER)? else {
        return Ok(None);
    };
    let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let u32_at = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if u16_at(30) & RESERVE_PRESENT == 0
        || u16_at(36) != RESERVE
        || header[40..44] != RESERVE_MARK
        || (u32_at(44) == 0 && u32_at(48) == 0)
    {
        return Ok(None);
    }
    let (offset, cabinet) = (u32_at(44), u32_at(8));
    if u16_at(34) != 0 {
        return Err(Reason::Unsupported
            .refusal("it is a later cabinet of a set, whose number no signature covers")
            .expected("a cabinet of its own, or the first of a set")
            .found(format_args!("number {} of its set", u16_at(34))));
    }
    if u32_at(4) != 0 || header[38..40] != [0, 0] || header[52..60] != [0; 8] {
        return Err(uncovered(
            "the cabinet's header has bytes in its reserved fields, which the signature does not cover",
        ));
    }
    if (offset as usize) < HEADER {
        return Err(malformed("its signature is said to stand in its header")
            .found(format_args!("offset {offset}")));
    }
    if offset != cabinet {
        return Err(
            uncovered("the cabinet's signature does not begin where the cabinet ends")
                .expected(format_args!("offset {cabinet}"))
                .found(format_args!("offset {offset}")),
        );
    }
    Ok(Some(Pointer {
        offset: u64::from(offset),
        size: u32_at(48),
    }))
}

fn malformed(fact: &str) -> Refusal {
    Reason::Malformed.refusal(format!("the cabinet cannot be read: {fact}"))
}

fn uncovered(fact: impl Into<String>) -> Refusal {
    Reason::Uncovered
        .refusal(fact)
        .cure("fetch the cabinet from its publisher again")
}
