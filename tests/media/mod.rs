//! Media for the tests, made with the machine's own tools; a test whose tool is missing says so and passes by.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use winimg_formats::udf::{Bytes, Medium};
use winimg_formats::wim::MediaFacts;

use crate::skip;

/// Whether the programs are there; prints what is skipped otherwise.
pub fn have(programs: &[&str]) -> bool {
    let missing: Vec<&&str> = programs
        .iter()
        .filter(|p| {
            !std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .chain(["/usr/sbin".into(), "/sbin".into()])
                .any(|dir: PathBuf| dir.join(p).is_file())
        })
        .collect();
    if !missing.is_empty() {
        skip::skipped(format!("this machine has no {missing:?}"));
    }
    missing.is_empty()
}

/// Runs a program to its end and returns its standard output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(
        out.status.success(),
        "{program} {arguments:?}: {}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

pub fn put(folder: &Path, path: &str, bytes: &[u8]) {
    let to = folder.join(path);
    fs::create_dir_all(to.parent().expect("a parent")).expect("folders");
    fs::write(to, bytes).expect("a file");
}

/// The four images of an evaluation medium, as `wimlib-imagex` makes them.
pub const IMAGES: [(&str, &str, &str, &str); 4] = [
    (
        "Windows Server 2022 SERVERSTANDARDCORE",
        "Windows Server 2022 Standard Evaluation",
        "ServerStandardEval",
        "Server Core",
    ),
    (
        "Windows Server 2022 SERVERSTANDARD",
        "Windows Server 2022 Standard Evaluation (Desktop Experience)",
        "ServerStandardEval",
        "Server",
    ),
    (
        "Windows Server 2022 SERVERDATACENTERCORE",
        "Windows Server 2022 Datacenter Evaluation",
        "ServerDatacenterEval",
        "Server Core",
    ),
    (
        "Windows Server 2022 SERVERDATACENTER",
        "Windows Server 2022 Datacenter Evaluation (Desktop Experience)",
        "ServerDatacenterEval",
        "Server",
    ),
];

/// A WIM with the four images; `solid` makes it an ESD.
pub fn wim(to: &Path, arch: &str, solid: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    put(
        folder.path(),
        "Windows/System32/ntoskrnl.exe",
        b"MZ stand-in",
    );
    for (n, (name, display, edition, kind)) in IMAGES.iter().enumerate() {
        let mut arguments = vec![
            if n == 0 { "capture" } else { "append" }.to_string(),
            text(folder.path()).to_string(),
            text(to).to_string(),
            (*name).to_string(),
            (*name).to_string(),
        ];
        for (key, value) in [
            ("DISPLAYNAME", *display),
            ("WINDOWS/ARCH", arch),
            ("WINDOWS/EDITIONID", edition),
            ("WINDOWS/INSTALLATIONTYPE", kind),
            ("WINDOWS/LANGUAGES/LANGUAGE", "en-US"),
            ("WINDOWS/LANGUAGES/DEFAULT", "en-US"),
            ("WINDOWS/VERSION/MAJOR", "10"),
            ("WINDOWS/VERSION/MINOR", "0"),
            ("WINDOWS/VERSION/BUILD", "20348"),
            ("WINDOWS/VERSION/SPBUILD", "587"),
        ] {
            arguments.push(format!("--image-property={key}={value}"));
        }
        if solid && n == 0 {
            arguments.push("--solid".into());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run("wimlib-imagex", &arguments);
    }
}

/// A FAT image for El Torito, filled with something that tells it from others.
pub fn fat(to: &Path, label: &str) {
    fs::write(to, vec![0; 1_474_560]).expect("a file");
    run(
        "mkfs.vfat",
        &["-F", "12", "-n", label, "-i", "00000001", text(to)],
    );
}

/// An install medium as Microsoft's are: files in UDF only, El Torito for BIOS and EFI.
pub fn windows(folder: &Path, iso: &Path) {
    let root = folder.join("root");
    put(
        &root,
        "README.TXT",
        b"This disc contains a \"UDF\" file system.\r\n",
    );
    put(&root, "setup.exe", b"MZ setup");
    put(
        &root,
        "sources/EI.CFG",
        b"[EditionID]\r\n\r\n[Channel]\r\neval\r\n\r\n[VL]\r\n0\r\n",
    );
    put(&root, "boot/etfsboot.com", &[0xfa; 4096]);
    put(&root, "efi/microsoft/boot/efisys.bin", b"");
    wim(&root.join("sources/install.wim"), "9", false);
    fat(&root.join("efi/microsoft/boot/efisys.bin"), "PROMPT");
    fat(
        &root.join("efi/microsoft/boot/efisys_noprompt.bin"),
        "NOPROMPT",
    );
    udf(
        &root,
        iso,
        &[
            "-b",
            "boot/etfsboot.com",
            "-no-emul-boot",
            "-boot-load-size",
            "8",
            "-eltorito-alt-boot",
            "-e",
            "efi/microsoft/boot/efisys.bin",
            "-no-emul-boot",
            "-boot-load-size",
            "1",
        ],
    );
}

pub fn udf(root: &Path, iso: &Path, more: &[&str]) {
    let mut arguments = vec![
        "-quiet",
        "-udf",
        "-allow-limited-size",
        "-V",
        "SSS_X64FREE_EN-US_DV9",
        "-hide",
        "sources",
        "-hide",
        "install.wim",
        "-hide",
        "setup.exe",
    ];
    arguments.extend(more);
    arguments.extend(["-o", text(iso), text(root)]);
    run("genisoimage", &arguments);
}

/// A virtio-win medium in small.
pub fn virtio(root: &Path, iso: &Path) {
    for driver in ["viostor", "vioscsi", "NetKVM", "vioserial", "Balloon"] {
        for kind in ["inf", "sys", "cat"] {
            let file = format!("{driver}/2k22/amd64/{driver}.{kind}");
            put(root, &file, file.as_bytes());
        }
    }
    put(root, "guest-agent/qemu-ga-x86_64.msi", b"an MSI");
    let (iso, root) = (text(iso), text(root));
    run(
        "genisoimage",
        &["-quiet", "-J", "-R", "-V", "virtio-win", "-o", iso, root],
    );
}

/// Reads whatever can be read; only a panic, a hang or endless memory would be wrong.
fn exercise(bytes: Vec<u8>) {
    let Ok(medium) = Medium::from_bytes(Bytes::Memory(bytes), Path::new("x")) else {
        return;
    };
    let mut todo = vec![String::new()];
    for _ in 0..64 {
        let Some(at) = todo.pop() else { break };
        let Ok(entries) = medium.read_dir(&at) else {
            continue;
        };
        for entry in entries.into_iter().take(64) {
            let path = format!("{at}/{}", entry.name);
            let _ = medium.read(&entry, 1 << 20);
            if entry.is_dir {
                todo.push(path);
            }
        }
    }
    let _ = MediaFacts::read(&medium);
    let _ = winimg_formats::iso::Catalog::read(medium.bytes());
}

/// Changes bytes of a medium, so many times from the whole one on, and reads what is left.
pub fn damage(whole: &[u8], times: usize) {
    exercise(whole.to_vec());
    // Wherever the medium has structures, change bytes: a fixed generator, so that a failure can be repeated.
    let busy: Vec<usize> = (0..whole.len()).filter(|i| whole[*i] != 0).collect();
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for _ in 0..times {
        let mut bytes = whole.to_vec();
        for _ in 0..1 + random() % 4 {
            let at = busy[random() % busy.len()];
            bytes[at] = random() as u8;
            // Let half of the changes pass the checks of the tags.
            if random() % 2 == 0 {
                reseal(&mut bytes, at);
            }
        }
        if random() % 8 == 0 {
            bytes.truncate(random() % whole.len());
        }
        exercise(bytes);
    }
}

/// Makes the UDF tag of the sector around `at` valid again.
fn reseal(bytes: &mut [u8], at: usize) {
    let start = at / 2048 * 2048;
    let Some(sector) = bytes.get_mut(start..start + 2048) else {
        return;
    };
    let length = usize::from(u16::from_le_bytes([sector[10], sector[11]])).min(2032);
    let crc = sector[16..16 + length].iter().fold(0u16, |mut crc, b| {
        crc ^= u16::from(*b) << 8;
        for _ in 0..8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
        }
        crc
    });
    sector[8..10].copy_from_slice(&crc.to_le_bytes());
    sector[4] = 0;
    sector[4] = sector[..16].iter().fold(0u8, |s, b| s.wrapping_add(*b));
}
