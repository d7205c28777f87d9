//! Exports Vagrant boxes: an exported disk in a tar, with the VM's configuration for the provider.
//!
//! The tar is not compressed, because the disk is (HashiCorp: Box File Format). For Hyper-V,
//! Vagrant reads the XML format of older exports, which any host can write (hashicorp/vagrant:
//! VagrantVM.psm1, New-VagrantVMXML). Every element that it reads has an attribute: without one,
//! PowerShell returns the text as a string, which has no `#text`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::archive::{ROOT, StagedArchive, TarArchive, size};
use super::format::{ExportSetup, OutputSize, OutputSpec};
use super::ovf::{self, OvfHardware};
use super::staging::ExportStaging;
use super::{ExportJob, ExportedArtifact, Exporter, PassTotals, fill};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_base::markup::escape_xml;
use winimg_formats::disk::RawDisk;
use winimg_formats::disk::vmdk::stream::{GRAIN, StreamVmdk};
use winimg_recipe::{BoxOptions, DiskBus, Firmware, OutputFormat, OvaOptions};

/// A MAC address with VirtualBox' prefix. Vagrant needs the first adapter's address at import, and
/// then changes it.
const MAC: &str = "080027000001";

pub const HYPERV: OutputSpec = OutputSpec {
    about: "Vagrant",
    describes_machine: true,
    made_from: &[OutputFormat::Vhdx],
    ..OutputSpec::new("-hyperv.box", OutputSize::Flat, |setup, staging| {
        let made = VagrantBox::new(setup, VagrantProvider::Hyperv, staging)?;
        Ok(vec![Box::new(made)])
    })
};

pub const LIBVIRT: OutputSpec = OutputSpec {
    describes_machine: true,
    made_from: &[OutputFormat::Qcow2],
    ..OutputSpec::new("-libvirt.box", OutputSize::Packed, |setup, staging| {
        let made = VagrantBox::new(setup, VagrantProvider::Libvirt, staging)?;
        Ok(vec![Box::new(made)])
    })
};

pub const VIRTUALBOX: OutputSpec = OutputSpec {
    describes_machine: true,
    made_from: &[OutputFormat::Vmdk],
    ..OutputSpec::new("-virtualbox.box", OutputSize::Packed, |setup, staging| {
        let made = VagrantBox::new(setup, VagrantProvider::Virtualbox, staging)?;
        Ok(vec![Box::new(made)])
    })
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VagrantProvider {
    Hyperv,
    Libvirt,
    Virtualbox,
}

impl VagrantProvider {
    fn name(self) -> &'static str {
        match self {
            Self::Hyperv => "hyperv",
            Self::Libvirt => "libvirt",
            Self::Virtualbox => "virtualbox",
        }
    }

    fn output(self) -> OutputFormat {
        match self {
            Self::Hyperv => OutputFormat::BoxHyperv,
            Self::Libvirt => OutputFormat::BoxLibvirt,
            Self::Virtualbox => OutputFormat::BoxVirtualbox,
        }
    }

    /// Returns the format of the box's disk.
    fn disk(self) -> OutputFormat {
        match self {
            Self::Hyperv => OutputFormat::Vhdx,
            Self::Libvirt => OutputFormat::Qcow2,
            Self::Virtualbox => OutputFormat::Vmdk,
        }
    }
}

struct VagrantBox<'j> {
    job: &'j ExportJob<'j>,
    provider: VagrantProvider,
    options: BoxOptions,
    staged: StagedArchive,
    /// File name and temporary path of the disk.
    disk: (String, PathBuf),
}

impl<'j> VagrantBox<'j> {
    fn new(
        setup: &'j ExportSetup<'_>,
        provider: VagrantProvider,
        staging: &mut ExportStaging,
    ) -> Result<Self> {
        let job = setup.job;
        let disk = job.file_name(provider.disk());
        let has_bus = match provider {
            // Every Windows has a driver for its controller.
            VagrantProvider::Hyperv => true,
            VagrantProvider::Libvirt => job.disk_bus != DiskBus::Nvme,
            VagrantProvider::Virtualbox => job.disk_bus == DiskBus::Ahci,
        };
        if !has_bus {
            setup.sink.warn(format!(
                "the box for {} names a SATA controller, and this image's Windows may not boot \
                 from it; build with disk_bus = \"ahci\"",
                provider.name()
            ));
        }
        Ok(Self {
            job,
            provider,
            options: setup
                .outputs
                .vagrant_box(provider.output())
                .cloned()
                .unwrap_or_default(),
            staged: StagedArchive::new(job.file_name(provider.output()), staging)?,
            disk: (disk.clone(), staging.temporary_path(&disk)),
        })
    }

    fn render_vagrantfile(&self) -> Result<String> {
        let provider = self.provider;
        let bus = match self.job.disk_bus {
            DiskBus::Virtio => "virtio",
            DiskBus::Ahci | DiskBus::Nvme => "sata",
        };
        let mut values = self.template_values();
        values["communicator"] = self.options.communicator.clone().into();
        values["winrm"] = (self.options.communicator == "winrm").into();
        values["mac"] = (provider == VagrantProvider::Virtualbox)
            .then_some(MAC)
            .into();
        values["hyperv"] = (provider == VagrantProvider::Hyperv).into();
        values["libvirt"] = (provider == VagrantProvider::Libvirt).into();
        values["virtualbox"] = (provider == VagrantProvider::Virtualbox).into();
        values["libvirt_bus"] = bus.into();
        // No escaping: names and Windows' editions have no special characters of Ruby strings.
        fill(include_str!("Vagrantfile"), str::to_owned, &values)
    }

    fn template_values(&self) -> Value {
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

    /// Renders the VM's configuration for Hyper-V.
    fn render_hyperv(&self) -> Result<String> {
        let mut values = self.template_values();
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

    /// Renders the OVF descriptor for VirtualBox.
    fn render_ovf(&self, disk: &str, capacity: u64) -> Result<String> {
        let path = &self.disk.1;
        let populated = StreamVmdk::open(RawDisk::open(path)?)?.stored_grains() * GRAIN;
        let disc = ovf::OvfDiskInfo {
            file: disk.into(),
            file_bytes: size(path)?,
            capacity,
            populated,
        };
        ovf::render(
            self.job,
            &OvfHardware::with_sata(self.job, &OvaOptions::default()),
            &disc,
        )
    }

    fn write(&self, len: u64, cancel: &Cancel) -> Result<TarArchive<'_>> {
        let mut archive = TarArchive::new(&self.staged, self.job.epoch);
        let mut metadata = json!({ "provider": self.provider.name() });
        if self.provider == VagrantProvider::Libvirt {
            metadata["format"] = "qcow2".into();
            // Rounded up: a smaller volume would truncate the disk.
            metadata["virtual_size"] = len.div_ceil(1 << 30).into();
        }
        archive.add("metadata.json", format!("{metadata:#}\n").as_bytes())?;
        archive.add("Vagrantfile", self.render_vagrantfile()?.as_bytes())?;
        let disk = match self.provider {
            VagrantProvider::Libvirt => "box.img".to_owned(),
            VagrantProvider::Virtualbox => {
                let disk = "box-disk001.vmdk";
                archive.add("box.ovf", self.render_ovf(disk, len)?.as_bytes())?;
                disk.to_owned()
            }
            VagrantProvider::Hyperv => {
                let name = format!("Virtual Machines/{}.xml", self.job.name);
                archive.add(&name, self.render_hyperv()?.as_bytes())?;
                format!("Virtual Hard Disks/{}", self.disk.0)
            }
        };
        archive.add_file(&disk, ROOT, &self.disk.1, cancel)?;
        archive.end()?;
        Ok(archive)
    }
}

impl Exporter for VagrantBox<'_> {
    fn finish(&self, totals: &PassTotals, cancel: &Cancel) -> Result<()> {
        self.staged.finish(self.write(totals.len, cancel)?)
    }

    fn check(&self, _: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let output = self.provider.output();
        self.staged.check(output, self.disk.0.clone(), cancel)
    }
}
