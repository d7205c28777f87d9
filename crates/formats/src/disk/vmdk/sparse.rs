//! VMDKs of type `monolithicSparse`: one file, embedded descriptor, uncompressed grains.
//!
//! Refuses snapshots (part of the disk is in a parent) and disks that were not closed.
//!
//! Source: VMware, "Virtual Disk Format 5.0" technical note (little-endian, offsets in sectors of
//! 512 bytes).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{DESCRIPTOR, MAGIC, TABLE_GRAINS, is_stream};
use crate::bytes::{u32_le, u64_le, words_le};
use crate::disk::blocks::{BlockDisk, MOST, read_part, refuse_file, report_damaged};
use crate::disk::qemu_img::QemuImageArg;
use crate::disk::{
    Disk, FormatMark, ImageFormat, OpenedImage, RawDisk, SECTOR, conversion_cure, refuse_image,
};
use winimg_base::error::{Error, Result};

const NAME: &str = "sparse VMDK";

pub(in crate::disk) const FORMAT: ImageFormat = ImageFormat {
    name: NAME,
    family: "VMDK",
    mark: FormatMark::Beginning(|ends| {
        ends.has(0, MAGIC) && !is_stream(&ends.head) || ends.has(0, DESCRIPTOR)
    }),
    open: |image, _| Ok(OpenedImage::from_disk(open(image.file)?)),
    to_qemu: |image, _| Ok(Some(QemuImageArg::from_path(image.file, "vmdk"))),
    to_node: Some(super::build_node),
};

/// Flag: a table entry of 1 means zeros.
const ZEROED: u32 = 4;

pub fn open(path: &Path) -> Result<BlockDisk> {
    let file = RawDisk::open(path)?;
    let mut magic = [0; MAGIC.len()];
    file.read_at(0, &mut magic)?;
    if &magic != MAGIC {
        let why = "is a VMDK descriptor; the disk is in other files";
        return Err(refuse_image(path, why));
    }
    let mut h = [0; 512];
    file.read_at(0, &mut h)?;
    let (version, flags) = (u32_le(&h, 4), u32_le(&h, 8));
    if !(1..=3).contains(&version) || is_stream(&h) {
        let why = format!("version {version}, flags {flags:#x}");
        return Err(report_damaged(&file, NAME, 4, why));
    }
    if h[72] != 0 {
        return Err(refuse_file(
            &file,
            "was not closed by the program that wrote it",
            "shut that VM down cleanly, or convert a copy: qemu-img convert -O raw",
        ));
    }
    let (capacity, grain) = (u64_le(&h, 12), u64_le(&h, 20));
    let count = capacity.div_ceil(grain.max(1));
    if !grain.is_power_of_two() || !(8..=1 << 16).contains(&grain) || count > 2 * MOST {
        let why = format!("{capacity} sectors in grains of {grain}");
        return Err(report_damaged(&file, NAME, 12, why));
    }
    let entries = u32_le(&h, 44);
    if u64::from(entries) != TABLE_GRAINS {
        let why = format!("grain tables with {entries} entries");
        return Err(report_damaged(&file, NAME, 44, why));
    }
    check_descriptor(&file, u64_le(&h, 28), u64_le(&h, 36))?;
    let tables = read_numbers(&file, u64_le(&h, 56), count.div_ceil(TABLE_GRAINS))?;
    let mut places = Vec::new();
    for table in tables {
        let left = (count - places.len() as u64).min(TABLE_GRAINS);
        if table == 0 {
            places.resize(places.len() + left as usize, 0);
            continue;
        }
        for entry in read_numbers(&file, table.into(), left)? {
            let is_zero = entry == 1 && flags & ZEROED != 0;
            places.push(if is_zero {
                0
            } else {
                u64::from(entry) * SECTOR
            });
        }
    }
    BlockDisk {
        len: capacity * SECTOR,
        block: grain * SECTOR,
        places,
        written: BTreeMap::new(),
        file,
    }
    .check(NAME)
}

/// Reads `count` words at a sector of the file.
fn read_numbers(file: &RawDisk, sector: u64, count: u64) -> Result<Vec<u32>> {
    if sector == 0 {
        return Err(report_damaged(
            file,
            NAME,
            0,
            "a grain table that overlaps the header",
        ));
    }
    let at = sector.saturating_mul(SECTOR);
    let bytes = read_part(file, NAME, at, count * 4, "a grain table")?;
    Ok(words_le(&bytes).collect())
}

/// Checks in the descriptor that this file is the whole disk.
fn check_descriptor(file: &RawDisk, sector: u64, sectors: u64) -> Result<()> {
    let (at, len) = (
        sector.saturating_mul(SECTOR),
        sectors.saturating_mul(SECTOR),
    );
    if sector == 0 || len > 1 << 20 || at.checked_add(len).is_none_or(|end| end > file.len()) {
        return Err(refuse_extent(file));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(at, &mut bytes)?;
    // QEMU leaves room for a descriptor in each extent.
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(refuse_extent(file));
    }
    let text = String::from_utf8_lossy(&bytes);
    match (
        find_value(&text, "createType"),
        find_value(&text, "parentCID"),
    ) {
        (Some("monolithicSparse"), Some("ffffffff")) => Ok(()),
        (Some("monolithicSparse"), _) => Err(refuse_file(
            file,
            "is a snapshot: part of the disk is in its parent",
            "consolidate the snapshots first",
        )),
        (kind, _) => Err(refuse_file(
            file,
            format!("is a VMDK of the type {}", kind.unwrap_or("(not stated)")),
            conversion_cure(file.path()),
        )),
    }
}

/// Refuses an extent, which is only a part of the disk.
fn refuse_extent(file: &RawDisk) -> Error {
    let beside = find_descriptor(file.path());
    let descriptor = beside.unwrap_or_else(|| "DESCRIPTOR.vmdk".into());
    let cure = format!(
        "pass its descriptor to qemu-img: qemu-img convert -O raw {} disk.raw",
        descriptor.display()
    );
    refuse_file(
        file,
        "is one extent of a split VMDK: the disk is in several files",
        cure,
    )
}

/// Finds the descriptor beside an extent: `NAME-s001.vmdk` belongs to `NAME.vmdk`.
fn find_descriptor(extent: &Path) -> Option<PathBuf> {
    let (name, number) = extent.file_stem()?.to_str()?.rsplit_once("-s")?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let descriptor = extent.with_file_name(format!("{name}.vmdk"));
    (is_number && descriptor.is_file()).then_some(descriptor)
}

/// Finds the value of a key in a descriptor's `key="value"` lines.
fn find_value<'t>(descriptor: &'t str, name: &str) -> Option<&'t str> {
    descriptor
        .lines()
        .filter_map(|l| l.split_once('='))
        .find(|(key, _)| key.trim().eq_ignore_ascii_case(name))
        .map(|(_, v)| v.trim().trim_matches('"'))
}
