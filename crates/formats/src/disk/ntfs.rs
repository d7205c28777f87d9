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

use super::gpt::Partition;
use super::{Disk, DiskReader};
use winimg_base::error::{Error, Kind, Result};

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
    pub read_only: bool,
    pub hidden: bool,
    pub system: bool,
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

    /// `start` and `len` are bytes of the disk.
    pub fn at(disk: &'d dyn Disk, start: u64, len: u64) -> Result<Self> {
        let reader = DiskReader::part(disk, start, len);
        let bad = |e: NtfsError| {
            Error::new(Kind::Failed, "no NTFS volume can be read there")
                .at(format!("offset {start} of the disk"))
                .because(e)
        };
        let mut fs = Fs::opening(&reader);
        let opened = Ntfs::new(&mut fs).and_then(|mut ntfs| {
            ntfs.read_upcase_table(&mut fs)?;
            Ok(ntfs)
        });
        let ntfs = fs.end("$Boot", opened.map_err(bad))?;
        Ok(Self {
            ntfs,
            reader,
            descriptors: OnceLock::new(),
        })
    }

    /// Whether Windows would check the volume at its next start: it was not shut down in order.
    pub fn is_dirty(&self) -> Result<bool> {
        self.ask("$Volume", |fs| {
            let info = self
                .ntfs
                .volume_info(fs)
                .map_err(|e| broken("$Volume", e))?;
            Ok(info.flags().contains(NtfsVolumeFlags::IS_DIRTY))
        })
    }

    /// Whether there is a file or directory, whatever it is.
    pub fn exists(&self, path: &str) -> Result<bool> {
        self.ask(path, |fs| Ok(self.find(fs, path)?.is_some()))
    }

    /// What there is at a path. A link at its end is told, not followed. `None`: nothing.
    pub fn facts(&self, path: &str) -> Result<Option<Facts>> {
        self.ask(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            let info = file.info().map_err(|e| broken(path, e))?;
            let flags = info.file_attributes();
            let size = match file.data(fs, "") {
                Some(item) => {
                    let item = item.map_err(|e| broken(path, e))?;
                    let data = item.to_attribute().map_err(|e| broken(path, e))?;
                    data.value_length()
                }
                None => 0,
            };
            Ok(Some(Facts {
                directory: file.is_directory(),
                size,
                read_only: flags.contains(NtfsFileAttributeFlags::READ_ONLY),
                hidden: flags.contains(NtfsFileAttributeFlags::HIDDEN),
                system: flags.contains(NtfsFileAttributeFlags::SYSTEM),
                form: Form::of(&file, fs, path)?,
            }))
        })
    }

    /// The names in a directory, in NTFS's order. `None`: there is no such directory.
    pub fn list(&self, path: &str) -> Result<Option<Vec<Entry>>> {
        self.ask(path, |fs| {
            let Some(file) = self.find(fs, path)?.filter(NtfsFile::is_directory) else {
                return Ok(None);
            };
            refuse_reparse(&file, fs, path)?;
            let index = file.directory_index(fs).map_err(|e| broken(path, e))?;
            let mut names = index.entries();
            let mut entries = Vec::new();
            while let Some(entry) = names.next(fs) {
                let entry = entry.map_err(|e| broken(path, e))?;
                let Some(name) = entry.key() else { continue };
                let name: NtfsFileName = name.map_err(|e| broken(path, e))?;
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
        let mut bytes = Vec::new();
        let mut limited = Limited {
            bytes: &mut bytes,
            limit,
        };
        match self.copy(path, &mut limited)? {
            Some(_) => Ok(Some(bytes)),
            None => Ok(None),
        }
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
                return Err(refused(path, "is a directory"));
            }
            refuse_reparse(&file, fs, path)?;
            let Some(item) = file.data(fs, "") else {
                return Err(refused(path, "has no data"));
            };
            let item = item.map_err(|e| broken(path, e))?;
            let data = item.to_attribute().map_err(|e| broken(path, e))?;
            copy_attribute(&data, fs, path, to).map(Some)
        })
    }

    /// Answers one question about the volume.
    fn ask<T>(&self, path: &str, answer: impl FnOnce(&mut Fs<'d>) -> Result<T>) -> Result<T> {
        let mut fs = Fs::new(&self.reader);
        let answer = answer(&mut fs);
        fs.end(path, answer)
    }

    fn find<'n>(&'n self, fs: &mut Fs<'_>, path: &str) -> Result<Option<NtfsFile<'n>>> {
        let mut file = self.ntfs.root_directory(fs).map_err(|e| broken(path, e))?;
        for name in names(path) {
            if !file.is_directory() {
                return Ok(None);
            }
            refuse_reparse(&file, fs, path)?;
            let index = file.directory_index(fs).map_err(|e| broken(path, e))?;
            let mut finder = index.finder();
            let Some(entry) = NtfsFileNameIndex::find(&mut finder, &self.ntfs, fs, name) else {
                return Ok(None);
            };
            let next = entry
                .and_then(|e| e.to_file(&self.ntfs, fs))
                .map_err(|e| broken(path, e))?;
            file = next;
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

fn broken(path: &str, e: NtfsError) -> Error {
    broken_by(path, e)
}

fn broken_by(path: &str, why: impl ToString) -> Error {
    Error::new(
        Kind::Failed,
        format!("{path} on the NTFS volume can't be read"),
    )
    .because(why.to_string())
}

fn refused(path: &str, why: &str) -> Error {
    Error::new(
        Kind::Failed,
        format!("{path} {why}, so its bytes can't be read from outside"),
    )
}

fn refuse_reparse(file: &NtfsFile<'_>, fs: &mut Fs<'_>, path: &str) -> Result<()> {
    match Form::of_reparse(file, fs, path)? {
        Form::Plain => Ok(()),
        form => Err(refused(path, &form.to_string())),
    }
}

/// Copies what an attribute holds and gives its length.
fn copy_attribute(
    attribute: &NtfsAttribute<'_, '_>,
    fs: &mut Fs<'_>,
    path: &str,
    to: &mut dyn Write,
) -> Result<u64> {
    match Form::of_data(attribute) {
        Form::Plain => {}
        form => return Err(refused(path, &form.to_string())),
    }
    let initialized = initialized(attribute, fs).map_err(|e| broken(path, e))?;
    let value = attribute.value(fs).map_err(|e| broken(path, e))?;
    copy_value(value, initialized, fs, path, to)
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
    path: &str,
    to: &mut dyn Write,
) -> Result<u64> {
    let len = value.len();
    // What is plain lies in the volume, each byte of it.
    if len > fs.len() {
        return Err(broken_by(
            path,
            format!("it has {len} bytes on a volume of {}", fs.len()),
        ));
    }
    fs.content();
    let mut buffer = vec![0; len.clamp(1, 1 << 20) as usize];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(buffer.len() as u64) as usize;
        let part = &mut buffer[..n];
        value.read_exact(fs, part).map_err(|e| broken(path, e))?;
        let written = initialized.saturating_sub(done).min(n as u64) as usize;
        part[written..].fill(0);
        to.write_all(part).map_err(|e| {
            Error::new(
                Kind::Failed,
                format!("{path} could not be copied from the image"),
            )
            .because(e)
        })?;
        done += n as u64;
    }
    Ok(len)
}

/// A buffer that refuses to grow beyond its limit.
struct Limited<'b> {
    bytes: &'b mut Vec<u8>,
    limit: u64,
}

impl Write for Limited<'_> {
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
