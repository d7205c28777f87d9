//! The description of an export, and its result.

use std::path::Path;

use super::{CHUNK, find_spec};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event;
use winimg_formats::disk::DiskImage;
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::{DiskBus, Firmware, OutputFormat, Outputs};

/// One export, fully specified before it starts.
#[derive(Clone, Copy, Debug)]
pub struct ExportJob<'a> {
    /// The sealed disk. No VM may have it open. An overlay must restrict its backing files to a
    /// folder.
    pub source: DiskImage<'a>,
    /// Prefix of all file names: letters, digits, dot, dash, underscore.
    pub name: &'a str,
    pub outputs: &'a Outputs,
    /// The output directory; must exist.
    pub directory: &'a Path,
    /// True if existing files of the directory may be replaced, except those in `kept`.
    pub replaces_existing: bool,
    /// Files of the directory that must not be replaced, relative to it.
    pub kept: &'a [String],
    pub firmware: Firmware,
    pub secure_boot: bool,
    /// The bus that the image was built on, so Windows has a boot driver for it.
    pub disk_bus: DiskBus,
    pub guest: &'a GuestFacts,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// The VM needs nested virtualization, because its Windows starts a hypervisor.
    pub nested_virtualization: bool,
    /// Unix seconds for every timestamp in a format: `SOURCE_DATE_EPOCH`, or the build's own time.
    pub epoch: i64,
    /// Number of worker threads; 0: one per CPU.
    pub threads: usize,
    /// Properties for the OVA's product section, such as `KUBERNETES_SEMVER`. Not
    /// user-configurable.
    pub properties: &'a [(String, String)],
}

/// Facts about the image's Windows, read from the install medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFacts {
    pub release: WindowsRelease,
    /// The WIM's edition ID, `ServerDatacenterCore`.
    pub edition: String,
    /// `20348.2113`
    pub build: String,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedArtifact {
    /// The format's key in a recipe's `[outputs]`, or `vmdk_descriptor`.
    pub kind: &'static str,
    /// Relative to the directory, with slashes.
    pub file: String,
    pub bytes: u64,
    pub sha256: Digest,
    /// The disk that this file refers to, relative to the directory: an AMI's raw or VHD, a flat
    /// VMDK's extent.
    pub disk: Option<String>,
    /// Descriptions of the checks made after writing.
    pub checked: Vec<&'static str>,
}

impl From<&ExportedArtifact> for event::FinishedArtifact {
    fn from(artifact: &ExportedArtifact) -> Self {
        Self {
            kind: artifact.kind.into(),
            file: artifact.file.clone(),
            bytes: artifact.bytes,
            sha256: artifact.sha256.hex(),
        }
    }
}

impl ExportJob<'_> {
    /// Validates the job, before any file is opened.
    pub(super) fn validate(&self) -> Result<()> {
        let is_valid = (1..=80).contains(&self.name.len())
            && !self.name.starts_with(['.', '-'])
            && self
                .name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
        if !is_valid {
            return Err(Error::new(
                Kind::Recipe,
                format!("{:?} can't be used in file names", self.name),
            )
            .expected(
                "1 to 80 letters, digits, dots, dashes, underscores, a letter or digit first",
            ));
        }
        let mut formats = self.outputs.formats();
        formats.try_for_each(|format| (find_spec(format).validate)(self))
    }

    /// Validates the disk's size. Azure requires whole MiB, and a VMDK whole grains of 64 KiB.
    pub(super) fn validate_disk(&self, len: u64) -> Result<()> {
        if len == 0 || !len.is_multiple_of(CHUNK) {
            return Err(Error::new(
                Kind::Export,
                format!(
                    "the size of {} is not a whole number of MiB",
                    self.source.file.display()
                ),
            )
            .found(format!("{len} bytes"))
            .cure("choose a disk_size in whole MiB or GiB; the size can't be changed at export"));
        }
        for format in self.outputs.formats() {
            if let Some((what, most)) = find_spec(format).limit
                && len > most
            {
                return Err(
                    Error::new(Kind::Export, format!("the disk is too large for {what}"))
                        .expected(format!("at most {most} bytes"))
                        .found(format!("{len} bytes"))
                        .cure("choose other formats, or build with a smaller disk"),
                );
            }
        }
        Ok(())
    }

    /// Returns the name of a format's file, relative to the directory.
    pub(super) fn file_name(&self, format: OutputFormat) -> String {
        format!("{}{}", self.name, find_spec(format).suffix)
    }

    pub(super) fn count_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        }
    }
}
