use super::guest::Guest;
use crate::windows::{Data, Power};

/// Lines and the exit codes they have, in order on one machine.
pub fn codes(guest: &Guest, table: &[(&str, u32)]) {
    for (line, code) in table {
        let (got, output) = guest.run(line);
        assert_eq!(got, *code, "{line}: {output}");
    }
}

fn driver(guest: &Guest, dir: &str, name: &str, device: &str) {
    let inf = format!(
        "; a driver\r\n[Version]\r\nSignature=\"$WINDOWS NT$\"\r\nClass=System\r\nProvider=%VENDOR%\r\nCatalogFile={name}.cat\r\nDriverVer=01/02/2023,1.2.3.4\r\n\r\n[Manufacturer]\r\n%VENDOR%=Models,NTamd64\r\n\r\n[Models.NTamd64]\r\n%DESC%={name}_Device, PCI\\{device}\r\n\r\n[{name}_Device.NT.Services]\r\nAddService={name}, 2, {name}_Service\r\n\r\n[{name}_Service]\r\nServiceType=1\r\nStartType=3\r\nErrorControl=1\r\nServiceBinary=%12%\\{name}.sys\r\n\r\n[SourceDisksFiles]\r\n{name}.sys=1\r\n\r\n[Strings]\r\nVENDOR=\"Example\"\r\nDESC=\"A device\"\r\n"
    );
    guest.put(&format!(r"{dir}\{name}.inf"), inf.as_bytes());
    guest.put(&format!(r"{dir}\{name}.sys"), b"MZ driver");
    guest.put(&format!(r"{dir}\{name}.cat"), b"catalog");
}

#[test]
fn drivers_are_staged_and_installed() {
    let guest = Guest::new();
    driver(&guest, r"D:\drivers\a", "vioser", "VEN_1AF4&DEV_1003");
    driver(&guest, r"D:\drivers\b", "viostor", "VEN_1AF4&DEV_1001");
    let all = r"pnputil /add-driver D:\drivers\*.inf /subdirs /install";
    assert_eq!(guest.run(all).0, 259);
    let store: Vec<String> =
        std::fs::read_dir(guest.host(r"C:\Windows\System32\DriverStore\FileRepository"))
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .file_name()
                    .into_string()
                    .unwrap()
                    .split("_amd64_")
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
    assert!(
        store.contains(&"vioser.inf".into()) && store.contains(&"viostor.inf".into()),
        "{store:?}"
    );
    assert!(
        guest.host(r"C:\Windows\INF\oem0.inf").exists()
            && guest.host(r"C:\Windows\INF\oem1.inf").exists()
    );
    guest
        .windows
        .set_devices(vec![r"PCI\VEN_1AF4&DEV_1003&SUBSYS_00031AF4&REV_00".into()]);
    assert_eq!(guest.run(all).0, 0);
    assert_eq!(
        guest.get(r"C:\Windows\System32\drivers\vioser.sys"),
        b"MZ driver"
    );
    let service = r"HKLM\SYSTEM\CurrentControlSet\Services\vioser";
    assert_eq!(
        guest.windows.value(service, "ImagePath"),
        Some(Data::Expand(
            r"\SystemRoot\System32\drivers\vioser.sys".into()
        ))
    );
    assert!(
        guest
            .run("pnputil /enum-drivers")
            .1
            .contains("Original Name:      vioser.inf\nProvider Name:      Example\n")
    );
    codes(
        &guest,
        &[
            ("pnputil /delete-driver oem0.inf", 0xE000_023D),
            ("pnputil /delete-driver oem0.inf /force", 0),
            ("pnputil /delete-driver oem0.inf", 2),
        ],
    );
    driver(&guest, r"D:\c", "nocat", "VEN_1");
    driver(&guest, r"D:\d", "nosys", "VEN_2");
    std::fs::remove_file(guest.host(r"D:\c\nocat.cat")).unwrap();
    std::fs::remove_file(guest.host(r"D:\d\nosys.sys")).unwrap();
    guest.put(r"D:\e\text.inf", b"hello");
    codes(
        &guest,
        &[
            (r"pnputil /add-driver D:\c\nocat.inf", 2),
            (r"pnputil /add-driver D:\d\nosys.inf", 2),
            (r"pnputil /add-driver D:\e\text.inf", 0xE000_0101),
            (r"pnputil /add-driver D:\nope\*.inf", 2),
            (r"pnputil /add-driver D:\drivers\b\viostor.inf", 0),
            (r"pnputil -i -a D:\x.inf", 87),
        ],
    );
}

#[test]
fn features_wait_for_a_reboot() {
    let mut guest = Guest::new();
    let enable = "dism /online /enable-feature /featurename:Containers /all /norestart /quiet";
    codes(&guest, &[(enable, 3010), (enable, 3010)]);
    assert!(
        guest
            .run("dism /online /get-featureinfo /featurename:containers")
            .1
            .contains("State : Enable Pending\n")
    );
    codes(
        &guest,
        &[
            (
                "dism /online /enable-feature /featurename:Nope /norestart",
                0x800f_080c,
            ),
            (
                "dism /online /enable-feature /featurename:TelnetClient /norestart",
                0,
            ),
            (
                "dism /online /enable-feature /featurename:IIS-WebServer /norestart",
                0x800f_0922,
            ),
            ("dism /online /bogus", 87),
            (
                "dism /online /cleanup-image /startcomponentcleanup /resetbase",
                0x800f_0806,
            ),
            (r"dism /image:C:\x /get-features", 87),
            (r"sysprep.exe /generalize /oobe /quit /quiet", 2),
        ],
    );
    guest.reboot();
    assert!(
        guest
            .run("dism /online /get-featureinfo /featurename:Containers")
            .1
            .contains("State : Enabled\n")
    );
    assert_eq!(guest.run(enable).0, 0);
    assert_eq!(
        guest
            .run("dism /online /cleanup-image /startcomponentcleanup /resetbase")
            .0,
        0
    );
}

const ANSWERS: &str = r#"<?xml version="1.0"?><unattend xmlns="urn:schemas-microsoft-com:unattend"><settings pass="PASS"><component name="Microsoft-Windows-Shell-Setup" processorArchitecture="amd64" publicKeyToken="31bf3856ad364e35" language="neutral" versionScope="nonSxS"/></settings></unattend>"#;
const SYSPREP: &str = r"C:\Windows\System32\Sysprep\sysprep.exe";

#[test]
fn sysprep_seals_a_finished_machine() {
    let guest = Guest::new();
    guest.put(
        r"C:\winimg\seal.xml",
        ANSWERS.replace("PASS", "oobeSystem").as_bytes(),
    );
    assert_eq!(
        guest.run(&format!(
            r"{SYSPREP} /generalize /oobe /quit /quiet /mode:vm /unattend:C:\winimg\seal.xml"
        )),
        (0, String::new())
    );
    assert_eq!(
        guest.windows.image_state().as_deref(),
        Some("IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE")
    );
    assert_eq!(
        guest.text(r"C:\Windows\Setup\State\State.ini"),
        "[State]\nImageState=IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE\n"
    );
    assert!(
        guest
            .host(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag")
            .exists()
    );
    assert_eq!(
        guest.text(r"C:\Windows\Panther\unattend.xml"),
        ANSWERS.replace("PASS", "oobeSystem")
    );
    assert_eq!(
        guest.get(r"C:\Windows\System32\Sysprep\Panther\setuperr.log"),
        b""
    );
    let value = |key: &str, name: &str| guest.windows.value(key, name);
    assert_eq!(
        value(r"HKLM\SYSTEM\Setup", "SetupType"),
        Some(Data::Dword(2))
    );
    assert_eq!(
        value(r"HKLM\SYSTEM\Setup", "CmdLine"),
        Some(Data::Text(r"oobe\windeploy.exe".into()))
    );
    assert_eq!(
        value(
            r"HKLM\SYSTEM\Setup\Status\SysprepStatus",
            "GeneralizationState"
        ),
        Some(Data::Dword(3))
    );
    for (key, name, number) in [
        (r"HKLM\SYSTEM\Setup\Status\SysprepStatus", "CleanupState", 2),
        (r"HKLM\SYSTEM\Setup", "SystemSetupInProgress", 1),
        (r"HKLM\SYSTEM\Setup", "OOBEInProgress", 1),
    ] {
        assert_eq!(value(key, name), Some(Data::Dword(number)), "{name}");
    }
    // A sealed machine can't be sealed again.
    assert_eq!(
        guest
            .run(&format!("{SYSPREP} /generalize /oobe /shutdown /quiet"))
            .0,
        1
    );
    assert_eq!(guest.power(), None);
}

#[test]
fn sysprep_refuses() {
    let guest = Guest::new();
    guest.put(
        r"C:\bad.xml",
        ANSWERS.replace("PASS", "specialise").as_bytes(),
    );
    guest.put(r"C:\broken.xml", b"<unattend>");
    let unparsed = (0, "Unable to parse command-line arguments\n".to_owned());
    assert_eq!(
        guest.run(&format!(
            r#"{SYSPREP} /generalize /oobe /quit /quiet "/unattend:C:\a b.xml""#
        )),
        unparsed
    );
    assert_eq!(
        guest.run(&format!("{SYSPREP} /generalize /quiet")),
        unparsed
    );
    for name in [r"C:\bad.xml", r"C:\broken.xml", r"C:\nope.xml"] {
        assert_eq!(
            guest
                .run(&format!(
                    "{SYSPREP} /generalize /oobe /quit /quiet /unattend:{name}"
                ))
                .0,
            1,
            "{name}"
        );
    }
    guest.windows.set_value(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending", "", Data::Dword(1)).unwrap();
    assert_eq!(
        guest
            .run(&format!("{SYSPREP} /generalize /oobe /quit /quiet"))
            .0,
        1
    );
    assert_eq!(
        guest.windows.image_state().as_deref(),
        Some("IMAGE_STATE_COMPLETE")
    );
    assert!(
        !guest
            .host(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag")
            .exists()
    );
    assert!(
        guest
            .text(r"C:\Windows\System32\Sysprep\Panther\setuperr.log")
            .contains("pass [specialise]")
    );
}

#[test]
fn sysprep_can_end_in_a_shutdown() {
    let guest = Guest::new();
    assert_eq!(
        guest
            .run(&format!("{SYSPREP} /generalize /oobe /shutdown /quiet"))
            .0,
        0
    );
    assert_eq!(guest.power(), Some(Power::Shutdown));
}

/// Files of a CD are read-only, and so are their copies until something clears that.
#[test]
fn copies_of_a_cds_files_are_read_only() {
    let guest = Guest::new();
    guest.put(r"D:\p\a.txt", b"a");
    codes(
        &guest,
        &[
            (r"cmd /c copy /b /y D:\p\a.txt C:\a.txt", 0),
            (r"cmd /c copy /b /y D:\p\a.txt C:\a.txt", 1),
            (r"cmd /c echo x>C:\a.txt", 1),
            (r"cmd /c del /q C:\a.txt", 1),
            (r"attrib -r C:\a.txt", 0),
            (r"cmd /c echo x>C:\a.txt", 0),
            (r"xcopy D:\p C:\x /e /i /q /y", 0),
            (r"cmd /c echo x>C:\x\a.txt", 0),
            (r"xcopy D:\p C:\k /e /i /q /y /k", 0),
            (r"xcopy D:\p C:\k /e /i /q /y", 4),
            (r"xcopy D:\p C:\k /e /i /q /y /r", 0),
            (r"robocopy D:\p C:\r /E", 1),
            (r"cmd /c echo x>C:\r\a.txt", 1),
            (
                r"robocopy D:\p C:\w /E /A-:R /R:0 /W:0 /NP /NJH /NJS /NFL /NDL",
                1,
            ),
            (r"cmd /c echo x>C:\w\a.txt", 0),
            (r"cmd /c rd /s /q C:\r", 0),
        ],
    );
}

#[test]
fn acls_are_judged_and_kept() {
    let guest = Guest::new();
    guest.put(r"C:\k\kubeconfig", b"x");
    codes(
        &guest,
        &[
            (
                r#"icacls C:\k /inheritance:r /grant:r "NT AUTHORITY\SYSTEM:(OI)(CI)F" *S-1-5-32-544:(OI)(CI)F /T /C /Q"#,
                0,
            ),
            (r"icacls C:\k /setowner Administrators", 0),
            (r"icacls C:\nope /grant Users:R", 2),
            (r"icacls C:\k /grant Nobody:R", 1332),
            (r"icacls C:\k /grant Users:Q", 87),
            (r"icacls C:\k /bogus", 87),
            (r"icacls D:\ /grant Users:R", 5),
            (r"takeown /f C:\k /r /d y", 0),
        ],
    );
    let record = |path: &str| {
        guest
            .windows
            .value(r"HKLM\SOFTWARE\winimg-standin\Acl", path)
    };
    let sddl = "O:S-1-5-18D:P(A;OICI;0x1f01ff;;;S-1-5-18)(A;OICI;0x1f01ff;;;S-1-5-32-544)";
    assert_eq!(record(r"C:\k"), Some(Data::Text(sddl.into())));
    let sddl = "O:S-1-5-18D:P(A;;0x1f01ff;;;S-1-5-18)(A;;0x1f01ff;;;S-1-5-32-544)";
    assert_eq!(record(r"C:\k\kubeconfig"), Some(Data::Text(sddl.into())));
}

#[test]
fn users_groups_and_services_by_net() {
    let guest = Guest::new();
    codes(
        &guest,
        &[
            ("net user builder Passw0rd!x /add /y", 0),
            ("net user builder Passw0rd!x /add /y", 2),
            ("net user weak password /add", 2),
            ("net user long Passw0rd!xPassw0rd!x /add", 1),
            ("net user builder /active:no", 0),
            ("net user nobody /active:no", 2),
            ("net user Administrator /delete", 2),
            ("net user x Passw0rd!x /add /bogus:1", 1),
            ("net localgroup Administrators builder /add", 0),
            ("net localgroup Administrators builder /add", 2),
            ("net localgroup Administrators nobody /add", 2),
            ("net localgroup Nope builder /add", 2),
            ("net accounts /maxpwage:unlimited", 0),
            ("net accounts /bogus:1", 1),
            ("net start EventLog", 2),
            ("net stop nope", 2),
            ("net share", 1),
        ],
    );
    let group = r"HKLM\SAM\SAM\Domains\Builtin\Aliases\Names\Administrators";
    assert_eq!(
        guest.windows.value(group, "Members"),
        Some(Data::Multi(vec!["Administrator".into(), "builder".into()]))
    );
    let user = r"HKLM\SAM\SAM\Domains\Account\Users\Names\builder";
    assert_eq!(guest.windows.value(user, "Flags"), Some(Data::Dword(0x202)));
    assert_eq!(guest.run("net user builder /delete").0, 0);
    assert!(guest.windows.value_names(user).is_empty());
}

#[test]
fn firewall_rules_are_where_windows_keeps_them() {
    let guest = Guest::new();
    let rules = r"HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules";
    codes(
        &guest,
        &[(
            "netsh advfirewall firewall add rule name=\"kubelet\" dir=in action=allow protocol=TCP localport=10250 profile=any description=\"for the API server\"",
            0,
        )],
    );
    let names = guest.windows.value_names(rules);
    assert_eq!(names.len(), 1);
    assert!(names[0].starts_with('{') && names[0].ends_with('}') && names[0].len() == 38);
    let rule = "v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=10250|Name=kubelet|Desc=for the API server|";
    assert_eq!(
        guest.windows.value(rules, &names[0]),
        Some(Data::Text(rule.into()))
    );
    codes(
        &guest,
        &[
            ("netsh advfirewall firewall show rule name=kubelet", 0),
            ("netsh advfirewall firewall show rule name=nope", 1),
            (
                "netsh advfirewall firewall add rule name=x dir=in action=allow localport=1",
                1,
            ),
            ("netsh advfirewall firewall add rule name=x dir=in", 1),
            (
                "netsh advfirewall firewall add rule name=x dir=sideways action=allow",
                1,
            ),
            (
                "netsh advfirewall firewall add rule name=x dir=in action=allow bogus=1",
                1,
            ),
            (
                "netsh advfirewall firewall add rule name=x dir=in action=allow protocol=tcp localport=70000",
                1,
            ),
            (
                "netsh advfirewall firewall delete rule name=kubelet protocol=tcp localport=10250",
                0,
            ),
            ("netsh advfirewall firewall delete rule name=kubelet", 1),
            ("netsh advfirewall set allprofiles state off", 0),
            ("netsh int ipv4 set dynamicportrange tcp 34000 31536", 0),
            ("netsh int ipv4 set dynamicportrange tcp 100 31536", 1),
            ("netsh bogus", 1),
        ],
    );
}

#[test]
fn settings_and_their_refusals() {
    let guest = Guest::new();
    guest.put(r"C:\t\task.xml", b"<?xml version=\"1.0\"?><Task xmlns=\"http://schemas.microsoft.com/windows/2004/02/mit/task\"><Actions><Exec><Command>cmd.exe</Command><Arguments>/c echo ran&gt;C:\\ran.txt</Arguments></Exec></Actions></Task>");
    guest.put(r"C:\t\none.xml", b"<?xml version=\"1.0\"?><Task xmlns=\"http://schemas.microsoft.com/windows/2004/02/mit/task\"/>");
    codes(
        &guest,
        &[
            ("powercfg /hibernate off", 0),
            ("powercfg /setactive SCHEME_MIN", 0),
            ("powercfg /setactive nope", 1),
            ("powercfg /change monitor-timeout-ac 0", 0),
            ("bcdedit /set {default} hypervisorlaunchtype off", 0),
            ("bcdedit /set {nope} x y", 1),
            ("bcdedit /bogus", 1),
            ("bcdedit /emssettings EMSPORT:1 EMSBAUDRATE:115200", 0),
            ("bcdedit /emssettings EMSPORT:9 EMSBAUDRATE:115200", 1),
            ("wevtutil cl System", 0),
            ("wevtutil cl Nope", 15007),
            (
                r"schtasks /create /tn winimg\run /xml C:\t\task.xml /ru SYSTEM",
                0,
            ),
            (r"schtasks /create /tn winimg\run /xml C:\t\task.xml", 1),
            (r"schtasks /create /tn bad /xml C:\t\none.xml", 1),
            (
                r"schtasks /create /tn boot /tr C:\x.cmd /sc ONSTART /ru SYSTEM /rl HIGHEST /f",
                0,
            ),
            (r"schtasks /create /tn boot2 /tr C:\x.cmd /sc SOMETIMES", 1),
            (r"schtasks /query /tn boot", 0),
            (r"schtasks /delete /tn boot /f", 0),
            (r"schtasks /delete /tn boot /f", 1),
            (r"schtasks /run /tn nope", 1),
            (r"schtasks /bogus", 1),
            ("where cmd.exe", 0),
            ("where nope", 1),
            ("taskkill /f /im nope.exe", 128),
            (r#"tasklist /fi "imagename eq nope.exe" /nh"#, 0),
            (r#"tasklist /fi "imagename is nope.exe""#, 1),
            ("tasklist", 1),
            ("tasklist /v", 1),
            ("ping -n 1 127.0.0.1", 0),
            ("ping example.com", 1),
            ("shutdown /bogus", 87),
            ("shutdown /a", 1116),
            ("shutdown /r /t 3600", 0),
            ("shutdown /a", 0),
            ("nosuchprogram.exe", 2),
        ],
    );
    assert_eq!(guest.run("shutdown /r /t 0").0, 0);
    assert_eq!(guest.power(), Some(Power::Reboot));
}

#[test]
fn searches_in_text() {
    let guest = Guest::new();
    guest.put(r"C:\t.txt", b"one\r\nTwo\r\nthree\r\n");
    for (line, code, output) in [
        (r#"cmd /c type C:\t.txt | find "w""#, 0, "Two\n"),
        (r#"cmd /c type C:\t.txt | find /c /v """#, 0, "3\n"),
        (r#"cmd /c type C:\t.txt | find "nope""#, 1, ""),
        (r#"cmd /c type C:\t.txt | findstr /i "TWO""#, 0, "Two\n"),
        (r#"cmd /c findstr /c:"hre" C:\t.txt"#, 0, "three\n"),
        (
            r#"cmd /c findstr /r "t.*e" C:\t.txt"#,
            2,
            "findstr: the stand-in does not know: /r\n",
        ),
        (r#"cmd /c findstr nope C:\t.txt"#, 1, ""),
    ] {
        assert_eq!(guest.run(line), (code, output.to_owned()), "{line}");
    }
}

#[test]
fn what_waited_for_a_boot_is_done() {
    let mut guest = Guest::new();
    guest.put(r"C:\old.txt", b"x");
    let manager = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager";
    let data: Vec<u8> = "\\??\\C:\\old.txt\0\\??\\C:\\new.txt\0\0"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    guest
        .windows
        .machine
        .registry()
        .set(manager, "PendingFileRenameOperations", (7, data))
        .unwrap();
    guest.reboot();
    assert!(!guest.host(r"C:\old.txt").exists());
    assert_eq!(guest.get(r"C:\new.txt"), b"x");
    assert_eq!(
        guest.windows.value(manager, "PendingFileRenameOperations"),
        None
    );
}
