//! What a freshly applied Windows image holds: its hives, its directories and the program files of `System32`.
//!
//! A program file is a marker: `MZ`, then a line that names the stand-in's program. Nothing runs whose marker is gone
//! or overwritten, wherever it lies. Only facts about a plain Windows Server image are written; everything else has to
//! come from Setup or from the commands of a build.

use std::path::Path;

use super::program;
use super::regf::Key;
use super::registry::{self, dword_value, expand_sz, multi_sz, sz};

/// The facts of one image of install.wim that show in its registry.
#[derive(Clone, Debug)]
pub struct ImageFacts {
    /// e.g. `Windows Server 2022 Datacenter`, of evaluation media `Windows Server 2022 Datacenter Evaluation`
    pub product_name: String,
    /// e.g. `ServerDatacenter`
    pub edition_id: String,
    /// `Server` or `Server Core`
    pub installation_type: String,
    /// e.g. 20348
    pub build: u32,
    /// Revision of the build (UBR).
    pub revision: u32,
    /// e.g. `1809`, `21H2`
    pub release: String,
}

/// From here on `DisplayVersion` has the release's name, and `ReleaseId` stays at 2009 (seen by puppetlabs/facter#2439,
/// project-jedi/jcl#154).
const BUILD_20H2: u32 = 19042;

/// Name, type (1 kernel driver, 0x10 own process, 0x20 shared), start (0 boot, 2 auto, 3 demand), path, display name.
type Service = (&'static str, u32, u32, &'static str, &'static str);

/// OpenSSH's server, which waits for its first start. A feature on demand, and in the image since Server 2025 (Microsoft: Get
/// started with OpenSSH for Windows).
pub const SSHD: Service = (
    "sshd",
    0x10,
    3,
    r"%SystemRoot%\System32\OpenSSH\sshd.exe",
    "OpenSSH SSH Server",
);
pub const SSHD_SINCE: u32 = 26100;

/// The start of every program file of the stand-in; the program's name and a line feed follow.
pub const MARKER: &str = "MZ winimg stand-in program: ";

pub fn create_hives(c_root: &Path, facts: &ImageFacts) -> Result<(), String> {
    let config = c_root.join("Windows/System32/config");
    std::fs::create_dir_all(&config)
        .map_err(|e| format!("can't make {}: {e}", config.display()))?;
    registry::create(&system(facts), &config.join("SYSTEM"))?;
    registry::create(&software(facts), &config.join("SOFTWARE"))?;
    registry::create(&sam(), &config.join("SAM"))?;
    let mut security = Key::new("ROOT");
    security.make(&["Policy", "Accounts"]);
    registry::create(&security, &config.join("SECURITY"))?;
    let mut user = Key::new("ROOT");
    put(
        &mut user,
        &["Control Panel", "International"],
        "LocaleName",
        sz("en-US"),
    );
    user.make(&["Software", "Microsoft"]);
    put(
        &mut user,
        &["Environment"],
        "TEMP",
        expand_sz(r"%USERPROFILE%\AppData\Local\Temp"),
    );
    registry::create(&user, &config.join("DEFAULT"))?;
    // What a new user's own hive is copied from; `reg load` opens it.
    registry::create(&user, &c_root.join("Users/Default/NTUSER.DAT"))
}

/// The directories and program files of `C:\Windows`.
pub fn create_files(c_root: &Path, facts: &ImageFacts) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("can't lay out {}: {e}", c_root.display());
    for dir in [
        "Windows/System32/config",
        "Windows/System32/drivers/etc",
        "Windows/System32/DriverStore/FileRepository",
        "Windows/System32/Sysprep/Panther",
        "Windows/System32/Tasks",
        "Windows/System32/winevt/Logs",
        "Windows/System32/WindowsPowerShell/v1.0",
        "Windows/INF",
        "Windows/Installer",
        "Windows/Logs/DISM",
        "Windows/Panther",
        "Windows/Setup/State",
        "Windows/Temp",
        "Program Files/Common Files",
        "Program Files (x86)/Common Files",
        "ProgramData",
        "Users/Public",
        "Users/Default/AppData",
    ] {
        std::fs::create_dir_all(c_root.join(dir)).map_err(fault)?;
    }
    for (path, name) in program::files() {
        let path = c_root.join(path);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(fault)?;
        }
        std::fs::write(path, format!("{MARKER}{name}\r\n")).map_err(fault)?;
    }
    if facts.build >= SSHD_SINCE {
        let folder = c_root.join("Windows/System32/OpenSSH");
        std::fs::create_dir_all(&folder).map_err(fault)?;
        std::fs::write(folder.join("sshd.exe"), format!("{MARKER}service\r\n")).map_err(fault)?;
    }
    // Nothing starts them here; a Windows without them starts nowhere.
    for loader in ["winload.efi", "winload.exe"] {
        let path = c_root.join("Windows/System32").join(loader);
        std::fs::write(path, format!("{MARKER}{loader}\r\n")).map_err(fault)?;
    }
    std::fs::write(
        c_root.join("Windows/System32/drivers/etc/hosts"),
        "# localhost name resolution is handled within DNS itself.\r\n",
    )
    .map_err(fault)
}

fn put(root: &mut Key, path: &[&str], name: &str, (kind, data): (u32, Vec<u8>)) {
    root.make(path).set(name, kind, data);
}

fn system(facts: &ImageFacts) -> Key {
    let mut root = Key::new("ROOT");
    for (name, set) in [
        ("Current", 1),
        ("Default", 1),
        ("Failed", 0),
        ("LastKnownGood", 1),
    ] {
        put(&mut root, &["Select"], name, dword_value(set));
    }
    // As an applied image is found before its first boot: Setup itself runs next.
    for (name, data) in [
        ("CmdLine", sz(r"oobe\windeploy.exe")),
        ("SetupPhase", dword_value(4)),
        ("SetupSupported", dword_value(1)),
        ("SetupType", dword_value(2)),
        ("SystemSetupInProgress", dword_value(1)),
        ("OOBEInProgress", dword_value(0)),
    ] {
        put(&mut root, &["Setup"], name, data);
    }
    put(
        &mut root,
        &["Setup", "Status", "SysprepStatus"],
        "GeneralizationState",
        dword_value(7),
    );
    put(
        &mut root,
        &["Setup", "Status", "SysprepStatus"],
        "CleanupState",
        dword_value(2),
    );
    let control = ["ControlSet001", "Control"];
    let mut control =
        |below: &[&str], name: &str, data| put(&mut root, &[&control, below].concat(), name, data);
    control(
        &["ComputerName", "ComputerName"],
        "ComputerName",
        sz("WIN-STANDIN"),
    );
    control(
        &["ComputerName", "ActiveComputerName"],
        "ComputerName",
        sz("WIN-STANDIN"),
    );
    let environment = ["Session Manager", "Environment"];
    for (name, text) in ENVIRONMENT {
        let data = if text.contains('%') {
            expand_sz(text)
        } else {
            sz(text)
        };
        control(&environment, name, data);
    }
    control(&["ProductOptions"], "ProductType", sz("ServerNT"));
    control(
        &["TimeZoneInformation"],
        "TimeZoneKeyName",
        sz("Pacific Standard Time"),
    );
    control(&["TimeZoneInformation"], "Bias", dword_value(480));
    control(&["Windows"], "NoInteractiveServices", dword_value(1));
    control(&["Terminal Server"], "fDenyTSConnections", dword_value(1));
    control(&["FileSystem"], "LongPathsEnabled", dword_value(0));
    let sshd = (facts.build >= SSHD_SINCE).then_some(SSHD);
    for (name, kind, start, path, display) in SERVICES.into_iter().chain(sshd) {
        let key = root.make(&["ControlSet001", "Services", name]);
        let mut set = |value: &str, (kind, data): (u32, Vec<u8>)| key.set(value, kind, data);
        set("Type", dword_value(kind));
        set("Start", dword_value(start));
        set("ErrorControl", dword_value(1));
        set("ImagePath", expand_sz(path));
        set("DisplayName", sz(display));
        if kind & 0x30 != 0 {
            set("ObjectName", sz("LocalSystem"));
        }
    }
    put(
        &mut root,
        &["ControlSet001", "Services", "EventLog"],
        "DependOnService",
        multi_sz::<&str>(&[]),
    );
    let policy = [
        "ControlSet001",
        "Services",
        "SharedAccess",
        "Parameters",
        "FirewallPolicy",
    ];
    for profile in ["DomainProfile", "PublicProfile", "StandardProfile"] {
        put(
            &mut root,
            &[&policy[..], &[profile]].concat(),
            "EnableFirewall",
            dword_value(1),
        );
    }
    root.make(&[&policy[..], &["FirewallRules"]].concat());
    put(
        &mut root,
        &["ControlSet001", "Services", "Tcpip", "Parameters"],
        "Hostname",
        sz("WIN-STANDIN"),
    );
    root
}

const ENVIRONMENT: [(&str, &str); 11] = [
    ("ComSpec", r"%SystemRoot%\system32\cmd.exe"),
    ("DriverData", r"C:\Windows\System32\Drivers\DriverData"),
    ("OS", "Windows_NT"),
    (
        "Path",
        r"%SystemRoot%\system32;%SystemRoot%;%SystemRoot%\System32\Wbem;%SYSTEMROOT%\System32\WindowsPowerShell\v1.0\;%SYSTEMROOT%\System32\OpenSSH\",
    ),
    (
        "PATHEXT",
        ".COM;.EXE;.BAT;.CMD;.VBS;.VBE;.JS;.JSE;.WSF;.WSH;.MSC",
    ),
    ("PROCESSOR_ARCHITECTURE", "AMD64"),
    ("TEMP", r"%SystemRoot%\TEMP"),
    ("TMP", r"%SystemRoot%\TEMP"),
    ("USERNAME", "SYSTEM"),
    ("windir", "%SystemRoot%"),
    ("NUMBER_OF_PROCESSORS", "2"),
];

const SERVICES: [Service; 29] = [
    ("atapi", 1, 0, r"System32\drivers\atapi.sys", "IDE Channel"),
    (
        "BFE",
        0x20,
        2,
        r"%systemroot%\system32\svchost.exe -k LocalServiceNoNetworkFirewall -p",
        "Base Filtering Engine",
    ),
    (
        "Dhcp",
        0x20,
        2,
        r"%SystemRoot%\system32\svchost.exe -k LocalServiceNetworkRestricted -p",
        "DHCP Client",
    ),
    ("disk", 1, 0, r"System32\drivers\disk.sys", "Disk Driver"),
    (
        "Dnscache",
        0x20,
        2,
        r"%SystemRoot%\system32\svchost.exe -k NetworkService -p",
        "DNS Client",
    ),
    (
        "EventLog",
        0x20,
        2,
        r"%SystemRoot%\System32\svchost.exe -k LocalServiceNetworkRestricted -p",
        "Windows Event Log",
    ),
    (
        "mpssvc",
        0x20,
        2,
        r"%SystemRoot%\system32\svchost.exe -k LocalServiceNoNetworkFirewall -p",
        "Windows Defender Firewall",
    ),
    (
        "intelide",
        1,
        0,
        r"System32\drivers\intelide.sys",
        "intelide",
    ),
    ("LSI_SAS", 1, 0, r"System32\drivers\lsi_sas.sys", "LSI_SAS"),
    (
        "msiserver",
        0x10,
        3,
        r"%systemroot%\system32\msiexec.exe /V",
        "Windows Installer",
    ),
    (
        "nsi",
        0x20,
        2,
        r"%systemroot%\system32\svchost.exe -k LocalService -p",
        "Network Store Interface Service",
    ),
    (
        "ProfSvc",
        0x20,
        2,
        r"%systemroot%\system32\svchost.exe -k netsvcs -p",
        "User Profile Service",
    ),
    (
        "RpcSs",
        0x20,
        2,
        r"%SystemRoot%\system32\svchost.exe -k rpcss -p",
        "Remote Procedure Call (RPC)",
    ),
    (
        "Schedule",
        0x20,
        2,
        r"%systemroot%\system32\svchost.exe -k netsvcs -p",
        "Task Scheduler",
    ),
    (
        "SharedAccess",
        0x20,
        4,
        r"%SystemRoot%\System32\svchost.exe -k netsvcs -p",
        "Internet Connection Sharing (ICS)",
    ),
    (
        "storahci",
        1,
        0,
        r"System32\drivers\storahci.sys",
        "Microsoft Standard SATA AHCI Driver",
    ),
    (
        "stornvme",
        1,
        0,
        r"System32\drivers\stornvme.sys",
        "Microsoft Standard NVM Express Driver",
    ),
    ("storvsc", 1, 0, r"System32\drivers\storvsc.sys", "storvsc"),
    (
        "Tcpip",
        1,
        0,
        r"System32\drivers\tcpip.sys",
        "TCP/IP Protocol Driver",
    ),
    (
        "TrustedInstaller",
        0x10,
        3,
        r"%SystemRoot%\servicing\TrustedInstaller.exe",
        "Windows Modules Installer",
    ),
    (
        "vmbus",
        1,
        0,
        r"System32\drivers\vmbus.sys",
        "Virtual Machine Bus",
    ),
    (
        "vpci",
        1,
        0,
        r"System32\drivers\vpci.sys",
        "Microsoft Hyper-V Virtual PCI Bus",
    ),
    (
        "VSS",
        0x10,
        3,
        r"%systemroot%\system32\vssvc.exe",
        "Volume Shadow Copy",
    ),
    (
        "W32Time",
        0x20,
        3,
        r"%SystemRoot%\system32\svchost.exe -k LocalService",
        "Windows Time",
    ),
    (
        "WinDefend",
        0x10,
        2,
        r"%ProgramFiles%\Windows Defender\MsMpEng.exe",
        "Microsoft Defender Antivirus Service",
    ),
    (
        "Winmgmt",
        0x20,
        2,
        r"%systemroot%\system32\svchost.exe -k netsvcs -p",
        "Windows Management Instrumentation",
    ),
    (
        "WerSvc",
        0x20,
        3,
        r"%SystemRoot%\System32\svchost.exe -k WerSvcGroup",
        "Windows Error Reporting Service",
    ),
    (
        "WinRM",
        0x20,
        2,
        r"%SystemRoot%\System32\svchost.exe -k NetworkService -p",
        "Windows Remote Management (WS-Management)",
    ),
    (
        "wuauserv",
        0x20,
        3,
        r"%systemroot%\system32\svchost.exe -k netsvcs -p",
        "Windows Update",
    ),
];

fn software(facts: &ImageFacts) -> Key {
    let mut root = Key::new("ROOT");
    let build = facts.build.to_string();
    let version = ["Microsoft", "Windows NT", "CurrentVersion"];
    for (name, data) in [
        ("ProductName", sz(&facts.product_name)),
        ("EditionID", sz(&facts.edition_id)),
        ("InstallationType", sz(&facts.installation_type)),
        ("CurrentBuild", sz(&build)),
        ("CurrentBuildNumber", sz(&build)),
        ("CurrentMajorVersionNumber", dword_value(10)),
        ("CurrentMinorVersionNumber", dword_value(0)),
        ("CurrentVersion", sz("6.3")),
        ("UBR", dword_value(facts.revision)),
        ("SystemRoot", sz(r"C:\Windows")),
        ("PathName", sz(r"C:\Windows")),
        (
            "BuildLab",
            sz(&format!("{build}.fe_release.winimg-standin")),
        ),
    ] {
        put(&mut root, &version, name, data);
    }
    let id = if facts.build >= BUILD_20H2 {
        put(&mut root, &version, "DisplayVersion", sz(&facts.release));
        "2009"
    } else {
        &facts.release
    };
    put(&mut root, &version, "ReleaseId", sz(id));
    let current = ["Microsoft", "Windows", "CurrentVersion"];
    let mut set =
        |below: &[&str], name: &str, data| put(&mut root, &[&current, below].concat(), name, data);
    set(&[], "ProgramFilesDir", sz(r"C:\Program Files"));
    set(&[], "ProgramFilesDir (x86)", sz(r"C:\Program Files (x86)"));
    set(&[], "CommonFilesDir", sz(r"C:\Program Files\Common Files"));
    set(
        &["Setup", "State"],
        "ImageState",
        sz("IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE"),
    );
    root.make(&[&current[..], &["Component Based Servicing"]].concat());
    root.make(&[&current[..], &["Uninstall"]].concat());
    root.make(&[&current[..], &["RunOnce"]].concat());
    root.make(&["Classes"]);
    root.make(&["Policies", "Microsoft"]);
    root.make(&["WOW6432Node"]);
    let profiles = ["Microsoft", "Windows NT", "CurrentVersion", "ProfileList"];
    put(
        &mut root,
        &profiles,
        "ProfilesDirectory",
        expand_sz(r"%SystemDrive%\Users"),
    );
    put(
        &mut root,
        &profiles,
        "ProgramData",
        expand_sz(r"%SystemDrive%\ProgramData"),
    );
    root
}

/// The accounts as the stand-in keeps them: see `account.rs`.
fn sam() -> Key {
    let mut root = Key::new("ROOT");
    super::account::create(root.make(&["SAM"]));
    root
}
