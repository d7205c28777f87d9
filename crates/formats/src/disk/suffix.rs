//! Files whose suffix names a format that their content is not in.
//!
//! A file without any magic number is a raw disk. If its suffix names another format, it lost the
//! part with the magic number instead: a fixed VHD without its footer is a raw disk, byte for byte.

use std::path::Path;

use super::{COPY_AGAIN, FORMATS, FileEnds, FormatMark, ImageFormat, TAIL};
use winimg_base::error::Error;

/// End of the name of a VMDK's extent that is a raw disk, as its descriptor says (VMware, "Virtual
/// Disk Format 5.0", "The Extent Description").
const FLAT_EXTENT: &str = "-flat.vmdk";

/// Returns the format of the file's suffix, in upper or lower case. `None`: the file may
/// be a raw disk.
pub fn find_format_of_suffix(path: &Path) -> Option<&'static ImageFormat> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    if name.ends_with(FLAT_EXTENT) {
        return None;
    }
    let suffix = path.extension()?;
    FORMATS
        .iter()
        .find(|format| !format.is_unmarked() && suffix.eq_ignore_ascii_case(format.family))
}

/// Returns the error for a file without the magic number of the format that its suffix names.
pub fn misnamed_file_error(named: &ImageFormat, path: &Path, ends: &FileEnds) -> Error {
    let (expected, part) = match named.mark {
        FormatMark::Beginning(_) | FormatMark::Missing => {
            ("a header at its beginning", ends.head.as_slice())
        }
        FormatMark::End(_) => ("a footer in its last 512 bytes", ends.tail.as_slice()),
    };
    let family = named.family;
    let fact = format!(
        "the content of {} is not in the format {family}, which its name promises",
        path.display()
    );
    Error::failed(fact)
        .expected(expected)
        .found(describe_found(ends, part))
        .cure(format!(
            "{COPY_AGAIN}; if it is a raw disk, rename it to .raw or .img"
        ))
}

/// Describes the beginning of the part of the file in which the magic number is missing.
fn describe_found(ends: &FileEnds, part: &[u8]) -> String {
    let start = &part[..part.len().min(8)];
    if ends.head.len() < TAIL {
        format!("{} bytes in total", ends.head.len())
    } else if start.iter().all(|byte| *byte == 0) {
        "zeros".into()
    } else {
        format!("\"{}\"", start.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_but_raw_has_a_suffix() {
        for (name, family) in [
            ("disk.qcow2", Some("qcow2")),
            ("disk.vhd", Some("VHD")),
            ("DISK.VHD", Some("VHD")),
            ("disk.img.Vhdx", Some("VHDX")),
            ("disk-s001.vmdk", Some("VMDK")),
            ("flat.vmdk", Some("VMDK")),
            ("disk.ova", Some("OVA")),
            ("disk.vma", Some("VMA")),
            ("disk-flat.vmdk", None),
            ("DISK-FLAT.VMDK", None),
            ("disk.raw", None),
            ("disk.img", None),
            ("disk.vhd.part", None),
            ("vhd", None),
            (".vhd", None),
        ] {
            let found = find_format_of_suffix(Path::new(name));
            assert_eq!(found.map(|format| format.family), family, "{name}");
        }
    }
}
