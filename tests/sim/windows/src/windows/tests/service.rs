use super::guest::Guest;
use crate::windows::agent_installed;

fn with_exe() -> Guest {
    let guest = Guest::new();
    guest.put(r"C:\Program Files\demo\demo.exe", b"MZ not a real program");
    guest
}

const CREATE: &str = r#"sc.exe create demo binPath= "\"C:\Program Files\demo\demo.exe\" --config C:\k\c.toml" start= delayed-auto DisplayName= "Demo service" depend= RpcSs/EventLog"#;

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
