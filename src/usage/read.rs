//! Creates the disk usage record from the disks of a build.

use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::ntfs::{self, WindowsVolume};
use winimg_formats::disk::{Disk, gpt};

use super::{DiskUsage, LayerUsage, NtfsMetadataFile, UsageFolder, UsageSchema, compare_folders};

/// Deeper folders are counted in their parent folder.
const MAX_DEPTH: usize = 6;
/// A listed folder has at least 1/SHARE of the used bytes.
const SHARE: u64 = 200;

/// Disk usage of a sealed layer.
pub struct SealedUsage {
    /// The part of the build after which it was sealed.
    pub after: String,
    usage: ntfs::VolumeUsage,
}

impl SealedUsage {
    pub fn read(after: &str, disk: &dyn Disk, cancel: &Cancel) -> Result<Self> {
        Ok(Self {
            after: after.into(),
            usage: read_volume(disk, cancel)?,
        })
    }
}

/// Reads the usage of the Windows volume.
fn read_volume(disk: &dyn Disk, cancel: &Cancel) -> Result<ntfs::VolumeUsage> {
    WindowsVolume::find(disk, &gpt::read_table(disk)?)?
        .volume
        .measure_usage(cancel)
}

/// Reads the disk usage of one disk.
pub fn read_disk(disk: &dyn Disk, cancel: &Cancel) -> Result<DiskUsage> {
    Ok(record(&read_volume(disk, cancel)?))
}

/// Returns the disk usage of the last layer with the changes from each layer to the next; `None`
/// without layers.
pub fn from_layers(layers: &[SealedUsage]) -> Option<DiskUsage> {
    let mut usage = record(&layers.last()?.usage);
    if layers.len() == 1 {
        return Some(usage);
    }
    let mut before: Option<UsageFolder> = None;
    for layer in layers {
        let whole = prune_tree(&layer.usage, 0);
        usage.layers.push(LayerUsage {
            after: layer.after.clone(),
            used: layer.usage.total - layer.usage.free,
            changes: before.map_or_else(Vec::new, |before| compare_folders(&before, &whole)),
        });
        before = Some(whole);
    }
    Some(usage)
}

fn record(usage: &ntfs::VolumeUsage) -> DiskUsage {
    let smallest = (usage.total - usage.free).div_ceil(SHARE);
    DiskUsage {
        schema: UsageSchema::V1,
        total: usage.total,
        free: usage.free,
        unclaimed: usage.unclaimed,
        metadata: usage
            .metadata
            .iter()
            .cloned()
            .map(|(name, bytes)| NtfsMetadataFile { name, bytes })
            .collect(),
        smallest,
        root: prune_tree(usage, smallest),
        layers: Vec::new(),
    }
}

/// Returns the tree without folders that are too small or too deep.
fn prune_tree(usage: &ntfs::VolumeUsage, smallest: u64) -> UsageFolder {
    let mut depths = Vec::with_capacity(usage.folders.len());
    let mut nodes: Vec<Option<UsageFolder>> = Vec::with_capacity(usage.folders.len());
    for (index, folder) in usage.folders.iter().enumerate() {
        let depth = if index == 0 {
            0
        } else {
            depths[folder.parent] + 1
        };
        depths.push(depth);
        let is_listed = depth <= MAX_DEPTH && folder.bytes >= smallest;
        nodes.push((index == 0 || is_listed).then(|| UsageFolder {
            name: folder.name.clone(),
            bytes: folder.bytes,
            files: folder.files,
            folders: Vec::new(),
        }));
    }
    // Parents precede their folders, so in reverse order each folder is complete when it is
    // visited.
    for index in (1..nodes.len()).rev() {
        if let Some(mut node) = nodes[index].take()
            && let Some(above) = &mut nodes[usage.folders[index].parent]
        {
            sort(&mut node.folders);
            above.folders.push(node);
        }
    }
    let mut root = nodes
        .into_iter()
        .next()
        .flatten()
        .unwrap_or_else(|| UsageFolder {
            name: String::new(),
            bytes: 0,
            files: 0,
            folders: Vec::new(),
        });
    sort(&mut root.folders);
    root
}

/// Sorts folders by size, the largest first.
fn sort(folders: &mut [UsageFolder]) {
    folders.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
}
