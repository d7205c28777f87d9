//! An OVA: a tar of descriptor, manifest and disk, in that order, written in one pass.
//!
//! The two small members have a known length before the disk is written (the descriptor is padded with newlines to it),
//! so the disk streams behind them and they are filled in last (DMTF: DSP0243, Open Virtualization Format 1.1). Headers
//! are plain ustar with binary sizes from 8 GiB; vSphere does not take pax headers (vmware/open-vmdk, pull request 65).

use std::path::PathBuf;
use std::sync::OnceLock;

use super::archive::{self, NOBODY};
use super::ovf::{self, Hardware};
use super::staging::Staging;
use super::{Artifact, Exporter, Job, Needs, Totals, check, thread_panicked, vmdk};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::vmdk::GRAIN;
use winimg_formats::disk::{self, SECTOR};
use winimg_recipe::recipe::target::Output;

pub struct Ova<'j> {
    job: &'j Job<'j>,
    hardware: Hardware,
    temporary: PathBuf,
    name: String,
    len: u64,
    front: Front,
    writer: vmdk::Slot,
    written: OnceLock<vmdk::Written>,
}

/// Where the members are: the descriptor first.
#[derive(Default)]
struct Front {
    ovf_size: u64,
    mf: u64,
    mf_size: u64,
    vmdk: u64,
}

/// The manifest's lines. No blank before the parenthesis: that is refused as an unknown algorithm.
fn manifest(members: &[(&str, &Digest)]) -> String {
    let line = |(name, digest): &(&str, &Digest)| format!("SHA256({name})= {}\n", digest.hex());
    members.iter().map(line).collect()
}

impl<'j> Ova<'j> {
    pub fn new(
        job: &'j Job<'_>,
        hardware: Hardware,
        len: u64,
        identity: &Digest,
        staging: &mut Staging,
    ) -> Result<Self> {
        let name = format!("{}.ova", job.name);
        let (file, temporary) = staging.create(&name)?;
        let longest = vmdk::Written {
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
            front: Front::default(),
            writer: vmdk::Slot::default(),
            written: OnceLock::new(),
            temporary: temporary.clone(),
        };
        let ovf_size = ova.ovf(&longest)?.len() as u64;
        let mf_size =
            manifest(&[(&ova.member("ovf"), identity), (&ova.disc(), identity)]).len() as u64;
        let mf = 2 * SECTOR + ovf_size.next_multiple_of(SECTOR);
        ova.front = Front {
            ovf_size,
            mf,
            mf_size,
            vmdk: mf + mf_size.next_multiple_of(SECTOR) + SECTOR,
        };
        let stream = vmdk::Stream::new(file, temporary, ova.front.vmdk);
        let descriptor = vmdk::descriptor(vmdk::Extent::Stream, &ova.disc(), len, identity);
        let writer = vmdk::Writer::begin(len, &descriptor, stream)?;
        ova.writer = vmdk::Slot::new(writer);
        Ok(ova)
    }

    fn member(&self, extension: &str) -> String {
        format!("{}.{extension}", self.job.name)
    }

    fn disc(&self) -> String {
        format!("{}-disk1.vmdk", self.job.name)
    }

    fn ovf(&self, disc: &vmdk::Written) -> Result<String> {
        ovf::render(
            self.job,
            &self.hardware,
            &ovf::Disc {
                file: self.disc(),
                file_bytes: disc.bytes,
                capacity: self.len,
                populated: disc.populated,
            },
        )
    }

    /// Ends the VMDK and the tar, and fills in the members before it.
    fn close(&self) -> Result<vmdk::Written> {
        let (disc, stream) = self.writer.end()?;
        let front = &self.front;
        let mut ovf = self.ovf(&disc)?.into_bytes();
        ovf.resize(front.ovf_size as usize, b'\n');
        let digest = Digest::sha256_of(&ovf);
        let names = (self.member("ovf"), self.member("mf"), self.disc());
        let mf = manifest(&[(&names.0, &digest), (&names.2, &disc.sha256)]);
        let header = |name: &str, size: u64| archive::header(name, size, self.job.epoch, NOBODY);
        stream.write(&header(&names.0, front.ovf_size)?, 0)?;
        stream.write(&ovf, SECTOR)?;
        stream.write(&header(&names.1, front.mf_size)?, front.mf - SECTOR)?;
        stream.write(mf.as_bytes(), front.mf)?;
        stream.write(&header(&names.2, disc.bytes)?, front.vmdk - SECTOR)?;
        // A VMDK is whole sectors: no padding, only the tar's end.
        stream.write(&[0; 1024], stream.at)?;
        let synced = stream.file.sync_all();
        synced.map_err(|e| Error::io("sync", &self.temporary, e))?;
        Ok(disc)
    }

    /// Members, manifest and descriptor as a reader sees them.
    fn check_members(&self, disc: &vmdk::Written) -> Result<disk::ova::Ova> {
        let ova = disk::ova::Ova::open(&self.temporary)?;
        let names: Vec<_> = ova.members.iter().map(|m| m.name.clone()).collect();
        let expected = vec![self.member("ovf"), self.member("mf"), self.disc()];
        check::same(&self.name, "list of members", expected, names)?;
        let (descriptor, vmdk) = (ova.member("ovf")?, ova.member("vmdk")?);
        let places = (self.front.vmdk, vmdk.offset);
        check::same(&self.name, "place of the disk", places.0, places.1)?;
        let digest = Digest::sha256_of(ova.text(descriptor)?.as_bytes());
        let lines = [
            (descriptor.name.as_str(), &digest),
            (vmdk.name.as_str(), &disc.sha256),
        ];
        let mf = ova.text(ova.member("mf")?)?;
        check::same(&self.name, "manifest", manifest(&lines), mf)?;

        let sizes = ovf::sizes(&ova.text(ova.member("ovf")?)?)?;
        let found = (ova.member("vmdk")?.size, self.len, disc.populated);
        check::same(&self.name, "descriptor", found, sizes)?;
        Ok(ova)
    }
}

impl Exporter for Ova<'_> {
    fn needs(&self) -> Needs {
        Needs {
            stream: true,
            ..Needs::default()
        }
    }

    fn append(&self, index: u64, packed: &[u8]) -> Result<()> {
        self.writer.append(index, packed)
    }

    fn finish(&self, _: &Totals, _: &Cancel) -> Result<()> {
        let disc = self.close()?;
        self.written.get_or_init(|| disc);
        Ok(())
    }

    /// The whole file's digest needs the front, which is written last: it is taken here, beside the comparison.
    fn check(&self, totals: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let disc = self.written.get().ok_or_else(vmdk::out_of_order)?;
        let file = std::thread::scope(|scope| {
            let part = self.front.vmdk..self.front.vmdk + disc.bytes;
            let whole = scope.spawn(|| check::digest(&self.temporary, part, cancel));
            let vmdk = self.check_members(disc)?.disk()?;
            let (grains, stored) = (disc.populated / GRAIN, vmdk.stored_grains());
            check::same(&self.name, "number of grains", grains, stored)?;
            check::content(&self.name, &vmdk, totals, self.job.threads(), cancel)?;
            let file = whole.join().unwrap_or_else(|_| Err(thread_panicked()))?;
            check::same(&self.name, "disk", disc.crc, file.crc)?;
            Ok::<_, Error>(file)
        })?;
        Ok(Artifact {
            kind: Output::Ova.name(),
            file: self.name.clone(),
            bytes: file.bytes,
            sha256: file.sha256,
            disk: None,
            checked: [
                "members and their order",
                "manifest digests",
                "descriptor sizes",
                "VMDK markers, end-of-stream last",
                check::CONTENT,
            ]
            .map(String::from)
            .to_vec(),
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
            manifest(&[("a.ovf", &digest)]),
            "SHA256(a.ovf)= ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"
        );
    }
}
