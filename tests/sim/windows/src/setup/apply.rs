//! The disk: partitions, file systems, the image, staged drivers and the cached answer file.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Setup, boot_files};
use crate::answer::plan::{self, Install};
use crate::answer::{Answer, Pass, document};
use crate::dialog::{self, Dialog};
use crate::disk;
use crate::layout::{Format, Layout, Partition, SECTOR};
use crate::machine::devices::Device;
use crate::machine::{Firmware, drivers, drives, sys};
use crate::windows::{Config, Data, Windows};

/// The disk that is installed to.
pub struct Target {
    pub disk: Device,
    pub windows: Partition,
    pub system: Partition,
    /// Unique GUID of the system partition (GPT).
    pub system_id: [u8; 16],
    /// Where C: is mounted once the image is applied.
    pub root: PathBuf,
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    let _ = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    bytes[7] = bytes[7] & 0x0F | 0x40; // a version 4 GUID, third field little-endian
    bytes[8] = bytes[8] & 0x3F | 0x80;
    bytes
}

/// Writes the partition tables and file systems of the whole plan.
pub fn partition(setup: &Setup, install: &Install, disks: &[Device]) -> Result<Target, Dialog> {
    let mut target = None;
    for layout in &install.layouts {
        let fault = |why: String| dialog::cannot_apply("DiskConfiguration", why);
        let device = disks
            .get(layout.disk as usize)
            .ok_or_else(|| fault(format!("no disk {}", layout.disk)))?;
        setup.log.info(&format!(
            "IBSLIB: creating {} partitions on disk {}",
            layout.partitions.len(),
            layout.disk
        ));
        let ids: Vec<[u8; 16]> = std::iter::repeat_with(random)
            .take(layout.partitions.len() + 1)
            .collect();
        write_table(setup, device, layout, &ids)
            .map_err(|why| fault(format!("{}: {why}", device.node())))?;
        for partition in &layout.partitions {
            crate::machine::debug(&format!("formatting partition {}", partition.number));
            format(device, partition).map_err(fault)?;
        }
        if layout.disk == install.disk {
            let find = |number: u32| {
                layout
                    .partitions
                    .iter()
                    .find(|held| held.number == number)
                    .cloned()
            };
            if let (Some(windows), Some(system)) = (find(install.partition), find(install.system)) {
                let system_id = ids[system.number as usize];
                target = Some(Target {
                    disk: device.clone(),
                    windows,
                    system,
                    system_id,
                    root: PathBuf::from("/mnt/C"),
                });
            }
        }
    }
    target.ok_or_else(|| dialog::cannot_apply("ImageInstall", "the target is not in the layout"))
}

fn write_table(
    setup: &Setup,
    device: &Device,
    layout: &Layout,
    ids: &[[u8; 16]],
) -> std::io::Result<()> {
    let file = File::options().read(true).write(true).open(device.node())?;
    disk::wipe(&file, device.bytes)?;
    match layout.firmware {
        Firmware::Uefi => disk::write_gpt(&file, device.bytes, layout, ids)?,
        Firmware::Bios => {
            let code = fs::read(setup.root.join("boot/boot.img"))?;
            let signature = u32::from_le_bytes([ids[0][0], ids[0][1], ids[0][2], ids[0][3]]);
            disk::write_mbr(&file, layout, &code, signature)?;
            // The rest of the start code lies in the gap before the first partition.
            std::os::unix::fs::FileExt::write_all_at(
                &file,
                &fs::read(setup.root.join("boot/core.img"))?,
                512,
            )?;
        }
    }
    file.sync_all()?;
    sys::reread_partitions(&file)
}

fn format(device: &Device, partition: &Partition) -> Result<(), String> {
    let node = device.partition(partition.number);
    match partition.format {
        None => Ok(()),
        Some(Format::Ntfs) => sys::tool("mkntfs", &["-Q", "-q", "-L", &partition.label, &node]),
        Some(Format::Fat32) => {
            let label = if partition.label.is_empty() {
                "NO NAME"
            } else {
                &partition.label
            };
            // FAT32 starts at 65525 clusters; small tables are quicker to write.
            let per_cluster = [8, 4, 2, 1]
                .into_iter()
                .find(|sectors| partition.length / SECTOR / sectors > 66_000)
                .unwrap_or(1);
            sys::tool(
                "mkfs.fat",
                &[
                    "-F",
                    "32",
                    "-s",
                    &per_cluster.to_string(),
                    "-n",
                    &label.to_uppercase(),
                    &node,
                ],
            )
        }
    }
}

/// Applies the image to the unmounted NTFS volume, mounts it as C: and moves the log there.
pub fn image(setup: &mut Setup, install: &Install, target: &Target) -> Result<(), Dialog> {
    let wim = setup.root.join("sources/install.wim");
    let node = target.disk.partition(target.windows.number);
    let index = install.image.to_string();
    sys::tool(
        "wimlib-imagex",
        &["apply", &wim.to_string_lossy(), &index, &node],
    )
    .map_err(dialog::cannot_install)?;
    setup.log.info(&format!(
        "IBS: Image {index} of sources\\install.wim was applied"
    ));
    mount_windows(&node, &target.root).map_err(dialog::cannot_install)?;
    let panther = target.root.join("$WINDOWS.~BT/Sources/Panther");
    setup
        .log
        .move_to(&panther)
        .map_err(|e| dialog::cannot_install(e.to_string()))
}

/// Mounts an NTFS volume as C:.
pub fn mount_windows(node: &str, root: &Path) -> Result<(), String> {
    fs::create_dir_all(root).map_err(|e| e.to_string())?;
    sys::tool(
        "ntfs-3g",
        &[
            "-o",
            "big_writes,noatime,silent",
            node,
            &root.to_string_lossy(),
        ],
    )
}

/// offlineServicing, boot files, the cached answer file, the logs; C: is unmounted clean at the end.
pub fn finish(
    setup: &mut Setup,
    answer: &Answer,
    install: &Install,
    target: &Target,
) -> Result<(), Dialog> {
    offline_servicing(setup, answer, target)?;
    boot_files::write(setup, install, target).map_err(|why| {
        setup.log.error(&why);
        dialog::cannot_install(why)
    })?;
    let panther = target.root.join("Windows/Panther");
    let cached = document::cached(&answer.source, &[Pass::WindowsPe, Pass::OfflineServicing])
        .map_err(dialog::cannot_install)?;
    let written =
        fs::create_dir_all(&panther).and_then(|()| fs::write(panther.join("unattend.xml"), cached));
    written.map_err(|e| dialog::cannot_install(e.to_string()))?;
    setup.log.info("IBS: windowsPE pass is finished");
    setup
        .log
        .move_to(&panther)
        .map_err(|e| dialog::cannot_install(e.to_string()))?;
    sys::unmount(&target.root)
        .map_err(|e| dialog::cannot_install(format!("C: can't be unmounted: {e}")))
}

fn offline_servicing(setup: &mut Setup, answer: &Answer, target: &Target) -> Result<(), Dialog> {
    let mut infs: Vec<PathBuf> = setup
        .packages
        .iter()
        .map(|package| package.inf.clone())
        .collect();
    for path in plan::driver_paths(answer, Pass::OfflineServicing) {
        infs.extend(
            drives::resolve(&setup.drives, path)
                .into_iter()
                .flat_map(|directory| drivers::find(&directory)),
        );
    }
    crate::answer::schema::check(answer, Pass::OfflineServicing)
        .map_err(|why| dialog::unknown_setting(&answer.path, Pass::OfflineServicing.name(), why))?;
    let lua = answer
        .component(Pass::OfflineServicing, "LUA-Settings")
        .filter(|found| found.get("EnableLUA").is_some());
    if infs.is_empty() && lua.is_none() {
        return Ok(());
    }
    let letters = setup
        .drives
        .iter()
        .map(|drive| (drive.letter, drive.root.clone()))
        .collect();
    let config = Config {
        c_root: target.root.clone(),
        drives: letters,
        ..Config::default()
    };
    let windows = Windows::open(config).map_err(dialog::cannot_install)?;
    // A boot-critical driver is set up even without its device: the installed system may be started from one.
    let critical = setup
        .packages
        .iter()
        .filter(|package| package.boot_critical())
        .flat_map(|package| package.hardware.clone());
    windows.set_devices(drivers::devices().into_iter().chain(critical).collect());
    if let Some(lua) = lua {
        let key = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Policies\System";
        let on = Data::Dword(u32::from(lua.is_true("EnableLUA")));
        windows
            .set_value(key, "EnableLUA", on)
            .map_err(dialog::cannot_install)?;
    }
    infs.sort();
    infs.dedup();
    for inf in infs {
        let Some(path) = windows_path(&setup.drives, &inf) else {
            continue;
        };
        let mut output = Vec::new();
        let code = windows.run(
            &format!(r#"C:\Windows\System32\pnputil.exe /add-driver "{path}" /install"#),
            &mut output,
        );
        let line = format!(
            "PnPIBS: staged [{path}]: {code}: {}",
            String::from_utf8_lossy(&output).trim()
        );
        if matches!(code, 0 | 259 | 3010) {
            setup.log.info(&line)
        } else {
            setup.log.error(&line)
        }
    }
    windows.flush().map_err(dialog::cannot_install)
}

fn windows_path(drives: &[drives::Drive], path: &Path) -> Option<String> {
    drives.iter().find_map(|drive| {
        let rest = path.strip_prefix(&drive.root).ok()?;
        Some(format!(
            r"{}:\{}",
            drive.letter,
            rest.to_string_lossy().replace('/', r"\")
        ))
    })
}
