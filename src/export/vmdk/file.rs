//! Exports a stand-alone stream-optimised VMDK, the same as in an OVA.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::export::format::{ExportSetup, OutputSize, OutputSpec};
use crate::export::staging::ExportStaging;
use crate::export::{
    ExportJob, ExportedArtifact, Exporter, ExporterNeeds, PassTotals, check, vmdk,
};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::RawDisk;
use winimg_formats::disk::vmdk::stream::{GRAIN, StreamVmdk};
use winimg_recipe::OutputFormat;

pub const SPEC: OutputSpec = OutputSpec {
    about: "Stream-optimised",
    limit: Some(("a stream-optimised VMDK", vmdk::MOST)),
    ..OutputSpec::new(".vmdk", OutputSize::Packed, |setup, staging| {
        Ok(vec![Box::new(VmdkExporter::new(setup, staging)?)])
    })
};

pub struct VmdkExporter<'j> {
    job: &'j ExportJob<'j>,
    temporary: PathBuf,
    name: String,
    writer: vmdk::SharedVmdkWriter,
    written: OnceLock<vmdk::VmdkSummary>,
}

impl<'j> VmdkExporter<'j> {
    fn new(setup: &'j ExportSetup<'_>, staging: &mut ExportStaging) -> Result<Self> {
        let (job, len, identity) = (setup.job, setup.len(), &setup.identity);
        let name = job.file_name(OutputFormat::Vmdk);
        let (file, temporary) = staging.create(&name)?;
        let descriptor = vmdk::render_descriptor(vmdk::VmdkExtent::Stream, &name, len, identity);
        let stream = vmdk::VmdkStream::new(file, temporary.clone(), 0);
        let writer = vmdk::VmdkWriter::begin(len, &descriptor, stream)?;
        Ok(Self {
            job,
            temporary,
            name,
            writer: vmdk::SharedVmdkWriter::new(writer),
            written: OnceLock::new(),
        })
    }
}

impl Exporter for VmdkExporter<'_> {
    fn needs(&self) -> ExporterNeeds {
        ExporterNeeds {
            stream: true,
            ..ExporterNeeds::default()
        }
    }

    fn append(&self, index: u64, packed: &[u8]) -> Result<()> {
        self.writer.append(index, packed)
    }

    fn finish(&self, _: &PassTotals, _: &Cancel) -> Result<()> {
        let (written, stream) = self.writer.end()?;
        self.written.get_or_init(|| written);
        let synced = stream.file.sync_all();
        synced.map_err(|e| Error::io("sync", &self.temporary, e))
    }

    fn check(&self, totals: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let written = self.written.get().ok_or_else(vmdk::out_of_order)?;
        let expected = (written.bytes, &written.sha256);
        check::check_file(&self.name, &self.temporary, expected, cancel)?;
        let disk = StreamVmdk::open(RawDisk::open(&self.temporary)?)?;
        let (grains, stored) = (written.populated / GRAIN, disk.stored_grains());
        check::require_equal(&self.name, "number of grains", grains, stored)?;
        check::check_content(&self.name, &disk, totals, self.job.count_threads(), cancel)?;
        Ok(ExportedArtifact {
            kind: OutputFormat::Vmdk.name(),
            file: self.name.clone(),
            bytes: written.bytes,
            sha256: written.sha256.clone(),
            disk: None,
            checked: vec![
                "size",
                "digest",
                "VMDK markers, end-of-stream last",
                check::CONTENT,
            ],
        })
    }
}
