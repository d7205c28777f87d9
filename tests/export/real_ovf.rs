//! The OVF that winimg writes beside what vCenter exports (tests/real): it has every element of it, but for those that are
//! named here with their reason, and no other.

use std::collections::BTreeSet;

use roxmltree::{Document, Node};
use support::{real, tree};

/// Elements and attributes that an export has and ours does not need.
const NOT_NEEDED: [(&str, &str); 15] = [
    ("Envelope vmw:buildId", "the build of vCenter"),
    (
        "Envelope/vmw:StorageGroupSection",
        "the exporter's storage policies",
    ),
    (
        "Envelope/VirtualSystem/OperatingSystemSection ovf:version",
        "vmw:osType says more",
    ),
    (
        "Envelope/VirtualSystem/VirtualHardwareSection ovf:transport",
        "no property is given to a clone this way",
    ),
    (
        "Envelope/VirtualSystem/VirtualHardwareSection/Item ovf:required",
        "all that is named is needed",
    ),
    (
        "Envelope/VirtualSystem/VirtualHardwareSection/Item/rasd:Limit",
        "no limit",
    ),
    (
        "Envelope/VirtualSystem/VirtualHardwareSection/Item/rasd:Reservation",
        "none",
    ),
    (
        "Envelope/VirtualSystem/VirtualHardwareSection/Item/vmw:Config",
        "slots are chosen anew",
    ),
    (
        "Envelope/VirtualSystem/VirtualHardwareSection/Item/vmw:CoresPerSocket",
        "the default",
    ),
    (
        "Envelope/VirtualSystem/VirtualHardwareSection/Item/vmw:StorageGroup",
        "no policy",
    ),
    (
        "Envelope/VirtualSystem/VirtualHardwareSection/vmw:ExtraConfig",
        "no variables of firmware",
    ),
    ("Envelope/VirtualSystem/vmw:BootOrderSection", "one disk"),
    ("Envelope/VirtualSystem/vmw:StorageSection", "no policy"),
    ("Envelope/VirtualSystem/EulaSection", "the owner's matter"),
    (
        "Envelope/VirtualSystem/ProductSection/Category",
        "one kind of property",
    ),
];

/// Elements of the standard that the exports do not have.
const OF_THE_STANDARD: [&str; 2] = [
    "Envelope/VirtualSystem/ProductSection/Product",
    "Envelope/VirtualSystem/ProductSection/Version",
];

fn name(node: Node<'_, '_>) -> String {
    let prefix = match node.tag_name().namespace().unwrap_or_default() {
        space if space.ends_with("CIM_ResourceAllocationSettingData") => "rasd:",
        space if space.ends_with("CIM_VirtualSystemSettingData") => "vssd:",
        "http://www.vmware.com/schema/ovf" => "vmw:",
        _ => "",
    };
    format!("{prefix}{}", node.tag_name().name())
}

/// Every element by its path, and every attribute behind the path of its element.
fn walk(node: Node<'_, '_>, above: &str, found: &mut BTreeSet<String>) {
    let path = format!("{above}{}", name(node));
    for attribute in node.attributes() {
        let prefix = match attribute.namespace().unwrap_or_default() {
            "http://www.vmware.com/schema/ovf" => "vmw:",
            _ => "ovf:",
        };
        found.insert(format!("{path} {prefix}{}", attribute.name()));
    }
    for child in node.children().filter(Node::is_element) {
        walk(child, &format!("{path}/"), found);
    }
    found.insert(path);
}

#[test]
fn the_descriptor_has_the_elements_of_an_export_of_vcenter() {
    let text =
        tree::snapshot("tests/export/snapshots/winimg__export__ova__the_descriptor_as_text.snap");
    let document = Document::parse(text.trim_start()).expect("XML");
    let mut ours = BTreeSet::new();
    walk(document.root_element(), "", &mut ours);

    let mut real = BTreeSet::new();
    for line in real::lines("vcenter-ovf.txt") {
        // Behind the last colon are the attributes; a prefix has no blank behind its colon.
        let (path, attributes) = line
            .split_once(": ")
            .unwrap_or((line.trim_end_matches(':'), ""));
        real.insert(path.to_owned());
        real.extend(
            attributes
                .split_whitespace()
                .map(|name| format!("{path} {name}")),
        );
    }

    let is_excused = |path: &str| {
        let mut paths = NOT_NEEDED.iter().map(|(path, _)| *path);
        paths.any(|excused| path == excused || path.starts_with(&format!("{excused} ")))
    };
    let lacking: Vec<&String> = real
        .difference(&ours)
        .filter(|path| !is_excused(path))
        .collect();
    assert!(lacking.is_empty(), "ours lacks {lacking:#?}");
    let invented: Vec<&String> = ours
        .difference(&real)
        .filter(|path| !OF_THE_STANDARD.contains(&path.as_str()))
        .collect();
    assert!(invented.is_empty(), "no export has {invented:#?}");
    for (path, reason) in NOT_NEEDED {
        assert!(
            real.contains(path) && !ours.contains(path),
            "{path}: {reason}"
        );
    }
}
