//! Dialogs and pages at which Windows waits for input, recognized by their English texts.
//!
//! Pure: maps a screen's text to a name, a cause and a cure. Sources: the texts are those of
//! Windows Setup (Microsoft: Windows Setup log files and event logs; Unattended Windows Setup
//! Reference). Other languages are not recognized.

use crate::vm::bugcheck::{self, StopCode};
use crate::vm::fuzzy_text::{contains_fuzzy, normalize_text};

#[derive(Debug, PartialEq, Eq)]
pub struct Dialog {
    /// End of a sentence that begins with "Windows stopped: ".
    pub name: &'static str,
    pub cause: &'static str,
    pub cure: &'static str,
    /// Windows never continues, even if its guest agent answers.
    pub hopeless: bool,
    /// One of these is on the screen. The first match wins, so specific dialogs come first.
    phrases: &'static [&'static str],
}

/// Recognized content of a screen.
#[derive(Debug, PartialEq, Eq)]
pub enum KnownScreen {
    Dialog(&'static Dialog),
    StopError(&'static StopCode),
}

/// Recognizes a screen by its text; `None` if it is unknown.
pub fn find(text: &str) -> Option<KnownScreen> {
    let text = normalize_text(text);
    let stopped = ["stop code", "STOP: 0x", "ran into a problem"];
    if stopped
        .iter()
        .any(|p| contains_fuzzy(&text, &normalize_text(p)))
        && let Some(known) = bugcheck::on_screen(&text)
    {
        return Some(KnownScreen::StopError(known));
    }
    DIALOGS
        .iter()
        .find(|d| {
            d.phrases
                .iter()
                .any(|p| contains_fuzzy(&text, &normalize_text(p)))
        })
        .map(KnownScreen::Dialog)
}

const DIALOGS: &[Dialog] = &[
    Dialog {
        name: "the answer file cannot be read",
        cause: "its syntax, an unknown component or element, a non-ASCII character, \
                a setting in the wrong pass, or a value that Windows rejects, \
                such as a simple password",
        cure: "look at the dialog: it names the pass, and often the component and the line",
        hopeless: true,
        phrases: &[
            "could not parse or process the unattend answer file",
            "could not parse or process unattend answer file",
        ],
    },
    Dialog {
        name: "the search for the answer file failed",
        cause: "Setup could not read the disc or drive with the answer file, \
                or the file is damaged",
        cure: "check that the answer file is well-formed XML in UTF-8, \
               and that the machine keeps its answer disc until the first restart",
        hopeless: true,
        phrases: &[
            "encountered an internal error while loading or searching for an unattend answer file",
        ],
    },
    Dialog {
        name: "the answer file's disk layout cannot be applied",
        cause: "no disk was found (its driver is missing), the layout does not fit the firmware \
                (GPT for UEFI, MBR for BIOS), or a wrong DiskID",
        cure: "check disk_bus, the drivers in DriverPaths and DiskConfiguration",
        hopeless: true,
        phrases: &[
            "could not apply the unattend answer file's <DiskConfiguration> setting",
            "answer file's DiskConfiguration setting",
        ],
    },
    Dialog {
        name: "the product key does not fit",
        cause: "the key belongs to another edition than the image, or is empty",
        cure: "set the key of the chosen edition, or none for an evaluation medium",
        hopeless: true,
        phrases: &[
            "cannot read the <ProductKey> setting",
            "product key entered does not match any of the Windows images",
        ],
    },
    Dialog {
        name: "the license terms are not found",
        cause: "the image and the product key do not belong together, \
                or the guest has too little memory",
        cure: "check the image's name and the key, and give the machine 2 GiB or more",
        hopeless: false,
        phrases: &["cannot find the Microsoft Software License Terms"],
    },
    Dialog {
        name: "no image was chosen",
        cause: "the image that the answer file names is not on the medium",
        cure: "`winimg inspect` lists the medium's images",
        hopeless: false,
        phrases: &["Select the operating system you want to install"],
    },
    Dialog {
        name: "a media driver is missing",
        cause: "Setup does not see the CD it was started from: it is not on AHCI, \
                or boot.wim has no driver for it",
        cure: "the medium was modified: use the original one",
        hopeless: false,
        phrases: &[
            "A media driver your computer needs is missing",
            "Install driver to show hardware",
        ],
    },
    Dialog {
        name: "Setup sees no disk",
        cause: "Setup has no driver for the controller of the disk, or the machine has no disk",
        cure: "build with disk_bus = \"nvme\" or \"ahci\", \
               or put the driver's folder into DriverPaths of the windowsPE pass",
        hopeless: false,
        phrases: &["We couldn't find any drives"],
    },
    Dialog {
        name: "the page for Setup's language",
        cause: "Setup found no answer file, \
                or one without International-Core-WinPE in its windowsPE pass",
        cure: "check that the file is called Autounattend.xml, is at the root of its disc, \
               and sets SetupUILanguage in the windowsPE pass",
        hopeless: false,
        phrases: &["Time and currency format", "Select language settings"],
    },
    Dialog {
        name: "Setup cannot read the files of the installation",
        cause: "the install medium or its copy is damaged, the disk is full, \
                or the host's memory is faulty (0x80070570, 0x8007000D)",
        cure: "compare the medium's digest with the publisher's; \
               then give the machine a larger disk_size and more memory",
        hopeless: true,
        phrases: &["Windows cannot install required files"],
    },
    Dialog {
        name: "the next start could not be prepared",
        cause: "Setup could not write the boot files: the disk's layout does not fit the firmware, \
                or a second disk has the system partition",
        cure: "give the machine one disk, \
               with an EFI system partition (UEFI) or an active partition (BIOS)",
        hopeless: true,
        phrases: &["could not prepare the computer to boot into the next phase of installation"],
    },
    Dialog {
        name: "Setup asks whether to quit",
        cause: "a key reached Setup: Esc or Enter",
        cure: "do not type on the machine's console while Setup runs",
        hopeless: false,
        phrases: &[
            "Are you sure you want to quit",
            "sure you want to cancel Windows installation",
            "sure you want to cancel the installation",
        ],
    },
    Dialog {
        name: "the installation has failed",
        cause: "applying the image failed; \
                Server 2025 may choose CompactOS and fail with 0x80071160",
        cure: "use a larger disk, or <Compact>false</Compact> in the answer file; \
               then check the medium's digest",
        hopeless: true,
        phrases: &[
            "Windows Server installation has failed",
            "Windows 11 installation has failed",
        ],
    },
    Dialog {
        name: "an unexpected restart",
        cause: "something restarted the machine during the specialize or oobeSystem pass: \
                a command, a driver, or the host",
        cure: "remove restarts from the answer file's commands, and build again",
        hopeless: true,
        phrases: &["The computer restarted unexpectedly or encountered an unexpected error"],
    },
    Dialog {
        name: "the system could not be configured",
        cause: "a command of the specialize pass failed, \
                or the image was made from a half-sealed one",
        cure: "find the command or component in C:\\Windows\\Panther\\setuperr.log on the disk",
        hopeless: true,
        phrases: &["Windows could not finish configuring the system"],
    },
    Dialog {
        name: "the installation could not be completed",
        cause: "the image was sealed in audit mode, \
                or an account page was skipped without an account",
        cure: "generalize with /oobe, and set the Administrator's password in the answer file",
        hopeless: true,
        phrases: &["Windows could not complete the installation"],
    },
    Dialog {
        name: "a fatal error in sysprep",
        cause: "an app that is installed for one user only, a pending restart, or BitLocker \
                (Microsoft: Sysprep process overview)",
        cure: "find the reason in C:\\Windows\\System32\\Sysprep\\Panther\\setupact.log",
        hopeless: true,
        phrases: &[
            "A fatal error occurred while trying to sysprep the machine",
            "Sysprep was not able to validate your Windows installation",
        ],
    },
    Dialog {
        name: "the page for country and language",
        cause: "the oobeSystem pass has no International-Core settings",
        cure: "set InputLocale, SystemLocale, UILanguage and UserLocale in the oobeSystem pass",
        hopeless: false,
        phrases: &[
            "Hi there",
            "What's your home country/region",
            "Is this the right keyboard layout",
        ],
    },
    Dialog {
        name: "the page for the Administrator's password",
        cause: "the oobeSystem pass has no AdministratorPassword, \
                or HideLocalAccountScreen is missing",
        cure: "set UserAccounts/AdministratorPassword in the oobeSystem pass",
        hopeless: false,
        phrases: &[
            "Type a password for the built-in administrator account",
            "Customize settings",
        ],
    },
    Dialog {
        name: "the CD's key prompt",
        cause: "the loader of the install disc waits for a key, or ran out of time",
        cure: "use a medium that boots without a prompt; \
               winimg answers the prompt of UEFI firmware only",
        hopeless: false,
        phrases: &["Press any key to boot from CD or DVD"],
    },
    Dialog {
        name: "Windows' boot loader needs a repair",
        cause: "the boot configuration does not find the disk or the files of Windows, \
                or a boot driver is missing or not signed",
        cure: "look at the dialog for a file and a status; \
               the disk's bus must be the one Windows was installed on",
        hopeless: false,
        phrases: &[
            "needs to be repaired",
            "Windows failed to start. A recent hardware or software change",
            "Your PC couldn't start properly",
            // The boot code of a BIOS disk.
            "BOOTMGR is missing",
            "Missing operating system",
            "Error loading operating system",
            "Invalid partition table",
        ],
    },
    Dialog {
        name: "Windows' recovery",
        cause: "Windows failed to start twice and offers to repair itself",
        cure: "look at the earlier pictures: mostly a stop error came first",
        hopeless: false,
        phrases: &[
            "Automatic Repair couldn't repair your PC",
            "Startup Repair couldn't repair your PC",
            "Choose an option Continue",
        ],
    },
    Dialog {
        name: "the firmware's shell",
        cause: "the firmware found nothing to boot and opened its own shell",
        cure: "check that the ISO boots with UEFI firmware, \
               or that the disk has an EFI partition",
        hopeless: false,
        phrases: &["UEFI Interactive Shell"],
    },
    Dialog {
        name: "nothing to boot",
        cause: "the firmware found nothing to boot",
        cure: "check that the ISO boots with this firmware, \
               or that the disk has an active partition",
        hopeless: false,
        phrases: &[
            "No bootable device",
            "No bootable option or device was found",
        ],
    },
    Dialog {
        name: "Hyper-V's firmware could not start the boot loader",
        cause: "Secure Boot rejects the loader, no key was pressed at the CD's prompt, \
                or the disk has no loader",
        cure: "use a medium that boots without a prompt, \
               and check the machine's Secure Boot template (Microsoft Windows)",
        hopeless: false,
        phrases: &["The boot loader failed"],
    },
];

#[cfg(test)]
mod tests {
    use support::golden;

    use super::*;

    #[test]
    fn each_phrase_leads_to_its_own_row() {
        for dialog in DIALOGS {
            for phrase in dialog.phrases {
                let text = format!("Install Windows\n{}\nOK", phrase.to_uppercase());
                let found = find(&text);
                assert_eq!(found, Some(KnownScreen::Dialog(dialog)), "{phrase}");
            }
        }
    }

    /// docs/troubleshooting.md, between its markers.
    #[test]
    fn the_page_of_messages_has_every_box() {
        let mut text = String::new();
        for dialog in DIALOGS {
            let phrases: Vec<String> = dialog.phrases.iter().map(|p| format!("`{p}`")).collect();
            let [name, cause, cure] = [dialog.name, dialog.cause, dialog.cure].map(golden::plain);
            let seen = phrases.join(", ");
            text += &format!(
                "### {name}\n\nOn the screen: {seen}\n\n- Cause: {cause}.\n- Cure: {cure}.\n\n"
            );
        }
        golden::section("docs/troubleshooting.md", "boxes", &text);
    }

    #[test]
    fn a_desktop_a_log_on_screen_and_rubbish_are_no_box() {
        for text in [
            "",
            "Press Ctrl+Alt+Del to unlock.\n10:42\nSaturday, November 21",
            "Microsoft Windows [Version 10.0.20348.587]\n(c) Microsoft Corporation. All rights reserved.\nC:\\Users\\Administrator>",
            "Welcome to Server Core\n1) Domain/workgroup:\n15) Exit to command line (PowerShell)\nEnter number to select an option:",
            "Getting ready\nInstalling Windows\nCopying Windows files\nGetting files ready for installation (42%)",
            "||| ___ 0x00000000 |||",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn a_stop_error_is_one_whatever_else_the_screen_says() {
        let text = "Your device ran into a problem and needs to restart. We're just collecting some error info.\n\
            For more information visit https://www.windows.com/stopcode\nStop code: INACCESSIBLE BOOT DEVICE";
        let found = find(text);
        assert!(
            matches!(found, Some(KnownScreen::StopError(code)) if code.code == 0x7b),
            "{found:?}"
        );
    }
}
