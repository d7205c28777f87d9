//! Creates a qcow2 overlay over a finished image of any format, which QEMU only reads.
//!
//! QEMU gets the image's format and path explicitly: it neither probes the format nor follows file
//! names inside the image. The image is opened here first, and refused unless it is a single
//! complete file. (QEMU: QMP reference, `BlockdevOptions`.)

use std::ffi::OsStr;
use std::path::Path;

use serde_json::{Value, json};

use super::HypervisorKind;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_formats::disk::backing::BackingChain;
use winimg_formats::disk::ova::OvaFile;
use winimg_formats::disk::{self, DiskImage, ImageFormat, qemu_img};

/// Finished image in QEMU's terms.
struct BackingImage {
    /// QEMU's name of its format.
    driver: &'static str,
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
    let node = format!("json:{}", below.node);
    let bytes = bytes.to_string();
    let name = qemu_img::file_name(disk);
    let create = ["create", "-q", "-f", "qcow2", "-F", below.driver, "-b"];
    let arguments = create.map(OsStr::new).into_iter();
    let last = [OsStr::new(&node), &name, OsStr::new(&bytes)];
    qemu_img::run(&arguments.chain(last).collect::<Vec<_>>(), cancel)?;
    io::restrict_to_owner(disk).map_err(|e| Error::io("restrict access to", disk, e))
}

impl BackingImage {
    fn from_image(image: &Path, cancel: &Cancel) -> Result<Self> {
        let file = json!({"driver": "file", "filename": image});
        let format = ImageFormat::detect(image)?;
        if format == ImageFormat::Qcow2 {
            // Not opened: only QEMU reads compressed clusters.
            let chain = BackingChain::resolve(DiskImage::from_file(image), cancel)?;
            chain.check(cancel)?;
            return Ok(Self {
                driver: "qcow2",
                node: json!({"driver": "qcow2", "file": file}),
                bytes: chain.len,
            });
        }
        let opened = disk::open(image, cancel)?;
        if opened.sector_size() != disk::SECTOR {
            let fact = "QEMU cannot start a disk with this sector size";
            return Err(Error::new(Kind::Host, fact)
                .at(image.display())
                .expected("sectors of 512 bytes")
                .found(format!("{} bytes", opened.sector_size())));
        }
        let bytes = opened.len();
        let (driver, node) = match format {
            ImageFormat::Raw | ImageFormat::Qcow2 => {
                ("raw", json!({"driver": "raw", "file": file}))
            }
            // Without its footer.
            ImageFormat::FixedVhd => ("raw", json!({"driver": "raw", "size": bytes, "file": file})),
            // Without this QEMU derives the size from the geometry for creators that it knows,
            // which truncates the disk (QEMU: block/vpc.c).
            ImageFormat::DynamicVhd => (
                "vpc",
                json!({"driver": "vpc", "force_size_calc": "current_size", "file": file}),
            ),
            ImageFormat::Vhdx => ("vhdx", json!({"driver": "vhdx", "file": file})),
            ImageFormat::StreamVmdk | ImageFormat::SparseVmdk => {
                ("vmdk", json!({"driver": "vmdk", "file": file}))
            }
            ImageFormat::Ova => {
                let ova = OvaFile::open(image)?;
                let vmdk = ova.find_member("vmdk")?;
                let window = json!({
                    "driver": "raw", "offset": vmdk.offset, "size": vmdk.size, "file": file
                });
                ("vmdk", json!({"driver": "vmdk", "file": window}))
            }
            ImageFormat::Vma => {
                let fact = "QEMU cannot start a clone from a VMA";
                let cure = format!(
                    "export it first: winimg export {} --to raw",
                    image.display()
                );
                return Err(Error::new(Kind::Host, fact).at(image.display()).cure(cure));
            }
        };
        Ok(Self {
            driver,
            node,
            bytes,
        })
    }
}
