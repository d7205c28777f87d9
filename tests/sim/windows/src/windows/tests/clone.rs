//! What sysprep leaves and what a clone becomes: identity, the built-in administrator, boot drivers.

use super::guest::Guest;
use super::program::codes;
use crate::windows::{Data, Power, account};

const SYSPREP: &str = r"C:\Windows\System32\Sysprep\sysprep.exe /generalize /oobe /quit /quiet";
const ACCOUNT: &str = r"HKLM\SAM\SAM\Domains\Account";
const OVERRIDE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\stornvme\StartOverride";

fn takes(guest: &Guest, user: &str, password: &str) -> Result<(), u32> {
    let registry = guest.windows.machine.registry();
    account::logon(&registry, user, password).map_err(|error| error.0)
}

#[test]
fn generalize_takes_the_administrators_password() {
    let guest = Guest::new();
    assert!(guest.windows.set_password("Administrator", "Passw0rd!x"));
    codes(&guest, &[("net user other Passw0rd!y /add", 0)]);
    assert_eq!(takes(&guest, "Administrator", "Passw0rd!x"), Ok(()));
    assert_eq!(guest.run(SYSPREP).0, 0);
    assert_eq!(takes(&guest, "Administrator", "Passw0rd!x"), Err(1326));
    assert_eq!(takes(&guest, "other", "Passw0rd!y"), Ok(()));
    // OOBE's end without AdministratorPassword.
    guest.windows.close_administrator().unwrap();
    assert_eq!(takes(&guest, "Administrator", ""), Err(1907));
    // An agent that sets a password lifts it.
    assert!(guest.windows.set_password("Administrator", "Passw0rd!z"));
    assert_eq!(takes(&guest, "Administrator", "Passw0rd!z"), Ok(()));
}

#[test]
fn a_disabled_administrator_is_not_asked_for_a_password() {
    let guest = Guest::new();
    codes(&guest, &[("net user Administrator /active:no", 0)]);
    guest.windows.close_administrator().unwrap();
    assert!(guest.windows.set_password("Administrator", "Passw0rd!x"));
    assert_eq!(takes(&guest, "Administrator", "Passw0rd!x"), Err(1331));
}

#[test]
fn each_start_says_what_hardware_it_found() {
    let guest = Guest::new();
    let enabled = || {
        let key = r"HKLM\SYSTEM\CurrentControlSet\Control\SecureBoot\State";
        guest.windows.value(key, "UEFISecureBootEnabled")
    };
    let driver = || {
        let key = r"HKLM\SYSTEM\CurrentControlSet\Enum\ACPI\MSFT0101\1";
        guest.windows.value(key, "Service")
    };
    guest.windows.find_hardware(Some(true), true).unwrap();
    assert_eq!(enabled(), Some(Data::Dword(1)));
    assert_eq!(driver(), Some(Data::Text("TPM".into())));
    guest.windows.find_hardware(Some(false), false).unwrap();
    assert_eq!(enabled(), Some(Data::Dword(0)));
    assert_eq!(driver(), None);
    guest.windows.find_hardware(None, false).unwrap();
    assert_eq!(enabled(), None);
}

#[test]
fn two_clones_are_different_machines() {
    let ids = || {
        let guest = Guest::new();
        let before = guest.windows.value(ACCOUNT, "V");
        guest.put(r"C:\ProgramData\ssh\ssh_host_ed25519_key", b"key");
        assert_eq!(guest.run(SYSPREP).0, 0);
        assert_eq!(
            guest.windows.value(ACCOUNT, "V"),
            before,
            "sysprep itself keeps the SID"
        );
        guest.windows.become_another().unwrap();
        let after = guest.windows.value(ACCOUNT, "V");
        assert_ne!(after, before);
        // Windows knows nothing of other software's secrets.
        assert_eq!(
            guest.get(r"C:\ProgramData\ssh\ssh_host_ed25519_key"),
            b"key"
        );
        let guid = guest
            .windows
            .value(r"HKLM\SOFTWARE\Microsoft\Cryptography", "MachineGuid");
        assert!(
            matches!(&guid, Some(Data::Text(text)) if text.len() == 36),
            "{guid:?}"
        );
        // The built-in administrator is still in its group, by the new SID.
        let registry = guest.windows.machine.registry();
        assert!(account::sid(&registry, "Administrator").is_some_and(|sid| sid.ends_with("-500")));
        (after, guid)
    };
    let (one, other) = (ids(), ids());
    assert_ne!(one.0, other.0);
    assert_ne!(one.1, other.1);
}

#[test]
fn generalize_arms_boot_drivers_again_unless_it_keeps_devices() {
    for (persist, kept) in [("false", false), ("true", true)] {
        let guest = Guest::new();
        guest
            .windows
            .set_value(OVERRIDE, "0", Data::Dword(3))
            .unwrap();
        let text = format!(
            r#"<unattend xmlns="urn:schemas-microsoft-com:unattend"><settings pass="generalize"><component name="Microsoft-Windows-PnpSysprep" processorArchitecture="amd64" publicKeyToken="31bf3856ad364e35" language="neutral" versionScope="nonSxS"><PersistAllDeviceInstalls>{persist}</PersistAllDeviceInstalls></component></settings></unattend>"#
        );
        guest.put(r"C:\seal.xml", text.as_bytes());
        assert_eq!(guest.run(&format!(r"{SYSPREP} /unattend:C:\seal.xml")).0, 0);
        assert_eq!(
            guest.windows.value(OVERRIDE, "0").is_some(),
            kept,
            "{persist}"
        );
    }
}

#[test]
fn a_new_name_counts_from_the_next_boot() {
    let mut guest = Guest::new();
    let tcpip = r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters";
    guest
        .windows
        .set_value(tcpip, "NV Hostname", Data::Text("node-7".into()))
        .unwrap();
    guest.reboot();
    assert_eq!(
        guest.windows.value(tcpip, "Hostname"),
        Some(Data::Text("node-7".into()))
    );
}

/// A cloudbase-init on automatic restarts a clone in the middle of specialize.
#[test]
fn services_work_while_setup_does() {
    let guest = Guest::new();
    guest.put(
        r"C:\x\OpenStackService.exe",
        b"MZ winimg stand-in program: service-runner\r\n",
    );
    codes(
        &guest,
        &[
            (
                r"sc create restarts binPath= C:\x\OpenStackService.exe restarts C:\Windows\System32\shutdown.exe /r /t 0",
                1639,
            ),
            (
                r#"sc create restarts binPath= "C:\x\OpenStackService.exe restarts C:\Windows\System32\shutdown.exe /r /t 0""#,
                0,
            ),
        ],
    );
    let limit = std::time::Duration::from_secs(20);
    assert_eq!(guest.windows.let_services_work(limit), None);
    codes(&guest, &[("sc start restarts", 0)]);
    assert_eq!(guest.windows.let_services_work(limit), Some(Power::Reboot));
    assert!(guest.run("sc query restarts").1.contains("STOPPED"));
}
