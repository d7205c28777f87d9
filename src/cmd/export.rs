//! `winimg export`: other formats from an image that is already built.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cli::{self, Format};
use crate::engine::phase;
use crate::export::{self, GuestFacts, Job};
use crate::record::Manifest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_formats::disk::{Image, gpt};
use winimg_formats::wim::Release;
use winimg_recipe::recipe::{AmiSpec, BoxSpec, DiskBus, Firmware, Outputs, OvaSpec};

use super::{Context, partitions, print};

const CPUS: u32 = 4;
const MEMORY: u64 = 4 << 30;

pub fn run(args: &cli::Export, context: &Context) -> Result<()> {
    let started = Instant::now();
    let image = std::path::absolute(&args.image).map_err(|e| Error::io("find", &args.image, e))?;
    let beside = image.parent().unwrap_or(Path::new("/")).to_path_buf();
    let directory = args.output.clone().unwrap_or_else(|| beside.clone());
    std::fs::create_dir_all(&directory).map_err(|e| {
        let error = Error::io("create the output folder", &directory, e);
        error.cure("give another folder with --output, one that you may write to")
    })?;
    let manifest = manifest(&beside, &image)?;
    let firmware = firmware(&image, context)?;
    let outputs = outputs(&args.to, firmware);
    let guest = guest(&manifest)?;
    let job = Job {
        // It may come from elsewhere: a file that it names is not read.
        source: Image::alone(&image),
        name: &manifest.recipe.name,
        outputs: &outputs,
        directory: &directory,
        firmware,
        secure_boot: false,
        // In-box on every Windows since 2012 R2, whatever the image was built on.
        disk_bus: DiskBus::Ahci,
        guest: &guest,
        cpus: CPUS,
        memory: MEMORY,
        nested_virtualization: false,
        epoch: super::sign::epoch()?,
        threads: 0,
        properties: &[],
    };
    let artifacts = phase::carry_out(Phase::Export, None, &context.sink, || {
        export::export(&job, context.sink.as_ref(), &context.cancel)
    })?;
    let mut text = String::new();
    for artifact in &artifacts {
        text += &format!(
            "{}  {}\n",
            artifact.sha256,
            directory.join(&artifact.file).display()
        );
    }
    print(&text)?;
    context.sink.emit(&Event::Finished {
        output: directory.display().to_string(),
        artifacts: artifacts.iter().map(Into::into).collect(),
        seconds: started.elapsed().as_secs_f64(),
        unchanged: false,
    });
    Ok(())
}

/// The manifest beside the image, which says what the image holds.
fn manifest(beside: &Path, image: &Path) -> Result<Manifest> {
    let path: PathBuf = beside.join("manifest.json");
    Manifest::read(&path).map_err(|e| {
        Error::new(
            Kind::Export,
            "an export needs the manifest beside the image",
        )
        .at(image.display())
        .because(e)
        .cure("export from the build's output directory")
    })
}

/// GPT is UEFI, MBR is BIOS: Windows Setup installs no other pair.
fn firmware(image: &Path, context: &Context) -> Result<Firmware> {
    let (_, table) = partitions::read(image, &context.cancel)?;
    Ok(match table.style {
        gpt::Style::Mbr => Firmware::Bios,
        _ => Firmware::Uefi,
    })
}

fn outputs(to: &[Format], firmware: Firmware) -> Outputs {
    let boot_mode = match firmware {
        Firmware::Uefi => "uefi",
        Firmware::Bios => "legacy-bios",
    };
    let vagrant = |format| to.contains(&format).then(BoxSpec::default);
    Outputs {
        raw: to.contains(&Format::Raw),
        vhd: to.contains(&Format::Vhd),
        vhd_dynamic: to.contains(&Format::VhdDynamic),
        vhdx: to.contains(&Format::Vhdx),
        vhdx_fixed: to.contains(&Format::VhdxFixed),
        vmdk: to.contains(&Format::Vmdk),
        vmdk_flat: to.contains(&Format::VmdkFlat),
        qcow2: to.contains(&Format::Qcow2),
        vma: to.contains(&Format::Vma),
        ova: to.contains(&Format::Ova).then_some(OvaSpec {
            hardware_version: None,
        }),
        ami: to.contains(&Format::Ami).then(|| AmiSpec {
            boot_mode: boot_mode.into(),
            license_type: "AWS".into(),
        }),
        box_hyperv: vagrant(Format::BoxHyperv),
        box_libvirt: vagrant(Format::BoxLibvirt),
        box_virtualbox: vagrant(Format::BoxVirtualbox),
        container_disk: to.contains(&Format::ContainerDisk),
    }
}

fn guest(manifest: &Manifest) -> Result<GuestFacts> {
    let windows = &manifest.windows;
    let release = Release::ALL
        .into_iter()
        .find(|r| r.year() == windows.release)
        .ok_or_else(|| {
            Error::new(
                Kind::Export,
                "the manifest names a release that is not known",
            )
            .found(&windows.release)
        })?;
    let build = windows
        .build
        .strip_prefix("10.0.")
        .unwrap_or(&windows.build);
    Ok(GuestFacts {
        release,
        edition: windows.edition.clone(),
        build: build.into(),
    })
}
