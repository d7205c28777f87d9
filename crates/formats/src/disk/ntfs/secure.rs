//! Reads security descriptors: `$Secure` stores each once, and files refer to them by number; NTFS
//! before version 3, and sometimes ntfs-3g, stores them in the file itself.
//!
//! Source: the Linux-NTFS project's documentation of `$Secure` and `$SECURITY_DESCRIPTOR`.

use std::collections::BTreeMap;
use std::ops::Range;

use ntfs::{KnownNtfsFileRecordNumber, NtfsAttributeType, NtfsFile};

use super::{NtfsFault, NtfsReader, NtfsVolume, read_attribute};
use crate::bytes::{u32_le, u64_le, words_le};
use crate::disk::security::SecurityDescriptor;
use winimg_base::error::{Error, Result};

/// Size of a block of `$SDS`; each is followed by a copy.
const BLOCK: usize = 256 << 10;
/// Bytes of an entry's header: hash, number, offset, length.
const HEADER: usize = 20;
/// Maximum bytes of `$SDS`; a Windows Server has one or two MiB.
const LIMIT: u64 = 256 << 20;
/// Maximum bytes of a descriptor in its file's own record.
const OWN_LIMIT: u64 = 1 << 20;

/// The descriptors of `$Secure:$SDS` by their numbers.
pub(super) struct SecurityDescriptors {
    bytes: Vec<u8>,
    places: BTreeMap<u32, Range<usize>>,
    /// Offset of the first bytes that are neither an entry nor zeros.
    damage: Option<usize>,
}

impl NtfsVolume<'_> {
    /// Reads the owner and permissions of a file or directory. `None`: no such file, or no
    /// descriptor.
    pub fn read_security(&self, path: &str) -> Result<Option<SecurityDescriptor>> {
        self.query(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            let info = file.info()?;
            let own;
            let bytes = match info.security_id() {
                Some(number) if number != 0 => {
                    let descriptors = self.load_descriptors(fs)?;
                    descriptors
                        .find(number)
                        .ok_or_else(|| descriptors.report_missing(number, path))?
                }
                _ => match own_descriptor(&file, fs)? {
                    Some(bytes) => {
                        own = bytes;
                        &own
                    }
                    None => return Ok(None),
                },
            };
            let parsed = SecurityDescriptor::parse(bytes).map_err(|e| {
                Error::failed(format!("cannot read the security descriptor of {path}")).because(e)
            })?;
            Ok(Some(parsed))
        })
    }

    fn load_descriptors(&self, fs: &mut NtfsReader<'_>) -> Result<&SecurityDescriptors> {
        if let Some(known) = self.descriptors.get() {
            return Ok(known);
        }
        let bytes = self
            .read_secure_stream(fs)
            .map_err(|fault| fault.into_error("$Secure:$SDS"))?;
        let read = SecurityDescriptors::read(bytes);
        Ok(self.descriptors.get_or_init(|| read))
    }

    fn read_secure_stream(&self, fs: &mut NtfsReader<'_>) -> Result<Vec<u8>, NtfsFault> {
        let number = KnownNtfsFileRecordNumber::Secure as u64;
        match self.ntfs.file(fs, number)?.data(fs, "$SDS") {
            Some(item) => read_attribute(&item?.to_attribute()?, fs, LIMIT),
            None => Ok(Vec::new()),
        }
    }
}

/// Reads the descriptor in the file's own record.
fn own_descriptor(
    file: &NtfsFile<'_>,
    fs: &mut NtfsReader<'_>,
) -> Result<Option<Vec<u8>>, NtfsFault> {
    let mut attributes = file.attributes();
    while let Some(item) = attributes.next(fs) {
        let item = item?;
        let attribute = item.to_attribute()?;
        if attribute.ty()? == NtfsAttributeType::SecurityDescriptor {
            return read_attribute(&attribute, fs, OWN_LIMIT).map(Some);
        }
    }
    Ok(None)
}

impl SecurityDescriptors {
    fn find(&self, number: u32) -> Option<&[u8]> {
        self.bytes.get(self.places.get(&number)?.clone())
    }

    fn report_missing(&self, number: u32, path: &str) -> Error {
        let fact =
            format!("{path} refers to security descriptor {number}, which is not on the volume");
        let error = Error::failed(fact).cure("check the volume in that Windows: chkdsk /f");
        match self.damage {
            Some(at) => error
                .at(format!("offset {at:#x} of $Secure:$SDS"))
                .found("damage"),
            None => error,
        }
    }

    /// Parses `$SDS`. Each entry has its own offset and a hash, so invalid ones are detected and
    /// skipped.
    fn read(bytes: Vec<u8>) -> Self {
        let (mut places, mut damage) = (BTreeMap::new(), None);
        for start in (0..bytes.len()).step_by(2 * BLOCK) {
            let block = &bytes[start..bytes.len().min(start + BLOCK)];
            let mut at = 0;
            while let Some(head) = block.get(at..at + HEADER) {
                match parse_entry(block, head, at, start) {
                    Some((number, len)) => {
                        places.insert(number, start + at + HEADER..start + at + len);
                        at = (at + len).next_multiple_of(16);
                    }
                    None => {
                        if damage.is_none() && head.iter().any(|b| *b != 0) {
                            damage = Some(start + at);
                        }
                        at += 16;
                    }
                }
            }
        }
        Self {
            bytes,
            places,
            damage,
        }
    }
}

/// Returns the number and length of the entry at `at` of a block, if it is valid.
fn parse_entry(block: &[u8], head: &[u8], at: usize, start: usize) -> Option<(u32, usize)> {
    let (hash, number) = (u32_le(head, 0), u32_le(head, 4));
    let (place, len) = (u64_le(head, 8), u32_le(head, 16) as usize);
    if place != (start + at) as u64 || number == 0 {
        return None;
    }
    let descriptor = block.get(at + HEADER..at.saturating_add(len))?;
    (hash_descriptor(descriptor) == hash).then_some((number, len))
}

/// Computes the hash by which NTFS looks up descriptors: each word is added to the sum rotated left
/// by three.
fn hash_descriptor(descriptor: &[u8]) -> u32 {
    words_le(descriptor).fold(0_u32, |sum, word| sum.rotate_left(3).wrapping_add(word))
}
