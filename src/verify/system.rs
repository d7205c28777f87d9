//! What every finished image needs: a clean volume, whole hives, boot files, nothing that waits for a restart, room to grow.
//!
//! Sources: Microsoft, "BCDBoot command-line options" (boot files), "UEFI/GPT-based hard drive partitions", "Windows Setup
//! states" (ImageState), "MoveFileEx" (PendingFileRenameOperations).

use winimg_formats::disk::ntfs::{Hibernation, Volume};
use winimg_formats::hive::Data;
use winimg_recipe::plan::SEALED;
use winimg_recipe::recipe::RegistryKey;

use super::finding::{Finding, Verdict};
use super::image::{Answer, HIVES, Image};

pub(super) const STATE: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State");
pub(super) const VERSION: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion");
const SERVICING: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing");
const UPDATE: RegistryKey = RegistryKey::known(
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired",
);
const SESSION: RegistryKey =
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager");
/// Windows' own updates and a first container image need more. A small volume may have less: a tenth of it is enough.
const FREE: u64 = 2 << 30;

type Checks = &'static [fn(&Image<'_>) -> Verdict];

pub const CHECKS: &[Checks] = &[SOUND, STARTS, NO_RESTART, ROOM];

/// Of these what holds for a clone after its first boot, too.
pub const CHECKS_OF_CLONES: &[Checks] = &[SOUND, NO_RESTART];

const SOUND: Checks = &[
    whole_table,
    clean_volume,
    not_hibernated,
    |image| image.hive_is_sound(HIVES[0]),
    |image| image.hive_is_sound(HIVES[1]),
    |image| image.hive_is_sound(HIVES[2]),
    |image| image.hive_is_sound(HIVES[3]),
    |image| image.hive_is_sound(HIVES[4]),
];
const STARTS: Checks = &[boot_manager, loader];
const NO_RESTART: Checks = &[
    |image| no_restart_waits(image, &SERVICING.join("RebootPending")),
    |image| no_restart_waits(image, &SERVICING.join("PackagesPending")),
    |image| no_restart_waits(image, &UPDATE),
];
const ROOM: Checks = &[no_renames_wait, free_space, can_grow];

/// What makes the partitions uncertain was refused when the table was read.
fn whole_table(image: &Image<'_>) -> Verdict {
    let doubts = &image.table.doubts;
    if doubts.is_empty() {
        return Ok(());
    }
    Err(Finding::warning("the disk's partition table is damaged")
        .found(doubts.join("; "))
        .cure("repair it with gdisk (`verify`, then `w`), or build the image again"))
}

/// The volume of a Windows that was hibernated is not what its Windows has in memory, and no other program may write it.
fn not_hibernated(image: &Image<'_>) -> Verdict {
    let cure = "start it once, shut it down with `shutdown /s /f /t 0` after `powercfg /h off`, and take the disk then";
    let at = r"the mark in C:\hiberfil.sys";
    match image.volume.hibernation()? {
        Hibernation::None => Ok(()),
        Hibernation::Waits => Err(Finding::error(
            "Windows was hibernated (fast startup does that) and continues from its memory",
        )
        .expected("a Windows that was shut down")
        .found(at)
        .cure(cure)),
        Hibernation::Resumed => Err(Finding::warning(
            "Windows went on from hibernation and may not have been shut down since",
        )
        .expected("a Windows that was shut down")
        .found(at)
        .cure(cure)),
    }
}

fn clean_volume(image: &Image<'_>) -> Verdict {
    match image.volume.is_dirty()? {
        false => Ok(()),
        true => Err(Finding::error("the Windows volume was not closed in order")
            .expected("a clean volume")
            .found("NTFS's dirty flag")
            .cure("let Windows shut down by itself before the disk is taken")),
    }
}

/// UEFI: the boot manager, its store, and the fallback loader: a clone's firmware has no entry of its own.
/// BIOS: the boot manager and its store on the active partition.
fn boot_manager(image: &Image<'_>) -> Verdict {
    const EFI: [&str; 3] = [
        "EFI/Microsoft/Boot/bootmgfw.efi",
        "EFI/Microsoft/Boot/BCD",
        "EFI/Boot/bootx64.efi",
    ];
    let cure = "the disk does not start like this: build the image again";
    let (place, missing) = if image.is_gpt() {
        let Some(efi) = image.efi() else {
            return Err(Finding::error("the disk has no EFI system partition").cure(cure));
        };
        ("the EFI system partition", image.missing_in_fat(efi, &EFI)?)
    } else {
        let Some(active) = image.table.partitions.iter().find(|p| p.active) else {
            return Err(Finding::error("the disk has no active partition").cure(cure));
        };
        let volume = Volume::open(image.disk, active)?;
        let mut missing = Vec::new();
        for path in ["bootmgr", "Boot/BCD"] {
            if !volume.exists(path)? {
                missing.push(path);
            }
        }
        ("the active partition", missing)
    };
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Finding::error(format!("{place} lacks {}", missing.join(", "))).cure(cure)),
    }
}

fn loader(image: &Image<'_>) -> Verdict {
    let path = match image.is_gpt() {
        true => r"C:\Windows\System32\winload.efi",
        false => r"C:\Windows\System32\winload.exe",
    };
    match image.volume.exists(path)? {
        true => Ok(()),
        false => Err(Finding::error(format!("{path} is missing"))
            .cure("the disk does not start like this: build the image again")),
    }
}

fn no_restart_waits(image: &Image<'_>, key: &RegistryKey) -> Verdict {
    match image.key(key)? {
        None => Ok(()),
        Some(_) => Err(
            Finding::error("Windows waits for a restart to finish an installation")
                .found(key)
                .cure("add a step reboot = {} before the image is sealed"),
        ),
    }
}

/// Some programs leave entries there for ever.
fn no_renames_wait(image: &Image<'_>) -> Verdict {
    let found = match image.value(&SESSION, "PendingFileRenameOperations")? {
        None => return Ok(()),
        Some(Data::MultiSz(list)) if list.is_empty() => return Ok(()),
        Some(found) => found,
    };
    Err(
        Finding::warning("files wait for the next start to be renamed or deleted")
            .found(format!(
                "PendingFileRenameOperations = {}",
                short(&found.to_string())
            ))
            .cure("add a step reboot = {} before the image is sealed"),
    )
}

fn short(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// From NTFS's own map of clusters.
fn free_space(image: &Image<'_>) -> Verdict {
    let mut boot = [0; 512];
    image.disk.read_at(image.partition.start, &mut boot)?;
    let sector = u64::from(u16::from_le_bytes([boot[11], boot[12]]));
    let Some(cluster) = cluster(sector, boot[13]) else {
        return Err(Finding::unknown("how much of the Windows volume is free"));
    };
    let sectors = u64::from_le_bytes([
        boot[40], boot[41], boot[42], boot[43], boot[44], boot[45], boot[46], boot[47],
    ]);
    let clusters = sectors.saturating_mul(sector) / cluster;
    let map = image
        .volume
        .read("$Bitmap", clusters / 8 + (1 << 20))?
        .unwrap_or_default();
    let used: u64 = map.iter().map(|byte| u64::from(byte.count_ones())).sum();
    // The bits after the last cluster are set.
    let bits = map.len() as u64 * 8;
    let used = used.saturating_sub(bits.saturating_sub(clusters));
    let free = clusters.saturating_sub(used).saturating_mul(cluster);
    match free >= FREE || free >= clusters.saturating_mul(cluster) / 10 {
        true => Ok(()),
        false => Err(Finding::warning("the Windows volume is nearly full")
            .expected("2 GiB free, or a tenth of it")
            .found(format!("{} MiB", free >> 20))
            .cure("give the machine a larger disk_size, or add a step cleanup")),
    }
}

/// A clone's C: takes the room behind it (cloudbase-init: ExtendVolumes; EC2Launch: extendRootPartition), so no partition
/// may lie there. Asked of sealed images alone: one that nobody clones need not grow.
fn can_grow(image: &Image<'_>) -> Verdict {
    let windows = &image.partition;
    let end = windows.start.saturating_add(windows.len);
    let behind: Vec<String> = (image.table.partitions.iter())
        .filter(|p| p.start >= end)
        .map(|p| {
            let role = p.role.unwrap_or("of another kind");
            format!("partition {} ({role}, {} MiB)", p.number, p.len >> 20)
        })
        .collect();
    if behind.is_empty() || image.text(&STATE, "ImageState")?.as_deref() != Some(SEALED) {
        return Ok(());
    }
    Err(
        Finding::error("C: is not the disk's last partition, so it cannot grow on a clone")
            .expected("nothing behind it")
            .found(behind.join(", "))
            .cure("create that partition in front of C: in the answer file, or remove it in a step; Server 2025 makes a recovery partition behind C: unless one of 800 MB or more is in front"),
    )
}

/// Bytes of a cluster; above 128 the field is a negative power of two.
fn cluster(sector: u64, field: u8) -> Option<u64> {
    let sectors = match field {
        1..=128 => u64::from(field),
        244..=255 => 1 << (256 - u32::from(field)),
        _ => return None,
    };
    (sector.is_power_of_two() && sector >= 256).then_some(sector * sectors)
}

/// For an image of which nobody has said how it was made.
pub fn generalized(image: &Image<'_>) -> Verdict {
    match image.text(&STATE, "ImageState")? {
        Some(state) if state == SEALED => Ok(()),
        state => Err(Finding::warning(
            "the image is not generalized: every clone would be the same machine",
        )
        .expected(format!("ImageState {SEALED}"))
        .found(state.unwrap_or_else(|| "no ImageState".to_owned()))
        .cure("end the recipe with a step generalize = {}")),
    }
}

/// Build and update revision of the installed Windows.
pub fn windows(image: &Image<'_>, build: u32, revision: u32) -> Verdict {
    let found_build = image.text(&VERSION, "CurrentBuildNumber")?;
    let found_revision = image.number(&VERSION, "UBR")?;
    let is_build = found_build.as_deref() == Some(build.to_string().as_str());
    if is_build && found_revision.is_some_and(|found| found >= revision) {
        return Ok(());
    }
    let shown = |value: Option<String>| value.unwrap_or_else(|| "?".into());
    let found_revision = shown(found_revision.map(|number| number.to_string()));
    let found = format!("{}.{found_revision}", shown(found_build));
    let cure = "carry the updates in: `updates_folder` of packs/updates.toml, or a newer medium";
    Err(Finding::error("Windows lacks updates that it should have")
        .expected(format!("{build}.{revision} or later"))
        .found(found)
        .cure(cure))
}

/// The Windows of an image, as its registry names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledWindows {
    /// `20348`
    pub build: u32,
    pub revision: u32,
    /// `ServerDatacenter`
    pub edition: String,
}

pub fn installed(image: &Image<'_>) -> Answer<InstalledWindows> {
    let build = image.text(&VERSION, "CurrentBuildNumber")?;
    let Some(build) = build.and_then(|text| text.trim().parse().ok()) else {
        return Err(
            Finding::error("the registry does not say which Windows this is")
                .expected(format!("a number in CurrentBuildNumber of {VERSION}")),
        );
    };
    Ok(InstalledWindows {
        build,
        revision: image.number(&VERSION, "UBR")?.unwrap_or_default(),
        edition: image.text(&VERSION, "EditionID")?.unwrap_or_default(),
    })
}
