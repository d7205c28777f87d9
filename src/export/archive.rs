//! Writes and hashes a tar around an exported disk: a Vagrant box or a container image.
//!
//! Its headers are like the OVA's. Reads the exported file, not the sealed disk.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::staging::ExportStaging;
use super::{CHUNK, ExportedArtifact, check};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::PositionedIo as _;
use winimg_recipe::OutputFormat;

/// The end marker of a tar.
const END: [u8; 1024] = [0; 1024];

/// A member's owner and mode.
#[derive(Clone, Copy, Debug)]
pub struct TarOwner {
    /// User and group.
    pub id: u64,
    pub mode: u32,
}

pub const ROOT: TarOwner = TarOwner { id: 0, mode: 0o644 };

/// Builds a member's header. `time` is in Unix seconds.
pub fn build_header(name: &str, size: u64, time: i64, owner: TarOwner) -> Result<[u8; 512]> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name).map_err(|e| {
        Error::new(Kind::Export, format!("{name} can't be used in a tar")).because(e)
    })?;
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(owner.mode);
    header.set_uid(owner.id);
    header.set_gid(owner.id);
    header.set_mtime(time.max(0) as u64);
    header.set_size(size);
    header.set_cksum();
    Ok(*header.as_bytes())
}

/// A tar being written.
pub struct TarArchive<'a> {
    to: Option<&'a StagedArchive>,
    at: u64,
    hasher: Hasher,
    /// Time of every member in Unix seconds.
    time: i64,
}

/// The file that an archive is written into.
pub struct StagedArchive {
    pub name: String,
    file: File,
    temporary: PathBuf,
    written: OnceLock<ArchiveSummary>,
}

/// Size and digest of a finished archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSummary {
    pub bytes: u64,
    pub sha256: Digest,
}

impl StagedArchive {
    pub fn new(name: String, staging: &mut ExportStaging) -> Result<Self> {
        let (file, temporary) = staging.create(&name)?;
        Ok(Self {
            name,
            file,
            temporary,
            written: OnceLock::new(),
        })
    }

    /// Completes the archive and syncs its file.
    pub fn finish(&self, archive: TarArchive<'_>) -> Result<()> {
        self.written.get_or_init(|| archive.finish());
        let synced = self.file.sync_all();
        synced.map_err(|e| Error::io("sync", &self.temporary, e))
    }

    /// Reads the file back and verifies it. `disk`: the exported disk that it contains.
    pub fn check(
        &self,
        output: OutputFormat,
        disk: String,
        cancel: &Cancel,
    ) -> Result<ExportedArtifact> {
        let written = self.written.get();
        let written = written.ok_or_else(|| Error::failed("checked before finished"))?;
        let expected = (written.bytes, &written.sha256);
        check::check_file(&self.name, &self.temporary, expected, cancel)?;
        Ok(ExportedArtifact {
            kind: output.name(),
            file: self.name.clone(),
            bytes: written.bytes,
            sha256: written.sha256.clone(),
            disk: Some(disk),
            checked: vec!["size", "digest"],
        })
    }
}

impl<'a> TarArchive<'a> {
    pub fn new(to: &'a StagedArchive, time: i64) -> Self {
        Self {
            to: Some(to),
            ..Self::measure(time)
        }
    }

    /// Creates an archive that is only measured and hashed, not written.
    pub fn measure(time: i64) -> Self {
        Self {
            to: None,
            at: 0,
            hasher: Hasher::new(Algorithm::Sha256),
            time,
        }
    }

    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.begin(name, bytes.len() as u64, ROOT)?;
        self.emit(bytes)?;
        self.pad()
    }

    pub fn add_file(
        &mut self,
        name: &str,
        owner: TarOwner,
        from: &Path,
        cancel: &Cancel,
    ) -> Result<()> {
        let size = size(from)?;
        self.begin(name, size, owner)?;
        self.copy(from, size, cancel)?;
        self.pad()
    }

    /// Writes a member's header; its bytes follow.
    pub fn begin(&mut self, name: &str, size: u64, owner: TarOwner) -> Result<()> {
        self.emit(&build_header(name, size, self.time, owner)?)
    }

    /// Pads a member's last sector.
    pub fn pad(&mut self) -> Result<()> {
        let missing = self.at.next_multiple_of(512) - self.at;
        self.emit(&[0; 512][..missing as usize])
    }

    /// Writes the end marker. The tar may itself be a member of another one.
    pub fn end(&mut self) -> Result<()> {
        self.emit(&END)
    }

    pub fn finish(self) -> ArchiveSummary {
        ArchiveSummary {
            bytes: self.at,
            sha256: self.hasher.finish(),
        }
    }

    fn copy(&mut self, from: &Path, size: u64, cancel: &Cancel) -> Result<()> {
        let mut file = File::open(from).map_err(|e| Error::io("read", from, e))?;
        let mut buffer = vec![0; CHUNK as usize];
        let mut left = size;
        while left > 0 {
            cancel.check()?;
            let part = &mut buffer[..left.min(CHUNK) as usize];
            file.read_exact(part)
                .map_err(|e| Error::io("read", from, e))?;
            left -= part.len() as u64;
            self.emit(part)?;
        }
        Ok(())
    }

    fn emit(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        if let Some(to) = self.to {
            let written = to.file.write_all_at(bytes, self.at);
            written.map_err(|e| Error::io("write", &to.temporary, e))?;
        }
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// Returns a file's size in bytes.
pub fn size(path: &Path) -> Result<u64> {
    let metadata = path.metadata();
    Ok(metadata.map_err(|e| Error::io("look at", path, e))?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_9_gib_has_a_binary_size_and_no_pax_header() {
        let of = |name, size, time| build_header(name, size, time, ROOT).unwrap();
        let header = of("demo-disk1.vmdk", 9 << 30, 1_700_000_000);
        assert_eq!(&header[257..263], b"ustar\0");
        assert_eq!(header[156], b'0');
        // GNU base-256: the top bit set, then the number, big-endian.
        assert_eq!(header[124], 0x80);
        let mut size = [0; 8];
        size.copy_from_slice(&header[128..136]);
        assert_eq!(u64::from_be_bytes(size), 9 << 30);
        let read = tar::Header::from_byte_slice(&header);
        assert_eq!(read.size().unwrap(), 9 << 30);
        let small = of("demo.ovf", 7 << 30, 0);
        assert_eq!(&small[124..136], b"70000000000\0");
    }
}
