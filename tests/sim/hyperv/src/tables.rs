//! The cmdlets' parameters, as Microsoft's reference writes them: one line a parameter set.
//!
//! Source: Microsoft: Hyper-V PowerShell module reference (Windows Server 2022), SYNTAX of each cmdlet; Microsoft: Microsoft.PowerShell.Core reference.
//! Left out are the parameters of other hosts (`-ComputerName`, `-CimSession`): winimg works on its own.

/// Cmdlet, then its sets.
pub const SYNTAX: &[(&str, &[&str])] = &[
    (
        "New-VHD",
        &[
            "[-Path] <String[]> [-SizeBytes] <UInt64> [-Dynamic] [-BlockSizeBytes <UInt32>] [-LogicalSectorSizeBytes <UInt32>] [-PhysicalSectorSizeBytes <UInt32>] [-AsJob]",
            "[-Path] <String[]> [-ParentPath] <String> [[-SizeBytes] <UInt64>] [-Differencing] [-BlockSizeBytes <UInt32>] [-PhysicalSectorSizeBytes <UInt32>] [-AsJob]",
            "[-Path] <String[]> [-SizeBytes] <UInt64> -Fixed [-BlockSizeBytes <UInt32>] [-LogicalSectorSizeBytes <UInt32>] [-PhysicalSectorSizeBytes <UInt32>] [-AsJob]",
        ],
    ),
    (
        "Set-VHD",
        &[
            "[-Path] <String> [-ParentPath] <String> [-LeafPath <String>] [-IgnoreIdMismatch] [-Passthru]",
            "[-Path] <String> -PhysicalSectorSizeBytes <UInt32> [-Passthru]",
            "[-Path] <String> -ResetDiskIdentifier [-Force] [-Passthru]",
        ],
    ),
    ("Test-VHD", &["[-Path] <String[]>"]),
    (
        "Mount-VHD",
        &["[-Path] <String[]> [-NoDriveLetter] [-ReadOnly] [-SnapshotId <Guid>] [-Passthru]"],
    ),
    (
        "Dismount-VHD",
        &["[-Path] <String[]> [-SnapshotId <Guid>] [-Passthru]"],
    ),
    (
        "Optimize-VHD",
        &["[-Path] <String[]> [-Mode <VhdCompactMode>] [-AsJob] [-Passthru]"],
    ),
    (
        "New-VM",
        &[
            "[[-Name] <String>] [[-MemoryStartupBytes] <Int64>] [-BootDevice <BootDevice>] [-NoVHD] [-SwitchName <String>] [-Path <String>] [-Version <Version>] [[-Generation] <Int16>] [-Force] [-AsJob]",
            "[[-Name] <String>] [[-MemoryStartupBytes] <Int64>] [-BootDevice <BootDevice>] [-SwitchName <String>] -NewVHDPath <String> -NewVHDSizeBytes <UInt64> [-Path <String>] [-Version <Version>] [[-Generation] <Int16>] [-Force] [-AsJob]",
            "[[-Name] <String>] [[-MemoryStartupBytes] <Int64>] [-BootDevice <BootDevice>] [-SwitchName <String>] -VHDPath <String> [-Path <String>] [-Version <Version>] [[-Generation] <Int16>] [-Force] [-AsJob]",
        ],
    ),
    ("Get-VM", &["[[-Name] <String[]>]", "[[-Id] <Guid>]"]),
    (
        "Set-VM",
        &["[-Name] <String[]> {set}", "[-VM] <VirtualMachine[]> {set}"],
    ),
    (
        "Remove-VM",
        &[
            "[-Name] <String[]> [-Force] [-AsJob] [-Passthru]",
            "[-VM] <VirtualMachine[]> [-Force] [-AsJob] [-Passthru]",
        ],
    ),
    (
        "Start-VM",
        &[
            "[-Name] <String[]> [-AsJob] [-Passthru]",
            "[-VM] <VirtualMachine[]> [-AsJob] [-Passthru]",
        ],
    ),
    (
        "Stop-VM",
        &[
            "[-Name] <String[]> [-Save] [-TurnOff] [-Force] [-AsJob] [-Passthru]",
            "[-VM] <VirtualMachine[]> [-Save] [-TurnOff] [-Force] [-AsJob] [-Passthru]",
        ],
    ),
    (
        "Set-VMProcessor",
        &[
            "[-VMName] <String[]> [-Count <Int64>] [-ExposeVirtualizationExtensions <Boolean>] [-CompatibilityForMigrationEnabled <Boolean>] [-Maximum <Int64>] [-Reserve <Int64>] [-RelativeWeight <Int32>] [-Passthru]",
            "[-VM] <VirtualMachine[]> [-Count <Int64>] [-ExposeVirtualizationExtensions <Boolean>] [-CompatibilityForMigrationEnabled <Boolean>] [-Maximum <Int64>] [-Reserve <Int64>] [-RelativeWeight <Int32>] [-Passthru]",
        ],
    ),
    (
        "Set-VMMemory",
        &[
            "[-VMName] <String[]> [-Buffer <Int32>] [-DynamicMemoryEnabled <Boolean>] [-MaximumBytes <Int64>] [-StartupBytes <Int64>] [-MinimumBytes <Int64>] [-Priority <Int32>] [-Passthru]",
            "[-VM] <VirtualMachine[]> [-Buffer <Int32>] [-DynamicMemoryEnabled <Boolean>] [-MaximumBytes <Int64>] [-StartupBytes <Int64>] [-MinimumBytes <Int64>] [-Priority <Int32>] [-Passthru]",
        ],
    ),
    (
        "Set-VMFirmware",
        &[
            "[-VMName] <String[]> {firmware}",
            "[-VM] <VirtualMachine[]> {firmware}",
        ],
    ),
    (
        "Set-VMBios",
        &[
            "[-VMName] <String[]> [-DisableNumLock] [-EnableNumLock] [-StartupOrder <BootDevice[]>] [-Passthru]",
            "[-VM] <VirtualMachine[]> [-DisableNumLock] [-EnableNumLock] [-StartupOrder <BootDevice[]>] [-Passthru]",
        ],
    ),
    (
        "Add-VMDvdDrive",
        &[
            "[-VMName] <String[]> [[-ControllerNumber] <Int32>] [[-ControllerLocation] <Int32>] [[-Path] <String>] [-ResourcePoolName <String>] [-AllowUnverifiedPaths] [-Passthru]",
            "[-VM] <VirtualMachine[]> [[-ControllerNumber] <Int32>] [[-ControllerLocation] <Int32>] [[-Path] <String>] [-ResourcePoolName <String>] [-AllowUnverifiedPaths] [-Passthru]",
        ],
    ),
    (
        "Get-VMDvdDrive",
        &[
            "[-VMName] <String[]> [-ControllerLocation <Int32>] [-ControllerNumber <Int32>]",
            "[-VM] <VirtualMachine[]> [-ControllerLocation <Int32>] [-ControllerNumber <Int32>]",
        ],
    ),
    (
        "Set-VMDvdDrive",
        &[
            "[-VMName] <String> [[-ControllerNumber] <Int32>] [[-ControllerLocation] <Int32>] [-ToControllerNumber <Int32>] [-ToControllerLocation <Int32>] [[-Path] <String>] [-ResourcePoolName <String>] [-AllowUnverifiedPaths] [-Passthru]",
            "[-VMDvdDrive] <DvdDrive[]> [-ToControllerNumber <Int32>] [-ToControllerLocation <Int32>] [[-Path] <String>] [-ResourcePoolName <String>] [-AllowUnverifiedPaths] [-Passthru]",
        ],
    ),
    (
        "Remove-VMDvdDrive",
        &[
            "[-VMName] <String[]> [-ControllerNumber] <Int32> [-ControllerLocation] <Int32> [-Passthru]",
            "[-VMDvdDrive] <DvdDrive[]> [-Passthru]",
        ],
    ),
    (
        "Get-VMHardDiskDrive",
        &[
            "[-VMName] <String[]> [-ControllerLocation <Int32>] [-ControllerNumber <Int32>] [-ControllerType <ControllerType>]",
            "[-VM] <VirtualMachine[]> [-ControllerLocation <Int32>] [-ControllerNumber <Int32>] [-ControllerType <ControllerType>]",
        ],
    ),
    (
        "Set-VMComPort",
        &[
            "[-VMName] <String[]> [-Number] <Int32> [[-Path] <String>] [-DebuggerMode <OnOffState>] [-Passthru]",
            "[-VM] <VirtualMachine[]> [-Number] <Int32> [[-Path] <String>] [-DebuggerMode <OnOffState>] [-Passthru]",
        ],
    ),
    (
        "Set-VMKeyProtector",
        &[
            "[-VMName] <String[]> -NewLocalKeyProtector [-Passthru]",
            "[-VM] <VirtualMachine[]> -NewLocalKeyProtector [-Passthru]",
        ],
    ),
    (
        "Enable-VMTPM",
        &[
            "[-VMName] <String[]> [-Passthru]",
            "[-VM] <VirtualMachine[]> [-Passthru]",
        ],
    ),
    (
        "Remove-VMNetworkAdapter",
        &[
            "[-VMName] <String[]> [-Name <String>] [-Passthru]",
            "[-VM] <VirtualMachine[]> [-Name <String>] [-Passthru]",
            "[-VMNetworkAdapter] <VMNetworkAdapterBase[]> [-Passthru]",
        ],
    ),
    ("Get-VMHost", &[""]),
    (
        "New-PSSession",
        &[
            "-Credential <PSCredential> [-Name <String[]>] [-ConfigurationName <String>] [-VMId] <Guid[]> [-ThrottleLimit <Int32>]",
        ],
    ),
    (
        "Invoke-Command",
        &[
            "[[-Session] <PSSession[]>] [-ThrottleLimit <Int32>] [-HideComputerName] [-ScriptBlock] <ScriptBlock> [-ArgumentList <Object[]>]",
        ],
    ),
];

/// What stands for `{set}` and `{firmware}` above.
pub const SET: &str = "[-ProcessorCount <Int64>] [-DynamicMemory] [-StaticMemory] [-MemoryMinimumBytes <Int64>] [-MemoryMaximumBytes <Int64>] \
     [-MemoryStartupBytes <Int64>] [-AutomaticStartAction <StartAction>] [-AutomaticStopAction <StopAction>] [-AutomaticStartDelay <Int32>] \
     [-AutomaticCriticalErrorAction <CriticalErrorAction>] [-AutomaticCriticalErrorActionTimeout <Int32>] [-AutomaticCheckpointsEnabled <Boolean>] \
     [-LockOnDisconnect <OnOffState>] [-Notes <String>] [-NewVMName <String>] [-SnapshotFileLocation <String>] [-SmartPagingFilePath <String>] \
     [-CheckpointType <CheckpointType>] [-Passthru] [-AllowUnverifiedPaths]";

pub const FIRMWARE: &str = "[-BootOrder <VMComponentObject[]>] [-FirstBootDevice <VMComponentObject>] [-EnableSecureBoot <OnOffState>] \
     [-SecureBootTemplate <String>] [-SecureBootTemplateId <Guid>] [-PreferredNetworkBootProtocol <IPProtocolPreference>] \
     [-ConsoleMode <ConsoleModeType>] [-PauseAfterBootFailure <OnOffState>] [-Passthru]";

/// Names of enumerations and their members.
pub const ENUMS: &[(&str, &[&str])] = &[
    ("OnOffState", &["On", "Off"]),
    ("StartAction", &["Nothing", "StartIfRunning", "Start"]),
    ("StopAction", &["TurnOff", "Save", "ShutDown"]),
    ("CriticalErrorAction", &["None", "Pause"]),
    (
        "CheckpointType",
        &["Disabled", "Production", "ProductionOnly", "Standard"],
    ),
    ("ConsoleModeType", &["Default", "COM1", "COM2", "None"]),
    ("IPProtocolPreference", &["IPv4", "IPv6"]),
    (
        "BootDevice",
        &[
            "Floppy",
            "CD",
            "IDE",
            "LegacyNetworkAdapter",
            "NetworkAdapter",
            "VHD",
        ],
    ),
    (
        "VhdCompactMode",
        &["Full", "Quick", "Retrim", "Pretrimmed", "Prezeroed"],
    ),
    ("VhdType", &["Fixed", "Dynamic", "Differencing"]),
    ("ControllerType", &["IDE", "SCSI"]),
    (
        "SessionFilterState",
        &["All", "Opened", "Disconnected", "Closed", "Broken"],
    ),
];
