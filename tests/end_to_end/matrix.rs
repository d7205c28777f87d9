//! The install matrix: what Windows is installed from and on, and what its clones stand on, in chosen combinations.
//!
//! Each is built from a recipe of its own and tried by `winimg build --try`. Any two values that can go together are in one
//! row at least, which a test counts. Words in `MATRIX` choose rows by their names, `PART=1/2` the first half of the table.

mod recipe;
mod run;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use support::{rows, tree};

/// One combination. The clones' hardware is the target's.
#[derive(Clone, Copy)]
struct Row {
    firmware: &'static str,
    /// Of the build's machine.
    disk_bus: &'static str,
    release: &'static str,
    /// A short edition: what ends in `-core` is Server Core.
    image: &'static str,
    /// Evaluation media refuse a product key, retail media want one.
    channel: &'static str,
    target: &'static str,
    /// With Secure Boot and a TPM, the build's machine and the clones.
    trusted: bool,
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("bios", "ahci",   "2019", "standard",        "evaluation", "hyperv-gen1"),
    row("uefi", "virtio", "2022", "datacenter-core", "evaluation", "kubevirt"),
    row("uefi", "nvme",   "2025", "standard-core",   "retail",     "vsphere"),
    row("bios", "virtio", "2025", "datacenter",      "evaluation", "proxmox"),
    row("uefi", "ahci",   "2022", "standard",        "retail",     "hyperv-gen2"),
    row("bios", "nvme",   "2022", "datacenter-core", "retail",     "aws-import"),
    row("uefi", "virtio", "2019", "datacenter-core", "retail",     "openstack"),
    row("uefi", "nvme",   "2019", "datacenter",      "evaluation", "vsphere"),
    row("bios", "ahci",   "2025", "standard-core",   "retail",     "wmco-byoh"),
    row("uefi", "ahci",   "2025", "standard",        "evaluation", "vagrant"),
    row("bios", "virtio", "2022", "standard",        "retail",     "kubevirt"),
    row("bios", "nvme",   "2019", "standard-core",   "evaluation", "openstack"),
    row("uefi", "nvme",   "2022", "standard",        "evaluation", "aws-import"),
    row("uefi", "ahci",   "2019", "datacenter-core", "retail",     "proxmox"),
    row("uefi", "nvme",   "2022", "datacenter-core", "retail",     "azure"),
    row("uefi", "virtio", "2022", "standard-core",   "evaluation", "nutanix"),
    trusted(row("uefi", "virtio", "2025", "datacenter-core", "evaluation", "openstack")),
    trusted(row("uefi", "nvme",   "2019", "standard",        "retail",     "vsphere")),
    trusted(row("uefi", "ahci",   "2022", "datacenter",      "evaluation", "hyperv-gen2")),
];

const fn row(
    firmware: &'static str,
    disk_bus: &'static str,
    release: &'static str,
    image: &'static str,
    channel: &'static str,
    target: &'static str,
) -> Row {
    Row {
        firmware,
        disk_bus,
        release,
        image,
        channel,
        target,
        trusted: false,
    }
}

const fn trusted(row: Row) -> Row {
    Row {
        trusted: true,
        ..row
    }
}

/// What varies, each with all its values.
const AXES: [(&str, &[&str]); 6] = [
    ("firmware", &["uefi", "bios"]),
    ("disk bus", &["virtio", "nvme", "ahci"]),
    ("release", &["2019", "2022", "2025"]),
    ("kind", &["core", "desktop"]),
    ("channel", &["evaluation", "retail"]),
    ("trust", &["none", "secure-boot-tpm"]),
];

/// Values that can't go together, and why.
const APART: [(&str, &str, &str); 1] = [(
    "bios",
    "secure-boot-tpm",
    "a BIOS has no Secure Boot, and `tpm` needs UEFI",
)];

/// Targets of which no row is made, and why.
const NOT_TRIED: [(&str, &str); 2] = [
    (
        "gcp",
        "the disk gets its drivers from Google's import, which generalizes it",
    ),
    (
        "wmco-machineset",
        "its Administrator is enabled by the platform, which is vSphere, Nutanix or AWS",
    ),
];

impl Row {
    /// `uefi-nvme-2025-standard-core-retail-vsphere`
    fn name(&self) -> String {
        let mut words = vec![
            self.firmware,
            self.disk_bus,
            self.release,
            self.image,
            self.channel,
            self.target,
        ];
        words.extend(self.trusted.then_some("trusted"));
        words.join("-")
    }

    fn is_core(&self) -> bool {
        self.image.ends_with("-core")
    }

    fn is_evaluation(&self) -> bool {
        self.channel == "evaluation"
    }

    /// Of the edition, or none.
    fn key(&self) -> &'static str {
        if self.is_evaluation() { "" } else { "kms" }
    }

    /// What its `[machine]` has beside the bus.
    fn trust(&self) -> &'static str {
        if self.trusted {
            "secure_boot = true\ntpm = true\n"
        } else {
            ""
        }
    }

    /// Its value of each axis.
    fn values(&self) -> [&'static str; AXES.len()] {
        let kind = if self.is_core() { "core" } else { "desktop" };
        let trust = if self.trusted {
            "secure-boot-tpm"
        } else {
            "none"
        };
        [
            self.firmware,
            self.disk_bus,
            self.release,
            kind,
            self.channel,
            trust,
        ]
    }
}

#[test]
fn any_two_values_are_in_a_row() {
    let mut wanted = BTreeSet::new();
    let mut met = BTreeSet::new();
    for (a, (_, of_a)) in AXES.iter().enumerate() {
        for (b, (_, of_b)) in AXES.iter().enumerate().skip(a + 1) {
            let pairs = of_a.iter().flat_map(|x| of_b.iter().map(move |y| (*x, *y)));
            wanted.extend(pairs);
            met.extend(TABLE.iter().map(|row| (row.values()[a], row.values()[b])));
        }
    }
    for (one, other, _) in APART {
        assert!(wanted.remove(&(one, other)), "{one} and {other}");
    }
    assert_eq!(met, wanted);
    let names: BTreeSet<String> = TABLE.iter().map(Row::name).collect();
    assert_eq!(names.len(), TABLE.len(), "a row is there twice");
    assert!(TABLE.len() >= 14);
}

#[test]
fn each_target_is_in_a_row_unless_it_is_known_why_not() {
    let mut met: BTreeSet<&str> = TABLE.iter().map(|row| row.target).collect();
    met.extend(NOT_TRIED.map(|(target, _)| target));
    let folder = tree::root().join("recipes/targets");
    let files = std::fs::read_dir(folder).expect("the targets");
    let names = files.map(|file| file.expect("an entry").path());
    let names: BTreeSet<String> = names
        .filter(|path| path.is_file())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    assert_eq!(met, names.iter().map(String::as_str).collect());
}

#[test]
fn each_recipe_is_accepted() {
    for row in TABLE {
        let folder = tree::folder();
        let file = recipe::written(row, folder.path());
        run::validate(&file);
    }
}

#[test]
#[ignore = "boots QEMU: make install-matrix"]
fn each_combination_comes_up() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let rows = chosen(&variable("MATRIX"), &variable("PART"));
    let bad = rows::at_once(&rows, 2, |row| {
        let started = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| run::row(row)));
        let minutes = started.elapsed().as_secs_f64() / 60.0;
        // As they end: the table is long in the making.
        let said = if done.is_ok() { "good" } else { "BAD" };
        println!("{said:<4} {minutes:5.1} min  {}", row.name());
        done.is_err().then(|| row.name())
    });
    let bad: Vec<String> = bad.into_iter().flatten().collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

/// The rows that `MATRIX` and `PART` leave.
fn chosen(words: &str, part: &str) -> Vec<Row> {
    let wanted = |row: &Row| rows::is_wanted(words, &[&row.name()]);
    let mut rows: Vec<Row> = TABLE.iter().copied().filter(wanted).collect();
    if let Some((part, parts)) = part.split_once('/') {
        let number = |text: &str| text.parse::<usize>().expect("PART is such as 1/2");
        let (part, parts) = (number(part), number(parts));
        assert!((1..=parts).contains(&part), "PART is such as 1/2");
        let each = rows.len().div_ceil(parts).max(1);
        rows = rows.chunks(each).nth(part - 1).unwrap_or_default().to_vec();
    }
    assert!(!rows.is_empty(), "MATRIX and PART leave no row");
    rows
}

#[test]
fn words_and_parts_choose_rows() {
    fn names(words: &str, part: &str) -> Vec<String> {
        chosen(words, part).iter().map(Row::name).collect()
    }
    let all = names("", "");
    assert_eq!(all.len(), TABLE.len());
    for parts in [2, 3] {
        let each = (1..=parts).flat_map(|part| names("", &format!("{part}/{parts}")));
        assert_eq!(each.collect::<Vec<_>>(), all);
    }
    let some = names("vsphere,bios-nvme", "");
    let known = |name: &String| name.contains("vsphere") || name.contains("bios-nvme");
    assert!(some.len() >= 4 && some.iter().all(known), "{some:?}");
}
