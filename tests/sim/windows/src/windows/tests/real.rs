use super::guest::Guest;

/// What a compiler made, without the stand-in's marker.
const PROGRAM: &[u8] = b"MZ\x90\0 a program as Go makes them";
/// `sha256sum` of it.
const DIGEST: &str = "0d8d4c590168296a762823f31692e82987a7409eecbdaf89d9a712d901602e44";

fn table() -> String {
    format!(
        r#"[{{"size": {}, "sha256": "{DIGEST}", "answers": [
            {{"arguments": ["--version"], "stdout": "demo v1\n", "stderr": "", "code": 0}},
            {{"arguments": ["check", "a b"], "stdout": "", "stderr": "no such thing\n", "code": 3}}
        ]}}]"#,
        PROGRAM.len()
    )
}

#[test]
fn a_real_program_says_what_was_recorded_of_it_wherever_it_lies() {
    let guest = Guest::with_programs(&table());
    for path in [r"C:\k\demo.exe", r"C:\other\name.exe"] {
        guest.put(path, PROGRAM);
        let said = guest.run(&format!("{path} --version"));
        assert_eq!(said, (0, "demo v1\n".into()));
    }
    assert_eq!(
        guest.run(r#"C:\k\demo.exe check "a b""#),
        (3, "no such thing\n".into())
    );
    let asked = r#"C:\k\demo.exe --version | C:\Windows\System32\find.exe "v1""#;
    assert_eq!(guest.batch(&format!("@{asked}\n")).0, 0);
}

#[test]
fn what_was_not_recorded_fails() {
    let guest = Guest::with_programs(&table());
    guest.put(r"C:\k\demo.exe", PROGRAM);
    for asked in ["--help", "check a b", "--version --version", ""] {
        let said = guest.run(format!(r"C:\k\demo.exe {asked}").trim_end());
        assert_eq!(said, (1, format!("unknown arguments: {asked}\n")));
    }
}

#[test]
fn a_real_program_with_another_byte_is_none() {
    let guest = Guest::with_programs(&table());
    let mut other = PROGRAM.to_vec();
    *other.last_mut().unwrap() ^= 1;
    guest.put(r"C:\k\other.exe", &other);
    guest.put(r"C:\k\longer.exe", &[PROGRAM, b"\0"].concat());
    // ERROR_BAD_EXE_FORMAT
    assert_eq!(guest.run(r"C:\k\other.exe --version").0, 193);
    assert_eq!(guest.run(r"C:\k\longer.exe --version").0, 193);
    let bare = Guest::new();
    bare.put(r"C:\k\demo.exe", PROGRAM);
    assert_eq!(bare.run(r"C:\k\demo.exe --version").0, 193);
}
