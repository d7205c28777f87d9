//! Components with the passes they support, and the values their settings accept. The table is
//! written by hand from Microsoft's "Unattended Windows Setup Reference" and covers server images.

/// The seven configuration passes, in the order in which Setup runs them.
pub(super) const PASSES: [&str; 7] = [
    "windowsPE",
    "offlineServicing",
    "generalize",
    "specialize",
    "auditSystem",
    "auditUser",
    "oobeSystem",
];

const ALL_BUT_PE: &[&str] = {
    let [_, rest @ ..] = &PASSES;
    rest
};

/// A component and the passes that it supports.
pub(super) const COMPONENTS: &[(&str, &[&str])] = &[
    ("Microsoft-Windows-International-Core-WinPE", &["windowsPE"]),
    ("Microsoft-Windows-Setup", &["windowsPE"]),
    ("Microsoft-Windows-PnpCustomizationsWinPE", &["windowsPE"]),
    (
        "Microsoft-Windows-PnpCustomizationsNonWinPE",
        &["offlineServicing", "auditSystem"],
    ),
    ("Microsoft-Windows-LUA-Settings", &["offlineServicing"]),
    ("Microsoft-Windows-Shell-Setup", ALL_BUT_PE),
    (
        "Microsoft-Windows-Deployment",
        &[
            "generalize",
            "specialize",
            "auditSystem",
            "auditUser",
            "oobeSystem",
        ],
    ),
    (
        "Microsoft-Windows-ServerManager-SvrMgrNc",
        &["generalize", "specialize"],
    ),
    (
        "Microsoft-Windows-OutOfBoxExperience",
        &["generalize", "specialize"],
    ),
    (
        "Microsoft-Windows-TerminalServices-LocalSessionManager",
        &["offlineServicing", "generalize", "specialize"],
    ),
    (
        "Microsoft-Windows-TerminalServices-RDP-WinStationExtensions",
        &["offlineServicing", "generalize", "specialize"],
    ),
    (
        "Networking-MPSSVC-Svc",
        &[
            "offlineServicing",
            "generalize",
            "specialize",
            "auditSystem",
            "auditUser",
        ],
    ),
    (
        "Microsoft-Windows-Security-SPP-UX",
        &["generalize", "specialize"],
    ),
    ("Microsoft-Windows-Security-SPP", &["generalize"]),
    ("Microsoft-Windows-PnpSysprep", &["generalize"]),
    ("Microsoft-Windows-ErrorReportingCore", ALL_BUT_PE),
    ("Microsoft-Windows-SQMApi", &["generalize", "specialize"]),
    ("Microsoft-Windows-IE-ESC", &["generalize", "specialize"]),
    (
        "Microsoft-Windows-SystemRestore-Main",
        &["generalize", "specialize"],
    ),
    (
        "Microsoft-Windows-International-Core",
        &["specialize", "oobeSystem"],
    ),
    (
        "Microsoft-Windows-WinRE-RecoveryAgent",
        &["specialize", "oobeSystem"],
    ),
    (
        "Microsoft-Windows-SecureStartup-FilterDriver",
        &["specialize", "oobeSystem"],
    ),
];

/// Values that an element accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedText {
    /// `true` or `false`
    Bool,
    /// 0 or 1
    ZeroOne,
    /// An integer from the first number to the second, inclusive.
    Number(u64, u64),
    OneOf(&'static [&'static str]),
    /// Non-empty text with at most this many characters.
    Text(usize),
}

const SHOW_UI: AllowedText = AllowedText::OneOf(&["Always", "OnError", "Never"]);

/// Elements by the end of their path; includes the parent if a name has several meanings.
pub(super) const CONTENTS: &[(&str, AllowedText)] = &[
    ("WillShowUI", SHOW_UI),
    ("Disk/DiskID", AllowedText::Number(0, 99)),
    ("InstallTo/DiskID", AllowedText::Number(0, 99)),
    ("WillWipeDisk", AllowedText::Bool),
    (
        "CreatePartition/Type",
        AllowedText::OneOf(&["Primary", "EFI", "MSR", "Extended", "Logical"]),
    ),
    (
        "CreatePartition/Size",
        AllowedText::Number(1, u32::MAX as u64),
    ),
    ("Extend", AllowedText::Bool),
    ("PartitionID", AllowedText::Number(1, 128)),
    (
        "ModifyPartition/Format",
        AllowedText::OneOf(&["NTFS", "FAT32"]),
    ),
    ("Active", AllowedText::Bool),
    (
        "MetaData/Key",
        AllowedText::OneOf(&["/IMAGE/NAME", "/IMAGE/INDEX", "/IMAGE/DESCRIPTION"]),
    ),
    ("InstallToAvailablePartition", AllowedText::Bool),
    ("Compact", AllowedText::Bool),
    ("AcceptEula", AllowedText::Bool),
    ("FullName", AllowedText::Text(63)),
    ("Organization", AllowedText::Text(63)),
    ("DynamicUpdate/Enable", AllowedText::Bool),
    ("OptIn", AllowedText::Bool),
    ("UseConfigurationSet", AllowedText::Bool),
    ("EnableLUA", AllowedText::Bool),
    ("CopyProfile", AllowedText::Bool),
    (
        "WillReboot",
        AllowedText::OneOf(&["Never", "Always", "OnRequest"]),
    ),
    ("RunSynchronousCommand/Path", AllowedText::Text(259)),
    ("RunSynchronousCommand/Description", AllowedText::Text(259)),
    ("PathAndCredentials/Path", AllowedText::Text(259)),
    // Server 2019 and 2022 silently skip longer ones, which they store as RunOnce values.
    ("SynchronousCommand/CommandLine", AllowedText::Text(259)),
    ("DoNotOpenServerManagerAtLogon", AllowedText::Bool),
    (
        "DoNotOpenInitialConfigurationTasksAtLogon",
        AllowedText::Bool,
    ),
    ("fDenyTSConnections", AllowedText::Bool),
    ("UserAuthentication", AllowedText::ZeroOne),
    ("SecurityLayer", AllowedText::Number(0, 2)),
    (
        "FirewallGroup/Profile",
        AllowedText::OneOf(&["all", "domain", "private", "public"]),
    ),
    ("DomainProfile_EnableFirewall", AllowedText::Bool),
    ("PrivateProfile_EnableFirewall", AllowedText::Bool),
    ("PublicProfile_EnableFirewall", AllowedText::Bool),
    ("SkipAutoActivation", AllowedText::Bool),
    ("DisableWER", AllowedText::ZeroOne),
    ("CEIPEnabled", AllowedText::ZeroOne),
    ("IEHardenAdmin", AllowedText::Bool),
    ("IEHardenUser", AllowedText::Bool),
    ("DisableSR", AllowedText::ZeroOne),
    ("SkipRearm", AllowedText::ZeroOne),
    ("PersistAllDeviceInstalls", AllowedText::Bool),
    ("DoNotCleanUpNonPresentDevices", AllowedText::Bool),
    ("HideEULAPage", AllowedText::Bool),
    ("HideLocalAccountScreen", AllowedText::Bool),
    ("HideOEMRegistrationScreen", AllowedText::Bool),
    ("HideOnlineAccountScreens", AllowedText::Bool),
    ("HideWirelessSetupInOOBE", AllowedText::Bool),
    ("ProtectYourPC", AllowedText::Number(1, 3)),
    (
        "NetworkLocation",
        AllowedText::OneOf(&["Home", "Work", "Other"]),
    ),
    ("PlainText", AllowedText::Bool),
    ("AutoLogon/Enabled", AllowedText::Bool),
    ("LogonCount", AllowedText::Number(0, 9999)),
    ("RequiresUserInput", AllowedText::Bool),
    ("Reseal/Mode", AllowedText::OneOf(&["Audit", "OOBE"])),
    ("UninstallWindowsRE", AllowedText::Bool),
    ("PreventDeviceEncryption", AllowedText::Bool),
];

/// List items: each needs `wcm:action="add"`.
pub(super) const LIST_ITEMS: &[&str] = &[
    "Disk",
    "CreatePartition",
    "ModifyPartition",
    "MetaData",
    "RunSynchronousCommand",
    "SynchronousCommand",
    "LocalAccount",
    "PathAndCredentials",
    "FirewallGroup",
];

/// List items that also need a unique `wcm:keyValue`.
pub(super) const KEYED_ITEMS: &[&str] = &["PathAndCredentials", "FirewallGroup"];

/// List items that are ordered by an `Order` element.
pub(super) const ORDERED_ITEMS: &[&str] = &[
    "CreatePartition",
    "ModifyPartition",
    "RunSynchronousCommand",
    "SynchronousCommand",
];
