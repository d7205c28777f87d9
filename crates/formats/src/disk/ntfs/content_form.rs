//! Form in which a volume stores a file's content. Only plain content can be read offline.
//!
//! Source: Microsoft, [MS-FSCC] 2.1.2.1 for reparse tags.

use std::fmt;

use ntfs::structured_values::NtfsFileAttributeFlags;
use ntfs::{NtfsAttribute, NtfsAttributeFlags, NtfsAttributeType, NtfsError, NtfsFile};

use super::{NtfsFault, NtfsReader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NtfsContentForm {
    Plain,
    Compressed,
    Encrypted,
    Sparse,
    /// A reparse point with its tag: a link, a mount point, CompactOS.
    Reparse(u32),
}

impl NtfsContentForm {
    pub(super) fn detect(file: &NtfsFile<'_>, fs: &mut NtfsReader<'_>) -> Result<Self, NtfsFault> {
        match Self::of_reparse(file, fs)? {
            Self::Plain if !file.is_directory() => {}
            form => return Ok(form),
        }
        match file.data(fs, "") {
            Some(item) => Ok(Self::of_data(&item?.to_attribute()?)),
            None => Ok(Self::Plain),
        }
    }

    /// Returns the reparse point of a file or directory, otherwise plain without reading the data.
    pub(super) fn of_reparse(
        file: &NtfsFile<'_>,
        fs: &mut NtfsReader<'_>,
    ) -> Result<Self, NtfsError> {
        let info = file.info()?;
        if !info
            .file_attributes()
            .contains(NtfsFileAttributeFlags::REPARSE_POINT)
        {
            return Ok(Self::Plain);
        }
        let tag = reparse_tag(file, fs)?;
        // Zero is reserved: no reparse point has it.
        Ok(Self::Reparse(tag.unwrap_or(0)))
    }

    pub(super) fn of_data(data: &NtfsAttribute<'_, '_>) -> Self {
        let flags = data.flags();
        if flags.contains(NtfsAttributeFlags::COMPRESSED) {
            Self::Compressed
        } else if flags.contains(NtfsAttributeFlags::ENCRYPTED) {
            Self::Encrypted
        } else if flags.contains(NtfsAttributeFlags::SPARSE) {
            Self::Sparse
        } else {
            Self::Plain
        }
    }
}

/// Formats a clause that follows the file's name: "is a symbolic link".
impl fmt::Display for NtfsContentForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "is plain",
            Self::Compressed => "is NTFS-compressed",
            Self::Encrypted => "is encrypted (EFS)",
            Self::Sparse => "is sparse",
            Self::Reparse(0x8000_0017) => "is compressed by CompactOS (WOF)",
            Self::Reparse(0x8000_0013) => "is deduplicated",
            Self::Reparse(0xA000_0003) => "is a junction or mount point",
            Self::Reparse(0xA000_000C) => "is a symbolic link",
            Self::Reparse(0) => "is a reparse point without a tag",
            Self::Reparse(tag) => return write!(f, "is a reparse point ({tag:#010x})"),
        })
    }
}

fn reparse_tag(file: &NtfsFile<'_>, fs: &mut NtfsReader<'_>) -> Result<Option<u32>, NtfsError> {
    use ntfs::NtfsReadSeek;
    let mut attributes = file.attributes();
    while let Some(item) = attributes.next(fs) {
        let item = item?;
        let attribute = item.to_attribute()?;
        if attribute.ty()? == NtfsAttributeType::ReparsePoint {
            let mut tag = [0; 4];
            attribute.value(fs)?.read_exact(fs, &mut tag)?;
            return Ok(Some(u32::from_le_bytes(tag)));
        }
    }
    Ok(None)
}
