//! Exports the sealed disk to the recipe's formats.
//!
//! One pass reads the source once and feeds every format. Then each file is read back with winimg's
//! own readers, and no file gets its final name before all of them are verified. The bytes depend
//! only on the disk and the job, never on the number of threads or the clock. Nothing here boots,
//! uploads or changes the source.

mod ami;
mod archive;
mod blocks;
mod check;
mod chunk;
mod container_disk;
mod data_map;
mod dynamic_vhd;
mod flat;
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

pub use chunk::{CHUNK, DiskChunk};
pub use job::{ExportJob, ExportedArtifact, GuestFacts};
pub use pass::PassTotals;
pub use space::estimate;

use handlebars::Handlebars;
use serde_json::Value;

use data_map::DataMap;
use flat::{FlatExporter, FlatFormat};
use source::ExportSource;
use staging::ExportStaging;
use vagrant::{VagrantBox, VagrantProvider};
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_recipe::recipe::Outputs;

/// The parts of the pass that a format needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExporterNeeds {
    /// `take` is called for every chunk.
    pub chunks: bool,
    /// `append` is called, in the disk's order, with the packed grains of a stream-optimised VMDK.
    /// They are packed once for all formats that contain one.
    pub stream: bool,
    /// `hash` is called for every chunk, in the disk's order.
    pub ordered: bool,
    /// `PassTotals::flat` is needed: SHA-256 of the whole virtual disk, the most expensive part.
    pub flat_digest: bool,
}

/// A format, driven by the pass: `take` from many threads in any order, `append` from one thread in
/// order, then `finish` and `check` once each.
pub trait Exporter: Send + Sync {
    fn needs(&self) -> ExporterNeeds {
        ExporterNeeds::default()
    }

    /// Writes one MiB of the disk at its offset.
    fn take(&self, _chunk: &DiskChunk) -> Result<()> {
        Ok(())
    }

    /// Appends chunk `index`, packed for a VMDK. Called for 0, 1, 2 and so on.
    fn append(&self, _index: u64, _packed: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Processes the chunks again, 0, 1, 2 and so on, in a thread of the format's own: to hash a
    /// file that differs from the flat disk, or to write a file in the disk's order.
    fn hash(&self, _chunk: &DiskChunk) -> Result<()> {
        Ok(())
    }

    /// Completes the file and syncs it, still under its temporary name.
    fn finish(&self, totals: &PassTotals, cancel: &Cancel) -> Result<()>;

    /// Reads the file back and compares it with the source's checksums from the pass.
    fn check(&self, totals: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact>;
}

/// Writes all of `job.outputs` into `job.directory`, which must exist.
///
/// Returns the artifacts in the order raw, VHD, dynamic VHD, VHDX, fixed VHDX, OVA, VMDK, flat VMDK
/// and its descriptor, qcow2, VMA, AMI, boxes, container disk. After an error or a cancel no file
/// of this export is left, and files of an earlier one are unchanged.
pub fn export(
    job: &ExportJob<'_>,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<Vec<ExportedArtifact>> {
    job.validate()?;
    let mut staging = ExportStaging::new(job.directory, job.replaces_existing, job.kept);
    let source = ExportSource::open(job, &mut staging, sink, cancel)?;
    source.judge(job, sink)?;
    job.validate_disk(source.disk.len())?;
    let outputs = job.outputs.with_disks();
    space::require(job.directory, source.disk.as_ref(), &outputs, sink)?;
    let exporters = create_exporters(job, &outputs, &source, &mut staging, sink, cancel)?;
    staging.check()?;

    tracing::debug!(
        bytes = source.disk.len(),
        threads = job.count_threads(),
        "exporting the disk"
    );
    let totals = staging.write_behind(|| {
        pass::run(
            source.disk.as_ref(),
            &exporters,
            job,
            &|done, total| {
                sink.emit(&Event::Bytes {
                    what: "export".into(),
                    done,
                    total: Some(total),
                });
            },
            cancel,
        )
    })?;
    for exporter in &exporters {
        cancel.check()?;
        exporter.finish(&totals, cancel)?;
    }
    let mut artifacts = Vec::new();
    for exporter in &exporters {
        cancel.check()?;
        let artifact = exporter.check(&totals, cancel)?;
        tracing::debug!(
            file = artifact.file,
            bytes = artifact.bytes,
            sha256 = %artifact.sha256,
            "written and read back"
        );
        artifacts.push(artifact);
    }
    drop(exporters);
    staging.commit()?;
    Ok(artifacts)
}

fn create_exporters<'a>(
    job: &'a ExportJob<'_>,
    outputs: &'a Outputs,
    source: &'a ExportSource,
    staging: &mut ExportStaging,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<Vec<Box<dyn Exporter + 'a>>> {
    let len = source.disk.len();
    let identity = source::compute_identity(source.disk.as_ref(), job)?;
    let mut all: Vec<Box<dyn Exporter + 'a>> = Vec::new();
    for (asked, form) in [
        (outputs.raw, FlatFormat::Raw),
        (outputs.vhd, FlatFormat::Vhd),
    ] {
        if asked {
            all.push(Box::new(FlatExporter::new(job, len, staging, form)?));
        }
    }
    if outputs.vhd_dynamic || outputs.vhdx || outputs.vhdx_fixed {
        let held = DataMap::find(source.disk.as_ref(), &identity, cancel)?;
        if outputs.vhd_dynamic {
            let vhd = dynamic_vhd::DynamicVhdExporter::new(job, len, &held, staging)?;
            all.push(Box::new(vhd));
        }
        for (asked, fixed) in [(outputs.vhdx, false), (outputs.vhdx_fixed, true)] {
            if asked {
                all.push(Box::new(vhdx::VhdxExporter::new(
                    job, len, &held, staging, fixed,
                )?));
            }
        }
    }
    if let Some(spec) = &outputs.ova {
        let hardware = ovf::OvfHardware::choose(job, spec, sink);
        all.push(Box::new(ova::OvaExporter::new(
            job, hardware, len, &identity, staging,
        )?));
    }
    if outputs.vmdk {
        let vmdk = vmdk_file::VmdkExporter::new(job, len, &identity, staging)?;
        all.push(Box::new(vmdk));
    }
    if outputs.vmdk_flat {
        all.push(Box::new(FlatExporter::new(
            job,
            len,
            staging,
            FlatFormat::Extent,
        )?));
        let descriptor = vmdk_flat::FlatVmdkDescriptor::new(job, len, &identity, staging)?;
        all.push(Box::new(descriptor));
    }
    if outputs.qcow2 {
        all.push(Box::new(qcow2::Qcow2Exporter::new(job, source, staging)?));
    }
    if outputs.vma {
        all.push(Box::new(vma::VmaExporter::new(
            job, len, &identity, staging,
        )?));
    }
    if let Some(spec) = &outputs.ami {
        all.push(Box::new(ami::AmiExporter::new(
            job, spec, outputs, staging,
        )?));
    }
    // Last: these read the files of the formats above.
    for (spec, provider) in [
        (&outputs.box_hyperv, VagrantProvider::Hyperv),
        (&outputs.box_libvirt, VagrantProvider::Libvirt),
        (&outputs.box_virtualbox, VagrantProvider::Virtualbox),
    ] {
        if let Some(spec) = spec {
            let made = VagrantBox::new(job, provider, spec, staging, sink)?;
            all.push(Box::new(made));
        }
    }
    if outputs.container_disk {
        let made = container_disk::ContainerDiskExporter::new(job, staging)?;
        all.push(Box::new(made));
    }
    Ok(all)
}

/// Renders one of winimg's own templates.
fn fill(template: &str, escape: fn(&str) -> String, values: &Value) -> Result<String> {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(escape);
    handlebars
        .render_template(template, values)
        .map_err(|e| Error::failed("an export template is invalid").because(e))
}

fn thread_panicked() -> Error {
    Error::failed("a thread of the export panicked")
}
