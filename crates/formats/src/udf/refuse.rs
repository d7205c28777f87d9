//! Describes a file that is not an ISO. The most common case is a web page in a server's response.

use std::path::Path;

use winimg_base::error::{Error, Kind};
use winimg_base::markup;

use super::read_bytes;
use crate::disk::Disk;

/// Bytes of the file that are examined.
const HEAD: u64 = markup::TITLE_SEARCH_LEN as u64;

pub(super) fn refuse_truncated(path: &Path, said: u64, has: u64) -> Error {
    Error::new(Kind::Unproved, "this ISO is truncated")
        .at(path.display())
        .expected(format!(
            "at least {said} bytes (from its volume descriptor)"
        ))
        .found(format!("{has} bytes"))
        .cure("the download is incomplete: fetch it again")
}

pub(super) fn not_an_iso(path: &Path, bytes: &dyn Disk) -> Error {
    let head = read_bytes(bytes, 0, bytes.len().min(HEAD) as usize).unwrap_or_default();
    let (fact, cure) = describe(&head, bytes.len());
    Error::new(Kind::Unproved, fact)
        .at(path.display())
        .cure(cure)
}

/// Returns the fact and the cure.
fn describe(head: &[u8], size: u64) -> (String, &'static str) {
    const UNPACK: &str = "unpack it and use the ISO inside";
    const INSTEAD: &str = "use the ISO of the install medium";
    const AGAIN: &str = "fetch it again, or use another url";
    if markup::is_web_page(head) {
        let title = match markup::find_page_title(head) {
            None => "it has no title".to_string(),
            Some(title) => format!("its title is \"{title}\""),
        };
        return (
            format!("this is a web page, not an ISO: {title}"),
            "download the ISO with a browser, or use another url",
        );
    }
    let known: [(&[u8], &str, &str); 12] = [
        (b"\x1f\x8b", "a gzip archive", UNPACK),
        (b"PK\x03\x04", "a zip archive", UNPACK),
        (b"\xfd7zXZ\0", "an xz archive", UNPACK),
        (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK),
        (b"\x28\xb5\x2f\xfd", "a zstd archive", UNPACK),
        (b"Rar!\x1a\x07", "a RAR archive", UNPACK),
        (b"QFI\xfb", "a qcow2 disk image", INSTEAD),
        (b"vhdxfile", "a VHDX disk image", INSTEAD),
        (b"KDMV", "a VMDK disk image", INSTEAD),
        (b"conectix", "a VHD disk image", INSTEAD),
        (b"MSWIM\0\0\0", "a WIM file", INSTEAD),
        (b"MZ", "a Windows program", INSTEAD),
    ];
    if let Some((_, what, cure)) = known.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return (format!("this is {what}, not an ISO"), cure);
    }
    if size == 0 {
        return ("this file is empty, not an ISO".into(), AGAIN);
    }
    if size < 18 * super::SECTOR {
        return (
            format!("this file has only {size} bytes: too short for an ISO"),
            AGAIN,
        );
    }
    (
        "this is not an ISO: it has neither an ISO 9660 nor a UDF volume descriptor".into(),
        AGAIN,
    )
}
