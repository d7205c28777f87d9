//! All ranges of a verified file that its signature does not cover, and the allowed content of
//! each.
//!
//! Windows' own formats have a few, because the pointer to the signature cannot be signed. Every
//! other byte is covered. The readers compute digests over everything except these ranges
//! ([`Open`]), so any other range is signed. The tests change each byte of valid files, and compare
//! every accepted change with this list.

use std::fmt;
use std::ops::Range;

/// Kind of a range that a signature does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UncoveredPlace {
    /// Four bytes of a PE header. Windows only checks them for drivers and boot files; nothing else
    /// reads them.
    PeChecksum,
    /// The PE directory's entry of the certificate table, which must point to the table at the end
    /// of the file.
    PeTableEntry,
    /// The header of the only entry of that table: revision 2.0, the type of a signature, and its
    /// exact length.
    PeTableHead,
    /// Padding of the certificate table, or of a cabinet's end, to eight bytes: at most seven
    /// zeros.
    Padding,
    /// A cabinet's unused checksum of its header: zeros.
    CabChecksum,
    /// A cabinet's number in its set and the sizes of its reserves: number 0, and the sizes that
    /// signing tools write.
    CabReserve,
    /// The pointer to the signature in a cabinet's reserve: from the end of the cabinet to the end
    /// of the file.
    CabPointer,
    /// The comments at a script's end: two markers with base64 between them, in lines that end with
    /// CRLF.
    ScriptBlock,
    /// Header, allocation tables, directory and unused sectors of a package. Every sector belongs
    /// to one stream or table, bytes outside streams are zero or counted in a remark, and the
    /// streams are signed.
    PackageTables,
    /// The signature itself. It is DER, which is canonical, and only the parts below are not
    /// covered.
    Signature,
    /// The version number of a SignedData: 1 to 5.
    SignatureVersion,
    /// The list of hash algorithms, and the signature's own: only another identifier of the same
    /// algorithm.
    SignatureAlgorithm,
    /// Certificates of a signature that are in no verified chain: complete, at most 4 KiB each and
    /// 16 KiB in total.
    SpareCertificates,
    /// An unused timestamp: at most 32 KiB, with the content of its type.
    UntakenTimestamp,
    /// An unused signature of the file: at most 64 KiB, with a file's digest.
    UnusedSignature,
}

impl UncoveredPlace {
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
        Self::UnusedSignature,
    ];

    /// Returns true if it is within a signature; its range is then relative to the signature's
    /// first byte.
    pub fn is_in_signature(self) -> bool {
        matches!(
            self,
            Self::SignatureVersion
                | Self::SignatureAlgorithm
                | Self::SpareCertificates
                | Self::UntakenTimestamp
                | Self::UnusedSignature
        )
    }

    /// Describes the range and its allowed content.
    pub fn describe(self) -> &'static str {
        match self {
            Self::PeChecksum => "the checksum in a program's header: any four bytes",
            Self::PeTableEntry => {
                "the directory's entry of the certificate table: points to the table at the end of \
                 the file"
            }
            Self::PeTableHead => {
                "the header of the table's only entry: revision, type and length of a signature"
            }
            Self::Padding => "padding of the signature to eight bytes: zeros",
            Self::CabChecksum => "a cabinet's reserved checksum: zeros",
            Self::CabReserve => {
                "a cabinet's number in its set, and the sizes of its reserves: as written by \
                 signing tools"
            }
            Self::CabPointer => {
                "a cabinet's pointer to its signature: from the end of the cabinet to the end of \
                 the file"
            }
            Self::ScriptBlock => "a script's signature block: its two markers and base64",
            Self::PackageTables => {
                "a package's header, tables, directory and unused sectors: they point to the \
                 signed streams"
            }
            Self::Signature => "the signature, except for the ranges in it",
            Self::SignatureVersion => "a signature's version number: 1 to 5",
            Self::SignatureAlgorithm => {
                "the identifiers of a signature's algorithms: other identifiers of the same ones"
            }
            Self::SpareCertificates => {
                "certificates in no verified chain: complete, at most 4 KiB each and 16 KiB in \
                 total"
            }
            Self::UntakenTimestamp => "unused timestamps: at most 32 KiB each",
            Self::UnusedSignature => "unused signatures: at most 64 KiB each",
        }
    }
}

impl fmt::Display for UncoveredPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

/// A range of a file that its signature does not cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncoveredRange {
    pub place: UncoveredPlace,
    /// Bytes of the file, or of the signature for a range in it.
    pub range: Range<u64>,
}

impl UncoveredRange {
    pub(crate) fn new(place: UncoveredPlace, range: Range<u64>) -> Self {
        Self { place, range }
    }

    /// Returns the range shifted by `by` bytes.
    pub(crate) fn shift(self, by: u64) -> Self {
        let Range { start, end } = self.range;
        Self::new(self.place, start + by..end + by)
    }

    /// Returns the range of a part of a signature.
    pub(crate) fn for_part(place: UncoveredPlace, whole: &[u8], part: &[u8]) -> Self {
        let start = find_offset(whole, part);
        Self::new(place, start..start + part.len() as u64)
    }
}

/// Returns the offset of a slice in the bytes that contain it.
pub(crate) fn find_offset(whole: &[u8], part: &[u8]) -> u64 {
    part.as_ptr().addr().saturating_sub(whole.as_ptr().addr()) as u64
}
