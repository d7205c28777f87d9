//! Dynamic VHDs. Differencing ones are refused: part of their data is in another file.
//!
//! Source: Microsoft, "Virtual Hard Disk Image Format Specification" 1.0 (all fields big-endian).

use std::collections::BTreeMap;
use std::path::Path;

use super::{COOKIE, DIFFERENCING, DYNAMIC, FOOTER, VhdFooter, compute_checksum};
use crate::bytes::{u32_be, u64_be};
use crate::disk::blocks::{BlockDisk, MOST, read_part, refuse_file, report_damaged};
use crate::disk::qemu_img::{self, QemuImageArg};
use crate::disk::{Disk, FormatMark, ImageFormat, OpenedImage, RawDisk, SECTOR};
use winimg_base::error::{Error, Result};

const NAME: &str = "dynamic VHD";

pub(in crate::disk) const FORMAT: ImageFormat = ImageFormat {
    name: NAME,
    family: "VHD",
    // A file that only begins with the copy of the footer is truncated.
    mark: FormatMark::End(|ends| {
        if ends.tail.starts_with(COOKIE) {
            is_kind(&ends.tail)
        } else {
            ends.has(0, COOKIE)
        }
    }),
    open: |image, _| Ok(OpenedImage::from_disk(open(image.file)?)),
    to_qemu: |image, _| Ok(Some(QemuImageArg::from_path(image.file, "vpc"))),
    // Otherwise QEMU derives the size from the geometry for creators that it knows, which truncates
    // the disk (QEMU: block/vpc.c).
    to_node: Some(|file, _| {
        let mut node = qemu_img::build_node("vpc", file);
        node["force_size_calc"] = "current_size".into();
        Ok(node)
    }),
};

/// Bytes of the dynamic header.
pub(super) const HEADER: u64 = 1024;
/// A block that was never written.
pub(super) const ABSENT: u32 = u32::MAX;

/// Offsets of the blocks, and the bitmaps of partially written ones.
type BlockPlaces = (Vec<u64>, BTreeMap<usize, Vec<u8>>);

/// Returns true for the footer of a dynamic or differencing VHD.
pub(super) fn is_kind(footer: &[u8; 512]) -> bool {
    [DYNAMIC, DIFFERENCING].contains(&u32_be(footer, 60))
}

pub fn open(path: &Path) -> Result<BlockDisk> {
    let file = RawDisk::open(path)?;
    let Some(end) = file.len().checked_sub(FOOTER) else {
        return Err(report_damaged(
            &file,
            NAME,
            0,
            "it is shorter than a footer",
        ));
    };
    let mut footer = [0; 512];
    file.read_at(end, &mut footer)?;
    if !footer.starts_with(COOKIE) {
        let fact = format!("{} is a dynamic VHD without its footer", path.display());
        return Err(Error::failed(fact).cure("the file is truncated: write or copy it again"));
    }
    let found =
        VhdFooter::decode_fields(&footer).map_err(|why| report_damaged(&file, NAME, end, why))?;
    match found.kind {
        DYNAMIC => {}
        DIFFERENCING => {
            return Err(refuse_file(
                &file,
                "is a differencing VHD: part of the disk is in its parent",
                "merge it first: Merge-VHD, or qemu-img convert from a copy beside its parent",
            ));
        }
        kind => {
            return Err(report_damaged(
                &file,
                NAME,
                end,
                format!("disk type {kind}"),
            ));
        }
    }
    let at = found.header;
    let header = read_part(&file, NAME, at, HEADER, "the dynamic header")?;
    let table = VhdBlockTable::read(&header, found.size)
        .map_err(|why| report_damaged(&file, NAME, at, why))?;
    let (places, written) = table.read_blocks(&file)?;
    BlockDisk {
        len: found.size,
        block: table.block,
        places,
        written,
        file,
    }
    .check(NAME)
}

/// Block allocation table, as described by the dynamic header.
struct VhdBlockTable {
    at: u64,
    /// Bytes of a block's data.
    block: u64,
    /// Blocks of the disk.
    count: u64,
}

impl VhdBlockTable {
    fn read(header: &[u8], size: u64) -> Result<Self, String> {
        if !header.starts_with(b"cxsparse") {
            return Err("no dynamic header".into());
        }
        if u32_be(header, 36) != compute_checksum(header, 36) {
            return Err("a dynamic header with a wrong checksum".into());
        }
        let block = u64::from(u32_be(header, 32));
        if !block.is_power_of_two() || !(4096..=1 << 28).contains(&block) {
            return Err(format!("blocks of {block} bytes"));
        }
        let count = size.div_ceil(block);
        let there = u64::from(u32_be(header, 28));
        if count > there || count > MOST {
            return Err(format!("{there} blocks where {size} bytes need {count}"));
        }
        Ok(Self {
            at: u64_be(header, 16),
            block,
            count,
        })
    }

    /// Reads the table. Each block follows a bitmap of its written sectors, padded to whole
    /// sectors.
    fn read_blocks(&self, file: &RawDisk) -> Result<BlockPlaces> {
        let entries = read_part(file, NAME, self.at, self.count * 4, "the block table")?;
        let bits = self.block / SECTOR / 8;
        let mut bitmap = vec![0; bits as usize];
        let (mut places, mut written) = (Vec::new(), BTreeMap::new());
        for (i, entry) in entries.chunks_exact(4).enumerate() {
            let entry = u32_be(entry, 0);
            if entry == ABSENT {
                places.push(0);
                continue;
            }
            let at = u64::from(entry) * SECTOR;
            if at < FOOTER || at + bits > file.len() {
                let why = format!("block {i} is outside the file");
                return Err(report_damaged(file, NAME, at, why));
            }
            file.read_at(at, &mut bitmap)?;
            if bitmap.iter().any(|b| *b != 0xff) {
                written.insert(i, bitmap.clone());
            }
            places.push(at + bits.next_multiple_of(SECTOR));
        }
        Ok((places, written))
    }
}
