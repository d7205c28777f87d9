//! Where a volume keeps security descriptors: once each in `$Secure`, whose files name them by number; or, as NTFS did
//! before version 3 and ntfs-3g still may, in the file itself.
//!
//! Source: the Linux-NTFS project's documentation of `$Secure` and `$SECURITY_DESCRIPTOR`.

use std::collections::BTreeMap;
use std::ops::Range;

use ntfs::{KnownNtfsFileRecordNumber, NtfsAttributeType, NtfsFile};

use super::{Fs, Limited, Volume, broken, copy_attribute};
use crate::disk::security::SecurityDescriptor;
use winimg_base::error::{Error, Kind, Result};

/// `$SDS` has each block twice, the copy right behind it.
const BLOCK: usize = 256 << 10;
/// Hash, number, offset, length.
const HEADER: usize = 20;
/// A Windows Server has one or two MiB of them.
const LIMIT: u64 = 256 << 20;

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
            let info = file.info().map_err(|e| broken(path, e))?;
            let bytes = match info.security_id() {
                Some(number) if number != 0 => {
                    let descriptors = self.descriptors(fs)?;
                    let found = descriptors.of(number);
                    Some(found.ok_or_else(|| descriptors.lack(number, path))?)
                }
                _ => None,
            };
            match bytes {
                Some(bytes) => SecurityDescriptor::parse(bytes).map(Some),
                None => match own(&file, fs, path)? {
                    Some(bytes) => SecurityDescriptor::parse(&bytes).map(Some),
                    None => Ok(None),
                },
            }
            .map_err(|e| {
                Error::new(
                    Kind::Failed,
                    format!("the security of {path} can't be read"),
                )
                .because(e)
            })
        })
    }

    fn descriptors(&self, fs: &mut Fs<'_>) -> Result<&Descriptors> {
        if let Some(known) = self.descriptors.get() {
            return Ok(known);
        }
        let secure = self
            .ntfs
            .file(fs, KnownNtfsFileRecordNumber::Secure as u64)
            .map_err(|e| broken("$Secure", e))?;
        let mut bytes = Vec::new();
        if let Some(item) = secure.data(fs, "$SDS") {
            let item = item.map_err(|e| broken("$Secure", e))?;
            let data = item.to_attribute().map_err(|e| broken("$Secure", e))?;
            let mut limited = Limited {
                bytes: &mut bytes,
                limit: LIMIT,
            };
            copy_attribute(&data, fs, "$Secure:$SDS", &mut limited)?;
        }
        let read = Descriptors::read(bytes);
        Ok(self.descriptors.get_or_init(|| read))
    }
}

/// The descriptor that lies in the file's own record.
fn own(file: &NtfsFile<'_>, fs: &mut Fs<'_>, path: &str) -> Result<Option<Vec<u8>>> {
    let mut attributes = file.attributes();
    while let Some(item) = attributes.next(fs) {
        let item = item.map_err(|e| broken(path, e))?;
        let attribute = item.to_attribute().map_err(|e| broken(path, e))?;
        let kind = attribute.ty().map_err(|e| broken(path, e))?;
        if kind == NtfsAttributeType::SecurityDescriptor {
            let mut bytes = Vec::new();
            let mut limited = Limited {
                bytes: &mut bytes,
                limit: 1 << 20,
            };
            copy_attribute(&attribute, fs, path, &mut limited)?;
            return Ok(Some(bytes));
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
        let error =
            Error::new(Kind::Failed, fact).cure("let that Windows check the volume: chkdsk /f");
        match self.damage {
            Some(at) => error
                .at(format!("offset {at:#x} of $Secure:$SDS"))
                .found("damage"),
            None => error,
        }
    }

    /// Every entry names its own place and has a hash, so what is no entry is told from one and passed over.
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
    let word = |i: usize| {
        let word = [head[i], head[i + 1], head[i + 2], head[i + 3]];
        u32::from_le_bytes(word)
    };
    let (hash, number, len) = (word(0), word(4), word(16) as usize);
    let place = u64::from(word(8)) | u64::from(word(12)) << 32;
    if place != (start + at) as u64 || number == 0 {
        return None;
    }
    let descriptor = block.get(at + HEADER..at.saturating_add(len))?;
    (sum(descriptor) == hash).then_some((number, len))
}

/// The hash by which NTFS finds a descriptor that it has already: words, each added to the sum turned left by three.
fn sum(descriptor: &[u8]) -> u32 {
    let words = descriptor.chunks_exact(4);
    words.fold(0_u32, |sum, w| {
        let word = u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
        sum.rotate_left(3).wrapping_add(word)
    })
}
