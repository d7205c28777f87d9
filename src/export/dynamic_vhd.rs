//! Exports a dynamic VHD, for generation 1 VMs of Hyper-V and software without VHDX support.
//!
//! Layout: [`winimg_formats::disk::dynamic_vhd::create`].

use super::blocks::{BlockFile, BlockLayout};
use super::data_map::DataMap;
use super::staging::ExportStaging;
use super::{
    CHUNK, DiskChunk, ExportJob, ExportedArtifact, Exporter, ExporterNeeds, PassTotals, check,
};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::dynamic_vhd::create::{BLOCK, build_front, build_lead, end};
use winimg_formats::disk::dynamic_vhd::open;
use winimg_formats::disk::vhd::{FOOTER, VhdFooter};
use winimg_recipe::recipe::target::OutputFormat;

pub struct DynamicVhdExporter<'j> {
    job: &'j ExportJob<'j>,
    footer: VhdFooter,
    blocks: BlockFile,
}

impl<'j> DynamicVhdExporter<'j> {
    pub fn new(
        job: &'j ExportJob<'_>,
        len: u64,
        held: &DataMap,
        staging: &mut ExportStaging,
    ) -> Result<Self> {
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
        let name = format!("{}-dynamic.vhd", job.name);
        let vhd = Self {
            job,
            footer,
            blocks: BlockFile::new(staging, name, layout)?,
        };
        vhd.blocks.write_front([vhd.build_front()].into_iter())?;
        Ok(vhd)
    }

    fn build_front(&self) -> Vec<u8> {
        build_front(&self.footer, |block| self.blocks.layout.find_offset(block))
    }

    /// Returns the footer for the end of the file: the same one that the front starts with.
    fn end(&self) -> Vec<u8> {
        let mut copy = self.build_front();
        copy.truncate(FOOTER as usize);
        copy
    }
}

impl Exporter for DynamicVhdExporter<'_> {
    fn needs(&self) -> ExporterNeeds {
        ExporterNeeds {
            chunks: true,
            ordered: true,
            ..ExporterNeeds::default()
        }
    }

    fn take(&self, chunk: &DiskChunk) -> Result<()> {
        self.blocks.take(chunk)
    }

    fn hash(&self, chunk: &DiskChunk) -> Result<()> {
        self.blocks.hash(chunk)
    }

    fn finish(&self, _: &PassTotals, _: &Cancel) -> Result<()> {
        self.blocks.finish(&self.end())
    }

    fn check(&self, totals: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let blocks = &self.blocks;
        let bytes = blocks.check_front([self.build_front()].into_iter(), FOOTER)?;
        let disk = open(&blocks.temporary)?;
        check::check_content(
            &blocks.name,
            &disk,
            totals,
            self.job.count_threads(),
            cancel,
        )?;
        Ok(ExportedArtifact {
            kind: OutputFormat::VhdDynamic.name(),
            file: blocks.name.clone(),
            bytes,
            sha256: blocks.digest()?,
            disk: None,
            checked: ["size", "header and table", "footer", check::CONTENT]
                .map(String::from)
                .to_vec(),
        })
    }
}
