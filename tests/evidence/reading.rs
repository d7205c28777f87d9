//! Disks in every state that Setup can leave them in: what the page says of each.

use std::fs;
use std::os::unix::fs::FileExt as _;

use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Phase};

use crate::evidence::disks;
use crate::evidence::scene::{Failed, setup_stopped};
use support::windows_disk::{REG_DWORD, REG_SZ, WindowsDisk, can_make, dword, sz};

const CHILD: &str = r"HKLM\SYSTEM\Setup\Status\ChildCompletion";

/// The error as it is shown, and what the page says of Windows.
fn rendered(name: &str, failed: &Failed) -> String {
    let error = failed.keep(setup_stopped()).to_string();
    format!(
        "=== {name}\n{}\n--- the page\n{}\n",
        failed.filtered(&error),
        failed.section("windows")
    )
}

fn windows(change: impl FnOnce(&mut WindowsDisk)) -> Failed {
    let failed = Failed::new();
    let mut disk = WindowsDisk::sound();
    disk.not_sealed();
    disk.no_file(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag");
    disk.no_file(r"C:\Windows\Panther\unattend.xml");
    change(&mut disk);
    disk.write(&failed.disk());
    failed
}

#[test]
fn a_disk_without_windows_shows_how_far_setup_got() {
    let mut all = String::new();
    let failed = Failed::new();
    disks::empty(&failed.disk());
    all += &rendered("nothing written", &failed);

    let failed = Failed::new();
    disks::empty(&failed.disk());
    failed.write(
        "run/serial.log",
        "\x1b[2JBdsDxe: No bootable option or device was found.\r\n",
    );
    all += &rendered("nothing written, nothing boots", &failed);

    let failed = Failed::new();
    disks::without_table(&failed.disk());
    all += &rendered("no partition table", &failed);

    let failed = Failed::new();
    disks::divided(&failed.disk());
    all += &rendered("divided", &failed);

    let failed = Failed::new();
    failed.write("disk", b"QFI\xfbrubbish");
    let text = rendered("no disk image", &failed);
    assert!(
        text.contains("can&apos;t be opened") || text.contains("can't be opened"),
        "{text}"
    );
    insta::assert_snapshot!(all);
}

#[test]
fn a_formatted_disk_without_windows_shows_how_far_setup_got() {
    if !can_make() {
        return;
    }
    let mut all = String::new();
    let failed = Failed::new();
    disks::formatted(&failed.disk(), &[]);
    all += &rendered("formatted", &failed);

    let wide: Vec<u8> = "2026-01-02 03:04:05, Info       [0x1] IBS    Callback_ImageSelection\r\n2026-01-02 03:04:06, \
                         Error      [0x060432] IBS    The provided unattend file [E:\\Autounattend.xml] is not a valid \
                         unattended Setup answer file; hr = 0x1\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let failed = Failed::new();
    let log = r"$WINDOWS.~BT\Sources\Panther\setupact.log";
    disks::formatted(&failed.disk(), &[(log, &wide)]);
    all += &rendered("Setup's folder alone", &failed);
    let copied =
        failed.read("out/failure/logs-of-windows/$WINDOWS.~BT/Sources/Panther/setupact.log");
    assert!(copied.starts_with("2026-01-02 03:04:05, Info"), "{copied}");

    let failed = Failed::new();
    disks::formatted(&failed.disk(), &[(r"Windows\System32\", b"")]);
    all += &rendered("Windows was being copied", &failed);
    insta::assert_snapshot!(all);
}

#[test]
fn a_windows_that_stopped_in_setup_shows_where() {
    if !can_make() {
        return;
    }
    let mut all = String::new();
    for state in [
        "IMAGE_STATE_SPECIALIZE_RESEAL_TO_OOBE",
        "IMAGE_STATE_UNDEPLOYABLE",
        "IMAGE_STATE_OF_MIND",
    ] {
        let failed = windows(|disk| disk.image_state(state));
        all += &rendered(state, &failed);
    }
    let failed = windows(|disk| {
        disk.image_state("IMAGE_STATE_UNDEPLOYABLE");
        disk.value(CHILD, "setup.exe", REG_DWORD, &dword(1));
        disk.value(r"HKLM\SYSTEM\Setup", "SetupType", REG_DWORD, &dword(2));
        let command = sz(r"oobe\windeploy.exe");
        disk.value(r"HKLM\SYSTEM\Setup", "CmdLine", REG_SZ, &command);
        disk.dirty_hive = Some("SYSTEM");
        disk.dirty_volume = true;
        disk.file(
            r"C:\Windows\Panther\setuperr.log",
            b"2026-01-02 03:04:05, Error [0x0f0000] SYSPRP first\r\n2026-01-02 03:04:06, Error  CSI 00000001 (F) 0x800703f9 \
              <b>bold</b>\r\n",
        );
        disk.file(
            r"C:\Windows\Panther\setupact.log",
            b"2026-01-02 03:04:06, Error  CSI 00000001 (F) 0x800703f9 <b>bold</b>\r\n2026-01-02 03:04:09, Info  bye\r\n",
        );
    });
    all += &rendered("restarted in specialize", &failed);
    let failed = windows(|disk| {
        disk.image_state("IMAGE_STATE_COMPLETE");
        disk.file(r"C:\winimg\SetupComplete.log", b"pnputil: 2\r\n");
        disk.file(
            r"C:\winimg\bootstrap.done",
            b"agent=1603\r\nresult=failed\r\n",
        );
        disk.file(r"C:\winimg\payload.cmd", b"@echo off\r\n");
    });
    all += &rendered("complete, but no agent", &failed);
    let failed = windows(|disk| {
        disk.no_hive("SOFTWARE");
        disk.no_hive("SYSTEM");
    });
    all += &rendered("without a registry", &failed);
    insta::assert_snapshot!(all);
}

#[test]
fn sysprep_that_failed_is_named_with_its_package() {
    if !can_make() {
        return;
    }
    let mut failed = windows(|disk| {
        disk.image_state("IMAGE_STATE_COMPLETE");
        let key = r"HKLM\SYSTEM\Setup\Status\SysprepStatus";
        disk.value(key, "GeneralizationState", REG_DWORD, &dword(4));
        disk.file(
            r"C:\Windows\Panther\setuperr.log",
            b"2026-01-02 01:00:00, Error  the product key was odd, long ago\r\n",
        );
        disk.file(
            r"C:\Windows\System32\Sysprep\Panther\setupact.log",
            b"2026-01-02 03:04:05, Info   SYSPRP begin\r\n2026-01-02 03:04:06, Error  SYSPRP Package \
              Microsoft.MicrosoftEdge.Stable_140.0.3485.54_neutral__8wekyb3d8bbwe was installed for a user, but not provisioned \
              for all users. This package will not function properly in the sysprep image.\r\n2026-01-02 03:04:06, Error  \
              SYSPRP Failed to remove apps for the current user: 0x80073cf2.\r\n2026-01-02 03:04:07, Error  MRTGeneralize: \
              Failed ConnectServer\r\n",
        );
    });
    failed.phase = Phase::Provision;
    let error = failed.keep(Error::new(Kind::Step, "sysprep did not generalize Windows"));
    insta::assert_snapshot!(format!(
        "{}\n--- the page\n{}\n{}",
        failed.filtered(&error.to_string()),
        failed.section("causes"),
        failed.section("windows")
    ));
}

#[test]
fn of_a_huge_log_the_last_whole_lines_are_kept() {
    if !can_make() {
        return;
    }
    let failed = windows(|disk| {
        let line = "2026-01-02 03:04:05, Info                  CBS    Appl: nothing to see here, move along\r\n";
        let mut log = line.repeat(60_000);
        log += "2026-01-02 04:00:00, Error  CBS  the end [HRESULT = 0x800f081f]\r\n";
        disk.file(r"C:\Windows\Logs\CBS\CBS.log", log.as_bytes());
    });
    failed.keep(setup_stopped());
    let copied = failed.read("out/failure/logs-of-windows/Windows/Logs/CBS/CBS.log");
    assert!(
        copied.len() <= 2 << 20 && copied.len() > 1 << 20,
        "{}",
        copied.len()
    );
    assert!(copied.starts_with("2026-01-02 03:04:05, Info"));
    assert!(copied.ends_with("the end [HRESULT = 0x800f081f]\n"));
    assert!(
        failed
            .section("windows")
            .contains("CBS.log: servicing; its end only")
    );
    assert!(
        failed
            .section("causes")
            .contains("The files of a feature are missing")
    );
}

/// Bytes of the volume are overwritten here and there: the error stays what it was and the page is there.
#[test]
fn a_damaged_volume_never_hides_the_error() {
    if !can_make() {
        return;
    }
    let failed = windows(|disk| {
        disk.image_state("IMAGE_STATE_COMPLETE");
        disk.file(
            r"C:\Windows\Panther\setuperr.log",
            b"2026-01-02 03:04:05, Error x\r\n",
        );
    });
    let sound = fs::read(failed.disk()).expect("the disk");
    let volume = 35 << 20;
    let cluster = |n: u64| volume + n * 4096;
    let mut whole = 0;
    for damage in (0..24).chain([2816, 2817, 5632]) {
        fs::write(failed.disk(), &sound).expect("the disk");
        let disk = fs::OpenOptions::new()
            .write(true)
            .open(failed.disk())
            .expect("the disk");
        let rubbish: Vec<u8> = (0..4096u32)
            .map(|n| (n * 31 + damage as u32) as u8)
            .collect();
        // The boot sector's own words stay, so that there is something to be misled by.
        disk.write_all_at(&rubbish[512..], cluster(damage) + 512)
            .expect("written");
        let error = failed.keep(setup_stopped());
        assert_eq!(error.fact(), setup_stopped().fact(), "cluster {damage}");
        whole += usize::from(failed.section("windows").contains("Setup is complete"));
        assert!(!failed.section("windows").is_empty(), "cluster {damage}");
    }
    assert!(whole < 27, "no damage was seen");
}

#[test]
fn what_is_not_there_is_no_error_of_its_own() {
    let failed = Failed::new();
    let gone = failed.path("gone");
    let error = failed.keep_of(setup_stopped(), &gone, &Cancel::default());
    assert_eq!(
        failed.filtered(&error.to_string()),
        "Windows Setup stopped at a screen\n  | details: /site/out/report.html"
    );
    assert_eq!(failed.files(), ["error.txt", "failure.json"]);
    assert_eq!(failed.warned().len(), 1, "{:?}", failed.warned());
}

#[test]
fn an_interrupt_keeps_nothing() {
    let failed = Failed::new();
    failed.write("run/qemu.log", "words\n");
    let error = failed.keep(Error::cancelled());
    assert_eq!(error.to_string(), "interrupted");
    assert_eq!(failed.files(), Vec::<String>::new());
}

#[test]
fn a_full_disk_of_the_host_is_no_cause_in_the_guest() {
    let failed = Failed::new();
    let full = std::io::Error::other("There is not enough space on the disk. (os error 112)");
    let error = failed.keep(Error::io("write", "node.vhd", full));
    assert!(!error.to_string().contains("likely"), "{error}");
    let said = Error::new(Kind::Step, "a step failed in the guest");
    let error = failed.keep(said.lines(["There is not enough space on the disk."]));
    assert!(error.to_string().contains("likely"), "{error}");
}
