//! `winimg export`: converts a finished image to other formats.
//!
//! Some formats describe the VM; its hardware is taken from the manifest that lists the image's
//! digest. Without one it is guessed, with a warning.

use std::path::Path;
use std::time::Instant;

use crate::cli;
use crate::engine::phase;
use crate::export::{self, ExportJob, GuestFacts};
use crate::record::manifest::{BuildManifest, ExportSettings};
use crate::record::writer;
use crate::verify::{InspectedImage, read_installed};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::io;
use winimg_formats::disk::{DiskImage, gpt};
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::{
    AmiOptions, BoxOptions, DiskBus, Firmware, OutputFormat, OutputOptions, Outputs, OvaOptions,
};

use super::disk::open_disk;
use super::{CommandContext, partitions, print};

/// Default VM hardware. Every Windows since 2012 R2 has a driver for AHCI.
const GUESS: ExportMachine = ExportMachine {
    secure_boot: false,
    disk_bus: DiskBus::Ahci,
    cpus: 4,
    memory: 4 << 30,
};

/// VM hardware that an export needs besides the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExportMachine {
    secure_boot: bool,
    disk_bus: DiskBus,
    cpus: u32,
    /// Bytes.
    memory: u64,
}

/// Facts about an image to export.
struct ExportFacts {
    name: String,
    firmware: Firmware,
    machine: ExportMachine,
    guest: GuestFacts,
    exported: ExportSettings,
    /// Description of the guessed hardware, and the reason.
    guessed: Option<(String, String)>,
}

pub fn run(args: &cli::ExportArgs, context: &CommandContext) -> Result<()> {
    let started = Instant::now();
    let image = std::path::absolute(&args.image).map_err(|e| Error::io("find", &args.image, e))?;
    let beside = io::folder_of(&image).to_path_buf();
    let directory = args.output.clone().unwrap_or_else(|| beside.clone());
    let firmware = detect_firmware(&image, context)?;
    let known = collect_facts(args, &image, firmware, context)?;
    if let Some((what, why)) = known.guessed.as_ref().filter(|_| {
        let mut specs = args.to.iter().map(|format| export::find_spec(*format));
        specs.any(|spec| spec.describes_machine)
    }) {
        context.sink.warn(format!("{why}; assuming {what}"));
    }
    std::fs::create_dir_all(&directory).map_err(|e| {
        let error = Error::io("create the output folder", &directory, e);
        error.cure("choose a writable folder with --output")
    })?;
    let outputs = select_outputs(&args.to, firmware, &known.exported);
    let job = ExportJob {
        // The image may be untrusted: files that it references are not read.
        source: DiskImage::from_file(&image),
        name: &known.name,
        outputs: &outputs,
        directory: &directory,
        replaces_existing: args.replace,
        kept: &list_kept(&directory, &image),
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

/// Collects the facts from the manifest that lists the image, or else from the image itself.
fn collect_facts(
    args: &cli::ExportArgs,
    image: &Path,
    firmware: Firmware,
    context: &CommandContext,
) -> Result<ExportFacts> {
    let path = match &args.manifest {
        Some(path) => path.clone(),
        None => io::folder_of(image).join(writer::MANIFEST),
    };
    let why = match BuildManifest::read(&path) {
        Ok(manifest) if has_artifact(&manifest, image)? => {
            return from_manifest(&manifest, firmware);
        }
        Ok(_) if args.manifest.is_some() => {
            return Err(
                Error::new(Kind::Export, "the manifest does not list this image")
                    .at(path.display())
                    .expected(format!(
                        "an artifact with the digest of {}",
                        image.display()
                    ))
                    .cure(
                        "give the manifest of its build, \
                         or omit --manifest to use default hardware",
                    ),
            );
        }
        Err(error) if args.manifest.is_some() => return Err(error),
        Ok(_) => format!("{} does not list {}", path.display(), image.display()),
        Err(_) => format!("{} has no manifest", image.display()),
    };
    let guest = inspect_guest(image, context)?;
    Ok(ExportFacts {
        name: derive_name(image),
        firmware,
        machine: GUESS,
        guest,
        exported: ExportSettings {
            epoch: super::signers::read_epoch()?,
            hardware_version: None,
            license_type: None,
            nested_virtualization: false,
            communicators: Default::default(),
        },
        guessed: Some((describe_guess(), why)),
    })
}

fn describe_guess() -> String {
    let ExportMachine { cpus, memory, .. } = GUESS;
    format!(
        "a SATA controller, {cpus} processors, {} MiB of memory, no Secure Boot",
        memory >> 20
    )
}

/// Checks if the image is an artifact of the manifest, under any name.
fn has_artifact(manifest: &BuildManifest, image: &Path) -> Result<bool> {
    let about = std::fs::metadata(image).map_err(|e| Error::io("look at", image, e))?;
    // Hashing is unnecessary if no artifact has the same size.
    if manifest.artifacts.iter().all(|a| a.size != about.len()) {
        return Ok(false);
    }
    let hex = io::compute_sha256(image)?.0.hex();
    Ok(manifest.artifacts.iter().any(|a| a.sha256 == hex))
}

/// Collects the facts from a manifest; older manifests have fewer facts about the hardware.
fn from_manifest(manifest: &BuildManifest, firmware: Firmware) -> Result<ExportFacts> {
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
        let ExportMachine { cpus, memory, .. } = GUESS;
        guessed.push(format!(
            "{cpus} processors and {} MiB of memory",
            memory >> 20
        ));
    }
    let exported = match &manifest.export {
        Some(exported) => exported.clone(),
        None => ExportSettings {
            epoch: super::signers::read_epoch()?,
            hardware_version: None,
            license_type: None,
            nested_virtualization: false,
            communicators: Default::default(),
        },
    };
    let why = "the image's manifest does not describe all of the hardware";
    Ok(ExportFacts {
        name: manifest.recipe.name.clone(),
        firmware: machine.map_or(firmware, |machine| machine.firmware),
        machine: ExportMachine {
            secure_boot: machine.map_or(GUESS.secure_boot, |machine| machine.secure_boot),
            disk_bus: bus.unwrap_or(GUESS.disk_bus),
            cpus: cpus.unwrap_or(GUESS.cpus),
            memory: memory.unwrap_or(GUESS.memory),
        },
        guest: read_guest(manifest)?,
        exported,
        guessed: (!guessed.is_empty()).then(|| (guessed.join(", "), why.to_owned())),
    })
}

/// Returns the image's file name without extension, with dashes for characters that artifact names
/// cannot contain.
fn derive_name(image: &Path) -> String {
    let stem = image.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = stem
        .chars()
        .map(|c| match c {
            '.' | '-' | '_' => c,
            c if c.is_ascii_alphanumeric() => c,
            _ => '-',
        })
        .take(80)
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "image" } else { name }.to_owned()
}

/// Returns the files in the output folder that must never be overwritten: the image itself.
fn list_kept(directory: &Path, image: &Path) -> Vec<String> {
    let mut kept = Vec::new();
    if is_same_folder(directory, io::folder_of(image)) {
        let name = image.file_name().unwrap_or_default();
        kept.push(name.to_string_lossy().into_owned());
    }
    kept
}

fn is_same_folder(a: &Path, b: &Path) -> bool {
    match (io::canonicalize(a), io::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Derives the firmware from the partition table: Windows Setup installs only GPT with UEFI and MBR
/// with BIOS.
fn detect_firmware(image: &Path, context: &CommandContext) -> Result<Firmware> {
    let disks = partitions::read(image, &context.cancel).map_err(|e| to_disk_fault(e, image))?;
    let [disk] = disks.as_slice() else {
        let names = disks.into_iter().filter_map(|disk| disk.name);
        return Err(Error::new(Kind::Export, "the image has several disks")
            .at(image.display())
            .expected("an image with one disk")
            .lines(names)
            .cure("unpack it with tar, and export the disk that holds Windows"));
    };
    match disk.table.style {
        gpt::PartitionStyle::Gpt => Ok(Firmware::Uefi),
        gpt::PartitionStyle::Mbr => Ok(Firmware::Bios),
        gpt::PartitionStyle::None => {
            Err(Error::new(Kind::Export, "the image has no partition table")
                .at(image.display())
                .expected("a disk with Windows on it")
                .cure("give a disk image; `winimg inspect` describes a file"))
        }
    }
}

/// Gives a fault of the disk the kind that it has in `winimg verify`. A path without a file keeps
/// its error.
fn to_disk_fault(error: Error, image: &Path) -> Error {
    if error.kind() == Kind::Failed && image.is_file() {
        error.with_kind(Kind::Verify)
    } else {
        error
    }
}

/// Returns the asked formats with the options that the image was built with.
fn select_outputs(to: &[OutputFormat], firmware: Firmware, exported: &ExportSettings) -> Outputs {
    let mut outputs = Outputs::default();
    for format in to {
        let options = match format.default_options() {
            OutputOptions::Plain => OutputOptions::Plain,
            OutputOptions::Ova(_) => OutputOptions::Ova(OvaOptions {
                hardware_version: exported.hardware_version,
            }),
            OutputOptions::Ami(usual) => OutputOptions::Ami(AmiOptions {
                boot_mode: AmiOptions::find_boot_mode(firmware).into(),
                license_type: exported.license_type.clone().unwrap_or(usual.license_type),
            }),
            OutputOptions::Box(usual) => {
                let built = exported.communicators.get(format.name()).cloned();
                OutputOptions::Box(BoxOptions {
                    communicator: built.unwrap_or(usual.communicator),
                })
            }
        };
        outputs.insert(*format, options);
    }
    outputs
}

fn read_guest(manifest: &BuildManifest) -> Result<GuestFacts> {
    let windows = &manifest.windows;
    let release = WindowsRelease::ALL
        .into_iter()
        .find(|r| r.year() == windows.release)
        .ok_or_else(|| {
            Error::new(
                Kind::Export,
                "the manifest names an unknown Windows release",
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

/// Reads the Windows release from the image's registry.
fn inspect_guest(image: &Path, context: &CommandContext) -> Result<GuestFacts> {
    let (disk, _work) = open_disk(image, context).map_err(|e| to_disk_fault(e, image))?;
    let windows = InspectedImage::open(disk.as_ref()).map_err(|error| {
        Error::new(Kind::Export, error.fact().to_owned())
            .at(image.display())
            .lines(error.problem().lines.clone())
            .cure("export an artifact with its build's manifest, or a disk with a readable Windows")
    })?;
    let found = read_installed(&windows).map_err(|finding| {
        Error::new(Kind::Export, finding.problem.in_one_line()).at(image.display())
    })?;
    let release = WindowsRelease::ALL
        .into_iter()
        .find(|r| r.build() == found.build);
    let Some(release) = release else {
        let known = WindowsRelease::ALL.map(|r| format!("{} ({r})", r.build()));
        return Err(Error::new(
            Kind::Export,
            "winimg does not support exporting this Windows release",
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
            assert_eq!(derive_name(Path::new(image)), expected, "{image}");
        }
        assert_eq!(derive_name(&PathBuf::from("x".repeat(200))).len(), 80);
    }
}
