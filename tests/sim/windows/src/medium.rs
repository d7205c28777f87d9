//! The install medium as Setup reads it: images of `sources/install.wim`, languages, channel.
//!
//! Source: Microsoft, "Windows Imaging File Format (WIM)"; "Windows Setup Edition Configuration and Product ID Files".

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// One image of install.wim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub index: u32,
    pub name: String,
    pub description: String,
    pub display_name: String,
    pub edition_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Medium {
    pub build: u32,
    /// `sources/EI.CFG` says `eval`.
    pub evaluation: bool,
    pub languages: Vec<String>,
    pub images: Vec<Image>,
}

/// Reads the medium whose root is `root`.
pub fn read(root: &Path) -> Result<Medium, String> {
    let channel = std::fs::read_to_string(root.join("sources/EI.CFG")).unwrap_or_default();
    let languages = std::fs::read_to_string(root.join("sources/lang.ini"))
        .map_err(|e| format!("sources/lang.ini: {e}"))?;
    let xml = wim_xml(&root.join("sources/install.wim"))
        .map_err(|e| format!("sources/install.wim: {e}"))?;
    let (build, images) = read_images(&xml)?;
    let evaluation = section(&channel, "Channel").any(|line| line.eq_ignore_ascii_case("eval"));
    let languages = section(&languages, "Available UI Languages");
    let languages = languages
        .filter_map(|line| Some(line.split('=').next()?.trim().to_owned()))
        .collect();
    Ok(Medium {
        build,
        evaluation,
        languages,
        images,
    })
}

fn section<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let mut inside = false;
    text.lines().map(str::trim).filter(move |line| {
        if let Some(title) = line.strip_prefix('[') {
            inside = title.trim_end_matches(']').eq_ignore_ascii_case(name);
            return false;
        }
        inside && !line.is_empty()
    })
}

/// The XML data of a WIM. It is stored uncompressed, in UTF-16LE with a byte order mark.
fn wim_xml(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let mut header = [0; 208];
    file.read_exact_at(&mut header, 0)?;
    if &header[..8] != b"MSWIM\0\0\0" {
        return Err(io::Error::other("not a WIM"));
    }
    let field = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
    let size = field(72) & 0x00FF_FFFF_FFFF_FFFF;
    if size > 16 << 20 {
        return Err(io::Error::other("its XML data is too large"));
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, field(80))?;
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    let text = String::from_utf16(&units).map_err(io::Error::other)?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

fn read_images(xml: &str) -> Result<(u32, Vec<Image>), String> {
    let tree = roxmltree::Document::parse(xml).map_err(|e| format!("XML data: {e}"))?;
    let text = |node: roxmltree::Node<'_, '_>, path: &str| {
        let found = path.split('/').try_fold(node, |at, name| {
            at.children().find(|child| child.has_tag_name(name))
        });
        found
            .and_then(|found| found.text())
            .unwrap_or_default()
            .to_owned()
    };
    let mut images = Vec::new();
    let mut build = 0;
    for node in tree
        .root_element()
        .children()
        .filter(|node| node.has_tag_name("IMAGE"))
    {
        let index = node
            .attribute("INDEX")
            .and_then(|index| index.parse().ok())
            .ok_or("an image has no INDEX")?;
        build = text(node, "WINDOWS/VERSION/BUILD")
            .parse()
            .map_err(|_| "an image has no build".to_owned())?;
        images.push(Image {
            index,
            name: text(node, "NAME"),
            description: text(node, "DESCRIPTION"),
            display_name: text(node, "DISPLAYNAME"),
            edition_id: text(node, "WINDOWS/EDITIONID"),
        });
    }
    if images.is_empty() {
        Err("no images".to_owned())
    } else {
        Ok((build, images))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_end_at_the_next() {
        let text = "[EditionID]\r\n\r\n[Channel]\r\neval\r\n\r\n[VL]\r\n0\r\n";
        assert_eq!(section(text, "channel").collect::<Vec<_>>(), ["eval"]);
    }
}
