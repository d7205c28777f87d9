//! Whether Windows has the drivers for the disk of a target's first boot, and starts them before it has a disk.
//!
//! Sources: Microsoft, "CreateService" (start type 0), "Stop code INACCESSIBLE_BOOT_DEVICE"; Windows' own INF files (names
//! of services); virtio-win (viostor, vioscsi). How Windows' drivers for IDE, SAS and Hyper-V's bus start is remembered, so
//! another start is doubtful. That Windows leaves boot drivers it did not need to `StartOverride` is seen on real machines
//! and documented nowhere; sysprep takes it back, so one that is left is doubtful, too.

use winimg_recipe::recipe::RegistryKey;
use winimg_recipe::recipe::target::{Controller, Target};

use super::super::finding::{Finding, Verdict};
use super::super::image::{Answer, Image};

const SERVICES: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Services");
const BOOT_START: u32 = 0;

/// The services of the drivers between Windows and a disk there, and whether it is well known how they start.
fn drivers(controller: Controller) -> (&'static [&'static str], bool) {
    match controller {
        Controller::Ahci => (&["storahci"], true),
        Controller::Ide => (&["intelide", "atapi"], false),
        Controller::LsiSas => (&["LSI_SAS"], false),
        Controller::Nvme => (&["stornvme"], true),
        Controller::Pvscsi => (&["pvscsi"], false),
        Controller::VirtioBlk => (&["viostor"], true),
        Controller::VirtioScsi => (&["vioscsi"], true),
        Controller::VmbusNvme => (&["vmbus", "vpci", "stornvme"], false),
        Controller::VmbusScsi => (&["vmbus", "storvsc"], false),
    }
}

pub fn starts(image: &Image<'_>, target: &Target) -> Verdict {
    let (drivers, is_known) = drivers(target.hardware.controller);
    for driver in drivers {
        one(image, driver, is_known, &target.title)?;
    }
    Ok(())
}

/// The same for the controllers that machines of some sizes have. Who clones to others does not need them.
pub fn starts_on_some_sizes(image: &Image<'_>, target: &Target) -> Verdict {
    let (needed, _) = drivers(target.hardware.controller);
    let more = target
        .hardware
        .also
        .iter()
        .flat_map(|also| drivers(*also).0);
    let place = format!("some sizes of {}", target.title);
    for driver in more.filter(|driver| !needed.contains(driver)) {
        one(image, driver, false, &place)?;
    }
    Ok(())
}

/// `place` is where a clone is started, as it fits after "a clone on".
fn one(image: &Image<'_>, driver: &str, is_known: bool, place: &str) -> Verdict {
    let key = SERVICES.join(driver);
    let lacks = |found: String| {
        let fact = format!(
            "Windows cannot start from the disk of a clone on {place} (INACCESSIBLE_BOOT_DEVICE): its driver {driver} is no boot driver"
        );
        let finding = match is_known {
            true => Finding::error(fact),
            false => Finding::warning(fact),
        };
        finding
            .expected(format!(r"{key}, Start = {BOOT_START}, and its .sys file"))
            .found(found)
            .cure("add the driver under `[setup] drivers` or in a `driver` step, or leave its service as it was made")
    };
    if image.key(&key)?.is_none() {
        return Err(lacks("no such service".to_owned()));
    }
    match image.number(&key, "Start")? {
        Some(BOOT_START) => {}
        Some(start) => return Err(lacks(format!("Start = {start}"))),
        None => return Err(lacks("no Start".to_owned())),
    }
    let file = file(image, &key, driver)?;
    if !image.volume.exists(&file)? {
        return Err(lacks(format!("no {file}")));
    }
    let overridden = key.join("StartOverride");
    match image.number(&overridden, "0")? {
        None | Some(BOOT_START) => Ok(()),
        Some(start) => {
            let fact = format!(
                "Windows may not start from the disk of a clone on {place}: its driver {driver} was switched off as one that was not needed"
            );
            Err(Finding::warning(fact)
                .expected(
                    "no such key, which sysprep takes away unless PersistAllDeviceInstalls is true",
                )
                .found(format!("{overridden}, 0 = {start}"))
                .cure("leave PersistAllDeviceInstalls out of the answer file, or write false"))
        }
    }
}

/// `System32\drivers\x.sys` and `\SystemRoot\System32\drivers\x.sys` are below `C:\Windows`.
fn file(image: &Image<'_>, key: &RegistryKey, driver: &str) -> Answer<String> {
    let Some(path) = image.text(key, "ImagePath")? else {
        return Ok(format!(r"C:\Windows\System32\drivers\{driver}.sys"));
    };
    let lower = path.to_ascii_lowercase();
    Ok(match lower.strip_prefix(r"\systemroot\") {
        Some(below) => format!(r"C:\Windows\{}", &path[path.len() - below.len()..]),
        None if lower.starts_with(r"system32\") => format!(r"C:\Windows\{path}"),
        None => path.trim_start_matches(r"\??\").to_owned(),
    })
}
