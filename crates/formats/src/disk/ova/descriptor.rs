//! Parses the files and disks of an OVF descriptor, to compare them with the package.
//!
//! Elements and attributes are found by their local names, since OVF 0.9, 1.x and 2 differ in their
//! namespaces only.
//!
//! Source: DMTF, DSP0243, "Open Virtualization Format Specification".

use roxmltree::{Document, Node};

/// A parsed descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OvfDescriptor {
    pub files: Vec<OvfFile>,
    pub disks: Vec<OvfDiskEntry>,
    /// The ids of the disks that the machines use.
    pub used: Vec<String>,
}

/// A file of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvfFile {
    pub id: String,
    pub href: String,
    /// Size in bytes, if stated.
    pub size: Option<u64>,
    /// The reason why the member cannot be read directly: it is compressed, or in several parts.
    pub packed: Option<&'static str>,
}

/// A disk of the package's machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvfDiskEntry {
    pub id: String,
    /// The file with its content. A disk without a file is empty.
    pub file: Option<String>,
    pub capacity: Option<OvfCapacity>,
}

/// A number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OvfCapacity {
    pub number: u64,
    /// Bytes per unit.
    pub unit: u64,
}

impl OvfCapacity {
    /// Returns true if a disk of `bytes` has this capacity. Its last unit need not be full.
    pub fn is_of(self, bytes: u64) -> bool {
        bytes.div_ceil(self.unit) == self.number
    }
}

impl OvfDescriptor {
    /// Parses a descriptor. The error is a short reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let xml = Document::parse(text.trim_start_matches('\u{feff}'))
            .map_err(|e| format!("the descriptor is not well-formed XML: {e}"))?;
        let root = xml.root_element();
        if root.tag_name().name() != "Envelope" {
            let name = root.tag_name().name();
            return Err(format!(
                "the descriptor begins with <{name}>, not <Envelope>"
            ));
        }
        let systems = ["VirtualSystem", "VirtualSystemCollection", "Content"];
        if !root
            .children()
            .any(|n| systems.contains(&n.tag_name().name()))
        {
            return Err("the descriptor describes no machine".into());
        }
        Ok(Self {
            files: find_elements(root, "File").filter_map(parse_file).collect(),
            disks: find_elements(root, "Disk")
                .filter(|n| find_attribute(*n, "diskId").is_some())
                .map(parse_disk)
                .collect(),
            used: find_elements(root, "HostResource")
                .filter_map(|n| n.text())
                .filter_map(|text| text.trim().split_once("disk/"))
                .map(|(_, id)| id.to_owned())
                .collect(),
        })
    }
}

/// Iterates over all elements with a local name.
fn find_elements<'a, 'i: 'a>(
    root: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    root.descendants()
        .filter(move |n| n.is_element() && n.tag_name().name() == name)
}

fn parse_file(node: Node<'_, '_>) -> Option<OvfFile> {
    let compression = find_attribute(node, "compression").unwrap_or_default();
    let packed = match (compression, find_attribute(node, "chunkSize")) {
        (_, Some(_)) => Some("is in several parts"),
        ("" | "identity", None) => None,
        (_, None) => Some("is compressed"),
    };
    Some(OvfFile {
        id: find_attribute(node, "id")?.to_owned(),
        href: find_attribute(node, "href")?.to_owned(),
        size: find_attribute(node, "size").and_then(|size| size.parse().ok()),
        packed,
    })
}

fn parse_disk(node: Node<'_, '_>) -> OvfDiskEntry {
    let unit = match find_attribute(node, "capacityAllocationUnits") {
        None => Some(1),
        Some(words) => parse_unit(words),
    };
    // The capacity may also be a property reference: `${size}`.
    let number = find_attribute(node, "capacity").and_then(|number| number.trim().parse().ok());
    OvfDiskEntry {
        id: find_attribute(node, "diskId")
            .unwrap_or_default()
            .to_owned(),
        file: find_attribute(node, "fileRef")
            .filter(|file| !file.is_empty())
            .map(String::from),
        capacity: unit
            .zip(number)
            .map(|(unit, number)| OvfCapacity { number, unit }),
    }
}

/// Parses a unit such as `byte * 2^30`, or a name of OVF 0.9, into bytes.
fn parse_unit(words: &str) -> Option<u64> {
    let plain: String = words.split_whitespace().collect::<String>().to_lowercase();
    match plain.as_str() {
        "" | "byte" | "bytes" => return Some(1),
        "kilobytes" => return Some(1 << 10),
        "megabytes" => return Some(1 << 20),
        "gigabytes" => return Some(1 << 30),
        _ => {}
    }
    let (base, power) = plain.strip_prefix("byte*")?.split_once('^')?;
    let (base, power): (u64, u32) = (base.parse().ok()?, power.parse().ok()?);
    base.checked_pow(power).filter(|unit| *unit > 0)
}

fn find_attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attributes()
        .find(|a| a.name() == name)
        .map(|a| a.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_disks_of_a_vsphere_export() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData">
 <References><File ovf:id="file1" ovf:href="a-1.vmdk" ovf:size="68608"/></References>
 <DiskSection><Info/>
  <Disk ovf:capacity="40" ovf:capacityAllocationUnits="byte * 2^30" ovf:diskId="vmdisk1" ovf:fileRef="file1"/>
  <Disk ovf:capacity="${size}" ovf:diskId="vmdisk2"/></DiskSection>
 <VirtualSystem ovf:id="vm"><VirtualHardwareSection>
  <Item><rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource></Item></VirtualHardwareSection></VirtualSystem>
</Envelope>"#;
        let found = OvfDescriptor::parse(text).unwrap();
        let file = OvfFile {
            id: "file1".into(),
            href: "a-1.vmdk".into(),
            size: Some(68608),
            packed: None,
        };
        assert_eq!(found.files, [file]);
        assert_eq!(found.used, ["vmdisk1"]);
        let capacity = found.disks[0].capacity.unwrap();
        assert!(capacity.is_of(40 << 30) && capacity.is_of((40 << 30) - 512));
        assert!(!capacity.is_of((40 << 30) + 1) && !capacity.is_of(39 << 30));
        assert_eq!(
            (found.disks[1].capacity, &found.disks[1].file),
            (None, &None)
        );
        let cut = OvfDescriptor::parse(&text[..600]).unwrap_err();
        assert!(
            cut.starts_with("the descriptor is not well-formed XML"),
            "{cut}"
        );
        let other = OvfDescriptor::parse("<domain/>").unwrap_err();
        assert_eq!(other, "the descriptor begins with <domain>, not <Envelope>");
    }

    #[test]
    fn units_as_programs_write_them() {
        for (words, expected) in [
            ("byte * 2^20", Some(1 << 20)),
            ("byte*2^30", Some(1 << 30)),
            ("byte * 10^9", Some(1_000_000_000)),
            ("byte", Some(1)),
            ("MegaBytes", Some(1 << 20)),
            ("furlong", None),
            ("byte * 2^99", None),
        ] {
            assert_eq!(parse_unit(words), expected, "{words}");
        }
    }
}
