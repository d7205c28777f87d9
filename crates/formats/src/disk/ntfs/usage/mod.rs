//! How the clusters of a volume are used: by folder, by the volume's own files, free.
//!
//! Every record of the `$MFT` is read once, in order, whatever the size of the files is. Clusters are counted, not lengths: what is
//! sparse, compressed or deduplicated counts with what it occupies, and content that lies in its record with nothing. A file
//! with several names (hard links, which WinSxS is made of) counts once.
//!
//! Refuses a volume that was not shut down in order, and damage: a record that cannot be read, a cluster that two files have
//! or that `$Bitmap` calls free, a folder that leads nowhere. Nothing is guessed.
//!
//! Source: the Linux-NTFS project's documentation of `$MFT`, FILE records and data runs.

mod claims;
mod record;
mod stream;
mod tree;

use super::Volume;
use claims::Claims;
use record::{Attribute, Record};
use stream::Stream;
use tree::Gathered;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

/// A Windows Server has 200,000 to 400,000.
const MOST_RECORDS: u64 = 1 << 23;
/// Bytes of the `$MFT` that are read at once: whole records of any size.
const CHUNK: u64 = 1 << 20;
/// One bit for each record.
const LONGEST_BITMAP: u64 = MOST_RECORDS / 8;

/// NTFS's own files by their names, with their bytes, the largest first.
pub type OwnFiles = Vec<(String, u64)>;

/// What a volume's clusters hold. All sizes are bytes in whole clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Of one cluster.
    pub cluster: u64,
    /// Of the volume.
    pub total: u64,
    /// What no file has.
    pub free: u64,
    /// Those with clusters; `$Extend` with all below it.
    pub metadata: OwnFiles,
    /// Marked as used although no file has it: chkdsk would free it.
    pub unclaimed: u64,
    /// The root first; each folder after the one that it lies in.
    pub folders: Vec<Folder>,
}

/// A folder with everything below it. A file with several names counts where the first of them is in the order of depth and
/// then of names, and below `\Windows\WinSxS` only if all of them are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    pub name: String,
    /// Its place among the folders; of the root its own.
    pub parent: usize,
    pub bytes: u64,
    /// Files below it, each once.
    pub files: u64,
}

impl Volume<'_> {
    /// Reads the whole `$MFT`: some 300 MiB of a Windows Server.
    pub fn usage(&self, cancel: &Cancel) -> Result<Usage> {
        let cluster = u64::from(self.ntfs.cluster_size());
        let mut claims = Claims::new(self.bitmap()?, self.clusters());
        let used = claims.left();
        let table = self.table()?;
        let mut gathered = Gathered::default();
        let mut chunk = vec![0; CHUNK as usize];
        let mut at = 0;
        while at < table.stream.len() {
            cancel.check()?;
            let part = &mut chunk[..(table.stream.len() - at).min(CHUNK) as usize];
            table.stream.read(&self.reader, at, part)?;
            for bytes in part.chunks_exact_mut(table.record_size as usize) {
                let number = at / table.record_size;
                let place = table.stream.place(at);
                at += table.record_size;
                if !table.is_used(number) {
                    continue;
                }
                let Some(mut record) = Record::parse(number, place, bytes, self.clusters())? else {
                    continue;
                };
                record.bytes = claims.claim(&record)? * cluster;
                gathered.add(record)?;
            }
        }
        let (folders, metadata) = gathered.folders()?;
        Ok(Usage {
            cluster,
            total: self.clusters() * cluster,
            free: (self.clusters() - used) * cluster,
            metadata,
            unclaimed: claims.left() * cluster,
            folders,
        })
    }

    /// The `$MFT`, by its own first record.
    fn table(&self) -> Result<Table> {
        let record_size = u64::from(self.ntfs.file_record_size());
        let place = self.ntfs.mft_position().value().map_or(0, |p| p.get());
        let mut bytes = vec![0; record_size.clamp(512, CHUNK) as usize];
        Stream::plain(place, bytes.len() as u64).read(&self.reader, 0, &mut bytes)?;
        let first = Record::parse(0, place, &mut bytes, self.clusters())?
            .ok_or_else(|| damaged(place, "the $MFT's own record is not in use"))?;
        if first.is_continued {
            let fact = "the NTFS volume's $MFT is in more pieces than its first record names";
            return Err(Error::failed(fact)
                .at(offset(place))
                .cure("defragment it in that Windows: defrag C: /X"));
        }
        let cluster = u64::from(self.ntfs.cluster_size());
        let lack = |what| damaged(place, what);
        let of = |kind| {
            first
                .attributes
                .iter()
                .find(move |a| a.kind == kind && !a.is_named)
        };
        let data = of(Attribute::DATA).ok_or_else(|| lack("the $MFT has no data"))?;
        let stream = Stream::of(data, cluster).ok_or_else(|| lack("the $MFT has holes"))?;
        let records = stream.len() / record_size;
        if records > MOST_RECORDS {
            return Err(
                Error::failed("the NTFS volume has too many files to be counted")
                    .expected(format!("at most {MOST_RECORDS} records in the $MFT"))
                    .found(records),
            );
        }
        let bitmap = of(Attribute::BITMAP).ok_or_else(|| lack("the $MFT has no bitmap"))?;
        let in_use = match &bitmap.content {
            Some(content) => content.clone(),
            None => {
                let stream = Stream::of(bitmap, cluster);
                let stream = stream.ok_or_else(|| lack("the $MFT's bitmap has holes"))?;
                let mut bytes = vec![0; stream.len().min(LONGEST_BITMAP) as usize];
                stream.read(&self.reader, 0, &mut bytes)?;
                bytes
            }
        };
        Ok(Table {
            stream: stream.cut(records * record_size),
            record_size,
            in_use,
        })
    }
}

/// Where the records are, and which of them mean anything.
struct Table {
    stream: Stream,
    record_size: u64,
    in_use: Vec<u8>,
}

impl Table {
    fn is_used(&self, number: u64) -> bool {
        let byte = self.in_use.get((number / 8) as usize);
        byte.is_some_and(|byte| byte >> (number % 8) & 1 == 1)
    }
}

/// `place`: bytes from the volume's start.
fn damaged(place: u64, what: impl std::fmt::Display) -> Error {
    Error::failed(format!("the NTFS volume is damaged: {what}"))
        .at(offset(place))
        .cure("check the volume in that Windows: chkdsk /f")
}

fn offset(place: u64) -> String {
    format!("offset {place:#x} of the volume")
}
