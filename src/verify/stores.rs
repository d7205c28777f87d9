//! Windows' own stores, and containerd's: scheduled tasks, drivers, updates, image content.
//!
//! Sources: Microsoft, "Driver Store", "Task Scheduler files", "DISM operating system package
//! servicing"; containerd: docs/content-flow.md.

use winimg_formats::hive::{HiveKey, HiveValueData};

use super::files::hash_file;
use winimg_recipe::plan::check::{ContainerImageManifest, DriverInf};
use winimg_recipe::{GuestPath, RegistryKey};

use super::finding::{Verdict, VerifyFinding};
use super::image::{CheckResult, InspectedImage};

const TASKS: &str = r"C:\Windows\System32\Tasks";
const TASK_CACHE: RegistryKey = RegistryKey::from_static(
    r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Schedule\TaskCache\Tree",
);
const DRIVERS: &str = r"C:\Windows\System32\DriverStore\FileRepository";
const PACKAGES: RegistryKey = RegistryKey::from_static(
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\Packages",
);
/// `CurrentState` of an installed package; 96 and 101 need a restart.
const INSTALLED: u32 = 112;
/// Superseded by a later update, installed, and permanently installed.
const GOOD: [u32; 3] = [80, INSTALLED, 128];

pub fn check_task(image: &InspectedImage<'_>, name: &str, present: bool) -> Verdict {
    let below = name.trim_start_matches('\\');
    let file = format!(r"{TASKS}\{below}");
    let key = TASK_CACHE.join(below);
    let (has_file, has_key) = (image.volume.exists(&file)?, image.open_key(&key)?.is_some());
    match (present, has_file, has_key) {
        (true, true, true) | (false, false, false) => Ok(()),
        (true, _, _) => {
            let missing: Vec<&str> = [(has_file, file.as_str()), (has_key, key.as_str())]
                .iter()
                .filter(|(exists, _)| !exists)
                .map(|(_, place)| *place)
                .collect();
            Err(VerifyFinding::error(format!("the task {name} is missing"))
                .expected(missing.join(" and "))
                .cure("check the log of the step that creates it"))
        }
        (false, _, _) => Err(
            VerifyFinding::error(format!("the task {name} still exists"))
                .found(if has_file { file } else { key.to_string() })
                .cure("find the later step or program that creates it"),
        ),
    }
}

/// Checks the driver store, where each import of a driver has a folder named after its INF.
pub fn check_driver(image: &InspectedImage<'_>, driver: &DriverInf) -> Verdict {
    let DriverInf { inf, sha256 } = driver;
    let start = format!("{}_amd64_", inf.to_lowercase());
    let mut others = 0;
    for folder in image.list_names(DRIVERS)? {
        if !folder.to_lowercase().starts_with(&start) {
            continue;
        }
        match hash_file(image, &format!(r"{DRIVERS}\{folder}\{inf}"))? {
            Some((_, found)) if found == *sha256 => return Ok(()),
            _ => others += 1,
        }
    }
    let finding = VerifyFinding::error(format!("the driver store does not have {inf}"))
        .expected(format!(r"{DRIVERS}\{start}*\{inf}, sha256:{sha256}"))
        .cure("check the log of the step: pnputil reports why it refuses a driver");
    Err(match others {
        0 => finding.found("no driver with this name"),
        1 => finding.found("another driver with this name"),
        n => finding.found(format!("{n} other drivers with this name")),
    })
}

/// Returns the names of all servicing packages, each with its `CurrentState`.
pub fn list_packages(image: &InspectedImage<'_>) -> CheckResult<Vec<(String, u32)>> {
    package_keys(image)?
        .iter()
        .map(|package| Ok((package.name(), read_state(package)?)))
        .collect()
}

fn package_keys<'i>(image: &'i InspectedImage<'_>) -> CheckResult<Vec<HiveKey<'i>>> {
    Ok(match image.open_key(&PACKAGES)? {
        Some(key) => key.read_keys()?,
        None => Vec::new(),
    })
}

fn read_state(package: &HiveKey<'_>) -> CheckResult<u32> {
    Ok(match package.find_value("CurrentState")? {
        Some(HiveValueData::Dword(n)) => n,
        _ => 0,
    })
}

/// Checks that an update is installed. A cumulative update's package is `Package_for_RollupFix`,
/// whose name has no KB number, but its source may have.
pub fn update(image: &InspectedImage<'_>, kb: &str) -> Verdict {
    let number = kb.trim_start_matches(['K', 'B', 'k', 'b']);
    let mut states = Vec::new();
    for package in package_keys(image)? {
        let name = package.name();
        let source = match package.find_value("InstallLocation")? {
            Some(HiveValueData::Sz(text) | HiveValueData::ExpandSz(text)) => text,
            _ => String::new(),
        };
        if contains_kb(&name, number) || contains_kb(&source, number) {
            states.push((name, read_state(&package)?));
        }
    }
    if states.iter().any(|(_, state)| GOOD.contains(state)) {
        return Ok(());
    }
    if let Some((name, state)) = states.first() {
        return Err(
            VerifyFinding::error(format!("the update KB{number} is not installed"))
                .expected(format!("{name} in state {INSTALLED}"))
                .found(format!("state {state}"))
                .cure(
                    "a restart may be missing: end the step with one, or check \
                 C:\\Windows\\Logs\\CBS\\CBS.log",
                ),
        );
    }
    // The guest reported it as installed; not all packages contain the number.
    Err(VerifyFinding::unknown(format!(
        "the update KB{number}: no package contains its number"
    )))
}

/// Returns true if a text contains this KB number, not as a part of a longer one.
fn contains_kb(text: &str, number: &str) -> bool {
    let text = text.to_uppercase();
    text.match_indices(&format!("KB{number}"))
        .any(|(at, m)| !text[at + m.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

pub fn container_image(
    image: &InspectedImage<'_>,
    manifest: &ContainerImageManifest,
    root: &GuestPath,
) -> Verdict {
    let reference = &manifest.reference;
    let hex = manifest.digest.trim_start_matches("sha256:");
    let below = format!("io.containerd.content.v1.content/blobs/sha256/{hex}");
    let blob = root.join(&below);
    let what = format!("containerd has no image {reference}");
    match hash_file(image, blob.as_str())? {
        Some((_, found)) if found == hex => Ok(()),
        Some((_, found)) => Err(VerifyFinding::error(what)
            .expected(format!("{blob}, sha256:{hex}"))
            .found(format!("sha256:{found}"))
            .cure("containerd's store is damaged: build the image again")),
        None => Err(VerifyFinding::error(what)
            .expected(blob)
            .cure("check the log of the step that imports it")),
    }
}
