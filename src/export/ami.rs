//! What a Windows AMI needs beside the disk: a complete ImportImage request and the commands to run.
//!
//! Source: AWS, EC2 API Reference "ImportImage" and VM Import/Export User Guide. Nothing is uploaded, and no account is
//! known here: the bucket is a placeholder that AWS refuses.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::staging::Staging;
use super::{Artifact, Exporter, Job, Totals, check, fill};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_recipe::recipe::{AmiSpec, Outputs};

/// Stands for the user's bucket. No bucket can have this name (capitals), so a forgotten one is an error at once.
pub const BUCKET: &str = "REPLACE_WITH_YOUR_BUCKET";

pub struct Ami<'j> {
    job: &'j Job<'j>,
    spec: &'j AmiSpec,
    /// The raw or the VHD, and AWS's name of its format.
    disk: (String, &'static str),
    raw: bool,
    request: (File, PathBuf),
    howto: (File, PathBuf),
}

impl<'j> Ami<'j> {
    pub fn new(
        job: &'j Job<'_>,
        spec: &'j AmiSpec,
        outputs: &Outputs,
        staging: &mut Staging,
    ) -> Result<Self> {
        let disk = match outputs.raw {
            true => (format!("{}.raw", job.name), "RAW"),
            false => (format!("{}.vhd", job.name), "VHD"),
        };
        Ok(Self {
            job,
            spec,
            disk,
            raw: outputs.raw,
            request: staging.create(&format!("{}.ami/import-image.json", job.name))?,
            howto: staging.create(&format!("{}.ami/HOWTO.md", job.name))?,
        })
    }

    fn key(&self) -> String {
        format!("winimg/{}", self.disk.0)
    }

    /// For `aws ec2 import-image --cli-input-json`.
    fn request(&self) -> Value {
        let guest = self.job.guest;
        json!({
            "Architecture": "x86_64",
            "BootMode": self.spec.boot_mode,
            "Description": format!("{} ({} {}, build {})", self.job.name, guest.release, guest.edition, guest.build),
            "DiskContainers": [{
                "Description": format!("{} system disk", self.job.name),
                "Format": self.disk.1,
                "UserBucket": { "S3Bucket": BUCKET, "S3Key": self.key() }
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

    fn howto(&self, len: u64) -> Result<String> {
        let values = json!({
            "name": self.job.name,
            "disk": self.disk.0,
            "format": self.disk.1,
            "gib": len.div_ceil(1 << 30),
            "bucket": BUCKET,
            "key": self.key(),
            "boot_mode": self.spec.boot_mode,
            "license": self.spec.license_type,
            "raw": self.raw,
        });
        fill(include_str!("howto.md"), handlebars::no_escape, &values)
    }
}

fn write((file, path): &(File, PathBuf), text: &str) -> Result<()> {
    let mut file = file;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|e| Error::io("write", path, e))
}

impl Exporter for Ami<'_> {
    fn finish(&self, totals: &Totals, _: &Cancel) -> Result<()> {
        write(&self.request, &format!("{:#}\n", self.request()))?;
        write(&self.howto, &self.howto(totals.len)?)
    }

    fn check(&self, _: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let path = &self.request.1;
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read back", path, e))?;
        let name = format!("{}.ami/import-image.json", self.job.name);
        let found: Value = serde_json::from_str(&text)
            .map_err(|e| Error::new(Kind::Export, format!("{name} is not JSON")).because(e))?;
        check::same(&name, "request", &self.request(), &found)?;
        let file = check::digest(path, 0..0, cancel)?;
        Ok(Artifact {
            kind: "ami",
            file: name,
            bytes: file.bytes,
            sha256: file.sha256,
            disk: Some(self.disk.0.clone()),
            checked: vec!["request read back".into()],
        })
    }
}
