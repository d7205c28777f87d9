//! Which system this is, by os-release(5), and the line that installs a program there (`packages.toml`).

use std::sync::LazyLock;

use serde::Deserialize;

/// A system as it names itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// For people: `Debian GNU/Linux 12 (bookworm)`.
    pub name: String,
    /// `debian`, `ubuntu`, `windows`; empty where nothing says it.
    pub id: String,
    /// Those that it is made from.
    pub like: Vec<String>,
}

/// What packages bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Qemu,
    QemuImg,
    Ovmf,
    Swtpm,
    Tesseract,
}

impl Program {
    /// As it is called where no package is known.
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
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Family {
    ids: Vec<String>,
    #[serde(default)]
    like: Vec<String>,
    install: String,
    qemu: Option<String>,
    qemu_img: Option<String>,
    ovmf: Option<String>,
    swtpm: Option<String>,
    tesseract: Option<String>,
}

#[derive(Deserialize)]
struct Table {
    family: Vec<Family>,
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("packages.toml")).expect("packages.toml"));

impl System {
    /// From the text of os-release(5).
    pub fn of_os_release(text: &str) -> Self {
        let value = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once('='));
            let mut found = lines.filter(|(key, _)| key.trim() == name);
            let value = found
                .next()
                .map(|(_, value)| value.trim().trim_matches(['"', '\'']));
            value.unwrap_or_default().to_owned()
        };
        Self {
            name: value("PRETTY_NAME"),
            id: value("ID"),
            like: value("ID_LIKE")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }
    }

    /// One without that file.
    pub fn without_os_release() -> Self {
        Self {
            name: std::env::consts::OS.to_owned(),
            id: std::env::consts::OS.to_owned(),
            like: Vec::new(),
        }
    }

    pub fn is_windows(&self) -> bool {
        self.id == "windows"
    }

    /// The line to type, or words where the system is not in the table.
    pub fn install(&self, program: Program) -> String {
        let all = &TABLE.family;
        let by_id = all.iter().find(|family| family.ids.contains(&self.id));
        let by_likeness = || {
            all.iter()
                .find(|f| self.like.iter().any(|like| f.like.contains(like)))
        };
        let line = by_id.or_else(by_likeness).and_then(|family| {
            let package = match program {
                Program::Qemu => &family.qemu,
                Program::QemuImg => &family.qemu_img,
                Program::Ovmf => &family.ovmf,
                Program::Swtpm => &family.swtpm,
                Program::Tesseract => &family.tesseract,
            };
            Some(format!("{} {}", family.install, package.as_ref()?))
        });
        line.unwrap_or_else(|| format!("install {}", program.name()))
    }
}
