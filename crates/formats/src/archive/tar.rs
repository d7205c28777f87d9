//! tar: ustar, pax and GNU long names (POSIX.1-2024 pax; GNU tar manual, Basic Tar Format), plain
//! or compressed.
//!
//! Read twice: once to check, once to write.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use ::tar::{Archive, Entry, EntryType};
use flate2::bufread::GzDecoder;

use winimg_base::error::{Error, Result};

use super::filter::ArchiveSelection;
use super::survey::{ArchiveSurvey, EntryKind};
use super::{ArchiveFile, ArchiveFormat, UnpackLimits, UnpackWriter, archive_size, report_broken};

/// Maximum bytes of a long name or pax header, since readers keep these in memory.
const EXTENSION_LIMIT: u64 = 1 << 20;

pub(super) fn inspect(archive: &ArchiveFile, limits: &UnpackLimits) -> Result<ArchiveSurvey> {
    let size = archive_size(archive)?;
    let mut survey = ArchiveSurvey::new(limits, size);
    // Check the raw headers first: the second reading loads long names into memory.
    if headers_fit(archive, limits, &mut survey)? {
        add_members(archive, limits, &mut survey)?;
    }
    Ok(survey)
}

/// Returns true if the second reading is safe.
fn headers_fit(
    archive: &ArchiveFile,
    limits: &UnpackLimits,
    survey: &mut ArchiveSurvey,
) -> Result<bool> {
    let (reader, too_much) = open(archive, Some(limits))?;
    let mut tar = Archive::new(reader);
    let entries = tar.entries().map_err(|e| report_broken(archive, e))?;
    // Headers that name the next entry: if there are two, readers disagree about which one applies.
    let mut names = 0;
    for (number, entry) in entries.raw(true).enumerate() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => return handle_early_end(archive, e, &too_much, survey),
        };
        let kind = entry.header().entry_type();
        let is_extension = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        if is_extension && entry.size() > EXTENSION_LIMIT {
            return Ok(survey.stop(format!("it has a header of {} bytes", entry.size())));
        }
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            names += 1;
        } else if !is_extension {
            names = 0;
        }
        if names > 1 {
            return Ok(survey.stop("it has several headers that name one entry"));
        }
        // Each entry has at most a few extension headers of its own.
        if number >= limits.entries.saturating_mul(4) {
            return Ok(survey.stop(format!("it has more than {} entries", limits.entries)));
        }
    }
    // A tar ends before its file does: a gzip or zstd frame is only proved complete by its last
    // bytes. The tar is padded with zeros to a whole record.
    let mut rest = BufReader::new(tar.into_inner()).bytes();
    match rest.try_fold(false, |content, byte| Ok(content | (byte? != 0))) {
        Ok(true) => Ok(survey.stop("it has bytes after its end")),
        Ok(false) => Ok(true),
        Err(e) => handle_early_end(archive, e, &too_much, survey),
    }
}

/// Handles an early end of the reading: a limit, which is a problem of the archive, or damage.
fn handle_early_end(
    archive: &ArchiveFile,
    e: io::Error,
    too_much: &Cell<bool>,
    survey: &mut ArchiveSurvey,
) -> Result<bool> {
    if too_much.get() {
        Ok(survey.too_much())
    } else {
        Err(report_broken(archive, e))
    }
}

fn add_members(
    archive: &ArchiveFile,
    limits: &UnpackLimits,
    survey: &mut ArchiveSurvey,
) -> Result<()> {
    let (reader, too_much) = open(archive, Some(limits))?;
    let mut tar = Archive::new(reader);
    let entries = tar.entries().map_err(|e| report_broken(archive, e))?;
    for (number, entry) in entries.enumerate() {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(e) => {
                handle_early_end(archive, e, &too_much, survey)?;
                return Ok(());
            }
        };
        let what = judge(archive, &mut entry)?;
        let Some(what) = what else { continue };
        if !survey.add(number, &entry.path_bytes(), what) {
            return Ok(());
        }
    }
    Ok(())
}

/// Classifies an entry; `None` for a global header.
fn judge(archive: &ArchiveFile, entry: &mut Entry<'_, impl Read>) -> Result<Option<EntryKind>> {
    let is_sparse = match entry.pax_extensions() {
        Ok(Some(mut extensions)) => {
            extensions.any(|e| e.is_ok_and(|e| e.key_bytes().starts_with(b"GNU.sparse.")))
        }
        Ok(None) => false,
        Err(e) => return Err(report_broken(archive, e)),
    };
    let kind = entry.header().entry_type();
    if is_sparse || kind.is_gnu_sparse() {
        return Ok(Some(EntryKind::Refused("is a sparse file".into())));
    }
    let what = match kind {
        EntryType::XGlobalHeader => return Ok(None),
        EntryType::Directory => EntryKind::Folder,
        // Before POSIX a folder was a file whose name ends in a slash.
        EntryType::Regular if entry.path_bytes().ends_with(b"/") => EntryKind::Folder,
        EntryType::Regular | EntryType::Continuous => EntryKind::File(entry.size()),
        EntryType::Symlink => EntryKind::Refused("is a symbolic link".into()),
        EntryType::Link => EntryKind::Refused("is a hard link".into()),
        EntryType::Char | EntryType::Block | EntryType::Fifo => {
            EntryKind::Refused("is a device, pipe or socket".into())
        }
        other => EntryKind::Refused(format!(
            "is an entry of the unknown type {:?}",
            char::from(other.as_byte())
        )),
    };
    Ok(Some(what))
}

pub(super) fn extract(
    archive: &ArchiveFile,
    selection: &ArchiveSelection,
    writer: &mut UnpackWriter,
) -> Result<()> {
    let (reader, _) = open(archive, None)?;
    let mut tar = Archive::new(reader);
    let entries = tar.entries().map_err(|e| report_broken(archive, e))?;
    for (number, entry) in entries.enumerate() {
        let entry = entry.map_err(|e| report_broken(archive, e))?;
        match selection.get(number) {
            None => {}
            Some(member) if member.is_folder => writer.create_folder(&member.path)?,
            Some(member) => writer.write_file(archive, &member.path, member.size, entry)?,
        }
    }
    Ok(())
}

/// The concatenated members of a gzip file. Zeros after a member are padding, as for gzip itself:
/// tapes and some archivers fill the last block.
struct GzipMembers<R: BufRead> {
    /// `None` at the end, and after an error.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipMembers<R> {
    fn new(file: R) -> Self {
        Self {
            member: Some(GzDecoder::new(file)),
        }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(mut rest) = self.member.take().map(GzDecoder::into_inner) else {
                break;
            };
            if skip_zeros(&mut rest)? {
                self.member = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

/// Skips zeros. Returns true if something else follows.
fn skip_zeros(rest: &mut impl BufRead) -> std::io::Result<bool> {
    loop {
        let bytes = rest.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let is_over = zeros < bytes.len();
        rest.consume(zeros);
        if is_over {
            return Ok(true);
        }
    }
}

/// Opens the decompressed tar, and returns a flag that is set when its limit is exceeded.
fn open(
    archive: &ArchiveFile,
    limits: Option<&UnpackLimits>,
) -> Result<(CappedReader, Rc<Cell<bool>>)> {
    let file = File::open(archive.file).map_err(|e| Error::io("read", archive.file, e))?;
    let file = BufReader::with_capacity(256 << 10, file);
    let inner: Box<dyn Read> = match archive.format {
        ArchiveFormat::TarGz => Box::new(GzipMembers::new(file)),
        ArchiveFormat::TarZst => Box::new(
            zstd::stream::read::Decoder::with_buffer(file)
                .map_err(|e| Error::io("read", archive.file, e))?,
        ),
        ArchiveFormat::Tar | ArchiveFormat::Zip => Box::new(file),
    };
    // Headers and padding add up to 2 KiB for each entry and its name.
    let allowed = match limits {
        Some(limits) => {
            let padding = (limits.entries as u64).saturating_mul(2048);
            let files = limits.compute_max_size(archive_size(archive)?).0;
            files.saturating_add(padding)
        }
        // Checked before; the writer limits the output.
        None => u64::MAX,
    };
    let is_exceeded = Rc::new(Cell::new(false));
    let capped = CappedReader {
        inner,
        left: allowed,
        is_exceeded: Rc::clone(&is_exceeded),
    };
    Ok((capped, is_exceeded))
}

/// Fails once more than `left` bytes were read.
struct CappedReader {
    inner: Box<dyn Read>,
    left: u64,
    is_exceeded: Rc<Cell<bool>>,
}

impl Read for CappedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        if n as u64 > self.left {
            self.is_exceeded.set(true);
            return Err(io::Error::other("the size limit is exceeded"));
        }
        self.left -= n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        GzipMembers::new(bytes).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn zeros_behind_a_gzip_member_are_padding() {
        let (one, two, zeros) = (packed("one"), packed("two"), vec![0; 10_000]);
        assert_eq!(unpacked(&one).unwrap(), "one");
        assert_eq!(
            unpacked(&[one.clone(), two.clone()].concat()).unwrap(),
            "onetwo"
        );
        assert_eq!(
            unpacked(&[one.clone(), zeros.clone()].concat()).unwrap(),
            "one"
        );
        let parted = [one.clone(), zeros.clone(), two, vec![0]].concat();
        assert_eq!(unpacked(&parted).unwrap(), "onetwo");
        for broken in [
            [one.clone(), b"more".to_vec()].concat(),
            [one.clone(), zeros.clone(), b"x".to_vec()].concat(),
            one[..one.len() - 1].to_vec(),
            zeros,
            Vec::new(),
        ] {
            assert!(unpacked(&broken).is_err());
        }
    }
}
