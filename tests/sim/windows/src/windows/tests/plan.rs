//! Scripts that winimg's plan writes (the snapshots of `crates/recipe/tests/plan`), run by the stand-in's cmd.

use winimg_test_support::tree::snapshot;

use super::guest::Guest;
use crate::windows::Power;

/// The script `s\NAME.cmd` of the plan's text.
fn script(name: &str) -> String {
    script_of("windows", name)
}

fn script_of(plan: &str, name: &str) -> String {
    let text = snapshot(&format!(
        "crates/recipe/tests/plan/snapshots/recipe__plan__{plan}.snap"
    ));
    let head = format!("             s\\{name}.cmd\n");
    let (_, rest) = text.split_once(&head).unwrap();
    let lines = rest
        .lines()
        .map_while(|line| line.strip_prefix("             |"));
    let lines: Vec<&str> = lines.map(|line| line.trim_start_matches(' ')).collect();
    lines.join("\n") + "\n"
}

/// The file of that name on the plan's payload disc.
fn file_of(plan: &str, name: &str) -> String {
    let text = snapshot(&format!(
        "crates/recipe/tests/plan/snapshots/recipe__plan__{plan}.snap"
    ));
    let head = format!(r"\{name} (UTF-");
    let (_, rest) = text.split_once(&head).unwrap();
    let lines = rest.lines().skip(1);
    let lines = lines.map_while(|line| line.strip_prefix("             |"));
    let lines: Vec<&str> = lines.map(|l| l.strip_prefix(' ').unwrap_or(l)).collect();
    lines.join("\n") + "\n"
}

const PENDING: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending";

#[test]
fn cleanup_empties_folders_and_leaves_them() {
    let guest = Guest::new();
    let files = [
        r"C:\var\log\kubelet\a.log",
        r"C:\var\log\kubelet\deep er\b & c.log",
        r"C:\k\x.zip",
        r"C:\Windows\Temp\x 1.tmp",
        r"C:\Windows\Temp\sub\y.tmp",
        r"C:\Windows\SoftwareDistribution\Download\ab\cd.cab",
        r"C:\Users\Administrator\AppData\Local\Temp\z.tmp",
        r"C:\Users\Administrator\AppData\Local\Temp\sub\z.tmp",
        r"C:\Windows\Panther\setupact.log",
        r"C:\Windows\Logs\CBS\CBS.log",
        r"C:\Windows\INF\setupapi.dev.log",
    ];
    let kept = [r"C:\k\y.zip", r"C:\var\log\other.log"];
    for file in files.iter().chain(&kept) {
        guest.put(file, b"x");
    }
    // A second time there is nothing left to do, which is fine.
    for _ in 0..2 {
        let (code, said) = guest.batch(&script("017-2"));
        assert_eq!(code, 0, "{said}");
        for file in files {
            assert!(!guest.host(file).exists(), "{file}\n{said}");
        }
    }
    for path in kept.iter().chain(&[
        r"C:\var\log\kubelet",
        r"C:\Windows\Temp",
        r"C:\Windows\SoftwareDistribution\Download",
    ]) {
        assert!(guest.host(path).exists(), "{path}");
    }
}

/// `stage.cmd`'s values go, whether they are all there or none is.
#[test]
fn the_seal_takes_back_what_the_bootstrap_set() {
    let seal = file_of("sealing", "seal.cmd");
    let lines: Vec<&str> = seal.lines().filter(|l| l.contains("reg.exe")).collect();
    let lines: Vec<&str> = lines
        .into_iter()
        .filter(|l| !l.contains("ImageState"))
        .collect();
    assert_eq!(lines.len(), 16, "{seal}");
    let text = format!("@echo off\n{}\nexit /b 0\n", lines.join("\n"));
    let guest = Guest::new();
    assert_eq!(guest.batch(&text), (0, String::new()), "nothing is there");
    let au = r"HKLM\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU";
    let window = r"HKLM\SYSTEM\CurrentControlSet\Control\Network\NewNetworkWindowOff";
    for line in [
        format!("reg.exe add \"{au}\" /v NoAutoUpdate /t REG_DWORD /d 1 /f"),
        format!("reg.exe add \"{au}\" /v AUOptions /t REG_DWORD /d 2 /f"),
        format!("reg.exe add \"{window}\" /f"),
    ] {
        assert_eq!(guest.run(&line).0, 0, "{line}");
    }
    assert_eq!(guest.batch(&text), (0, String::new()));
    let there = |what: &str| guest.run(&format!("reg.exe query {what}")).0 == 0;
    assert!(!there(&format!("\"{au}\" /v NoAutoUpdate")));
    assert!(there(&format!("\"{au}\" /v AUOptions")));
    assert!(!there(&format!("\"{window}\"")));
}

const SEAL: &str = "winimg-seal";
const CACHE: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Schedule\TaskCache\Tree";

/// A guest with the plan's disc in D:, whose seal is registered and not started.
fn about_to_be_sealed() -> Guest {
    let guest = Guest::new();
    let crlf = |text: String| text.replace('\n', "\r\n");
    let wide = |text: String| -> Vec<u8> {
        let units = crlf(text)
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<_>>();
        [&[0xff, 0xfe], units.as_slice()].concat()
    };
    let plan = "sealing-none";
    guest.put(
        r"D:\p\0000\seal.cmd",
        crlf(file_of(plan, "seal.cmd")).as_bytes(),
    );
    guest.put(
        r"D:\p\0001\seal-task.xml",
        &wide(file_of(plan, "seal-task.xml")),
    );
    guest.put(r"D:\s\001.cmd", crlf(script_of(plan, "001")).as_bytes());
    guest.put(r"C:\winimg\payload.cmd", b"");
    let (code, said) = guest.run(r"cmd.exe /d /c D:\s\001.cmd");
    assert_eq!(code, 0, "{said}");
    guest
}

/// Starts it, and gives the log of one that gave up.
fn sealed(guest: &Guest) -> Option<String> {
    assert_eq!(guest.run(&format!("schtasks.exe /run /tn {SEAL}")).0, 0);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let failed = guest.host(r"C:\winimg\seal-failed.log");
    while std::time::Instant::now() < deadline {
        if failed.exists() {
            return Some(guest.text(r"C:\winimg\seal-failed.log"));
        }
        if guest.power().is_some() {
            return None;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the seal did not end");
}

#[test]
fn the_task_seals_powers_off_and_leaves_nothing() {
    let guest = about_to_be_sealed();
    assert!(
        guest
            .windows
            .set_password("Administrator", "Winimg-Build-1!")
    );
    // What a session left that broke.
    guest.put(r"C:\ProgramData\winimg-jobs\j\output.bin", b"x");
    for line in [
        "schtasks /create /tn winimg-j /tr C:\\k.exe /sc once /st 00:00",
        "schtasks /create /tn other /tr C:\\k.exe /sc once /st 00:00",
    ] {
        assert_eq!(guest.run(line).0, 0, "{line}");
    }
    assert_eq!(sealed(&guest), None);
    assert_eq!(guest.power(), Some(Power::Shutdown));
    for path in [
        r"C:\winimg",
        r"C:\ProgramData\winimg-jobs",
        r"C:\Windows\System32\Tasks\winimg-seal",
        r"C:\Windows\System32\Tasks\winimg-j",
    ] {
        assert!(!guest.host(path).exists(), "{path}");
    }
    let id = |name: &str| guest.windows.value(&format!(r"{CACHE}\{name}"), "Id");
    assert_eq!((id(SEAL), id("winimg-j")), (None, None));
    assert!(id("other").is_some());
    let state = guest.windows.image_state();
    let wanted = "IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE";
    assert_eq!(state.as_deref(), Some(wanted));
}

#[test]
fn a_seal_that_fails_stops_before_the_power_off_and_says_where() {
    let tag = r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag";
    let guest = about_to_be_sealed();
    assert_eq!(guest.run(&format!("reg.exe add \"{PENDING}\" /f")).0, 0);
    let log = sealed(&guest).expect("sysprep refuses a pending restart");
    assert_eq!(
        log,
        "stage: take back what the build set\nstage: sysprep\nsysprep ended with 1\n"
    );
    assert!(!guest.host(tag).exists());
    // Tried again, with another fault: the tag is a folder, which `del` does not remove.
    assert_eq!(guest.run(&format!("reg.exe delete \"{PENDING}\" /f")).0, 0);
    guest.put(&format!(r"{tag}\x"), b"");
    assert_eq!(guest.run(r"cmd.exe /d /c D:\s\001.cmd").0, 0);
    let log = sealed(&guest).expect("the tag stays");
    assert_eq!(
        log.lines().next(),
        Some("stage: take back what the build set")
    );
    assert!(!log.contains("stage: sysprep"), "{log}");
    std::fs::remove_dir_all(guest.host(tag)).unwrap();
    assert_eq!(guest.run(r"cmd.exe /d /c D:\s\001.cmd").0, 0);
    assert_eq!(sealed(&guest), None);
}

#[test]
fn what_is_at_work_before_the_seal_is_named() {
    const CBS: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing";
    const UPDATE: &str =
        r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired";
    let settle = script_of("sealing", "000-2");
    let guest = Guest::new();
    guest.put(r"C:\winimg\payload.cmd", b"");
    guest.put(r"C:\servicing\TiWorker.exe", b"MZ");
    let worker =
        r#"sc create worker binPath= "C:\servicing\TiWorker.exe -Embedding" start= demand"#;
    assert_eq!(guest.run(worker).0, 0);
    assert_eq!(guest.batch(&settle), (0, String::new()));

    let key = |name: &str| format!(r"{CBS}\{name}");
    for (begin, end, named, restarts) in [
        (
            format!("reg add \"{}\" /f", key("RebootPending")),
            format!("reg delete \"{}\" /f", key("RebootPending")),
            format!("servicing waits for a restart: {}\n", key("RebootPending")),
            true,
        ),
        (
            format!("reg add \"{}\" /f", key("PackagesPending")),
            format!("reg delete \"{}\" /f", key("PackagesPending")),
            format!(
                "packages wait to be installed: {}\n",
                key("PackagesPending")
            ),
            false,
        ),
        (
            format!("reg add \"{UPDATE}\" /f"),
            format!("reg delete \"{UPDATE}\" /f"),
            format!("Windows Update waits for a restart: {UPDATE}\n"),
            true,
        ),
        (
            "sc start worker".to_owned(),
            "sc stop worker".to_owned(),
            "servicing is at work: process TiWorker.exe\n".to_owned(),
            false,
        ),
        (
            "sc start TrustedInstaller".to_owned(),
            "sc stop TrustedInstaller".to_owned(),
            "servicing is at work: service TrustedInstaller\n".to_owned(),
            false,
        ),
    ] {
        assert_eq!(guest.run(&begin).0, 0, "{begin}");
        let code = if restarts { 3010 } else { 1618 };
        assert_eq!(guest.batch(&settle), (code, named), "{begin}");
        assert_eq!(guest.run(&end).0, 0, "{end}");
        assert_eq!(guest.batch(&settle), (0, String::new()), "{end}");
    }
    // All at once: a restart waits until the work has ended, and a service that only waits for the restart does not hold it up.
    let pending = format!("reg add \"{}\" /f", key("RebootPending"));
    for begin in ["sc start worker", "sc start TrustedInstaller", &pending] {
        assert_eq!(guest.run(begin).0, 0, "{begin}");
    }
    let (code, said) = guest.batch(&settle);
    assert_eq!((code, said.lines().count()), (1618, 3), "{said}");
    assert_eq!(guest.run("sc stop worker").0, 0);
    let (code, said) = guest.batch(&settle);
    assert_eq!((code, said.lines().count()), (3010, 2), "{said}");
    // A list that can't be made names nothing, and is no rest.
    std::fs::remove_file(guest.host(r"C:\Windows\System32\tasklist.exe")).unwrap();
    assert_eq!(guest.batch(&settle).0, 1);
}

#[test]
fn a_failing_first_pass_of_cloudbase_init_is_tried_three_times() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../recipes/packs/cloudbase-init/first-pass.cmd"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let guest = Guest::new();
    assert_eq!(guest.batch(&text).0, 0, "cloudbase-init is not there");
    // No program of the stand-in's: it does not start.
    guest.put(
        r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\Python\Scripts\cloudbase-init.exe",
        b"MZ",
    );
    let codes: Vec<u32> = (0..4).map(|_| guest.batch(&text).0).collect();
    assert_eq!(codes, [2, 2, 1, 1]);
    let noted = guest.get(r"C:\Windows\Temp\cloudbase-init-first-pass-1.txt");
    let noted = String::from_utf8_lossy(&noted).into_owned();
    assert!(noted.starts_with("first failure, exit code "), "{noted}");
    assert!(
        noted.trim_end().ends_with(|c: char| c.is_ascii_digit()),
        "{noted}"
    );
}

#[test]
fn the_installer_of_vmware_tools_goes_only_when_they_are_installed() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../recipes/packs/vmware/install-tools.cmd"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let guest = Guest::new();
    let script = r"C:\Windows\Setup\VMware\install-tools.cmd";
    let installer = r"C:\Windows\Setup\VMware\VMware-tools-x64.exe";
    guest.put(script, text.replace('\n', "\r\n").as_bytes());
    let run = format!("cmd.exe /d /c {script}");
    assert_eq!(guest.run(&run).0, 0, "without an installer");
    // No program of the stand-in's: it does not start, which is its end.
    guest.put(installer, b"MZ");
    assert_eq!(guest.run(&run).0, 0);
    let log = guest.text(r"C:\Windows\Temp\vmware-tools.log");
    assert!(
        log.starts_with("VMware Tools' installer ended with "),
        "{log}"
    );
    assert!(guest.host(installer).exists(), "for the second attempt");
    let tools = r#"sc create VMTools binPath= "C:\k\vmtoolsd.exe" start= demand"#;
    assert_eq!(guest.run(tools).0, 0);
    assert_eq!(guest.run(&run).0, 0);
    assert!(!guest.host(installer).exists(), "they are installed");
}

#[test]
fn a_pending_restart_is_seen() {
    let guest = Guest::new();
    for name in ["012-3", "017"] {
        assert_eq!(guest.batch(&script(name)).0, 0, "{name}");
    }
    assert_eq!(guest.run(&format!("reg.exe add \"{PENDING}\" /f")).0, 0);
    for name in ["012-3", "017"] {
        let (code, said) = guest.batch(&script(name));
        assert_eq!(
            (code, said.as_str()),
            (3010, "Windows waits for a restart\n")
        );
    }
}

#[test]
fn features_are_enabled_together_and_by_name() {
    let guest = Guest::new();
    let line = |names: &str| {
        format!(
            r"C:\Windows\System32\dism.exe /online /enable-feature {names} /all /norestart /quiet"
        )
    };
    let two = line("/featurename:Containers /featurename:Microsoft-Hyper-V-Management-PowerShell");
    assert_eq!(guest.run(&two).0, 3010);
    assert_eq!(guest.run(&two).0, 3010, "a second time");
    assert_eq!(guest.run(&line("/featurename:Contaners")).0, 0x800f_080c);
}
