//! What an OVF descriptor says of the package's files and disks, as far as it can be compared with them.
//!
//! Elements and attributes are found by their local names, since OVF 0.9, 1.x and 2 differ in their namespaces only.
//!
//! Source: DMTF, DSP0243, "Open Virtualization Format Specification".

use roxmltree::{Document, Node};

/// A descriptor that was read as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    pub files: Vec<File>,
    pub disks: Vec<Disk>,
    /// The ids of the disks that the machines use.
    pub used: Vec<String>,
}

/// A file of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub id: String,
    pub href: String,
    /// Bytes, where the descriptor says it.
    pub size: Option<u64>,
    /// Why the member can't be read as it is: it is compressed, or in several parts.
    pub packed: Option<&'static str>,
}

/// A disk of the package's machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    pub id: String,
    /// The file that holds it. A disk without a file begins empty.
    pub file: Option<String>,
    pub capacity: Option<Capacity>,
}

/// A number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub number: u64,
    /// Bytes of one.
    pub unit: u64,
}

impl Capacity {
    /// Whether a disk of `bytes` has this capacity: the same number of units, the last of which need not be full.
    pub fn is_of(self, bytes: u64) -> bool {
        bytes.div_ceil(self.unit) == self.number
    }
}

impl Descriptor {
    /// The error says in a few words what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let xml = Document::parse(text.trim_start_matches('\u{feff}'))
            .map_err(|e| format!("the descriptor is not whole XML: {e}"))?;
        let root = xml.root_element();
        if root.tag_name().name() != "Envelope" {
            let name = root.tag_name().name();
            return Err(format!(
                "the descriptor begins with <{name}>, not <Envelope>"
            ));
        }
        let all = |name: &'static str| {
            root.descendants()
                .filter(move |n| n.is_element() && n.tag_name().name() == name)
        };
        let is_system = |n: &Node<'_, '_>| {
            matches!(
                n.tag_name().name(),
                "VirtualSystem" | "VirtualSystemCollection" | "Content"
            )
        };
        if !root.children().any(|n| is_system(&n)) {
            return Err("the descriptor describes no machine".into());
        }
        let disks = all("Disk").filter(|n| attribute(*n, "diskId").is_some());
        let used = all("HostResource").filter_map(|n| n.text());
        let used = used.filter_map(|text| text.trim().split_once("disk/"));
        Ok(Self {
            files: all("File").filter_map(file).collect(),
            disks: disks.map(disk).collect(),
            used: used.map(|(_, id)| id.to_owned()).collect(),
        })
    }
}

fn file(node: Node<'_, '_>) -> Option<File> {
    let compression = attribute(node, "compression").unwrap_or_default();
    let packed = match (compression, attribute(node, "chunkSize")) {
        (_, Some(_)) => Some("is in several parts"),
        ("" | "identity", None) => None,
        (_, None) => Some("is compressed"),
    };
    Some(File {
        id: attribute(node, "id")?.to_owned(),
        href: attribute(node, "href")?.to_owned(),
        size: attribute(node, "size").and_then(|size| size.parse().ok()),
        packed,
    })
}

fn disk(node: Node<'_, '_>) -> Disk {
    let unit = match attribute(node, "capacityAllocationUnits") {
        None => Some(1),
        Some(words) => unit(words),
    };
    // A number may also be the name of a property: `${size}`.
    let number = attribute(node, "capacity").and_then(|number| number.trim().parse().ok());
    let both = unit.zip(number);
    Disk {
        id: attribute(node, "diskId").unwrap_or_default().to_owned(),
        file: attribute(node, "fileRef")
            .filter(|file| !file.is_empty())
            .map(String::from),
        capacity: both.map(|(unit, number)| Capacity { number, unit }),
    }
}

/// Bytes of `byte * 2^30` and of the names that OVF 0.9 had.
fn unit(words: &str) -> Option<u64> {
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

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let mut all = node.attributes();
    all.find(|a| a.name() == name).map(|a| a.value())
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
        let found = Descriptor::parse(text).unwrap();
        let file = File {
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
        let cut = Descriptor::parse(&text[..600]).unwrap_err();
        assert!(cut.starts_with("the descriptor is not whole XML"), "{cut}");
        let other = Descriptor::parse("<domain/>").unwrap_err();
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
            assert_eq!(unit(words), expected, "{words}");
        }
    }
}
