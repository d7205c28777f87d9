//! The sealed disk, written out as the formats a recipe asks for.
//!
//! One pass reads the source once and feeds every format; then each file is read back with winimg's own readers, and
//! only when all of them hold does any get its name. The bytes depend on the disk and the job alone, never on the
//! number of threads or the clock. Nothing here boots, uploads or changes the source.

mod ami;
mod archive;
mod blocks;
mod check;
mod chunk;
mod container_disk;
mod dynamic_vhd;
mod flat;
mod held;
mod job;
mod ova;
mod ovf;
mod pass;
mod qcow2;
mod source;
mod space;
mod staging;
mod vagrant;
mod vhdx;
mod vma;
mod vmdk;
mod vmdk_file;
mod vmdk_flat;

pub use chunk::{CHUNK, Chunk};
pub use job::{Artifact, GuestFacts, Job};
pub use pass::Totals;
pub use space::estimate;

use handlebars::Handlebars;
use serde_json::Value;

use flat::{Flat, Form};
use held::Held;
use source::Source;
use staging::Staging;
use vagrant::{Provider, VagrantBox};
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_recipe::recipe::Outputs;

/// What a format takes from the pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// `take` is called for every chunk.
    pub chunks: bool,
    /// `append` is called, in the disk's order, with the records of the chunk's grains in a stream-optimised VMDK. They are
    /// made once for all formats that hold such a one.
    pub stream: bool,
    /// `hash` is called for every chunk, in the disk's order.
    pub ordered: bool,
    /// `Totals::flat` is wanted: SHA-256 over the whole virtual disk, the costliest part.
    pub flat_digest: bool,
}

/// A format. The pass drives it: `take` from many threads in any order, `append` from one in order, then once `finish`
/// and once `check`.
pub trait Exporter: Send + Sync {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// One MiB of the disk, which is written at its place.
    fn take(&self, _chunk: &Chunk) -> Result<()> {
        Ok(())
    }

    /// What [`vmdk::pack`] made of chunk `index`. Called for 0, 1, 2 and so on.
    fn append(&self, _index: u64, _packed: &[u8]) -> Result<()> {
        Ok(())
    }

    /// The chunks once more, 0, 1, 2 and so on, in a thread of the format's own: for a digest that is not the flat disk's, or a file
    /// that is written in the disk's order.
    fn hash(&self, _chunk: &Chunk) -> Result<()> {
        Ok(())
    }

    /// Completes the file and brings it to the disk. It still has its temporary name.
    fn finish(&self, totals: &Totals, cancel: &Cancel) -> Result<()>;

    /// Reads the file back and compares it with what the pass saw in the source.
    fn check(&self, totals: &Totals, cancel: &Cancel) -> Result<Artifact>;
}

/// Writes all of `job.outputs` into `job.directory`, which must exist. Artifacts come in the order raw, VHD,
/// dynamic VHD, VHDX, fixed VHDX, OVA, VMDK, flat VMDK and its descriptor, qcow2, VMA, AMI, boxes, container disk. On an error or a cancel no file of this export is left, and files of an earlier one are as they were.
pub fn export(job: &Job<'_>, sink: &dyn Sink, cancel: &Cancel) -> Result<Vec<Artifact>> {
    job.validate()?;
    let mut staging = Staging::new(job.directory, job.kept);
    let source = Source::open(job, &mut staging, sink, cancel)?;
    source.judge(job, sink)?;
    job.validate_disk(source.disk.len())?;
    let outputs = job.outputs.with_disks();
    space::require(job.directory, source.disk.as_ref(), &outputs, sink)?;
    let exporters = exporters(job, &outputs, &source, &mut staging, sink, cancel)?;
    staging.check()?;

    tracing::debug!(
        bytes = source.disk.len(),
        threads = job.threads(),
        "the disk is exported"
    );
    let progress = |done: u64, total: u64| {
        sink.emit(&Event::Bytes {
            what: "export".into(),
            done,
            total: Some(total),
        });
    };
    let totals = staging
        .write_behind(|| pass::run(source.disk.as_ref(), &exporters, job, &progress, cancel))?;
    for exporter in &exporters {
        cancel.check()?;
        exporter.finish(&totals, cancel)?;
    }
    let mut artifacts = Vec::new();
    for exporter in &exporters {
        cancel.check()?;
        let artifact = exporter.check(&totals, cancel)?;
        tracing::debug!(file = artifact.file, bytes = artifact.bytes, sha256 = %artifact.sha256, "written and read back");
        artifacts.push(artifact);
    }
    drop(exporters);
    staging.commit()?;
    Ok(artifacts)
}

fn exporters<'a>(
    job: &'a Job<'_>,
    outputs: &'a Outputs,
    source: &'a Source,
    staging: &mut Staging,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<Vec<Box<dyn Exporter + 'a>>> {
    let len = source.disk.len();
    let identity = source::identity(source.disk.as_ref(), job)?;
    let mut all: Vec<Box<dyn Exporter + 'a>> = Vec::new();
    for (asked, form) in [(outputs.raw, Form::Raw), (outputs.vhd, Form::Vhd)] {
        if asked {
            all.push(Box::new(Flat::new(job, len, staging, form)?));
        }
    }
    if outputs.vhd_dynamic || outputs.vhdx || outputs.vhdx_fixed {
        let held = Held::find(source.disk.as_ref(), &identity, cancel)?;
        if outputs.vhd_dynamic {
            let vhd = dynamic_vhd::DynamicVhd::new(job, len, &held, staging)?;
            all.push(Box::new(vhd));
        }
        for (asked, fixed) in [(outputs.vhdx, false), (outputs.vhdx_fixed, true)] {
            if asked {
                all.push(Box::new(vhdx::Vhdx::new(job, len, &held, staging, fixed)?));
            }
        }
    }
    if let Some(spec) = &outputs.ova {
        let hardware = ovf::Hardware::choose(job, spec, sink);
        all.push(Box::new(ova::Ova::new(
            job, hardware, len, &identity, staging,
        )?));
    }
    if outputs.vmdk {
        let vmdk = vmdk_file::VmdkFile::new(job, len, &identity, staging)?;
        all.push(Box::new(vmdk));
    }
    if outputs.vmdk_flat {
        all.push(Box::new(Flat::new(job, len, staging, Form::Extent)?));
        let descriptor = vmdk_flat::Descriptor::new(job, len, &identity, staging)?;
        all.push(Box::new(descriptor));
    }
    if outputs.qcow2 {
        all.push(Box::new(qcow2::Qcow2::new(job, source, staging)?));
    }
    if outputs.vma {
        all.push(Box::new(vma::Vma::new(job, len, &identity, staging)?));
    }
    if let Some(spec) = &outputs.ami {
        all.push(Box::new(ami::Ami::new(job, spec, outputs, staging)?));
    }
    // They read the files of those above.
    for (spec, provider) in [
        (&outputs.box_hyperv, Provider::Hyperv),
        (&outputs.box_libvirt, Provider::Libvirt),
        (&outputs.box_virtualbox, Provider::Virtualbox),
    ] {
        if let Some(spec) = spec {
            let made = VagrantBox::new(job, provider, spec, staging, sink)?;
            all.push(Box::new(made));
        }
    }
    if outputs.container_disk {
        let made = container_disk::ContainerDisk::new(job, staging)?;
        all.push(Box::new(made));
    }
    Ok(all)
}

/// Fills in a template of ours.
fn fill(template: &str, escape: fn(&str) -> String, values: &Value) -> Result<String> {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(escape);
    handlebars
        .render_template(template, values)
        .map_err(|e| Error::failed("a template of the export is wrong").because(e))
}

fn thread_panicked() -> Error {
    Error::failed("a thread of the export panicked")
}
