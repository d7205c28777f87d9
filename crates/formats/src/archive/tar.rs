//! tar: ustar, pax and GNU long names (POSIX.1-2024 pax; GNU tar manual, Basic Tar Format), plain or compressed.
//!
//! Read twice: once to judge, once to write.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use ::tar::{Archive, Entry, EntryType};
use flate2::bufread::GzDecoder;

use winimg_base::error::{Error, Result};

use super::filter::Selection;
use super::survey::{Survey, What};
use super::{Format, Limits, Packed, Writer, broken, size_of_file};

/// Bytes of a long name or pax header. Readers hold these in memory.
const EXTENSION_LIMIT: u64 = 1 << 20;

pub(super) fn survey(archive: &Packed, limits: &Limits) -> Result<Survey> {
    let size = size_of_file(archive)?;
    let mut survey = Survey::new(limits, size);
    // First the headers as they are, since long names are read whole into memory by the second reading.
    if headers_fit(archive, limits, &mut survey)? {
        members(archive, limits, &mut survey)?;
    }
    Ok(survey)
}

/// Whether the second reading is harmless.
fn headers_fit(archive: &Packed, limits: &Limits, survey: &mut Survey) -> Result<bool> {
    let (reader, too_much) = open(archive, Some(limits))?;
    let mut tar = Archive::new(reader);
    let entries = tar.entries().map_err(|e| broken(archive, e))?;
    // Headers that name the entry to come: with two of them, one reader takes the first and another the last.
    let mut names = 0;
    for (number, entry) in entries.raw(true).enumerate() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => return ended(archive, e, &too_much, survey),
        };
        let kind = entry.header().entry_type();
        let extension = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        if extension && entry.size() > EXTENSION_LIMIT {
            return Ok(survey.stop(format!("it has a header of {} bytes", entry.size())));
        }
        names = match () {
            () if kind.is_gnu_longname() || kind.is_pax_local_extensions() => names + 1,
            () if extension => names,
            () => 0,
        };
        if names > 1 {
            return Ok(survey.stop("it has several headers that name one entry"));
        }
        // Each entry has at most a few extension headers of its own.
        if number >= limits.entries.saturating_mul(4) {
            return Ok(survey.stop(format!("it has more than {} entries", limits.entries)));
        }
    }
    // A tar ends before its file does: only the last bytes prove a gzip or zstd frame whole.
    // What stands behind its end is filled up with zeros to a whole record.
    let mut rest = BufReader::new(tar.into_inner()).bytes();
    match rest.try_fold(false, |content, byte| Ok(content | (byte? != 0))) {
        Ok(true) => Ok(survey.stop("it has bytes behind its end")),
        Ok(false) => Ok(true),
        Err(e) => ended(archive, e, &too_much, survey),
    }
}

/// Why the reading ended early: a limit, which is a problem of the archive, or damage.
fn ended(
    archive: &Packed,
    e: io::Error,
    too_much: &Cell<bool>,
    survey: &mut Survey,
) -> Result<bool> {
    match too_much.get() {
        true => Ok(survey.too_much()),
        false => Err(broken(archive, e)),
    }
}

fn members(archive: &Packed, limits: &Limits, survey: &mut Survey) -> Result<()> {
    let (reader, too_much) = open(archive, Some(limits))?;
    let mut tar = Archive::new(reader);
    let entries = tar.entries().map_err(|e| broken(archive, e))?;
    for (number, entry) in entries.enumerate() {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(e) => {
                ended(archive, e, &too_much, survey)?;
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

/// `None`: not an entry of its own.
fn judge(archive: &Packed, entry: &mut Entry<'_, impl Read>) -> Result<Option<What>> {
    let refused = |problem: &str| Ok(Some(What::Refused(problem.into())));
    let is_sparse = match entry.pax_extensions() {
        Ok(Some(mut extensions)) => {
            extensions.any(|e| e.is_ok_and(|e| e.key_bytes().starts_with(b"GNU.sparse.")))
        }
        Ok(None) => false,
        Err(e) => return Err(broken(archive, e)),
    };
    let kind = entry.header().entry_type();
    if is_sparse || kind.is_gnu_sparse() {
        return refused("is a sparse file");
    }
    match kind {
        EntryType::XGlobalHeader => Ok(None),
        EntryType::Directory => Ok(Some(What::Folder)),
        // Before POSIX a folder was a file whose name ends so.
        EntryType::Regular if entry.path_bytes().ends_with(b"/") => Ok(Some(What::Folder)),
        EntryType::Regular | EntryType::Continuous => Ok(Some(What::File(entry.size()))),
        EntryType::Symlink => refused("is a symbolic link"),
        EntryType::Link => refused("is a hard link"),
        EntryType::Char | EntryType::Block | EntryType::Fifo => {
            refused("is a device, pipe or socket")
        }
        other => refused(&format!(
            "is an entry of the unknown type {:?}",
            char::from(other.as_byte())
        )),
    }
}

pub(super) fn extract(archive: &Packed, selection: &Selection, writer: &mut Writer) -> Result<()> {
    let (reader, _) = open(archive, None)?;
    let mut tar = Archive::new(reader);
    let entries = tar.entries().map_err(|e| broken(archive, e))?;
    for (number, entry) in entries.enumerate() {
        let entry = entry.map_err(|e| broken(archive, e))?;
        match selection.get(number) {
            None => {}
            Some(member) if member.is_folder => writer.folder(&member.path)?,
            Some(member) => writer.file(archive, &member.path, member.size, entry)?,
        }
    }
    Ok(())
}

/// The members of a gzip file behind each other. Zeros behind one are padding, as gzip itself takes them: tapes and some
/// archivers fill the last block.
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

/// Whether something else follows.
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

/// The tar's own bytes, and a flag that says whether their limit was met.
fn open(archive: &Packed, limits: Option<&Limits>) -> Result<(Capped, Rc<Cell<bool>>)> {
    let io = |e| Error::io("read", archive.file, e);
    let file = BufReader::with_capacity(256 << 10, File::open(archive.file).map_err(io)?);
    let inner: Box<dyn Read> = match archive.format {
        Format::TarGz => Box::new(GzipMembers::new(file)),
        Format::TarZst => Box::new(zstd::stream::read::Decoder::with_buffer(file).map_err(io)?),
        Format::Tar | Format::Zip => Box::new(file),
    };
    // Headers and padding come on top of the files' bytes: a KiB for each entry and its name.
    let allowed = match limits {
        Some(limits) => {
            let padding = (limits.entries as u64).saturating_mul(2048);
            let files = limits.allowed(size_of_file(archive)?).0;
            files.saturating_add(padding)
        }
        // Judged before; what is written is limited by the writer.
        None => u64::MAX,
    };
    let met = Rc::new(Cell::new(false));
    let capped = Capped {
        inner,
        left: allowed,
        met: Rc::clone(&met),
    };
    Ok((capped, met))
}

/// Ends with an error once more than `left` bytes were read.
struct Capped {
    inner: Box<dyn Read>,
    left: u64,
    met: Rc<Cell<bool>>,
}

impl Read for Capped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        if n as u64 > self.left {
            self.met.set(true);
            return Err(io::Error::other("the limit is met"));
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
