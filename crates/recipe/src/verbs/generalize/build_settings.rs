//! Registry settings that the bootstrap makes for the build; the last step of a plan reverts them.

use crate::RegistryKey;

/// A registry setting that `stage.cmd` makes so that nothing disturbs the build. No Windows medium
/// has it, and the last step of a plan removes it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSetting {
    pub key: RegistryKey,
    /// Name and data of a REG_DWORD; `None` if only the key is set.
    pub value: Option<(&'static str, u32)>,
    /// The reason, as a sentence for the batch file.
    pub why: &'static str,
}

const AU: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU");

/// Sources: Microsoft, "Network location wizard" (NewNetworkWindowOff), NetworkListManager.admx
/// (FirstNetwork; 1 is private), OOBE.admx, Microsoft-Windows-ServerManager-SvrMgrNc,
/// Reliability.admx, "Manage additional Windows Update settings"; Amazon EC2 user guide, "Set the
/// time for your Windows instance" (RealTimeIsUniversal).
pub const BUILD_SETTINGS: [BuildSetting; 8] = [
    BuildSetting {
        key: RegistryKey::from_static(
            r"HKLM\SYSTEM\CurrentControlSet\Control\Network\NewNetworkWindowOff",
        ),
        value: None,
        why: "No question whether the machine may be discovered.",
    },
    BuildSetting {
        key: RegistryKey::from_static(concat!(
            r"HKLM\SOFTWARE\Policies\Microsoft\Windows NT\CurrentVersion\NetworkList",
            r"\Signatures\FirstNetwork"
        )),
        value: Some(("Category", 1)),
        why: "The first network is private.",
    },
    BuildSetting {
        key: RegistryKey::from_static(r"HKLM\SOFTWARE\Policies\Microsoft\Windows\OOBE"),
        value: Some(("DisablePrivacyExperience", 1)),
        why: "No privacy page.",
    },
    BuildSetting {
        key: RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\ServerManager"),
        value: Some(("DoNotOpenServerManagerAtLogon", 1)),
        why: "No Server Manager at logon.",
    },
    BuildSetting {
        key: RegistryKey::from_static(r"HKLM\SOFTWARE\Policies\Microsoft\Windows NT\Reliability"),
        value: Some(("ShutdownReasonOn", 0)),
        why: "No question for the reason of a shutdown.",
    },
    BuildSetting {
        key: AU,
        value: Some(("NoAutoUpdate", 1)),
        why: "No updates of their own accord.",
    },
    BuildSetting {
        key: AU,
        value: Some(("NoAutoRebootWithLoggedOnUsers", 1)),
        why: "No restart for an update.",
    },
    BuildSetting {
        key: RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation"),
        value: Some(("RealTimeIsUniversal", 1)),
        why: "The build machine's hardware clock is UTC.",
    },
];
