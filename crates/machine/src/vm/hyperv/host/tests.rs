//! A shell script in place of PowerShell: a process that hangs, dies or sends invalid output.

use super::*;

/// Answers each call with its number; fails in different ways at some calls. Logs its input.
const SHELL: &str = r#"#!/bin/sh
echo '{"ready":1}'
while read -r line; do
  printf '%s\n' "$line" >> "$0.log"
  id=$(printf '%s' "$line" | sed 's/^{"id":\([0-9]*\),.*/\1/')
  case "$line" in
    *Optimize-VHD*) sleep 30 ;;
    *Convert-VHD*) echo 'WARNING: nonsense' ;;
    *Test-VHD*) echo 'the disk is on fire' >&2; exit 3 ;;
    *Set-VHD*) printf '{"id":%s,"error":{"message":"no","id":"x","category":"y","type":"z"}}\n' "$id" ;;
    *) printf '{"id":%s,"done":[{"number":%s}]}\n' "$id" "$id" ;;
  esac
done
echo ended >> "$0.log"
"#;

fn program(folder: &Path) -> PathBuf {
    let (text, file) = (folder.join("shell"), folder.join("powershell.exe"));
    std::fs::write(&text, SHELL).expect("written");
    // Written by another process: a child of a concurrent test could inherit our open file until
    // its exec, and Linux does not run a file that is open for writing (ETXTBSY).
    let installed = Command::new("install").args([&text, &file]).status();
    assert!(installed.expect("install").success());
    file
}

fn facts(host: &PowerShellHost, names: &[&'static str]) -> Vec<String> {
    let ask = |name: &&'static str| {
        let seconds = if name.ends_with("Optimize-VHD") {
            1
        } else {
            60
        };
        let call = CmdletCall::new(name).with_patience(Duration::from_secs(seconds));
        match host.call(&call, &Cancel::default()) {
            Ok(done) => done[0]["number"].to_string(),
            Err(trouble) => trouble.describe(),
        }
    };
    names.iter().map(ask).collect()
}

#[test]
fn a_process_that_fails_is_replaced_by_one_that_knows_the_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let host = PowerShellHost::new(program.clone()).expect("a host");
    host.set_owned(Some("vm-1"));
    let rendered = facts(
        &host,
        &[
            r"Hyper-V\Get-VHD",
            r"Hyper-V\Set-VHD",
            r"Hyper-V\Optimize-VHD",
            r"Hyper-V\Convert-VHD",
            r"Hyper-V\Test-VHD",
            r"Hyper-V\Get-VHD",
        ],
    );
    assert_eq!(
        rendered,
        [
            "3",
            "no",
            r"PowerShell did not answer Hyper-V\Optimize-VHD within 1 s and was killed",
            "unexpected output of PowerShell: WARNING: nonsense",
            "the PowerShell process for Hyper-V died: it ended",
            "14",
        ]
    );
    let words = host.last_words();
    assert_eq!(words, ["the disk is on fire"]);
    let generation = host.generation(&Cancel::default());
    assert_eq!(generation, Ok(4));
    drop(host);
    let log = std::fs::read_to_string(program.with_file_name("powershell.exe.log"));
    let log = log.expect("a log");
    let found = r#""call":"Hyper-V\\Get-VM","with":{"Id":"vm-1"},"keep":"vm"}"#;
    assert_eq!(log.matches(found).count(), 4, "{log}");
    let owned = r#""call":"script:own","with":{"VmId":"vm-1"}}"#;
    assert_eq!(log.matches(owned).count(), 4, "{log}");
    assert!(log.ends_with("ended\n"), "{log}");
}

#[test]
fn without_windows_powershell_the_host_is_called_another() {
    let host = PowerShellHost::new("/nowhere/powershell.exe".into()).expect("a host");
    let call = CmdletCall::new(r"Hyper-V\Get-VM");
    let trouble = host
        .call(&call, &Cancel::default())
        .expect_err("no such program");
    assert_eq!(
        super::super::errors::explain("look at this host", &trouble).to_string(),
        "/nowhere/powershell.exe cannot be started: No such file or directory (os error 2)\n  \
         cure: Hyper-V needs Windows: on other hosts omit --hypervisor to use QEMU"
    );
}
