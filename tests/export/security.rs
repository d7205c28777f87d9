//! Who may do what with the files of an NTFS volume, judged by ntfs-3g's `ntfssecaudit`.

use std::fs;
use std::path::Path;

use winimg_formats::disk::ntfs::{NtfsContentForm, NtfsVolume};
use winimg_formats::disk::{Disk, RawDisk};

use crate::export::disks::{can_mount, set_attribute, volume};
use crate::export::fixture::{path, sh};

/// Sets `system.ntfs_acl` of each file named on standard input, as `PATH SDDL` with whole SIDs and numbers.
const SET: &str = r"
import os, re, struct, sys
def sid(text):
    parts = [int(p) for p in text.split('-')[2:]]
    return bytes([1, len(parts) - 1]) + parts[0].to_bytes(6, 'big') + b''.join(struct.pack('<I', p) for p in parts[1:])
for line in sys.argv[2].splitlines():
    name, sddl = line.split(' ')
    owner, group, protected, entries = re.fullmatch(r'O:([-S\d]+)G:([-S\d]+)D:(P?)(.*)', sddl).groups()
    acl, count = b'', 0
    for kind, flags, mask, who in re.findall(r'\((\w+);(\w*);(\w+);;;([-S\d]+)\)', entries):
        flags = sum(1 << ['OI', 'CI', 'NP', 'IO', 'ID'].index(f) for f in re.findall('..', flags))
        body = struct.pack('<I', int(mask, 16)) + sid(who)
        acl += struct.pack('<BBH', 'AD'.index(kind), flags, 4 + len(body)) + body
        count += 1
    acl = struct.pack('<BBHHH', 2, 0, 8 + len(acl), count, 0) + acl
    own, grp = sid(owner), sid(group)
    at = 20 + len(acl)
    head = struct.pack('<BBHIIII', 1, 0, 0x9004 if protected else 0x8004, at, at + len(own), 0, 20)
    os.setxattr(os.path.join(sys.argv[1], name), 'system.ntfs_acl', head + acl + own + grp)
";

fn set(root: &Path, lines: &str) {
    sh("python3", &["-c", SET, path(root), lines]);
}

/// The descriptor as `ntfssecaudit -vv` explains it, in SDDL.
fn judged(volume: &Path, file: &str) -> String {
    let rendered = sh("ntfssecaudit", &["-vv", path(volume), file]);
    let after = |line: &str, word: &str| -> Option<String> {
        let rest = line.trim().strip_prefix(word)?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let (mut owner, mut group, mut protected) = (String::new(), String::new(), "");
    let (mut entries, mut entry) = (String::new(), Vec::new());
    for line in rendered.lines() {
        if line.contains("DACL cannot be modified by inheritable ACEs") {
            protected = "P";
        }
        owner = after(line, "O:dec").unwrap_or(owner);
        group = after(line, "G:dec").unwrap_or(group);
        let deep = line.starts_with("        ") && !line.starts_with("            ");
        for word in ["type", "flags", "Acc rgts"] {
            entry.extend(after(line, word).filter(|_| deep));
        }
        if let (Some(sid), 3) = (after(line, "dec"), entry.len()) {
            let flags = u8::from_str_radix(entry[1].trim_start_matches("0x"), 16).unwrap();
            let names = ["OI", "CI", "NP", "IO", "ID"].iter().enumerate();
            let names = names.filter(|(bit, _)| flags & 1 << bit != 0);
            let names: String = names.map(|(_, name)| *name).collect();
            let kind = ["A", "D"][entry[0].parse::<usize>().unwrap()];
            entries += &format!("({kind};{names};{};;;{sid})", entry[2]);
            entry.clear();
        }
    }
    format!("O:{owner}G:{group}D:{protected}{entries}")
}

#[test]
fn descriptors_are_read_as_ntfs_3g_reads_them() {
    if !can_mount() {
        return;
    }
    const KEPT: &str =
        "O:S-1-5-18G:S-1-5-18D:P(A;OICI;0x1f01ff;;;S-1-5-18)(A;OICI;0x1f01ff;;;S-1-5-32-544)";
    const FROM_ABOVE: &str = "O:S-1-5-32-544G:S-1-5-18D:(D;;0x10000;;;S-1-1-0)(A;ID;0x1200a9;;;S-1-5-32-545)\
                              (A;OIIOID;0x1301bf;;;S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464)";
    const NOBODY: &str = "O:S-1-5-18G:S-1-5-18D:P";
    let dir = tempfile::tempdir().unwrap();
    // So many that their list goes on in a second block.
    let many = |i: u32| format!("O:S-1-5-18G:S-1-5-18D:(A;;0x1f01ff;;;S-1-5-21-{i}-{i}-{i}-{i})");
    let file = volume(dir.path(), |root| {
        let mut lines = format!("k {KEPT}\nk/file {FROM_ABOVE}\nnobody {NOBODY}\n");
        fs::create_dir_all(root.join("k/many")).unwrap();
        fs::write(root.join("k/file"), b"x").unwrap();
        fs::write(root.join("nobody"), b"x").unwrap();
        for i in 0..2600 {
            fs::write(root.join(format!("k/many/{i}")), b"").unwrap();
            lines += &format!("k/many/{i} {}\n", many(i));
        }
        for part in lines.lines().collect::<Vec<_>>().chunks(500) {
            set(root, &part.join("\n"));
        }
    });
    let disk = RawDisk::open(&file).unwrap();
    let volume = NtfsVolume::open_at(&disk, 0, disk.len()).unwrap();
    let rendered = |path: &str| volume.read_security(path).unwrap().unwrap().to_string();
    for (path, expected) in [
        ("/k", KEPT),
        ("/k/file", FROM_ABOVE),
        ("/nobody", NOBODY),
        ("/k/many/0", &many(0)),
        ("/k/many/2599", &many(2599)),
    ] {
        assert_eq!(rendered(path), expected, "{path}");
        assert_eq!(judged(&file, path), expected, "{path}");
    }
    // mkntfs gives the root a descriptor of its own, outside $Secure.
    assert_eq!(rendered("/"), judged(&file, "/"));
    assert!(
        rendered("/").contains("(A;;0x1301bf;;;S-1-5-11)"),
        "{}",
        rendered("/")
    );
    for i in (0..2600).step_by(13) {
        assert_eq!(rendered(&format!(r"C:\K\MANY\{i}")), many(i));
    }
    assert_eq!(volume.read_security("/nothing").unwrap(), None);
    let kept = volume.read_security("/k").unwrap().unwrap();
    assert!(kept.protected);
    assert_eq!(kept.owner, "S-1-5-18".parse().ok());
    let above = volume.read_security("/k/file").unwrap().unwrap();
    let inherited: Vec<bool> = above
        .dacl
        .unwrap()
        .iter()
        .map(|a| a.is_inherited())
        .collect();
    assert_eq!(inherited, [false, true, true]);
}

#[test]
fn a_damaged_list_of_descriptors_is_reported() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = volume(dir.path(), |root| {
        fs::create_dir(root.join("k")).unwrap();
        fs::write(root.join("later"), b"x").unwrap();
        set(
            root,
            "k O:S-1-5-21-7-7-7-7G:S-1-5-18D:P\nlater O:S-1-5-18G:S-1-5-18D:P",
        );
    });
    let mut bytes = fs::read(&file).unwrap();
    let sid: Vec<u8> = [21_u32, 7, 7, 7, 7]
        .iter()
        .flat_map(|p| p.to_le_bytes())
        .collect();
    let places = bytes
        .windows(sid.len())
        .enumerate()
        .filter(|(_, w)| *w == sid);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at + 4] = 8;
    }
    fs::write(&file, bytes).unwrap();
    let disk = RawDisk::open(&file).unwrap();
    let volume = NtfsVolume::open_at(&disk, 0, disk.len()).unwrap();
    let rendered = volume.read_security("/k").unwrap_err().to_string();
    assert!(
        rendered.starts_with("/k refers to security descriptor "),
        "{rendered}"
    );
    assert!(
        rendered.contains("of $Secure:$SDS\n  found: damage\n"),
        "{rendered}"
    );
    // The descriptor that was made after it is found behind the damage.
    let later = volume.read_security("/later").unwrap().unwrap();
    assert_eq!(later.to_string(), "O:S-1-5-18G:S-1-5-18D:P");
}

#[test]
fn what_stands_at_a_path_is_described_with_its_form() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = volume(dir.path(), |root| {
        fs::create_dir(root.join("packed")).unwrap();
        set_attribute(&root.join("packed"), "system.ntfs_attrib_be", "00000810");
        fs::write(root.join("packed/text"), "text ".repeat(30_000)).unwrap();
        fs::write(root.join("plain"), b"12345").unwrap();
        set_attribute(&root.join("plain"), "system.ntfs_attrib_be", "00000007");
        fs::File::create(root.join("sparse"))
            .unwrap()
            .set_len(2_000_000)
            .unwrap();
        fs::write(root.join("compact"), b"x").unwrap();
        let wof = "170000801000000001000000020000000100000000000000";
        set_attribute(&root.join("compact"), "system.ntfs_reparse_data", wof);
        fs::create_dir(root.join("junction")).unwrap();
        // IO_REPARSE_TAG_MOUNT_POINT to \??\C:\k, with an empty name to show.
        let target: Vec<u8> = r"\??\C:\k"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let target = hex::encode(target);
        let junction =
            format!("030000a01c00000000001000120000 00{target}00000000").replace(' ', "");
        set_attribute(
            &root.join("junction"),
            "system.ntfs_reparse_data",
            &junction,
        );
    });
    let disk = RawDisk::open(&file).unwrap();
    let volume = NtfsVolume::open_at(&disk, 0, disk.len()).unwrap();
    let rendered = |path: &str| {
        let facts = volume.read_file_info(path).unwrap().unwrap();
        format!(
            "{path} {} {} {}",
            if facts.is_directory { "folder" } else { "file" },
            facts.size,
            facts.form
        )
    };
    let paths = [
        "/packed",
        "/packed/text",
        "/plain",
        "/sparse",
        "/compact",
        "/junction",
        "/",
    ];
    assert_eq!(
        paths.map(rendered),
        [
            "/packed folder 0 is plain",
            "/packed/text file 150000 is NTFS-compressed",
            "/plain file 5 is plain",
            "/sparse file 2000000 is sparse",
            "/compact file 1 is compressed by CompactOS (WOF)",
            "/junction folder 0 is a junction or mount point",
            "/ folder 0 is plain",
        ]
    );
    assert_eq!(volume.read_file_info("/nothing").unwrap(), None);
    let reparse: Vec<String> = volume
        .list("/")
        .unwrap()
        .unwrap()
        .into_iter()
        .filter(|e| e.is_reparse_point)
        .map(|e| e.name)
        .collect();
    assert_eq!(reparse, ["compact", "junction"]);
    let through = volume
        .read_file_info("/junction/file")
        .unwrap_err()
        .to_string();
    assert!(through.contains("is a junction"), "{through}");
    assert_eq!(
        volume.read_file_info("/plain").unwrap().unwrap().form,
        NtfsContentForm::Plain
    );
}
