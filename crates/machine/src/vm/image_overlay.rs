//! Creates a qcow2 overlay over a finished image of any format, which QEMU only reads.
//!
//! QEMU gets the image's format and path explicitly: it neither probes the format nor follows file
//! names inside the image. The image is opened here first, and refused unless it is a single
//! complete file. (QEMU: QMP reference, `BlockdevOptions`.)

use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use super::HypervisorKind;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_formats::disk::{self, DiskImage, ImageFormat, qemu_img};

/// Finished image in QEMU's terms.
struct BackingImage {
    /// A `BlockdevOptions`.
    node: Value,
    /// Size of the virtual disk.
    bytes: u64,
}

/// Creates `disk`, a qcow2 overlay of `bytes` over `image`.
pub fn create(disk: &Path, image: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
    let below = BackingImage::from_image(&HypervisorKind::Qemu.resolve_path(image)?, cancel)?;
    if bytes < below.bytes {
        return Err(
            Error::failed("a clone's disk cannot be smaller than its image")
                .at(image.display())
                .expected(format!("{} bytes or more", below.bytes))
                .found(format!("{bytes} bytes")),
        );
    }
    let driver = below.node["driver"].as_str().unwrap_or_default();
    let node = format!("json:{}", below.node);
    let bytes = bytes.to_string();
    let name = qemu_img::file_name(disk);
    let create = ["create", "-q", "-f", "qcow2", "-F", driver, "-b"];
    let arguments = create.map(OsStr::new).into_iter();
    let last = [OsStr::new(&node), &name, OsStr::new(&bytes)];
    qemu_img::run(&arguments.chain(last).collect::<Vec<_>>(), cancel)?;
    io::restrict_to_owner(disk).map_err(|e| Error::io("restrict access to", disk, e))
}

impl BackingImage {
    fn from_image(image: &Path, cancel: &Cancel) -> Result<Self> {
        let format = ImageFormat::detect(image)?;
        let opened = DiskImage::from_file(image).open_all(cancel)?;
        let disk = disk::take_only_disk(image, opened.into_disks())?;
        if disk.sector_size() != disk::SECTOR {
            let fact = "QEMU cannot start a disk with this sector size";
            return Err(Error::new(Kind::Host, fact)
                .at(image.display())
                .expected("sectors of 512 bytes")
                .found(format!("{} bytes", disk.sector_size())));
        }
        let bytes = disk.len();
        let node = format.to_node(image, bytes)?.ok_or_else(|| {
            let fact = format!("QEMU cannot start a clone from a {}", format.name);
            let cure = format!(
                "export it first: winimg export {} --to raw",
                image.display()
            );
            Error::new(Kind::Host, fact).at(image.display()).cure(cure)
        })?;
        Ok(Self { node, bytes })
    }
}
