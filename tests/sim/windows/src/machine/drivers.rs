//! Driver packages: what an INF says, whether a device asks for it, and the kernel modules that play its part.
//!
//! A package counts only when it is whole: class, catalogue file, binary and a model section for this build. The
//! kernel's virtio modules stay out until a package for them was taken.
//!
//! Source: Microsoft, "INF Manufacturer Section" (TargetOSVersion decorations), "INF Version Section".

use std::path::{Path, PathBuf};

use super::drives::entry;
use super::{on_hyper_v, sys};

/// A whole driver package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub inf: PathBuf,
    pub class: String,
    /// Upper case, such as `PCI\VEN_1AF4&DEV_1001`.
    pub hardware: Vec<String>,
}

const MODULES: [(&str, &[&str]); 3] = [
    (
        "viostor",
        &["PCI\\VEN_1AF4&DEV_1001", "PCI\\VEN_1AF4&DEV_1042"],
    ),
    (
        "vioscsi",
        &["PCI\\VEN_1AF4&DEV_1004", "PCI\\VEN_1AF4&DEV_1048"],
    ),
    (
        "vioser",
        &["PCI\\VEN_1AF4&DEV_1003", "PCI\\VEN_1AF4&DEV_1043"],
    ),
];

impl Package {
    /// The list of kernel modules that stands for this driver, when it has one.
    pub fn modules(&self) -> Option<&'static str> {
        let plays = |ids: &&[&str]| {
            ids.iter()
                .any(|id| self.hardware.iter().any(|held| held.starts_with(id)))
        };
        MODULES
            .iter()
            .find(|(_, ids)| plays(ids))
            .map(|(list, _)| *list)
    }

    /// Windows starts nothing from a disk whose driver is not boot critical.
    pub fn boot_critical(&self) -> bool {
        matches!(
            self.class.to_ascii_lowercase().as_str(),
            "scsiadapter" | "hdc"
        )
    }
}

/// Loads what Windows has in-box, as far as this computer has a use for it.
pub fn load_inbox() -> std::io::Result<()> {
    sys::load_modules("inbox")?;
    sys::leave_trays_unlocked();
    for (list, class) in [("nvme", "0x0108"), ("usb", "0x0c03")] {
        if pci_devices().any(|device| id(&device, "class").starts_with(class)) {
            sys::load_modules(list)?;
        }
    }
    Ok(())
}

fn pci_devices() -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir("/sys/bus/pci/devices")
        .into_iter()
        .flatten()
        .flatten()
        .map(|device| device.path())
}

fn id(device: &Path, name: &str) -> String {
    std::fs::read_to_string(device.join(name))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// All INF files below `directory`, deepest last.
pub fn find(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|held| held.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(find(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("inf"))
        {
            found.push(path);
        }
    }
    found
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if let Some(units) = bytes.strip_prefix(b"\xff\xfe") {
        let units: Vec<u16> = units
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        return Ok(String::from_utf16_lossy(&units));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Lines of a section, comments cut.
fn section<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text
        .lines()
        .map(|line| line.split(';').next().unwrap_or_default().trim())
    {
        if let Some(title) = line.strip_prefix('[') {
            inside = title
                .trim_end_matches(']')
                .trim()
                .eq_ignore_ascii_case(name);
        } else if inside && !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

fn value<'a>(lines: &[&'a str], key: &str) -> Option<&'a str> {
    lines.iter().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case(key)
            .then(|| value.trim().trim_matches('"'))
    })
}

/// Reads a package for Windows build `build`.
pub fn package(inf: &Path, build: u32) -> Result<Package, String> {
    let text = text(inf)?;
    let fault = |what: &str| format!("{}: {what}", inf.display());
    let version = section(&text, "Version");
    let class = value(&version, "Class")
        .ok_or_else(|| fault("no Class"))?
        .to_owned();
    let directory = inf.parent().unwrap_or(Path::new("/"));
    let catalogue = value(&version, "CatalogFile").ok_or_else(|| fault("no CatalogFile"))?;
    entry(directory, catalogue).ok_or_else(|| fault(&format!("{catalogue} is not beside it")))?;
    let mut hardware = Vec::new();
    for line in section(&text, "Manufacturer") {
        let mut parts = line
            .split_once('=')
            .map_or(line, |(_, rest)| rest)
            .split(',')
            .map(str::trim);
        let models = parts.next().unwrap_or_default();
        for decoration in parts.filter(|decoration| fits(decoration, build)) {
            for model in section(&text, &format!("{models}.{decoration}")) {
                let ids = model
                    .split_once('=')
                    .map_or("", |(_, rest)| rest)
                    .split(',')
                    .skip(1);
                hardware.extend(ids.map(|id| id.trim().to_ascii_uppercase()));
            }
        }
    }
    if hardware.is_empty() {
        return Err(fault(&format!("has no models for amd64 build {build}")));
    }
    let mut needed = text.lines().filter_map(|line| {
        line.split(['\\', '=', ',', ' ', '\t'])
            .find(|word| word.trim().to_ascii_lowercase().ends_with(".sys"))
    });
    let binary = needed
        .next()
        .map(str::trim)
        .ok_or_else(|| fault("names no .sys file"))?;
    entry(directory, binary).ok_or_else(|| fault(&format!("{binary} is not beside it")))?;
    Ok(Package {
        inf: inf.to_owned(),
        class,
        hardware,
    })
}

/// `NTamd64`, `NTamd64.10.0` or `NTamd64.10.0...20348`: the last number is the lowest build.
fn fits(decoration: &str, build: u32) -> bool {
    let lower = decoration.to_ascii_lowercase();
    let Some(version) = lower.strip_prefix("ntamd64") else {
        return false;
    };
    let least = version
        .split('.')
        .nth(5)
        .and_then(|text| text.parse::<u32>().ok())
        .unwrap_or(0);
    build >= least
}

/// Hardware ids of this computer's PCI devices: `PCI\VEN_1AF4&DEV_1003&SUBSYS_00031AF4`.
pub fn devices() -> Vec<String> {
    let name = |device: PathBuf| {
        let hex = |name: &str| {
            id(&device, name)
                .trim_start_matches("0x")
                .to_ascii_uppercase()
        };
        let subsystem = format!("{}{}", hex("subsystem_device"), hex("subsystem_vendor"));
        format!(
            "PCI\\VEN_{}&DEV_{}&SUBSYS_{subsystem}",
            hex("vendor"),
            hex("device")
        )
    };
    // Under Hyper-V the session's port stands for a device of the VMBus, which is none of PCI.
    let shown = |name: &String| !on_hyper_v() || !name.starts_with(r"PCI\VEN_1AF4");
    pci_devices().map(name).filter(shown).collect()
}

/// Whether a device of this computer has one of the package's hardware ids.
pub fn device_present(package: &Package) -> bool {
    let fits = |device: &String| package.hardware.iter().any(|id| device.starts_with(id));
    devices().iter().any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decorations_name_the_lowest_build() {
        for (decoration, build, expected) in [
            ("NTamd64", 17763, true),
            ("NTamd64.10.0", 17763, true),
            ("NTamd64.10.0...20348", 20348, true),
            ("NTamd64.10.0...26100", 20348, false),
            ("NTx86.10.0", 20348, false),
        ] {
            assert_eq!(fits(decoration, build), expected, "{decoration} {build}");
        }
    }
}
