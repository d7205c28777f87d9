//! VHDX, dynamic or fixed, for Hyper-V's machines of generation 2.
//!
//! Its layout: [`winimg_formats::disk::vhdx::create`]. Blocks have one MiB, as a chunk has.

use super::blocks::{Blocks, Layout};
use super::held::Held;
use super::staging::Staging;
use super::{Artifact, CHUNK, Chunk, Exporter, Job, Needs, Totals, check};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::vhdx::create::{BLOCK, Front};
use winimg_formats::disk::{Image, vhdx};
use winimg_recipe::recipe::target::Output;

pub struct Vhdx<'j> {
    job: &'j Job<'j>,
    front: Front,
    blocks: Blocks,
}

impl<'j> Vhdx<'j> {
    pub fn new(
        job: &'j Job<'_>,
        len: u64,
        held: &Held,
        staging: &mut Staging,
        fixed: bool,
    ) -> Result<Self> {
        let name = format!("{}{}.vhdx", job.name, if fixed { "-fixed" } else { "" });
        let front = Front {
            len,
            fixed,
            file_write: held.id("VHDX file"),
            data_write: held.id("VHDX data"),
            disk: held.id("VHDX disk"),
        };
        let mibs = (BLOCK / CHUNK) as usize;
        let layout = Layout {
            block: BLOCK,
            lead: Vec::new(),
            start: front.end(),
            slots: match fixed {
                true => held.all(mibs),
                false => held.slots(mibs),
            },
            len,
        };
        let blocks = Blocks::new(staging, name, layout)?;
        blocks.write_front(front.pieces(|block| blocks.layout.place(block)))?;
        Ok(Self { job, front, blocks })
    }

    fn kind(&self) -> &'static str {
        match self.front.fixed {
            true => Output::VhdxFixed.name(),
            false => Output::Vhdx.name(),
        }
    }
}

impl Exporter for Vhdx<'_> {
    fn needs(&self) -> Needs {
        Needs {
            chunks: true,
            ordered: true,
            ..Needs::default()
        }
    }

    fn take(&self, chunk: &Chunk) -> Result<()> {
        self.blocks.take(chunk)
    }

    fn hash(&self, chunk: &Chunk) -> Result<()> {
        self.blocks.hash(chunk)
    }

    fn finish(&self, _: &Totals, _: &Cancel) -> Result<()> {
        self.blocks.finish(&[])
    }

    fn check(&self, totals: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let blocks = &self.blocks;
        let pieces = self.front.pieces(|block| blocks.layout.place(block));
        let bytes = blocks.check_front(pieces, 0)?;
        let disk = vhdx::open(Image::alone(&blocks.temporary))?;
        check::content(&blocks.name, &disk, totals, self.job.threads(), cancel)?;
        Ok(Artifact {
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
