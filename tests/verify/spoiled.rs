//! What no image may have, whatever its recipe says.

use crate::verify::expected::{judged, rendered};
use support::tree;
use support::windows_disk::*;

const WINLOGON: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Winlogon";
const WSMAN: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WSMAN";
const SERVICING: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing";

const ANSWERS: &str = r#"<?xml version="1.0"?>
<unattend xmlns="urn:schemas-microsoft-com:unattend">
  <settings pass="oobeSystem">
    <component name="Microsoft-Windows-Shell-Setup">
      <UserAccounts><AdministratorPassword><Value>SGVsbG8=</Value></AdministratorPassword></UserAccounts>
      <AutoLogon>
        <Password><Value>*SENSITIVE*DATA*DELETED*</Value></Password>
        <Enabled>true</Enabled>
      </AutoLogon>
    </component>
  </settings>
</unattend>
"#;

#[test]
fn a_sealed_disk_has_no_findings() {
    if !can_make() {
        return;
    }
    let report = judged(&WindowsDisk::sound(), None);
    assert_eq!(rendered(&report), "58 of 58 checks passed\n");
}

/// As a build leaves it that forgot everything.
fn spoiled() -> WindowsDisk {
    let mut disk = WindowsDisk::sound();
    disk.dirty_volume = true;
    disk.no_hive("DEFAULT");
    disk.no_efi_file("EFI/Microsoft/Boot/BCD");
    disk.no_efi_file("EFI/Boot/bootx64.efi");
    disk.no_file(r"C:\Windows\System32\winload.efi");
    disk.file(r"C:\Windows\Panther\unattend.xml", ANSWERS.as_bytes());
    let harmless = b"<unattend><!-- nothing --></unattend>";
    disk.file(r"C:\autounattend.xml", harmless);
    disk.file(r"C:\Windows\System32\Sysprep\unattend.xml", b"not XML");
    disk.file(
        r"C:\Windows\Setup\Scripts\SetupComplete.cmd",
        b"@call c:\\WINIMG\\bootstrap.cmd\r\n",
    );
    // A component's own script may stay.
    disk.file(
        r"C:\Windows\Setup\Scripts\ErrorHandler.cmd",
        b"@call C:\\k\\x.cmd\r\n",
    );
    disk.folder(r"C:\winimg");
    disk.file(r"C:\ProgramData\ssh\ssh_host_rsa_key", b"x");
    disk.file(r"C:\ProgramData\ssh\ssh_host_rsa_key.pub", b"x");
    disk.file(r"C:\ProgramData\ssh\sshd_config", b"x");
    disk.value(WINLOGON, "AutoAdminLogon", REG_SZ, &sz("1"));
    disk.value(WINLOGON, "DefaultPassword", REG_SZ, &sz("Open-Sesame"));
    let service = format!(r"{WSMAN}\Service");
    disk.value(&service, "allow_unencrypted", REG_DWORD, &dword(1));
    disk.value(&service, "auth_basic", REG_DWORD, &dword(1));
    disk.key(&format!(r"{WSMAN}\Listener\*+HTTP"));
    disk.key(&format!(r"{WSMAN}\Listener\*+HTTPS"));
    disk.key(r"HKLM\SOFTWARE\Cloudbase Solutions\Cloudbase-Init\i-1\Plugins");
    disk.key(&format!(r"{SERVICING}\RebootPending"));
    disk.key(&format!(r"{SERVICING}\PackagesPending"));
    disk.key(
        r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired",
    );
    disk.value(
        r"HKLM\SYSTEM\ControlSet001\Control\Session Manager",
        "PendingFileRenameOperations",
        REG_MULTI_SZ,
        &multi_sz(&[r"\??\C:\Windows\Temp\x"]),
    );
    disk.image_state("IMAGE_STATE_COMPLETE");
    // Of 44 MiB.
    disk.file(r"C:\filler", &vec![7; 38 << 20]);
    disk
}

#[test]
fn each_leftover_and_each_missing_part_is_named() {
    if !can_make() {
        return;
    }
    let report = judged(&spoiled(), None);
    let text = rendered(&report);
    assert!(!text.contains("Open-Sesame"), "{text}");
    insta::assert_snapshot!("spoiled", text);
}

/// Both tables; a machine that is not sealed is no image of clones.
#[test]
fn a_sealed_disk_has_nothing_behind_windows() {
    if !can_make() {
        return;
    }
    let finding_of = |mbr: bool, recovery_behind: bool, sealed: bool| {
        let mut disk = WindowsDisk::sound();
        disk.mbr = mbr;
        disk.recovery_behind = recovery_behind;
        if !sealed {
            disk.image_state("IMAGE_STATE_COMPLETE");
        }
        let findings = judged(&disk, None).findings;
        let mut findings = findings.iter().map(ToString::to_string);
        findings.find(|f| f.contains("last partition"))
    };
    for mbr in [false, true] {
        let found = finding_of(mbr, true, true).expect("a finding");
        let lines: Vec<&str> = found.lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "error: C: is not the disk's last partition, so it cannot grow on a clone",
                "  expected: nothing behind it",
                "  found: partition 3 (Windows recovery, 2 MiB)"
            ]
        );
        assert_eq!(finding_of(mbr, false, true), None);
        assert_eq!(finding_of(mbr, true, false), None);
    }
}

#[test]
fn a_hive_that_was_not_closed_answers_nothing() {
    if !can_make() {
        return;
    }
    let mut disk = WindowsDisk::sound();
    disk.dirty_hive = Some("SOFTWARE");
    insta::assert_snapshot!("dirty_hive", rendered(&judged(&disk, None)));
}

/// The mark is the first word of the file that holds the memory.
#[test]
fn a_windows_that_was_hibernated_is_no_image() {
    if !can_make() {
        return;
    }
    let findings_of = |mark: Option<&[u8]>| {
        let mut disk = WindowsDisk::sound();
        if let Some(mark) = mark {
            let memory = [mark, &[7; 5000]].concat();
            disk.file(r"C:\hiberfil.sys", &memory);
        }
        rendered(&judged(&disk, None))
    };
    for mark in [&b"HIBR"[..], b"hibr"] {
        let text = findings_of(Some(mark));
        let fact =
            "error: Windows was hibernated (fast startup does that) and would resume from memory";
        assert!(text.contains(fact), "{text}");
    }
    let text = findings_of(Some(b"wake"));
    let fact = "warning: Windows resumed from hibernation and may not have been shut down since";
    assert!(text.contains(fact), "{text}");
    // A file that Windows made and has not used, an empty one, and none.
    for mark in [Some(&[0; 4][..]), Some(b"PAGE"), None] {
        assert_eq!(findings_of(mark), "58 of 58 checks passed\n", "{mark:?}");
    }
}

#[test]
fn a_damaged_copy_of_the_partition_table_is_doubtful() {
    if !can_make() {
        return;
    }
    let dir = tree::folder();
    let file = dir.path().join("disk.raw");
    WindowsDisk::sound().write(&file);
    let mut bytes = std::fs::read(&file).expect("the disk");
    bytes[512..520].fill(0);
    let cancel = winimg_base::event::Cancel::default();
    let report = winimg::verify::check(&bytes, None, &[], &cancel).expect("a Windows volume");
    let text = rendered(&report);
    for line in [
        "warning: the disk's partition table is damaged",
        "found: the partition table is damaged (there is no header) and is read from its backup",
        "57 of 58 checks passed, 1 warning",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_disk_without_windows_is_refused() {
    if !can_make() {
        return;
    }
    let dir = tree::folder();
    let file = dir.path().join("disk.raw");
    std::fs::File::create(&file)
        .and_then(|f| f.set_len(8 << 20))
        .expect("a disk");
    let disk = winimg_formats::disk::RawDisk::open(&file).expect("the disk");
    let cancel = winimg_base::event::Cancel::default();
    let error = winimg::verify::check(&disk, None, &[], &cancel).expect_err("no Windows");
    assert_eq!(
        error.to_string(),
        "no Windows installation found on this disk\n  expected: an NTFS partition with C:\\Windows\\System32\\config\n  \
         found: no partitions"
    );
}
