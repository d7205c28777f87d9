//! The table of output formats. Each row is in the module that writes the format;
//! [`super::find_spec`] is the table.

use std::cell::OnceCell;

use super::data_map::DataMap;
use super::source::{self, ExportSource};
use super::staging::ExportStaging;
use super::{ExportJob, Exporter};
use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::{OutputFormat, Outputs};

/// A row of the table of output formats.
pub struct OutputSpec {
    /// The file's name after the export's: `-fixed.vhdx`.
    pub suffix: &'static str,
    /// Explains the format's name in `winimg export --help`; may be empty.
    pub about: &'static str,
    pub size: OutputSize,
    /// The format's name with its article, and the size of the largest disk in bytes.
    pub limit: Option<(&'static str, u64)>,
    /// The file describes a VM, so its hardware has to be known.
    pub describes_machine: bool,
    /// The disks of which the output contains or names one. The first is written, too, unless the
    /// recipe has another one of them.
    pub made_from: &'static [OutputFormat],
    /// Refuses a job before any file is opened.
    pub validate: fn(&ExportJob<'_>) -> Result<()>,
    pub create: CreateExporters,
}

/// Size of an output, compared with the disk's allocated bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputSize {
    /// Sparse, or without blocks of zeros: the same.
    Flat,
    /// Compressed.
    Packed,
    /// No disk of its own.
    Small,
}

/// Creates a format's exporters, one for each artifact.
type CreateExporters =
    for<'a> fn(&'a ExportSetup<'a>, &mut ExportStaging) -> Result<Vec<Box<dyn Exporter + 'a>>>;

impl OutputSpec {
    /// A disk without limits, which needs no explanation.
    pub const fn new(suffix: &'static str, size: OutputSize, create: CreateExporters) -> Self {
        Self {
            suffix,
            about: "",
            size,
            limit: None,
            describes_machine: false,
            made_from: &[],
            validate: |_| Ok(()),
            create,
        }
    }
}

/// Input of [`OutputSpec::create`].
pub struct ExportSetup<'a> {
    pub job: &'a ExportJob<'a>,
    /// The job's, and the disks that they are made from.
    pub outputs: &'a Outputs,
    pub source: &'a ExportSource,
    /// Seed of the ids in files.
    pub identity: Digest,
    pub sink: &'a dyn Sink,
    cancel: &'a Cancel,
    data: OnceCell<DataMap>,
}

impl<'a> ExportSetup<'a> {
    pub fn new(
        job: &'a ExportJob<'a>,
        outputs: &'a Outputs,
        source: &'a ExportSource,
        sink: &'a dyn Sink,
        cancel: &'a Cancel,
    ) -> Result<Self> {
        Ok(Self {
            job,
            outputs,
            source,
            identity: source::compute_identity(source.disk.as_ref(), job)?,
            sink,
            cancel,
            data: OnceCell::new(),
        })
    }

    /// Returns the size of the disk in bytes.
    pub fn len(&self) -> u64 {
        self.source.disk.len()
    }

    /// Returns the parts of the disk that are not zeros. The first call reads all of the disk.
    pub fn data(&self) -> Result<&DataMap> {
        if let Some(found) = self.data.get() {
            return Ok(found);
        }
        let found = DataMap::find(self.source.disk.as_ref(), &self.identity, self.cancel)?;
        Ok(self.data.get_or_init(|| found))
    }
}
