//! Media for the tests, made with the machine's own tools; a test whose tool is missing says so and passes by.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// `qemu-img convert` of one disk to another, with these options.
pub fn convert(options: &[&str], from: &Path, to: &Path) {
    let files = [text(from), text(to)];
    run("qemu-img", &[&["convert"][..], options, &files].concat());
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

/// The INF of a driver package: its catalog, and the files that it names.
pub fn inf(catalog: &str, files: &[&str]) -> String {
    let mut text = format!(
        "; {catalog}\r\n[Version]\r\nSignature = \"$WINDOWS NT$\"\r\nCatalogFile = {catalog}\r\n\r\n\
         [SourceDisksNames]\r\n1 = %Disk%,,,\"\"\r\n\r\n[SourceDisksFiles]\r\n"
    );
    for file in files {
        text.push_str(&format!("{file} = 1,,\r\n"));
    }
    text + "\r\n[Strings]\r\nDisk = \"a disk\"\r\n"
}

/// Puts a driver package into a folder: an INF, a catalog that nobody signed, and one file.
pub fn driver(root: &Path, folder: &str, name: &str) {
    let file = |kind: &str| format!("{folder}/{name}.{kind}");
    let text = inf(&format!("{name}.cat"), &[&format!("{name}.sys")]);
    put(root, &file("inf"), text.as_bytes());
    for kind in ["sys", "cat"] {
        put(root, &file(kind), file(kind).as_bytes());
    }
}

/// A virtio-win medium in small.
pub fn virtio(root: &Path, iso: &Path) {
    for name in ["viostor", "vioscsi", "NetKVM", "vioserial", "Balloon"] {
        driver(root, &format!("{name}/2k22/amd64"), name);
    }
    put(root, "guest-agent/qemu-ga-x86_64.msi", b"an MSI");
    let (iso, root) = (text(iso), text(root));
    run(
        "genisoimage",
        &["-quiet", "-J", "-R", "-V", "virtio-win", "-o", iso, root],
    );
}
