//! What recipes expect: the same list of checks against a disk that holds all of it and one that holds none.

use std::path::Path;
use support::tree;

use winimg::verify::{VerifyReport, check};
use winimg_base::digest::Digest;
use winimg_base::event::Cancel;
use winimg_formats::disk::RawDisk;
use winimg_recipe::plan::check::{AccessRight, ServiceStartMode};
use winimg_recipe::plan::check::{
    AclCheck, AclEntry, ContainerImageManifest, DriverInf, FileDigest, FirewallCheck,
    FirewallScope, ImageCheck, ServiceCheck, StepChecks,
};
use winimg_recipe::{GuestPath, RegistryValueData as Data};

use support::windows_disk::*;

const SERVICES: &str = r"HKLM\SYSTEM\ControlSet001\Services";
const RULES: &str =
    r"HKLM\SYSTEM\ControlSet001\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules";
const TASK_TREE: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Schedule\TaskCache\Tree";
const PACKAGES: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\Packages";
const NT: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";
const CONTENT: &str =
    r"C:\ProgramData\containerd\root\io.containerd.content.v1.content\blobs\sha256";
const INF: &[u8] = b"[Version]\r\nDriverVer = 1\r\n";
const MANIFEST: &[u8] = b"{\"schemaVersion\":2}";

pub fn judged(disk: &WindowsDisk, expected: Option<&[StepChecks]>) -> VerifyReport {
    let dir = tree::folder();
    let file = dir.path().join("disk.raw");
    disk.write(&file);
    read(&file, expected)
}

pub fn read(file: &Path, expected: Option<&[StepChecks]>) -> VerifyReport {
    let disk = RawDisk::open(file).expect("the disk");
    check(&disk, expected, &[], &Cancel::default()).expect("a Windows volume")
}

pub fn rendered(report: &VerifyReport) -> String {
    let mut text = format!("{}\n", report.summarize());
    for finding in &report.findings {
        text += &format!("{finding}\n");
    }
    text
}

fn file_check(path: &str, bytes: &[u8]) -> ImageCheck {
    ImageCheck::File {
        path: path.parse().expect("a path"),
        content: FileDigest {
            size: bytes.len() as u64,
            sha256: Digest::sha256_of(bytes).hex(),
        },
    }
}

fn registry(key: &str, value: Option<&str>, data: Data) -> ImageCheck {
    ImageCheck::Registry {
        key: key.parse().expect("a key"),
        value: value.map(Into::into),
        data,
    }
}

fn firewall(name: &str, present: bool) -> ImageCheck {
    ImageCheck::Firewall(FirewallCheck {
        name: name.into(),
        present,
        inbound: true,
        allow: true,
        protocol: Some(6),
        ports: vec!["10250".into(), "30000-32767".into()],
        remote_ports: Vec::new(),
        scope: Some(FirewallScope::default()),
    })
}

/// A rule for some addresses, one program and two of the three profiles.
fn limited(name: &str) -> ImageCheck {
    ImageCheck::Firewall(FirewallCheck {
        name: name.into(),
        present: true,
        inbound: true,
        allow: true,
        protocol: Some(6),
        ports: vec!["443".into()],
        remote_ports: Vec::new(),
        scope: Some(FirewallScope {
            remote: vec!["LocalSubnet".into(), "10.0.0.0/8".into()],
            program: Some(r"C:\k\agent.exe".parse().expect("a path")),
            profiles: vec!["private".into(), "domain".into()],
            edge: false,
        }),
    })
}

/// As netsh has Windows write it.
const LIMITED: &str = concat!(
    "v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|Profile=Domain|Profile=Private|LPort=443|RA4=LocalSubnet|",
    r"RA6=LocalSubnet|RA4=10.0.0.0/255.0.0.0|App=C:\K\agent.exe|Name=agent|"
);

fn acl(path: &str, principals: &[(&str, AccessRight)]) -> ImageCheck {
    let entry = |(principal, right): &(&str, AccessRight)| AclEntry {
        principal: (*principal).into(),
        right: *right,
        deny: false,
    };
    ImageCheck::Acl(AclCheck {
        path: path.parse().expect("a path"),
        protected: true,
        owner: Some("Administrators".into()),
        entries: principals.iter().map(entry).collect(),
    })
}

fn user(name: &str, present: bool, disabled: bool) -> ImageCheck {
    ImageCheck::User {
        name: name.into(),
        present,
        disabled,
    }
}

fn group(name: &str, present: bool, members: &[&str]) -> ImageCheck {
    ImageCheck::Group {
        name: name.into(),
        present,
        members: members.iter().map(|m| (*m).into()).collect(),
    }
}

fn task(name: &str, present: bool) -> ImageCheck {
    ImageCheck::Task {
        name: name.into(),
        present,
    }
}

fn files() -> Vec<ImageCheck> {
    vec![
        file_check(r"C:\k\kubelet.exe", b"MZ the kubelet"),
        file_check(r"C:\k\gone.exe", b"MZ gone"),
        file_check(r"C:\k\folder", b"a file"),
        ImageCheck::Exists {
            path: GuestPath::from_static(r"c:\var\LOG\kubelet"),
        },
        ImageCheck::Missing {
            path: r"C:\k\notes.txt".parse().expect("a path"),
        },
        ImageCheck::PathFolder {
            folder: GuestPath::from_static(r"c:\k"),
        },
    ]
}

fn values() -> Vec<ImageCheck> {
    let key = r"HKLM\SOFTWARE\Example";
    vec![
        registry(key, Some("Tier"), Data::Sz("gold".into())),
        registry(key, Some("Number"), Data::Dword(7)),
        registry(
            key,
            Some("List"),
            Data::MultiSz(vec!["a".into(), "b".into()]),
        ),
        registry(key, Some("Bytes"), Data::Binary(vec![1, 2])),
        registry(key, None, Data::ExpandSz("%TEMP%".into())),
        registry(key, Some("Secret"), Data::Absent),
        registry(r"HKLM\SOFTWARE\Other", None, Data::Absent),
        registry(r"HKLM\SOFTWARE\Nowhere", Some("x"), Data::Qword(1)),
    ]
}

fn services() -> Vec<ImageCheck> {
    let service = |name: &str| ServiceCheck {
        name: name.into(),
        command_line: Some(r#"C:\k\kubelet.exe --config "C:\k k""#.into()),
        start: Some(ServiceStartMode::DelayedAuto),
        depends: vec!["containerd".into(), "Tcpip".into()],
        account: Some("LocalSystem".into()),
        restart_delays: vec![5000, 10000],
        may_fail: false,
    };
    vec![
        ImageCheck::Service(service("kubelet")),
        ImageCheck::Service(service("nowhere")),
    ]
}

fn stores() -> Vec<ImageCheck> {
    vec![
        firewall("kubelet", true),
        firewall("metrics", true),
        firewall("telnet", false),
        limited("agent"),
        task(r"\Example\clean", true),
        task(r"\Example\old", false),
        ImageCheck::Driver {
            driver: DriverInf {
                inf: "vioscsi.inf".into(),
                sha256: Digest::sha256_of(INF).hex(),
            },
        },
        ImageCheck::Driver {
            driver: DriverInf {
                inf: "netkvm.inf".into(),
                sha256: Digest::sha256_of(INF).hex(),
            },
        },
        ImageCheck::Update {
            kb: "KB5012637".into(),
        },
        ImageCheck::Update {
            kb: "KB5012000".into(),
        },
        ImageCheck::Windows {
            build: 20348,
            revision: 681,
        },
        ImageCheck::ContainerImage {
            image: ContainerImageManifest {
                reference: "registry.k8s.io/pause:3.10.2".into(),
                digest: Digest::sha256_of(MANIFEST).to_string(),
            },
            root: r"C:\ProgramData\containerd\root".parse().expect("a path"),
        },
    ]
}

fn accounts() -> Vec<ImageCheck> {
    vec![
        user("capi", true, false),
        user("Guest", true, true),
        user("build", false, false),
        group("Administrators", true, &["capi", "SYSTEM"]),
        group("WireServerAccess", true, &["capi"]),
        group("Old", false, &[]),
        group("Nobody", true, &[]),
        acl(
            r"C:\etc\kubernetes",
            &[
                ("SYSTEM", AccessRight::Full),
                ("capi", AccessRight::ReadExecute),
            ],
        ),
        acl(r"C:\k\kubelet.exe", &[("S-1-5-18", AccessRight::Modify)]),
    ]
}

/// Of every kind.
fn expected() -> Vec<StepChecks> {
    let step = |name: &str, line: u32, checks| StepChecks {
        step: name.into(),
        place: format!("recipe.toml:{line}:1"),
        checks,
    };
    vec![
        step("files", 10, files()),
        step("values", 20, values()),
        step("services", 30, services()),
        step("stores", 40, stores()),
        step("accounts", 50, accounts()),
    ]
}

/// Nobody says whether a feature is on but Windows.
fn for_windows() -> Vec<StepChecks> {
    vec![StepChecks {
        step: "container host".into(),
        place: "recipe.toml:5:1".into(),
        checks: vec![
            ImageCheck::Feature {
                name: "Containers".into(),
                enabled: true,
            },
            ImageCheck::Capability {
                name: "OpenSSH.Server~~~~0.0.1.0".into(),
                present: true,
            },
        ],
    }]
}

/// Self-relative, protected, owned by Administrators; each entry a flag byte, a mask and a SID.
fn descriptor(entries: &[(u8, u32, Vec<u8>)]) -> Vec<u8> {
    let owner = sid(&[32, 544]);
    let aces: Vec<u8> = entries
        .iter()
        .flat_map(|(flags, mask, sid)| {
            let len = (8 + sid.len()) as u16;
            let mut ace = vec![0, *flags];
            ace.extend(len.to_le_bytes());
            ace.extend(mask.to_le_bytes());
            ace.extend(sid);
            ace
        })
        .collect();
    let mut bytes = vec![1, 0, 0x04, 0x94];
    bytes.extend(20u32.to_le_bytes());
    bytes.extend((20 + owner.len() as u32).to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend((20 + 2 * owner.len() as u32).to_le_bytes());
    bytes.extend(owner.iter().chain(&owner));
    bytes.extend([2, 0]);
    bytes.extend((8 + aces.len() as u16).to_le_bytes());
    bytes.extend((entries.len() as u16).to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(aces);
    bytes
}

/// `S-1-5-…` as bytes.
fn sid(parts: &[u32]) -> Vec<u8> {
    let mut bytes = vec![1, parts.len() as u8, 0, 0, 0, 0, 0, 5];
    bytes.extend(parts.iter().flat_map(|p| p.to_le_bytes()));
    bytes
}

fn package(disk: &mut WindowsDisk, name: &str, state: u32) {
    let key = format!(r"{PACKAGES}\{name}");
    disk.value(&key, "CurrentState", REG_DWORD, &dword(state));
}

/// Everything that `expected` asks for.
fn furnished() -> WindowsDisk {
    let mut disk = WindowsDisk::sound();
    disk.file(r"C:\k\kubelet.exe", b"MZ the kubelet");
    disk.file(r"C:\k\gone.exe", b"MZ gone");
    disk.file(r"C:\k\folder", b"a file");
    disk.folder(r"C:\var\log\kubelet");
    let key = r"HKLM\SOFTWARE\Example";
    disk.value(key, "tier", REG_SZ, &sz("gold"));
    disk.value(key, "Number", REG_DWORD, &dword(7));
    disk.value(key, "List", REG_MULTI_SZ, &multi_sz(&["a", "b"]));
    disk.value(key, "Bytes", REG_BINARY, &[1, 2]);
    disk.value(key, "", REG_EXPAND_SZ, &sz("%TEMP%"));
    disk.value(r"HKLM\SOFTWARE\Nowhere", "x", 11, &1u64.to_le_bytes());
    for name in ["kubelet", "nowhere"] {
        let key = format!(r"{SERVICES}\{name}");
        let line = sz(r#"C:\k\kubelet.exe --config "C:\k k""#);
        disk.value(&key, "ImagePath", REG_EXPAND_SZ, &line);
        disk.value(&key, "Start", REG_DWORD, &dword(2));
        disk.value(&key, "DelayedAutostart", REG_DWORD, &dword(1));
        let depends = multi_sz(&["Tcpip", "containerd"]);
        disk.value(&key, "DependOnService", REG_MULTI_SZ, &depends);
        disk.value(&key, "ObjectName", REG_SZ, &sz("localSystem"));
        let actions = [86400, 0, 0, 2, 20, 1, 5000, 1, 10000u32].map(u32::to_le_bytes);
        disk.value(&key, "FailureActions", REG_BINARY, &actions.concat());
    }
    let rule = "v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=10250|LPort2_10=30000-32767|Name=Kubelet|";
    disk.value(RULES, "{1}", REG_SZ, &sz(rule));
    let rule = rule.replace("Kubelet", "metrics");
    disk.value(RULES, "{2}", REG_SZ, &sz(&rule));
    disk.value(RULES, "{4}", REG_SZ, &sz(LIMITED));
    disk.file(r"C:\Windows\System32\Tasks\Example\clean", b"<Task/>");
    disk.key(&format!(r"{TASK_TREE}\Example\clean"));
    let store = r"C:\Windows\System32\DriverStore\FileRepository";
    disk.file(
        &format!(r"{store}\vioscsi.inf_amd64_0011223344556677\vioscsi.inf"),
        INF,
    );
    disk.file(
        &format!(r"{store}\netkvm.inf_amd64_8899aabbccddeeff\netkvm.inf"),
        b"[Version]\r\nDriverVer = 0\r\n",
    );
    disk.file(
        &format!(r"{store}\netkvm.inf_amd64_0011223344556677\netkvm.inf"),
        INF,
    );
    package(
        &mut disk,
        "Package_for_KB5012637~31bf3856ad364e35~amd64~~10.0.1.0",
        112,
    );
    package(
        &mut disk,
        "Package_for_RollupFix~31bf3856ad364e35~amd64~~20348.681.1.3",
        112,
    );
    let rollup = format!(r"{PACKAGES}\Package_for_RollupFix~31bf3856ad364e35~amd64~~20348.681.1.3");
    let location = sz(r"\\?\C:\winimg\Windows10.0-KB5012000-x64.cab\");
    disk.value(&rollup, "InstallLocation", REG_SZ, &location);
    disk.value(NT, "CurrentBuildNumber", REG_SZ, &sz("20348"));
    disk.value(NT, "UBR", REG_DWORD, &dword(2322));
    let blob = Digest::sha256_of(MANIFEST).hex();
    disk.file(&format!(r"{CONTENT}\{blob}"), MANIFEST);
    disk.user("capi", 1000, false);
    disk.user("Guest", 501, true);
    let capi = sid(&[21, 1, 2, 3, 1000]);
    let members = [capi.clone(), sid(&[18])];
    disk.group(SAM_BUILTIN, "Administrators", 544, &members);
    disk.group(SAM_ACCOUNT, "WireServerAccess", 1001, &members[..1]);
    disk.group(SAM_ACCOUNT, "Nobody", 1002, &[]);
    disk.folder(r"C:\etc\kubernetes");
    let full = (3, 0x001f_01ff, sid(&[18]));
    let read = (3, 0x0012_00a9, capi);
    // Inherited entries are no matter of the step's.
    let above = (0x13, 0x0012_0089, sid(&[32, 545]));
    disk.access(r"C:\etc\kubernetes", &descriptor(&[read, full, above]));
    let modify = (0, 0x0013_01bf, sid(&[18]));
    disk.access(r"C:\k\kubelet.exe", &descriptor(&[modify]));
    disk
}

#[test]
fn a_disk_with_everything_holds() {
    if !can_make() {
        return;
    }
    let mut all = expected();
    all.extend(for_windows());
    insta::assert_snapshot!("holds", rendered(&judged(&furnished(), Some(&all))));
}

#[test]
fn a_disk_with_nothing_lacks_each_thing_by_name() {
    if !can_make() {
        return;
    }
    let mut disk = WindowsDisk::sound();
    let path = r"HKLM\SYSTEM\ControlSet001\Control\Session Manager\Environment";
    disk.value(path, "Path", REG_EXPAND_SZ, &sz("C:\\Windows;C:\\kk"));
    insta::assert_snapshot!("lacks", rendered(&judged(&disk, Some(&expected()))));
}

/// All that is there is there otherwise.
fn altered() -> WindowsDisk {
    let mut disk = furnished();
    disk.file(r"C:\k\kubelet.exe", b"MZ the Kubelet");
    disk.no_file(r"C:\k\folder");
    disk.folder(r"C:\k\folder");
    disk.file(r"C:\k\notes.txt", b"x");
    let path = r"HKLM\SYSTEM\ControlSet001\Control\Session Manager\Environment";
    disk.value(path, "Path", REG_SZ, &sz(r"C:\k"));
    let key = r"HKLM\SOFTWARE\Example";
    disk.value(key, "tier", REG_EXPAND_SZ, &sz("gold"));
    disk.value(key, "Number", REG_DWORD, &dword(8));
    disk.value(key, "List", REG_MULTI_SZ, &multi_sz(&["b", "a"]));
    disk.value(key, "Bytes", REG_BINARY, &[1]);
    disk.value(key, "", REG_SZ, &sz("%TEMP%"));
    disk.value(key, "Secret", REG_SZ, &sz("x"));
    disk.key(r"HKLM\SOFTWARE\Other");
    disk.value(r"HKLM\SOFTWARE\Nowhere", "x", 11, &[1]);
    let service = format!(r"{SERVICES}\kubelet");
    let line = sz(r#""C:\k\kubelet.exe" --config "C:\k k""#);
    disk.value(&service, "ImagePath", REG_EXPAND_SZ, &line);
    disk.value(&service, "DelayedAutostart", REG_DWORD, &dword(0));
    disk.value(&service, "DependOnService", REG_MULTI_SZ, &multi_sz(&["x"]));
    disk.value(
        &service,
        "ObjectName",
        REG_SZ,
        &sz(r"NT AUTHORITY\LocalService"),
    );
    let actions = [86400, 0, 0, 1, 20, 1, 5u32].map(u32::to_le_bytes);
    disk.value(&service, "FailureActions", REG_BINARY, &actions.concat());
    disk.value(
        &format!(r"{SERVICES}\nowhere"),
        "Start",
        REG_DWORD,
        &dword(4),
    );
    let rule = "v2.31|Action=Allow|Active=FALSE|Dir=In|Protocol=6|LPort=10250|LPort2_10=30000-32767|Name=kubelet|";
    disk.value(RULES, "{1}", REG_SZ, &sz(rule));
    let rule = "v2.31|Action=Block|Active=TRUE|Dir=Out|Protocol=17|RPort=53|Name=metrics|";
    disk.value(RULES, "{2}", REG_SZ, &sz(rule));
    disk.value(RULES, "{3}", REG_SZ, &sz("v2.31|Name=Telnet|"));
    let open = LIMITED.replace("RA4=10.0.0.0/255.0.0.0|", "RA4=0.0.0.0/0.0.0.0|");
    disk.value(RULES, "{4}", REG_SZ, &sz(&open));
    disk.no_file(r"C:\Windows\System32\Tasks\Example\clean");
    disk.file(r"C:\Windows\System32\Tasks\Example\old", b"<Task/>");
    let store = r"C:\Windows\System32\DriverStore\FileRepository";
    disk.file(
        &format!(r"{store}\netkvm.inf_amd64_0011223344556677\netkvm.inf"),
        b"x",
    );
    package(
        &mut disk,
        "Package_for_KB5012637~31bf3856ad364e35~amd64~~10.0.1.0",
        96,
    );
    let rollup = format!(r"{PACKAGES}\Package_for_RollupFix~31bf3856ad364e35~amd64~~20348.681.1.3");
    disk.value(&rollup, "InstallLocation", REG_SZ, &sz("elsewhere"));
    disk.value(NT, "UBR", REG_DWORD, &dword(587));
    let blob = Digest::sha256_of(MANIFEST).hex();
    disk.file(&format!(r"{CONTENT}\{blob}"), b"{}");
    disk.user("capi", 1000, true);
    disk.user("Guest", 501, false);
    disk.user("build", 1003, false);
    disk.group(SAM_BUILTIN, "Administrators", 544, &[sid(&[18])]);
    disk.group(SAM_ACCOUNT, "WireServerAccess", 1001, &[]);
    disk.group(SAM_ACCOUNT, "Old", 1004, &[]);
    let open = (3, 0x001f_01ff, sid(&[32, 545]));
    disk.access(r"C:\etc\kubernetes", &descriptor(&[open]));
    let mut inherits = descriptor(&[(0, 0x0013_01bf, sid(&[18]))]);
    inherits[3] = 0x84;
    disk.access(r"C:\k\kubelet.exe", &inherits);
    disk
}

#[test]
fn a_disk_with_other_things_is_reported_what_differs() {
    if !can_make() {
        return;
    }
    insta::assert_snapshot!("differs", rendered(&judged(&altered(), Some(&expected()))));
}

/// Each rule but the first differs in one limit; before they were looked at, every one of them passed.
#[test]
fn addresses_program_and_profiles_of_a_firewall_rule_are_looked_at() {
    if !can_make() {
        return;
    }
    let mut disk = WindowsDisk::sound();
    let mut checks = Vec::new();
    let rules = [
        ("the same", "", ""),
        ("everybody", "RA4=10.0.0.0/255.0.0.0|", ""),
        (
            "another network",
            "10.0.0.0/255.0.0.0",
            "11.0.0.0/255.0.0.0",
        ),
        ("a wider network", "255.0.0.0", "254.0.0.0"),
        (
            "an address of its own",
            "LPort=443|",
            "LPort=443|LA4=10.0.0.5|",
        ),
        ("another program", "agent.exe", "other.exe"),
        ("any program", r"App=C:\K\agent.exe|", ""),
        ("a service alone", "Name=", "Svc=Dnscache|Name="),
        ("one profile", "Profile=Private|", ""),
        ("all profiles", "Profile=Domain|Profile=Private|", ""),
        ("through routers", "Name=", "Edge=TRUE|Name="),
    ];
    for (name, from, to) in rules {
        let text = LIMITED
            .replace(from, to)
            .replace("Name=agent", &format!("Name={name}"));
        disk.value(RULES, &format!("{{{name}}}"), REG_SZ, &sz(&text));
        checks.push(limited(name));
    }
    // As a manifest of before has it: nobody said whom the rule is for.
    let ImageCheck::Firewall(mut old) = limited("everybody") else {
        unreachable!("a firewall rule");
    };
    old.scope = None;
    checks.push(ImageCheck::Firewall(old));
    let expected = StepChecks {
        step: "site".into(),
        place: "recipe.toml:7:1".into(),
        checks,
    };
    insta::assert_snapshot!(
        "firewall_limits",
        rendered(&judged(&disk, Some(&[expected])))
    );
}
