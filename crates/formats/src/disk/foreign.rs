//! Files in formats that winimg does not read, disk images among them.
//!
//! A raw disk has no magic number, so every format that has one is recognized here and refused by
//! name. Otherwise its bytes would be read as a raw disk.
//!
//! Sources: QEMU, the probe functions of block/*.c; libmagic's tables; ECMA-119 and ECMA-167
//! (volume descriptors); 7-Zip, 7zFormat.txt.

use winimg_base::error::{Error, Kind};

/// Bytes from the beginning of a file that [`ForeignFormat::detect`] needs.
pub const HEAD: usize = 32774;
/// Bytes from the end of a file that [`ForeignFormat::detect`] needs.
pub const TAIL: usize = 512;

/// An unsupported format, and the way to get a disk from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignFormat {
    /// The name with its article, as in "is a VDI".
    pub name: &'static str,
    pub way_out: ForeignConversion,
}

/// The way to turn a file of a foreign format into a disk that winimg reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignConversion {
    /// `qemu-img convert -f FORMAT`.
    Convert(&'static str),
    /// A command that unpacks it, without the file's name.
    Unpack(&'static str),
    /// A command that writes the unpacked file to standard output, without the file's name. The
    /// file may have any suffix.
    Decompress(&'static str),
    /// Advice in words.
    Advice(&'static str),
}

/// A magic number at a fixed offset.
struct FormatMark {
    at: usize,
    bytes: &'static [u8],
    form: ForeignFormat,
}

const fn mark(
    at: usize,
    bytes: &'static [u8],
    name: &'static str,
    way_out: ForeignConversion,
) -> FormatMark {
    FormatMark {
        at,
        bytes,
        form: ForeignFormat { name, way_out },
    }
}

use ForeignConversion::{Advice, Convert, Decompress, Unpack};

const MERGE: &str = "export the disk as a single file from the program that made it";
const APPLY: &str = "it contains files, not a disk; winimg reads disk images";

const MARKS: &[FormatMark] = &[
    mark(0x40, b"\x7f\x10\xda\xbe", "a VDI", Convert("vdi")),
    mark(0, b"QED\0", "a QED image", Convert("qed")),
    mark(
        0,
        b"WithoutFreeSpace",
        "a Parallels disk",
        Convert("parallels"),
    ),
    mark(
        0,
        b"WithouFreSpacExt",
        "a Parallels disk",
        Convert("parallels"),
    ),
    mark(
        0,
        b"QFI\xfb\0\0\0\x01",
        "a qcow image of version 1",
        Convert("qcow"),
    ),
    mark(
        0,
        b"Bochs Virtual HD Image",
        "a Bochs disk",
        Convert("bochs"),
    ),
    mark(
        0,
        b"#!/bin/sh\n#V2.0 Format",
        "a cloop image",
        Convert("cloop"),
    ),
    mark(0, b"COWD", "a VMDK of the old COWD format", Convert("vmdk")),
    mark(
        0,
        b"\xbe\xba\xfe\xca\0\0\0\0",
        "an extent of a VMDK with SEsparse snapshots",
        Advice("consolidate the snapshots first"),
    ),
    mark(
        0,
        b"LUKS\xba\xbe",
        "encrypted with LUKS",
        Advice("decrypt it first: qemu-img convert --image-opts with driver=luks"),
    ),
    mark(0, b"\x1f\x8b", "packed with gzip", Decompress("gunzip -c")),
    mark(0, b"\xfd7zXZ\0", "packed with xz", Decompress("xz -dc")),
    mark(
        0,
        b"\x28\xb5\x2f\xfd",
        "packed with zstd",
        Decompress("zstd -dc"),
    ),
    mark(0, b"BZh", "packed with bzip2", Decompress("bzip2 -dc")),
    mark(
        0,
        b"\x04\x22\x4d\x18",
        "packed with lz4",
        Decompress("lz4 -dc"),
    ),
    mark(0, b"LZIP", "packed with lzip", Decompress("lzip -dc")),
    mark(0, b"\x89LZO\0", "packed with lzop", Decompress("lzop -dc")),
    mark(0, b"PK\x03\x04", "a zip archive", Unpack("unzip")),
    mark(0, b"PK\x05\x06", "an empty zip archive", Unpack("unzip")),
    mark(
        0,
        b"PK\x07\x08",
        "a zip archive in several parts",
        Unpack("unzip"),
    ),
    mark(0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", Unpack("7z x")),
    mark(0, b"Rar!\x1a\x07", "a RAR archive", Unpack("unrar x")),
    mark(0, b"MSCF\0\0\0\0", "a cabinet", Unpack("cabextract")),
    mark(0, b"MSWIM\0\0\0", "a WIM", Advice(APPLY)),
    mark(0, b"WLPWM\0\0\0", "a pipable WIM", Advice(APPLY)),
    mark(
        4,
        b"SignedImage ",
        "a Full Flash Update image (FFU)",
        Advice(MERGE),
    ),
    mark(0, b"EVF\x09\x0d\x0a\xff\0", "an EWF image", Advice(MERGE)),
    mark(0, b"partclone-image", "a Partclone image", Advice(MERGE)),
    mark(0, b"hsqs", "a squashfs", Advice(APPLY)),
    mark(
        32769,
        b"CD001",
        "an ISO",
        Advice("pass the disk image, not the medium"),
    ),
    mark(
        32769,
        b"BEA01",
        "an ISO with UDF",
        Advice("pass the disk image, not the medium"),
    ),
];

/// Magic number at the start of the last 512 bytes of an Apple disk image.
const DMG: &[u8] = b"koly";

impl ForeignFormat {
    /// Detects a format from the first and last bytes of a file; both may be shorter than [`HEAD`]
    /// and [`TAIL`].
    pub fn detect(head: &[u8], tail: &[u8]) -> Option<Self> {
        if tail.starts_with(DMG) {
            return Some(Self {
                name: "an Apple disk image (dmg)",
                way_out: Convert("dmg"),
            });
        }
        let found = MARKS.iter().find(|mark| {
            head.get(mark.at..)
                .is_some_and(|rest| rest.starts_with(mark.bytes))
        });
        found.map(|mark| mark.form)
    }

    /// Returns the error that refuses `path`.
    pub fn to_error(self, path: &std::path::Path) -> Error {
        let path = path.display();
        let cure = match self.way_out {
            Convert(format) => {
                format!("convert it first: qemu-img convert -f {format} -O qcow2 {path} disk.qcow2")
            }
            Unpack(command) => format!("unpack it first: {command} {path}"),
            Decompress(command) => format!("unpack it first: {command} {path} > disk.img"),
            Advice(words) => words.into(),
        };
        let fact = format!(
            "{path} is {}, which winimg cannot read as a disk",
            self.name
        );
        Error::new(Kind::Recipe, fact)
            .expected("raw, qcow2, VHD, VHDX, VMDK in one file, OVA or VMA")
            .cure(cure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_found_at_its_place_only() {
        for mark in MARKS {
            let mut head = vec![0; HEAD];
            head[mark.at..mark.at + mark.bytes.len()].copy_from_slice(mark.bytes);
            let name = mark.form.name;
            assert_eq!(ForeignFormat::detect(&head, &[]), Some(mark.form), "{name}");
            head.insert(0, 0);
            assert_eq!(
                ForeignFormat::detect(&head, &[]),
                None,
                "{name} one byte later"
            );
        }
        assert_eq!(
            ForeignFormat::detect(&[], b"koly\0").unwrap().way_out,
            Convert("dmg")
        );
    }

    #[test]
    fn the_cure_of_a_packed_disk_works_whatever_its_suffix() {
        for (head, command) in [
            (&b"\x1f\x8b"[..], "gunzip -c disk.qcow2 > disk.img"),
            (b"\xfd7zXZ\0", "xz -dc disk.qcow2 > disk.img"),
            (b"\x28\xb5\x2f\xfd", "zstd -dc disk.qcow2 > disk.img"),
            (b"BZh", "bzip2 -dc disk.qcow2 > disk.img"),
        ] {
            let packed = ForeignFormat::detect(head, &[]).unwrap();
            let error = packed.to_error("disk.qcow2".as_ref()).to_string();
            assert!(
                error.ends_with(&format!("cure: unpack it first: {command}")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_raw_disk_and_a_short_file_have_no_mark() {
        let mut mbr = vec![0; HEAD];
        mbr[..4].copy_from_slice(b"\x33\xc0\x8e\xd0");
        mbr[510..512].copy_from_slice(b"\x55\xaa");
        for head in [&mbr[..], &mbr[..512], b"", b"PK", b"QFI\xfb\0\0\0\x03"] {
            assert_eq!(ForeignFormat::detect(head, &[0; TAIL]), None);
        }
    }
}
