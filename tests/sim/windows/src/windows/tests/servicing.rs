use super::guest::{Guest, facts};
use super::program::codes;
use crate::windows::{Data, ImageFacts};

const PACKAGES: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\Packages";

#[test]
fn server_2025_has_an_ssh_server_that_waits() {
    let guest = Guest::of(&ImageFacts {
        build: 26100,
        ..facts()
    });
    codes(
        &guest,
        &[
            (
                "dism /online /add-capability /capabilityname:OpenSSH.Server~~~~0.0.1.0",
                0,
            ),
            ("sc config sshd start= auto", 0),
            ("sc start sshd", 0),
        ],
    );
    let key = r"C:\ProgramData\ssh\ssh_host_ed25519_key.pub";
    assert!(guest.text(key).starts_with("ssh-ed25519 "));
}

/// Microsoft: Roles, Role Services, and Features not in Windows Server - Server Core.
#[test]
fn server_core_has_no_tftp_client() {
    const TWO: &str =
        "dism /online /enable-feature /featurename:TelnetClient /featurename:TFTP /norestart";
    let core = Guest::new();
    codes(&core, &[(TWO, 0x800f_080c)]);
    let shown = core.run("dism /online /get-features").1;
    assert!(!shown.contains("Feature Name : TFTP\n"), "{shown}");
    let desktop = Guest::of(&ImageFacts {
        installation_type: "Server".into(),
        ..facts()
    });
    codes(&desktop, &[(TWO, 0)]);
}

/// The probe of `make prove` is for both installations.
#[test]
fn what_the_probe_enables_is_in_server_core() {
    let probes = include_str!("../../../../../prove/probes/probes.toml");
    let lines = probes
        .lines()
        .filter_map(|line| line.strip_prefix("%dism% "));
    let lines: Vec<String> = lines.map(|line| format!("dism /online {line}")).collect();
    assert_eq!(lines.len(), 2);
    let core = Guest::new();
    for line in &lines {
        codes(&core, &[(line, 0)]);
    }
}

#[test]
fn capabilities_come_from_a_folder() {
    let mut guest = Guest::new();
    let add = "dism /online /add-capability /capabilityname:OpenSSH.Server~~~~0.0.1.0 /norestart";
    guest.put(
        r"D:\fod\OpenSSH-Server-Package~31bf3856ad364e35~amd64~~.cab",
        b"MSCF and more",
    );
    codes(
        &guest,
        &[
            (add, 0x800f_081f),
            (&format!(r"{add} /source:D:\ /limitaccess"), 0x800f_081f),
            ("sc query sshd", 1060),
            (&format!(r"{add} /source:D:\fod /limitaccess /quiet"), 0),
            (add, 0),
            ("sc start sshd", 0),
            (
                "dism /online /get-capabilityinfo /capabilityname:openssh.server~~~~0.0.1.0",
                0,
            ),
            (
                "dism /online /add-capability /capabilityname:Nope~~~~0.0.1.0",
                87,
            ),
            ("dism /online /add-capability", 87),
        ],
    );
    // sshd's first start makes host keys, a later one keeps them.
    let key = r"C:\ProgramData\ssh\ssh_host_ed25519_key.pub";
    let made = guest.text(key);
    assert!(
        made.starts_with("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"),
        "{made}"
    );
    codes(&guest, &[("sc stop sshd", 0), ("sc start sshd", 0)]);
    assert_eq!(guest.text(key), made);
    codes(
        &guest,
        &[
            (r"cmd /c del /q C:\ProgramData\ssh\ssh_host_*", 0),
            ("sc config sshd start= auto", 0),
        ],
    );
    guest.reboot();
    assert_ne!(guest.text(key), made);
    let shown = guest.run("dism /online /get-capabilities").1;
    assert!(
        shown.contains("OpenSSH.Server~~~~0.0.1.0\nState : Installed\n"),
        "{shown}"
    );
    let remove = add.replace("/add-", "/remove-");
    codes(
        &guest,
        &[("sc stop sshd", 0), (&remove, 0), ("sc query sshd", 1060)],
    );
}

#[test]
fn updates_are_recorded_where_windows_has_them() {
    let mut guest = Guest::new();
    guest.put(r"D:\windows10.0-kb5012637-x64_6a74.msu", b"MSCF");
    guest.put(r"D:\ssu-kb5011111.cab", b"MSCF");
    guest.put(r"D:\page.msu", b"<html>");
    let wusa = r"wusa D:\windows10.0-kb5012637-x64_6a74.msu /quiet /norestart";
    codes(
        &guest,
        &[
            (
                r"dism /online /add-package /packagepath:D:\ssu-kb5011111.cab /norestart /quiet",
                3010,
            ),
            (wusa, 3010),
            (wusa, 0x0024_0006),
            (r"wusa D:\page.msu /quiet /norestart", 0x8007_000d),
            (r"wusa D:\nope.msu /quiet /norestart", 2),
            (r"wusa D:\page.msu /norestart", 87),
            (r"wusa D:\ssu-kb5011111.cab /quiet /norestart", 87),
            (r"wusa /uninstall /kb:5012637 /quiet", 87),
        ],
    );
    let key = format!(r"{PACKAGES}\Package_for_KB5012637~31bf3856ad364e35~amd64~~10.0.1.0");
    let state = |guest: &Guest| guest.windows.value(&key, "CurrentState");
    assert_eq!(state(&guest), Some(Data::Dword(0x60)));
    guest.reboot();
    assert_eq!(state(&guest), Some(Data::Dword(0x70)));
    codes(
        &guest,
        &[(
            "dism /online /cleanup-image /startcomponentcleanup /quiet /norestart",
            0,
        )],
    );
}

/// Both calls before the one restart, as a `feature` step with `without` makes them.
#[test]
fn hyper_v_is_enabled_without_its_hypervisor_before_the_restart() {
    let mut guest = Guest::new();
    let dism = r"C:\Windows\System32\dism.exe /online";
    let enable = "/enable-feature /featurename:Microsoft-Hyper-V-Online /all /norestart /quiet";
    assert_eq!(guest.run(&format!("{dism} {enable}")).0, 3010);
    let disable = "/disable-feature /featurename:Microsoft-Hyper-V-Online /norestart /quiet";
    assert_eq!(guest.run(&format!("{dism} {disable}")).0, 3010);
    guest.reboot();
    for (name, state) in [
        ("Microsoft-Hyper-V", "Enabled"),
        ("Microsoft-Hyper-V-Online", "Disabled"),
    ] {
        let info = format!("{dism} /get-featureinfo /featurename:{name}");
        let (code, said) = guest.run(&info);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(&format!("State : {state}\n")), "{said}");
    }
}

#[test]
fn a_start_that_completes_containers_is_followed_by_a_restart_of_windows_own() {
    let mut guest = Guest::new();
    let none = std::time::Duration::ZERO;
    let enable = |name: &str| {
        format!(
            r"C:\Windows\System32\dism.exe /online /enable-feature /featurename:{name} /norestart /quiet"
        )
    };
    guest.windows.begin_second_start(none);
    assert_eq!(guest.windows.power_asked(), None, "nothing was enabled");
    assert_eq!(
        guest
            .run(&enable("Microsoft-Hyper-V-Management-PowerShell"))
            .0,
        0
    );
    guest.reboot();
    guest.windows.begin_second_start(none);
    assert_eq!(guest.windows.power_asked(), None, "it wants no restart");
    assert_eq!(guest.run(&enable("Containers")).0, 3010);
    guest.windows.begin_second_start(none);
    assert_eq!(
        guest.windows.power_asked(),
        None,
        "before the first restart"
    );
    guest.reboot();
    guest.windows.begin_second_start(none);
    assert_eq!(
        guest.windows.power_asked(),
        Some(crate::windows::Power::Reboot)
    );
    guest.reboot();
    guest.windows.begin_second_start(none);
    assert_eq!(guest.windows.power_asked(), None, "once");
}
