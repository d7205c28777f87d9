//! Inspects an install medium before anything boots: its images, its release of Windows Server, and
//! its evaluation status.

use std::fmt;

use crate::udf::Medium;
use winimg_base::error::{Error, Kind, Result};

use super::{WimImage, WimImages, WimPart};

/// Maximum size of `EI.CFG` in bytes; it has a few lines.
const MAX_EI_CFG: u64 = 64 << 10;

/// The releases of Windows Server that winimg builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WindowsRelease {
    Server2019,
    Server2022,
    Server2025,
}

impl WindowsRelease {
    pub const ALL: [Self; 3] = [Self::Server2019, Self::Server2022, Self::Server2025];

    pub fn build(self) -> u32 {
        match self {
            Self::Server2019 => 17763,
            Self::Server2022 => 20348,
            Self::Server2025 => 26100,
        }
    }

    /// Returns the year, such as `2022`.
    pub fn year(self) -> &'static str {
        match self {
            Self::Server2019 => "2019",
            Self::Server2022 => "2022",
            Self::Server2025 => "2025",
        }
    }

    /// Returns the release's folder within each driver on the virtio-win ISO.
    pub fn virtio_folder(self) -> &'static str {
        match self {
            Self::Server2019 => "2k19",
            Self::Server2022 => "2k22",
            Self::Server2025 => "2k25",
        }
    }

    /// Returns the release of an image; an unknown build is an error.
    pub fn from_image(image: &WimImage) -> Result<Self> {
        let Some(build) = image.build else {
            let fact = format!("the image {} has no Windows build number", image.name);
            return Err(Error::new(Kind::Unproved, fact));
        };
        if let Some(release) = Self::ALL.into_iter().find(|r| r.build() == build) {
            return Ok(release);
        }
        let known = Self::ALL.map(|r| format!("{} ({r})", r.build()));
        let fact = format!("winimg does not support Windows build {build}");
        Err(Error::new(Kind::Recipe, fact)
            .at(&image.name)
            .expected(known.join(", "))
            .found(build)
            .cure("use the install medium of one of these releases"))
    }
}

impl fmt::Display for WindowsRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Windows Server {}", self.year())
    }
}

/// Properties of an install medium that are known without booting it.
#[derive(Clone, Debug)]
pub struct MediaFacts {
    pub images: WimImages,
    /// True for evaluation media according to `sources/EI.CFG`, whatever the edition.
    pub eval: bool,
    /// `Autounattend.xml` at the root or in `sources`, which Setup could use instead of ours.
    pub answer_file: Option<String>,
}

impl MediaFacts {
    /// Reads an install medium; one without an install image is an error.
    pub fn read(medium: &Medium) -> Result<Self> {
        Self::try_read(medium)?.ok_or_else(|| no_image(medium))
    }

    /// Reads a medium of any kind; `None` if it has no install image. An install image that is
    /// unreadable or incomplete is an error.
    pub fn try_read(medium: &Medium) -> Result<Option<Self>> {
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
            return Ok(None);
        };
        let from = format!("{}:{wim_path}", medium.path.display());
        let images = WimImages::read(&mut medium.open_file(&entry), &from)?;
        require_parts(medium, &wim_path, images.part, &from)?;
        let eval = match medium.find("sources/ei.cfg")? {
            Some(entry) if !entry.is_dir => {
                is_eval(&String::from_utf8_lossy(&medium.read(&entry, MAX_EI_CFG)?))
            }
            _ => false,
        };
        let mut answer_file = None;
        for path in ["Autounattend.xml", "sources/Autounattend.xml"] {
            if medium.find(path)?.is_some() {
                answer_file = Some(path.to_string());
                break;
            }
        }
        Ok(Some(Self {
            images,
            eval,
            answer_file,
        }))
    }

    /// Returns true for an evaluation image, by its edition or by the medium's channel.
    pub fn is_eval(&self, image: &WimImage) -> bool {
        image.is_eval() || self.eval
    }
}

/// Refuses a split WIM without all of its parts: `install.swm`, `install2.swm`, `install3.swm` and
/// so on. Setup would notice this only after it has partitioned the disk.
fn require_parts(medium: &Medium, first: &str, part: WimPart, from: &str) -> Result<()> {
    let Some((stem, extension)) = first.rsplit_once('.') else {
        return Ok(());
    };
    let mut problems = Vec::new();
    for number in 2..=part.of {
        let path = format!("{stem}{number}.{extension}");
        let Some(entry) = medium.find(&path)?.filter(|entry| !entry.is_dir) else {
            problems.push(format!("{path} is missing"));
            continue;
        };
        let at = format!("{}:{path}", medium.path.display());
        match WimPart::read(&mut medium.open_file(&entry), &at) {
            Ok(found) if (found.number, found.of) != (number, part.of) => {
                let WimPart { number, of, .. } = found;
                problems.push(format!("{path} is marked as part {number} of {of}"));
            }
            Ok(found) if found.guid != part.guid => {
                problems.push(format!("{path} belongs to another WIM"));
            }
            Ok(_) => {}
            Err(error) => problems.push(format!("{path}: {}", error.problem().in_one_line())),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let fact = "the install image is split, and its parts are incomplete";
    Err(Error::new(Kind::Unproved, fact)
        .at(from)
        .expected(format!("{} parts of the same WIM", part.of))
        .lines(problems)
        .cure("put all parts on the medium, or join them: wimlib-imagex join"))
}

fn no_image(medium: &Medium) -> Error {
    let entries: Vec<String> = medium
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
    .at(medium.describe())
    .lines(entries);
    match &medium.remark {
        Some(remark) => error
            .found(remark)
            .cure("fetch the file again and compare its digest with the publisher's"),
        None => error.cure("use the ISO of Windows Server 2019, 2022 or 2025"),
    }
}

/// Returns true if `EI.CFG` has the channel `eval` and no volume license (Microsoft: "Windows Setup
/// edition configuration and product ID files").
fn is_eval(text: &str) -> bool {
    let (mut section, mut channel, mut volume) = (String::new(), None, false);
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name.to_ascii_lowercase();
        } else if section == "channel" {
            channel.get_or_insert(line);
        } else if section == "vl" {
            volume = line == "1";
        }
    }
    !volume && channel.is_some_and(|name| name.eq_ignore_ascii_case("eval"))
}

#[cfg(test)]
mod tests {
    use super::is_eval;

    #[test]
    fn the_channel_is_read_as_setup_reads_it() {
        for (text, expected) in [
            (
                "[EditionID]\r\n\r\n[Channel]\r\neval\r\n\r\n[VL]\r\n0\r\n",
                true,
            ),
            ("[Channel]\nEval\n[VL]\n1\n", false),
            ("[Channel]\nRetail\n", false),
            ("[Channel]\nRetail\neval\n", false),
            ("", false),
        ] {
            assert_eq!(is_eval(text), expected, "{text}");
        }
    }
}
