//! Finds the largest volume that has Windows' files.

use super::NtfsVolume;
use crate::disk::Disk;
use crate::disk::gpt::{DiskPartition, PartitionTable};
use winimg_base::error::{Error, Kind, Result};

/// The folder of the registry's hives, which every installed Windows has.
const HIVES_FOLDER: &str = r"C:\Windows\System32\config";
/// The file in which Windows saves its memory when it hibernates.
const HIBERNATION_FILE: &str = r"C:\hiberfil.sys";

/// A Windows installation on a disk.
pub struct WindowsVolume<'d> {
    pub partition: DiskPartition,
    pub volume: NtfsVolume<'d>,
}

/// Hibernation state of the volume's Windows, from `hiberfil.sys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hibernation {
    /// No such file, or an empty one.
    None,
    /// Windows resumes from the file at its next start, as after a shutdown with fast startup. Its
    /// cached data is newer than the volume.
    Suspended,
    /// Windows has resumed from the file and has not been shut down since.
    Resumed,
}

impl<'d> WindowsVolume<'d> {
    /// Finds the largest volume with Windows. Fails if there is none; the first unreadable volume
    /// is given as the reason.
    pub fn find(disk: &'d dyn Disk, table: &PartitionTable) -> Result<Self> {
        let mut candidates: Vec<&DiskPartition> = table
            .partitions
            .iter()
            .filter(|p| matches!(p.role, Some("basic data" | "NTFS")))
            .collect();
        candidates.sort_by_key(|p| std::cmp::Reverse(p.len));
        let mut first_error = None;
        for partition in candidates {
            let found = NtfsVolume::open(disk, partition)
                .and_then(|volume| Ok(volume.exists(HIVES_FOLDER)?.then_some(volume)));
            match found {
                Ok(Some(volume)) => {
                    return Ok(Self {
                        partition: partition.clone(),
                        volume,
                    });
                }
                Ok(None) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let error = Error::new(Kind::Verify, "no Windows installation found on this disk")
            .expected(format!("an NTFS partition with {HIVES_FOLDER}"))
            .found(describe_partitions(table));
        Err(match first_error {
            Some(first_error) => error.lines(first_error.to_string().lines()),
            None => error,
        })
    }
}

fn describe_partitions(table: &PartitionTable) -> String {
    let roles: Vec<&str> = table
        .partitions
        .iter()
        .map(|p| p.role.unwrap_or("unknown"))
        .collect();
    if roles.is_empty() {
        return "no partitions".into();
    }
    format!("partitions: {}", roles.join(", "))
}

impl NtfsVolume<'_> {
    /// Reads the signature at the start of `hiberfil.sys` (ntfs-3g, libntfs-3g/volume.c:
    /// `ntfs_volume_check_hiberfile`).
    pub fn read_hibernation(&self) -> Result<Hibernation> {
        match self.read_file_info(HIBERNATION_FILE)? {
            Some(info) if !info.is_directory && info.size >= 4 => {}
            _ => return Ok(Hibernation::None),
        }
        let signature = self.read_start(HIBERNATION_FILE, 4)?.unwrap_or_default();
        Ok(match signature.to_ascii_lowercase().as_slice() {
            b"hibr" | b"rstr" => Hibernation::Suspended,
            b"wake" => Hibernation::Resumed,
            _ => Hibernation::None,
        })
    }
}
