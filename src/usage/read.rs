//! From the disks of a build to the record of what they hold.

use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::ntfs::{self, Windows};
use winimg_formats::disk::{Disk, gpt};

use super::{DiskUsage, Folder, Layer, Own, Schema, changes};

/// Folders below are counted with the one that they lie in.
const DEEPEST: usize = 6;
/// A folder that is listed has this part of what is used.
const SHARE: u64 = 200;

/// A sealed layer's disk, as far as its size by folder is concerned.
pub struct Sealed {
    /// The part of the build after which it was sealed.
    pub after: String,
    usage: ntfs::Usage,
}

impl Sealed {
    pub fn read(after: &str, disk: &dyn Disk, cancel: &Cancel) -> Result<Self> {
        Ok(Self {
            after: after.into(),
            usage: volume(disk, cancel)?,
        })
    }
}

/// The volume that holds Windows.
fn volume(disk: &dyn Disk, cancel: &Cancel) -> Result<ntfs::Usage> {
    Windows::find(disk, &gpt::table(disk)?)?
        .volume
        .usage(cancel)
}

/// What one disk holds.
pub fn of_disk(disk: &dyn Disk, cancel: &Cancel) -> Result<DiskUsage> {
    Ok(record(&volume(disk, cancel)?))
}

/// What the last disk holds, and what was added from each to the next.
pub fn of_layers(layers: &[Sealed]) -> Option<DiskUsage> {
    let mut usage = record(&layers.last()?.usage);
    if layers.len() == 1 {
        return Some(usage);
    }
    let mut before: Option<Folder> = None;
    for layer in layers {
        let whole = folded(&layer.usage, 0);
        usage.layers.push(Layer {
            after: layer.after.clone(),
            used: layer.usage.total - layer.usage.free,
            changes: before.map_or_else(Vec::new, |before| changes(&before, &whole)),
        });
        before = Some(whole);
    }
    Some(usage)
}

fn record(usage: &ntfs::Usage) -> DiskUsage {
    let smallest = (usage.total - usage.free).div_ceil(SHARE);
    let own = usage.metadata.iter().cloned();
    DiskUsage {
        schema: Schema::V1,
        total: usage.total,
        free: usage.free,
        unclaimed: usage.unclaimed,
        metadata: own.map(|(name, bytes)| Own { name, bytes }).collect(),
        smallest,
        root: folded(usage, smallest),
        layers: Vec::new(),
    }
}

/// The tree without folders that are smaller or deeper.
fn folded(usage: &ntfs::Usage, smallest: u64) -> Folder {
    let mut depths = Vec::with_capacity(usage.folders.len());
    let mut nodes: Vec<Option<Folder>> = Vec::with_capacity(usage.folders.len());
    for (index, folder) in usage.folders.iter().enumerate() {
        let depth = if index == 0 {
            0
        } else {
            depths[folder.parent] + 1
        };
        depths.push(depth);
        let is_listed = depth <= DEEPEST && folder.bytes >= smallest;
        nodes.push((index == 0 || is_listed).then(|| Folder {
            name: folder.name.clone(),
            bytes: folder.bytes,
            files: folder.files,
            folders: Vec::new(),
        }));
    }
    // Each folder stands after the one that it lies in, and is whole when its turn comes.
    for index in (1..nodes.len()).rev() {
        if let Some(mut node) = nodes[index].take()
            && let Some(above) = &mut nodes[usage.folders[index].parent]
        {
            sort(&mut node.folders);
            above.folders.push(node);
        }
    }
    let root = nodes.into_iter().next().flatten();
    let mut root = root.unwrap_or_else(|| Folder {
        name: String::new(),
        bytes: 0,
        files: 0,
        folders: Vec::new(),
    });
    sort(&mut root.folders);
    root
}

/// The largest first.
fn sort(folders: &mut [Folder]) {
    folders.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
}
