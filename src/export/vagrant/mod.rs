//! Vagrant boxes: a disk of the export in a tar, with what its provider makes a machine of.
//!
//! The tar is not compressed, since its disk is (HashiCorp: Box File Format). Of Hyper-V's machines Vagrant reads an XML file of
//! the form that older exports have, with which any host can write a box (hashicorp/vagrant: VagrantVM.psm1, New-VagrantVMXML).
//! In it every element that is read has an attribute: PowerShell gives the text of one without as a string, which has no `#text`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::archive::{Archive, NOBODY, Staged, size};
use super::ovf::{self, Hardware};
use super::staging::Staging;
use super::{Artifact, Exporter, Job, Totals, fill};
use winimg_base::error::Result;
use winimg_base::event::{Cancel, Sink};
use winimg_base::markup::escape_xml;
use winimg_formats::disk::RawDisk;
use winimg_formats::disk::vmdk::{GRAIN, StreamVmdk};
use winimg_recipe::recipe::target::Output;
use winimg_recipe::recipe::{BoxSpec, DiskBus, Firmware, OvaSpec};

/// VirtualBox' prefix. Vagrant asks for the address of the first adapter at import, and changes it then.
const MAC: &str = "080027000001";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Hyperv,
    Libvirt,
    Virtualbox,
}

impl Provider {
    fn name(self) -> &'static str {
        match self {
            Self::Hyperv => "hyperv",
            Self::Libvirt => "libvirt",
            Self::Virtualbox => "virtualbox",
        }
    }

    fn output(self) -> Output {
        match self {
            Self::Hyperv => Output::BoxHyperv,
            Self::Libvirt => Output::BoxLibvirt,
            Self::Virtualbox => Output::BoxVirtualbox,
        }
    }

    /// The ending of the disk that the box holds.
    fn disk(self) -> &'static str {
        match self {
            Self::Hyperv => "vhdx",
            Self::Libvirt => "qcow2",
            Self::Virtualbox => "vmdk",
        }
    }
}

pub struct VagrantBox<'j> {
    job: &'j Job<'j>,
    provider: Provider,
    spec: &'j BoxSpec,
    staged: Staged,
    /// Its name, and the file under its temporary one.
    disk: (String, PathBuf),
}

impl<'j> VagrantBox<'j> {
    pub fn new(
        job: &'j Job<'_>,
        provider: Provider,
        spec: &'j BoxSpec,
        staging: &mut Staging,
        sink: &dyn Sink,
    ) -> Result<Self> {
        let disk = format!("{}.{}", job.name, provider.disk());
        let has_bus = match provider {
            // The controller of its bus has a driver in every Windows.
            Provider::Hyperv => true,
            Provider::Libvirt => job.disk_bus != DiskBus::Nvme,
            Provider::Virtualbox => job.disk_bus == DiskBus::Ahci,
        };
        if !has_bus {
            sink.warn(format!(
                "the box for {} names a SATA controller, and whether this image's Windows starts from it is not known; \
                 build with disk_bus = \"ahci\"",
                provider.name()
            ));
        }
        Ok(Self {
            job,
            provider,
            spec,
            staged: Staged::new(format!("{}-{}.box", job.name, provider.name()), staging)?,
            disk: (disk.clone(), staging.temporary(&disk)),
        })
    }

    fn vagrantfile(&self) -> Result<String> {
        let is = |provider| self.provider == provider;
        let bus = match self.job.disk_bus {
            DiskBus::Virtio => "virtio",
            DiskBus::Ahci | DiskBus::Nvme => "sata",
        };
        let mut values = self.values();
        values["communicator"] = self.spec.communicator.clone().into();
        values["winrm"] = (self.spec.communicator == "winrm").into();
        values["mac"] = is(Provider::Virtualbox).then_some(MAC).into();
        values["hyperv"] = is(Provider::Hyperv).into();
        values["libvirt"] = is(Provider::Libvirt).into();
        values["virtualbox"] = is(Provider::Virtualbox).into();
        values["libvirt_bus"] = bus.into();
        // Ruby in double quotes: a name and Windows' own words have nothing in them that it takes for more.
        fill(include_str!("Vagrantfile"), str::to_owned, &values)
    }

    fn values(&self) -> Value {
        let job = self.job;
        json!({
            "name": job.name,
            "os": format!("{} {}", job.guest.release, job.guest.edition),
            "build": job.guest.build,
            "cpus": job.cpus,
            "memory": job.memory >> 20,
            "uefi": job.firmware == Firmware::Uefi,
        })
    }

    /// Hyper-V's machine.
    fn machine(&self) -> Result<String> {
        let mut values = self.values();
        let generation = match self.job.firmware {
            Firmware::Bios => 1,
            Firmware::Uefi => 2,
        };
        values["subtype"] = (generation - 1).into();
        values["secure_boot"] = if self.job.secure_boot {
            "True"
        } else {
            "False"
        }
        .into();
        values["disk"] = self.disk.0.clone().into();
        fill(include_str!("hyperv.xml"), escape_xml, &values)
    }

    /// VirtualBox' machine.
    fn ovf(&self, disk: &str, capacity: u64) -> Result<String> {
        let path = &self.disk.1;
        let spec = OvaSpec {
            hardware_version: None,
        };
        let populated = StreamVmdk::open(RawDisk::open(path)?)?.stored_grains() * GRAIN;
        let disc = ovf::Disc {
            file: disk.into(),
            file_bytes: size(path)?,
            capacity,
            populated,
        };
        ovf::render(self.job, &Hardware::sata(self.job, &spec), &disc)
    }

    fn write(&self, len: u64, cancel: &Cancel) -> Result<Archive<'_>> {
        let mut archive = Archive::new(&self.staged, self.job.epoch);
        let mut metadata = json!({ "provider": self.provider.name() });
        if self.provider == Provider::Libvirt {
            metadata["format"] = "qcow2".into();
            // The volume is made of so many GiB; a smaller one would cut the disk.
            metadata["virtual_size"] = len.div_ceil(1 << 30).into();
        }
        archive.add("metadata.json", format!("{metadata:#}\n").as_bytes())?;
        archive.add("Vagrantfile", self.vagrantfile()?.as_bytes())?;
        let disk = match self.provider {
            Provider::Libvirt => "box.img".to_owned(),
            Provider::Virtualbox => {
                let disk = "box-disk001.vmdk";
                archive.add("box.ovf", self.ovf(disk, len)?.as_bytes())?;
                disk.to_owned()
            }
            Provider::Hyperv => {
                let name = format!("Virtual Machines/{}.xml", self.job.name);
                archive.add(&name, self.machine()?.as_bytes())?;
                format!("Virtual Hard Disks/{}", self.disk.0)
            }
        };
        archive.add_file(&disk, NOBODY, &self.disk.1, cancel)?;
        archive.end()?;
        Ok(archive)
    }
}

impl Exporter for VagrantBox<'_> {
    fn finish(&self, totals: &Totals, cancel: &Cancel) -> Result<()> {
        self.staged.finish(self.write(totals.len, cancel)?)
    }

    fn check(&self, _: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let output = self.provider.output();
        self.staged.check(output, self.disk.0.clone(), cancel)
    }
}
