//! Windows' own stores, and containerd's: scheduled tasks, drivers, updates, image content.
//!
//! Sources: Microsoft, "Driver Store", "Task Scheduler files", "DISM operating system package servicing"; containerd:
//! docs/content-flow.md.

use winimg_formats::hive::{Data, Key};

use super::files::digest;
use winimg_recipe::plan::check::{Inf, Manifest};
use winimg_recipe::recipe::{GuestPath, RegistryKey};

use super::finding::{Finding, Verdict};
use super::image::{Answer, Image};

const TASKS: &str = r"C:\Windows\System32\Tasks";
const TASK_CACHE: RegistryKey = RegistryKey::known(
    r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Schedule\TaskCache\Tree",
);
const DRIVERS: &str = r"C:\Windows\System32\DriverStore\FileRepository";
const PACKAGES: RegistryKey = RegistryKey::known(
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\Packages",
);
/// `CurrentState` of a package that is installed; 96 and 101 wait for a restart.
const INSTALLED: u32 = 112;
/// Superseded by a later update, installed, and installed for good.
const GOOD: [u32; 3] = [80, INSTALLED, 128];

pub fn task(image: &Image<'_>, name: &str, present: bool) -> Verdict {
    let below = name.trim_start_matches('\\');
    let file = format!(r"{TASKS}\{below}");
    let key = TASK_CACHE.join(below);
    let (has_file, has_key) = (image.volume.exists(&file)?, image.key(&key)?.is_some());
    match (present, has_file, has_key) {
        (true, true, true) | (false, false, false) => Ok(()),
        (true, _, _) => {
            let lacks: Vec<&str> = [(has_file, file.as_str()), (has_key, key.as_str())]
                .iter()
                .filter(|(there, _)| !there)
                .map(|(_, place)| *place)
                .collect();
            Err(Finding::error(format!("the task {name} is missing"))
                .expected(lacks.join(" and "))
                .cure("see the log of the step that makes it"))
        }
        (false, _, _) => Err(Finding::error(format!("the task {name} is still there"))
            .found(if has_file { file } else { key.to_string() })
            .cure("see which later step or program makes it")),
    }
}

/// Each import of a driver is a folder of its own, named by its INF.
pub fn driver(image: &Image<'_>, driver: &Inf) -> Verdict {
    let Inf { inf, sha256 } = driver;
    let start = format!("{}_amd64_", inf.to_lowercase());
    let mut others = 0;
    for folder in image.names(DRIVERS)? {
        if !folder.to_lowercase().starts_with(&start) {
            continue;
        }
        match digest(image, &format!(r"{DRIVERS}\{folder}\{inf}"))? {
            Some((_, found)) if found == *sha256 => return Ok(()),
            _ => others += 1,
        }
    }
    let finding = Finding::error(format!("the driver store lacks {inf}"))
        .expected(format!(r"{DRIVERS}\{start}*\{inf}, sha256:{sha256}"))
        .cure("see the log of the step: pnputil tells why it refuses a driver");
    Err(match others {
        0 => finding.found("no driver of this name"),
        1 => finding.found("another driver of this name"),
        n => finding.found(format!("{n} other drivers of this name")),
    })
}

/// The packages of Windows' servicing by their names, each with its `CurrentState`.
pub fn packages(image: &Image<'_>) -> Answer<Vec<(String, u32)>> {
    let packages = package_keys(image)?;
    let known = packages.iter().map(|p| Ok((p.name(), state(p)?)));
    known.collect()
}

fn package_keys<'i>(image: &'i Image<'_>) -> Answer<Vec<Key<'i>>> {
    Ok(match image.key(&PACKAGES)? {
        Some(key) => key.keys()?,
        None => Vec::new(),
    })
}

fn state(package: &Key<'_>) -> Answer<u32> {
    Ok(match package.value("CurrentState")? {
        Some(Data::Dword(n)) => n,
        _ => 0,
    })
}

/// A cumulative update's package is `Package_for_RollupFix`: its name says no KB, its source may.
pub fn update(image: &Image<'_>, kb: &str) -> Verdict {
    let number = kb.trim_start_matches(['K', 'B', 'k', 'b']);
    let named = |text: &str| {
        let text = text.to_uppercase();
        text.match_indices(&format!("KB{number}"))
            .any(|(at, m)| !text[at + m.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut states = Vec::new();
    for package in package_keys(image)? {
        let name = package.name();
        let source = match package.value("InstallLocation")? {
            Some(Data::Sz(text) | Data::ExpandSz(text)) => text,
            _ => String::new(),
        };
        if named(&name) || named(&source) {
            states.push((name, state(&package)?));
        }
    }
    if states.iter().any(|(_, state)| GOOD.contains(state)) {
        return Ok(());
    }
    if let Some((name, state)) = states.first() {
        return Err(Finding::error(format!("the update KB{number} is not installed"))
            .expected(format!("{name} in state {INSTALLED}"))
            .found(format!("state {state}"))
            .cure("a restart may be missing: end the step with one, or see C:\\Windows\\Logs\\CBS\\CBS.log"));
    }
    // The guest said that it was installed; only some packages carry the number.
    Err(Finding::unknown(format!(
        "the update KB{number}: no package names its number"
    )))
}

pub fn container_image(image: &Image<'_>, manifest: &Manifest, root: &GuestPath) -> Verdict {
    let reference = &manifest.reference;
    let hex = manifest.digest.trim_start_matches("sha256:");
    let below = format!("io.containerd.content.v1.content/blobs/sha256/{hex}");
    let blob = root.join(&below);
    let what = format!("containerd has no image {reference}");
    match digest(image, blob.as_str())? {
        Some((_, found)) if found == hex => Ok(()),
        Some((_, found)) => Err(Finding::error(what)
            .expected(format!("{blob}, sha256:{hex}"))
            .found(format!("sha256:{found}"))
            .cure("containerd's store is damaged: build the image again")),
        None => Err(Finding::error(what)
            .expected(blob)
            .cure("see the log of the step that imports it")),
    }
}
