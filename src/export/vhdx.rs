//! Exports a dynamic or fixed VHDX, for generation 2 VMs of Hyper-V.
//!
//! Layout: [`winimg_formats::disk::vhdx::create`]. Blocks are one MiB, like a chunk.

use std::path::Path;

use super::CHUNK;
use super::blocks::{BlockExporter, BlockFormat, BlockLayout};
use super::format::{ExportSetup, OutputSize, OutputSpec};
use super::staging::ExportStaging;
use winimg_base::error::Result;
use winimg_formats::disk::vhdx::create::{BLOCK, MOST, VhdxFront};
use winimg_formats::disk::{Disk, DiskImage, vhdx};
use winimg_recipe::OutputFormat;

pub const DYNAMIC: OutputSpec = OutputSpec {
    about: "Dynamic",
    limit: Some(("a VHDX", MOST)),
    ..OutputSpec::new(".vhdx", OutputSize::Flat, |setup, staging| {
        Ok(vec![Box::new(create(setup, OutputFormat::Vhdx, staging)?)])
    })
};

pub const FIXED: OutputSpec = OutputSpec {
    limit: Some(("a fixed VHDX", MOST)),
    ..OutputSpec::new("-fixed.vhdx", OutputSize::Flat, |setup, staging| {
        let fixed = create(setup, OutputFormat::VhdxFixed, staging)?;
        Ok(vec![Box::new(fixed)])
    })
};

fn create<'j>(
    setup: &'j ExportSetup<'_>,
    output: OutputFormat,
    staging: &mut ExportStaging,
) -> Result<BlockExporter<'j, VhdxFront>> {
    let (len, held) = (setup.len(), setup.data()?);
    let front = VhdxFront {
        len,
        fixed: output == OutputFormat::VhdxFixed,
        file_write: held.make_id("VHDX file"),
        data_write: held.make_id("VHDX data"),
        disk: held.make_id("VHDX disk"),
    };
    let mibs = (BLOCK / CHUNK) as usize;
    let layout = BlockLayout {
        block: BLOCK,
        lead: Vec::new(),
        start: front.end(),
        slots: if front.fixed {
            held.assign_all(mibs)
        } else {
            held.assign_slots(mibs)
        },
        len,
    };
    BlockExporter::new(setup.job, output, front, layout, staging)
}

impl BlockFormat for VhdxFront {
    const CHECKED: &'static [&'static str] = &["headers and tables"];

    fn build_front<'a>(&'a self, layout: &'a BlockLayout) -> impl Iterator<Item = Vec<u8>> {
        self.build_pieces(move |block| layout.find_offset(block))
    }

    fn open(path: &Path) -> Result<impl Disk> {
        vhdx::open(DiskImage::from_file(path))
    }
}
