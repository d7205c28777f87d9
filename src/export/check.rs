//! Reads an output back and compares it with the source's checksums from the pass.
//!
//! Compares the CRC-32 of each MiB, which was computed while the source was read. That detects
//! errors of a disk, a file system or winimg without a second read of the source. It does not
//! protect against manipulation; the artifact's SHA-256 does.

use std::fmt::Debug;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use libdeflater::Crc;

use super::chunk::{CHUNK, has_overlap, is_zero};
use super::{PassTotals, thread_panicked};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::Disk;

/// The entry for the content in an artifact's `checked`.
pub const CONTENT: &str = "content of every MiB against the source";

fn report_mismatch(name: &str, what: &str) -> Error {
    Error::new(
        Kind::Export,
        format!("the {what} of {name} changed between writing and reading it back"),
    )
    .cure("check for failing disks or memory (dmesg), then export again")
}

/// Compares one value.
pub fn require_equal<T: PartialEq + Debug>(
    name: &str,
    what: &str,
    expected: T,
    found: T,
) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(report_mismatch(name, what)
        .expected(format!("{expected:?}"))
        .found(format!("{found:?}")))
}

/// Compares every chunk of `disk` with the source's.
pub fn check_content(
    name: &str,
    disk: &dyn Disk,
    totals: &PassTotals,
    threads: usize,
    cancel: &Cancel,
) -> Result<()> {
    require_equal(name, "size", totals.len, disk.len())?;
    let data = disk.data()?;
    let comparison = ChunkComparison {
        name,
        disk,
        data,
        expected: &totals.chunks,
        next: AtomicU64::new(0),
        cancel,
    };
    thread::scope(|scope| {
        let comparison = &comparison;
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(move || comparison.run()))
            .collect();
        let mut ends = workers.into_iter().map(|worker| worker.join());
        ends.try_for_each(|end| end.unwrap_or_else(|_| Err(thread_panicked())))
    })
}

/// A comparison of chunks, shared by its threads.
struct ChunkComparison<'c> {
    name: &'c str,
    disk: &'c dyn Disk,
    data: Vec<Range<u64>>,
    expected: &'c [Option<u32>],
    next: AtomicU64,
    cancel: &'c Cancel,
}

impl ChunkComparison<'_> {
    /// Compares chunks until none is left. After an error the other threads stop as well.
    fn run(&self) -> Result<()> {
        self.compare()
            .inspect_err(|_| self.next.store(u64::MAX / 2, Ordering::Relaxed))
    }

    fn compare(&self) -> Result<()> {
        let mut buffer = vec![0; CHUNK as usize];
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(expected) = self.expected.get(index as usize) else {
                return Ok(());
            };
            self.cancel.check()?;
            let found = read_crc(self.disk, &self.data, index, &mut buffer)?;
            if found != *expected {
                return Err(
                    report_mismatch(self.name, "content").at(format!("offset {}", index * CHUNK))
                );
            }
        }
    }
}

fn read_crc(
    disk: &dyn Disk,
    data: &[Range<u64>],
    index: u64,
    buffer: &mut [u8],
) -> Result<Option<u32>> {
    if !has_overlap(data, index) {
        return Ok(None);
    }
    disk.read_at(index * CHUNK, buffer)?;
    Ok((!is_zero(buffer)).then(|| libdeflater::crc32(buffer)))
}

/// Reads a whole file and compares its size and its digest with what was written.
pub fn check_file(
    name: &str,
    path: &Path,
    (bytes, sha256): (u64, &Digest),
    cancel: &Cancel,
) -> Result<()> {
    let found = hash_file(path, 0..0, cancel)?;
    require_equal(name, "size", bytes, found.bytes)?;
    require_equal(name, "digest", sha256, &found.sha256)
}

/// A file that was read back.
pub struct ReadBack {
    pub bytes: u64,
    pub sha256: Digest,
    /// CRC-32 of the requested part.
    pub crc: u32,
}

/// Reads a whole file, with the CRC-32 of its bytes `part`.
pub fn hash_file(path: &Path, part: Range<u64>, cancel: &Cancel) -> Result<ReadBack> {
    let mut file = File::open(path).map_err(|e| Error::io("read back", path, e))?;
    let (mut hasher, mut crc) = (Hasher::new(Algorithm::Sha256), Crc::new());
    let mut buffer = vec![0; CHUNK as usize];
    let mut at = 0;
    loop {
        cancel.check()?;
        let n = file
            .read(&mut buffer)
            .map_err(|e| Error::io("read back", path, e))?;
        if n == 0 {
            return Ok(ReadBack {
                bytes: at,
                sha256: hasher.finish(),
                crc: crc.sum(),
            });
        }
        hasher.update(&buffer[..n]);
        let start = part.start.saturating_sub(at).min(n as u64) as usize;
        let end = part.end.saturating_sub(at).min(n as u64) as usize;
        crc.update(&buffer[start..end]);
        at += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_file_is_summed_across_reads() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..3 * CHUNK as usize)
            .map(|i| (i / 7 % 251) as u8)
            .collect();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        for part in [
            0..0,
            5..CHUNK + 9,
            CHUNK..2 * CHUNK,
            2 * CHUNK + 1..3 * CHUNK,
        ] {
            let expected = libdeflater::crc32(&bytes[part.start as usize..part.end as usize]);
            let found = hash_file(file.path(), part, &Cancel::default()).unwrap();
            assert_eq!(found.crc, expected);
            assert_eq!(found.sha256, Digest::sha256_of(&bytes));
            assert_eq!(found.bytes, 3 * CHUNK);
        }
    }

    #[test]
    fn one_changed_byte_is_found_at_its_mib() {
        let mut disk = vec![0; 4 * CHUNK as usize];
        disk[CHUNK as usize + 5] = 9;
        let crc = libdeflater::crc32(&disk[CHUNK as usize..2 * CHUNK as usize]);
        let totals = PassTotals {
            len: disk.len() as u64,
            flat: None,
            chunks: vec![None, Some(crc), None, None],
        };
        let check =
            |disk: &Vec<u8>| check_content("demo.raw", disk, &totals, 2, &Cancel::default());
        check(&disk).unwrap();
        for (at, value) in [(CHUNK + 5, 8), (CHUNK + 5, 0), (3 * CHUNK - 1, 1)] {
            let mut bad = disk.clone();
            bad[at as usize] = value;
            let text = check(&bad).unwrap_err().to_string();
            let offset = at / CHUNK * CHUNK;
            assert_eq!(
                text,
                format!(
                    "the content of demo.raw changed between writing and reading it back\n  \
                     at: offset {offset}\n  \
                     cure: check for failing disks or memory (dmesg), then export again"
                )
            );
        }
        let short = vec![0; 3 * CHUNK as usize];
        let text = check(&short).unwrap_err().to_string();
        assert!(text.contains("the size of demo.raw changed"), "{text}");
    }
}
