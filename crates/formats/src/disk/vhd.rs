//! The footer that makes a raw disk a fixed VHD, and reading one back.
//!
//! Source: Microsoft, "Virtual Hard Disk Image Format Specification" 1.0 (all fields big-endian). Dynamic VHDs are
//! another module's.

use std::path::Path;

use uuid::Uuid;

use super::{Disk, RawDisk};
use winimg_base::error::{Error, Kind, Result};

pub const COOKIE: &[u8; 8] = b"conectix";
/// Bytes of the footer.
pub const FOOTER: u64 = 512;
/// 2000-01-01 00:00 UTC, where a VHD's time begins, in Unix seconds.
const EPOCH: i64 = 946_684_800;
const FIXED: u32 = 2;

/// What a fixed VHD's footer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Bytes of the disk.
    pub size: u64,
    /// Unix seconds; before 2000 is written as 2000.
    pub time: i64,
    pub id: Uuid,
}

/// What the footers of all kinds of VHD say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyFooter {
    /// Where the dynamic header is; all ones in a fixed VHD.
    pub header: u64,
    /// Bytes of the disk.
    pub size: u64,
    /// 2 fixed, 3 dynamic, 4 differencing.
    pub kind: u32,
}

fn u32_at(f: &[u8; 512], at: usize) -> u32 {
    u32::from_be_bytes([f[at], f[at + 1], f[at + 2], f[at + 3]])
}

fn u64_at(f: &[u8; 512], at: usize) -> u64 {
    u64::from(u32_at(f, at)) << 32 | u64::from(u32_at(f, at + 4))
}

/// Cylinders, heads, sectors per track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub cylinders: u16,
    pub heads: u8,
    pub sectors: u8,
}

/// The specification's appendix "CHS calculation". Usually a little below the true size, which Hyper-V and Azure don't mind.
pub fn geometry(bytes: u64) -> Geometry {
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
    Geometry {
        cylinders: (tracks / heads) as u16,
        heads: heads as u8,
        sectors: sectors as u8,
    }
}

/// One's complement of the sum of all bytes, the checksum's own field taken as zero.
fn checksum(footer: &[u8; 512]) -> u32 {
    let sum: u32 = footer
        .iter()
        .enumerate()
        .filter(|(i, _)| !(64..68).contains(i))
        .map(|(_, b)| u32::from(*b))
        .sum();
    !sum
}

impl Footer {
    pub fn encode(&self) -> [u8; 512] {
        let mut f = [0; 512];
        let mut put = |at: usize, bytes: &[u8]| f[at..at + bytes.len()].copy_from_slice(bytes);
        let time = u32::try_from(self.time - EPOCH).unwrap_or(0);
        let chs = geometry(self.size);
        put(0, COOKIE);
        put(8, &2u32.to_be_bytes()); // features: the reserved bit is always set
        put(12, &0x0001_0000u32.to_be_bytes());
        put(16, &u64::MAX.to_be_bytes()); // no dynamic header
        put(24, &time.to_be_bytes());
        // Readers that see `vpc `, `vs  ` or `qemu` here trust the geometry and cut the disk short; `win ` they don't.
        put(28, b"win ");
        put(32, &0x000A_0000u32.to_be_bytes());
        put(36, b"Wi2k");
        put(40, &self.size.to_be_bytes());
        put(48, &self.size.to_be_bytes());
        put(56, &chs.cylinders.to_be_bytes());
        put(58, &[chs.heads, chs.sectors]);
        put(60, &FIXED.to_be_bytes());
        put(68, self.id.as_bytes());
        let sum = checksum(&f);
        f[64..68].copy_from_slice(&sum.to_be_bytes());
        f
    }

    /// The parts of any VHD's footer.
    pub fn any(f: &[u8; 512]) -> Result<AnyFooter, String> {
        if &f[..8] != COOKIE {
            return Err("has no VHD footer in its last 512 bytes".into());
        }
        if u32_at(f, 64) != checksum(f) {
            return Err("has a VHD footer with a wrong checksum".into());
        }
        Ok(AnyFooter {
            header: u64_at(f, 16),
            size: u64_at(f, 48),
            kind: u32_at(f, 60),
        })
    }

    /// The error says in a few words what is wrong.
    pub fn decode(f: &[u8; 512]) -> Result<Self, String> {
        let any = Self::any(f)?;
        match any.kind {
            FIXED => {}
            3 => return Err("is a dynamic VHD".into()),
            4 => return Err("is a differencing VHD".into()),
            n => return Err(format!("is a VHD of the unknown type {n}")),
        }
        let mut id = [0; 16];
        id.copy_from_slice(&f[68..84]);
        Ok(Self {
            size: any.size,
            time: EPOCH + i64::from(u32_at(f, 24)),
            id: Uuid::from_bytes(id),
        })
    }
}

/// The disk and the footer of a fixed VHD. The file must be exactly disk and footer.
pub fn open(path: &Path) -> Result<(RawDisk, Footer)> {
    let wrong = |why: String| {
        Error::new(Kind::Failed, format!("{} {why}", path.display())).cure(format!(
            "convert it first: qemu-img convert -O raw {} disk.raw",
            path.display()
        ))
    };
    let file = RawDisk::open(path)?;
    let len = file.len();
    if len < FOOTER {
        return Err(wrong("is too small for a VHD".into()));
    }
    let mut bytes = [0; 512];
    file.read_at(len - FOOTER, &mut bytes)?;
    let footer = Footer::decode(&bytes).map_err(wrong)?;
    if footer.size.checked_add(FOOTER) != Some(len) {
        return Err(Error::new(
            Kind::Failed,
            format!("{} has the wrong size", path.display()),
        )
        .expected(format!("{} bytes of disk and a footer of 512", footer.size))
        .found(format!("{len} bytes in all")));
    }
    Ok((file.window(0, footer.size)?, footer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chs(bytes: u64) -> (u16, u8, u8) {
        let g = geometry(bytes);
        (g.cylinders, g.heads, g.sectors)
    }

    #[test]
    fn geometry_follows_each_branch_of_the_rule() {
        const MIB: u64 = 1 << 20;
        assert_eq!(chs(16 * MIB), (481, 4, 17)); // 32768/17 = 1927 tracks, 4 heads
        assert_eq!(chs(100 * MIB), (1003, 12, 17)); // 12047 tracks, 12 heads
        assert_eq!(chs(200 * MIB), (825, 16, 31)); // 24 heads would be too many
        assert_eq!(chs(1024 * MIB), (2080, 16, 63)); // 31 sectors would be too few
        assert_eq!(chs(40 * 1024 * MIB), (20560, 16, 255)); // 83886080/255 = 328965 tracks
        assert_eq!(chs(4096 * 1024 * MIB), (65535, 16, 255)); // capped
    }

    #[test]
    fn the_footer_field_by_field() {
        let id = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        let footer = Footer {
            size: 40 << 30,
            time: 1_700_000_000,
            id,
        };
        let f = footer.encode();
        let shown: Vec<String> = [
            0..8,
            8..12,
            12..16,
            16..24,
            24..28,
            28..32,
            32..36,
            36..40,
            40..48,
            48..56,
            56..60,
            60..64,
            68..84,
            84..85,
        ]
        .into_iter()
        .map(|r| hex::encode(&f[r]))
        .collect();
        assert_eq!(
            shown,
            [
                "636f6e6563746978",
                "00000002",
                "00010000",
                "ffffffffffffffff",
                "2ce6ad80",
                "77696e20",
                "000a0000",
                "5769326b",
                "0000000a00000000",
                "0000000a00000000",
                "505010ff",
                "00000002",
                "00112233445566778899aabbccddeeff",
                "00",
            ]
        );
        assert!(f[85..].iter().all(|b| *b == 0));
        let stored = u32::from_be_bytes([f[64], f[65], f[66], f[67]]);
        let sum: u32 = f.iter().map(|b| u32::from(*b)).sum();
        let field: u32 = f[64..68].iter().map(|b| u32::from(*b)).sum();
        assert_eq!(stored, !(sum - field));
        assert_eq!(Footer::decode(&f).unwrap(), footer);
    }

    #[test]
    fn a_footer_that_lies_is_refused() {
        let mut f = Footer {
            size: 1 << 20,
            time: 0,
            id: Uuid::nil(),
        }
        .encode();
        f[55] ^= 1;
        assert_eq!(
            Footer::decode(&f).unwrap_err(),
            "has a VHD footer with a wrong checksum"
        );
        assert_eq!(
            Footer::decode(&[0; 512]).unwrap_err(),
            "has no VHD footer in its last 512 bytes"
        );
    }
}
