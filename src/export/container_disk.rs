//! Exports a KubeVirt containerDisk: the qcow2 as the only layer of a container image, in a tar
//! with an OCI layout.
//!
//! The disk is in `/disk`, readable by the user qemu (UID 107; KubeVirt user guide: containerDisk).
//! The layer is not compressed, because the disk is. The platform is that of the nodes that pull
//! it, linux/amd64, not the guest's (OCI: Image Format Specification 1.1).

use std::path::PathBuf;

use serde_json::{Value, json};

use super::archive::{ArchiveSummary, ROOT, StagedArchive, TarArchive, TarOwner};
use super::format::{OutputSize, OutputSpec};
use super::staging::ExportStaging;
use super::{ExportJob, ExportedArtifact, Exporter, PassTotals};
use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_recipe::OutputFormat;

const QEMU: TarOwner = TarOwner {
    id: 107,
    mode: 0o440,
};

pub const SPEC: OutputSpec = OutputSpec {
    about: "KubeVirt",
    made_from: &[OutputFormat::Qcow2],
    ..OutputSpec::new(".oci.tar", OutputSize::Packed, |setup, staging| {
        let made = ContainerDiskExporter::new(setup.job, staging)?;
        Ok(vec![Box::new(made)])
    })
};

struct ContainerDiskExporter<'j> {
    job: &'j ExportJob<'j>,
    staged: StagedArchive,
    /// Temporary path of the qcow2.
    disk: PathBuf,
}

/// A document of the image, stored under its digest.
struct OciBlob {
    bytes: Vec<u8>,
    digest: Digest,
}

impl OciBlob {
    fn new(value: &Value) -> Self {
        let bytes = value.to_string().into_bytes();
        Self {
            digest: Digest::sha256_of(&bytes),
            bytes,
        }
    }

    fn to_descriptor(&self, media_type: &str) -> Value {
        render_descriptor(media_type, &self.digest, self.bytes.len() as u64)
    }
}

fn render_descriptor(media_type: &str, digest: &Digest, size: u64) -> Value {
    json!({
        "mediaType": format!("application/vnd.oci.image.{media_type}"),
        "digest": format!("sha256:{}", digest.hex()),
        "size": size,
    })
}

fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

impl<'j> ContainerDiskExporter<'j> {
    fn new(job: &'j ExportJob<'_>, staging: &mut ExportStaging) -> Result<Self> {
        Ok(Self {
            job,
            staged: StagedArchive::new(job.file_name(OutputFormat::ContainerDisk), staging)?,
            disk: staging.temporary_path(&job.file_name(OutputFormat::Qcow2)),
        })
    }

    fn write_layer(&self, archive: &mut TarArchive<'_>, cancel: &Cancel) -> Result<()> {
        let name = format!("disk/{}", self.job.file_name(OutputFormat::Qcow2));
        archive.add_file(&name, QEMU, &self.disk, cancel)?;
        archive.end()
    }

    fn format_created(&self) -> String {
        let time = jiff::Timestamp::from_second(self.job.epoch);
        time.map(|t| t.to_string()).unwrap_or_default()
    }

    fn render_config(&self, layer: &ArchiveSummary) -> Value {
        json!({
            "architecture": "amd64",
            "os": "linux",
            "created": self.format_created(),
            "config": {},
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", layer.sha256.hex())] },
        })
    }

    fn render_manifest(&self, config: &OciBlob, layer: &ArchiveSummary) -> Value {
        let guest = self.job.guest;
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.to_descriptor("config.v1+json"),
            "layers": [render_descriptor("layer.v1.tar", &layer.sha256, layer.bytes)],
            "annotations": {
                "org.opencontainers.image.title": self.job.name,
                "org.opencontainers.image.description":
                    format!("{} {}", guest.release, guest.edition),
                "org.opencontainers.image.version": guest.build,
                "org.opencontainers.image.created": self.format_created(),
            },
        })
    }

    fn write(&self, cancel: &Cancel) -> Result<TarArchive<'_>> {
        // The tar has the layer's digest in its path and in the manifest before the layer itself,
        // so the layer is written once to measure it.
        let mut measured = TarArchive::measure(self.job.epoch);
        self.write_layer(&mut measured, cancel)?;
        let layer = measured.finish();
        let config = OciBlob::new(&self.render_config(&layer));
        let manifest = OciBlob::new(&self.render_manifest(&config, &layer));
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [manifest.to_descriptor("manifest.v1+json")],
        });
        let mut archive = TarArchive::new(&self.staged, self.job.epoch);
        archive.add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        archive.add("index.json", index.to_string().as_bytes())?;
        for blob in [&manifest, &config] {
            archive.add(&blob_path(&blob.digest), &blob.bytes)?;
        }
        archive.begin(&blob_path(&layer.sha256), layer.bytes, ROOT)?;
        self.write_layer(&mut archive, cancel)?;
        archive.end()?;
        Ok(archive)
    }
}

impl Exporter for ContainerDiskExporter<'_> {
    fn finish(&self, _: &PassTotals, cancel: &Cancel) -> Result<()> {
        self.staged.finish(self.write(cancel)?)
    }

    fn check(&self, _: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let output = OutputFormat::ContainerDisk;
        self.staged
            .check(output, self.job.file_name(OutputFormat::Qcow2), cancel)
    }
}
