//! The names that `host.ps1` takes: cmdlets, its own scripts, and the guest's scripts that `Invoke-Command` carries.

/// Module-qualified, as the allow-list has them.
pub const CMDLETS: &[(&str, &[&str])] = &[
    (
        "Hyper-V",
        &[
            "New-VHD",
            "Set-VHD",
            "Test-VHD",
            "Mount-VHD",
            "Dismount-VHD",
            "Optimize-VHD",
            "New-VM",
            "Get-VM",
            "Set-VM",
            "Remove-VM",
            "Start-VM",
            "Stop-VM",
            "Set-VMProcessor",
            "Set-VMMemory",
            "Set-VMFirmware",
            "Set-VMBios",
            "Add-VMDvdDrive",
            "Get-VMDvdDrive",
            "Set-VMDvdDrive",
            "Remove-VMDvdDrive",
            "Get-VMHardDiskDrive",
            "Set-VMComPort",
            "Set-VMKeyProtector",
            "Enable-VMTPM",
            "Remove-VMNetworkAdapter",
            "Get-VMHost",
        ],
    ),
    (
        "Microsoft.PowerShell.Core",
        &["New-PSSession", "Invoke-Command"],
    ),
];

/// Beside `host.ps1`, called as `script:NAME`.
pub const HOST_SCRIPTS: &[&str] = &["probe", "credential", "screen", "key", "own"];

/// The guest's, as `{"$script":"NAME"}`.
pub const GUEST_SCRIPTS: &[&str] = &[
    "look", "start", "poll", "forget", "put", "get", "restart", "off",
];

/// Whether a fault can wait for it: `Start-VM`, `script:screen`, `guest:poll`.
pub fn is_known(name: &str) -> bool {
    let has = |all: &[&str], prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| all.contains(&rest))
    };
    CMDLETS.iter().any(|(_, all)| all.contains(&name))
        || has(HOST_SCRIPTS, "script:")
        || has(GUEST_SCRIPTS, "guest:")
}
