//! The places of a proved file that its signature leaves out, all of them, and what may stand in each.
//!
//! Windows' own formats have a few: the field that leads to the signature cannot be part of what is signed. Every other byte
//! is covered. The readers take digests over what is left when these places are taken out ([`Open`]), so a place that
//! is not here is signed; the tests change each byte of good files, and look here for every change that is taken.

use std::fmt;
use std::ops::Range;

/// A place that a signature does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Four bytes of a PE header. Windows compares them for drivers and boot files alone; nothing else reads them.
    PeChecksum,
    /// The PE directory's entry of the certificate table: it has to lead to the table that ends the file.
    PeTableEntry,
    /// The head of the one entry of that table: revision 2.0, the type of a signature, and a length that leaves no room.
    PeTableHead,
    /// What fills the certificate table, or a cabinet's end, up to eight bytes: at most seven zeros.
    Padding,
    /// A cabinet's checksum of its header, which nobody fills: zeros.
    CabChecksum,
    /// A cabinet's number in its set and the sizes of its reserves: number 0, and the sizes that signing tools write.
    CabReserve,
    /// Where a cabinet's reserve says that the signature stands: right behind the cabinet, up to the file's end.
    CabPointer,
    /// The comments at a script's end: two marks, and between them nothing but base64, in lines that end in CRLF.
    ScriptBlock,
    /// Header, allocation tables, directory and unused sectors of a package. Every sector belongs to one stream or table, what
    /// is no stream's is zero or counted in a remark, and the streams that they lead to are what is signed.
    PackageTables,
    /// The signature itself. It is DER, which has one form, and of what it holds only the places below are not covered.
    Signature,
    /// The version number of a SignedData: 1 to 5.
    SignatureVersion,
    /// The lists of hash algorithms, and the name of the signature's own: another name of the same algorithm at most.
    SignatureAlgorithm,
    /// Certificates of a signature that are in no chain that was proved: whole ones, of at most 4 KiB, together 16 KiB.
    SpareCertificates,
    /// A timestamp beside the one that was taken, or one that was not: at most 32 KiB, of its own type.
    UntakenTimestamp,
    /// Another signature of the file that was not taken: one about a file, of at most 64 KiB.
    UntakenSignature,
}

impl Place {
    pub const ALL: [Self; 15] = [
        Self::PeChecksum,
        Self::PeTableEntry,
        Self::PeTableHead,
        Self::Padding,
        Self::CabChecksum,
        Self::CabReserve,
        Self::CabPointer,
        Self::ScriptBlock,
        Self::PackageTables,
        Self::Signature,
        Self::SignatureVersion,
        Self::SignatureAlgorithm,
        Self::SpareCertificates,
        Self::UntakenTimestamp,
        Self::UntakenSignature,
    ];

    /// Whether it lies within a signature, from whose first byte its range is counted then.
    pub fn is_in_signature(self) -> bool {
        matches!(
            self,
            Self::SignatureVersion
                | Self::SignatureAlgorithm
                | Self::SpareCertificates
                | Self::UntakenTimestamp
                | Self::UntakenSignature
        )
    }

    /// What it is, and what may stand there.
    pub fn words(self) -> &'static str {
        match self {
            Self::PeChecksum => "the checksum in a program's header: any four bytes",
            Self::PeTableEntry => {
                "the directory's entry of the certificate table: it leads to the table that ends the file"
            }
            Self::PeTableHead => {
                "the head of the table's one entry: revision, type and length of a signature"
            }
            Self::Padding => "behind the signature, up to eight bytes: zeros",
            Self::CabChecksum => "a cabinet's reserved checksum: zeros",
            Self::CabReserve => {
                "a cabinet's number in its set, and the sizes of its reserves: those that signing tools write"
            }
            Self::CabPointer => {
                "a cabinet's pointer to its signature: right behind the cabinet, up to the file's end"
            }
            Self::ScriptBlock => "a script's signature block: its two marks and base64",
            Self::PackageTables => {
                "a package's header, tables, directory and unused sectors: they lead to the streams that are signed"
            }
            Self::Signature => "the signature, but for the places in it",
            Self::SignatureVersion => "a signature's version number: 1 to 5",
            Self::SignatureAlgorithm => {
                "the names of a signature's algorithms: other names of the same ones"
            }
            Self::SpareCertificates => {
                "certificates in no proved chain: whole ones of 4 KiB at most, together 16 KiB"
            }
            Self::UntakenTimestamp => "timestamps that were not taken: 32 KiB each at most",
            Self::UntakenSignature => "signatures that were not taken: 64 KiB each at most",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// One such place of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub place: Place,
    /// Bytes of the file; of the signature for a place that lies in one.
    pub range: Range<u64>,
}

impl Open {
    pub(crate) fn new(place: Place, range: Range<u64>) -> Self {
        Self { place, range }
    }

    /// The same place of what stands `by` bytes further on.
    pub(crate) fn moved(self, by: u64) -> Self {
        let Range { start, end } = self.range;
        Self::new(self.place, start + by..end + by)
    }

    /// A part of a signature. Empty for a slice of other bytes.
    pub(crate) fn part(place: Place, whole: &[u8], part: &[u8]) -> Self {
        let start = offset(whole, part);
        Self::new(place, start..start + part.len() as u64)
    }
}

/// Where a slice of other bytes begins in them.
pub(crate) fn offset(whole: &[u8], part: &[u8]) -> u64 {
    part.as_ptr().addr().saturating_sub(whole.as_ptr().addr()) as u64
}
