//! Reads the image metadata of a WIM file: its header and its XML data. `install.wim`,
//! `install.esd` and the first part of `install.swm` have the same headers and metadata.
//! [`WimPart`] identifies the other parts.
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

pub use media::{MediaFacts, WindowsRelease};

/// Bytes of the header.
const HEADER: usize = 208;
/// Mask of the size in a resource's first 8 bytes; the highest byte has flags.
const SIZE: u64 = 0x00ff_ffff_ffff_ffff;
/// Maximum bytes of XML data; Microsoft's has about 20 KiB.
const MAX_XML: u64 = 16 << 20;
/// Maximum number of images in one WIM.
const MAX_IMAGES: usize = 1000;

/// The processor that an image is for, as the number in `WINDOWS/ARCH` (PROCESSOR_ARCHITECTURE_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WimArch {
    X86,
    Arm,
    X64,
    Arm64,
    Other(u32),
}

impl WimArch {
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

impl std::fmt::Display for WimArch {
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

/// One image of a WIM. Fields missing in the XML are empty or `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WimImage {
    /// Counted from 1.
    pub index: u32,
    /// `<NAME>`, to which `/IMAGE/NAME` of an answer file refers, such as
    /// `Windows Server 2022 SERVERDATACENTERCORE`.
    pub name: String,
    /// Name shown by Setup and DISM.
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
    pub arch: Option<WimArch>,
    pub languages: Vec<String>,
    /// Bytes of the files, uncompressed.
    pub size: u64,
}

impl WimImage {
    /// Returns true for an evaluation edition, with an EditionID that ends in `Eval` (or
    /// `EvalCore`).
    pub fn is_eval(&self) -> bool {
        let id = self.edition_id.to_ascii_lowercase();
        id.strip_suffix("core").unwrap_or(&id).ends_with("eval")
    }

    /// Returns true for an installation without a desktop.
    pub fn is_core(&self) -> bool {
        let kind = self.installation_type.to_ascii_lowercase();
        kind.ends_with("core")
            || kind.is_empty() && self.name.to_ascii_lowercase().ends_with("core")
    }

    /// Returns `datacenter`, `standard` …: the lower-case EditionID without the prefix `Server` and
    /// the suffixes `Eval` and `Core`.
    pub fn edition(&self) -> String {
        let id = self.edition_id.to_ascii_lowercase();
        let id = id.strip_suffix("core").unwrap_or(&id);
        let id = id.strip_suffix("eval").unwrap_or(id);
        let id = id.strip_suffix("core").unwrap_or(id);
        id.strip_prefix("server").unwrap_or(id).to_string()
    }

    /// Returns the short form for recipes: `datacenter-core`, `standard`.
    pub fn short_name(&self) -> String {
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
    /// Name of the WIM in errors.
    pub from: String,
    pub images: Vec<WimImage>,
    /// The part that was read; part 1 of 1 unless the WIM is split.
    pub part: WimPart,
}

/// Identity of one part of a split WIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WimPart {
    pub number: u16,
    /// Number of parts.
    pub of: u16,
    /// The same in all parts of one WIM.
    pub guid: [u8; 16],
}

impl WimPart {
    /// Reads the header of a part, and refuses a part with its table of contents beyond its end.
    pub fn read(reader: &mut (impl Read + Seek), from: &str) -> Result<Self> {
        let header = read_header(reader, from)?;
        let (size, offset) = (u64_le(&header, 48) & SIZE, u64_le(&header, 56));
        let len = reader
            .seek(SeekFrom::End(0))
            .map_err(|e| report_unreadable(from, e))?;
        if offset.checked_add(size).is_none_or(|end| end > len) {
            return Err(report_invalid(from, "this WIM is truncated")
                .expected(format!("a table of {size} bytes at offset {offset}"))
                .found(format!("{len} bytes in total"))
                .cure("copy it again, and check the medium's digest"));
        }
        Ok(Self::from_header(&header))
    }

    fn from_header(header: &[u8; HEADER]) -> Self {
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
        let header = read_header(reader, from)?;
        let part = WimPart::from_header(&header);
        if part.number > 1 {
            let number = part.number;
            let fact =
                format!("this is part {number} of a split WIM; the images are described in part 1");
            return Err(report_invalid(from, fact));
        }
        let size = u64_le(&header, 72) & SIZE;
        let (flags, offset, original) = (header[79], u64_le(&header, 80), u64_le(&header, 88));
        if flags & 0x04 != 0 || size != original {
            let fact = "the XML data of this WIM is compressed, which is not supported";
            return Err(report_invalid(from, fact));
        }
        if size > MAX_XML {
            let fact = format!("the XML data of this WIM has {size} bytes");
            return Err(report_invalid(from, fact));
        }
        let mut xml = Vec::new();
        reader
            .seek(SeekFrom::Start(offset))
            .map_err(|e| report_unreadable(from, e))?;
        reader
            .take(size)
            .read_to_end(&mut xml)
            .map_err(|e| report_unreadable(from, e))?;
        if xml.len() as u64 != size {
            let fact = format!(
                "this WIM is truncated: it ends within its XML data of {size} bytes at offset \
                 {offset}"
            );
            return Err(report_invalid(from, fact));
        }
        let images = parse_images(&xml)
            .map_err(|why| report_invalid(from, format!("the XML data of this WIM {why}")))?;
        let declared = u32_le(&header, 44) as usize;
        if declared != images.len() {
            let fact = format!(
                "the header of this WIM has {declared} images, but its XML data has {}",
                images.len()
            );
            return Err(report_invalid(from, fact));
        }
        Ok(Self {
            from: from.to_string(),
            images,
            part,
        })
    }
}

fn read_header(reader: &mut (impl Read + Seek), from: &str) -> Result<[u8; HEADER]> {
    let mut header = [0; HEADER];
    reader
        .seek(SeekFrom::Start(0))
        .map_err(|e| report_unreadable(from, e))?;
    reader.read_exact(&mut header).map_err(|_| {
        let fact = format!("this is not a WIM: it has fewer than {HEADER} bytes");
        report_invalid(from, fact)
    })?;
    if header.starts_with(b"WLPWM\0\0\0") {
        let fact = "this is a pipable WIM, which Windows cannot install from";
        return Err(report_invalid(from, fact));
    }
    if !header.starts_with(b"MSWIM\0\0\0") {
        let fact = "this is not a WIM: it does not start with MSWIM";
        return Err(report_invalid(from, fact));
    }
    Ok(header)
}

fn report_invalid(from: &str, fact: impl Into<String>) -> Error {
    Error::new(Kind::Unproved, fact).at(from)
}

fn report_unreadable(from: &str, error: std::io::Error) -> Error {
    report_invalid(from, "cannot read the WIM").because(error)
}

/// Parses XML in UTF-16LE with a byte order mark. The error is worded to follow "the XML data".
fn parse_images(xml: &[u8]) -> std::result::Result<Vec<WimImage>, String> {
    let text = xml
        .strip_prefix(b"\xff\xfe")
        .ok_or("does not start with a UTF-16LE byte order mark")?;
    let text = String::from_utf16(&utf16_le(text)).map_err(|_| "is not UTF-16")?;
    let text = text.trim_end_matches('\0');
    let document = Document::parse(text).map_err(|e| format!("is not well-formed: {e}"))?;
    let root = document.root_element();
    if !root.has_tag_name("WIM") {
        return Err(format!("has <{}> instead of <WIM>", root.tag_name().name()));
    }
    let mut images = root
        .children()
        .filter(|n| n.has_tag_name("IMAGE"))
        .take(MAX_IMAGES)
        .map(parse_image)
        .collect::<std::result::Result<Vec<_>, _>>()?;
    images.sort_by_key(|i| i.index);
    Ok(images)
}

fn parse_image(node: Node) -> std::result::Result<WimImage, String> {
    let index = node
        .attribute("INDEX")
        .and_then(|i| i.trim().parse().ok())
        .ok_or("has an IMAGE without a number as its INDEX")?;
    let parts = ["MAJOR", "MINOR", "BUILD", "SPBUILD"]
        .map(|part| text_at(node, &format!("WINDOWS/VERSION/{part}")));
    let languages = find_node(node, "WINDOWS/LANGUAGES");
    Ok(WimImage {
        index,
        name: text_at(node, "NAME"),
        display_name: text_at(node, "DISPLAYNAME"),
        description: text_at(node, "DESCRIPTION"),
        edition_id: text_at(node, "WINDOWS/EDITIONID"),
        installation_type: text_at(node, "WINDOWS/INSTALLATIONTYPE"),
        build: text_at(node, "WINDOWS/VERSION/BUILD").parse().ok(),
        version: parts
            .into_iter()
            .take_while(|p| !p.is_empty())
            .collect::<Vec<_>>()
            .join("."),
        arch: text_at(node, "WINDOWS/ARCH")
            .parse()
            .ok()
            .map(WimArch::from_number),
        languages: languages
            .into_iter()
            .flat_map(|l| l.children().filter(|n| n.has_tag_name("LANGUAGE")))
            .map(read_text)
            .collect(),
        size: text_at(node, "TOTALBYTES").parse().unwrap_or(0),
    })
}

fn find_node<'a, 'i>(node: Node<'a, 'i>, path: &str) -> Option<Node<'a, 'i>> {
    path.split('/').try_fold(node, |here, name| {
        here.children().find(|n| n.has_tag_name(name))
    })
}

fn text_at(node: Node, path: &str) -> String {
    find_node(node, path).map_or_else(String::new, read_text)
}

fn read_text(node: Node) -> String {
    node.text().unwrap_or("").trim().to_string()
}
