//! Converts BER to DER, as far as signers that stream CMS need it: indefinite lengths, and octet
//! strings in pieces.
//!
//! Only the wrappers of the signed parts are re-encoded: certificates, signed attributes and
//! everything else of definite length are copied unchanged, because those bytes were signed.
//! Refuses indefinite lengths from the signer's attributes on, where RFC 5652 5.4 requires DER.
//! (X.690 8.1.3.6, 8.7.3; RFC 5652)

use std::borrow::Cow;

use der::{Decode, IndefiniteLength, Length, Reader, SliceReader};

use super::tlv::{OCTET_STRING, refuse_malformed};
use crate::SignatureRefusal;

const WHAT: &str = "the signature";
const CONSTRUCTED: u8 = 0x20;
const PIECES: u8 = OCTET_STRING | CONSTRUCTED;
const HIGH_NUMBER: u8 = 0x1f;
/// Depth of a SignerInfo: ContentInfo, `[0]`, SignedData, the set of signers. Its content must have
/// definite lengths.
const MAX_DEPTH: usize = 5;

/// Returns the same element with definite lengths only.
pub fn to_der(bytes: &[u8]) -> Result<Cow<'_, [u8]>, SignatureRefusal> {
    // A definite length: at this level it is already DER.
    if bytes.get(1) != Some(&0x80) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut reader = SliceReader::new(bytes).map_err(|_| refuse_malformed(WHAT, "is too long"))?;
    let mut whole = Vec::with_capacity(bytes.len());
    convert_element(&mut reader, 1, &mut whole)?;
    // Bytes after the element are refused by the reader.
    whole.extend_from_slice(reader.read_slice(reader.remaining_len()).map_err(cut)?);
    Ok(Cow::Owned(whole))
}

/// Copies one element to `to`.
fn convert_element(
    reader: &mut SliceReader<'_>,
    depth: usize,
    to: &mut Vec<u8>,
) -> Result<(), SignatureRefusal> {
    let tag = reader.read_byte().map_err(cut)?;
    if tag & HIGH_NUMBER == HIGH_NUMBER {
        return Err(refuse_malformed(WHAT, "has a multi-byte tag"));
    }
    let length = IndefiniteLength::decode(reader).map_err(cut)?;
    if let Ok(length) = Length::try_from(length)
        && tag != PIECES
    {
        return write(tag, reader.read_slice(length).map_err(cut)?, to);
    }
    if tag == PIECES {
        let joined = join_pieces(reader, length)?;
        return write(OCTET_STRING, &joined, to);
    }
    if tag & CONSTRUCTED == 0 || depth > MAX_DEPTH {
        let fact = "has an indefinite length where DER is required";
        return Err(refuse_malformed(WHAT, fact));
    }
    let mut inside = Vec::new();
    while !skip_end(reader)? {
        convert_element(reader, depth + 1, &mut inside)?;
    }
    write(tag, &inside, to)
}

/// Joins an octet string in pieces, which must have definite lengths and no pieces themselves.
fn join_pieces(
    reader: &mut SliceReader<'_>,
    length: IndefiniteLength,
) -> Result<Vec<u8>, SignatureRefusal> {
    let mut joined = Vec::new();
    let end = match Length::try_from(length) {
        Ok(length) => Some((reader.position() + length).map_err(cut)?),
        Err(_) => None,
    };
    loop {
        match end {
            Some(end) if reader.position() > end => {
                return Err(refuse_malformed(WHAT, "is cut off"));
            }
            Some(end) if reader.position() == end => return Ok(joined),
            None if skip_end(reader)? => return Ok(joined),
            _ => {}
        }
        if reader.read_byte().map_err(cut)? != OCTET_STRING {
            return Err(refuse_malformed(
                WHAT,
                "has an octet string with an invalid piece",
            ));
        }
        let length = Length::decode(reader).map_err(cut)?;
        joined.extend_from_slice(reader.read_slice(length).map_err(cut)?);
    }
}

/// Consumes the two zeros that end an element of indefinite length, if they come next.
fn skip_end(reader: &mut SliceReader<'_>) -> Result<bool, SignatureRefusal> {
    if reader.peek_byte() != Some(0) {
        return Ok(false);
    }
    match reader.read_slice(Length::new(2)).map_err(cut)? {
        [0, 0] => Ok(true),
        _ => Err(refuse_malformed(
            WHAT,
            "has an invalid end of an indefinite length",
        )),
    }
}

fn write(tag: u8, value: &[u8], to: &mut Vec<u8>) -> Result<(), SignatureRefusal> {
    let length = Length::try_from(value.len()).map_err(cut)?;
    to.push(tag);
    der::Encode::encode_to_vec(&length, to).map_err(cut)?;
    to.extend_from_slice(value);
    Ok(())
}

fn cut(_: der::Error) -> SignatureRefusal {
    refuse_malformed(WHAT, "is cut off or not BER")
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
            ("30 80 00 01", "has an invalid end of an indefinite length"),
            (
                "30 80 04 80 0000 0000",
                "has an indefinite length where DER is required",
            ),
            (&deep, "has an indefinite length where DER is required"),
            (
                "30 80 24 80 24 80 0000 0000 0000",
                "has an octet string with an invalid piece",
            ),
            ("30 80 24 02 0401aa 0000", "is cut off"),
            ("30 80 1f 01 00 0000", "has a multi-byte tag"),
            ("30 80 02 81 01 01 0000", "is cut off or not BER"),
        ] {
            let refusal = format!("it cannot be read: the signature {fact}");
            assert_eq!(der_of(ber), Err(refusal), "{ber}");
        }
    }
}
