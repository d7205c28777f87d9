//! What a WIM file says about the images in it: its header and its XML data. Reads `install.wim`, `install.esd` and the
//! first part of `install.swm` alike, since their headers and metadata agree. Whether the other parts are there and belong to
//! it is told by [`Part`].
//!
//! Refuses to read image contents, compressed XML data and pipable WIMs.
//!
//! Source: Microsoft, "Windows Imaging File Format (WIM)".

pub mod evaluation;
mod media;
mod pick;

use std::io::{Read, Seek, SeekFrom};

use roxmltree::{Document, Node};

use crate::bytes::{u16_le, u32_le, u64_le, utf16_le};
use winimg_base::error::{Error, Kind, Result};

pub use media::{MediaFacts, Release};

/// Bytes of the header.
const HEADER: usize = 208;
/// Of a resource's first 8 bytes, those that are its size; the last one holds flags.
const SIZE: u64 = 0x00ff_ffff_ffff_ffff;
/// Largest XML data that is read, bytes. Microsoft's have about 20 KiB.
const MAX_XML: u64 = 16 << 20;
/// Most images that one WIM is believed to hold.
const MAX_IMAGES: usize = 1000;

/// The processor that an image is for, as the number in `WINDOWS/ARCH` (PROCESSOR_ARCHITECTURE_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    X86,
    Arm,
    X64,
    Arm64,
    Other(u32),
}

impl Arch {
    fn from_number(n: u32) -> Self {
        match n {
            0 => Self::X86,
            5 => Self::Arm,
            9 => Self::X64,
            12 => Self::Arm64,
            n => Self::Other(n),
        }
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::X86 => f.write_str("x86"),
            Self::Arm => f.write_str("arm"),
            Self::X64 => f.write_str("x64"),
            Self::Arm64 => f.write_str("arm64"),
            Self::Other(n) => write!(f, "architecture {n}"),
        }
    }
}

/// One image of a WIM. Fields that the XML leaves out are empty or `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// From 1.
    pub index: u32,
    /// `<NAME>`: what `/IMAGE/NAME` of an answer file means, such as `Windows Server 2022 SERVERDATACENTERCORE`.
    pub name: String,
    /// What Setup and DISM show.
    pub display_name: String,
    pub description: String,
    /// `ServerDatacenterEval`
    pub edition_id: String,
    /// `Server Core` or `Server`
    pub installation_type: String,
    /// `20348`
    pub build: Option<u32>,
    /// `10.0.20348.587`
    pub version: String,
    pub arch: Option<Arch>,
    pub languages: Vec<String>,
    /// Bytes of the files, uncompressed.
    pub size: u64,
}

impl Image {
    /// Whether the edition is an evaluation one: its EditionID ends in `Eval` (or `EvalCore`).
    pub fn is_eval(&self) -> bool {
        let id = self.edition_id.to_ascii_lowercase();
        id.strip_suffix("core").unwrap_or(&id).ends_with("eval")
    }

    /// Whether this is an installation without a desktop.
    pub fn is_core(&self) -> bool {
        let kind = self.installation_type.to_ascii_lowercase();
        kind.ends_with("core")
            || kind.is_empty() && self.name.to_ascii_lowercase().ends_with("core")
    }

    /// `datacenter`, `standard` …: the EditionID without `Server` in front and `Eval`, `Core` behind, lower-case.
    pub fn edition(&self) -> String {
        let id = self.edition_id.to_ascii_lowercase();
        let id = id.strip_suffix("core").unwrap_or(&id);
        let id = id.strip_suffix("eval").unwrap_or(id);
        let id = id.strip_suffix("core").unwrap_or(id);
        id.strip_prefix("server").unwrap_or(id).to_string()
    }

    /// The short form that a recipe can give: `datacenter-core`, `standard`.
    pub fn short(&self) -> String {
        let edition = self.edition();
        if self.is_core() {
            format!("{edition}-core")
        } else {
            edition
        }
    }
}

/// The images of one WIM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WimImages {
    /// How to name the WIM in errors.
    pub from: String,
    pub images: Vec<Image>,
    /// The part that was read: 1 of 1, unless the WIM is split.
    pub part: Part,
}

/// Which part of a split WIM a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub number: u16,
    /// How many parts there are.
    pub of: u16,
    /// The same in all parts of one WIM.
    pub guid: [u8; 16],
}

impl Part {
    /// Reads the header of a part, and refuses one whose table of contents lies behind its end.
    pub fn read(reader: &mut (impl Read + Seek), from: &str) -> Result<Self> {
        let header = header(reader, from)?;
        let (size, offset) = (u64_le(&header, 48) & SIZE, u64_le(&header, 56));
        let cannot = |e| {
            Error::new(Kind::Unproved, "cannot read the WIM")
                .at(from)
                .because(e)
        };
        let len = reader.seek(SeekFrom::End(0)).map_err(cannot)?;
        if offset.checked_add(size).is_none_or(|end| end > len) {
            return Err(Error::new(Kind::Unproved, "this WIM is cut short")
                .at(from)
                .expected(format!("a table of {size} bytes at offset {offset}"))
                .found(format!("{len} bytes in all"))
                .cure("copy it again; the medium's digest shows whether it is whole"));
        }
        Ok(Self::of_header(&header))
    }

    fn of_header(header: &[u8; HEADER]) -> Self {
        let mut guid = [0; 16];
        guid.copy_from_slice(&header[24..40]);
        Self {
            number: u16_le(header, 40),
            of: u16_le(header, 42),
            guid,
        }
    }
}

impl WimImages {
    /// Reads header and XML data. `from` names the file in errors.
    pub fn read(reader: &mut (impl Read + Seek), from: &str) -> Result<Self> {
        let wrong = |fact: String| Error::new(Kind::Unproved, fact).at(from);
        let cannot = |e: std::io::Error| wrong("cannot read the WIM".to_string()).because(e);
        let header = header(reader, from)?;
        let part = Part::of_header(&header);
        if part.number > 1 {
            let number = part.number;
            return Err(wrong(format!(
                "this is part {number} of a split WIM; the images are described in part 1"
            )));
        }
        let size = u64_le(&header, 72) & SIZE;
        let (flags, offset, original) = (header[79], u64_le(&header, 80), u64_le(&header, 88));
        if flags & 0x04 != 0 || size != original {
            return Err(wrong(
                "the XML data of this WIM is compressed, which no Windows does".into(),
            ));
        }
        if size > MAX_XML {
            return Err(wrong(format!("the XML data of this WIM has {size} bytes")));
        }
        let mut xml = Vec::new();
        reader.seek(SeekFrom::Start(offset)).map_err(cannot)?;
        reader.take(size).read_to_end(&mut xml).map_err(cannot)?;
        if xml.len() as u64 != size {
            return Err(wrong(format!(
                "this WIM is cut short: its XML data of {size} bytes at offset {offset} is not all there"
            )));
        }
        let images =
            images(&xml).map_err(|why| wrong(format!("the XML data of this WIM {why}")))?;
        let said = u32_le(&header, 44) as usize;
        if said != images.len() {
            return Err(wrong(format!(
                "the header of this WIM says {said} images, its XML data describes {}",
                images.len()
            )));
        }
        Ok(Self {
            from: from.to_string(),
            images,
            part,
        })
    }
}

fn header(reader: &mut (impl Read + Seek), from: &str) -> Result<[u8; HEADER]> {
    let wrong = |fact: String| Error::new(Kind::Unproved, fact).at(from);
    let mut header = [0; HEADER];
    reader
        .seek(SeekFrom::Start(0))
        .map_err(|e| wrong("cannot read the WIM".into()).because(e))?;
    reader
        .read_exact(&mut header)
        .map_err(|_| wrong(format!("this is no WIM: it has less than {HEADER} bytes")))?;
    if header.starts_with(b"WLPWM\0\0\0") {
        return Err(wrong(
            "this is a pipable WIM, which Windows cannot install from".into(),
        ));
    }
    if !header.starts_with(b"MSWIM\0\0\0") {
        return Err(wrong("this is no WIM: it does not begin with MSWIM".into()));
    }
    Ok(header)
}

/// `xml` is UTF-16LE with a byte order mark. The error fits after "the XML data".
fn images(xml: &[u8]) -> std::result::Result<Vec<Image>, String> {
    let text = xml
        .strip_prefix(b"\xff\xfe")
        .ok_or("does not begin with a UTF-16LE byte order mark")?;
    let text = String::from_utf16(&utf16_le(text)).map_err(|_| "is not UTF-16")?;
    let text = text.trim_end_matches('\0');
    let document = Document::parse(text).map_err(|e| format!("is not well-formed: {e}"))?;
    let root = document.root_element();
    if !root.has_tag_name("WIM") {
        return Err(format!(
            "has <{}> where <WIM> belongs",
            root.tag_name().name()
        ));
    }
    let mut images = root
        .children()
        .filter(|n| n.has_tag_name("IMAGE"))
        .take(MAX_IMAGES)
        .map(image)
        .collect::<std::result::Result<Vec<_>, _>>()?;
    images.sort_by_key(|i| i.index);
    Ok(images)
}

fn image(node: Node) -> std::result::Result<Image, String> {
    let index = node
        .attribute("INDEX")
        .and_then(|i| i.trim().parse().ok())
        .ok_or("has an IMAGE without a number as its INDEX")?;
    let text = |path: &str| at(node, path).map_or_else(String::new, words);
    let number = |path: &str| text(path).parse::<u32>().ok();
    let parts =
        ["MAJOR", "MINOR", "BUILD", "SPBUILD"].map(|part| text(&format!("WINDOWS/VERSION/{part}")));
    let languages = at(node, "WINDOWS/LANGUAGES");
    Ok(Image {
        index,
        name: text("NAME"),
        display_name: text("DISPLAYNAME"),
        description: text("DESCRIPTION"),
        edition_id: text("WINDOWS/EDITIONID"),
        installation_type: text("WINDOWS/INSTALLATIONTYPE"),
        build: number("WINDOWS/VERSION/BUILD"),
        version: parts
            .into_iter()
            .take_while(|p| !p.is_empty())
            .collect::<Vec<_>>()
            .join("."),
        arch: number("WINDOWS/ARCH").map(Arch::from_number),
        languages: languages
            .into_iter()
            .flat_map(|l| l.children().filter(|n| n.has_tag_name("LANGUAGE")))
            .map(words)
            .collect(),
        size: text("TOTALBYTES").parse().unwrap_or(0),
    })
}

fn at<'a, 'i>(node: Node<'a, 'i>, path: &str) -> Option<Node<'a, 'i>> {
    path.split('/').try_fold(node, |here, name| {
        here.children().find(|n| n.has_tag_name(name))
    })
}

fn words(node: Node) -> String {
    node.text().unwrap_or("").trim().to_string()
}
