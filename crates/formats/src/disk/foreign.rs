//! Files in formats that winimg does not read, disk images among them.
//!
//! A raw disk has no magic number, so every format that has one is recognized here and refused by
//! name. Otherwise its bytes would be read as a raw disk.
//!
//! Sources: QEMU, the probe functions of block/*.c; libmagic's tables; ECMA-119 and ECMA-167
//! (volume descriptors); 7-Zip, 7zFormat.txt.

use std::path::Path;

use super::{FileEnds, ImageFormat};
use winimg_base::error::{Error, Kind};

/// Bytes from the beginning of a file that [`ForeignFormat::detect`] needs.
pub const HEAD: usize = 32774;
/// Bytes from the end of a file that [`ForeignFormat::detect`] needs.
pub const TAIL: usize = 512;

/// An unsupported format, recognized by its magic number, and the way to get a disk from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignFormat {
    /// Offset of the magic number; `None`: the last 512 bytes begin with it.
    at: Option<usize>,
    magic: &'static [u8],
    /// The name with its article, as in "is a VDI".
    name: &'static str,
    conversion: ForeignConversion,
}

/// The way to turn a file of a foreign format into a disk that winimg reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForeignConversion {
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

use ForeignConversion::{Advice, Convert, Decompress, Unpack};

const MERGE: &str = "export the disk as a single file from the program that made it";
const APPLY: &str = "it contains files, not a disk; winimg reads disk images";
const MEDIUM: &str = "pass the disk image, not the medium";

const MARKS: &[ForeignFormat] = &[
    convert(b"koly", "an Apple disk image (dmg)", "dmg").at_end(),
    convert(b"\x7f\x10\xda\xbe", "a VDI", "vdi").at(0x40),
    convert(b"QED\0", "a QED image", "qed"),
    convert(b"WithoutFreeSpace", "a Parallels disk", "parallels"),
    convert(b"WithouFreSpacExt", "a Parallels disk", "parallels"),
    convert(b"QFI\xfb\0\0\0\x01", "a qcow image of version 1", "qcow"),
    convert(b"Bochs Virtual HD Image", "a Bochs disk", "bochs"),
    convert(b"#!/bin/sh\n#V2.0 Format", "a cloop image", "cloop"),
    convert(b"COWD", "a VMDK of the old COWD format", "vmdk"),
    advise(
        b"\xbe\xba\xfe\xca\0\0\0\0",
        "an extent of a VMDK with SEsparse snapshots",
        "consolidate the snapshots first",
    ),
    advise(
        b"LUKS\xba\xbe",
        "encrypted with LUKS",
        "decrypt it first: qemu-img convert --image-opts with driver=luks",
    ),
    decompress(b"\x1f\x8b", "packed with gzip", "gunzip -c"),
    decompress(b"\xfd7zXZ\0", "packed with xz", "xz -dc"),
    decompress(b"\x28\xb5\x2f\xfd", "packed with zstd", "zstd -dc"),
    decompress(b"BZh", "packed with bzip2", "bzip2 -dc"),
    decompress(b"\x04\x22\x4d\x18", "packed with lz4", "lz4 -dc"),
    decompress(b"LZIP", "packed with lzip", "lzip -dc"),
    decompress(b"\x89LZO\0", "packed with lzop", "lzop -dc"),
    unpack(b"PK\x03\x04", "a zip archive", "unzip"),
    unpack(b"PK\x05\x06", "an empty zip archive", "unzip"),
    unpack(b"PK\x07\x08", "a zip archive in several parts", "unzip"),
    unpack(b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x"),
    unpack(b"Rar!\x1a\x07", "a RAR archive", "unrar x"),
    unpack(b"MSCF\0\0\0\0", "a cabinet", "cabextract"),
    advise(b"MSWIM\0\0\0", "a WIM", APPLY),
    advise(b"WLPWM\0\0\0", "a pipable WIM", APPLY),
    advise(b"SignedImage ", "a Full Flash Update image (FFU)", MERGE).at(4),
    advise(b"EVF\x09\x0d\x0a\xff\0", "an EWF image", MERGE),
    advise(b"partclone-image", "a Partclone image", MERGE),
    advise(b"hsqs", "a squashfs", APPLY),
    advise(b"CD001", "an ISO", MEDIUM).at(32769),
    advise(b"BEA01", "an ISO with UDF", MEDIUM).at(32769),
];

const fn mark(
    magic: &'static [u8],
    name: &'static str,
    conversion: ForeignConversion,
) -> ForeignFormat {
    ForeignFormat {
        at: Some(0),
        magic,
        name,
        conversion,
    }
}

const fn convert(magic: &'static [u8], name: &'static str, driver: &'static str) -> ForeignFormat {
    mark(magic, name, Convert(driver))
}

const fn unpack(magic: &'static [u8], name: &'static str, command: &'static str) -> ForeignFormat {
    mark(magic, name, Unpack(command))
}

const fn decompress(
    magic: &'static [u8],
    name: &'static str,
    command: &'static str,
) -> ForeignFormat {
    mark(magic, name, Decompress(command))
}

const fn advise(magic: &'static [u8], name: &'static str, words: &'static str) -> ForeignFormat {
    mark(magic, name, Advice(words))
}

impl ForeignFormat {
    const fn at(self, offset: usize) -> Self {
        Self {
            at: Some(offset),
            ..self
        }
    }

    const fn at_end(self) -> Self {
        Self { at: None, ..self }
    }

    /// Detects a format from the first and last bytes of a file.
    pub fn detect(ends: &FileEnds) -> Option<Self> {
        let found = MARKS.iter().find(|mark| match mark.at {
            Some(at) => ends.has(at, mark.magic),
            None => ends.tail.starts_with(mark.magic),
        });
        found.copied()
    }

    /// Returns the error that refuses `path`.
    pub fn to_error(self, path: &Path) -> Error {
        let path = path.display();
        let cure = match self.conversion {
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
            .expected(format!("a disk in one file: {}", ImageFormat::list()))
            .cure(cure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(head: &[u8], tail: &[u8]) -> Option<ForeignFormat> {
        let mut ends = FileEnds {
            head: head.to_vec(),
            tail: [0; TAIL],
        };
        ends.tail[..tail.len()].copy_from_slice(tail);
        ForeignFormat::detect(&ends)
    }

    #[test]
    fn each_mark_is_found_at_its_place_only() {
        for mark in MARKS.iter().filter(|mark| mark.at.is_some()) {
            let at = mark.at.unwrap_or_default();
            let mut head = vec![0; HEAD];
            head[at..at + mark.magic.len()].copy_from_slice(mark.magic);
            let name = mark.name;
            assert_eq!(detect(&head, &[]), Some(*mark), "{name}");
            head.insert(0, 0);
            assert_eq!(detect(&head, &[]), None, "{name} one byte later");
        }
        assert_eq!(detect(&[], b"koly\0").unwrap().conversion, Convert("dmg"));
    }

    #[test]
    fn the_cure_of_a_packed_disk_works_whatever_its_suffix() {
        for (head, command) in [
            (&b"\x1f\x8b"[..], "gunzip -c disk.qcow2 > disk.img"),
            (b"\xfd7zXZ\0", "xz -dc disk.qcow2 > disk.img"),
            (b"\x28\xb5\x2f\xfd", "zstd -dc disk.qcow2 > disk.img"),
            (b"BZh", "bzip2 -dc disk.qcow2 > disk.img"),
        ] {
            let packed = detect(head, &[]).unwrap();
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
            assert_eq!(detect(head, &[]), None);
        }
    }
}
