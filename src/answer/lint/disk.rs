//! Partitions: the layout, the firmware, and where Windows goes.

use roxmltree::Node;

use winimg_base::diag::Diagnostic;
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::Firmware;

use super::{LintRun, find_components, find_element, find_text, iter_children, trim_text};

/// A `<CreatePartition>`, by its number.
struct CreatePartition<'a, 'i> {
    node: Node<'a, 'i>,
    number: u32,
    kind: &'a str,
    extend: bool,
}

pub(super) fn check_disks(check: &mut LintRun, root: Node) {
    for setup in find_components(root, Some("windowsPE"), "Microsoft-Windows-Setup") {
        let disks: Vec<Node> = iter_children(setup, "DiskConfiguration")
            .flat_map(|d| iter_children(d, "Disk"))
            .collect();
        let to = find_element(setup, "ImageInstall/OSImage/InstallTo");
        for disk in &disks {
            check_disk(check, *disk);
            if to.is_none_or(|to| parse_number(to, "DiskID") == parse_number(*disk, "DiskID")) {
                check_recovery(check, *disk, to.map(|to| parse_number(to, "PartitionID")));
            }
        }
        check_install_to(check, setup, &disks);
    }
}

fn list_partitions<'a, 'i>(disk: Node<'a, 'i>) -> Vec<CreatePartition<'a, 'i>> {
    let mut all: Vec<CreatePartition> = iter_children(disk, "CreatePartitions")
        .flat_map(|c| iter_children(c, "CreatePartition"))
        .map(|node| CreatePartition {
            node,
            number: parse_number(node, "Order"),
            kind: find_text(node, "Type").unwrap_or(""),
            extend: find_text(node, "Extend") == Some("true"),
        })
        .collect();
    all.sort_by_key(|p| p.number);
    all
}

fn parse_number(node: Node, path: &'static str) -> u32 {
    find_text(node, path)
        .and_then(|t| t.parse().ok())
        .unwrap_or(0)
}

fn check_disk(check: &mut LintRun, disk: Node) {
    let all = list_partitions(disk);
    for p in &all {
        match (p.extend, find_element(p.node, "Size")) {
            (true, Some(size)) => check.error_with_label(
                size,
                format!("partition {} has both Size and Extend", p.number),
                "remove one of them",
            ),
            (false, None) => check.error(
                p.node,
                format!("partition {} has neither Size nor Extend", p.number),
            ),
            _ => {}
        }
    }
    let extended: Vec<&CreatePartition> = all.iter().filter(|p| p.extend).collect();
    match (extended.as_slice(), all.last()) {
        ([], Some(last)) => check.error(
            last.node,
            "no partition has Extend: the rest of the disk stays unused",
        ),
        ([one], Some(last)) if one.number != last.number => check.error(
            one.node,
            format!(
                "partition {} has Extend but is not the last: no space remains for partition {}",
                one.number, last.number
            ),
        ),
        ([_, second, ..], _) => check.error(
            second.node,
            format!("{} partitions have Extend; only one can", extended.len()),
        ),
        _ => {}
    }
    check_style(check, disk, &all);
    check_modifications(check, disk, &all);
}

/// Warns if Setup of Server 2025 would shrink C: to put a recovery partition of its own behind it,
/// because no existing one is large enough: 550 MB were too few, 800 enough
/// (vmware/packer-examples-for-vsphere, issue 1043). `winimg verify` refuses an image with a
/// recovery partition behind C:. `windows` is the partition that becomes C:, if the file names it.
fn check_recovery(check: &mut LintRun, disk: Node, windows: Option<u32>) {
    const MIN_MB: u32 = 800;
    const TYPES: [&str; 2] = ["DE94BBA4-06D1-4D40-A16A-BFD50179D6AC", "0x27"];
    let all = list_partitions(disk);
    let Some(last) = all.last() else { return };
    if check.facts.release != WindowsRelease::Server2025 {
        return;
    }
    let has_room = all
        .iter()
        .filter(|p| windows.is_none_or(|windows| p.number < windows))
        .filter(|p| parse_number(p.node, "Size") >= MIN_MB)
        .any(|p| {
            list_modifications(disk)
                .filter(|m| parse_number(*m, "PartitionID") == p.number)
                .filter_map(|m| find_text(m, "TypeID"))
                .any(|id| TYPES.iter().any(|known| known.eq_ignore_ascii_case(id)))
        });
    if has_room {
        return;
    }
    let warning = Diagnostic::warning(
        "Setup of Server 2025 puts its recovery partition behind C:, which then cannot grow on a \
         clone",
    )
    .at(&check.locate(last.node), "");
    check.found.push(warning.help(format!(
        "create a recovery partition of {MIN_MB} MB or more in front: TypeID {} (GPT) or {} (MBR)",
        TYPES[0], TYPES[1]
    )));
}

/// Requires a GPT layout with UEFI and an MBR layout with BIOS.
fn check_style(check: &mut LintRun, disk: Node, all: &[CreatePartition]) {
    let active: Vec<Node> = list_modifications(disk)
        .filter_map(|m| find_element(m, "Active"))
        .filter(|a| trim_text(*a) == "true")
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

fn list_modifications<'a, 'i>(disk: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    iter_children(disk, "ModifyPartitions").flat_map(|m| iter_children(m, "ModifyPartition"))
}

fn check_modifications(check: &mut LintRun, disk: Node, all: &[CreatePartition]) {
    for change in list_modifications(disk) {
        let id = parse_number(change, "PartitionID");
        let format = find_text(change, "Format");
        match all.iter().find(|p| p.number == id) {
            None if !all.is_empty() => {
                let node = find_element(change, "PartitionID").unwrap_or(change);
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
                find_element(change, "Format").unwrap_or(change),
                "the EFI partition has to be FAT32",
            ),
            _ => {}
        }
        if let (Some(label), None) = (find_element(change, "Label"), format) {
            check.error(label, "a Label without a Format is refused");
        }
    }
}

fn check_install_to(check: &mut LintRun, setup: Node, disks: &[Node]) {
    let Some(image) = find_element(setup, "ImageInstall/OSImage") else {
        return;
    };
    let available =
        find_element(image, "InstallToAvailablePartition").filter(|n| trim_text(*n) == "true");
    let to = match (find_element(image, "InstallTo"), available) {
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
    let (disk_id, partition) = (parse_number(to, "DiskID"), parse_number(to, "PartitionID"));
    let Some(disk) = disks
        .iter()
        .find(|d| parse_number(**d, "DiskID") == disk_id)
    else {
        if !disks.is_empty() {
            let why = format!("InstallTo names disk {disk_id}, which is not configured");
            check.error(find_element(to, "DiskID").unwrap_or(to), why);
        }
        return;
    };
    let all = list_partitions(*disk);
    let mut extended = all.iter().filter(|p| p.extend);
    // Several extended partitions are reported elsewhere.
    let target = extended.next().filter(|_| extended.next().is_none());
    let node = find_element(to, "PartitionID").unwrap_or(to);
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
                "InstallTo names partition {partition}; the one that takes the rest of the disk \
                 is {}",
                target.number
            ),
        ),
        _ => {}
    }
}
