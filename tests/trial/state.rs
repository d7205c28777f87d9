//! A clone's disk, read without starting it.

use support::evtx;
use support::windows_disk::*;

use winimg::trial::state::{self, CloneState, KnownFact};
use winimg::verify;
use winimg_base::event::Cancel;
use winimg_formats::disk::RawDisk;
use winimg_recipe::plan::StepChecks;
use winimg_recipe::plan::check::ServiceStartMode;
use winimg_recipe::plan::check::{ImageCheck, ServiceCheck};

use super::KEYS;

const SETUP: &str = r"HKLM\SYSTEM\Setup";
const TCPIP: &str = r"HKLM\SYSTEM\ControlSet001\Services\Tcpip\Parameters";
const COMPUTER: &str = r"HKLM\SYSTEM\ControlSet001\Control\ComputerName\ComputerName";
const PROFILES: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\ProfileList";
const SERVICES: &str = r"HKLM\SYSTEM\ControlSet001\Services";
const CLOUDBASE: &str = r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init";
const CLOUDBASE_KEY: &str = r"HKLM\SOFTWARE\Cloudbase Solutions\Cloudbase-Init";
const SYSTEM_LOG: &str = r"C:\Windows\System32\winevt\Logs\System.evtx";

const CONFIGURATION: &str = r"[DEFAULT]
username=other
# of them all the last counts
username = capi
log_dir=C:\Program Files\Cloudbase Solutions\Cloudbase-Init\log\
log_file=cloudbase-init.log
plugins=cloudbaseinit.plugins.common.mtu.MTUPlugin,cloudbaseinit.plugins.windows.createuser.CreateUserPlugin,
  cloudbaseinit.plugins.common.sshpublickeys.SetUserSSHPublicKeysPlugin
[config_drive]
username=nobody
";
const FIRST_CONFIGURATION: &str = r"[DEFAULT]
log_dir=C:\Program Files\Cloudbase Solutions\Cloudbase-Init\log\
log_file=cloudbase-init-unattend.log
plugins=cloudbaseinit.plugins.common.sethostname.SetHostNamePlugin
";

/// As oslo.log writes it. A service that does not load is no fault where another one does, and of a traceback one line counts.
const LOG: &str = "\
2026-01-02 03:04:05.123 1000 INFO cloudbaseinit.init [-] Cloudbase-Init version: 1.1.9\r
2026-01-02 03:04:06.123 1000 ERROR cloudbaseinit.metadata.factory [-] Failed to load metadata service 'a.B'\r
2026-01-02 03:04:07.123 1000 INFO cloudbaseinit.init [-] Metadata service loaded: 'OvfService'\r
2026-01-02 03:04:08.123 1000 ERROR cloudbaseinit.init [-] plugin 'UserDataPlugin' failed with error 'no such thing'\r
2026-01-02 03:04:08.124 1000 ERROR cloudbaseinit.init [-] no such thing: OSError: no such thing\r
2026-01-02 03:04:08.124 1000 ERROR cloudbaseinit.init Traceback (most recent call last):\r
2026-01-02 03:04:08.124 1000 ERROR cloudbaseinit.init   File \"init.py\", line 66, in _exec_plugin\r
2026-01-02 03:04:09.123 1000 INFO cloudbaseinit.init [-] Rebooting\r
2026-01-02 03:05:05.123 1000 INFO cloudbaseinit.init [-] Cloudbase-Init version: 1.1.9\r
2026-01-02 03:05:06.123 1000 INFO cloudbaseinit.init [-] Metadata service loaded: 'OvfService'\r
2026-01-02 03:05:07.123 1000 DEBUG cloudbaseinit.plugins.common.userdatautils [-] User_data stdout:\r
b'\\r\\nC:\\\\Windows\\\\system32>C:\\\\k\\\\kubeadm.exe join \\r\\n' execute_user_data_script C:\\py\\userdatautils.py:93\r
2026-01-02 03:05:07.123 1000 DEBUG cloudbaseinit.plugins.common.userdatautils [-] User_data stderr:\r
b'one\\ntwo\\n'\r
2026-01-02 03:05:07.124 1000 INFO cloudbaseinit.plugins.common.userdatautils [-] User_data script ended with return code: 1\r
2026-01-02 03:05:08.123 1000 DEBUG cloudbaseinit.plugins.common.fileexecutils [-] User_data stdout:\r
b'not of the user data'\r
2026-01-02 03:05:08.124 1000 WARNING cloudbaseinit.plugins.common.userdatautils [-] Unsupported user_data format\r
2026-01-02 03:05:08.125 1000 INFO cloudbaseinit.plugins.common.userdatautils [-] User_data script ended with return code: -1073741510\r
2026-01-02 03:05:09.123 1000 INFO cloudbaseinit.init [-] Plugins execution done\r
";

/// A member's SID: `S-1-5-21-1-2-3-RID`, the machine of `WindowsDisk`.
fn member(rid: u32) -> Vec<u8> {
    let mut sid = vec![1, 5, 0, 0, 0, 0, 0, 5];
    sid.extend([21, 1, 2, 3, rid].map(u32::to_le_bytes).concat());
    sid
}

/// A sound disk after its first boot.
fn clone() -> WindowsDisk {
    let mut disk = WindowsDisk::sound();
    disk.image_state("IMAGE_STATE_COMPLETE");
    for name in ["SystemSetupInProgress", "SetupType", "OOBEInProgress"] {
        disk.value(SETUP, name, REG_DWORD, &dword(0));
    }
    disk.value(SETUP, "CmdLine", REG_SZ, &sz(""));
    let status = format!(r"{SETUP}\Status\SysprepStatus");
    disk.value(&status, "GeneralizationState", REG_DWORD, &dword(7));
    disk.value(TCPIP, "Hostname", REG_SZ, &sz("clone-a"));
    disk.value(TCPIP, "NV Hostname", REG_SZ, &sz("clone-a"));
    disk.value(COMPUTER, "ComputerName", REG_SZ, &sz("CLONE-A"));
    let cryptography = r"HKLM\SOFTWARE\Microsoft\Cryptography";
    disk.value(cryptography, "MachineGuid", REG_SZ, &sz("c0ffee00-1"));
    disk.user("Administrator", 500, true);
    disk.user("capi", 1001, false);
    disk.group(
        SAM_BUILTIN,
        "Administrators",
        544,
        &[member(500), member(1001)],
    );
    let profile = format!(r"{PROFILES}\S-1-5-21-1-2-3-1001");
    disk.value(
        &profile,
        "ProfileImagePath",
        REG_EXPAND_SZ,
        &sz(r"%SystemDrive%\Users\capi"),
    );
    let keys = format!("# keys\r\n{}\r\n{}\r\n", KEYS[0], KEYS[1]);
    disk.file(r"C:\Users\capi\.ssh\authorized_keys", keys.as_bytes());
    disk.value(&format!(r"{SERVICES}\sshd"), "Start", REG_DWORD, &dword(2));
    disk.file(
        r"C:\ProgramData\ssh\sshd_config",
        b"AuthorizedKeysFile .ssh/authorized_keys\r\n#Match Group administrators\r\n",
    );
    disk.file(
        r"C:\ProgramData\ssh\ssh_host_ed25519_key.pub",
        b"ssh-ed25519 AAAAhost nt authority\\system@CLONE-A\r\n",
    );
    disk.key(r"HKLM\SOFTWARE\Microsoft\SystemCertificates\MY\Certificates\ab12");
    disk.file(
        &format!(r"{CLOUDBASE}\conf\cloudbase-init.conf"),
        CONFIGURATION.as_bytes(),
    );
    let first = format!(r"{CLOUDBASE}\conf\cloudbase-init-unattend.conf");
    disk.file(&first, FIRST_CONFIGURATION.as_bytes());
    disk.file(
        &format!(r"{CLOUDBASE}\log\cloudbase-init.log"),
        LOG.as_bytes(),
    );
    let instance = format!(r"{CLOUDBASE_KEY}\iid\1\Plugins");
    disk.value(&instance, "CreateUserPlugin", REG_DWORD, &dword(1));
    disk.value(&instance, "MTUPlugin", REG_DWORD, &dword(2));
    let secure_boot = r"HKLM\SYSTEM\ControlSet001\Control\SecureBoot\State";
    disk.value(secure_boot, "UEFISecureBootEnabled", REG_DWORD, &dword(1));
    disk.key(r"HKLM\SYSTEM\ControlSet001\Enum\ACPI\MSFT0101\1");
    let containerd = format!(r"{SERVICES}\containerd");
    disk.value(&containerd, "DisplayName", REG_SZ, &sz("Containerd"));
    disk.value(&containerd, "Start", REG_DWORD, &dword(2));
    let manager = "Service Control Manager";
    let events = evtx::log(&[
        ("EventLog", 6005, &[]),
        (manager, 7000, &["Containerd", "%%1053"]),
    ]);
    disk.file(SYSTEM_LOG, &events);
    disk.file(
        r"C:\Windows\Panther\setupact.log",
        b"2026-01-02 03:04:05, Info  one\r\n2026-01-02 03:04:06, Error  two\r\n",
    );
    disk
}

fn with<T>(disk: &WindowsDisk, look: impl FnOnce(&RawDisk) -> T) -> T {
    let dir = support::tree::folder();
    let file = dir.path().join("disk.raw");
    disk.write(&file);
    look(&RawDisk::open(&file).expect("the disk"))
}

fn read(disk: &WindowsDisk) -> CloneState {
    with(disk, |disk| {
        state::read(disk, &Cancel::default()).expect("a Windows volume")
    })
}

/// Of a sound clone whose agent wrote this log.
pub fn with_agents_log(log: &str) -> CloneState {
    let mut disk = clone();
    disk.file(
        &format!(r"{CLOUDBASE}\log\cloudbase-init.log"),
        log.as_bytes(),
    );
    read(&disk)
}

#[test]
fn a_clones_disk_says_what_it_became() {
    if !can_make() {
        return;
    }
    let state = read(&clone());
    let json = serde_json::to_string_pretty(&state).expect("JSON");
    insta::assert_snapshot!(json);
}

/// Values of a hive that was not closed are not those that Windows would see.
#[test]
fn what_cannot_be_read_is_unknown() {
    if !can_make() {
        return;
    }
    let mut disk = WindowsDisk::sound();
    disk.dirty_hive = Some("SYSTEM");
    disk.file(SYSTEM_LOG, b"ElfFile\0");
    let state = read(&disk);
    let unknown = "the hive SYSTEM has changes that are only in its transaction logs";
    let KnownFact::Unknown { unknown: why } = &state.host_name else {
        panic!("{:?}", state.host_name);
    };
    assert!(why.ends_with(unknown), "{why}");
    let KnownFact::Unknown { unknown: why } = &state.failed_services else {
        panic!("{:?}", state.failed_services);
    };
    assert_eq!(
        why,
        "this is not an event log (expected a 4096-byte header that starts with ElfFile)"
    );
    assert_eq!(state.machine_guid, KnownFact::Is(None));
    assert_eq!(state.cloudbase_init, KnownFact::Is(None));
}

fn checked(disk: &WindowsDisk) -> String {
    let sshd = ServiceCheck {
        name: "sshd".into(),
        start: Some(ServiceStartMode::Auto),
        ..ServiceCheck::default()
    };
    let expected = [StepChecks {
        step: "sshd starts with the clone".into(),
        place: "winimg:packs/openssh.toml:9:1".into(),
        checks: vec![ImageCheck::Service(sshd)],
    }];
    let report = with(disk, |disk| {
        verify::check_clone(disk, &expected, &Cancel::default()).expect("a Windows volume")
    });
    let mut text = format!("{}\n", report.summarize());
    for finding in &report.findings {
        text += &format!("{finding}\n");
    }
    text
}

#[test]
fn a_clone_keeps_what_its_image_must_not_have_and_nothing_of_the_build() {
    if !can_make() {
        return;
    }
    let mut disk = clone();
    assert_eq!(checked(&disk), "26 of 26 checks passed\n");
    disk.folder(r"C:\winimg");
    disk.value(&format!(r"{SERVICES}\sshd"), "Start", REG_DWORD, &dword(3));
    disk.key(
        r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending",
    );
    insta::assert_snapshot!(checked(&disk));
}

/// As Server 2025 has it from the start.
#[test]
fn an_ssh_server_that_nobody_starts_is_none() {
    if !can_make() {
        return;
    }
    let mut disk = WindowsDisk::sound();
    let sshd = format!(r"{SERVICES}\sshd");
    disk.value(&sshd, "Start", REG_DWORD, &dword(3));
    assert_eq!(read(&disk).sshd, KnownFact::Is(None));
    disk.value(&sshd, "Start", REG_DWORD, &dword(2));
    assert!(matches!(read(&disk).sshd, KnownFact::Is(Some(_))));
}
