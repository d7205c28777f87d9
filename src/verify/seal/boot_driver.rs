//! Checks that Windows has the drivers for the disk of a target's first boot, as boot-start
//! drivers.
//!
//! Sources: Microsoft, "CreateService" (start type 0), "Stop code INACCESSIBLE_BOOT_DEVICE";
//! Windows' own INF files (names of services); virtio-win (viostor, vioscsi). The start types of
//! Windows' drivers for IDE, SAS and Hyper-V's bus are undocumented, so others are only warnings.
//! Windows disables unneeded boot drivers with `StartOverride`, as seen on real machines but
//! documented nowhere; sysprep removes it, so a remaining one is only a warning, too.

use winimg_recipe::RegistryKey;
use winimg_recipe::target::{TargetController, TargetSpec};

use super::super::finding::{Verdict, VerifyFinding};
use super::super::image::{CheckResult, InspectedImage};

const SERVICES: RegistryKey = RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Services");
const BOOT_START: u32 = 0;

/// Returns the services of the drivers for a disk there; true if their start type is documented.
fn list_drivers(controller: TargetController) -> (&'static [&'static str], bool) {
    match controller {
        TargetController::Ahci => (&["storahci"], true),
        TargetController::Ide => (&["intelide", "atapi"], false),
        TargetController::LsiSas => (&["LSI_SAS"], false),
        TargetController::Nvme => (&["stornvme"], true),
        TargetController::Pvscsi => (&["pvscsi"], false),
        TargetController::VirtioBlk => (&["viostor"], true),
        TargetController::VirtioScsi => (&["vioscsi"], true),
        TargetController::VmbusNvme => (&["vmbus", "vpci", "stornvme"], false),
        TargetController::VmbusScsi => (&["vmbus", "storvsc"], false),
    }
}

pub fn check_boot_drivers(image: &InspectedImage<'_>, target: &TargetSpec) -> Verdict {
    let (drivers, is_known) = list_drivers(target.hardware.controller);
    for driver in drivers {
        check_driver(image, driver, is_known, &target.title)?;
    }
    Ok(())
}

/// Checks the controllers that only machines of some sizes have.
pub fn starts_on_some_sizes(image: &InspectedImage<'_>, target: &TargetSpec) -> Verdict {
    let (needed, _) = list_drivers(target.hardware.controller);
    let place = format!("some sizes of {}", target.title);
    for also in &target.hardware.also {
        for driver in list_drivers(*also).0 {
            if !needed.contains(driver) {
                check_driver(image, driver, false, &place)?;
            }
        }
    }
    Ok(())
}

/// Checks one driver; `place` is the platform of the clone, a phrase that follows "a clone on".
fn check_driver(image: &InspectedImage<'_>, driver: &str, is_known: bool, place: &str) -> Verdict {
    let key = SERVICES.join(driver);
    if let Some(found) = find_fault(image, &key, driver)? {
        let fact = format!(
            "Windows cannot start from the disk of a clone on {place} (INACCESSIBLE_BOOT_DEVICE): \
             its driver {driver} is not a boot driver"
        );
        let finding = if is_known {
            VerifyFinding::error(fact)
        } else {
            VerifyFinding::warning(fact)
        };
        return Err(finding
            .expected(format!(r"{key}, Start = {BOOT_START}, and its .sys file"))
            .found(found)
            .cure(
                "add the driver under `[setup] drivers` or in a `driver` step, or do not change \
                 its service",
            ));
    }
    let overridden = key.join("StartOverride");
    match image.read_number(&overridden, "0")? {
        None | Some(BOOT_START) => Ok(()),
        Some(start) => {
            let fact = format!(
                "Windows may not start from the disk of a clone on {place}: its driver {driver} \
                 was disabled as unneeded"
            );
            Err(VerifyFinding::warning(fact)
                .expected("no such key: sysprep removes it unless PersistAllDeviceInstalls is true")
                .found(format!("{overridden}, 0 = {start}"))
                .cure("omit PersistAllDeviceInstalls in the answer file, or set it to false"))
        }
    }
}

/// Returns the reason why a driver is not a boot driver, if it is not.
fn find_fault(
    image: &InspectedImage<'_>,
    key: &RegistryKey,
    driver: &str,
) -> CheckResult<Option<String>> {
    if image.open_key(key)?.is_none() {
        return Ok(Some("no such service".to_owned()));
    }
    match image.read_number(key, "Start")? {
        Some(BOOT_START) => {}
        Some(start) => return Ok(Some(format!("Start = {start}"))),
        None => return Ok(Some("no Start".to_owned())),
    }
    let file = find_driver_file(image, key, driver)?;
    let is_missing = !image.volume.exists(&file)?;
    Ok(is_missing.then(|| format!("no {file}")))
}

/// Returns a driver's file: `System32\drivers\x.sys` and `\SystemRoot\System32\drivers\x.sys` are
/// below `C:\Windows`.
fn find_driver_file(
    image: &InspectedImage<'_>,
    key: &RegistryKey,
    driver: &str,
) -> CheckResult<String> {
    let Some(path) = image.read_text(key, "ImagePath")? else {
        return Ok(format!(r"C:\Windows\System32\drivers\{driver}.sys"));
    };
    let lower = path.to_ascii_lowercase();
    Ok(match lower.strip_prefix(r"\systemroot\") {
        Some(below) => format!(r"C:\Windows\{}", &path[path.len() - below.len()..]),
        None if lower.starts_with(r"system32\") => format!(r"C:\Windows\{path}"),
        None => path.trim_start_matches(r"\??\").to_owned(),
    })
}
