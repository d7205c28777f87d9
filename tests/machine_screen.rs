//! Screens at which Windows stops, drawn here, read by tesseract and named. Skipped, with the reason printed, where a program is missing.

#![cfg(unix)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use winimg::vm::screen::dialog::{self, Known};
use winimg::vm::screen::ocr;

/// How a screen is drawn, what it has to be called, and its text: Windows' own, word for word.
const SCREENS: &[(&str, &str, &[&str])] = &[
    (
        "console",
        "the CD's key prompt",
        &["Press any key to boot from CD or DVD....."],
    ),
    (
        "box",
        "the answer file cannot be read",
        &[
            "Windows could not parse or process the unattend answer file [A:\\Autounattend.xml] for pass [windowsPE]. The settings specified in the answer file cannot be applied. The error was detected while processing settings for component [Microsoft-Windows-Setup].",
        ],
    ),
    (
        "box",
        "the answer file's disk layout cannot be applied",
        &[
            "Windows could not apply the unattend answer file's <DiskConfiguration> setting. Error code: 0x80300001",
        ],
    ),
    (
        "box",
        "the product key does not fit",
        &["Windows cannot read the <ProductKey> setting from the unattend answer file."],
    ),
    (
        "box",
        "the license terms are not found",
        &[
            "Windows cannot find the Microsoft Software License Terms. Make sure the installation sources are valid and restart the installation.",
        ],
    ),
    (
        "box",
        "no image was chosen",
        &[
            "Select the operating system you want to install",
            "Operating system   Architecture   Date modified",
        ],
    ),
    (
        "box",
        "a media driver is missing",
        &[
            "A media driver your computer needs is missing. This could be a DVD, USB or Hard disk driver. If you have a CD, DVD, or USB flash drive with the driver on it, please insert it now.",
        ],
    ),
    (
        "box",
        "a media driver is missing",
        &[
            "Install driver to show hardware",
            "Select the driver to install",
        ],
    ),
    (
        "box",
        "Setup asks whether to quit",
        &["Are you sure you want to quit?"],
    ),
    (
        "box",
        "the installation has failed",
        &["Windows Server installation has failed"],
    ),
    (
        "box",
        "an unexpected restart",
        &[
            "The computer restarted unexpectedly or encountered an unexpected error. Windows installation cannot proceed. To install Windows, click \"OK\" to restart the computer, and then restart the installation.",
        ],
    ),
    (
        "box",
        "the system could not be configured",
        &[
            "Windows could not finish configuring the system. To attempt to resume configuration, restart the computer.",
        ],
    ),
    (
        "box",
        "the installation could not be completed",
        &[
            "Windows could not complete the installation. To install Windows on this computer, restart the installation.",
        ],
    ),
    (
        "page",
        "the page for country and language",
        &[
            "Hi there",
            "What's your home country/region?",
            "What's your preferred app language?",
        ],
    ),
    (
        "page",
        "the page for the Administrator's password",
        &[
            "Customize settings",
            "Type a password for the built-in administrator account that you can use to sign in to this computer.",
        ],
    ),
    (
        "box",
        "a fatal error while sysprep ran",
        &["A fatal error occurred while trying to sysprep the machine."],
    ),
    (
        "stop",
        "stop error INACCESSIBLE_BOOT_DEVICE (0x7B)",
        &[
            "Your device ran into a problem and needs to restart. You can restart.",
            "",
            "For more information about this issue and possible fixes, visit https://www.windows.com/stopcode",
            "",
            "Stop code: INACCESSIBLE BOOT DEVICE",
        ],
    ),
    (
        "stop",
        "stop error CRITICAL_PROCESS_DIED (0xEF)",
        &[
            "Your device ran into a problem and needs to restart. We'll restart for you.",
            "Stop code: CRITICAL PROCESS DIED",
        ],
    ),
    (
        "console",
        "nothing to boot",
        &[
            "Booting from Hard Disk...",
            "Boot failed: not a bootable disk",
            "",
            "No bootable device.",
        ],
    ),
    (
        "console",
        "the firmware's shell",
        &[
            "UEFI Interactive Shell v2.2",
            "EDK II",
            "UEFI v2.70 (EDK II, 0x00010000)",
            "Shell> _",
        ],
    ),
    ("page", "-", &["Getting ready", "Please wait"]),
    (
        "console",
        "-",
        &[
            "Administrator: C:\\Windows\\system32\\cmd.exe",
            "C:\\Users\\Administrator>",
        ],
    ),
];

/// Other tests may want the processors too.
const PATIENCE: Duration = Duration::from_secs(300);

/// The pictures as bytes; `None` with the reason printed.
fn drawn() -> Option<Vec<Vec<u8>>> {
    if ocr::program().is_none() {
        println!("skipped: no tesseract");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = |n: usize| format!("{n}.ppm");
    let wanted = SCREENS.iter().enumerate().map(
        |(n, (style, _, lines))| serde_json::json!({"file": name(n), "style": style, "lines": lines}),
    );
    let wanted = serde_json::Value::from_iter(wanted).to_string();
    // Debian's own Python, which has python3-pil; another one may stand before it in PATH.
    let mut child = Command::new("/usr/bin/python3")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/machine/draw.py"
        ))
        .arg(folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take().expect("piped");
    input.write_all(wanted.as_bytes()).expect("written");
    drop(input);
    if !child.wait().expect("it ends").success() {
        println!("skipped: no python3-pil, or no fonts-dejavu-core");
        return None;
    }
    let read = |n| std::fs::read(folder.path().join(name(n))).expect("drawn");
    Some((0..SCREENS.len()).map(read).collect())
}

#[test]
fn every_box_of_setup_is_read_and_named() {
    let Some(pictures) = drawn() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (mut found, mut wanted) = (String::new(), String::new());
    for ((_, name, lines), ppm) in SCREENS.iter().zip(pictures) {
        let read = ocr::read(&ppm, folder.path(), PATIENCE, &|| false).join("\n");
        let named = match dialog::find(&read) {
            Some(Known::Dialog(known)) => known.name.to_string(),
            Some(Known::StopError(code)) => format!("stop error {}", code.words()),
            None => "-".to_string(),
        };
        let text: String = lines.join(" ").chars().take(60).collect();
        found += &format!("{text} -> {named}\n");
        wanted += &format!("{text} -> {name}\n");
        println!("--- {text}\n{read}");
    }
    assert_eq!(found, wanted);
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
}

#[test]
fn an_interrupt_ends_the_reading_and_leaves_nothing() {
    let Some(pictures) = drawn() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let read = ocr::read(&pictures[1], folder.path(), PATIENCE, &|| true);
    assert_eq!(read, Vec::<String>::new());
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
}
