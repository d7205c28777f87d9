//! What Windows writes when a well-known thing went wrong, what it means, what helps: a table and nothing else.
//!
//! Sources: Microsoft, "Windows Setup log files and event logs", "Sysprep problems" (provisioned apps, reserved storage,
//! rearm), "DISM error codes", "Common Windows Update errors", "Windows upgrade error codes", "Device installation error codes".

use super::logs::Family;

pub struct Pattern {
    /// All of them stand in one line, in lower case.
    pub words: &'static [&'static str],
    /// Empty: wherever it is read.
    pub families: &'static [Family],
    pub cause: &'static str,
    pub cure: &'static str,
}

const ANY: &[Family] = &[];
const SETUP: &[Family] = &[Family::Setup];
const SYSPREP: &[Family] = &[Family::Sysprep];
const DEVICES: &[Family] = &[Family::Devices, Family::Servicing, Family::Step];
const SERVICING: &[Family] = &[Family::Servicing, Family::Setup, Family::Step];

const fn pattern(
    words: &'static [&'static str],
    families: &'static [Family],
    cause: &'static str,
    cure: &'static str,
) -> Pattern {
    Pattern {
        words,
        families,
        cause,
        cure,
    }
}

/// Of two that fit one line the first counts; of two causes from one log the first says more.
pub const PATTERNS: &[Pattern] = &[
    // The answer file.
    pattern(
        &["unattend", "not a valid"],
        SETUP,
        "Setup refused the answer file",
        "the lines after it in setupact.log name the setting; `winimg validate` checks the file against Setup's own rules",
    ),
    pattern(
        &["unattend file is not valid"],
        SETUP,
        "Setup refused the answer file",
        "the lines after it in setupact.log name the setting; `winimg validate` checks the file against Setup's own rules",
    ),
    pattern(
        &["smi data results dump"],
        SETUP,
        "a setting of the answer file has a value that Windows refuses",
        "the line names the setting and what is wrong with its value",
    ),
    pattern(
        &["could not parse or process"],
        SETUP,
        "Windows could not read the answer file",
        "the line names the pass and the component: look at that part of the answer file",
    ),
    pattern(
        &["callback_diskconfiguration"],
        SETUP,
        "the disk layout of the answer file could not be applied",
        "the layout has to fit the firmware (UEFI: GPT), and the disk's driver has to be there in Windows PE",
    ),
    pattern(
        &["product key"],
        SETUP,
        "Setup did not take the product key",
        "the key has to fit the edition; evaluation media take none: leave `media.product_key` out",
    ),
    // Setup's image.
    pattern(
        &["0x80071160"],
        ANY,
        "Setup chose to compress Windows (CompactOS) and failed at it, as Server 2025 does on small disks",
        "give the disk 100 GB, or set <Compact>false</Compact> in an answer file of your own",
    ),
    pattern(
        &["0x800703f9"],
        ANY,
        "the component store's registry was damaged during specialize, which happens to Server 2025 now and then",
        "build again: the next installation starts from nothing",
    ),
    pattern(
        &["0xd000a000"],
        SETUP,
        "Setup was given drivers that are not for this Windows",
        "name the driver folders of this version instead of the root of the driver disc",
    ),
    pattern(
        &["0x80070570"],
        ANY,
        "a file that Windows was reading is damaged",
        "compare the install medium with its publisher's digest",
    ),
    pattern(
        &["0x8007000d"],
        SETUP,
        "a file of the install medium holds what Setup does not understand",
        "compare the install medium with its publisher's digest",
    ),
    pattern(
        &["0x80070017"],
        SETUP,
        "the install medium could not be read",
        "compare the install medium with its publisher's digest",
    ),
    pattern(
        &["0x8007000e"],
        ANY,
        "Windows ran out of memory",
        "raise `machine.memory`",
    ),
    pattern(
        &["0xc1900200"],
        SETUP,
        "the machine is less than this Windows asks for",
        "raise `machine.memory` and `machine.cpus`, and give it a newer processor model",
    ),
    pattern(
        &["0xc190020e"],
        SETUP,
        "the disk is too small for Setup",
        "raise `machine.disk_size`",
    ),
    pattern(
        &["0xc1900101"],
        SETUP,
        "a driver made Setup roll back",
        "setupact.log in Rollback names the driver; load only storage, network and serial drivers during Setup",
    ),
    pattern(
        &["0x80070070"],
        ANY,
        "the disk of the guest is full",
        "raise `machine.disk_size`",
    ),
    pattern(
        &["there is not enough space on the disk"],
        ANY,
        "the disk of the guest is full",
        "raise `machine.disk_size`",
    ),
    // SetupComplete.
    pattern(
        &["will not run setupcomplete.cmd"],
        SETUP,
        "Windows ignores SetupComplete.cmd: this edition and an OEM product key do not go together with it",
        "use a volume licence or evaluation edition, or no OEM key",
    ),
    // Sysprep.
    pattern(
        &["was installed for a user, but not provisioned"],
        SYSPREP,
        "an app package was installed for one user only, and sysprep refuses that",
        "remove the package that the line names before `generalize`: Remove-AppxPackage -AllUsers -Package <full name>, in Windows PowerShell 5.1",
    ),
    pattern(
        &["0x80073cf2"],
        ANY,
        "sysprep could not remove an app package",
        "the lines before it name the package; remove it before `generalize`: Remove-AppxPackage -AllUsers -Package <full name>",
    ),
    pattern(
        &["0x800f0975"],
        ANY,
        "servicing still uses the reserved storage, so sysprep refuses",
        "let updates end and restart before `generalize`; DISM /Online /Get-ReservedStorageState tells whether it is idle",
    ),
    pattern(
        &["reserved storage is in use"],
        ANY,
        "servicing still uses the reserved storage",
        "let updates end and restart first; DISM /Online /Get-ReservedStorageState tells whether it is idle",
    ),
    pattern(
        &["bitlocker"],
        SYSPREP,
        "BitLocker is on, and sysprep refuses that",
        "turn it off in a step before `generalize` and wait for the decryption: manage-bde -off C:",
    ),
    pattern(
        &["audit mode", "active scenario"],
        SYSPREP,
        "an update is still at work, so sysprep refuses",
        "let updates end and restart before `generalize`",
    ),
    pattern(
        &["windows updates", "require a reboot"],
        SYSPREP,
        "updates wait for a restart, and sysprep refuses until then",
        "put a `reboot` step before `generalize`",
    ),
    pattern(
        &["0xc004d307"],
        ANY,
        "Windows was generalized too often: its licence can't be rearmed any more",
        "start from an image that was generalized less often, or set SkipRearm in the seal's answer file",
    ),
    // Servicing.
    pattern(
        &["0x800f081f"],
        SERVICING,
        "the files of a feature are missing from the image and from the source",
        "give the step a source of exactly this build: the install medium's sources\\sxs or install.wim",
    ),
    pattern(
        &["0x800f0954"],
        SERVICING,
        "a policy sends DISM to an update server for the feature's files",
        "give the step a source, or set RepairContentServerSource to 2 in an earlier step",
    ),
    pattern(
        &["0x800f0950"],
        SERVICING,
        "the capability is not for this build, or not in the source",
        "take the languages and optional features disc of exactly this build",
    ),
    pattern(
        &["0x800f080c"],
        SERVICING,
        "Windows knows no feature of that name",
        "compare the name with the list: dism /online /get-features",
    ),
    pattern(
        &["0x800f0922"],
        SERVICING,
        "an installer of the update or feature failed: often the EFI partition is full, or a restart is pending",
        "put a `reboot` step before it; CBS.log names the installer",
    ),
    pattern(
        &["0x800f0831"],
        SERVICING,
        "the component store lacks a package that this one builds upon",
        "install the missing update first, or build from a newer medium",
    ),
    pattern(
        &["0x80073712"],
        SERVICING,
        "the component store is damaged",
        "dism /online /cleanup-image /restorehealth with a source, or build again",
    ),
    pattern(
        &["0x80070bc9"],
        SERVICING,
        "servicing wants a restart before it goes on",
        "put a `reboot` step before this one",
    ),
    pattern(
        &["0x80070002"],
        SERVICING,
        "servicing did not find a file that it needs",
        "look whether the package is whole, and whether an earlier cleanup removed it",
    ),
    pattern(
        &["0x8024402c"],
        ANY,
        "Windows Update found no server: name resolution or proxy",
        "the machine has a network only with `machine.network`; look at the proxy",
    ),
    pattern(
        &["0x80240438"],
        ANY,
        "there is no way to the update server",
        "the machine has a network only with `machine.network`; pinned packages need none",
    ),
    // Drivers.
    pattern(
        &["0xe0000247"],
        DEVICES,
        "a driver's catalog is not signed by anyone whom Windows trusts",
        "take the signed driver package of the vendor",
    ),
    pattern(
        &["0x800b0109"],
        DEVICES,
        "a driver's signature ends in a root that Windows does not trust",
        "take the signed driver package of the vendor, or put its root certificate into the store in an earlier step",
    ),
    pattern(
        &["0xe0000242"],
        DEVICES,
        "the publisher of a driver is not yet trusted, so Windows would ask somebody",
        "put the publisher's certificate into TrustedPublisher in an earlier step",
    ),
    pattern(
        &["0xe000022f"],
        DEVICES,
        "a driver's INF has no signature",
        "take the signed driver package of the vendor",
    ),
    pattern(
        &["0xe0000243"],
        DEVICES,
        "the files of a driver do not match its catalog",
        "unpack the driver package again, whole",
    ),
];
