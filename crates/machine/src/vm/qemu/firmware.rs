//! The UEFI firmware and its empty variable store, as a pair that belongs together.
//!
//! Reads QEMU's firmware descriptors (QEMU: docs/interop/firmware.json), then tries the paths of the large distributions. A code image of one
//! size family with the variables of the other boots into nothing, so such a pair is never taken. Downloads nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use winimg_base::error::{Error, Kind, Result};

/// A code image and the template of its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub code: PathBuf,
    pub vars: PathBuf,
    /// `raw` or `qcow2`, of both.
    pub format: Format,
    /// Needs `smm=on` and secure flash.
    pub smm: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Raw,
    Qcow2,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// Where to look; `system` on a real host.
#[derive(Clone, Debug)]
pub struct Places {
    /// Descriptor folders; an earlier one's file hides a later one's of the same name.
    pub descriptors: Vec<PathBuf>,
    /// Prepended to the known paths, empty on a real host.
    pub root: PathBuf,
}

impl Places {
    pub fn system() -> Self {
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

/// Code, and whether it is for Secure Boot with enrolled keys; [`variables_of`] lie beside it. 4 MiB pairs first.
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

/// Distributions name them alike; QEMU's own builds share one file between 32 and 64 bits.
fn variables_of(code: &str) -> String {
    code.replace("edk2-x86_64-code", "edk2-i386-vars")
        .replace("_CODE", "_VARS")
        .replace("-code", "-vars")
}

/// The best pair for q35. With `secure_boot` only one whose Microsoft keys are enrolled, without it only one that leaves it off.
pub fn find(places: &Places, secure_boot: bool) -> Result<Pair> {
    let mut refused = Vec::new();
    let mut pairs: Vec<(bool, Pair)> = Vec::new();
    let described = described(places, secure_boot, &mut refused);
    let known = KNOWN
        .iter()
        .filter(|k| k.1 == secure_boot)
        .map(|(code, smm)| Pair {
            code: places.root.join(code),
            vars: places.root.join(variables_of(code)),
            format: match code.ends_with(".qcow2") {
                true => Format::Qcow2,
                false => Format::Raw,
            },
            smm: *smm,
        });
    for pair in described.into_iter().chain(known) {
        match family(&pair) {
            Ok(Some(large)) => pairs.push((large, pair)),
            Ok(None) => {}
            Err(why) => refused.push(why),
        }
    }
    let best = pairs.iter().position(|(large, _)| *large).unwrap_or(0);
    if best < pairs.len() {
        return Ok(pairs.swap_remove(best).1);
    }
    let (what, otherwise) = match secure_boot {
        true => (
            "no UEFI firmware with Secure Boot and enrolled keys was found",
            "set secure_boot = false",
        ),
        false => (
            "no UEFI firmware for QEMU was found",
            "build for firmware = \"bios\"",
        ),
    };
    let cure =
        format!("install it (Debian, Ubuntu: ovmf; Fedora, Arch: edk2-ovmf), or {otherwise}");
    Err(Error::new(Kind::Host, what)
        .absent()
        .lines(refused)
        .cure(cure))
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Descriptor {
    interface_types: Vec<String>,
    mapping: Mapping,
    targets: Vec<Target>,
    features: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mapping {
    device: String,
    mode: Option<String>,
    executable: Option<Image>,
    nvram_template: Option<Image>,
}

#[derive(Deserialize)]
struct Image {
    filename: PathBuf,
    format: Format,
}

#[derive(Deserialize)]
struct Target {
    architecture: String,
    machines: Vec<String>,
}

/// Matching pairs of all descriptors, in the order that the specification gives: by file name, folders merged.
fn described(places: &Places, secure_boot: bool, refused: &mut Vec<String>) -> Vec<Pair> {
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
            // An empty file of a higher folder switches the lower one's off.
            Ok(text) if text.is_empty() => continue,
            Ok(text) => text,
            Err(e) => {
                refused.push(format!("{}: {e}", path.display()));
                continue;
            }
        };
        match serde_json::from_slice::<Descriptor>(&text) {
            Ok(descriptor) => pairs.extend(descriptor.pair(secure_boot)),
            // Descriptors of other devices have other shapes; only a broken flash one is worth a word.
            Err(e) if e.is_syntax() || e.is_eof() => {
                refused.push(format!("{}: {e}", path.display()))
            }
            Err(_) => {}
        }
    }
    pairs
}

impl Descriptor {
    fn pair(self, secure_boot: bool) -> Option<Pair> {
        let has = |feature: &str| self.features.iter().any(|f| f == feature);
        let fits = self.interface_types.iter().any(|i| i == "uefi")
            && self.mapping.device == "flash"
            && self.mapping.mode.as_deref().is_none_or(|m| m == "split")
            && self.targets.iter().any(Target::is_q35);
        let secure = match secure_boot {
            true => has("secure-boot") && has("enrolled-keys"),
            false => !has("secure-boot") && !has("enrolled-keys") && !has("requires-smm"),
        };
        let code = self.mapping.executable.as_ref()?;
        let vars = self.mapping.nvram_template.as_ref()?;
        (fits && secure && code.format == vars.format).then(|| Pair {
            code: code.filename.clone(),
            vars: vars.filename.clone(),
            format: code.format,
            smm: has("requires-smm"),
        })
    }
}

impl Target {
    fn is_q35(&self) -> bool {
        self.architecture == "x86_64"
            && self
                .machines
                .iter()
                .any(|m| m == "*" || m == "q35" || m.starts_with("pc-q35"))
    }
}

/// Whether the pair is of the 4 MiB family; `None` when it is not there, an error in words when it does not fit together.
fn family(pair: &Pair) -> Result<Option<bool>, String> {
    let size = |path: &Path| std::fs::metadata(path).ok().map(|m| m.len());
    let (Some(code), Some(vars)) = (size(&pair.code), size(&pair.vars)) else {
        return Ok(None);
    };
    if pair.format == Format::Qcow2 {
        // A qcow2 file's length says nothing; Fedora's pairs of both families carry the family in the name.
        return Ok(Some(
            pair.code.to_string_lossy().to_lowercase().contains("4m"),
        ));
    }
    match code + vars {
        0x20_0000 => Ok(Some(false)),
        0x40_0000 => Ok(Some(true)),
        sum => Err(format!(
            "{} and {} are no pair: together {sum} bytes, not 2 or 4 MiB",
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
        let named = KNOWN.iter().map(|(code, _)| variables_of(code));
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
