//! Dynamic VHD, for Hyper-V's machines of generation 1 and what reads no VHDX.
//!
//! Its layout: [`winimg_formats::disk::dynamic_vhd::create`].

use super::blocks::{Blocks, Layout};
use super::held::Held;
use super::staging::Staging;
use super::{Artifact, CHUNK, Chunk, Exporter, Job, Needs, Totals, check};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::dynamic_vhd::create::{BLOCK, end, front, lead};
use winimg_formats::disk::dynamic_vhd::open;
use winimg_formats::disk::vhd::{FOOTER, Footer};
use winimg_recipe::recipe::target::Output;

pub struct DynamicVhd<'j> {
    job: &'j Job<'j>,
    footer: Footer,
    blocks: Blocks,
}

impl<'j> DynamicVhd<'j> {
    pub fn new(job: &'j Job<'_>, len: u64, held: &Held, staging: &mut Staging) -> Result<Self> {
        let footer = Footer {
            size: len,
            time: job.epoch,
            id: held.id("VHD"),
        };
        let layout = Layout {
            block: BLOCK,
            lead: lead(),
            start: end(len),
            slots: held.slots((BLOCK / CHUNK) as usize),
            len,
        };
        let name = format!("{}-dynamic.vhd", job.name);
        let vhd = Self {
            job,
            footer,
            blocks: Blocks::new(staging, name, layout)?,
        };
        vhd.blocks.write_front([vhd.front()].into_iter())?;
        Ok(vhd)
    }

    fn front(&self) -> Vec<u8> {
        front(&self.footer, |block| self.blocks.layout.place(block))
    }

    /// The footer at the end is the copy that the front begins with.
    fn end(&self) -> Vec<u8> {
        let mut copy = self.front();
        copy.truncate(FOOTER as usize);
        copy
    }
}

impl Exporter for DynamicVhd<'_> {
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
        self.blocks.finish(&self.end())
    }

    fn check(&self, totals: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let blocks = &self.blocks;
        let bytes = blocks.check_front([self.front()].into_iter(), FOOTER)?;
        let disk = open(&blocks.temporary)?;
        check::content(&blocks.name, &disk, totals, self.job.threads(), cancel)?;
        Ok(Artifact {
            kind: Output::VhdDynamic.name(),
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
