//! Reading an output back and comparing it with what the pass saw in the source.
//!
//! Content is compared MiB by MiB by CRC-32, taken from the source while it was read: it finds what a disk, a file
//! system or a mistake of ours does to a file, and needs no second read of the source. It is no proof against malice;
//! the SHA-256 of the artifact is.

use std::fmt::Debug;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use libdeflater::Crc;

use super::chunk::{CHUNK, is_zero, touches};
use super::{Totals, thread_panicked};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::Disk;

/// In an artifact's `checked`.
pub const CONTENT: &str = "content of every MiB against the source";

fn failed(name: &str, what: &str) -> Error {
    Error::new(
        Kind::Export,
        format!("{name} was read back and its {what} is not what was written"),
    )
    .cure("look for a failing disk or memory (dmesg), then export again")
}

/// Compares one value.
pub fn same<T: PartialEq + Debug>(name: &str, what: &str, expected: T, found: T) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(failed(name, what)
        .expected(format!("{expected:?}"))
        .found(format!("{found:?}")))
}

/// Compares every chunk of `disk` with the source's.
pub fn content(
    name: &str,
    disk: &dyn Disk,
    totals: &Totals,
    threads: usize,
    cancel: &Cancel,
) -> Result<()> {
    same(name, "size", totals.len, disk.len())?;
    let data = disk.data()?;
    let next = AtomicU64::new(0);
    let work = || -> Result<()> {
        let mut buffer = vec![0; CHUNK as usize];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(expected) = totals.chunks.get(index as usize) else {
                return Ok(());
            };
            cancel.check()?;
            let found = chunk(disk, &data, index, &mut buffer)?;
            if found != *expected {
                return Err(failed(name, "content").at(format!("offset {}", index * CHUNK)));
            }
        }
    };
    let worker = || work().inspect_err(|_| next.store(u64::MAX / 2, Ordering::Relaxed));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let mut ends = workers.into_iter().map(|worker| worker.join());
        ends.try_for_each(|end| end.unwrap_or_else(|_| Err(thread_panicked())))
    })
}

fn chunk(
    disk: &dyn Disk,
    data: &[Range<u64>],
    index: u64,
    buffer: &mut [u8],
) -> Result<Option<u32>> {
    if !touches(data, index) {
        return Ok(None);
    }
    disk.read_at(index * CHUNK, buffer)?;
    Ok((!is_zero(buffer)).then(|| libdeflater::crc32(buffer)))
}

/// Reads a whole file and compares its size and its digest with what was written.
pub fn whole(
    name: &str,
    path: &Path,
    (bytes, sha256): (u64, &Digest),
    cancel: &Cancel,
) -> Result<()> {
    let found = digest(path, 0..0, cancel)?;
    same(name, "size", bytes, found.bytes)?;
    same(name, "digest", sha256, &found.sha256)
}

/// A file that was read back.
pub struct ReadBack {
    pub bytes: u64,
    pub sha256: Digest,
    /// CRC-32 of the part that was asked for.
    pub crc: u32,
}

/// Reads a whole file, with the CRC-32 of its bytes `part`.
pub fn digest(path: &Path, part: Range<u64>, cancel: &Cancel) -> Result<ReadBack> {
    let bad = |e| Error::io("read back", path, e);
    let mut file = File::open(path).map_err(bad)?;
    let (mut hasher, mut crc) = (Hasher::new(Algorithm::Sha256), Crc::new());
    let mut buffer = vec![0; CHUNK as usize];
    let mut at = 0;
    loop {
        cancel.check()?;
        let n = file.read(&mut buffer).map_err(bad)?;
        if n == 0 {
            return Ok(ReadBack {
                bytes: at,
                sha256: hasher.finish(),
                crc: crc.sum(),
            });
        }
        hasher.update(&buffer[..n]);
        let within = |offset: u64| offset.saturating_sub(at).min(n as u64) as usize;
        crc.update(&buffer[within(part.start)..within(part.end)]);
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
            let found = digest(file.path(), part, &Cancel::default()).unwrap();
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
        let totals = Totals {
            len: disk.len() as u64,
            flat: None,
            chunks: vec![None, Some(crc), None, None],
        };
        let check = |disk: &Vec<u8>| content("demo.raw", disk, &totals, 2, &Cancel::default());
        check(&disk).unwrap();
        for (at, value) in [(CHUNK + 5, 8), (CHUNK + 5, 0), (3 * CHUNK - 1, 1)] {
            let mut bad = disk.clone();
            bad[at as usize] = value;
            let text = check(&bad).unwrap_err().to_string();
            let offset = at / CHUNK * CHUNK;
            assert_eq!(
                text,
                format!(
                    "demo.raw was read back and its content is not what was written\n  at: offset {offset}\n  \
                     cure: look for a failing disk or memory (dmesg), then export again"
                )
            );
        }
        let short = vec![0; 3 * CHUNK as usize];
        let text = check(&short).unwrap_err().to_string();
        assert!(text.contains("its size is not what was written"), "{text}");
    }
}
