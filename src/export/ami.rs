//! What a Windows AMI needs beside the disk: a complete ImportImage request and the commands to run.
//!
//! Source: AWS, EC2 API Reference "ImportImage" and VM Import/Export User Guide. Nothing is uploaded, and no account is
//! known here: the bucket is a placeholder that AWS refuses.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use handlebars::Handlebars;
use serde_json::{Value, json};

use super::staging::Staging;
use super::{Artifact, Exporter, Job, Needs, Totals, check, file_name};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_recipe::recipe::{AmiWish, Outputs};

/// Stands for the user's bucket. No bucket can have this name (capitals), so a forgotten one is an error at once.
pub const BUCKET: &str = "REPLACE_WITH_YOUR_BUCKET";

pub struct Ami<'j> {
    job: &'j Job<'j>,
    wish: &'j AmiWish,
    /// The raw or the VHD, and AWS's name of its format.
    disk: (String, &'static str),
    raw: bool,
    request: (File, PathBuf),
    howto: (File, PathBuf),
}

impl<'j> Ami<'j> {
    pub fn new(
        job: &'j Job<'_>,
        wish: &'j AmiWish,
        outputs: &Outputs,
        staging: &Staging,
    ) -> Result<Self> {
        if !matches!(wish.license_type.as_str(), "AWS" | "BYOL") {
            return Err(Error::new(Kind::Recipe, "no such licence type for an AMI")
                .expected("AWS or BYOL")
                .found(&wish.license_type));
        }
        let disk = match outputs.raw {
            true => (format!("{}.raw", job.name), "RAW"),
            false => (format!("{}.vhd", job.name), "VHD"),
        };
        Ok(Self {
            job,
            wish,
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
            "BootMode": self.wish.boot_mode,
            "Description": format!("{} ({} {}, build {})", self.job.name, guest.release, guest.edition, guest.build),
            "DiskContainers": [{
                "Description": format!("{} system disk", self.job.name),
                "Format": self.disk.1,
                "UserBucket": { "S3Bucket": BUCKET, "S3Key": self.key() }
            }],
            "LicenseType": self.wish.license_type,
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
        let mut handlebars = Handlebars::new();
        handlebars.set_strict_mode(true);
        handlebars.register_escape_fn(handlebars::no_escape);
        let view = json!({
            "name": self.job.name,
            "disk": self.disk.0,
            "format": self.disk.1,
            "gib": len.div_ceil(1 << 30),
            "bucket": BUCKET,
            "key": self.key(),
            "boot_mode": self.wish.boot_mode,
            "license": self.wish.license_type,
            "raw": self.raw,
        });
        handlebars
            .render_template(include_str!("howto.md"), &view)
            .map_err(|e| Error::new(Kind::Failed, "the AMI guide's template is wrong").because(e))
    }

    fn request_text(&self) -> String {
        format!("{:#}\n", self.request())
    }
}

fn write((file, path): &(File, PathBuf), text: &str) -> Result<()> {
    let mut file = file;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|e| Error::io("write", path, e))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::io("read back", path, e))
}

impl Exporter for Ami<'_> {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn finish(&self, totals: &Totals, _: &Cancel) -> Result<()> {
        write(&self.request, &self.request_text())?;
        write(&self.howto, &self.howto(totals.len)?)
    }

    fn check(&self, _: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let text = read(&self.request.1)?;
        let name = file_name(&self.request.1);
        let found: Value = serde_json::from_str(&text)
            .map_err(|e| Error::new(Kind::Export, format!("{name} is not JSON")).because(e))?;
        check::same(&name, "request", &self.request(), &found)?;
        let bytes = text.len() as u64;
        Ok(Artifact {
            kind: "ami",
            file: format!("{}.ami/import-image.json", self.job.name),
            bytes,
            sha256: check::digest(&self.request.1, 0..0, cancel)?.0,
            disk: Some(self.disk.0.clone()),
            checked: vec!["request read back".into()],
        })
    }
}
