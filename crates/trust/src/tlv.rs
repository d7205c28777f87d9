//! ASN.1 in DER as tag, length and value: slices of what was read, never a copy that is encoded anew.
//!
//! Whole-structure decoders refuse signatures that Windows takes (a certificate twice in a set, attribute certificates,
//! content that is no OCTET STRING), so the signature formats are walked element by element. Refuses indefinite lengths,
//! bytes after the last element, and depth: every walk descends by a call that stands in the source, not by recursion.
//! (X.690; RFC 5652)

use der::{Encode, Reader, SliceReader};

use super::oid::Oid;
use super::{Reason, Refusal};

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The tag of a constructed `[number]`.
pub(super) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tlv<'a> {
    pub(super) tag: u8,
    /// The value octets.
    pub(super) value: &'a [u8],
    /// Tag, length and value, as they were read.
    pub(super) raw: &'a [u8],
}

impl<'a> Tlv<'a> {
    /// The elements inside.
    pub(super) fn walk(&self, what: &'static str) -> Result<Walk<'a>, Refusal> {
        Walk::new(self.value, what)
    }

    pub(super) fn oid(&self, what: &'static str) -> Result<Oid<'a>, Refusal> {
        let oid = Some(self.value)
            .filter(|_| self.tag == OID)
            .and_then(Oid::read);
        oid.ok_or_else(|| malformed(what, "has a bad object identifier"))
    }
}

/// The elements of a constructed value, one after the other. `what` is its name in a refusal: `the signer's attributes`.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    reader: SliceReader<'a>,
    what: &'static str,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str) -> Result<Self, Refusal> {
        let reader = SliceReader::new(bytes).map_err(|_| malformed(what, "is too long"))?;
        Ok(Self { reader, what })
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.reader.peek_byte()
    }

    /// The next element; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Tlv<'a>>, Refusal> {
        if self.reader.is_finished() {
            return Ok(None);
        }
        let what = self.what;
        let cut = |_| malformed(what, "is cut off or not DER");
        let header = self.reader.peek_header().map_err(cut)?;
        let raw = self.reader.tlv_bytes().map_err(cut)?;
        let head = header
            .encoded_len()
            .and_then(usize::try_from)
            .map_err(cut)?;
        let value = raw
            .get(head..)
            .ok_or_else(|| malformed(what, "is cut off or not DER"))?;
        let tag = header.tag.octet();
        Ok(Some(Tlv { tag, value, raw }))
    }

    /// The next element, which has to be of this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Result<Tlv<'a>, Refusal> {
        match self.next()? {
            Some(tlv) if tlv.tag == tag => Ok(tlv),
            Some(tlv) => Err(malformed(self.what, "is not as the standard has it")
                .expected(format_args!("an element of tag {tag:#04x}"))
                .found(format_args!("tag {:#04x}", tlv.tag))),
            None => Err(malformed(self.what, "ends early")),
        }
    }

    /// The next element when it is of this tag; otherwise nothing is taken.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<Tlv<'a>>, Refusal> {
        if self.peek() == Some(tag) {
            self.next()
        } else {
            Ok(None)
        }
    }

    pub(super) fn oid(&mut self) -> Result<Oid<'a>, Refusal> {
        let what = self.what;
        self.expect(OID)?.oid(what)
    }

    /// Nothing may follow.
    pub(super) fn finish(&self) -> Result<(), Refusal> {
        if self.reader.is_finished() {
            Ok(())
        } else {
            Err(malformed(
                self.what,
                "has more in it than the standard allows",
            ))
        }
    }
}

/// The OID of an AlgorithmIdentifier that has no parameters but a NULL.
pub(super) fn plain_algorithm<'a>(
    identifier: &Tlv<'a>,
    what: &'static str,
) -> Result<Oid<'a>, Refusal> {
    let mut walk = identifier.walk(what)?;
    let oid = walk.oid()?;
    if let Some(null) = walk.optional(NULL)?
        && !null.value.is_empty()
    {
        return Err(malformed(what, "has bad parameters of an algorithm"));
    }
    walk.finish()?;
    Ok(oid)
}

/// A version number below 128, which has to be one of these.
pub(super) fn version(walk: &mut Walk<'_>, known: &[u8]) -> Result<u8, Refusal> {
    let what = walk.what;
    match walk.expect(INTEGER)?.value {
        [version] if known.contains(version) => Ok(*version),
        _ => Err(malformed(what, "is of a version that winimg does not know")),
    }
}

/// Bytes that are exactly one element of this tag.
pub(super) fn only<'a>(bytes: &'a [u8], tag: u8, what: &'static str) -> Result<Tlv<'a>, Refusal> {
    let mut walk = Walk::new(bytes, what)?;
    let tlv = walk.expect(tag)?;
    walk.finish()?;
    Ok(tlv)
}

/// The first element of bytes that may go on after it, and how many follow.
pub(super) fn first<'a>(
    bytes: &'a [u8],
    tag: u8,
    what: &'static str,
) -> Result<(Tlv<'a>, &'a [u8]), Refusal> {
    let tlv = Walk::new(bytes, what)?.expect(tag)?;
    Ok((tlv, bytes.get(tlv.raw.len()..).unwrap_or_default()))
}

pub(super) fn malformed(what: &str, fact: &str) -> Refusal {
    Reason::Malformed.refusal(format!("it cannot be read: {what} {fact}"))
}
