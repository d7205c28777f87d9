//! Exports an OVA: a tar of descriptor, manifest and disk, in that order, written in one pass.
//!
//! The length of the two small members is known before the disk is written (the descriptor is
//! padded with newlines), so the disk is streamed after them and they are filled in last (DMTF:
//! DSP0243, Open Virtualization Format 1.1). Headers are plain ustar with binary sizes from 8 GiB
//! on, because vSphere does not accept pax headers (vmware/open-vmdk, pull request 65).

use std::path::PathBuf;
use std::sync::OnceLock;

use super::archive::{self, ROOT};
use super::format::{ExportSetup, OutputSize, OutputSpec};
use super::ovf::{self, OvfHardware};
use super::staging::ExportStaging;
use super::{
    ExportJob, ExportedArtifact, Exporter, ExporterNeeds, PassTotals, check, thread_panicked, vmdk,
};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::vmdk::stream::GRAIN;
use winimg_formats::disk::{self, SECTOR};
use winimg_recipe::OutputFormat;

pub const SPEC: OutputSpec = OutputSpec {
    limit: Some(("an OVA", vmdk::MOST)),
    describes_machine: true,
    ..OutputSpec::new(".ova", OutputSize::Packed, |setup, staging| {
        Ok(vec![Box::new(OvaExporter::new(setup, staging)?)])
    })
};

pub struct OvaExporter<'j> {
    job: &'j ExportJob<'j>,
    hardware: OvfHardware,
    temporary: PathBuf,
    name: String,
    len: u64,
    front: OvaLayout,
    writer: vmdk::SharedVmdkWriter,
    written: OnceLock<vmdk::VmdkSummary>,
}

/// Offsets and sizes of the members after the descriptor's header.
#[derive(Default)]
struct OvaLayout {
    ovf_size: u64,
    mf: u64,
    mf_size: u64,
    vmdk: u64,
}

/// Renders the manifest. A space before the parenthesis would be rejected as an unknown algorithm.
fn render_manifest(members: &[(&str, &Digest)]) -> String {
    members
        .iter()
        .map(|(name, digest)| format!("SHA256({name})= {}\n", digest.hex()))
        .collect()
}

impl<'j> OvaExporter<'j> {
    fn new(setup: &'j ExportSetup<'_>, staging: &mut ExportStaging) -> Result<Self> {
        let (job, len, identity) = (setup.job, setup.len(), &setup.identity);
        let options = setup.outputs.ova().cloned().unwrap_or_default();
        let hardware = OvfHardware::choose(job, &options, setup.sink);
        let name = job.file_name(OutputFormat::Ova);
        let (file, temporary) = staging.create(&name)?;
        let longest = vmdk::VmdkSummary {
            bytes: u64::MAX,
            populated: u64::MAX,
            sha256: identity.clone(),
            crc: 0,
        };
        let mut ova = Self {
            job,
            hardware,
            name,
            len,
            front: OvaLayout::default(),
            writer: vmdk::SharedVmdkWriter::default(),
            written: OnceLock::new(),
            temporary: temporary.clone(),
        };
        let ovf_size = ova.render_ovf(&longest)?.len() as u64;
        let mf_size = render_manifest(&[
            (&ova.member_name("ovf"), identity),
            (&ova.disk_name(), identity),
        ])
        .len() as u64;
        let mf = 2 * SECTOR + ovf_size.next_multiple_of(SECTOR);
        ova.front = OvaLayout {
            ovf_size,
            mf,
            mf_size,
            vmdk: mf + mf_size.next_multiple_of(SECTOR) + SECTOR,
        };
        let stream = vmdk::VmdkStream::new(file, temporary, ova.front.vmdk);
        let descriptor =
            vmdk::render_descriptor(vmdk::VmdkExtent::Stream, &ova.disk_name(), len, identity);
        let writer = vmdk::VmdkWriter::begin(len, &descriptor, stream)?;
        ova.writer = vmdk::SharedVmdkWriter::new(writer);
        Ok(ova)
    }

    fn member_name(&self, extension: &str) -> String {
        format!("{}.{extension}", self.job.name)
    }

    fn disk_name(&self) -> String {
        format!("{}-disk1.vmdk", self.job.name)
    }

    fn render_ovf(&self, disc: &vmdk::VmdkSummary) -> Result<String> {
        ovf::render(
            self.job,
            &self.hardware,
            &ovf::OvfDiskInfo {
                file: self.disk_name(),
                file_bytes: disc.bytes,
                capacity: self.len,
                populated: disc.populated,
            },
        )
    }

    /// Completes the VMDK and the tar, and fills in the members before the disk.
    fn close(&self) -> Result<vmdk::VmdkSummary> {
        let (disc, stream) = self.writer.end()?;
        let front = &self.front;
        let mut ovf = self.render_ovf(&disc)?.into_bytes();
        ovf.resize(front.ovf_size as usize, b'\n');
        let digest = Digest::sha256_of(&ovf);
        let names = (
            self.member_name("ovf"),
            self.member_name("mf"),
            self.disk_name(),
        );
        let mf = render_manifest(&[(&names.0, &digest), (&names.2, &disc.sha256)]);
        let epoch = self.job.epoch;
        let header = archive::build_header(&names.0, front.ovf_size, epoch, ROOT)?;
        stream.write(&header, 0)?;
        stream.write(&ovf, SECTOR)?;
        let header = archive::build_header(&names.1, front.mf_size, epoch, ROOT)?;
        stream.write(&header, front.mf - SECTOR)?;
        stream.write(mf.as_bytes(), front.mf)?;
        let header = archive::build_header(&names.2, disc.bytes, epoch, ROOT)?;
        stream.write(&header, front.vmdk - SECTOR)?;
        // A VMDK consists of whole sectors, so only the tar's end marker follows.
        stream.write(&[0; 1024], stream.at)?;
        let synced = stream.file.sync_all();
        synced.map_err(|e| Error::io("sync", &self.temporary, e))?;
        Ok(disc)
    }

    /// Reads members, manifest and descriptor back and verifies them.
    fn check_members(&self, disc: &vmdk::VmdkSummary) -> Result<disk::ova::OvaFile> {
        let ova = disk::ova::OvaFile::open(&self.temporary)?;
        let names: Vec<_> = ova.members.iter().map(|m| m.name.clone()).collect();
        let expected = vec![
            self.member_name("ovf"),
            self.member_name("mf"),
            self.disk_name(),
        ];
        check::require_equal(&self.name, "list of members", expected, names)?;
        let (descriptor, vmdk) = (ova.find_member("ovf")?, ova.find_member("vmdk")?);
        let places = (self.front.vmdk, vmdk.offset);
        check::require_equal(&self.name, "place of the disk", places.0, places.1)?;
        let digest = Digest::sha256_of(ova.read_text(descriptor)?.as_bytes());
        let lines = [
            (descriptor.name.as_str(), &digest),
            (vmdk.name.as_str(), &disc.sha256),
        ];
        let mf = ova.read_text(ova.find_member("mf")?)?;
        check::require_equal(&self.name, "manifest", render_manifest(&lines), mf)?;

        let sizes = ovf::parse_sizes(&ova.read_text(ova.find_member("ovf")?)?)?;
        let found = (ova.find_member("vmdk")?.size, self.len, disc.populated);
        check::require_equal(&self.name, "descriptor", found, sizes)?;
        Ok(ova)
    }
}

impl Exporter for OvaExporter<'_> {
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
        let disc = self.close()?;
        self.written.get_or_init(|| disc);
        Ok(())
    }

    /// Computes the file's digest in parallel with the comparison, because it includes the front,
    /// which is written last.
    fn check(&self, totals: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let disc = self.written.get().ok_or_else(vmdk::out_of_order)?;
        let file = std::thread::scope(|scope| {
            let part = self.front.vmdk..self.front.vmdk + disc.bytes;
            let whole = scope.spawn(|| check::hash_file(&self.temporary, part, cancel));
            let vmdk = self.check_members(disc)?.open_disk()?;
            let (grains, stored) = (disc.populated / GRAIN, vmdk.stored_grains());
            check::require_equal(&self.name, "number of grains", grains, stored)?;
            check::check_content(&self.name, &vmdk, totals, self.job.count_threads(), cancel)?;
            let file = whole.join().unwrap_or_else(|_| Err(thread_panicked()))?;
            check::require_equal(&self.name, "disk", disc.crc, file.crc)?;
            Ok::<_, Error>(file)
        })?;
        Ok(ExportedArtifact {
            kind: OutputFormat::Ova.name(),
            file: self.name.clone(),
            bytes: file.bytes,
            sha256: file.sha256,
            disk: None,
            checked: vec![
                "members and their order",
                "manifest digests",
                "descriptor sizes",
                "VMDK markers, end-of-stream last",
                check::CONTENT,
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_line_has_no_blank_before_its_parenthesis() {
        let digest = Digest::sha256_of(b"abc");
        assert_eq!(
            render_manifest(&[("a.ovf", &digest)]),
            "SHA256(a.ovf)= ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"
        );
    }
}
