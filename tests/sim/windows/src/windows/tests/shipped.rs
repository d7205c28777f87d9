//! What the shipped recipes ask for and the demo does not: PowerShell known by its words, the password policy, event manifests, links.

use std::io::Write as _;

use super::guest::Guest;
use super::program::codes;
use crate::windows::Data;

const SHELL: &str = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass -File";

fn recipes(file: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../");
    std::fs::read_to_string(format!("{path}{file}")).unwrap()
}

/// As a file of Windows has it.
fn put_script(guest: &Guest, path: &str, text: &str) {
    let text = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    guest.put(path, text.as_bytes());
}

#[test]
fn a_script_is_known_by_every_word() {
    let guest = Guest::new();
    let text = recipes("crates/recipe/src/verbs/account.ps1");
    put_script(&guest, r"C:\t\account.ps1", &text);
    put_script(&guest, r"C:\t\other.ps1", &text.replace("48", "47"));
    codes(
        &guest,
        &[
            (
                &format!(r"{SHELL} C:\t\account.ps1 -Name wmco -Random -NeverExpires"),
                0,
            ),
            ("net user wmco /active:yes", 0),
            // It is there already: its password stays.
            (&format!(r"{SHELL} C:\t\account.ps1 -Name wmco -Random"), 0),
            (
                &format!(r"{SHELL} C:\t\account.ps1 -Name nobody -NeverExpires"),
                1,
            ),
            (&format!(r"{SHELL} C:\t\account.ps1 -Name wmco -Clever"), 1),
            (&format!(r"{SHELL} C:\t\nothing.ps1"), 1),
        ],
    );
    let (code, said) = guest.run(&format!(r"{SHELL} C:\t\other.ps1 -Name wmco"));
    assert_eq!(
        (code, said.as_str()),
        (1, "the stand-in has no PowerShell: C:\\t\\other.ps1\n")
    );
}

#[test]
fn a_rule_of_the_firewall_is_limited_to_accounts() {
    let guest = Guest::new();
    put_script(
        &guest,
        r"C:\t\step.ps1",
        &recipes("recipes/packs/azure/wire-server.ps1"),
    );
    let run = format!(r"{SHELL} C:\t\step.ps1");
    let (code, said) = guest.run(&run);
    assert_eq!(code, 1);
    assert!(
        said.contains("Group WireServerAccess was not found"),
        "{said}"
    );
    codes(
        &guest,
        &[
            ("net localgroup WireServerAccess /add", 0),
            (&run, 0),
            (&run, 0),
        ],
    );
    let rules = r"HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules";
    let name = "Block-Outbound-168.63.129.16-port-80-for-cve-2021-27075";
    let Some(Data::Text(rule)) = guest.windows.value(rules, name) else {
        panic!("no rule");
    };
    assert!(
        rule.contains("|LUAuth=O:LSD:(D;;CC;;;S-1-5-18)(D;;CC;;;S-1-5-21-"),
        "{rule}"
    );
}

#[test]
fn the_policy_of_passwords_comes_from_a_template() {
    let guest = Guest::new();
    let template = |complex: u32| -> Vec<u8> {
        let text = format!(
            "\u{feff}[Unicode]\r\nUnicode=yes\r\n[Version]\r\nsignature=\"$CHICAGO$\"\r\nRevision=1\r\n[System Access]\r\nPasswordComplexity = {complex}\r\n"
        );
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    };
    guest.put(r"C:\t\any.inf", &template(0));
    guest.put(r"C:\t\complex.inf", &template(1));
    guest.put(r"C:\t\plain.inf", b"[Version]\r\n");
    let configure = |name: &str| {
        format!(
            r"secedit /configure /db C:\t\{name}.sdb /cfg C:\t\{name}.inf /areas SECURITYPOLICY /quiet"
        )
    };
    codes(
        &guest,
        &[
            ("net user vagrant vagrant /add /y", 2),
            (&configure("plain"), 1),
            (&configure("nothing"), 1),
            ("secedit /export /cfg C:\\t\\x.inf", 1),
            (&configure("any"), 0),
            ("net user vagrant vagrant /add /y", 0),
            (&configure("complex"), 0),
            ("net user other other /add /y", 2),
        ],
    );
}

#[test]
fn event_manifests_come_and_go() {
    let guest = Guest::new();
    let manifest = br#"<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"><instrumentation><events>
        <provider name="A-B" guid="{01234567-89ab-cdef-0000-000000000000}" symbol="AB" resourceFileName="%SystemRoot%\a.dll" messageFileName="%SystemRoot%\a.dll">
        <channels><channel name="A-B/Admin" chid="Admin" type="Admin"/></channels></provider></events></instrumentation></instrumentationManifest>"#;
    guest.put(r"C:\t\a.man", manifest);
    guest.put(r"C:\t\b.man", b"<instrumentationManifest/>");
    codes(
        &guest,
        &[
            (r"wevtutil um C:\t\a.man", 15002),
            (r"wevtutil im C:\t\a.man", 0),
            (r"wevtutil im C:\t\a.man", 183),
            (
                r#"reg query "HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WINEVT\Channels\A-B/Admin""#,
                0,
            ),
            (r"wevtutil um C:\t\a.man", 0),
            (
                r#"reg query "HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WINEVT\Channels\A-B/Admin""#,
                1,
            ),
            (r"wevtutil im C:\t\b.man", 13),
            (r"wevtutil im C:\t\nothing.man", 2),
        ],
    );
}

#[test]
fn a_folder_can_be_a_link() {
    let guest = Guest::new();
    guest.put(r"C:\etc\pki\ca.crt", b"x");
    let make = r"cmd /d /c mklink /d C:\link C:\etc\pki\";
    let (code, said) = guest.run(make);
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        said,
        "symbolic link created for C:\\link <<===>> C:\\etc\\pki\\\n"
    );
    codes(
        &guest,
        &[
            (make, 1),
            (r"cmd /d /c mklink C:\file C:\etc\pki\ca.crt", 1),
            (r"cmd /d /c mklink /d C:\no\link C:\etc", 1),
        ],
    );
}

#[test]
fn a_cumulative_update_is_windows_revision_after_a_restart() {
    let mut guest = Guest::new();
    for (file, version) in [
        ("a-kb5012637.msu", "20348.681.1.8"),
        ("b-kb5099999.msu", "17763.1.1.8"),
    ] {
        let manifest = format!(
            "<assembly xmlns=\"urn:schemas-microsoft-com:asm.v3\"><assemblyIdentity name=\"Package_for_RollupFix\" version=\"{version}\"/></assembly>"
        );
        let inner = cabinet("update.mum", manifest.as_bytes());
        guest.put(
            &format!(r"C:\t\{file}"),
            &cabinet("Windows10.0-KB.cab", &inner),
        );
    }
    codes(
        &guest,
        &[
            (r"wusa C:\t\b-kb5099999.msu /quiet /norestart", 0x8024_0017),
            (r"wusa C:\t\a-kb5012637.msu /quiet /norestart", 3010),
        ],
    );
    let revision = |guest: &Guest| {
        guest
            .windows
            .value(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion", "UBR")
    };
    assert_eq!(revision(&guest), Some(Data::Dword(587)));
    guest.reboot();
    assert_eq!(revision(&guest), Some(Data::Dword(681)));
}

fn cabinet(name: &str, content: &[u8]) -> Vec<u8> {
    let mut builder = cab::CabinetBuilder::new();
    builder
        .add_folder(cab::CompressionType::None)
        .add_file(name);
    let mut writer = builder.build(std::io::Cursor::new(Vec::new())).unwrap();
    while let Some(mut file) = writer.next_file().unwrap() {
        file.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn tasks_of_the_start_run_then() {
    let mut guest = Guest::new();
    let script = r"C:\Windows\Setup\WMCO\Set-NodeName.ps1";
    put_script(
        &guest,
        script,
        &recipes("recipes/packs/wmco/Set-NodeName.ps1"),
    );
    let shell = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -NoProfile -NonInteractive -ExecutionPolicy Bypass";
    let create = format!(
        r#"schtasks /create /tn "\OpenShift\Node name" /tr "{shell} -File {script}" /sc onstart /ru SYSTEM /f"#
    );
    codes(
        &guest,
        &[
            (&create, 0),
            (r"schtasks /create /tn later /tr C:\x.exe /sc daily /f", 0),
        ],
    );
    assert_eq!(guest.power(), None, "not when it is made");
    guest.put(r"C:\winimg\payload.cmd", b"");
    guest.windows.begin_startup_tasks();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(guest.power(), None, "not in the build");
    std::fs::remove_dir_all(guest.host(r"C:\winimg")).unwrap();
    guest.windows.begin_startup_tasks();
    let asked = std::time::Instant::now();
    while guest.windows.power_asked().is_none() && asked.elapsed().as_secs() < 10 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(guest.power(), Some(crate::windows::Power::Reboot));
    guest.reboot();
    let name = guest.run("hostname").1;
    assert!(name.to_lowercase().starts_with("winhost-"), "{name}");
    guest.windows.begin_startup_tasks();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(guest.power(), None, "the name is one already");
}
