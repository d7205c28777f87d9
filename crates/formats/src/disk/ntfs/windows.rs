//! The volume of a disk that an installed Windows starts from, found by its files and not by its size.

use super::super::Disk;
use super::super::gpt::{Partition, Table};
use super::Volume;
use winimg_base::error::{Error, Kind, Result};

/// The folder of the registry's hives, which every installed Windows has.
const CONFIG: &str = r"C:\Windows\System32\config";
/// The file into which Windows writes its memory.
const HIBERNATION_FILE: &str = r"C:\hiberfil.sys";

/// A Windows that is installed on a disk.
pub struct Windows<'d> {
    pub partition: Partition,
    pub volume: Volume<'d>,
}

/// What `hiberfil.sys` says of the Windows that the volume belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hibernation {
    /// No such file, or an empty one.
    None,
    /// Windows continues from its memory at the next start, as after a shutdown with fast startup. What it has in memory of
    /// the volume is newer than the volume.
    Waits,
    /// Windows continued from it, and was not shut down since.
    Resumed,
}

impl<'d> Windows<'d> {
    /// Finds the largest volume with Windows in it. A disk without one, or with one that can't be read, is an error.
    pub fn find(disk: &'d dyn Disk, table: &Table) -> Result<Self> {
        let is_candidate = |p: &&Partition| matches!(p.role, Some("basic data" | "NTFS"));
        let mut candidates: Vec<&Partition> =
            table.partitions.iter().filter(is_candidate).collect();
        candidates.sort_by_key(|p| std::cmp::Reverse(p.len));
        let mut why = None;
        for partition in candidates {
            let found = Volume::open(disk, partition)
                .and_then(|volume| Ok(volume.exists(CONFIG)?.then_some(volume)));
            match found {
                Ok(Some(volume)) => {
                    return Ok(Self {
                        partition: partition.clone(),
                        volume,
                    });
                }
                Ok(None) => {}
                Err(error) => why = why.or(Some(error)),
            }
        }
        let error = Error::new(Kind::Verify, "there is no Windows on this disk")
            .expected(format!("an NTFS partition with {CONFIG}"))
            .found(described(table));
        Err(match why {
            Some(why) => error.lines(why.to_string().lines()),
            None => error,
        })
    }
}

fn described(table: &Table) -> String {
    let roles = table.partitions.iter();
    let roles: Vec<&str> = roles.map(|p| p.role.unwrap_or("unknown")).collect();
    if roles.is_empty() {
        return "no partition".into();
    }
    format!("partitions: {}", roles.join(", "))
}

impl Volume<'_> {
    /// Reads the mark at the beginning of `hiberfil.sys` (ntfs-3g, libntfs-3g/volume.c: `ntfs_volume_check_hiberfile`).
    pub fn hibernation(&self) -> Result<Hibernation> {
        match self.facts(HIBERNATION_FILE)? {
            Some(facts) if !facts.directory && facts.size >= 4 => {}
            _ => return Ok(Hibernation::None),
        }
        let mark = self.beginning(HIBERNATION_FILE, 4)?.unwrap_or_default();
        Ok(match mark.to_ascii_lowercase().as_slice() {
            b"hibr" | b"rstr" => Hibernation::Waits,
            b"wake" => Hibernation::Resumed,
            _ => Hibernation::None,
        })
    }
}
