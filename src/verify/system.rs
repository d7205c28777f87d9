//! Requirements of every finished image: a clean volume, readable hives, boot files, no pending
//! restart, room to grow.
//!
//! Sources: Microsoft, "BCDBoot command-line options" (boot files), "UEFI/GPT-based hard drive
//! partitions", "Windows Setup states" (ImageState), "MoveFileEx" (PendingFileRenameOperations).

use winimg_formats::disk::ntfs::{Hibernation, NtfsVolume};
use winimg_formats::hive::HiveValueData;
use winimg_recipe::RegistryKey;
use winimg_recipe::plan::SEALED;

use super::finding::{Verdict, VerifyFinding};
use super::image::{CheckResult, HIVES, InspectedImage};

pub(super) const STATE: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State");
pub(super) const VERSION: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion");
const SERVICING: RegistryKey = RegistryKey::from_static(
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing",
);
const UPDATE: RegistryKey = RegistryKey::from_static(
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired",
);
const SESSION: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager");
/// Minimum free space: updates and a first container image need more. A tenth of a small volume is
/// enough.
const MIN_FREE: u64 = 2 << 30;

type ImageChecks = &'static [fn(&InspectedImage<'_>) -> Verdict];

pub const CHECKS: &[ImageChecks] = &[INTEGRITY, BOOT, PENDING_RESTART, SPACE];

/// Checks that also apply to a clone after its first boot.
pub const CLONE_CHECKS: &[ImageChecks] = &[INTEGRITY, PENDING_RESTART];

const INTEGRITY: ImageChecks = &[
    check_partition_table,
    check_clean_volume,
    check_not_hibernated,
    |image| image.check_hive(HIVES[0]),
    |image| image.check_hive(HIVES[1]),
    |image| image.check_hive(HIVES[2]),
    |image| image.check_hive(HIVES[3]),
    |image| image.check_hive(HIVES[4]),
];
const BOOT: ImageChecks = &[check_boot_manager, check_loader];
const PENDING_RESTART: ImageChecks = &[
    |image| check_no_pending_restart(image, &SERVICING.join("RebootPending")),
    |image| check_no_pending_restart(image, &SERVICING.join("PackagesPending")),
    |image| check_no_pending_restart(image, &UPDATE),
];
const SPACE: ImageChecks = &[check_no_pending_renames, check_free_space, check_can_grow];

/// Warns about a damaged table. Damage that affects the partitions is refused when the table is
/// read.
fn check_partition_table(image: &InspectedImage<'_>) -> Verdict {
    let doubts = &image.table.doubts;
    if doubts.is_empty() {
        return Ok(());
    }
    Err(
        VerifyFinding::warning("the disk's partition table is damaged")
            .found(doubts.join("; "))
            .cure("repair it with gdisk (`verify`, then `w`), or build the image again"),
    )
}

/// Refuses a hibernated Windows: its memory does not match a changed volume.
fn check_not_hibernated(image: &InspectedImage<'_>) -> Verdict {
    let cure = "start it once, run `powercfg /h off` and `shutdown /s /f /t 0`, and copy the disk \
                after that";
    let mark = r"the mark in C:\hiberfil.sys";
    match image.volume.read_hibernation()? {
        Hibernation::None => Ok(()),
        Hibernation::Suspended => Err(VerifyFinding::error(
            "Windows was hibernated (fast startup does that) and would resume from memory",
        )
        .expected("a Windows that was shut down")
        .found(mark)
        .cure(cure)),
        Hibernation::Resumed => Err(VerifyFinding::warning(
            "Windows resumed from hibernation and may not have been shut down since",
        )
        .expected("a Windows that was shut down")
        .found(mark)
        .cure(cure)),
    }
}

fn check_clean_volume(image: &InspectedImage<'_>) -> Verdict {
    if image.volume.is_dirty()? {
        Err(
            VerifyFinding::error("the Windows volume was not closed cleanly")
                .expected("a clean volume")
                .found("NTFS's dirty flag")
                .cure("shut Windows down cleanly before copying the disk"),
        )
    } else {
        Ok(())
    }
}

/// Checks the boot files. UEFI: the boot manager, its store, and the fallback loader, because a
/// clone's firmware has no boot entry. BIOS: the boot manager and its store on the active
/// partition.
fn check_boot_manager(image: &InspectedImage<'_>) -> Verdict {
    const EFI: [&str; 3] = [
        "EFI/Microsoft/Boot/bootmgfw.efi",
        "EFI/Microsoft/Boot/BCD",
        "EFI/Boot/bootx64.efi",
    ];
    let cure = "build the image again: the disk cannot boot";
    let (place, missing) = if image.is_gpt() {
        let Some(efi) = image.find_efi_partition() else {
            return Err(VerifyFinding::error("the disk has no EFI system partition").cure(cure));
        };
        (
            "the EFI system partition",
            image.find_missing_in_fat(efi, &EFI)?,
        )
    } else {
        let Some(active) = image.table.partitions.iter().find(|p| p.active) else {
            return Err(VerifyFinding::error("the disk has no active partition").cure(cure));
        };
        let volume = NtfsVolume::open(image.disk, active)?;
        let mut missing = Vec::new();
        for path in ["bootmgr", "Boot/BCD"] {
            if !volume.exists(path)? {
                missing.push(path);
            }
        }
        ("the active partition", missing)
    };
    if missing.is_empty() {
        Ok(())
    } else {
        Err(VerifyFinding::error(format!("missing on {place}: {}", missing.join(", "))).cure(cure))
    }
}

fn check_loader(image: &InspectedImage<'_>) -> Verdict {
    let path = if image.is_gpt() {
        r"C:\Windows\System32\winload.efi"
    } else {
        r"C:\Windows\System32\winload.exe"
    };
    if image.volume.exists(path)? {
        Ok(())
    } else {
        Err(VerifyFinding::error(format!("{path} is missing"))
            .cure("build the image again: the disk cannot boot"))
    }
}

fn check_no_pending_restart(image: &InspectedImage<'_>, key: &RegistryKey) -> Verdict {
    match image.open_key(key)? {
        None => Ok(()),
        Some(_) => Err(
            VerifyFinding::error("Windows needs a restart to finish an installation")
                .found(key)
                .cure("add a step reboot = {} before the image is sealed"),
        ),
    }
}

/// Only warns, because some programs leave entries there forever.
fn check_no_pending_renames(image: &InspectedImage<'_>) -> Verdict {
    let found = match image.read_value(&SESSION, "PendingFileRenameOperations")? {
        None => return Ok(()),
        Some(HiveValueData::MultiSz(list)) if list.is_empty() => return Ok(()),
        Some(found) => found,
    };
    Err(
        VerifyFinding::warning("files will be renamed or deleted at the next start")
            .found(format!(
                "PendingFileRenameOperations = {}",
                truncate(&found.to_string())
            ))
            .cure("add a step reboot = {} before the image is sealed"),
    )
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Checks the free space, from NTFS's cluster bitmap.
fn check_free_space(image: &InspectedImage<'_>) -> Verdict {
    let mut boot = [0; 512];
    image.disk.read_at(image.partition.start, &mut boot)?;
    let sector = u64::from(u16::from_le_bytes([boot[11], boot[12]]));
    let Some(cluster) = find_cluster_size(sector, boot[13]) else {
        return Err(VerifyFinding::unknown(
            "the free space of the Windows volume",
        ));
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
    if free >= MIN_FREE || free >= clusters.saturating_mul(cluster) / 10 {
        Ok(())
    } else {
        Err(VerifyFinding::warning("the Windows volume is nearly full")
            .expected("2 GiB free, or a tenth of it")
            .found(format!("{} MiB", free >> 20))
            .cure("give the machine a larger disk_size, or add a step cleanup"))
    }
}

/// Refuses partitions behind C:, which a clone extends to the end of the disk (cloudbase-init:
/// ExtendVolumes; EC2Launch: extendRootPartition). Only sealed images are cloned, so only these are
/// checked.
fn check_can_grow(image: &InspectedImage<'_>) -> Verdict {
    let windows = &image.partition;
    let end = windows.start.saturating_add(windows.len);
    let behind: Vec<String> = (image.table.partitions.iter())
        .filter(|p| p.start >= end)
        .map(|p| {
            let role = p.role.unwrap_or("of another kind");
            format!("partition {} ({role}, {} MiB)", p.number, p.len >> 20)
        })
        .collect();
    if behind.is_empty() || image.read_text(&STATE, "ImageState")?.as_deref() != Some(SEALED) {
        return Ok(());
    }
    Err(
        VerifyFinding::error("C: is not the disk's last partition, so it cannot grow on a clone")
            .expected("nothing behind it")
            .found(behind.join(", "))
            .cure(
                "create that partition in front of C: in the answer file, or remove it in a step; \
                 Server 2025 creates a recovery partition behind C: unless one of 800 MB or more \
                 is in front",
            ),
    )
}

/// Returns the size of a cluster in bytes; above 128 the field is a negative power of two.
fn find_cluster_size(sector: u64, field: u8) -> Option<u64> {
    let sectors = match field {
        1..=128 => u64::from(field),
        244..=255 => 1 << (256 - u32::from(field)),
        _ => return None,
    };
    (sector.is_power_of_two() && sector >= 256).then_some(sector * sectors)
}

/// Checks that an image without a manifest is generalized.
pub fn check_generalized(image: &InspectedImage<'_>) -> Verdict {
    match image.read_text(&STATE, "ImageState")? {
        Some(state) if state == SEALED => Ok(()),
        state => Err(VerifyFinding::warning(
            "the image is not generalized: every clone would be the same machine",
        )
        .expected(format!("ImageState {SEALED}"))
        .found(state.unwrap_or_else(|| "no ImageState".to_owned()))
        .cure("end the recipe with a step generalize = {}")),
    }
}

/// Checks the build and update revision of the installed Windows.
pub fn check_windows(image: &InspectedImage<'_>, build: u32, revision: u32) -> Verdict {
    let found_build = image.read_text(&VERSION, "CurrentBuildNumber")?;
    let found_revision = image.read_number(&VERSION, "UBR")?;
    let is_build = found_build.as_deref() == Some(build.to_string().as_str());
    if is_build && found_revision.is_some_and(|found| found >= revision) {
        return Ok(());
    }
    let found_revision = found_revision.map_or_else(|| "?".into(), |number| number.to_string());
    let found_build = found_build.unwrap_or_else(|| "?".into());
    Err(VerifyFinding::error("Windows is missing required updates")
        .expected(format!("{build}.{revision} or later"))
        .found(format!("{found_build}.{found_revision}"))
        .cure("add the updates with `updates_folder` of packs/updates.toml, or use a newer medium"))
}

/// The Windows of an image, from its registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledWindows {
    /// `20348`
    pub build: u32,
    pub revision: u32,
    /// `ServerDatacenter`
    pub edition: String,
}

pub fn read_installed(image: &InspectedImage<'_>) -> CheckResult<InstalledWindows> {
    let build = image.read_text(&VERSION, "CurrentBuildNumber")?;
    let Some(build) = build.and_then(|text| text.trim().parse().ok()) else {
        return Err(
            VerifyFinding::error("the registry does not contain the version of Windows")
                .expected(format!("a number in CurrentBuildNumber of {VERSION}")),
        );
    };
    Ok(InstalledWindows {
        build,
        revision: image.read_number(&VERSION, "UBR")?.unwrap_or_default(),
        edition: image.read_text(&VERSION, "EditionID")?.unwrap_or_default(),
    })
}
