//! Exports the files to import a disk as a Windows AMI: a complete ImportImage request and the
//! commands to run.
//!
//! Source: AWS, EC2 API Reference "ImportImage" and VM Import/Export User Guide. Nothing is
//! uploaded, and no account is needed: the bucket is a placeholder that AWS rejects.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::format::{ExportSetup, OutputSize, OutputSpec};
use super::staging::ExportStaging;
use super::{ExportJob, ExportedArtifact, Exporter, PassTotals, check, fill};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_recipe::{AmiOptions, OutputFormat};

/// Placeholder for the user's bucket. It is not a valid bucket name (capitals), so it can't be used
/// by mistake.
pub const BUCKET: &str = "REPLACE_WITH_YOUR_BUCKET";

pub const SPEC: OutputSpec = OutputSpec {
    made_from: &[OutputFormat::Raw, OutputFormat::Vhd],
    validate: check_boot_mode,
    ..OutputSpec::new(
        ".ami/import-image.json",
        OutputSize::Small,
        |setup, staging| Ok(vec![Box::new(AmiExporter::new(setup, staging)?)]),
    )
};

pub struct AmiExporter<'j> {
    job: &'j ExportJob<'j>,
    spec: AmiOptions,
    /// The raw disk or VHD, and AWS's name of its format.
    disk: (String, &'static str),
    raw: bool,
    request: (File, PathBuf),
    howto: (File, PathBuf),
}

impl<'j> AmiExporter<'j> {
    fn new(setup: &'j ExportSetup<'_>, staging: &mut ExportStaging) -> Result<Self> {
        let job = setup.job;
        let spec = setup.outputs.ami().cloned().unwrap_or_default();
        let raw = setup.outputs.has(OutputFormat::Raw);
        let disk = if raw {
            (job.file_name(OutputFormat::Raw), "RAW")
        } else {
            (job.file_name(OutputFormat::Vhd), "VHD")
        };
        Ok(Self {
            job,
            spec,
            disk,
            raw,
            request: staging.create(&job.file_name(OutputFormat::Ami))?,
            howto: staging.create(&format!("{}.ami/HOWTO.md", job.name))?,
        })
    }

    fn s3_key(&self) -> String {
        format!("winimg/{}", self.disk.0)
    }

    /// Returns the request for `aws ec2 import-image --cli-input-json`.
    fn request(&self) -> Value {
        let guest = self.job.guest;
        json!({
            "Architecture": "x86_64",
            "BootMode": self.spec.boot_mode,
            "Description": format!(
                "{} ({} {}, build {})",
                self.job.name, guest.release, guest.edition, guest.build
            ),
            "DiskContainers": [{
                "Description": format!("{} system disk", self.job.name),
                "Format": self.disk.1,
                "UserBucket": { "S3Bucket": BUCKET, "S3Key": self.s3_key() }
            }],
            "LicenseType": self.spec.license_type,
            "Platform": "Windows",
            "RoleName": "vmimport",
            "TagSpecifications": [{
                "ResourceType": "import-image-task",
                "Tags": [
                    { "Key": "Name", "Value": self.job.name },
                    { "Key": "winimg:build", "Value": guest.build }
                ]
            }]
        })
    }

    fn render_howto(&self, len: u64) -> Result<String> {
        let values = json!({
            "name": self.job.name,
            "disk": self.disk.0,
            "format": self.disk.1,
            "gib": len.div_ceil(1 << 30),
            "bucket": BUCKET,
            "key": self.s3_key(),
            "boot_mode": self.spec.boot_mode,
            "license": self.spec.license_type,
            "raw": self.raw,
        });
        fill(include_str!("howto.md"), handlebars::no_escape, &values)
    }
}

fn check_boot_mode(job: &ExportJob<'_>) -> Result<()> {
    let expected = AmiOptions::find_boot_mode(job.firmware);
    match job.outputs.ami() {
        Some(options) if options.boot_mode != expected => Err(Error::new(
            Kind::Recipe,
            "the AMI's boot mode does not match the image's firmware",
        )
        .expected(format!("boot_mode = {expected:?}"))
        .found(format!("boot_mode = {:?}", options.boot_mode))),
        _ => Ok(()),
    }
}

fn write((file, path): &(File, PathBuf), text: &str) -> Result<()> {
    let mut file = file;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|e| Error::io("write", path, e))
}

impl Exporter for AmiExporter<'_> {
    fn finish(&self, totals: &PassTotals, _: &Cancel) -> Result<()> {
        write(&self.request, &format!("{:#}\n", self.request()))?;
        write(&self.howto, &self.render_howto(totals.len)?)
    }

    fn check(&self, _: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let path = &self.request.1;
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read back", path, e))?;
        let name = self.job.file_name(OutputFormat::Ami);
        let found: Value = serde_json::from_str(&text)
            .map_err(|e| Error::new(Kind::Export, format!("{name} is not JSON")).because(e))?;
        check::require_equal(&name, "request", &self.request(), &found)?;
        let file = check::hash_file(path, 0..0, cancel)?;
        Ok(ExportedArtifact {
            kind: OutputFormat::Ami.name(),
            file: name,
            bytes: file.bytes,
            sha256: file.sha256,
            disk: Some(self.disk.0.clone()),
            checked: vec!["request read back"],
        })
    }
}
