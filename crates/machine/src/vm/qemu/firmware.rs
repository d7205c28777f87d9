//! Finds the UEFI firmware and its matching empty variable store.
//!
//! Reads QEMU's firmware descriptors (QEMU: docs/interop/firmware.json), then tries the paths of
//! the large distributions. A code image does not boot with variables of another size family, so
//! such a pair is never used. Downloads nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use winimg_base::error::{Error, Kind, Result};

/// Code image and template of its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirmwarePair {
    pub code: PathBuf,
    pub vars: PathBuf,
    /// Format of both files.
    pub format: FirmwareFormat,
    /// Needs `smm=on` and secure flash.
    pub smm: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirmwareFormat {
    Raw,
    Qcow2,
}

impl FirmwareFormat {
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// Paths to search; `from_system` on a real host.
#[derive(Clone, Debug)]
pub struct FirmwarePaths {
    /// Descriptor folders; a file overrides those of the same name in later folders.
    pub descriptors: Vec<PathBuf>,
    /// Prefix of the known paths; `/` on a real host.
    pub root: PathBuf,
}

impl FirmwarePaths {
    pub fn from_system() -> Self {
        let user = match std::env::var_os("XDG_CONFIG_HOME") {
            Some(home) if !home.is_empty() => Some(PathBuf::from(home)),
            _ => std::env::var_os("HOME").map(|home| Path::new(&home).join(".config")),
        };
        let user = user.map(|home| home.join("qemu/firmware"));
        let system = [
            "/etc/qemu/firmware",
            "/usr/local/share/qemu/firmware",
            "/usr/share/qemu/firmware",
        ];
        Self {
            descriptors: user.into_iter().chain(system.map(PathBuf::from)).collect(),
            root: PathBuf::from("/"),
        }
    }
}

/// Code image, and true if it is for Secure Boot with enrolled keys. The variables' path comes from
/// [`derive_variables_path`]. 4 MiB pairs first.
const KNOWN: &[(&str, bool)] = &[
    // Debian, Ubuntu
    ("usr/share/OVMF/OVMF_CODE_4M.fd", false),
    ("usr/share/OVMF/OVMF_CODE_4M.ms.fd", true),
    // Arch
    ("usr/share/edk2/x64/OVMF_CODE.4m.fd", false),
    // Fedora, RHEL
    ("usr/share/edk2/ovmf/OVMF_CODE_4M.qcow2", false),
    ("usr/share/edk2/ovmf/OVMF_CODE_4M.secboot.qcow2", true),
    ("usr/share/edk2/ovmf/OVMF_CODE.fd", false),
    ("usr/share/edk2/ovmf/OVMF_CODE.secboot.fd", true),
    // openSUSE
    ("usr/share/qemu/ovmf-x86_64-4m-code.bin", false),
    ("usr/share/qemu/ovmf-x86_64-ms-4m-code.bin", true),
    // older Debian, Ubuntu
    ("usr/share/OVMF/OVMF_CODE.fd", false),
    // Homebrew
    ("opt/homebrew/share/qemu/edk2-x86_64-code.fd", false),
    ("usr/local/share/qemu/edk2-x86_64-code.fd", false),
];

/// Derives the path of the variables from that of the code. QEMU's own builds share one file
/// between 32 and 64 bits.
fn derive_variables_path(code: &str) -> String {
    code.replace("edk2-x86_64-code", "edk2-i386-vars")
        .replace("_CODE", "_VARS")
        .replace("-code", "-vars")
}

/// Finds the best pair for q35: with `secure_boot` one with enrolled Microsoft keys, otherwise one
/// with Secure Boot off.
pub fn find(places: &FirmwarePaths, secure_boot: bool) -> Result<FirmwarePair> {
    let mut refused = Vec::new();
    let mut pairs: Vec<(bool, FirmwarePair)> = Vec::new();
    let described = read_descriptors(places, secure_boot, &mut refused);
    let known = KNOWN
        .iter()
        .filter(|k| k.1 == secure_boot)
        .map(|(code, smm)| FirmwarePair {
            code: places.root.join(code),
            vars: places.root.join(derive_variables_path(code)),
            format: if code.ends_with(".qcow2") {
                FirmwareFormat::Qcow2
            } else {
                FirmwareFormat::Raw
            },
            smm: *smm,
        });
    for pair in described.into_iter().chain(known) {
        match check_size_family(&pair) {
            Ok(Some(large)) => pairs.push((large, pair)),
            Ok(None) => {}
            Err(why) => refused.push(why),
        }
    }
    let best = pairs.iter().position(|(large, _)| *large).unwrap_or(0);
    if best < pairs.len() {
        return Ok(pairs.swap_remove(best).1);
    }
    let (what, otherwise) = if secure_boot {
        (
            "no UEFI firmware with Secure Boot and enrolled keys was found",
            "set secure_boot = false",
        )
    } else {
        (
            "no UEFI firmware for QEMU was found",
            "build for firmware = \"bios\"",
        )
    };
    let cure =
        format!("install it (Debian, Ubuntu: ovmf; Fedora, Arch: edk2-ovmf), or {otherwise}");
    Err(Error::new(Kind::Host, what)
        .mark_absent()
        .lines(refused)
        .cure(cure))
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FirmwareDescriptor {
    interface_types: Vec<String>,
    mapping: FirmwareMapping,
    targets: Vec<FirmwareTarget>,
    features: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FirmwareMapping {
    device: String,
    mode: Option<String>,
    executable: Option<FirmwareImage>,
    nvram_template: Option<FirmwareImage>,
}

#[derive(Deserialize)]
struct FirmwareImage {
    filename: PathBuf,
    format: FirmwareFormat,
}

#[derive(Deserialize)]
struct FirmwareTarget {
    architecture: String,
    machines: Vec<String>,
}

/// Returns the matching pairs of all descriptors in the order of the specification: by file name,
/// over all folders.
fn read_descriptors(
    places: &FirmwarePaths,
    secure_boot: bool,
    refused: &mut Vec<String>,
) -> Vec<FirmwarePair> {
    let mut files = BTreeMap::new();
    for folder in &places.descriptors {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "json") {
                files.entry(entry.file_name()).or_insert(path);
            }
        }
    }
    let mut pairs = Vec::new();
    for path in files.values() {
        let text = match std::fs::read(path) {
            // An empty file disables the one of the same name in later folders.
            Ok(text) if text.is_empty() => continue,
            Ok(text) => text,
            Err(e) => {
                refused.push(format!("{}: {e}", path.display()));
                continue;
            }
        };
        match serde_json::from_slice::<FirmwareDescriptor>(&text) {
            Ok(descriptor) => pairs.extend(descriptor.into_pair(secure_boot)),
            // Descriptors of other devices have other shapes; only report invalid JSON.
            Err(e) if e.is_syntax() || e.is_eof() => {
                refused.push(format!("{}: {e}", path.display()))
            }
            Err(_) => {}
        }
    }
    pairs
}

impl FirmwareDescriptor {
    fn into_pair(self, secure_boot: bool) -> Option<FirmwarePair> {
        let fits = self.interface_types.iter().any(|i| i == "uefi")
            && self.mapping.device == "flash"
            && self.mapping.mode.as_deref().is_none_or(|m| m == "split")
            && self.targets.iter().any(FirmwareTarget::is_q35);
        let secure = if secure_boot {
            self.has("secure-boot") && self.has("enrolled-keys")
        } else {
            !["secure-boot", "enrolled-keys", "requires-smm"]
                .iter()
                .any(|feature| self.has(feature))
        };
        let code = self.mapping.executable.as_ref()?;
        let vars = self.mapping.nvram_template.as_ref()?;
        (fits && secure && code.format == vars.format).then(|| FirmwarePair {
            code: code.filename.clone(),
            vars: vars.filename.clone(),
            format: code.format,
            smm: self.has("requires-smm"),
        })
    }

    fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|f| f == feature)
    }
}

impl FirmwareTarget {
    fn is_q35(&self) -> bool {
        self.architecture == "x86_64"
            && self
                .machines
                .iter()
                .any(|m| m == "*" || m == "q35" || m.starts_with("pc-q35"))
    }
}

/// Returns true for a pair of the 4 MiB family and `None` if a file is missing. Fails with a
/// message if the files do not match.
fn check_size_family(pair: &FirmwarePair) -> Result<Option<bool>, String> {
    let (Ok(code), Ok(vars)) = (std::fs::metadata(&pair.code), std::fs::metadata(&pair.vars))
    else {
        return Ok(None);
    };
    if pair.format == FirmwareFormat::Qcow2 {
        // The length of a qcow2 file is meaningless; Fedora's file names contain the family.
        return Ok(Some(
            pair.code.to_string_lossy().to_lowercase().contains("4m"),
        ));
    }
    match code.len() + vars.len() {
        0x20_0000 => Ok(Some(false)),
        0x40_0000 => Ok(Some(true)),
        sum => Err(format!(
            "{} and {} do not match: {sum} bytes together instead of 2 or 4 MiB",
            pair.code.display(),
            pair.vars.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_each_distribution_are_named_by_their_code() {
        let named = KNOWN.iter().map(|(code, _)| derive_variables_path(code));
        let named: Vec<String> = named.collect();
        assert_eq!(
            named,
            [
                "usr/share/OVMF/OVMF_VARS_4M.fd",
                "usr/share/OVMF/OVMF_VARS_4M.ms.fd",
                "usr/share/edk2/x64/OVMF_VARS.4m.fd",
                "usr/share/edk2/ovmf/OVMF_VARS_4M.qcow2",
                "usr/share/edk2/ovmf/OVMF_VARS_4M.secboot.qcow2",
                "usr/share/edk2/ovmf/OVMF_VARS.fd",
                "usr/share/edk2/ovmf/OVMF_VARS.secboot.fd",
                "usr/share/qemu/ovmf-x86_64-4m-vars.bin",
                "usr/share/qemu/ovmf-x86_64-ms-4m-vars.bin",
                "usr/share/OVMF/OVMF_VARS.fd",
                "opt/homebrew/share/qemu/edk2-i386-vars.fd",
                "usr/local/share/qemu/edk2-i386-vars.fd",
            ]
        );
    }
}
