//! A sealed disk, sound but for one thing: that one, and no other, is what `verify` names.
//!
//! The table of all of them is `snapshots/machines__verify__sealed__each_sabotage_is_named.snap`.

use std::fmt::Write as _;

use support::tree::{self, root};
use support::windows_disk::*;

use winimg::verify::{VerifyReport, check};
use winimg_base::event::Cancel;
use winimg_formats::disk::RawDisk;
use winimg_recipe::plan::check::{ImageCheck, StepChecks};
use winimg_recipe::target::{self, TargetSpec};
use winimg_recipe::{GuestPath, ReadOptions, RegistryKey, RegistryValueData};

use crate::verify::expected::rendered;

const SERVICES: &str = r"HKLM\SYSTEM\ControlSet001\Services";
const CURRENT: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion";
const NT: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";
const PANTHER: &str = r"C:\Windows\Panther\unattend.xml";
const AGENT: &str = r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\conf\cloudbase-init.conf";
const SETTINGS: &str = "[DEFAULT]\r\nusername=capi\r\nrename_admin_user=false\r\n";
const STARTER: &str = r"C:\Windows\Setup\Scripts\SetupComplete.cmd";

/// As `{{disable_administrator}}` and the first pass of cloudbase-init are rendered.
const ANSWERS: &str = r#"<unattend xmlns="urn:schemas-microsoft-com:unattend">
  <settings pass="specialize">
    <component name="Microsoft-Windows-Deployment">
      <RunSynchronous>
        <RunSynchronousCommand><Order>1</Order>
          <Path>powershell.exe -Command "Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' } | Disable-LocalUser"</Path>
        </RunSynchronousCommand>
        <RunSynchronousCommand><Order>2</Order>
          <Path>C:\Windows\System32\cmd.exe /d /c C:\Windows\Setup\Scripts\cloudbase-init.cmd</Path>
        </RunSynchronousCommand>
      </RunSynchronous>
    </component>
  </settings>
</unattend>
"#;

/// A node of Server 2025 with a desktop, sealed for OpenStack and vSphere, that cloudbase-init provisions.
fn node() -> WindowsDisk {
    let mut disk = WindowsDisk::sound();
    disk.value(NT, "CurrentBuildNumber", REG_SZ, &sz("26100"));
    disk.value(NT, "InstallationType", REG_SZ, &sz("Server"));
    disk.key(&format!(r"{NT}\ProfileList\S-1-5-18"));
    disk.file(PANTHER, ANSWERS.as_bytes());
    disk.file(AGENT, SETTINGS.as_bytes());
    start(&mut disk, "cloudbase-init", 3);
    for driver in ["viostor", "stornvme", "vmbus", "storvsc", "vpci"] {
        start(&mut disk, driver, 0);
        disk.file(&sys(driver), b"MZ");
    }
    // Inbox drivers are below `System32`, others below `\SystemRoot`.
    for (driver, path) in [
        ("viostor", r"\SystemRoot\System32\drivers\viostor.sys"),
        ("stornvme", r"System32\drivers\stornvme.sys"),
    ] {
        let key = format!(r"{SERVICES}\{driver}");
        disk.value(&key, "ImagePath", REG_EXPAND_SZ, &sz(path));
    }
    disk.key(&format!(r"{CURRENT}\RunOnce"));
    disk.folder(r"C:\var\lib\kubelet\pki");
    disk.user("Administrator", 500, false);
    disk
}

fn start(disk: &mut WindowsDisk, service: &str, start: u32) {
    let key = format!(r"{SERVICES}\{service}");
    disk.value(&key, "Start", REG_DWORD, &dword(start));
}

fn sys(driver: &str) -> String {
    format!(r"C:\Windows\System32\drivers\{driver}.sys")
}

/// What the step `generalize` expects.
fn steps() -> Vec<StepChecks> {
    let sealed = vec![
        ImageCheck::Missing {
            path: GuestPath::from_static(r"C:\winimg"),
        },
        ImageCheck::Exists {
            path: GuestPath::from_static(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag"),
        },
        ImageCheck::Registry {
            key: RegistryKey::from_static(SETUP_STATE),
            value: Some("ImageState".into()),
            data: RegistryValueData::Sz("IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE".into()),
        },
    ];
    vec![StepChecks {
        step: "seal".into(),
        place: "recipe.toml:20:1".into(),
        checks: sealed,
    }]
}

fn targets(names: &[&str]) -> Vec<TargetSpec> {
    let options = ReadOptions {
        search: vec![root().join("recipes")],
        ..ReadOptions::default()
    };
    let (all, problems) = target::load_all(&options);
    assert!(problems.0.is_empty(), "{problems:?}");
    let named = |target: &TargetSpec| names.contains(&target.name.as_str());
    let found: Vec<TargetSpec> = all.into_iter().filter(named).collect();
    assert_eq!(found.len(), names.len());
    found
}

fn judged(disk: &WindowsDisk, steps: Option<&[StepChecks]>, names: &[&str]) -> VerifyReport {
    let folder = tree::folder();
    let file = folder.path().join("disk.raw");
    disk.write(&file);
    let disk = RawDisk::open(&file).expect("the disk");
    let targets = targets(names);
    let targets: Vec<&TargetSpec> = targets.iter().collect();
    check(&disk, steps, &targets, &Cancel::default()).expect("a Windows volume")
}

const FOR: [&str; 2] = ["openstack", "vsphere"];

/// What is done, and how.
type Sabotage = (&'static str, fn(&mut WindowsDisk));

const STATE: &[Sabotage] = &[
    ("SetupType is 0", |d| {
        d.value(SETUP, "SetupType", REG_DWORD, &dword(0))
    }),
    ("SetupType is gone", |d| d.no_value(SETUP, "SetupType")),
    ("CmdLine is empty", |d| {
        d.value(SETUP, "CmdLine", REG_SZ, &sz(""))
    }),
    ("CmdLine runs another program", |d| {
        d.value(SETUP, "CmdLine", REG_SZ, &sz(r"C:\agent\setup.exe"));
    }),
    ("GeneralizationState of a finished machine", |d| {
        d.value(SYSPREP_STATUS, "GeneralizationState", REG_DWORD, &dword(7));
    }),
    ("CleanupState is gone", |d| {
        d.no_value(SYSPREP_STATUS, "CleanupState")
    }),
    ("the image was started after the seal", |d| {
        d.image_state("IMAGE_STATE_COMPLETE");
    }),
    ("sysprep's tag is gone", |d| {
        d.no_file(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag");
    }),
    ("C:\\winimg is left", |d| d.folder(r"C:\winimg")),
];

const FIRST_BOOT: &[Sabotage] = &[
    ("the answer file is gone", |d| d.no_file(PANTHER)),
    ("an answer file that stands before it", |d| {
        d.file(r"C:\Windows\Panther\Unattend\unattend.xml", b"<unattend/>");
    }),
    ("UnattendFile names another", |d| {
        d.value(SETUP, "UnattendFile", REG_SZ, &sz(r"C:\agent\unattend.xml"));
    }),
    ("a script for the end of Setup", |d| {
        d.file(STARTER, b"sc start agent\r\n")
    }),
    ("a program in RunOnce", |d| {
        d.value(
            &format!(r"{CURRENT}\RunOnce"),
            "agent",
            REG_SZ,
            &sz(r"C:\agent\finish.exe"),
        );
    }),
    ("a restart is owed", |d| {
        d.key(&format!(
            r"{CURRENT}\Component Based Servicing\RebootPending"
        ));
    }),
    ("an installation over a restart is under way", |d| {
        d.key(&format!(
            r"{CURRENT}\Component Based Servicing\RebootInProgress"
        ));
    }),
    ("servicing waits for the next start", |d| {
        d.file(r"C:\Windows\WinSxS\pending.xml", b"<x/>");
    }),
    ("a Recovery partition behind C:", |d| {
        d.recovery_behind = true
    }),
];

const ACCOUNTS: &[Sabotage] = &[
    ("cloudbase-init is automatic", |d| {
        start(d, "cloudbase-init", 2)
    }),
    ("the disabled account is renamed", |d| {
        d.file(AGENT, SETTINGS.replace("false", "True").as_bytes());
    }),
    ("the built-in account stays enabled", |d| {
        let answers = ANSWERS
            .replace("Get-LocalUser", "Get-Date")
            .replace("-500", "-1000");
        d.file(
            PANTHER,
            answers.replace("Disable-LocalUser", "Out-Null").as_bytes(),
        );
    }),
    ("a profile of the build's Administrator", |d| {
        d.key(&format!(r"{NT}\ProfileList\S-1-5-21-1-2-3-500"));
    }),
    ("Windows logs on by itself", |d| {
        d.value(
            &format!(r"{NT}\Winlogon"),
            "AutoAdminLogon",
            REG_SZ,
            &sz("1"),
        );
    }),
];

const IDENTITY: &[Sabotage] = &[
    ("keys of kubelet", |d| {
        d.file(r"C:\var\lib\kubelet\pki\kubelet.key", b"key");
        d.file(r"C:\var\lib\kubelet\pki\kubelet.crt", b"certificate");
    }),
    ("a node of a cluster", |d| {
        d.file(r"C:\etc\kubernetes\kubelet.conf", b"kind: Config")
    }),
    ("a token to join with", |d| {
        d.file(r"C:\etc\kubernetes\bootstrap-kubelet.conf", b"kind: Config");
    }),
    ("a password of Rancher's agent", |d| {
        d.file(r"C:\etc\rancher\node\password", b"x")
    }),
    ("EC2Launch has run", |d| {
        d.file(r"C:\ProgramData\Amazon\EC2Launch\state\.run-once", b"");
    }),
    ("a certificate of the machine", |d| {
        let store = r"HKLM\SOFTWARE\Microsoft\SystemCertificates\MY\Certificates";
        d.key(&format!(
            r"{store}\0011223344556677889900112233445566778899"
        ));
    }),
    ("SSH host keys", |d| {
        d.file(r"C:\ProgramData\ssh\ssh_host_ed25519_key", b"key")
    }),
    ("cloudbase-init's plugins have run", |d| {
        d.key(r"HKLM\SOFTWARE\Cloudbase Solutions\Cloudbase-Init\i-1\Plugins");
    }),
];

const BOOT_DRIVERS: &[Sabotage] = &[
    ("the driver's file is gone", |d| d.no_file(&sys("viostor"))),
    ("the driver starts on demand", |d| start(d, "viostor", 3)),
    ("the driver's service has no start", |d| {
        d.no_value(&format!(r"{SERVICES}\stornvme"), "Start");
    }),
    ("the driver was switched off", |d| {
        let key = format!(r"{SERVICES}\stornvme\StartOverride");
        d.value(&key, "0", REG_DWORD, &dword(3));
    }),
];

const TABLE: [(&str, &[Sabotage]); 5] = [
    ("sysprep's state", STATE),
    ("the first boot", FIRST_BOOT),
    ("who logs in", ACCOUNTS),
    ("identity", IDENTITY),
    ("boot drivers", BOOT_DRIVERS),
];

#[test]
fn each_sabotage_of_a_sealed_disk_is_named() {
    if !can_make() {
        return;
    }
    let steps = steps();
    let mut table = String::new();
    let mut amiss = Vec::new();
    for (kind, rows) in TABLE {
        writeln!(table, "## {kind}").expect("a String");
        for (name, sabotage) in rows {
            let mut disk = node();
            sabotage(&mut disk);
            let report = judged(&disk, Some(&steps), &FOR);
            if report.findings.len() != 1 {
                amiss.push((name, rendered(&report)));
            }
            writeln!(table, "\n{name}").expect("a String");
            for finding in &report.findings {
                writeln!(table, "{finding}").expect("a String");
            }
        }
        table.push('\n');
    }
    assert!(amiss.is_empty(), "not one finding each: {amiss:#?}");
    insta::assert_snapshot!(table);
}

#[test]
fn a_sealed_node_is_sound_with_and_without_a_manifest() {
    if !can_make() {
        return;
    }
    let disk = node();
    let with = judged(&disk, Some(&steps()), &FOR);
    let hyperv = judged(&disk, Some(&steps()), &["hyperv-gen2"]);
    let without = judged(&disk, None, &[]);
    let summary = |report: &VerifyReport| rendered(report);
    insta::assert_snapshot!(format!(
        "for two targets: {}for another: {}without a manifest: {}",
        summary(&with),
        summary(&hyperv),
        summary(&without)
    ));
}

/// Without a manifest nobody has asked for the tag; and no target is known.
#[test]
fn without_a_manifest_the_disk_alone_says_that_it_is_armed() {
    if !can_make() {
        return;
    }
    let mut disk = node();
    disk.no_file(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag");
    disk.value(SETUP, "SetupType", REG_DWORD, &dword(0));
    insta::assert_snapshot!(rendered(&judged(&disk, None, &[])));
}

/// Azure brings the answer file; a target's driver is looked for by its controller.
#[test]
fn what_a_target_asks_is_judged_for_it_alone() {
    if !can_make() {
        return;
    }
    let mut said = String::new();
    let mut silent = node();
    silent.no_file(PANTHER);
    silent.user("Administrator", 500, true);
    for (name, disk, targets) in [
        ("an answer file, for Azure", node(), &["azure"][..]),
        ("none, for Azure", silent, &["azure"]),
        ("no vioscsi, for Proxmox", node(), &["proxmox"]),
        ("no drivers for IDE, for Hyper-V", node(), &["hyperv-gen1"]),
    ] {
        let report = judged(&disk, Some(&steps()), targets);
        writeln!(said, "=== {name}\n{}", rendered(&report)).expect("a String");
    }
    insta::assert_snapshot!(said);
}

/// A machine that is not meant to be cloned is no sealed image, whatever is in it.
#[test]
fn a_machine_that_no_step_seals_is_not_asked() {
    if !can_make() {
        return;
    }
    let mut disk = node();
    disk.value(SETUP, "SetupType", REG_DWORD, &dword(0));
    disk.value(SETUP, "CmdLine", REG_SZ, &sz(""));
    disk.image_state("IMAGE_STATE_COMPLETE");
    disk.file(r"C:\etc\kubernetes\kubelet.conf", b"kind: Config");
    let report = judged(&disk, Some(&[]), &FOR);
    assert_eq!(report.findings, [], "{}", rendered(&report));
}

/// What steps say of a thing is theirs to judge.
#[test]
fn what_a_step_put_there_is_meant() {
    if !can_make() {
        return;
    }
    let mut disk = node();
    let token = r"C:\etc\kubernetes\bootstrap-kubelet.conf";
    disk.file(token, b"kind: Config");
    let key = format!(r"{CURRENT}\RunOnce");
    disk.value(&key, "agent", REG_SZ, &sz(r"C:\agent\finish.exe"));
    disk.no_file(PANTHER);
    disk.file(STARTER, b"sc start agent\r\n");
    let mut steps = steps();
    steps[0].checks.extend([
        ImageCheck::Exists {
            path: token.parse().expect("a path"),
        },
        ImageCheck::Exists {
            path: GuestPath::from_static(STARTER),
        },
        ImageCheck::Registry {
            key: key.parse().expect("a key"),
            value: Some("Agent".into()),
            data: RegistryValueData::Sz(r"C:\agent\finish.exe".into()),
        },
        ImageCheck::Missing {
            path: GuestPath::from_static(PANTHER),
        },
    ]);
    let report = judged(&disk, Some(&steps), &FOR);
    assert_eq!(report.findings, [], "{}", rendered(&report));
}

/// Who starts cloudbase-init, and who disables the account, may also stand elsewhere.
#[test]
fn an_agent_is_judged_by_whoever_starts_it() {
    if !can_make() {
        return;
    }
    let mut disk = node();
    disk.file(
        PANTHER,
        ANSWERS
            .replace("cloudbase-init.cmd", "agent.cmd")
            .as_bytes(),
    );
    start(&mut disk, "cloudbase-init", 2);
    let alone = judged(&disk, None, &[]);
    assert_eq!(alone.findings, [], "{}", rendered(&alone));
    disk.file(STARTER, b"NET START Cloudbase-Init\r\n");
    let twice = judged(&disk, None, &[]);
    disk.no_file(STARTER);
    disk.no_file(PANTHER);
    disk.user("Administrator", 500, true);
    disk.file(AGENT, b"[DEFAULT]\nRename_Admin_User = true\n");
    let renamed = judged(&disk, Some(&steps()), &["azure"]);
    disk.file(
        AGENT,
        b"rename_admin_user=true\nplugins=cloudbaseinit.plugins.common.mtu.MTUPlugin\n",
    );
    let no_user = judged(&disk, Some(&steps()), &["azure"]);
    assert_eq!(no_user.findings, [], "{}", rendered(&no_user));
    insta::assert_snapshot!(format!("{}{}", rendered(&twice), rendered(&renamed)));
}
