//! Which component belongs into which pass, and what its settings may hold: a table written by hand from Microsoft's
//! "Unattended Windows Setup Reference", as far as images of servers need it.

/// The seven configuration passes, in the order in which Setup goes through them.
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

/// What an element's text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// `true` or `false`
    Bool,
    /// 0 or 1
    ZeroOne,
    /// A whole number from the first to the second.
    Number(u64, u64),
    OneOf(&'static [&'static str]),
    /// At most so many characters, and not empty.
    Text(usize),
}

const SHOW_UI: Content = Content::OneOf(&["Always", "OnError", "Never"]);

/// Elements by the end of their path. Where a name means different things, its parent is named too.
pub(super) const CONTENTS: &[(&str, Content)] = &[
    ("WillShowUI", SHOW_UI),
    ("Disk/DiskID", Content::Number(0, 99)),
    ("InstallTo/DiskID", Content::Number(0, 99)),
    ("WillWipeDisk", Content::Bool),
    (
        "CreatePartition/Type",
        Content::OneOf(&["Primary", "EFI", "MSR", "Extended", "Logical"]),
    ),
    ("CreatePartition/Size", Content::Number(1, u32::MAX as u64)),
    ("Extend", Content::Bool),
    ("PartitionID", Content::Number(1, 128)),
    ("ModifyPartition/Format", Content::OneOf(&["NTFS", "FAT32"])),
    ("Active", Content::Bool),
    (
        "MetaData/Key",
        Content::OneOf(&["/IMAGE/NAME", "/IMAGE/INDEX", "/IMAGE/DESCRIPTION"]),
    ),
    ("InstallToAvailablePartition", Content::Bool),
    ("Compact", Content::Bool),
    ("AcceptEula", Content::Bool),
    ("FullName", Content::Text(63)),
    ("Organization", Content::Text(63)),
    ("DynamicUpdate/Enable", Content::Bool),
    ("OptIn", Content::Bool),
    ("UseConfigurationSet", Content::Bool),
    ("EnableLUA", Content::Bool),
    ("CopyProfile", Content::Bool),
    (
        "WillReboot",
        Content::OneOf(&["Never", "Always", "OnRequest"]),
    ),
    ("RunSynchronousCommand/Path", Content::Text(259)),
    ("RunSynchronousCommand/Description", Content::Text(259)),
    ("PathAndCredentials/Path", Content::Text(259)),
    // Longer ones are skipped in silence by Server 2019 and 2022, which keep them as RunOnce values.
    ("SynchronousCommand/CommandLine", Content::Text(259)),
    ("DoNotOpenServerManagerAtLogon", Content::Bool),
    ("DoNotOpenInitialConfigurationTasksAtLogon", Content::Bool),
    ("fDenyTSConnections", Content::Bool),
    ("UserAuthentication", Content::ZeroOne),
    ("SecurityLayer", Content::Number(0, 2)),
    (
        "FirewallGroup/Profile",
        Content::OneOf(&["all", "domain", "private", "public"]),
    ),
    ("DomainProfile_EnableFirewall", Content::Bool),
    ("PrivateProfile_EnableFirewall", Content::Bool),
    ("PublicProfile_EnableFirewall", Content::Bool),
    ("SkipAutoActivation", Content::Bool),
    ("DisableWER", Content::ZeroOne),
    ("CEIPEnabled", Content::ZeroOne),
    ("IEHardenAdmin", Content::Bool),
    ("IEHardenUser", Content::Bool),
    ("DisableSR", Content::ZeroOne),
    ("SkipRearm", Content::ZeroOne),
    ("PersistAllDeviceInstalls", Content::Bool),
    ("DoNotCleanUpNonPresentDevices", Content::Bool),
    ("HideEULAPage", Content::Bool),
    ("HideLocalAccountScreen", Content::Bool),
    ("HideOEMRegistrationScreen", Content::Bool),
    ("HideOnlineAccountScreens", Content::Bool),
    ("HideWirelessSetupInOOBE", Content::Bool),
    ("ProtectYourPC", Content::Number(1, 3)),
    (
        "NetworkLocation",
        Content::OneOf(&["Home", "Work", "Other"]),
    ),
    ("PlainText", Content::Bool),
    ("AutoLogon/Enabled", Content::Bool),
    ("LogonCount", Content::Number(0, 9999)),
    ("RequiresUserInput", Content::Bool),
    ("Reseal/Mode", Content::OneOf(&["Audit", "OOBE"])),
    ("UninstallWindowsRE", Content::Bool),
    ("PreventDeviceEncryption", Content::Bool),
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

/// List items that need a `wcm:keyValue` too, different for each.
pub(super) const KEYED_ITEMS: &[&str] = &["PathAndCredentials", "FirewallGroup"];

/// List items whose order is an `Order` element.
pub(super) const ORDERED_ITEMS: &[&str] = &[
    "CreatePartition",
    "ModifyPartition",
    "RunSynchronousCommand",
    "SynchronousCommand",
];
