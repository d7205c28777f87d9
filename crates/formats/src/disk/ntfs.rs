//! Files of an NTFS volume, read without mounting it.
//!
//! Wrong bytes would be worse than none: a file that is compressed, encrypted, sparse or stands behind a reparse point
//! (CompactOS, deduplication, links) is refused, since its plain data runs are not its content.
//!
//! Source: the attribute layout as documented by the Linux-NTFS project.

mod form;
mod free;
mod reader;
mod secure;
mod sound;
mod usage;
mod windows;

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;

use ntfs::attribute_value::NtfsAttributeValue;
use ntfs::indexes::NtfsFileNameIndex;
use ntfs::structured_values::{
    NtfsFileAttributeFlags, NtfsFileName, NtfsFileNamespace, NtfsVolumeFlags,
};
use ntfs::{Ntfs, NtfsAttribute, NtfsError, NtfsFile, NtfsReadSeek};

pub use form::Form;
use reader::Fs;
pub use usage::{Folder, Usage};
pub use windows::{Hibernation, Windows};

use super::gpt::Partition;
use super::{Disk, DiskReader};
use winimg_base::error::{Error, Result};

/// An NTFS volume of a disk. Reads only.
pub struct Volume<'d> {
    ntfs: Ntfs,
    reader: DiskReader<'d>,
    descriptors: OnceLock<secure::Descriptors>,
}

/// What a file or directory says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub directory: bool,
    /// Bytes of the content; 0 of a directory.
    pub size: u64,
    /// Whether the content can be read from outside.
    pub form: Form,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub directory: bool,
    /// Bytes, as the directory remembers it; the file itself may know better.
    pub size: u64,
    /// A link, a mount point or something else stands in for it, as the directory remembers it.
    pub reparse: bool,
}

impl<'d> Volume<'d> {
    pub fn open(disk: &'d dyn Disk, partition: &Partition) -> Result<Self> {
        Self::at(disk, partition.start, partition.len)
    }

    /// `start` and `len` are bytes of the disk, which nobody writes meanwhile.
    pub fn at(disk: &'d dyn Disk, start: u64, len: u64) -> Result<Self> {
        let reader = DiskReader::part(disk, start, len).without_holes()?;
        let bad = |e: NtfsError| {
            Error::failed("no NTFS volume can be read there")
                .at(format!("offset {start} of the disk"))
                .because(e)
        };
        let mut fs = Fs::opening(&reader);
        let opened = Ntfs::new(&mut fs).and_then(|mut ntfs| {
            ntfs.read_upcase_table(&mut fs)?;
            Ok(ntfs)
        });
        let ntfs = fs.end("$Boot", opened.map_err(bad))?;
        // Whoever reads the volume makes room by what it says of its size.
        if ntfs.size() > len {
            return Err(
                Error::failed("the NTFS volume says that it is larger than its partition")
                    .at(format!("offset {start} of the disk"))
                    .expected(format!("{len} bytes at most"))
                    .found(format!("{} bytes", ntfs.size())),
            );
        }
        Ok(Self {
            ntfs,
            reader,
            descriptors: OnceLock::new(),
        })
    }

    /// Whether Windows would check the volume at its next start: it was not shut down in order.
    pub fn is_dirty(&self) -> Result<bool> {
        self.ask("$Volume", |fs| {
            let info = self.ntfs.volume_info(fs)?;
            Ok(info.flags().contains(NtfsVolumeFlags::IS_DIRTY))
        })
    }

    /// Whether there is a file or directory, whatever it is.
    pub fn exists(&self, path: &str) -> Result<bool> {
        self.ask(path, |fs| Ok(self.find(fs, path)?.is_some()))
    }

    /// What there is at a path. A link at its end is not followed. `None`: nothing.
    pub fn facts(&self, path: &str) -> Result<Option<Facts>> {
        self.ask(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            let size = match file.data(fs, "") {
                Some(item) => item?.to_attribute()?.value_length(),
                None => 0,
            };
            Ok(Some(Facts {
                directory: file.is_directory(),
                size,
                form: Form::of(&file, fs)?,
            }))
        })
    }

    /// The names in a directory, in NTFS's order. `None`: there is no such directory.
    pub fn list(&self, path: &str) -> Result<Option<Vec<Entry>>> {
        self.ask(path, |fs| {
            let Some(file) = self.find(fs, path)?.filter(NtfsFile::is_directory) else {
                return Ok(None);
            };
            plain(Form::of_reparse(&file, fs)?)?;
            let index = file.directory_index(fs)?;
            let mut names = index.entries();
            let mut entries = Vec::new();
            while let Some(entry) = names.next(fs) {
                let entry = entry?;
                let Some(name) = entry.key() else { continue };
                let name: NtfsFileName = name?;
                if name.namespace() == NtfsFileNamespace::Dos {
                    continue;
                }
                entries.push(Entry {
                    name: name.name().to_string_lossy(),
                    directory: name.is_directory(),
                    size: name.data_size(),
                    reparse: name
                        .file_attributes()
                        .contains(NtfsFileAttributeFlags::REPARSE_POINT),
                });
            }
            // The root lists itself.
            entries.retain(|e| e.name != ".");
            Ok(Some(entries))
        })
    }

    /// A whole file of at most `limit` bytes. `None`: there is no such file. A directory is an error.
    pub fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let bytes = Vec::new();
        let mut limited = Limited { bytes, limit };
        let found = self.copy(path, &mut limited)?;
        Ok(found.map(|_| limited.bytes))
    }

    /// The first bytes of a file, at most `count`. `None`: there is no such file. A directory is an error.
    pub fn beginning(&self, path: &str, count: usize) -> Result<Option<Vec<u8>>> {
        self.ask(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            let Some(item) = file.data(fs, "") else {
                return Err(Fault::Refused("has no data".into()));
            };
            let item = item?;
            let attribute = item.to_attribute()?;
            plain(Form::of_data(&attribute))?;
            let initialized = initialized(&attribute, fs)?;
            let mut value = attribute.value(fs)?;
            let mut bytes = vec![0; value.len().min(count as u64) as usize];
            value.read_exact(fs, &mut bytes)?;
            let written = initialized.min(bytes.len() as u64) as usize;
            bytes[written..].fill(0);
            Ok(Some(bytes))
        })
    }

    /// Copies a file's bytes and gives their number. `None`: there is no such file.
    ///
    /// `path` is `C:\Windows\…` or `/Windows/…`; the drive letter is not looked at, and case does not matter.
    pub fn copy(&self, path: &str, to: &mut dyn Write) -> Result<Option<u64>> {
        self.ask(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            if file.is_directory() {
                return Err(Fault::Refused("is a directory".into()));
            }
            plain(Form::of_reparse(&file, fs)?)?;
            let Some(item) = file.data(fs, "") else {
                return Err(Fault::Refused("has no data".into()));
            };
            copy_attribute(&item?.to_attribute()?, fs, to).map(Some)
        })
    }

    /// Answers one question about the volume.
    fn ask<T>(
        &self,
        path: &str,
        answer: impl FnOnce(&mut Fs<'d>) -> Result<T, Fault>,
    ) -> Result<T> {
        let mut fs = Fs::new(&self.reader);
        let answer = answer(&mut fs).map_err(|fault| fault.of(path));
        fs.end(path, answer)
    }

    fn find<'n>(&'n self, fs: &mut Fs<'_>, path: &str) -> Result<Option<NtfsFile<'n>>, Fault> {
        let mut file = self.ntfs.root_directory(fs)?;
        for name in names(path) {
            if !file.is_directory() {
                return Ok(None);
            }
            plain(Form::of_reparse(&file, fs)?)?;
            let index = file.directory_index(fs)?;
            let mut finder = index.finder();
            let Some(entry) = NtfsFileNameIndex::find(&mut finder, &self.ntfs, fs, name) else {
                return Ok(None);
            };
            let found = entry?;
            file = found.to_file(&self.ntfs, fs)?;
        }
        Ok(Some(file))
    }
}

/// The names of a path, without a drive letter.
fn names(path: &str) -> impl Iterator<Item = &str> {
    let bytes = path.as_bytes();
    let rest = match bytes {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => &path[2..],
        _ => path,
    };
    rest.split(['\\', '/']).filter(|n| !n.is_empty())
}

/// Why a question about a file has no answer.
enum Fault {
    /// The structures are damaged.
    Broken(String),
    /// What follows the file's name: its plain data runs are not its content.
    Refused(String),
    /// The copy could not be written.
    Copy(std::io::Error),
    /// Another file is what is wrong.
    Elsewhere(Error),
}

impl Fault {
    fn of(self, path: &str) -> Error {
        match self {
            Self::Broken(why) => {
                Error::failed(format!("{path} on the NTFS volume can't be read")).because(why)
            }
            Self::Refused(why) => Error::failed(format!(
                "{path} {why}, so its bytes can't be read from outside"
            )),
            Self::Copy(e) => {
                Error::failed(format!("{path} could not be copied from the image")).because(e)
            }
            Self::Elsewhere(error) => error,
        }
    }
}

impl From<NtfsError> for Fault {
    fn from(e: NtfsError) -> Self {
        Self::Broken(e.to_string())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Elsewhere(error)
    }
}

fn plain(form: Form) -> Result<(), Fault> {
    match form {
        Form::Plain => Ok(()),
        form => Err(Fault::Refused(form.to_string())),
    }
}

/// Copies what an attribute holds and gives its length.
fn copy_attribute(
    attribute: &NtfsAttribute<'_, '_>,
    fs: &mut Fs<'_>,
    to: &mut dyn Write,
) -> Result<u64, Fault> {
    plain(Form::of_data(attribute))?;
    let initialized = initialized(attribute, fs)?;
    copy_value(attribute.value(fs)?, initialized, fs, to)
}

/// The same into memory, at most `limit` bytes.
fn read_attribute(
    attribute: &NtfsAttribute<'_, '_>,
    fs: &mut Fs<'_>,
    limit: u64,
) -> Result<Vec<u8>, Fault> {
    let bytes = Vec::new();
    let mut limited = Limited { bytes, limit };
    copy_attribute(attribute, fs, &mut limited)?;
    Ok(limited.bytes)
}

/// How many bytes of the value were ever written; beyond, Windows shows zeros whatever lies in the clusters.
///
/// The `ntfs` crate does not look at this field, so it is read here: 8 bytes at 56 of a non-resident attribute's header.
/// Only the low 6 are read: the other two may be those that the record's fix-up replaces, and are zero in any real file.
fn initialized(data: &NtfsAttribute<'_, '_>, fs: &mut Fs<'_>) -> Result<u64, NtfsError> {
    let Some(position) = data.position().value().filter(|_| !data.is_resident()) else {
        return Ok(u64::MAX);
    };
    let mut bytes = [0; 8];
    fs.seek(SeekFrom::Start(position.get() + 56))?;
    Read::read_exact(fs, &mut bytes[..6])?;
    Ok(u64::from_le_bytes(bytes))
}

fn copy_value(
    mut value: NtfsAttributeValue<'_, '_>,
    initialized: u64,
    fs: &mut Fs<'_>,
    to: &mut dyn Write,
) -> Result<u64, Fault> {
    let len = value.len();
    // What is plain lies in the volume, each byte of it.
    if len > fs.len() {
        let all = fs.len();
        return Err(Fault::Broken(format!(
            "it has {len} bytes on a volume of {all}"
        )));
    }
    fs.content();
    let mut buffer = vec![0; len.clamp(1, 1 << 20) as usize];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(buffer.len() as u64) as usize;
        let part = &mut buffer[..n];
        value.read_exact(fs, part)?;
        let written = initialized.saturating_sub(done).min(n as u64) as usize;
        part[written..].fill(0);
        to.write_all(part).map_err(Fault::Copy)?;
        done += n as u64;
    }
    Ok(len)
}

/// A buffer that refuses to grow beyond its limit.
struct Limited {
    bytes: Vec<u8>,
    limit: u64,
}

impl Write for Limited {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if (self.bytes.len() + part.len()) as u64 > self.limit {
            return Err(std::io::Error::other(format!(
                "it has more than the {} bytes that were expected at most",
                self.limit
            )));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn paths_as_windows_and_as_unix_write_them() {
        let split = |p| names(p).collect::<Vec<_>>().join("|");
        assert_eq!(split(r"C:\Windows\System32"), "Windows|System32");
        assert_eq!(split("/Windows//System32/"), "Windows|System32");
        assert_eq!(split(r"c:\"), "");
    }
}
