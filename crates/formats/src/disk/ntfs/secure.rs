//! Where a volume keeps security descriptors: once each in `$Secure`, whose files name them by number; or, as NTFS did
//! before version 3 and ntfs-3g still may, in the file itself.
//!
//! Source: the Linux-NTFS project's documentation of `$Secure` and `$SECURITY_DESCRIPTOR`.

use std::collections::BTreeMap;
use std::ops::Range;

use ntfs::{KnownNtfsFileRecordNumber, NtfsAttributeType, NtfsFile};

use super::{Fault, Fs, Volume, read_attribute};
use crate::bytes::{u32_le, u64_le, words_le};
use crate::disk::security::SecurityDescriptor;
use winimg_base::error::{Error, Result};

/// `$SDS` has each block twice, the copy right behind it.
const BLOCK: usize = 256 << 10;
/// Hash, number, offset, length.
const HEADER: usize = 20;
/// A Windows Server has one or two MiB of them.
const LIMIT: u64 = 256 << 20;
/// Of a descriptor in its file's own record.
const OWN_LIMIT: u64 = 1 << 20;

/// The descriptors of `$Secure:$SDS` by their numbers.
pub(super) struct Descriptors {
    bytes: Vec<u8>,
    places: BTreeMap<u32, Range<usize>>,
    /// The first place that holds neither an entry nor zeros.
    damage: Option<usize>,
}

impl Volume<'_> {
    /// Who owns a file or directory and who may use it. `None`: there is no such file, or it has no descriptor.
    pub fn security(&self, path: &str) -> Result<Option<SecurityDescriptor>> {
        self.ask(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            let info = file.info()?;
            let own;
            let bytes = match info.security_id() {
                Some(number) if number != 0 => {
                    let descriptors = self.descriptors(fs)?;
                    let found = descriptors.of(number);
                    found.ok_or_else(|| descriptors.lack(number, path))?
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
                Error::failed(format!("the security of {path} can't be read")).because(e)
            })?;
            Ok(Some(parsed))
        })
    }

    fn descriptors(&self, fs: &mut Fs<'_>) -> Result<&Descriptors> {
        if let Some(known) = self.descriptors.get() {
            return Ok(known);
        }
        let bytes = self.stream(fs).map_err(|fault| fault.of("$Secure:$SDS"))?;
        let read = Descriptors::read(bytes);
        Ok(self.descriptors.get_or_init(|| read))
    }

    fn stream(&self, fs: &mut Fs<'_>) -> Result<Vec<u8>, Fault> {
        let number = KnownNtfsFileRecordNumber::Secure as u64;
        match self.ntfs.file(fs, number)?.data(fs, "$SDS") {
            Some(item) => read_attribute(&item?.to_attribute()?, fs, LIMIT),
            None => Ok(Vec::new()),
        }
    }
}

/// The descriptor that lies in the file's own record.
fn own_descriptor(file: &NtfsFile<'_>, fs: &mut Fs<'_>) -> Result<Option<Vec<u8>>, Fault> {
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

impl Descriptors {
    fn of(&self, number: u32) -> Option<&[u8]> {
        self.bytes.get(self.places.get(&number)?.clone())
    }

    fn lack(&self, number: u32, path: &str) -> Error {
        let fact = format!("{path} names security descriptor {number}, which the volume lacks");
        let error = Error::failed(fact).cure("check the volume in that Windows: chkdsk /f");
        match self.damage {
            Some(at) => error
                .at(format!("offset {at:#x} of $Secure:$SDS"))
                .found("damage"),
            None => error,
        }
    }

    /// Every entry names its own place and has a hash, so what is no entry is recognized and passed over.
    fn read(bytes: Vec<u8>) -> Self {
        let (mut places, mut damage) = (BTreeMap::new(), None);
        for start in (0..bytes.len()).step_by(2 * BLOCK) {
            let block = &bytes[start..bytes.len().min(start + BLOCK)];
            let mut at = 0;
            while let Some(head) = block.get(at..at + HEADER) {
                match entry(block, head, at, start) {
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

/// The number and length of the entry at `at` of a block, if there is a sound one.
fn entry(block: &[u8], head: &[u8], at: usize, start: usize) -> Option<(u32, usize)> {
    let (hash, number) = (u32_le(head, 0), u32_le(head, 4));
    let (place, len) = (u64_le(head, 8), u32_le(head, 16) as usize);
    if place != (start + at) as u64 || number == 0 {
        return None;
    }
    let descriptor = block.get(at + HEADER..at.saturating_add(len))?;
    (sum(descriptor) == hash).then_some((number, len))
}

/// The hash by which NTFS finds a descriptor that it has already: words, each added to the sum turned left by three.
fn sum(descriptor: &[u8]) -> u32 {
    let words = words_le(descriptor);
    words.fold(0_u32, |sum, word| sum.rotate_left(3).wrapping_add(word))
}
