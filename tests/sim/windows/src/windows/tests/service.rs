use super::guest::Guest;
use crate::windows::{Data, agent_installed};

const KEY: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\demo";

fn with_exe() -> Guest {
    let guest = Guest::new();
    guest.put(r"C:\Program Files\demo\demo.exe", b"MZ not a real program");
    guest
}

const CREATE: &str = r#"sc.exe create demo binPath= "\"C:\Program Files\demo\demo.exe\" --config C:\k\c.toml" start= delayed-auto DisplayName= "Demo service" depend= RpcSs/EventLog"#;

#[test]
fn create_writes_what_the_manager_writes() {
    let guest = with_exe();
    assert_eq!(
        guest.run(CREATE),
        (0, "[SC] CreateService SUCCESS\n".into())
    );
    assert_eq!(guest.run(r#"sc description demo "what it does""#).0, 0);
    assert_eq!(
        guest
            .run("sc failure demo reset= 86400 actions= restart/5000/reboot/60000")
            .0,
        0
    );
    assert_eq!(guest.run("sc failureflag demo 1").0, 0);
    assert_eq!(guest.run("sc sidtype demo unrestricted").0, 0);
    let get = |name: &str| guest.windows.value(KEY, name);
    let names: Vec<String> = guest.windows.value_names(KEY);
    assert_eq!(
        names,
        [
            "Type",
            "Start",
            "ErrorControl",
            "ObjectName",
            "ImagePath",
            "DelayedAutostart",
            "DisplayName",
            "DependOnService",
            "Description",
            "FailureActions",
            "FailureActionsOnNonCrashFailures",
            "ServiceSidType"
        ]
    );
    assert_eq!(
        get("ImagePath"),
        Some(Data::Expand(
            r#""C:\Program Files\demo\demo.exe" --config C:\k\c.toml"#.into()
        ))
    );
    assert_eq!(get("Type"), Some(Data::Dword(0x10)));
    assert_eq!(get("Start"), Some(Data::Dword(2)));
    assert_eq!(get("DelayedAutostart"), Some(Data::Dword(1)));
    assert_eq!(get("ObjectName"), Some(Data::Text("LocalSystem".into())));
    assert_eq!(
        get("DependOnService"),
        Some(Data::Multi(vec!["RpcSs".into(), "EventLog".into()]))
    );
    let actions = [86400u32, 0, 0, 2, 20, 1, 5000, 2, 60000]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    assert_eq!(get("FailureActions"), Some(Data::Binary(actions)));
}

#[test]
fn errors_are_windows_error_numbers() {
    let guest = with_exe();
    guest.run(CREATE);
    guest.put(r"C:\text.exe", b"hello");
    for (line, code) in [
        (CREATE, 1073),
        (r"sc create x", 1639),
        (r"sc create x binPath=C:\x.exe", 1639),
        (r"sc create x binPath= C:\x.exe start= sometimes", 1639),
        (r"sc create x/y binPath= C:\x.exe", 123),
        (r"sc create x binPath= C:\x.exe obj= nobody", 1057),
        (
            r#"sc create x binPath= C:\x.exe DisplayName= "Demo service""#,
            1078,
        ),
        ("sc start nope", 1060),
        ("sc query nope", 1060),
        ("sc config nope start= auto", 1060),
        ("sc stop demo", 1062),
        ("sc start demo", 0),
        ("sc start demo", 1056),
        ("sc stop RpcSs", 1051),
        ("sc failure demo actions= restart/5000", 1639),
        ("sc failure demo reset= 0 actions= restart", 87),
        (r"sc create gone binPath= C:\gone.exe", 0),
        ("sc start gone", 2),
        (r"sc create text binPath= C:\text.exe", 0),
        ("sc start text", 193),
        (r"sc create console binPath= C:\Windows\System32\cmd.exe", 0),
        ("sc start console", 1053),
        ("sc config console start= disabled", 0),
        ("sc start console", 1058),
        (r"sc create lonely binPath= C:\gone.exe depend= nothing", 0),
        ("sc start lonely", 1075),
        ("sc bogus demo", 1639),
    ] {
        let (got, output) = guest.run(line);
        assert_eq!(got, code, "{line}: {output}");
    }
}

#[test]
fn a_running_service_goes_when_it_stops() {
    let guest = with_exe();
    guest.run(CREATE);
    assert_eq!(guest.run("sc start demo").0, 0);
    assert!(
        guest
            .run("sc query demo")
            .1
            .contains("        STATE              : 4  RUNNING\n")
    );
    assert_eq!(guest.run("sc delete demo").0, 0);
    assert_eq!(guest.run(CREATE).0, 1072);
    assert_eq!(guest.run("sc stop demo").0, 0);
    assert_eq!(guest.run("sc query demo").0, 1060);
}

#[test]
fn automatic_services_run_after_a_boot() {
    let mut guest = with_exe();
    guest.run(CREATE);
    guest.run(r"sc create manual binPath= C:\Windows\System32\svchost.exe");
    guest.reboot();
    assert!(guest.run("sc query demo").1.contains("RUNNING"));
    assert!(guest.run("sc query manual").1.contains("STOPPED"));
}

#[test]
fn the_agent_needs_its_service_its_program_and_its_driver() {
    let guest = Guest::new();
    assert!(!agent_installed(&guest.windows));
    guest.put(r"C:\Program Files\Qemu-ga\qemu-ga.exe", b"MZ");
    guest.run(r#"sc create QEMU-GA binPath= "\"C:\Program Files\Qemu-ga\qemu-ga.exe\" -d --retry-path" start= auto"#);
    assert!(!agent_installed(&guest.windows));
    guest.put(r"C:\Windows\System32\DriverStore\FileRepository\vioser.inf_amd64_0123456789abcdef\vioser.sys", b"MZ");
    assert!(agent_installed(&guest.windows));
    guest.run("sc config QEMU-GA start= disabled");
    assert!(!agent_installed(&guest.windows));
}

/// As tests/demo/program.py makes them.
#[test]
fn a_program_with_answers_is_also_a_service() {
    let guest = Guest::new();
    let mut file = b"MZ winimg stand-in program: answers\r\n\0\0".to_vec();
    file.resize(3000, 0xff);
    file.extend(
        b"winimg stand-in answers:\n--version\x1fdemo v1\n\x1eversion -o json\x1f{\n}\n\x1e\0more",
    );
    guest.put(r"C:\k\demo.exe", &file);
    assert_eq!(
        guest.run(r"C:\k\demo.exe --version"),
        (0, "demo v1\n".into())
    );
    assert_eq!(
        guest.run(r"C:\k\demo.exe version -o json"),
        (0, "{\n}\n".into())
    );
    assert_eq!(
        guest.run(r"C:\k\demo.exe --help"),
        (1, "unknown arguments: --help\n".into())
    );
    assert_eq!(guest.run(r"sc create demo binPath= C:\k\demo.exe").0, 0);
    assert_eq!(guest.run("sc start demo").0, 0);
}
