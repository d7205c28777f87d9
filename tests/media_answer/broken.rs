// Included by tests/media_answer/lint.rs: changes to a good answer file for Server 2022, and every complaint that follows.
[
    // 1: ASCII, well-formed, namespace, identity
    Broken { from: "winimg: copy", to: "winimg: c\u{f6}py", says: &[
            "109:33 the answer file contains a non-ASCII character, U+00F6 [write it as &#246;] ^ö^",
        ], ..UEFI },
    Broken { from: "</Diagnostics>", to: "</Diagnostic>", says: &[
            "96:7 the answer file is not well-formed XML: expected 'Diagnostics' tag, not 'Diagnostic' ^<^",
        ], ..UEFI },
    Broken { from: "urn:schemas-microsoft-com:unattend", to: "urn:other", says: &[
            "2:2 the root of an answer file is <unattend> in the namespace urn:schemas-microsoft-com:unattend [write <unattend xmlns=\"urn:schemas-microsoft-com:unattend\">] ^unattend^",
        ], ..UEFI },
    Broken { from: "<settings pass=\"windowsPE\">", to: "<offlineImage/><settings pass=\"windowsPE\">", says: &[
            "3:4 <offlineImage> under <unattend> makes Setup reject the whole file (only <settings> and elements of other namespaces are allowed) ^offlineImage^",
        ], ..UEFI },
    Broken { from: " versionScope=\"nonSxS\"", to: "", says: &[
            "4:6 Microsoft-Windows-International-Core-WinPE has no versionScope=\"nonSxS\" ^component^",
        ], ..UEFI },
    Broken { from: "processorArchitecture=\"amd64\"", to: "processorArchitecture=\"x86\"", says: &[
            "4:6 Microsoft-Windows-International-Core-WinPE has processorArchitecture=\"x86\"; Setup looks for \"amd64\" ^component^",
        ], ..UEFI },
    Broken { from: "<Disk wcm:action=\"add\">", to: "<Disk>", says: &[
            "32:10 <Disk> has no wcm:action=\"add\" ^Disk^",
        ], ..UEFI },
    Broken { from: "wcm:keyValue=\"2\"", to: "wcm:keyValue=\"1\"", says: &[
            "18:10 two <PathAndCredentials> have the wcm:keyValue \"1\" (each needs its own) ^PathAndCredentials^",
        ], ..UEFI },
    // 2: passes and components
    Broken { from: "<settings pass=\"specialize\">", to: "<settings pass=\"specialise\">", says: &[
            "99:4 there is no pass \"specialise\" [did you mean \"specialize\"?] ^settings^",
        ], ..UEFI },
    Broken { from: "Microsoft-Windows-Security-SPP-UX", to: "Microsoft-Windows-Security-SPP", says: &[
            "117:6 Microsoft-Windows-Security-SPP has no settings in the specialize pass [it belongs in generalize] ^component^",
        ], ..UEFI },
    Broken { from: "Microsoft-Windows-Security-SPP-UX", to: "Microsoft-Windows-Security-SPPUX", says: &[
            "117:6 warning: winimg does not know the component \"Microsoft-Windows-Security-SPPUX\" (its settings are not checked) [did you mean \"Microsoft-Windows-Security-SPP-UX\"? Setup stops at an unknown component] ^component^",
        ], ..UEFI },
    // One of Microsoft's that the table lacks, and names that none of Microsoft's is like.
    Broken { from: "Microsoft-Windows-Security-SPP-UX", to: "Microsoft-Windows-TCPIP", says: &[
            "117:6 warning: winimg does not know the component \"Microsoft-Windows-TCPIP\" (its settings are not checked) ^component^",
        ], ..UEFI },
    Broken { from: "Microsoft-Windows-Security-SPP-UX", to: "Microsoft-Windows Security-SPP-UX", says: &[
            "117:6 there is no component \"Microsoft-Windows Security-SPP-UX\": Setup would stop there [did you mean \"Microsoft-Windows-Security-SPP-UX\"?] ^component^",
        ], ..UEFI },
    Broken { from: "Microsoft-Windows-Security-SPP-UX", to: "Microsoft-Windows--Security-SPP-UX", says: &[
            "117:6 there is no component \"Microsoft-Windows--Security-SPP-UX\": Setup would stop there [did you mean \"Microsoft-Windows-Security-SPP-UX\"?] ^component^",
        ], ..UEFI },
    Broken { from: "Microsoft-Windows-Security-SPP-UX", to: "Microsoft-Windows-ServerManager-SvrMgrNc", says: &[
            "117:6 Microsoft-Windows-ServerManager-SvrMgrNc appears twice in the specialize pass ^component^",
        ], ..UEFI },
    Broken { from: "<SkipAutoActivation>true", to: "<SkipAutoActivation>1", says: &[
            "118:27 SkipAutoActivation is true or false, not \"1\" ^1^",
        ], ..UEFI },
    Broken { from: "Microsoft-Windows-Security-SPP-UX", to: "Contoso-Something", says: &[
            "117:6 warning: winimg does not know the component \"Contoso-Something\" (its settings are not checked) ^component^",
        ], ..UEFI },
    Broken { from: "<settings pass=\"specialize\">", to: "<settings pass=\"specialize\"><Extra/>", says: &[
            "99:32 <Extra> where <component> belongs ^Extra^",
        ], ..UEFI },
    // 3: orders
    Broken { from: "<Order>2</Order>\n              <Type>MSR", to: "<Order>1</Order>\n              <Type>MSR", says: &[
            "42:22 two <CreatePartition> have the Order 1 ^1^",
        ], ..UEFI },
    Broken { from: "<Order>1</Order>\n          <Path>", to: "<Order>2</Order>\n          <Path>", says: &[
            "107:18 the Order 2 leaves a gap: 1 <RunSynchronousCommand> are numbered from 1 to 1 ^2^",
        ], ..UEFI },
    Broken { from: "<Order>1</Order>\n          <Path>", to: "<Path>", says: &[
            "106:10 <RunSynchronousCommand> has no <Order> ^RunSynchronousCommand^",
        ], ..UEFI },
    // 4: lengths
    Broken { from: "winimg: copy the bootstrap files", to: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", says: &[
            "109:24 Description has 260 characters; the limit is 259 ^aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa^",
        ], ..UEFI },
    // 5: product keys
    Broken { from: "<ProductKey>", to: "<ProductKey><Key></Key>", says: &[
            "86:22 an empty product key stops Windows Setup (remove the element) ^Key^",
        ], ..UEFI },
    Broken { from: "<ProductKey>", to: "<ProductKey><Key>WX4NM-KYWYW-QJJR4-XV3QB-6VM33</Key>", says: &[
            "86:26 evaluation media take no product key (remove the element) ^WX4NM-KYWYW-QJJR4-XV3QB-6VM33^",
        ], ..UEFI },
    Broken { from: "WX4NM-KYWYW-QJJR4-XV3QB-6VM33", to: "WX4NM-KYWYW-QJJR4-XV3QB", says: &[
            "87:16 a product key is five groups of five uppercase letters and digits, separated by dashes ^WX4NM-KYWYW-QJJR4-XV3QB^",
        ], ..VOLUME },
    // 6: partitions
    Broken { from: "<Extend>true</Extend>", to: "<Extend>true</Extend><Size>5</Size>", says: &[
            "49:42 partition 3 has both Size and Extend (remove one of them) ^5^",
        ], ..UEFI },
    Broken { from: "<Extend>true</Extend>", to: "<Size>50000</Size>", says: &[
            "46:14 no partition has Extend: the rest of the disk stays unused ^CreatePartition^",
        ], ..UEFI },
    Broken { from: "<Size>16</Size>", to: "<Extend>true</Extend>", says: &[
            "46:14 2 partitions have Extend; only one can ^CreatePartition^",
        ], ..UEFI },
    Broken { from: "<Size>16</Size>", to: "", says: &[
            "41:14 partition 2 has neither Size nor Extend ^CreatePartition^",
        ], ..UEFI },
    Broken { from: "<PartitionID>3</PartitionID>\n          </InstallTo>", to: "<PartitionID>2</PartitionID>\n          </InstallTo>", says: &[
            "79:26 InstallTo names partition 2, which is of Type MSR ^2^",
        ], ..UEFI },
    Broken { from: "<PartitionID>3</PartitionID>\n          </InstallTo>", to: "<PartitionID>4</PartitionID>\n          </InstallTo>", says: &[
            "79:26 InstallTo names partition 4, which is not created ^4^",
        ], ..UEFI },
    Broken { from: "<PartitionID>3</PartitionID>\n              <Format>", to: "<PartitionID>2</PartitionID>\n              <Format>", says: &[
            "62:23 an MSR partition cannot be modified ^NTFS^",
        ], ..UEFI },
    Broken { from: "<Format>NTFS</Format>", to: "", says: &[
            "63:22 a Label without a Format is refused ^Windows^",
        ], ..UEFI },
    Broken { from: "FAT32", to: "NTFS", says: &[
            "56:23 the EFI partition has to be FAT32 ^NTFS^",
        ], ..UEFI },
    Broken { from: "<InstallTo>\n            <DiskID>0", to: "<InstallTo>\n            <DiskID>1", says: &[
            "78:21 InstallTo names disk 1, which is not configured ^1^",
        ], ..UEFI },
    // 7: firmware
    Broken { from: "<Type>EFI</Type>", to: "<Type>Primary</Type>", says: &[
            "36:14 the machine has UEFI, and the layout has no EFI partition [add a partition of Type EFI with 260 MB, or set firmware = \"bios\"] ^CreatePartition^",
        ], ..UEFI },
    Broken { from: "<Format>NTFS</Format>", to: "<Format>NTFS</Format><Active>true</Active>", says: &[
            "62:44 Active is for BIOS; the machine has UEFI (remove it) ^true^",
        ], ..UEFI },
    Broken { from: "<Active>true</Active>", to: "", says: &[
            "36:14 the machine has a BIOS, and no partition is Active: it would not boot ^CreatePartition^",
        ], ..BIOS },
    Broken { from: "<Type>Primary</Type>", to: "<Type>MSR</Type>", says: &[
            "36:14 the machine has a BIOS, which cannot use a partition of Type MSR ^CreatePartition^",
            "46:23 an MSR partition cannot be modified ^true^",
            "64:26 InstallTo names partition 1, which is of Type MSR ^1^",
        ], ..BIOS },
    // 8: names
    Broken { from: "<ComputerName>*", to: "<ComputerName>WINDOWS-NODE-0001", says: &[
            "101:21 the ComputerName \"WINDOWS-NODE-0001\" has 17 characters; the limit is 15 ^WINDOWS-NODE-0001^",
        ], ..UEFI },
    Broken { from: "<ComputerName>*", to: "<ComputerName>12345", says: &[
            "101:21 the ComputerName \"12345\" has digits only, which Windows refuses ^12345^",
        ], ..UEFI },
    Broken { from: "<ComputerName>*", to: "<ComputerName>a_b", says: &[
            "101:21 the ComputerName \"a_b\" may contain only letters, digits and inner dashes ^a_b^",
        ], ..UEFI },
    Broken { from: "<OOBE>", to: "<OOBE><SkipMachineOOBE>true</SkipMachineOOBE>", says: &[
            "129:30 SkipMachineOOBE leaves Windows Setup unfinished (remove it) ^true^",
        ], ..UEFI },
    // 9: nobody is asked
    Broken { from: "<HideEULAPage>true</HideEULAPage>", to: "", says: &[
            "121:4 the oobeSystem pass has no OOBE/HideEULAPage: Windows waits at the licence page ^settings^",
        ], ..UEFI },
    Broken { from: "<HideLocalAccountScreen>true", to: "<HideLocalAccountScreen>false", says: &[
            "131:33 OOBE/HideLocalAccountScreen is not true: Windows waits for an Administrator password ^false^",
        ], ..UEFI },
    Broken { from: "<component name=\"Microsoft-Windows-International-Core\"", to: "<component name=\"Microsoft-Windows-WinRE-RecoveryAgent\"", says: &[
            "121:4 the oobeSystem pass has no Microsoft-Windows-International-Core: Windows waits at the region page ^settings^",
        ], ..UEFI },
    Broken { from: "<Value>VwBpAG4AaQBtAGcALQBCAHUAaQBsAGQALQAxACEAQQBkAG0AaQBuAGkAcwB0AHIAYQB0AG8AcgBQAGEAcwBzAHcAbwByAGQA</Value>", to: "", says: &[
            "121:4 the oobeSystem pass has no UserAccounts/AdministratorPassword/Value: Windows waits for an Administrator password ^settings^",
        ], ..UEFI },
    Broken { from: "VwBpAG4AaQBtAGcALQBCAHUAaQBsAGQALQAxACEAQQBkAG0AaQBuAGkAcwB0AHIAYQB0AG8AcgBQAGEAcwBzAHcAbwByAGQA", to: "", says: &[
            "139:12 UserAccounts/AdministratorPassword/Value is empty: Windows waits for an Administrator password ^Value^",
        ], ..UEFI },
    Broken { from: "<AcceptEula>true</AcceptEula>", to: "", says: &[
            "29:6 there is no UserData/AcceptEula: Setup waits for it ^component^",
        ], ..UEFI },
    Broken { from: "<UILanguage>en-US</UILanguage>\n      </SetupUILanguage>", to: "</SetupUILanguage>", says: &[
            "4:6 there is no SetupUILanguage/UILanguage: Setup shows its language page ^component^",
        ], ..UEFI },
    // 10: the medium
    Broken { from: "Windows Server 2022 SERVERDATACENTERCORE", to: "Windows Server 2022 SERVERDATACENTRECORE", says: &[
            "74:22 the medium has no image with /IMAGE/NAME \"Windows Server 2022 SERVERDATACENTRECORE\" [did you mean \"Windows Server 2022 SERVERDATACENTERCORE\"?] [available: Windows Server 2022 SERVERDATACENTERCORE, Windows Server 2022 SERVERDATACENTER] ^Windows Server 2022 SERVERDATACENTRECORE^",
        ], ..UEFI },
    Broken { from: "Windows Server 2022 SERVERDATACENTERCORE", to: "Windows Server 2022 Datacenter", says: &[
            "74:22 the medium has no image with /IMAGE/NAME \"Windows Server 2022 Datacenter\" [that is the name Setup displays; its /IMAGE/NAME is \"Windows Server 2022 SERVERDATACENTERCORE\"] [available: Windows Server 2022 SERVERDATACENTERCORE, Windows Server 2022 SERVERDATACENTER] ^Windows Server 2022 Datacenter^",
        ], ..UEFI },
    Broken { from: "<Path>E:\\drv", to: "<Path>E:\\viostor\\2k19\\amd64", says: &[
            "19:17 drivers for Windows Server 2019, but the image is Windows Server 2022: use the folder 2k22 ^E:\\viostor\\2k19\\amd64^",
        ], ..UEFI },
    Broken { from: "<UILanguage>en-US", to: "<UILanguage>de-DE", says: &[
            "6:21 the medium has no language \"de-DE\" [available: en-US] ^de-DE^",
        ], ..UEFI },
    // 12: AutoLogon
    Broken { from: "<OOBE>", to: "<AutoLogon><Enabled>true</Enabled><Username>Administrator</Username></AutoLogon><OOBE>", says: &[
            "129:8 AutoLogon without FirstLogonCommands has no purpose and leaves a secret in the image (remove it) ^AutoLogon^",
            "129:8 AutoLogon without LogonCount logs on after every restart ^AutoLogon^",
        ], ..UEFI },
]
