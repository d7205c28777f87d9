//! Operating system by os-release(5), and the command that installs a program there
//! (`packages.toml`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// An operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatingSystem {
    /// `PRETTY_NAME`, such as `Debian GNU/Linux 12 (bookworm)`.
    pub name: String,
    /// `debian`, `ubuntu`, `windows`; empty if unknown.
    pub id: String,
    /// Systems that it is derived from (`ID_LIKE`).
    pub like: Vec<String>,
}

/// A program that a package provides, by its key in `packages.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostProgram {
    Qemu,
    QemuImg,
    Ovmf,
    Swtpm,
    Tesseract,
}

impl HostProgram {
    /// Name to show if no package is known.
    fn name(self) -> &'static str {
        match self {
            Self::Qemu => "qemu-system-x86_64",
            Self::QemuImg => "qemu-img",
            Self::Ovmf => "UEFI firmware for QEMU (OVMF)",
            Self::Swtpm => "swtpm",
            Self::Tesseract => "tesseract",
        }
    }
}

#[derive(Deserialize)]
struct SystemFamily {
    ids: Vec<String>,
    #[serde(default)]
    like: Vec<String>,
    install: String,
    #[serde(flatten)]
    packages: BTreeMap<HostProgram, String>,
}

#[derive(Deserialize)]
struct PackageTable {
    family: Vec<SystemFamily>,
}

static TABLE: LazyLock<PackageTable> =
    LazyLock::new(|| toml::from_str(include_str!("packages.toml")).expect("packages.toml"));

impl OperatingSystem {
    /// Parses the text of os-release(5).
    pub fn from_os_release(text: &str) -> Self {
        Self {
            name: find_value(text, "PRETTY_NAME").to_owned(),
            id: find_value(text, "ID").to_owned(),
            like: find_value(text, "ID_LIKE")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Describes a system without that file.
    pub fn from_target() -> Self {
        Self {
            name: std::env::consts::OS.to_owned(),
            id: std::env::consts::OS.to_owned(),
            like: Vec::new(),
        }
    }

    pub fn is_windows(&self) -> bool {
        self.id == "windows"
    }

    /// Returns the command that installs a program, or a hint if the system is not in the table.
    pub fn install(&self, program: HostProgram) -> String {
        let all = &TABLE.family;
        all.iter()
            .find(|family| family.ids.contains(&self.id))
            .or_else(|| {
                all.iter()
                    .find(|f| self.like.iter().any(|like| f.like.contains(like)))
            })
            .and_then(|family| {
                let package = family.packages.get(&program)?;
                Some(format!("{} {package}", family.install))
            })
            .unwrap_or_else(|| format!("install {}", program.name()))
    }
}

/// Returns a variable of os-release(5) without quotes, or an empty string.
fn find_value<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().trim_matches(['"', '\'']))
        .unwrap_or_default()
}
