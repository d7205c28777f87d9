//! A KubeVirt containerDisk: the qcow2 as the one layer of a container image, in an OCI layout within a tar.
//!
//! The disk lies in `/disk`, and QEMU's user 107 reads it (KubeVirt user guide: containerDisk). The layer is not compressed: the
//! disk is. The platform is that of the nodes which pull it, linux/amd64, not the guest's (OCI: Image Format Specification 1.1).

use std::path::PathBuf;

use serde_json::{Value, json};

use super::archive::{Archive, NOBODY, Owner, Staged, Written};
use super::staging::Staging;
use super::{Artifact, Exporter, Job, Totals};
use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_recipe::recipe::target::Output;

const QEMU: Owner = Owner {
    id: 107,
    mode: 0o440,
};

pub struct ContainerDisk<'j> {
    job: &'j Job<'j>,
    staged: Staged,
    /// The qcow2, under its temporary name.
    disk: PathBuf,
}

/// A document of the image, stored under its digest.
struct Blob {
    bytes: Vec<u8>,
    digest: Digest,
}

impl Blob {
    fn new(value: &Value) -> Self {
        let bytes = value.to_string().into_bytes();
        Self {
            digest: Digest::sha256_of(&bytes),
            bytes,
        }
    }

    fn descriptor(&self, media_type: &str) -> Value {
        descriptor(media_type, &self.digest, self.bytes.len() as u64)
    }
}

fn descriptor(media_type: &str, digest: &Digest, size: u64) -> Value {
    json!({
        "mediaType": format!("application/vnd.oci.image.{media_type}"),
        "digest": format!("sha256:{}", digest.hex()),
        "size": size,
    })
}

fn place(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

impl<'j> ContainerDisk<'j> {
    pub fn new(job: &'j Job<'_>, staging: &mut Staging) -> Result<Self> {
        Ok(Self {
            job,
            staged: Staged::new(format!("{}.oci.tar", job.name), staging)?,
            disk: staging.temporary(&qcow2(job)),
        })
    }

    fn layer(&self, archive: &mut Archive<'_>, cancel: &Cancel) -> Result<()> {
        let name = format!("disk/{}", qcow2(self.job));
        archive.add_file(&name, QEMU, &self.disk, cancel)?;
        archive.end()
    }

    fn created(&self) -> String {
        let time = jiff::Timestamp::from_second(self.job.epoch);
        time.map(|t| t.to_string()).unwrap_or_default()
    }

    fn config(&self, layer: &Written) -> Value {
        json!({
            "architecture": "amd64",
            "os": "linux",
            "created": self.created(),
            "config": {},
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", layer.sha256.hex())] },
        })
    }

    fn manifest(&self, config: &Blob, layer: &Written) -> Value {
        let guest = self.job.guest;
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("config.v1+json"),
            "layers": [descriptor("layer.v1.tar", &layer.sha256, layer.bytes)],
            "annotations": {
                "org.opencontainers.image.title": self.job.name,
                "org.opencontainers.image.description": format!("{} {}", guest.release, guest.edition),
                "org.opencontainers.image.version": guest.build,
                "org.opencontainers.image.created": self.created(),
            },
        })
    }

    fn write(&self, cancel: &Cancel) -> Result<Archive<'_>> {
        // Its digest is its name, which stands before it.
        let mut measured = Archive::measured(self.job.epoch);
        self.layer(&mut measured, cancel)?;
        let layer = measured.written();
        let config = Blob::new(&self.config(&layer));
        let manifest = Blob::new(&self.manifest(&config, &layer));
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [manifest.descriptor("manifest.v1+json")],
        });
        let mut archive = Archive::new(&self.staged, self.job.epoch);
        archive.add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        archive.add("index.json", index.to_string().as_bytes())?;
        for blob in [&manifest, &config] {
            archive.add(&place(&blob.digest), &blob.bytes)?;
        }
        archive.begin(&place(&layer.sha256), layer.bytes, NOBODY)?;
        self.layer(&mut archive, cancel)?;
        archive.end()?;
        Ok(archive)
    }
}

/// The disk's file.
fn qcow2(job: &Job<'_>) -> String {
    format!("{}.qcow2", job.name)
}

impl Exporter for ContainerDisk<'_> {
    fn finish(&self, _: &Totals, cancel: &Cancel) -> Result<()> {
        self.staged.finish(self.write(cancel)?)
    }

    fn check(&self, _: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let output = Output::ContainerDisk;
        self.staged.check(output, qcow2(self.job), cancel)
    }
}
