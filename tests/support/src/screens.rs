//! Screens at which Windows stops, and some at which it does not, drawn by `draw.py`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{media, skip};

/// How a screen is drawn, what it has to be called, and its text: Windows' own, word for word.
pub const SCREENS: &[(&str, &str, &[&str])] = &[
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
        "a fatal error in sysprep",
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
    (
        "page",
        "Windows' boot loader needs a repair",
        &[
            "Recovery",
            "Your PC/Device needs to be repaired",
            "The Boot Configuration Data file doesn't contain valid information for an operating system.",
            "File: \\EFI\\Microsoft\\Boot\\BCD",
            "Error code: 0xc0000098",
        ],
    ),
    (
        "page",
        "Windows' recovery",
        &[
            "Automatic Repair",
            "Automatic Repair couldn't repair your PC",
            "Press \"Advanced options\" to try other options to repair your PC or \"Shut down\" to turn off your PC.",
        ],
    ),
    (
        "box",
        "the search for the answer file failed",
        &[
            "Windows Setup encountered an internal error while loading or searching for an unattend answer file.",
        ],
    ),
    (
        "box",
        "Setup sees no disk",
        &[
            "Where do you want to install Windows?",
            "We couldn't find any drives. To get a storage driver, click Load driver.",
        ],
    ),
    (
        "box",
        "the page for Setup's language",
        &[
            "Language to install: English (United States)",
            "Time and currency format: English (United States)",
            "Keyboard or input method: US",
        ],
    ),
    (
        "box",
        "Setup cannot read the files of the installation",
        &[
            "Windows cannot install required files. The file may be corrupt or missing. Make sure all files required for installation are available, and restart the installation. Error code: 0x80070570",
        ],
    ),
    (
        "box",
        "the next start could not be prepared",
        &[
            "Windows could not prepare the computer to boot into the next phase of installation. To install Windows, restart the installation.",
        ],
    ),
    (
        "console",
        "Hyper-V's firmware could not start the boot loader",
        &[
            "Virtual Machine Boot Summary",
            "1. SCSI DVD (0,1)",
            "   The boot loader failed.",
            "2. SCSI Disk (0,0)",
            "   The boot loader did not load an operating system.",
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

/// The picture of the screen with this number.
pub fn name(n: usize) -> String {
    format!("{n}.ppm")
}

/// Draws all of them into the folder; `false` with the reason printed.
pub fn draw(folder: &Path) -> bool {
    if !media::have(&["tesseract"]) {
        return false;
    }
    let wanted = SCREENS.iter().enumerate().map(
        |(n, (style, _, lines))| serde_json::json!({"file": name(n), "style": style, "lines": lines}),
    );
    let wanted = serde_json::Value::from_iter(wanted).to_string();
    // Debian's own Python, which has python3-pil; another one may stand before it in PATH.
    let child = Command::new("/usr/bin/python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/draw.py"))
        .arg(folder)
        .stdin(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        skip::skipped("no /usr/bin/python3");
        return false;
    };
    let mut input = child.stdin.take().expect("piped");
    input.write_all(wanted.as_bytes()).expect("written");
    drop(input);
    let drawn = child.wait().expect("it ends").success();
    if !drawn {
        skip::skipped("no python3-pil, or no fonts-dejavu-core");
    }
    drawn
}
