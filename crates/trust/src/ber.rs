//! BER to DER, as far as signers write CMS in streams: lengths that are said at the end, and octets in pieces.
//!
//! Only what is wrapped around the signed parts is written anew: certificates, signed attributes and everything else of a
//! known length are copied as they stand, since those bytes were signed. Refuses unknown lengths from the signer's attributes
//! on, where RFC 5652 5.4 asks for DER. (X.690 8.1.3.6, 8.7.3; RFC 5652)

use std::borrow::Cow;

use der::{Decode, IndefiniteLength, Length, Reader, SliceReader};

use super::Refusal;
use super::tlv::{OCTET_STRING, malformed};

const WHAT: &str = "the signature";
const CONSTRUCTED: u8 = 0x20;
const PIECES: u8 = OCTET_STRING | CONSTRUCTED;
const HIGH_NUMBER: u8 = 0x1f;
/// A SignerInfo: ContentInfo, `[0]`, SignedData, the set of signers. What is in it has its own known lengths.
const DEEPEST: usize = 5;

/// The same element with known lengths only.
pub(super) fn to_der(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    // Tag and length: everything else is DER as far as this level says.
    if bytes.get(1) != Some(&0x80) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut reader = SliceReader::new(bytes).map_err(|_| malformed(WHAT, "is too long"))?;
    let mut whole = Vec::with_capacity(bytes.len());
    element(&mut reader, 1, &mut whole)?;
    // What follows is refused where it is read.
    whole.extend_from_slice(reader.read_slice(reader.remaining_len()).map_err(cut)?);
    Ok(Cow::Owned(whole))
}

/// Copies one element to `to`.
fn element(reader: &mut SliceReader<'_>, depth: usize, to: &mut Vec<u8>) -> Result<(), Refusal> {
    let tag = reader.read_byte().map_err(cut)?;
    if tag & HIGH_NUMBER == HIGH_NUMBER {
        return Err(malformed(WHAT, "has a tag of a high number"));
    }
    let length = IndefiniteLength::decode(reader).map_err(cut)?;
    if let Ok(length) = Length::try_from(length)
        && tag != PIECES
    {
        return write(tag, reader.read_slice(length).map_err(cut)?, to);
    }
    if tag == PIECES {
        let joined = pieces(reader, length)?;
        return write(OCTET_STRING, &joined, to);
    }
    if tag & CONSTRUCTED == 0 || depth > DEEPEST {
        let fact = "has a length that is said at its end where DER is asked for";
        return Err(malformed(WHAT, fact));
    }
    let mut inside = Vec::new();
    while !ended(reader)? {
        element(reader, depth + 1, &mut inside)?;
    }
    write(tag, &inside, to)
}

/// The octets of a string in pieces, which have known lengths and no pieces of their own.
fn pieces(reader: &mut SliceReader<'_>, length: IndefiniteLength) -> Result<Vec<u8>, Refusal> {
    let mut joined = Vec::new();
    let end = match Length::try_from(length) {
        Ok(length) => Some((reader.position() + length).map_err(cut)?),
        Err(_) => None,
    };
    loop {
        match end {
            Some(end) if reader.position() > end => return Err(malformed(WHAT, "is cut off")),
            Some(end) if reader.position() == end => return Ok(joined),
            None if ended(reader)? => return Ok(joined),
            _ => {}
        }
        if reader.read_byte().map_err(cut)? != OCTET_STRING {
            return Err(malformed(WHAT, "has pieces of octets that are none"));
        }
        let length = Length::decode(reader).map_err(cut)?;
        joined.extend_from_slice(reader.read_slice(length).map_err(cut)?);
    }
}

/// Takes the two zeros that end an element of unknown length, if they come next.
fn ended(reader: &mut SliceReader<'_>) -> Result<bool, Refusal> {
    if reader.peek_byte() != Some(0) {
        return Ok(false);
    }
    match reader.read_slice(Length::new(2)).map_err(cut)? {
        [0, 0] => Ok(true),
        _ => Err(malformed(WHAT, "has an end that is none")),
    }
}

fn write(tag: u8, value: &[u8], to: &mut Vec<u8>) -> Result<(), Refusal> {
    let length = Length::try_from(value.len()).map_err(cut)?;
    to.push(tag);
    der::Encode::encode_to_vec(&length, to).map_err(cut)?;
    to.extend_from_slice(value);
    Ok(())
}

fn cut(_: der::Error) -> Refusal {
    malformed(WHAT, "is cut off or not BER")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der_of(hex: &str) -> Result<String, String> {
        let bytes = hex::decode(hex.replace(' ', "")).unwrap();
        let der = to_der(&bytes).map_err(|refusal| refusal.problem.fact)?;
        Ok(hex::encode(der))
    }

    #[test]
    fn lengths_are_counted_and_pieces_joined() {
        for (ber, der) in [
            ("30 03 020101", "3003020101"),
            ("30 80 020101 0000", "3003020101"),
            ("30 80 a0 80 020101 0000 0000", "3005a003020101"),
            ("30 80 24 80 0401aa 0402bbcc 0000 0000", "30050403aabbcc"),
            ("30 80 24 03 0401aa 0000", "30030401aa"),
            ("30 80 24 80 0000 0000", "30020400"),
            // What has a known length is copied, whatever stands in it.
            ("30 80 31 04 3080 0000 0000", "3006310430800000"),
            ("30 80 0000 aa", "3000aa"),
        ] {
            assert_eq!(der_of(ber).as_deref(), Ok(der), "{ber}");
        }
    }

    #[test]
    fn what_is_no_stream_of_cms_is_refused() {
        let deep = format!("{}{}", "3080".repeat(6), "0000".repeat(6));
        for (ber, fact) in [
            ("30 80 020101", "is cut off or not BER"),
            ("30 80 020101 00", "is cut off or not BER"),
            ("30 80 00 01", "has an end that is none"),
            (
                "30 80 04 80 0000 0000",
                "has a length that is said at its end where DER is asked for",
            ),
            (
                &deep,
                "has a length that is said at its end where DER is asked for",
            ),
            (
                "30 80 24 80 24 80 0000 0000 0000",
                "has pieces of octets that are none",
            ),
            ("30 80 24 02 0401aa 0000", "is cut off"),
            ("30 80 1f 01 00 0000", "has a tag of a high number"),
            ("30 80 02 81 01 01 0000", "is cut off or not BER"),
        ] {
            let refusal = format!("it cannot be read: the signature {fact}");
            assert_eq!(der_of(ber), Err(refusal), "{ber}");
        }
    }
}
