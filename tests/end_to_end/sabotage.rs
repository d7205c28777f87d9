//! The tools that damage an image do what they say, and nothing else: on a small disk, without a machine.

use std::fs;
use std::path::{Path, PathBuf};

use support::hive;
use winimg_formats::disk::RawDisk;
use winimg_formats::disk::gpt::read_table;
use winimg_formats::disk::ntfs::NtfsVolume;
use winimg_formats::hive::Hive;

use crate::end_to_end::program::output_of;
use crate::end_to_end::sabotage_tools::{Sabotage, sz};

const MIB: u64 = 1 << 20;
const SOFTWARE: &str = "/SOFTWARE";

/// A GPT disk with an EFI and an NTFS partition that holds a hive and a file.
fn disk(directory: &Path) -> PathBuf {
    let raw = directory.join("disk.raw");
    fs::File::create(&raw).unwrap().set_len(64 * MIB).unwrap();
    let file = raw.to_str().unwrap();
    let parts = ["-n1:0:+8M", "-t1:EF00", "-n2:0:0", "-t2:0700", file];
    output_of("sgdisk", &parts);
    let opened = RawDisk::open(&raw).unwrap();
    let windows = read_table(&opened).unwrap().find_windows().unwrap().clone();
    let volume = directory.join("made.ntfs");
    fs::File::create(&volume)
        .unwrap()
        .set_len(windows.len)
        .unwrap();
    let made = volume.to_str().unwrap();
    output_of("mkntfs", &["-qFf", made]);
    let key = hive::Key::new("Example")
        .value("Tier", 1, &sz("gold"))
        .value("", 1, &sz("default"))
        .value("Empty", 3, b"")
        .value("List", 7, &[sz("a"), sz("b"), vec![0; 2]].concat())
        .value("Start", 4, &[2, 0, 0, 0]);
    let hive = hive::Key::new("ROOT").keys(hive::List::Lh, [key]);
    for (name, bytes) in [
        ("SOFTWARE", hive::hive(&hive)),
        ("agent.exe", vec![7; 100_000]),
    ] {
        let source = directory.join(name);
        fs::write(&source, bytes).unwrap();
        output_of("ntfscp", &["-q", made, source.to_str().unwrap(), name]);
    }
    let seek = format!("seek={}", windows.start / 512);
    let (from, to) = (format!("if={made}"), format!("of={file}"));
    output_of(
        "dd",
        &[&from, &to, &seek, "bs=512", "conv=notrunc", "status=none"],
    );
    raw
}

/// What winimg reads: the hive's values, the files with their sums, the access lists.
fn rendered(raw: &Path) -> String {
    let disk = RawDisk::open(raw).unwrap();
    let windows = read_table(&disk).unwrap().find_windows().unwrap().clone();
    let volume = NtfsVolume::open(&disk, &windows).unwrap();
    let mut lines = Vec::new();
    for entry in volume.list("/").unwrap().unwrap() {
        if entry.name.starts_with('$') || entry.name == "SOFTWARE" {
            continue;
        }
        let bytes = volume.read(&entry.name, MIB).unwrap().unwrap();
        let sevens = bytes.iter().filter(|b| **b == 7).count();
        let security = volume.read_security(&entry.name).unwrap().unwrap();
        lines.push(format!(
            "{} {} {sevens} {security}",
            entry.name,
            bytes.len()
        ));
    }
    let hive = volume.read(SOFTWARE, 8 * MIB).unwrap().unwrap();
    let hive = Hive::parse(hive).unwrap();
    let key = hive.find_key("Example").unwrap().unwrap();
    for (name, data) in key.read_values().unwrap() {
        lines.push(format!("{name} = {data}"));
    }
    lines.join("\n")
}

#[test]
fn each_kind_of_damage_is_done_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let raw = disk(dir.path());
    const FROM_NTFSCP: &str = "O:S-1-5-32-544G:S-1-5-32-544D:(A;OICI;0x1f01ff;;;S-1-1-0)";
    let before = format!(
        "agent.exe 100000 100000 {FROM_NTFSCP}\nTier = REG_SZ \"gold\"\n = REG_SZ \"default\"\n\
         Empty = REG_BINARY (0 bytes)\nList = REG_MULTI_SZ [\"a\", \"b\"]\nStart = REG_DWORD 2 (0x2)"
    );
    assert_eq!(rendered(&raw), before);
    Sabotage::of(&raw, dir.path()).put_back();
    assert_eq!(rendered(&raw), before);

    let system = "010100000000000512000000";
    let closed = format!(
        "0100049030000000 3c000000 00000000 14000000 02001c0001000000 00001400ff011f00{system}{system}{system}"
    );
    let sabotage = Sabotage::of(&raw, dir.path());
    sabotage.flip_byte("/agent.exe", 4711);
    sabotage.write("/intruder.exe", b"77");
    sabotage.set_security(
        "File",
        "/agent.exe",
        &hex::decode(closed.replace(' ', "")).unwrap(),
    );
    sabotage.set_value(SOFTWARE, "Example", ("Tier".into(), 1, sz("silver")));
    sabotage.set_value(SOFTWARE, "Example", ("New".into(), 4, vec![1, 0, 0, 0]));
    sabotage.delete_value(SOFTWARE, "Example", "List");
    sabotage.rename_value(SOFTWARE, "Example", "Start", "Begin");
    sabotage.put_back();
    assert_eq!(
        rendered(&raw),
        format!(
            "agent.exe 100000 99999 O:S-1-5-18G:S-1-5-18D:P(A;;0x1f01ff;;;S-1-5-18)\nintruder.exe 2 0 {FROM_NTFSCP}\n\
             Tier = REG_SZ \"silver\"\n = REG_SZ \"default\"\nEmpty = REG_BINARY (0 bytes)\n\
             Begin = REG_DWORD 2 (0x2)\nNew = REG_DWORD 1 (0x1)"
        )
    );

    let sabotage = Sabotage::of(&raw, dir.path());
    sabotage.let_everybody_in("File", "/agent.exe");
    let removed = sabotage.remove("/intruder.exe");
    sabotage.put_back();
    let after = rendered(&raw);
    assert!(
        after.starts_with(&format!("agent.exe 100000 99999 {FROM_NTFSCP}\n")),
        "{after}"
    );
    assert_eq!(after.contains("intruder"), !removed, "{after}");
    // The volume is still one that others read.
    let checked = output_of("ntfsfix", &["-n", Sabotage::of(&raw, dir.path()).volume()]);
    assert!(checked.contains("processed successfully"), "{checked}");
}
