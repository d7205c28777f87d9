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
mod format;
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

pub use chunk::{CHUNK, DiskChunk};
pub use job::{ExportJob, ExportedArtifact, GuestFacts};
pub use pass::PassTotals;
pub use space::estimate;

use handlebars::Handlebars;
use serde_json::Value;

use format::{ExportSetup, OutputSpec};
use source::ExportSource;
use staging::ExportStaging;
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_recipe::{OutputFormat, Outputs};

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
/// Returns the artifacts in the order of the formats, those that are made from others last. After
/// an error or a cancel no file of this export is left, and files of an earlier one are unchanged.
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
    space::require(job.directory, source.disk.as_ref(), job.outputs, sink)?;
    let outputs = add_disks(job.outputs);
    let setup = ExportSetup::new(job, &outputs, &source, sink, cancel)?;
    let exporters = create_exporters(&setup, &mut staging)?;
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

/// Returns the row of an output format.
pub fn find_spec(format: OutputFormat) -> &'static OutputSpec {
    match format {
        OutputFormat::Raw => &flat::RAW,
        OutputFormat::Vhd => &flat::VHD,
        OutputFormat::VhdDynamic => &dynamic_vhd::SPEC,
        OutputFormat::Vhdx => &vhdx::DYNAMIC,
        OutputFormat::VhdxFixed => &vhdx::FIXED,
        OutputFormat::Ova => &ova::SPEC,
        OutputFormat::Vmdk => &vmdk::file::SPEC,
        OutputFormat::VmdkFlat => &vmdk::flat::SPEC,
        OutputFormat::Ami => &ami::SPEC,
        OutputFormat::Qcow2 => &qcow2::SPEC,
        OutputFormat::Vma => &vma::SPEC,
        OutputFormat::BoxHyperv => &vagrant::HYPERV,
        OutputFormat::BoxLibvirt => &vagrant::LIBVIRT,
        OutputFormat::BoxVirtualbox => &vagrant::VIRTUALBOX,
        OutputFormat::ContainerDisk => &container_disk::SPEC,
    }
}

/// Adds the disks that other outputs are made from, so that each is written once.
fn add_disks(outputs: &Outputs) -> Outputs {
    let mut all = outputs.clone();
    for format in outputs.formats() {
        let disks = find_spec(format).made_from;
        if let Some(usual) = disks.first()
            && !disks.iter().any(|disk| outputs.has(*disk))
        {
            all.insert(*usual, usual.default_options());
        }
    }
    all
}

fn create_exporters<'a>(
    setup: &'a ExportSetup<'a>,
    staging: &mut ExportStaging,
) -> Result<Vec<Box<dyn Exporter + 'a>>> {
    let formats = setup.outputs.formats();
    let (disks, others): (Vec<_>, Vec<_>) =
        formats.partition(|format| find_spec(*format).made_from.is_empty());
    let mut all = Vec::new();
    // The others read the files of the disks.
    for format in disks.into_iter().chain(others) {
        all.extend((find_spec(format).create)(setup, staging)?);
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
