//! Files of an NTFS volume, read without mounting it.
//!
//! Wrong bytes are worse than an error: a file that is compressed, encrypted, sparse or has a
//! reparse point (CompactOS, deduplication, links) is refused, since its plain data runs are not
//! its content.
//!
//! Source: the attribute layout documented by the Linux-NTFS project.

mod content_form;
mod free;
mod index_check;
mod reader;
mod secure;
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

pub use content_form::NtfsContentForm;
use reader::NtfsReader;
pub use usage::{FolderUsage, VolumeUsage};
pub use windows::{Hibernation, WindowsVolume};

use super::gpt::DiskPartition;
use super::{Disk, DiskReader};
use winimg_base::error::{Error, Result};

/// An NTFS volume of a disk, read-only.
pub struct NtfsVolume<'d> {
    ntfs: Ntfs,
    reader: DiskReader<'d>,
    descriptors: OnceLock<secure::SecurityDescriptors>,
}

/// Properties of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NtfsFileInfo {
    pub is_directory: bool,
    /// Size of the content in bytes; 0 for a directory.
    pub size: u64,
    /// Form of the content, which determines if it can be read offline.
    pub form: NtfsContentForm,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NtfsEntry {
    pub name: String,
    pub is_directory: bool,
    /// Size in bytes as cached in the directory, which may be outdated.
    pub size: u64,
    /// True for a reparse point, such as a link or mount point, as cached in the directory.
    pub is_reparse_point: bool,
}

impl<'d> NtfsVolume<'d> {
    pub fn open(disk: &'d dyn Disk, partition: &DiskPartition) -> Result<Self> {
        Self::open_at(disk, partition.start, partition.len)
    }

    /// Opens a volume at `start` and `len` bytes of a disk that is not written meanwhile.
    pub fn open_at(disk: &'d dyn Disk, start: u64, len: u64) -> Result<Self> {
        let reader = DiskReader::with_range(disk, start, len).without_holes()?;
        let mut fs = NtfsReader::with_open_limit(&reader);
        let opened = Ntfs::new(&mut fs).and_then(|mut ntfs| {
            ntfs.read_upcase_table(&mut fs)?;
            Ok(ntfs)
        });
        let opened = opened.map_err(|e| {
            Error::failed("cannot read an NTFS volume there")
                .at(format!("offset {start} of the disk"))
                .because(e)
        });
        let ntfs = fs.finish("$Boot", opened)?;
        // Readers allocate memory by the volume's size.
        if ntfs.size() > len {
            return Err(
                Error::failed("the NTFS volume claims to be larger than its partition")
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

    /// Returns true if the volume was not shut down cleanly, so Windows would check it at its next
    /// start.
    pub fn is_dirty(&self) -> Result<bool> {
        self.query("$Volume", |fs| {
            let info = self.ntfs.volume_info(fs)?;
            Ok(info.flags().contains(NtfsVolumeFlags::IS_DIRTY))
        })
    }

    /// Returns true if there is a file or directory of any kind.
    pub fn exists(&self, path: &str) -> Result<bool> {
        self.query(path, |fs| Ok(self.find(fs, path)?.is_some()))
    }

    /// Reads the properties of a path, without following a link at its end. `None`: it does not
    /// exist.
    pub fn read_file_info(&self, path: &str) -> Result<Option<NtfsFileInfo>> {
        self.query(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            let size = match file.data(fs, "") {
                Some(item) => item?.to_attribute()?.value_length(),
                None => 0,
            };
            Ok(Some(NtfsFileInfo {
                is_directory: file.is_directory(),
                size,
                form: NtfsContentForm::detect(&file, fs)?,
            }))
        })
    }

    /// Lists a directory in NTFS's order. `None`: there is no such directory.
    pub fn list(&self, path: &str) -> Result<Option<Vec<NtfsEntry>>> {
        self.query(path, |fs| {
            let Some(file) = self.find(fs, path)?.filter(NtfsFile::is_directory) else {
                return Ok(None);
            };
            require_plain(NtfsContentForm::of_reparse(&file, fs)?)?;
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
                entries.push(NtfsEntry {
                    name: name.name().to_string_lossy(),
                    is_directory: name.is_directory(),
                    size: name.data_size(),
                    is_reparse_point: name
                        .file_attributes()
                        .contains(NtfsFileAttributeFlags::REPARSE_POINT),
                });
            }
            // The root lists itself.
            entries.retain(|e| e.name != ".");
            Ok(Some(entries))
        })
    }

    /// Reads a whole file of at most `limit` bytes. `None`: there is no such file. A directory is
    /// an error.
    pub fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let bytes = Vec::new();
        let mut limited = LimitedBuffer { bytes, limit };
        let found = self.copy(path, &mut limited)?;
        Ok(found.map(|_| limited.bytes))
    }

    /// Reads at most the first `count` bytes of a file. `None`: there is no such file. A directory
    /// is an error.
    pub fn read_start(&self, path: &str, count: usize) -> Result<Option<Vec<u8>>> {
        self.query(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            let Some(item) = file.data(fs, "") else {
                return Err(NtfsFault::Refused("has no data".into()));
            };
            let item = item?;
            let attribute = item.to_attribute()?;
            require_plain(NtfsContentForm::of_data(&attribute))?;
            let initialized = read_initialized_len(&attribute, fs)?;
            let mut value = attribute.value(fs)?;
            let mut bytes = vec![0; value.len().min(count as u64) as usize];
            value.read_exact(fs, &mut bytes)?;
            let written = initialized.min(bytes.len() as u64) as usize;
            bytes[written..].fill(0);
            Ok(Some(bytes))
        })
    }

    /// Copies a file's bytes and returns their number. `None`: there is no such file.
    ///
    /// `path` is `C:\Windows\…` or `/Windows/…`; the drive letter is ignored, and case does not
    /// matter.
    pub fn copy(&self, path: &str, to: &mut dyn Write) -> Result<Option<u64>> {
        self.query(path, |fs| {
            let Some(file) = self.find(fs, path)? else {
                return Ok(None);
            };
            if file.is_directory() {
                return Err(NtfsFault::Refused("is a directory".into()));
            }
            require_plain(NtfsContentForm::of_reparse(&file, fs)?)?;
            let Some(item) = file.data(fs, "") else {
                return Err(NtfsFault::Refused("has no data".into()));
            };
            copy_attribute(&item?.to_attribute()?, fs, to).map(Some)
        })
    }

    /// Runs one query on the volume.
    fn query<T>(
        &self,
        path: &str,
        read: impl FnOnce(&mut NtfsReader<'d>) -> Result<T, NtfsFault>,
    ) -> Result<T> {
        let mut fs = NtfsReader::new(&self.reader);
        let result = read(&mut fs).map_err(|fault| fault.into_error(path));
        fs.finish(path, result)
    }

    fn find<'n>(
        &'n self,
        fs: &mut NtfsReader<'_>,
        path: &str,
    ) -> Result<Option<NtfsFile<'n>>, NtfsFault> {
        let mut file = self.ntfs.root_directory(fs)?;
        for name in split_path(path) {
            if !file.is_directory() {
                return Ok(None);
            }
            require_plain(NtfsContentForm::of_reparse(&file, fs)?)?;
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

/// Splits a path into names, without a drive letter.
fn split_path(path: &str) -> impl Iterator<Item = &str> {
    let rest = match path.as_bytes() {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => &path[2..],
        _ => path,
    };
    rest.split(['\\', '/']).filter(|n| !n.is_empty())
}

/// The reason why a query about a file failed.
enum NtfsFault {
    /// The structures are damaged.
    Broken(String),
    /// The file's plain data runs are not its content. The reason follows the file's name.
    Refused(String),
    /// The copy could not be written.
    Copy(std::io::Error),
    /// Another file caused the error.
    Elsewhere(Error),
}

impl NtfsFault {
    fn into_error(self, path: &str) -> Error {
        match self {
            Self::Broken(why) => {
                Error::failed(format!("cannot read {path} on the NTFS volume")).because(why)
            }
            Self::Refused(why) => {
                Error::failed(format!("{path} {why}, so it cannot be read offline"))
            }
            Self::Copy(e) => Error::failed(format!("cannot copy {path} from the image")).because(e),
            Self::Elsewhere(error) => error,
        }
    }
}

impl From<NtfsError> for NtfsFault {
    fn from(e: NtfsError) -> Self {
        Self::Broken(e.to_string())
    }
}

impl From<Error> for NtfsFault {
    fn from(error: Error) -> Self {
        Self::Elsewhere(error)
    }
}

fn require_plain(form: NtfsContentForm) -> Result<(), NtfsFault> {
    match form {
        NtfsContentForm::Plain => Ok(()),
        form => Err(NtfsFault::Refused(form.to_string())),
    }
}

/// Copies the content of an attribute and returns its length.
fn copy_attribute(
    attribute: &NtfsAttribute<'_, '_>,
    fs: &mut NtfsReader<'_>,
    to: &mut dyn Write,
) -> Result<u64, NtfsFault> {
    require_plain(NtfsContentForm::of_data(attribute))?;
    let initialized = read_initialized_len(attribute, fs)?;
    copy_value(attribute.value(fs)?, initialized, fs, to)
}

/// Reads the content of an attribute, at most `limit` bytes.
fn read_attribute(
    attribute: &NtfsAttribute<'_, '_>,
    fs: &mut NtfsReader<'_>,
    limit: u64,
) -> Result<Vec<u8>, NtfsFault> {
    let bytes = Vec::new();
    let mut limited = LimitedBuffer { bytes, limit };
    copy_attribute(attribute, fs, &mut limited)?;
    Ok(limited.bytes)
}

/// Reads the number of bytes of the value that were ever written; beyond, Windows reads zeros
/// whatever the clusters contain.
///
/// The `ntfs` crate ignores this field, so it is read here: 8 bytes at 56 of a non-resident
/// attribute's header. Only the low 6 are read: the fix-up may have replaced the other two, which
/// are zero in any real file.
fn read_initialized_len(
    data: &NtfsAttribute<'_, '_>,
    fs: &mut NtfsReader<'_>,
) -> Result<u64, NtfsError> {
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
    fs: &mut NtfsReader<'_>,
    to: &mut dyn Write,
) -> Result<u64, NtfsFault> {
    let len = value.len();
    // Plain content cannot be larger than the volume.
    if len > fs.len() {
        let all = fs.len();
        return Err(NtfsFault::Broken(format!(
            "it has {len} bytes on a volume of {all}"
        )));
    }
    fs.allow_content();
    let mut buffer = vec![0; len.clamp(1, 1 << 20) as usize];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(buffer.len() as u64) as usize;
        let part = &mut buffer[..n];
        value.read_exact(fs, part)?;
        let written = initialized.saturating_sub(done).min(n as u64) as usize;
        part[written..].fill(0);
        to.write_all(part).map_err(NtfsFault::Copy)?;
        done += n as u64;
    }
    Ok(len)
}

/// A buffer that refuses to grow beyond its limit.
struct LimitedBuffer {
    bytes: Vec<u8>,
    limit: u64,
}

impl Write for LimitedBuffer {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if (self.bytes.len() + part.len()) as u64 > self.limit {
            return Err(std::io::Error::other(format!(
                "it has more than the expected maximum of {} bytes",
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
    use super::split_path;

    #[test]
    fn paths_as_windows_and_as_unix_write_them() {
        let split = |p| split_path(p).collect::<Vec<_>>().join("|");
        assert_eq!(split(r"C:\Windows\System32"), "Windows|System32");
        assert_eq!(split("/Windows//System32/"), "Windows|System32");
        assert_eq!(split(r"c:\"), "");
    }
}
