//! Usage of a volume's clusters: by folder, by the volume's own files, free.
//!
//! Every record of the `$MFT` is read once, in order, whatever the size of the files is. Clusters
//! are counted, not lengths: a sparse, compressed or deduplicated file counts with its allocated
//! space, and content in the record itself as zero. A file with several names (hard links, as in
//! WinSxS) counts once.
//!
//! Refuses a volume that was not shut down cleanly, and damage: an unreadable record, a cluster
//! that belongs to two files or is free in `$Bitmap`, a folder without a path to the root. Nothing
//! is guessed.
//!
//! Source: the Linux-NTFS project's documentation of `$MFT`, FILE records and data runs.

mod claims;
mod record;
mod stream;
mod tree;

use super::NtfsVolume;
use claims::ClusterClaims;
use record::{MftAttribute, MftRecord};
use stream::ClusterStream;
use tree::UsageCollector;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

/// Maximum number of records; a Windows Server has 200,000 to 400,000.
const MAX_RECORDS: u64 = 1 << 23;
/// Bytes of the `$MFT` that are read at once: whole records of any size.
const CHUNK: u64 = 1 << 20;
/// Bytes of the bitmap: one bit per record.
const MAX_BITMAP_SIZE: u64 = MAX_RECORDS / 8;

/// Names and bytes of NTFS's own files, the largest first.
pub type MetadataFiles = Vec<(String, u64)>;

/// Usage of a volume's clusters. All sizes are bytes in whole clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Size of one cluster.
    pub cluster: u64,
    /// Size of the volume.
    pub total: u64,
    /// Free space.
    pub free: u64,
    /// Own files that have clusters; `$Extend` includes everything below it.
    pub metadata: MetadataFiles,
    /// Space marked as used but not assigned to a file: chkdsk would free it.
    pub unclaimed: u64,
    /// The root first; each folder after its parent.
    pub folders: Vec<FolderUsage>,
}

/// A folder with everything below it. A file with several names counts at the first of them by
/// depth and then by name, and below `\Windows\WinSxS` only if all of them are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderUsage {
    pub name: String,
    /// Index of its parent among the folders; the root is its own parent.
    pub parent: usize,
    pub bytes: u64,
    /// Files below it, each counted once.
    pub files: u64,
}

impl NtfsVolume<'_> {
    /// Measures the usage by reading the whole `$MFT`, which has about 300 MiB on a Windows Server.
    pub fn measure_usage(&self, cancel: &Cancel) -> Result<VolumeUsage> {
        let cluster = u64::from(self.ntfs.cluster_size());
        let mut claims = ClusterClaims::new(self.read_bitmap()?, self.count_clusters());
        let used = claims.count_unclaimed();
        let table = self.read_mft()?;
        let mut gathered = UsageCollector::default();
        let mut chunk = vec![0; CHUNK as usize];
        let mut at = 0;
        while at < table.stream.len() {
            cancel.check()?;
            let part = &mut chunk[..(table.stream.len() - at).min(CHUNK) as usize];
            table.stream.read(&self.reader, at, part)?;
            for bytes in part.chunks_exact_mut(table.record_size as usize) {
                let number = at / table.record_size;
                let place = table.stream.find_place(at);
                at += table.record_size;
                if !table.is_used(number) {
                    continue;
                }
                let Some(mut record) =
                    MftRecord::parse(number, place, bytes, self.count_clusters())?
                else {
                    continue;
                };
                record.bytes = claims.claim_record(&record)? * cluster;
                gathered.add(record)?;
            }
        }
        let (folders, metadata) = gathered.into_folders()?;
        Ok(VolumeUsage {
            cluster,
            total: self.count_clusters() * cluster,
            free: (self.count_clusters() - used) * cluster,
            metadata,
            unclaimed: claims.count_unclaimed() * cluster,
            folders,
        })
    }

    /// Reads the `$MFT` by its own first record.
    fn read_mft(&self) -> Result<MftTable> {
        let record_size = u64::from(self.ntfs.file_record_size());
        let place = self.ntfs.mft_position().value().map_or(0, |p| p.get());
        let mut bytes = vec![0; record_size.clamp(512, CHUNK) as usize];
        ClusterStream::from_range(place, bytes.len() as u64).read(&self.reader, 0, &mut bytes)?;
        let first = MftRecord::parse(0, place, &mut bytes, self.count_clusters())?
            .ok_or_else(|| report_damage(place, "the $MFT's own record is not in use"))?;
        if first.is_continued {
            let fact = "the NTFS volume's $MFT is too fragmented for its first record";
            return Err(Error::failed(fact)
                .at(format_offset(place))
                .cure("defragment it in that Windows: defrag C: /X"));
        }
        let cluster = u64::from(self.ntfs.cluster_size());
        let data = first
            .find_attribute(MftAttribute::DATA)
            .ok_or_else(|| report_damage(place, "the $MFT has no data"))?;
        let stream = ClusterStream::from_attribute(data, cluster)
            .ok_or_else(|| report_damage(place, "the $MFT has holes"))?;
        let records = stream.len() / record_size;
        if records > MAX_RECORDS {
            return Err(Error::failed("the NTFS volume has too many files to count")
                .expected(format!("at most {MAX_RECORDS} records in the $MFT"))
                .found(records));
        }
        let bitmap = first
            .find_attribute(MftAttribute::BITMAP)
            .ok_or_else(|| report_damage(place, "the $MFT has no bitmap"))?;
        let in_use = match &bitmap.content {
            Some(content) => content.clone(),
            None => {
                let stream = ClusterStream::from_attribute(bitmap, cluster)
                    .ok_or_else(|| report_damage(place, "the $MFT's bitmap has holes"))?;
                let mut bytes = vec![0; stream.len().min(MAX_BITMAP_SIZE) as usize];
                stream.read(&self.reader, 0, &mut bytes)?;
                bytes
            }
        };
        Ok(MftTable {
            stream: stream.truncate(records * record_size),
            record_size,
            in_use,
        })
    }
}

/// Places of the records, and the bitmap of those in use.
struct MftTable {
    stream: ClusterStream,
    record_size: u64,
    in_use: Vec<u8>,
}

impl MftTable {
    fn is_used(&self, number: u64) -> bool {
        let byte = self.in_use.get((number / 8) as usize);
        byte.is_some_and(|byte| byte >> (number % 8) & 1 == 1)
    }
}

/// Reports damage at `place` bytes from the volume's start.
fn report_damage(place: u64, what: impl std::fmt::Display) -> Error {
    Error::failed(format!("the NTFS volume is damaged: {what}"))
        .at(format_offset(place))
        .cure("check the volume in that Windows: chkdsk /f")
}

fn format_offset(place: u64) -> String {
    format!("offset {place:#x} of the volume")
}
