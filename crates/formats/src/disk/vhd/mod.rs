//! The footer that makes a raw disk a fixed VHD, and dynamic VHDs.
//!
//! Source: Microsoft, "Virtual Hard Disk Image Format Specification" 1.0 (all fields big-endian).

pub mod create;
pub mod dynamic;

use std::path::Path;

use uuid::Uuid;

use super::qemu_img::{self, QemuImageArg};
use super::{Disk, FormatMark, ImageFormat, OpenedImage, RawDisk, refuse_image};
use crate::bytes::{u32_be, u64_be};
use winimg_base::error::{Error, Result};

pub(super) const FIXED_FORMAT: ImageFormat = ImageFormat {
    name: "fixed VHD",
    family: "VHD",
    mark: FormatMark::End(|ends| ends.tail.starts_with(COOKIE) && !dynamic::is_kind(&ends.tail)),
    open: |image, _| Ok(OpenedImage::from_disk(open(image.file)?.0)),
    to_qemu: |image, _| Ok(Some(QemuImageArg::from_path(image.file, "vpc"))),
    // A raw disk without the footer.
    to_node: Some(|file, bytes| {
        let mut node = qemu_img::build_node("raw", file);
        node["size"] = bytes.into();
        Ok(node)
    }),
};

const COOKIE: &[u8; 8] = b"conectix";
/// Size of the footer in bytes.
pub const FOOTER: u64 = 512;
/// Size of the largest disk in bytes (Microsoft: Hyper-V virtual hard disk format overview).
pub const MOST: u64 = 2040 << 30;
/// Start of VHD time, 2000-01-01 00:00 UTC, in Unix seconds.
const EPOCH: i64 = 946_684_800;
const FIXED: u32 = 2;
const DYNAMIC: u32 = 3;
const DIFFERENCING: u32 = 4;

/// Footer of a VHD without a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VhdFooter {
    /// Size of the disk in bytes.
    pub size: u64,
    /// Unix time in seconds; times before 2000 are written as 2000-01-01.
    pub time: i64,
    pub id: Uuid,
}

/// Footer fields of all kinds of VHD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VhdFooterFields {
    /// Offset of the dynamic header; all ones in a fixed VHD.
    pub header: u64,
    /// Size of the disk in bytes.
    pub size: u64,
    /// 2 fixed, 3 dynamic, 4 differencing.
    pub kind: u32,
}

/// Computes the geometry (appendix "CHS calculation"). It is usually slightly smaller than the
/// disk, which Hyper-V and Azure accept.
///
/// Returns cylinders, heads, sectors per track.
fn compute_geometry(bytes: u64) -> (u16, u8, u8) {
    let total = (bytes / 512).min(65535 * 16 * 255);
    let (sectors, heads, tracks) = if total >= 65535 * 16 * 63 {
        (255, 16, total / 255)
    } else {
        let tracks = total / 17;
        let heads = tracks.div_ceil(1024).max(4);
        if tracks < heads * 1024 && heads <= 16 {
            (17, heads, tracks)
        } else if total / 31 < 16 * 1024 {
            (31, 16, total / 31)
        } else {
            (63, 16, total / 63)
        }
    };
    ((tracks / heads) as u16, heads as u8, sectors as u8)
}

/// Computes the one's complement of the sum of all bytes, counting the checksum field at
/// `field_offset` as zero.
pub fn compute_checksum(structure: &[u8], field_offset: usize) -> u32 {
    !structure
        .iter()
        .enumerate()
        .filter(|(i, _)| !(field_offset..field_offset + 4).contains(i))
        .map(|(_, b)| u32::from(*b))
        .sum::<u32>()
}

impl VhdFooter {
    /// Encodes the footer of a fixed VHD.
    pub fn encode(&self) -> [u8; 512] {
        self.encode_as(FIXED, u64::MAX)
    }

    /// Encodes the footer of a dynamic VHD with its dynamic header at `header`.
    pub fn encode_dynamic(&self, header: u64) -> [u8; 512] {
        self.encode_as(DYNAMIC, header)
    }

    fn encode_as(&self, kind: u32, header: u64) -> [u8; 512] {
        let mut f = [0; 512];
        let time = u32::try_from(self.time - EPOCH).unwrap_or(0);
        let (cylinders, heads, sectors) = compute_geometry(self.size);
        f[..8].copy_from_slice(COOKIE);
        f[8..12].copy_from_slice(&2u32.to_be_bytes()); // features: the reserved bit is always set
        f[12..16].copy_from_slice(&0x0001_0000u32.to_be_bytes());
        f[16..24].copy_from_slice(&header.to_be_bytes());
        f[24..28].copy_from_slice(&time.to_be_bytes());
        // Creator application. With `vpc `, `vs ` or `qemu`, readers trust the geometry and
        // truncate the disk; with `win ` they use the size.
        f[28..32].copy_from_slice(b"win ");
        f[32..36].copy_from_slice(&0x000A_0000u32.to_be_bytes());
        f[36..40].copy_from_slice(b"Wi2k");
        f[40..48].copy_from_slice(&self.size.to_be_bytes());
        f[48..56].copy_from_slice(&self.size.to_be_bytes());
        f[56..58].copy_from_slice(&cylinders.to_be_bytes());
        f[58..60].copy_from_slice(&[heads, sectors]);
        f[60..64].copy_from_slice(&kind.to_be_bytes());
        f[68..84].copy_from_slice(self.id.as_bytes());
        let sum = compute_checksum(&f, 64);
        f[64..68].copy_from_slice(&sum.to_be_bytes());
        f
    }

    /// Decodes the fields of any VHD's footer.
    pub fn decode_fields(f: &[u8; 512]) -> Result<VhdFooterFields, String> {
        if &f[..8] != COOKIE {
            return Err("has no VHD footer in its last 512 bytes".into());
        }
        if u32_be(f, 64) != compute_checksum(f, 64) {
            return Err("has a VHD footer with a wrong checksum".into());
        }
        Ok(VhdFooterFields {
            header: u64_be(f, 16),
            size: u64_be(f, 48),
            kind: u32_be(f, 60),
        })
    }

    /// Decodes the footer of a fixed VHD. The error completes a sentence that begins
    /// with the file name.
    pub fn decode(f: &[u8; 512]) -> Result<Self, String> {
        let any = Self::decode_fields(f)?;
        match any.kind {
            FIXED => {}
            DYNAMIC => return Err("is a dynamic VHD".into()),
            DIFFERENCING => return Err("is a differencing VHD".into()),
            n => return Err(format!("is a VHD of unknown type {n}")),
        }
        let mut id = [0; 16];
        id.copy_from_slice(&f[68..84]);
        Ok(Self {
            size: any.size,
            time: EPOCH + i64::from(u32_be(f, 24)),
            id: Uuid::from_bytes(id),
        })
    }
}

/// Opens the disk and footer of a fixed VHD. The file must consist of exactly these.
pub fn open(path: &Path) -> Result<(RawDisk, VhdFooter)> {
    let file = RawDisk::open(path)?;
    let len = file.len();
    if len < FOOTER {
        return Err(refuse_image(path, "is too small for a VHD"));
    }
    let mut bytes = [0; 512];
    file.read_at(len - FOOTER, &mut bytes)?;
    let footer = VhdFooter::decode(&bytes).map_err(|why| refuse_image(path, &why))?;
    if footer.size.checked_add(FOOTER) != Some(len) {
        return Err(
            Error::failed(format!("{} has the wrong size", path.display()))
                .expected(format!("{} bytes and a 512-byte footer", footer.size))
                .found(format!("{len} bytes in total")),
        );
    }
    Ok((file.into_window(0, footer.size)?, footer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometry_follows_each_branch_of_the_rule() {
        const MIB: u64 = 1 << 20;
        assert_eq!(compute_geometry(16 * MIB), (481, 4, 17)); // 32768/17 = 1927 tracks, 4 heads
        assert_eq!(compute_geometry(100 * MIB), (1003, 12, 17)); // 12047 tracks, 12 heads
        assert_eq!(compute_geometry(200 * MIB), (825, 16, 31)); // 24 heads would be too many
        assert_eq!(compute_geometry(1024 * MIB), (2080, 16, 63)); // 31 sectors would be too few
        assert_eq!(compute_geometry(40 * 1024 * MIB), (20560, 16, 255)); // 83886080/255 = 328965 tracks
        assert_eq!(compute_geometry(4096 * 1024 * MIB), (65535, 16, 255)); // capped
    }

    #[test]
    fn the_footer_field_by_field() {
        let id = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        let footer = VhdFooter {
            size: 40 << 30,
            time: 1_700_000_000,
            id,
        };
        let f = footer.encode();
        for (field, expected) in [
            (0..8, "636f6e6563746978"),
            (8..12, "00000002"),
            (12..16, "00010000"),
            (16..24, "ffffffffffffffff"),
            (24..28, "2ce6ad80"),
            (28..32, "77696e20"),
            (32..36, "000a0000"),
            (36..40, "5769326b"),
            (40..48, "0000000a00000000"),
            (48..56, "0000000a00000000"),
            (56..60, "505010ff"),
            (60..64, "00000002"),
            (68..84, "00112233445566778899aabbccddeeff"),
            (84..85, "00"),
        ] {
            assert_eq!(hex::encode(&f[field.clone()]), expected, "{field:?}");
        }
        assert!(f[85..].iter().all(|b| *b == 0));
        let stored = u32::from_be_bytes([f[64], f[65], f[66], f[67]]);
        let sum: u32 = f.iter().map(|b| u32::from(*b)).sum();
        let field: u32 = f[64..68].iter().map(|b| u32::from(*b)).sum();
        assert_eq!(stored, !(sum - field));
        assert_eq!(VhdFooter::decode(&f).unwrap(), footer);
    }

    #[test]
    fn a_footer_that_lies_is_refused() {
        let mut f = VhdFooter {
            size: 1 << 20,
            time: 0,
            id: Uuid::nil(),
        }
        .encode();
        f[55] ^= 1;
        assert_eq!(
            VhdFooter::decode(&f).unwrap_err(),
            "has a VHD footer with a wrong checksum"
        );
        assert_eq!(
            VhdFooter::decode(&[0; 512]).unwrap_err(),
            "has no VHD footer in its last 512 bytes"
        );
    }
}
