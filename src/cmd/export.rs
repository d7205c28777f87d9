//! `winimg export`: other formats from an image that is already built.
//!
//! The machine that some formats describe is taken from the manifest of that very image, found by its digest. Of any other
//! image it is guessed, and that is said.

use std::path::Path;
use std::time::Instant;

use crate::cli::{self, Format};
use crate::engine::phase;
use crate::export::{self, GuestFacts, Job};
use crate::record::built;
use crate::record::manifest::{Exported, Manifest};
use crate::verify::{Image as Installed, installed};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::io;
use winimg_formats::disk::{Image, gpt};
use winimg_formats::wim::Release;
use winimg_recipe::recipe::{AmiSpec, BoxSpec, DiskBus, Firmware, Outputs, OvaSpec};

use super::{Context, partitions, print, verify};

/// The machine that is guessed. Every Windows since 2012 R2 has a driver for AHCI.
const GUESS: Machine = Machine {
    secure_boot: false,
    disk_bus: DiskBus::Ahci,
    cpus: 4,
    memory: 4 << 30,
};

/// What an export needs to know of the machine beside its firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    secure_boot: bool,
    disk_bus: DiskBus,
    cpus: u32,
    /// Bytes.
    memory: u64,
}

/// What is known of the image before it is exported.
struct Known {
    name: String,
    firmware: Firmware,
    machine: Machine,
    guest: GuestFacts,
    exported: Exported,
    /// What of the machine is guessed, in words, and why.
    guessed: Option<(String, String)>,
}

pub fn run(args: &cli::Export, context: &Context) -> Result<()> {
    let started = Instant::now();
    let image = std::path::absolute(&args.image).map_err(|e| Error::io("find", &args.image, e))?;
    let beside = io::folder_of(&image).to_path_buf();
    let directory = args.output.clone().unwrap_or_else(|| beside.clone());
    let firmware = firmware(&image, context)?;
    let known = known(args, &image, firmware, context)?;
    if let Some((what, why)) = known
        .guessed
        .as_ref()
        .filter(|_| describes_machine(&args.to))
    {
        context.sink.warn(format!("{why}; guessed instead: {what}"));
    }
    std::fs::create_dir_all(&directory).map_err(|e| {
        let error = Error::io("create the output folder", &directory, e);
        error.cure("give another folder with --output, one that you may write to")
    })?;
    let outputs = outputs(&args.to, firmware, &known.exported);
    let job = Job {
        // It may come from elsewhere: a file that it names is not read.
        source: Image::alone(&image),
        name: &known.name,
        outputs: &outputs,
        directory: &directory,
        kept: &kept(&directory, &image, args.replace),
        firmware: known.firmware,
        secure_boot: known.machine.secure_boot,
        disk_bus: known.machine.disk_bus,
        guest: &known.guest,
        cpus: known.machine.cpus,
        memory: known.machine.memory,
        nested_virtualization: known.exported.nested_virtualization,
        epoch: known.exported.epoch,
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

/// From the manifest that lists the image, or else from the image itself.
fn known(args: &cli::Export, image: &Path, firmware: Firmware, context: &Context) -> Result<Known> {
    let path = match &args.manifest {
        Some(path) => path.clone(),
        None => io::folder_of(image).join(built::MANIFEST),
    };
    let why = match Manifest::read(&path) {
        Ok(manifest) if lists(&manifest, image)? => return of_manifest(&manifest, firmware),
        Ok(_) if args.manifest.is_some() => {
            return Err(
                Error::new(Kind::Export, "the manifest does not list this image")
                    .at(path.display())
                    .expected(format!("an artifact with the digest of {}", image.display()))
                    .cure("give the manifest of the build that made it, or none: its machine is guessed then"),
            );
        }
        Err(error) if args.manifest.is_some() => return Err(error),
        Ok(_) => format!("{} does not list {}", path.display(), image.display()),
        Err(_) => format!("there is no manifest of {}", image.display()),
    };
    let guest = guest_on(image, context)?;
    Ok(Known {
        name: name_of(image),
        firmware,
        machine: GUESS,
        guest,
        exported: Exported {
            epoch: super::sign::epoch()?,
            hardware_version: None,
            license_type: None,
            nested_virtualization: false,
            communicators: Default::default(),
        },
        guessed: Some((guess_in_words(), why)),
    })
}

fn guess_in_words() -> String {
    let Machine { cpus, memory, .. } = GUESS;
    format!(
        "a SATA controller, {cpus} processors, {} MiB of memory, no Secure Boot",
        memory >> 20
    )
}

/// Whether the image is one of the manifest's artifacts, whatever it is called now.
fn lists(manifest: &Manifest, image: &Path) -> Result<bool> {
    let about = std::fs::metadata(image).map_err(|e| Error::io("look at", image, e))?;
    // A file of another size need not be read.
    if manifest.artifacts.iter().all(|a| a.size != about.len()) {
        return Ok(false);
    }
    let hex = io::sha256(image)?.0.hex();
    Ok(manifest.artifacts.iter().any(|a| a.sha256 == hex))
}

/// A manifest of an earlier version says less of the machine.
fn of_manifest(manifest: &Manifest, firmware: Firmware) -> Result<Known> {
    let machine = manifest.machine.as_ref();
    let (bus, cpus, memory) = match machine {
        Some(machine) => (machine.disk_bus, machine.cpus, machine.memory),
        None => (None, None, None),
    };
    let mut guessed = Vec::new();
    if machine.is_none() {
        guessed.push("no Secure Boot".to_owned());
    }
    if bus.is_none() {
        guessed.push("a SATA controller".to_owned());
    }
    if cpus.is_none() || memory.is_none() {
        let Machine { cpus, memory, .. } = GUESS;
        guessed.push(format!(
            "{cpus} processors and {} MiB of memory",
            memory >> 20
        ));
    }
    let exported = match &manifest.export {
        Some(exported) => exported.clone(),
        None => Exported {
            epoch: super::sign::epoch()?,
            hardware_version: None,
            license_type: None,
            nested_virtualization: false,
            communicators: Default::default(),
        },
    };
    let why = "the image's manifest does not say all of its machine";
    Ok(Known {
        name: manifest.recipe.name.clone(),
        firmware: machine.map_or(firmware, |machine| machine.firmware),
        machine: Machine {
            secure_boot: machine.map_or(GUESS.secure_boot, |machine| machine.secure_boot),
            disk_bus: bus.unwrap_or(GUESS.disk_bus),
            cpus: cpus.unwrap_or(GUESS.cpus),
            memory: memory.unwrap_or(GUESS.memory),
        },
        guest: guest(manifest)?,
        exported,
        guessed: (!guessed.is_empty()).then(|| (guessed.join(", "), why.to_owned())),
    })
}

/// The image's own name without its extension, with a dash for what a file name of an artifact can't have.
fn name_of(image: &Path) -> String {
    let stem = image.file_stem().unwrap_or_default().to_string_lossy();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = stem
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .take(80)
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "image" } else { name }.to_owned()
}

/// The files of the output folder that the export must leave alone: the image itself, and unless they are to be replaced
/// the artifacts of a build.
fn kept(directory: &Path, image: &Path, replace: bool) -> Vec<String> {
    let mut kept = Vec::new();
    let absolute = |path: &Path| io::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if absolute(directory) == absolute(io::folder_of(image)) {
        let name = image.file_name().unwrap_or_default();
        kept.push(name.to_string_lossy().into_owned());
    }
    if let Ok(manifest) = Manifest::read(&directory.join(built::MANIFEST))
        && !replace
    {
        kept.extend(manifest.artifacts.into_iter().map(|a| a.file));
    }
    kept
}

/// Whether one of the formats holds more than the disk.
fn describes_machine(to: &[Format]) -> bool {
    to.iter().any(|format| {
        matches!(
            format,
            Format::Ova
                | Format::Vma
                | Format::BoxHyperv
                | Format::BoxLibvirt
                | Format::BoxVirtualbox
        )
    })
}

/// GPT is UEFI, MBR is BIOS: Windows Setup installs no other pair.
fn firmware(image: &Path, context: &Context) -> Result<Firmware> {
    let disks = partitions::read(image, &context.cancel)?;
    let [disk] = disks.as_slice() else {
        let names = disks.into_iter().filter_map(|disk| disk.name);
        return Err(Error::new(Kind::Export, "the image has several disks")
            .at(image.display())
            .expected("an image with one disk")
            .lines(names)
            .cure("unpack it with tar, and export the disk that holds Windows"));
    };
    match disk.table.style {
        gpt::Style::Gpt => Ok(Firmware::Uefi),
        gpt::Style::Mbr => Ok(Firmware::Bios),
        gpt::Style::None => Err(Error::new(Kind::Export, "the image has no partition table")
            .at(image.display())
            .expected("a disk with Windows on it")
            .cure("name a disk image; `winimg inspect` says what a file is")),
    }
}

fn outputs(to: &[Format], firmware: Firmware, exported: &Exported) -> Outputs {
    let boot_mode = match firmware {
        Firmware::Uefi => "uefi",
        Firmware::Bios => "legacy-bios",
    };
    let vagrant = |format, name| {
        let communicator = exported.communicators.get(name).cloned();
        let communicator = communicator.unwrap_or_else(|| BoxSpec::USUAL.into());
        to.contains(&format).then_some(BoxSpec { communicator })
    };
    let license_type = exported.license_type.clone();
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
            hardware_version: exported.hardware_version,
        }),
        ami: to.contains(&Format::Ami).then(|| AmiSpec {
            boot_mode: boot_mode.into(),
            license_type: license_type.unwrap_or_else(|| "AWS".into()),
        }),
        box_hyperv: vagrant(Format::BoxHyperv, "box_hyperv"),
        box_libvirt: vagrant(Format::BoxLibvirt, "box_libvirt"),
        box_virtualbox: vagrant(Format::BoxVirtualbox, "box_virtualbox"),
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

/// The same as the registry of the image has it.
fn guest_on(image: &Path, context: &Context) -> Result<GuestFacts> {
    let (disk, _work) = verify::opened(image, context)?;
    let windows = Installed::open(disk.as_ref()).map_err(|error| {
        Error::new(Kind::Export, error.fact().to_owned())
            .at(image.display())
            .lines(error.problem().lines.clone())
            .cure("export a file that its build's manifest lists, or a disk whose Windows can be read")
    })?;
    let found = installed(&windows).map_err(|finding| {
        Error::new(Kind::Export, finding.problem.in_one_line()).at(image.display())
    })?;
    let release = Release::ALL.into_iter().find(|r| r.build() == found.build);
    let Some(release) = release else {
        let known = Release::ALL.map(|r| format!("{} ({r})", r.build()));
        return Err(Error::new(
            Kind::Export,
            "the image holds a Windows that winimg does not export",
        )
        .at(image.display())
        .expected(known.join(", "))
        .found(format!("build {}", found.build))
        .cure("convert it with qemu-img"));
    };
    Ok(GuestFacts {
        release,
        edition: found.edition,
        build: format!("{}.{}", found.build, found.revision),
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn an_image_gives_its_name_as_far_as_artifacts_can_have_it() {
        for (image, expected) in [
            ("/a/foo.raw", "foo"),
            ("foo.tar.vhd", "foo.tar"),
            ("my image (1).qcow2", "my-image--1-"),
            ("-x.raw", "x"),
            ("größe.raw", "gr--e"),
            ("…", "image"),
        ] {
            assert_eq!(name_of(Path::new(image)), expected, "{image}");
        }
        assert_eq!(name_of(&PathBuf::from("x".repeat(200))).len(), 80);
    }
}
