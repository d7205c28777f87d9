//! Partitions: the layout, the firmware, and where Windows goes.

use roxmltree::Node;

use winimg_base::diag::Diagnostic;
use winimg_formats::wim::Release;
use winimg_recipe::recipe::Firmware;

use super::{Check, at, components, named, text, text_at};

/// A `<CreatePartition>`, by its number.
struct Partition<'a, 'i> {
    node: Node<'a, 'i>,
    number: u32,
    kind: &'a str,
    extend: bool,
}

pub(super) fn all(check: &mut Check, root: Node) {
    for setup in components(root, Some("windowsPE"), "Microsoft-Windows-Setup") {
        let disks: Vec<Node> = named(setup, "DiskConfiguration")
            .flat_map(|d| named(d, "Disk"))
            .collect();
        let to = at(setup, "ImageInstall/OSImage/InstallTo");
        for disk in &disks {
            one(check, *disk);
            let is_windows = |to| number(to, "DiskID") == number(*disk, "DiskID");
            if to.is_none_or(is_windows) {
                recovery(check, *disk, to.map(|to| number(to, "PartitionID")));
            }
        }
        install_to(check, setup, &disks);
    }
}

fn partitions<'a, 'i>(disk: Node<'a, 'i>) -> Vec<Partition<'a, 'i>> {
    let mut all: Vec<Partition> = named(disk, "CreatePartitions")
        .flat_map(|c| named(c, "CreatePartition"))
        .map(|node| Partition {
            node,
            number: number(node, "Order"),
            kind: text_at(node, "Type").unwrap_or(""),
            extend: text_at(node, "Extend") == Some("true"),
        })
        .collect();
    all.sort_by_key(|p| p.number);
    all
}

fn number(node: Node, path: &'static str) -> u32 {
    text_at(node, path)
        .and_then(|t| t.parse().ok())
        .unwrap_or(0)
}

fn one(check: &mut Check, disk: Node) {
    let all = partitions(disk);
    for p in &all {
        match (p.extend, at(p.node, "Size")) {
            (true, Some(size)) => check.error_with_label(
                size,
                format!("partition {} has both Size and Extend", p.number),
                "leave one of them out",
            ),
            (false, None) => check.error(
                p.node,
                format!("partition {} has neither Size nor Extend", p.number),
            ),
            _ => {}
        }
    }
    let extended: Vec<&Partition> = all.iter().filter(|p| p.extend).collect();
    match (extended.as_slice(), all.last()) {
        ([], Some(last)) => check.error(
            last.node,
            "no partition has Extend: the rest of the disk stays unused",
        ),
        ([one], Some(last)) if one.number != last.number => check.error(
            one.node,
            format!(
                "partition {} has Extend and is not the last: nothing is left for partition {}",
                one.number, last.number
            ),
        ),
        ([_, second, ..], _) => check.error(
            second.node,
            format!("{} partitions have Extend; only one can", extended.len()),
        ),
        _ => {}
    }
    style(check, disk, &all);
    modified(check, disk, &all);
}

/// Setup of Server 2025 shrinks C: and puts a recovery partition of its own behind it where none has room for it: 550 MB
/// were too few, 800 enough (vmware/packer-examples-for-vsphere, issue 1043). `winimg verify` refuses an image with one
/// behind C:, the file's own too. `windows` is the partition that becomes C:, where the file names it.
fn recovery(check: &mut Check, disk: Node, windows: Option<u32>) {
    const LEAST: u32 = 800;
    const TYPES: [&str; 2] = ["DE94BBA4-06D1-4D40-A16A-BFD50179D6AC", "0x27"];
    let all = partitions(disk);
    let Some(last) = all.last() else { return };
    if check.facts.release != Release::Server2025 {
        return;
    }
    let of_recovery = |p: &&Partition| {
        let mut changes = modifications(disk).filter(|m| number(*m, "PartitionID") == p.number);
        changes.any(|m| {
            let id = text_at(m, "TypeID").unwrap_or_default();
            TYPES.iter().any(|known| known.eq_ignore_ascii_case(id))
        })
    };
    let is_in_front = |p: &&Partition| windows.is_none_or(|windows| p.number < windows);
    let in_front = all.iter().filter(is_in_front);
    let mut large = in_front.filter(|p| number(p.node, "Size") >= LEAST);
    if large.any(|p| of_recovery(&p)) {
        return;
    }
    let warning = "Setup of Server 2025 puts its recovery partition behind C:, which then cannot grow on a clone";
    let warning = Diagnostic::warning(warning).at(&check.place(last.node), "");
    check.found.push(warning.help(format!(
        "create a recovery partition of {LEAST} MB or more in front: TypeID {} (GPT) or {} (MBR)",
        TYPES[0], TYPES[1]
    )));
}

/// GPT exactly under UEFI.
fn style(check: &mut Check, disk: Node, all: &[Partition]) {
    let active: Vec<Node> = modifications(disk)
        .filter_map(|m| at(m, "Active"))
        .filter(|a| text(*a) == "true")
        .collect();
    match check.facts.firmware {
        Firmware::Uefi => {
            let has_efi = all.iter().any(|p| p.kind == "EFI");
            if let Some(first) = all.first().filter(|_| !has_efi) {
                check.error_with_help(
                    first.node,
                    "the machine has UEFI, and the layout has no EFI partition",
                    "add a partition of Type EFI with 260 MB, or set firmware = \"bios\""
                        .to_string(),
                );
            }
            if let Some(one) = active.first() {
                let why = "Active is for BIOS; the machine has UEFI";
                check.error_with_label(*one, why, "remove it");
            }
        }
        Firmware::Bios => {
            for p in all.iter().filter(|p| matches!(p.kind, "EFI" | "MSR")) {
                let why = "the machine has a BIOS, which cannot use a partition of Type";
                check.error(p.node, format!("{why} {}", p.kind));
            }
            match (active.as_slice(), all.last()) {
                ([], Some(last)) => check.error(
                    last.node,
                    "the machine has a BIOS, and no partition is Active: it would not boot",
                ),
                ([_, second, ..], _) => {
                    check.error(*second, "two partitions are Active; a BIOS boots from one");
                }
                _ => {}
            }
        }
    }
}

fn modifications<'a, 'i>(disk: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    named(disk, "ModifyPartitions").flat_map(|m| named(m, "ModifyPartition"))
}

fn modified(check: &mut Check, disk: Node, all: &[Partition]) {
    for change in modifications(disk) {
        let id = number(change, "PartitionID");
        let format = text_at(change, "Format");
        match all.iter().find(|p| p.number == id) {
            None if !all.is_empty() => {
                let node = at(change, "PartitionID").unwrap_or(change);
                check.error(node, format!("there is no partition {id} to modify"));
            }
            Some(p) if p.kind == "MSR" => {
                let beyond = change
                    .children()
                    .filter(Node::is_element)
                    .find(|c| !matches!(c.tag_name().name(), "Order" | "PartitionID"));
                if let Some(node) = beyond {
                    check.error(node, "an MSR partition cannot be modified");
                }
            }
            Some(p) if p.kind == "EFI" && format != Some("FAT32") => check.error(
                at(change, "Format").unwrap_or(change),
                "the EFI partition has to be FAT32",
            ),
            _ => {}
        }
        if let (Some(label), None) = (at(change, "Label"), format) {
            check.error(label, "a Label without a Format is refused");
        }
    }
}

fn install_to(check: &mut Check, setup: Node, disks: &[Node]) {
    let Some(image) = at(setup, "ImageInstall/OSImage") else {
        return;
    };
    let available = at(image, "InstallToAvailablePartition").filter(|n| text(*n) == "true");
    let to = match (at(image, "InstallTo"), available) {
        (Some(to), None) => to,
        (None, Some(_)) => return,
        (Some(_), Some(node)) => {
            let why = "InstallTo and InstallToAvailablePartition exclude each other";
            return check.error(node, why);
        }
        (None, None) => {
            return check.error(
                image,
                "there is no InstallTo: Setup asks where Windows goes",
            );
        }
    };
    let (disk_id, partition) = (number(to, "DiskID"), number(to, "PartitionID"));
    let Some(disk) = disks.iter().find(|d| number(**d, "DiskID") == disk_id) else {
        if !disks.is_empty() {
            let why = format!("InstallTo names disk {disk_id}, which is not configured");
            check.error(at(to, "DiskID").unwrap_or(to), why);
        }
        return;
    };
    let all = partitions(*disk);
    let mut extended = all.iter().filter(|p| p.extend);
    // Several are a complaint of their own.
    let target = extended.next().filter(|_| extended.next().is_none());
    let node = at(to, "PartitionID").unwrap_or(to);
    match (all.iter().find(|p| p.number == partition), target) {
        (None, _) if !all.is_empty() => {
            let why = format!("InstallTo names partition {partition}, which is not created");
            check.error(node, why);
        }
        (Some(p), _) if matches!(p.kind, "EFI" | "MSR" | "Extended") => {
            let kind = p.kind;
            let why = format!("InstallTo names partition {partition}, which is of Type {kind}");
            check.error(node, why);
        }
        (Some(p), Some(target)) if p.number != target.number => check.error(
            node,
            format!(
                "InstallTo names partition {partition}; the one that takes the rest of the disk is {}",
                target.number
            ),
        ),
        _ => {}
    }
}
