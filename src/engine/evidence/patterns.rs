//! A table of known error messages of Windows, with their causes and fixes.
//!
//! Sources: Microsoft, "Windows Setup log files and event logs", "Sysprep problems" (provisioned
//! apps, reserved storage, rearm), "DISM error codes", "Common Windows Update errors", "Windows
//! upgrade error codes", "Device installation error codes".

use super::logs::LogFamily;

pub struct ErrorPattern {
    /// Fragments that must all occur in one line, in lower case.
    pub words: &'static [&'static str],
    /// Log families to match. Empty: all.
    pub families: &'static [LogFamily],
    pub cause: &'static str,
    pub cure: &'static str,
}

const ANY: &[LogFamily] = &[];
const SETUP: &[LogFamily] = &[LogFamily::Setup];
const SYSPREP: &[LogFamily] = &[LogFamily::Sysprep];
const DEVICES: &[LogFamily] = &[LogFamily::Devices, LogFamily::Servicing, LogFamily::Step];
const SERVICING: &[LogFamily] = &[LogFamily::Servicing, LogFamily::Setup, LogFamily::Step];

const fn pattern(
    words: &'static [&'static str],
    families: &'static [LogFamily],
    cause: &'static str,
    cure: &'static str,
) -> ErrorPattern {
    ErrorPattern {
        words,
        families,
        cause,
        cure,
    }
}

/// The first matching pattern wins. The causes found in one log are shown in this order, so more
/// specific ones come first.
pub const PATTERNS: &[ErrorPattern] = &[
    // The answer file.
    pattern(
        &["unattend", "not a valid"],
        SETUP,
        "Setup rejected the answer file",
        "the lines after it in setupact.log name the setting; `winimg validate` checks the file \
         against Setup's own rules",
    ),
    pattern(
        &["unattend file is not valid"],
        SETUP,
        "Setup rejected the answer file",
        "the lines after it in setupact.log name the setting; `winimg validate` checks the file \
         against Setup's own rules",
    ),
    pattern(
        &["smi data results dump"],
        SETUP,
        "a setting of the answer file has a value that Windows rejects",
        "the line names the setting and what is wrong with its value",
    ),
    pattern(
        &["could not parse or process"],
        SETUP,
        "Windows could not read the answer file",
        "the line names the pass and the component: check that part of the answer file",
    ),
    pattern(
        &["callback_diskconfiguration"],
        SETUP,
        "the disk layout of the answer file could not be applied",
        "the layout has to fit the firmware (UEFI: GPT), and the disk's driver has to be there in \
         Windows PE",
    ),
    pattern(
        &["product key"],
        SETUP,
        "Setup did not accept the product key",
        "the key must match the edition; evaluation media take none: omit `media.product_key`",
    ),
    // Setup's image.
    pattern(
        &["0x80071160"],
        ANY,
        "Setup failed to compress Windows (CompactOS), which Server 2025 attempts on small disks",
        "give the disk 100 GB, or set <Compact>false</Compact> in an answer file of your own",
    ),
    pattern(
        &["0x800703f9"],
        ANY,
        "the component store's registry was corrupted during specialize, which occasionally \
         happens with Server 2025",
        "build again: the next installation starts from scratch",
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
        "a file that Windows was reading is corrupt",
        "compare the install medium with its publisher's digest",
    ),
    pattern(
        &["0x8007000d"],
        SETUP,
        "a file of the install medium is invalid",
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
        "the VM does not meet the requirements of this Windows",
        "raise `machine.memory` and `machine.cpus`, and use a newer CPU model",
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
        "setupact.log in Rollback names the driver; load only storage, network and serial drivers \
         during Setup",
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
        "Windows ignores SetupComplete.cmd with an OEM product key on this edition",
        "use a volume licence or evaluation edition, or no OEM key",
    ),
    // Sysprep.
    pattern(
        &["was installed for a user, but not provisioned"],
        SYSPREP,
        "an app package was installed for one user only, which sysprep does not allow",
        "remove the package that the line names before `generalize`: Remove-AppxPackage -AllUsers \
         -Package <full name>, in Windows PowerShell 5.1",
    ),
    pattern(
        &["0x80073cf2"],
        ANY,
        "sysprep could not remove an app package",
        "the lines before it name the package; remove it before `generalize`: Remove-AppxPackage \
         -AllUsers -Package <full name>",
    ),
    pattern(
        &["0x800f0975"],
        ANY,
        "servicing still uses the reserved storage, which blocks sysprep",
        "let updates finish and restart before `generalize`; DISM /Online \
         /Get-ReservedStorageState shows if it is idle",
    ),
    pattern(
        &["reserved storage is in use"],
        ANY,
        "servicing still uses the reserved storage",
        "let updates finish and restart first; DISM /Online /Get-ReservedStorageState shows if it \
         is idle",
    ),
    pattern(
        &["bitlocker"],
        SYSPREP,
        "BitLocker is on, which blocks sysprep",
        "turn it off in a step before `generalize` and wait for the decryption: manage-bde -off C:",
    ),
    pattern(
        &["audit mode", "active scenario"],
        SYSPREP,
        "an update is still in progress, which blocks sysprep",
        "let updates finish and restart before `generalize`",
    ),
    pattern(
        &["windows updates", "require a reboot"],
        SYSPREP,
        "updates are waiting for a restart, which blocks sysprep",
        "put a `reboot` step before `generalize`",
    ),
    pattern(
        &["0xc004d307"],
        ANY,
        "Windows was generalized too often: its licence can't be rearmed any more",
        "start from an image that was generalized fewer times, or set SkipRearm in the seal's \
         answer file",
    ),
    // Servicing.
    pattern(
        &["0x800f081f"],
        SERVICING,
        "the files of a feature are missing from the image and from the source",
        "give the step a source of exactly this build: the install medium's sources\\sxs or \
         install.wim",
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
        "use the languages and optional features disc of exactly this build",
    ),
    pattern(
        &["0x800f080c"],
        SERVICING,
        "Windows has no feature of that name",
        "compare the name with the list: dism /online /get-features",
    ),
    pattern(
        &["0x800f0922"],
        SERVICING,
        "an installer of the update or feature failed: often the EFI partition is full, or a \
         restart is pending",
        "put a `reboot` step before it; CBS.log names the installer",
    ),
    pattern(
        &["0x800f0831"],
        SERVICING,
        "the component store is missing a package that this one depends on",
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
        "servicing needs a restart before it can continue",
        "put a `reboot` step before this one",
    ),
    pattern(
        &["0x80070002"],
        SERVICING,
        "servicing did not find a file that it needs",
        "check that the package is complete, and that no earlier cleanup removed it",
    ),
    pattern(
        &["0x8024402c"],
        ANY,
        "Windows Update found no server: check name resolution and the proxy",
        "the VM has a network only with `machine.network`; check the proxy",
    ),
    pattern(
        &["0x80240438"],
        ANY,
        "the update server is unreachable",
        "the VM has a network only with `machine.network`; pinned packages need none",
    ),
    // Drivers.
    pattern(
        &["0xe0000247"],
        DEVICES,
        "a driver's catalog is not signed by a publisher that Windows trusts",
        "use the vendor's signed driver package",
    ),
    pattern(
        &["0x800b0109"],
        DEVICES,
        "a driver's signature chains to a root that Windows does not trust",
        "use the vendor's signed driver package, or install its root certificate in an earlier \
         step",
    ),
    pattern(
        &["0xe0000242"],
        DEVICES,
        "the publisher of a driver is not trusted yet, so Windows would ask for confirmation",
        "add the publisher's certificate to TrustedPublisher in an earlier step",
    ),
    pattern(
        &["0xe000022f"],
        DEVICES,
        "a driver's INF has no signature",
        "use the vendor's signed driver package",
    ),
    pattern(
        &["0xe0000243"],
        DEVICES,
        "the files of a driver do not match its catalog",
        "unpack the complete driver package again",
    ),
];
