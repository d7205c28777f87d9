//! Parses ASN.1 in DER as tag, length and value: slices of the input, never re-encoded copies.
//!
//! Whole-structure decoders refuse signatures that Windows accepts (repeated certificates in a set,
//! attribute certificates, content that is not an OCTET STRING), so the signature formats are
//! walked element by element. Refuses indefinite lengths and bytes after the last element. The
//! depth is limited, because walks are nested by explicit calls, not by recursion. (X.690;
//! RFC 5652)

use der::{Encode, Reader, SliceReader};

use super::oid::Oid;
use crate::{RefusalReason, SignatureRefusal};

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const NULL: u8 = 0x05;
pub const OID: u8 = 0x06;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// The tag of a constructed `[number]`.
pub const fn context_tag(number: u8) -> u8 {
    0xa0 | number
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    pub tag: u8,
    /// The value octets.
    pub value: &'a [u8],
    /// Tag, length and value as in the input.
    pub raw: &'a [u8],
}

impl<'a> Tlv<'a> {
    /// Walks the elements inside.
    pub fn walk(&self, what: &'static str) -> Result<TlvWalk<'a>, SignatureRefusal> {
        TlvWalk::new(self.value, what)
    }

    pub fn read_oid(&self, what: &'static str) -> Result<Oid<'a>, SignatureRefusal> {
        let oid = Some(self.value)
            .filter(|_| self.tag == OID)
            .and_then(Oid::read);
        oid.ok_or_else(|| refuse_malformed(what, "has a bad object identifier"))
    }
}

/// Iterates over the elements of a constructed value. `what` is its name in refusals:
/// `the signer's attributes`.
#[derive(Clone, Debug)]
pub struct TlvWalk<'a> {
    reader: SliceReader<'a>,
    what: &'static str,
}

impl<'a> TlvWalk<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> Result<Self, SignatureRefusal> {
        let reader = SliceReader::new(bytes).map_err(|_| refuse_malformed(what, "is too long"))?;
        Ok(Self { reader, what })
    }

    pub fn peek(&self) -> Option<u8> {
        self.reader.peek_byte()
    }

    /// Returns the next element; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Tlv<'a>>, SignatureRefusal> {
        if self.reader.is_finished() {
            return Ok(None);
        }
        let tlv = self
            .read_element()
            .ok_or_else(|| refuse_malformed(self.what, "is cut off or not DER"))?;
        Ok(Some(tlv))
    }

    fn read_element(&mut self) -> Option<Tlv<'a>> {
        let header = self.reader.peek_header().ok()?;
        let raw = self.reader.tlv_bytes().ok()?;
        let head = header.encoded_len().and_then(usize::try_from).ok()?;
        let value = raw.get(head..)?;
        let tag = header.tag.octet();
        Some(Tlv { tag, value, raw })
    }

    /// Returns the next element, which must have this tag.
    pub fn expect(&mut self, tag: u8) -> Result<Tlv<'a>, SignatureRefusal> {
        match self.next()? {
            Some(tlv) if tlv.tag == tag => Ok(tlv),
            Some(tlv) => Err(refuse_malformed(self.what, "does not match the standard")
                .expected(format_args!("an element with tag {tag:#04x}"))
                .found(format_args!("tag {:#04x}", tlv.tag))),
            None => Err(refuse_malformed(self.what, "is cut off")),
        }
    }

    /// Returns the next element if it has this tag; otherwise consumes nothing.
    pub fn next_if(&mut self, tag: u8) -> Result<Option<Tlv<'a>>, SignatureRefusal> {
        if self.peek() == Some(tag) {
            self.next()
        } else {
            Ok(None)
        }
    }

    pub fn read_oid(&mut self) -> Result<Oid<'a>, SignatureRefusal> {
        let what = self.what;
        self.expect(OID)?.read_oid(what)
    }

    /// Checks that nothing follows.
    pub fn finish(&self) -> Result<(), SignatureRefusal> {
        if self.reader.is_finished() {
            Ok(())
        } else {
            Err(refuse_malformed(
                self.what,
                "contains more than the standard allows",
            ))
        }
    }
}

/// Returns the OID of an AlgorithmIdentifier without parameters other than NULL.
pub fn plain_algorithm<'a>(
    identifier: &Tlv<'a>,
    what: &'static str,
) -> Result<Oid<'a>, SignatureRefusal> {
    let mut walk = identifier.walk(what)?;
    let oid = walk.read_oid()?;
    if let Some(null) = walk.next_if(NULL)?
        && !null.value.is_empty()
    {
        return Err(refuse_malformed(what, "has bad algorithm parameters"));
    }
    walk.finish()?;
    Ok(oid)
}

/// Returns a version number below 128, which must be one of `known`.
pub fn read_version(walk: &mut TlvWalk<'_>, known: &[u8]) -> Result<u8, SignatureRefusal> {
    let what = walk.what;
    match walk.expect(INTEGER)?.value {
        [version] if known.contains(version) => Ok(*version),
        _ => Err(refuse_malformed(what, "has an unsupported version")),
    }
}

/// Parses bytes that are exactly one element with this tag.
pub fn parse_only<'a>(
    bytes: &'a [u8],
    tag: u8,
    what: &'static str,
) -> Result<Tlv<'a>, SignatureRefusal> {
    let mut walk = TlvWalk::new(bytes, what)?;
    let tlv = walk.expect(tag)?;
    walk.finish()?;
    Ok(tlv)
}

/// Parses the first element, which must have this tag. Returns it with the bytes after it.
pub fn parse_first<'a>(
    bytes: &'a [u8],
    tag: u8,
    what: &'static str,
) -> Result<(Tlv<'a>, &'a [u8]), SignatureRefusal> {
    let tlv = TlvWalk::new(bytes, what)?.expect(tag)?;
    Ok((tlv, bytes.get(tlv.raw.len()..).unwrap_or_default()))
}

pub fn refuse_malformed(what: &str, fact: &str) -> SignatureRefusal {
    RefusalReason::Malformed.refusal(format!("it cannot be read: {what} {fact}"))
}
