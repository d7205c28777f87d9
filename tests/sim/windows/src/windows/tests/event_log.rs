//! The System log, read by another program.

use std::process::Command;

use winimg_test_support::{media, tree};

use super::guest::Guest;

const LOG: &str = r"C:\Windows\System32\winevt\Logs\System.evtx";

/// The log's events as dissect.eventlog reads them: number, provider, event and data of each.
fn judged(guest: &Guest) -> Option<String> {
    if !media::have(&["python3"]) {
        return None;
    }
    media::run(media::text(&tree::root().join("tests/record/venv.sh")), &[]);
    let output = Command::new(tree::root().join("target/record-venv/bin/python"))
        .arg(tree::root().join("tests/record/event_log.py"))
        .arg(guest.host(LOG))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_start_and_services_that_fail_are_in_the_log() {
    let mut guest = Guest::new();
    for line in [
        r#"sc create one binPath= C:\one.exe start= auto DisplayName= "Number one""#,
        r"sc create two binPath= C:\two.exe start= auto depend= one",
        r#"sc create three binPath= "C:\Windows\System32\cmd.exe /d /c exit" start= auto"#,
    ] {
        assert_eq!(guest.run(line).0, 0, "{line}");
    }
    guest.reboot();
    let Some(text) = judged(&guest) else { return };
    assert_eq!(
        text,
        "1 EventLog 6005\n2 EventLog 6005\n\
         3 Service Control Manager 7000 Number one | %%2\n\
         4 Service Control Manager 7009 30000 | three\n\
         5 Service Control Manager 7000 three | %%1053\n\
         6 Service Control Manager 7000 Number one | %%2\n\
         7 Service Control Manager 7001 two | Number one | %%2\n"
    );
    assert_eq!(guest.run("wevtutil cl System").0, 0);
    assert_eq!(judged(&guest).unwrap(), "");
}

#[test]
fn a_long_log_has_several_chunks() {
    let guest = Guest::new();
    for number in 2..=600 {
        let text = format!("service {number}");
        let machine = &guest.windows.machine;
        machine.log_event(crate::windows::evtx::MANAGER, 7036, &[&text, "stopped"]);
    }
    let Some(text) = judged(&guest) else { return };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 600);
    let last = "600 Service Control Manager 7036 service 600 | stopped";
    assert_eq!(lines[599], last);
}
