//! What an install medium is, read before anything boots: its images, its release of Windows Server, and whether it is
//! for evaluation.

use std::fmt;

use crate::udf::Medium;
use winimg_base::error::{Error, Kind, Result};

use super::{Image, WimImages};

/// `EI.CFG` has a few lines.
const MAX_EI_CFG: u64 = 64 << 10;

/// The releases of Windows Server that winimg builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    Server2019,
    Server2022,
    Server2025,
}

impl Release {
    pub const ALL: [Self; 3] = [Self::Server2019, Self::Server2022, Self::Server2025];

    pub fn build(self) -> u32 {
        match self {
            Self::Server2019 => 17763,
            Self::Server2022 => 20348,
            Self::Server2025 => 26100,
        }
    }

    /// `2022`
    pub fn year(self) -> &'static str {
        match self {
            Self::Server2019 => "2019",
            Self::Server2022 => "2022",
            Self::Server2025 => "2025",
        }
    }

    /// The folder of each driver on the virtio-win ISO.
    pub fn virtio_folder(self) -> &'static str {
        match self {
            Self::Server2019 => "2k19",
            Self::Server2022 => "2k22",
            Self::Server2025 => "2k25",
        }
    }

    pub fn of_build(build: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.build() == build)
    }

    /// The release of an image; an unknown build is an error.
    pub fn of_image(image: &Image) -> Result<Self> {
        let Some(build) = image.build else {
            return Err(Error::new(
                Kind::Unproved,
                format!("the image {} does not say its Windows build", image.name),
            ));
        };
        Self::of_build(build).ok_or_else(|| {
            let known: Vec<String> = Self::ALL
                .iter()
                .map(|r| format!("{} ({r})", r.build()))
                .collect();
            Error::new(
                Kind::Recipe,
                format!("winimg does not build from Windows build {build}"),
            )
            .at(&image.name)
            .expected(known.join(", "))
            .found(build)
            .cure("use the install medium of one of these releases")
        })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Windows Server {}", self.year())
    }
}

/// How the medium is licensed, by `sources/EI.CFG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    Eval,
    Retail,
    /// `VL` is 1 or the channel is `volume`.
    Volume,
    Oem,
    Other(String),
}

/// An install medium as far as it can be known without booting it.
#[derive(Clone, Debug)]
pub struct MediaFacts {
    pub label: String,
    /// `sources/install.wim`, as spelled in the search.
    pub wim_path: String,
    pub images: WimImages,
    /// Absent when there is no `EI.CFG`.
    pub channel: Option<Channel>,
    /// `Autounattend.xml` at the root or in `sources`, which Setup could take in place of ours.
    pub answer_file: Option<String>,
}

impl MediaFacts {
    /// Reads an install medium; one without an install image is an error.
    pub fn read(medium: &Medium) -> Result<Self> {
        let names = ["install.wim", "install.esd", "install.swm"];
        let mut wim = None;
        for name in names {
            let path = format!("sources/{name}");
            if let Some(entry) = medium.find(&path)?
                && !entry.is_dir
            {
                wim = Some((path, entry));
                break;
            }
        }
        let Some((wim_path, entry)) = wim else {
            return Err(no_image(medium));
        };
        let from = format!("{}:{wim_path}", medium.path().display());
        let images = WimImages::read(&mut medium.file(&entry), &from)?;
        let channel = match medium.find("sources/ei.cfg")? {
            Some(entry) if !entry.is_dir => {
                let bytes = medium.read(&entry, MAX_EI_CFG)?;
                channel(&String::from_utf8_lossy(&bytes))
            }
            _ => None,
        };
        let mut answer_file = None;
        for path in ["Autounattend.xml", "sources/Autounattend.xml"] {
            if medium.find(path)?.is_some() {
                answer_file = Some(path.to_string());
                break;
            }
        }
        Ok(Self {
            label: medium.label().to_string(),
            wim_path,
            images,
            channel,
            answer_file,
        })
    }

    /// Whether an image of this medium is for evaluation: by its edition, or by the medium's channel.
    pub fn is_eval(&self, image: &Image) -> bool {
        image.is_eval() || self.channel == Some(Channel::Eval)
    }
}

fn no_image(medium: &Medium) -> Error {
    let there: Vec<String> = medium
        .read_dir("")
        .unwrap_or_default()
        .into_iter()
        .take(20)
        .map(|e| if e.is_dir { e.name + "/" } else { e.name })
        .collect();
    let error = Error::new(
        Kind::Unproved,
        "this is not a Windows install medium: it has no sources/install.wim, .esd or .swm",
    )
    .at(format!(
        "{} ({}, label \"{}\")",
        medium.path().display(),
        medium.file_system(),
        medium.label()
    ))
    .lines(there);
    match medium.remark() {
        Some(remark) => error
            .found(remark)
            .cure("fetch the file again and compare its digest with the publisher's"),
        None => error.cure("give the ISO of Windows Server 2019, 2022 or 2025"),
    }
}

/// Reads `EI.CFG` (Microsoft: "Windows Setup edition configuration and product ID files").
fn channel(text: &str) -> Option<Channel> {
    let (mut section, mut channel, mut volume) = (String::new(), None, false);
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name.to_ascii_lowercase();
        } else if section == "channel" && channel.is_none() {
            channel = Some(line.to_string());
        } else if section == "vl" {
            volume = line == "1";
        }
    }
    if volume {
        return Some(Channel::Volume);
    }
    Some(match channel?.to_ascii_lowercase().as_str() {
        "eval" => Channel::Eval,
        "retail" => Channel::Retail,
        "volume" => Channel::Volume,
        "oem" => Channel::Oem,
        other => Channel::Other(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_is_read_as_setup_reads_it() {
        let eval = "[EditionID]\r\n\r\n[Channel]\r\neval\r\n\r\n[VL]\r\n0\r\n";
        assert_eq!(channel(eval), Some(Channel::Eval));
        assert_eq!(
            channel("[Channel]\nRetail\n[VL]\n1\n"),
            Some(Channel::Volume)
        );
        assert_eq!(channel("[Channel]\nRetail\n"), Some(Channel::Retail));
        assert_eq!(channel(""), None);
    }
}
