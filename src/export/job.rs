//! What is to be exported, and what came of it.

use std::path::Path;

use serde::Serialize;

use super::CHUNK;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event;
use winimg_formats::disk::{Image, vhd, vhdx, vma};
use winimg_formats::wim::Release;
use winimg_recipe::recipe::target::Output;
use winimg_recipe::recipe::{DiskBus, Firmware, Outputs};

/// The most that a stream-optimised VMDK holds, in bytes: its sector numbers have 32 bits.
const VMDK: u64 = (2 << 40) - CHUNK;
/// The most that the formats hold, in bytes.
const LIMITS: [(Output, &str, u64); 7] = [
    (Output::Vhd, "a VHD", vhd::MOST),
    (Output::VhdDynamic, "a dynamic VHD", vhd::MOST),
    (Output::Vhdx, "a VHDX", vhdx::create::MOST),
    (Output::VhdxFixed, "a fixed VHDX", vhdx::create::MOST),
    (Output::Ova, "an OVA", VMDK),
    (Output::Vmdk, "a stream-optimised VMDK", VMDK),
    (Output::Vma, "a VMA", vma::layout::MOST),
];

/// One export, decided whole before it starts.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The sealed disk. No machine may have it open. An overlay only where it says which folder's files it may name.
    pub source: Image<'a>,
    /// File names begin with it: letters, digits, dot, dash, underscore.
    pub name: &'a str,
    pub outputs: &'a Outputs,
    /// Exists.
    pub directory: &'a Path,
    /// Files of the directory that are not replaced, by their names relative to it.
    pub kept: &'a [String],
    pub firmware: Firmware,
    pub secure_boot: bool,
    /// The bus that the image was built on: its driver is known to start.
    pub disk_bus: DiskBus,
    pub guest: &'a GuestFacts,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// Whether the machine has to offer virtualization to the guest, whose Windows starts a hypervisor.
    pub nested_virtualization: bool,
    /// Unix seconds for every time that a format holds: `SOURCE_DATE_EPOCH`, or the build's own time.
    pub epoch: i64,
    /// Worker threads; 0: as many as there are processors.
    pub threads: usize,
    /// Shown in the OVA's product section, as `KUBERNETES_SEMVER` and the like. Not changeable by who deploys it.
    pub properties: &'a [(String, String)],
}

/// What the image holds, as it was read from the install medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFacts {
    pub release: Release,
    /// As in the WIM, `ServerDatacenterCore`.
    pub edition: String,
    /// `20348.2113`
    pub build: String,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// The format's key in a recipe's `[outputs]`, or `vmdk_descriptor`.
    pub kind: &'static str,
    /// Relative to the directory, with slashes.
    pub file: String,
    pub bytes: u64,
    pub sha256: Digest,
    /// The disk that this file speaks of, relative to the directory: an AMI's raw or VHD, a flat VMDK's extent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// What was compared after writing, in words.
    pub checked: Vec<String>,
}

impl From<&Artifact> for event::Artifact {
    fn from(artifact: &Artifact) -> Self {
        Self {
            kind: artifact.kind.into(),
            file: artifact.file.clone(),
            bytes: artifact.bytes,
            sha256: artifact.sha256.hex(),
        }
    }
}

impl Job<'_> {
    /// What is wrong before any file is looked at.
    pub(super) fn validate(&self) -> Result<()> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let fits = (1..=80).contains(&self.name.len()) && !self.name.starts_with(['.', '-']);
        if !fits || !self.name.chars().all(allowed) {
            return Err(Error::new(
                Kind::Recipe,
                format!("{:?} can't be the beginning of a file name", self.name),
            )
            .expected(
                "1 to 80 letters, digits, dots, dashes, underscores, a letter or digit first",
            ));
        }
        if let Some(ami) = &self.outputs.ami {
            let expected = match self.firmware {
                Firmware::Uefi => "uefi",
                Firmware::Bios => "legacy-bios",
            };
            if ami.boot_mode != expected {
                return Err(Error::new(
                    Kind::Recipe,
                    "the AMI's boot mode is not the firmware that the image was built with",
                )
                .expected(format!("boot_mode = {expected:?}"))
                .found(format!("boot_mode = {:?}", ami.boot_mode)));
            }
        }
        Ok(())
    }

    /// Azure takes whole MiB only, and a VMDK whole grains of 64 KiB.
    pub(super) fn validate_disk(&self, len: u64) -> Result<()> {
        if len == 0 || !len.is_multiple_of(CHUNK) {
            return Err(Error::new(
                Kind::Export,
                format!(
                    "{} has not a whole number of MiB",
                    self.source.file.display()
                ),
            )
            .found(format!("{len} bytes"))
            .cure("choose a disk_size in whole MiB or GiB; the size can't be changed at export"));
        }
        for (output, what, most) in LIMITS {
            if output.is_in(self.outputs) && len > most {
                return Err(
                    Error::new(Kind::Export, format!("the disk is too large for {what}"))
                        .expected(format!("at most {most} bytes"))
                        .found(format!("{len} bytes"))
                        .cure("ask for other formats, or make the disk smaller"),
                );
            }
        }
        Ok(())
    }

    pub(super) fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        }
    }
}
