//! The overlay under real firmware: OVMF has to start the medium's no-prompt image through it, and
//! the other one without it. The medium is a stand-in: two GRUB images that say on the serial port
//! which one they are.

use support::skip;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use support::media::{have, put, run, text, udf};
use winimg_formats::iso::{CdImage, overlay_without_prompt};

/// Under software emulation on a busy machine.
const LONGEST: Duration = Duration::from_secs(240);

/// A FAT image with one boot loader that says `word` and powers off.
fn boot_image(folder: &Path, to: &Path, word: &str) {
    let config = folder.join(format!("{word}.cfg"));
    fs::write(
        &config,
        format!("serial --unit=0\nterminal_output serial\necho \"SAYS-{word}\"\nhalt\n"),
    )
    .unwrap();
    let efi = folder.join(format!("{word}.efi"));
    run(
        "grub-mkimage",
        &[
            "-O",
            "x86_64-efi",
            "-p",
            "/",
            "-c",
            text(&config),
            "-o",
            text(&efi),
            "serial",
            "terminal",
            "echo",
            "halt",
            "normal",
        ],
    );
    let _ = fs::remove_file(to);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    run("mkfs.vfat", &["-C", text(to), "2880"]);
    run("mmd", &["-i", text(to), "::/EFI", "::/EFI/BOOT"]);
    run(
        "mcopy",
        &["-i", text(to), text(&efi), "::/EFI/BOOT/BOOTX64.EFI"],
    );
}

/// Which image the firmware starts from a disc.
fn starts(disc: &CdImage) -> String {
    let firmware = "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd";
    let mut qemu = Command::new("qemu-system-x86_64")
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-nic",
            "none",
            "-m",
            "256",
        ])
        .args([
            "-machine",
            "q35",
            "-accel",
            "tcg,thread=multi",
            "-serial",
            "stdio",
        ])
        .args(["-drive", firmware])
        .arg("-drive")
        .arg(format!(
            "if=none,id=cd,media=cdrom,readonly=on,format={},file={}",
            disc.format,
            text(&disc.file)
        ))
        .args(["-device", "ide-cd,bus=ide.1,drive=cd,bootindex=1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = qemu.stdout.take().unwrap();
    let (say, hear) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some(at) = line.find("SAYS-") {
                let word = line[at + 5..]
                    .chars()
                    .take_while(char::is_ascii_uppercase)
                    .collect::<String>();
                let _ = say.send(word);
            }
        }
    });
    let word = hear.recv_timeout(LONGEST);
    let _ = qemu.kill();
    let _ = qemu.wait();
    word.expect("the firmware started neither image")
}

#[test]
fn ovmf_starts_the_no_prompt_image_through_the_overlay() {
    let tools = [
        "genisoimage",
        "mkfs.vfat",
        "mcopy",
        "mmd",
        "grub-mkimage",
        "qemu-system-x86_64",
    ];
    let firmware = PathBuf::from("/usr/share/OVMF/OVMF_CODE_4M.fd");
    let grub = PathBuf::from("/usr/lib/grub/x86_64-efi");
    if !have(&tools) {
        return;
    }
    if !firmware.is_file() || !grub.is_dir() {
        skip::skipped("this machine has no OVMF, or no GRUB for EFI");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    put(&root, "README.TXT", b"x");
    boot_image(
        dir.path(),
        &root.join("efi/microsoft/boot/efisys.bin"),
        "PROMPT",
    );
    boot_image(
        dir.path(),
        &root.join("efi/microsoft/boot/efisys_noprompt.bin"),
        "NOPROMPT",
    );
    let iso = dir.path().join("x.iso");
    // Sector count 1, as on Microsoft's media: the firmware takes the image to reach to the end of
    // the volume.
    udf(
        &root,
        &iso,
        &[
            "-e",
            "efi/microsoft/boot/efisys.bin",
            "-no-emul-boot",
            "-boot-load-size",
            "1",
        ],
    );
    let made = overlay_without_prompt(&iso, &dir.path().join("x.qcow2")).unwrap();
    assert_eq!(made.remark, None);
    let discs = [CdImage::raw(&iso), made.disc];
    let through: Vec<String> = std::thread::scope(|s| {
        let running: Vec<_> = discs.iter().map(|d| s.spawn(|| starts(d))).collect();
        running.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(through, ["PROMPT", "NOPROMPT"]);
}
