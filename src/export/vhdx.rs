//! Exports a dynamic or fixed VHDX, for generation 2 VMs of Hyper-V.
//!
//! Layout: [`winimg_formats::disk::vhdx::create`]. Blocks are one MiB, like a chunk.

use super::blocks::{BlockFile, BlockLayout};
use super::data_map::DataMap;
use super::staging::ExportStaging;
use super::{
    CHUNK, DiskChunk, ExportJob, ExportedArtifact, Exporter, ExporterNeeds, PassTotals, check,
};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::vhdx::create::{BLOCK, VhdxFront};
use winimg_formats::disk::{DiskImage, vhdx};
use winimg_recipe::recipe::target::OutputFormat;

pub struct VhdxExporter<'j> {
    job: &'j ExportJob<'j>,
    front: VhdxFront,
    blocks: BlockFile,
}

impl<'j> VhdxExporter<'j> {
    pub fn new(
        job: &'j ExportJob<'_>,
        len: u64,
        held: &DataMap,
        staging: &mut ExportStaging,
        fixed: bool,
    ) -> Result<Self> {
        let name = format!("{}{}.vhdx", job.name, if fixed { "-fixed" } else { "" });
        let front = VhdxFront {
            len,
            fixed,
            file_write: held.make_id("VHDX file"),
            data_write: held.make_id("VHDX data"),
            disk: held.make_id("VHDX disk"),
        };
        let mibs = (BLOCK / CHUNK) as usize;
        let layout = BlockLayout {
            block: BLOCK,
            lead: Vec::new(),
            start: front.end(),
            slots: if fixed {
                held.assign_all(mibs)
            } else {
                held.assign_slots(mibs)
            },
            len,
        };
        let blocks = BlockFile::new(staging, name, layout)?;
        blocks.write_front(front.build_pieces(|block| blocks.layout.find_offset(block)))?;
        Ok(Self { job, front, blocks })
    }

    fn kind(&self) -> &'static str {
        if self.front.fixed {
            OutputFormat::VhdxFixed.name()
        } else {
            OutputFormat::Vhdx.name()
        }
    }
}

impl Exporter for VhdxExporter<'_> {
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
        self.blocks.finish(&[])
    }

    fn check(&self, totals: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let blocks = &self.blocks;
        let pieces = self
            .front
            .build_pieces(|block| blocks.layout.find_offset(block));
        let bytes = blocks.check_front(pieces, 0)?;
        let disk = vhdx::open(DiskImage::from_file(&blocks.temporary))?;
        check::check_content(
            &blocks.name,
            &disk,
            totals,
            self.job.count_threads(),
            cancel,
        )?;
        Ok(ExportedArtifact {
            kind: self.kind(),
            file: blocks.name.clone(),
            bytes,
            sha256: blocks.digest()?,
            disk: None,
            checked: ["size", "headers and tables", check::CONTENT]
                .map(String::from)
                .to_vec(),
        })
    }
}
