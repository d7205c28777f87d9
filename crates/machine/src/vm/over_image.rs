//! A qcow2 over a finished image of any format, which QEMU then only reads.
//!
//! The image's format and place are written down for QEMU, which guesses nothing and follows no name that stands in the image: it is opened
//! here first, and refused where it is not one whole file. (QEMU: QMP reference, `BlockdevOptions`.)

use std::ffi::OsStr;
use std::path::Path;

use serde_json::{Value, json};

use super::Platform;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_formats::disk::backing::Chain;
use winimg_formats::disk::ova::Ova;
use winimg_formats::disk::{self, Format, Image, qemu_img};

/// An image as QEMU reads it.
struct Below {
    /// QEMU's name of its format.
    driver: &'static str,
    /// A `BlockdevOptions`.
    node: Value,
    /// Of the virtual disk.
    bytes: u64,
}

/// Makes `disk`, a qcow2 of `bytes` that begins as `image`.
pub fn create(disk: &Path, image: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
    let below = Below::of(&Platform::Qemu.absolute(image)?, cancel)?;
    if bytes < below.bytes {
        return Err(
            Error::failed("a clone's disk can't be smaller than its image")
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
    io::close_to_others(disk).map_err(|e| Error::io("restrict access to", disk, e))
}

impl Below {
    fn of(image: &Path, cancel: &Cancel) -> Result<Self> {
        let file = json!({"driver": "file", "filename": image});
        let format = Format::of(image)?;
        if format == Format::Qcow2 {
            // Not opened: compressed clusters are QEMU's to read.
            let chain = Chain::of(Image::alone(image), cancel)?;
            chain.check(cancel)?;
            return Ok(Self {
                driver: "qcow2",
                node: json!({"driver": "qcow2", "file": file}),
                bytes: chain.len,
            });
        }
        let opened = disk::open(image, cancel)?;
        if opened.sector() != disk::SECTOR {
            let fact = "a disk with sectors of another size can't be started in QEMU";
            return Err(Error::new(Kind::Host, fact)
                .at(image.display())
                .expected("sectors of 512 bytes")
                .found(format!("{} bytes", opened.sector())));
        }
        let bytes = opened.len();
        let (driver, node) = match format {
            Format::Raw | Format::Qcow2 => ("raw", json!({"driver": "raw", "file": file})),
            // Without its footer.
            Format::FixedVhd => ("raw", json!({"driver": "raw", "size": bytes, "file": file})),
            // Otherwise QEMU takes the size from the geometry where it knows the creator, and cuts the disk short (QEMU: block/vpc.c).
            Format::DynamicVhd => (
                "vpc",
                json!({"driver": "vpc", "force_size_calc": "current_size", "file": file}),
            ),
            Format::Vhdx => ("vhdx", json!({"driver": "vhdx", "file": file})),
            Format::StreamVmdk | Format::SparseVmdk => {
                ("vmdk", json!({"driver": "vmdk", "file": file}))
            }
            Format::Ova => {
                let ova = Ova::open(image)?;
                let vmdk = ova.member("vmdk")?;
                let window = json!({"driver": "raw", "offset": vmdk.offset, "size": vmdk.size, "file": file});
                ("vmdk", json!({"driver": "vmdk", "file": window}))
            }
            Format::Vma => {
                let fact = "no clone can be started from a VMA, which QEMU does not read";
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
