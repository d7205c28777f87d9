//! Exports a dynamic VHD, for generation 1 VMs of Hyper-V and software without VHDX support.
//!
//! Layout: [`winimg_formats::disk::vhd::create`].

use std::path::Path;

use super::CHUNK;
use super::blocks::{BlockExporter, BlockFormat, BlockLayout};
use super::format::{ExportSetup, OutputSize, OutputSpec};
use super::staging::ExportStaging;
use winimg_base::error::Result;
use winimg_formats::disk::Disk;
use winimg_formats::disk::vhd::create::{BLOCK, build_front, build_lead, end};
use winimg_formats::disk::vhd::{self, FOOTER, VhdFooter};
use winimg_recipe::OutputFormat;

pub const SPEC: OutputSpec = OutputSpec {
    limit: Some(("a dynamic VHD", vhd::MOST)),
    ..OutputSpec::new("-dynamic.vhd", OutputSize::Flat, |setup, staging| {
        Ok(vec![Box::new(create(setup, staging)?)])
    })
};

fn create<'j>(
    setup: &'j ExportSetup<'_>,
    staging: &mut ExportStaging,
) -> Result<BlockExporter<'j, VhdFooter>> {
    let (job, len, held) = (setup.job, setup.len(), setup.data()?);
    let footer = VhdFooter {
        size: len,
        time: job.epoch,
        id: held.make_id("VHD"),
    };
    let layout = BlockLayout {
        block: BLOCK,
        lead: build_lead(),
        start: end(len),
        slots: held.assign_slots((BLOCK / CHUNK) as usize),
        len,
    };
    BlockExporter::new(job, OutputFormat::VhdDynamic, footer, layout, staging)
}

impl BlockFormat for VhdFooter {
    const CHECKED: &'static [&'static str] = &["header and table", "footer"];

    fn build_front<'a>(&'a self, layout: &'a BlockLayout) -> impl Iterator<Item = Vec<u8>> {
        [build_front(self, |block| layout.find_offset(block))].into_iter()
    }

    /// The footer that the front starts with.
    fn build_end(&self) -> Vec<u8> {
        self.encode_dynamic(FOOTER).to_vec()
    }

    fn open(path: &Path) -> Result<impl Disk> {
        vhd::dynamic::open(path)
    }
}
