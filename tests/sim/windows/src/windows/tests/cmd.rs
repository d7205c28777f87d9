use super::guest::Guest;

/// A script of the kind that a build sends: the machine's Path read, compared and written back unexpanded.
#[test]
fn the_path_is_extended_once() {
    let guest = Guest::new();
    let script = concat!(
        "@echo off\n",
        "setlocal disabledelayedexpansion\n",
        "set \"key=HKLM\\SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Environment\"\n",
        "set \"old=\"\n",
        "for /f \"tokens=2,*\" %%a in ('C:\\Windows\\System32\\reg.exe query \"%key%\" /v Path') do if not \"%%b\"==\"\" set \"old=%%b\"\n",
        "if not defined old exit /b 1\n",
        "setlocal enabledelayedexpansion\n",
        "set \"new=!old!\"\n",
        "if \"!new:~-1!\"==\";\" set \"new=!new:~0,-1!\"\n",
        "set \"seen=;!new!;\"\n",
        "if /i \"!seen:;C:\\Program Files\\x;=!\"==\"!seen!\" set \"new=!new!;C:\\Program Files\\x\"\n",
        "if \"!new!\"==\"!old!\" exit /b 7\n",
        "C:\\Windows\\System32\\reg.exe add \"%key%\" /v Path /t REG_EXPAND_SZ /d \"!new!\" /f || exit /b 1\n",
        "exit /b 0\n",
    );
    let key = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
    let path = || match guest.windows.value(key, "Path") {
        Some(crate::windows::Data::Expand(text)) => text,
        other => panic!("{other:?}"),
    };
    let before = path().trim_end_matches(';').to_owned();
    assert!(before.starts_with("%SystemRoot%\\system32;"));
    assert_eq!(guest.batch(script).0, 0);
    assert_eq!(path(), format!("{before};C:\\Program Files\\x"));
    assert_eq!(guest.batch(&script.replace("Files\\x", "FILES\\X")).0, 7);
}

#[test]
fn a_foreign_program_is_no_win32_application() {
    let guest = Guest::new();
    guest.put(r"C:\tool.exe", b"MZ something");
    assert_eq!(
        guest.run(r"C:\tool.exe --version"),
        (
            193,
            "C:\\tool.exe --version: %1 is not a valid Win32 application.\n".into()
        )
    );
    assert_eq!(
        guest.run(r"cmd /c C:\tool.exe"),
        (
            193,
            "C:\\tool.exe is not a valid Win32 application.\n".into()
        )
    );
    guest.put(
        r"C:\script.exe",
        b"MZ winimg stand-in program: script\r\n@echo v1.2 %1\r\n@exit /b 4\r\n",
    );
    assert_eq!(
        guest.run(r"C:\script.exe --version"),
        (4, "v1.2 --version\n".into())
    );
}

#[test]
fn nothing_leaves_the_drives() {
    let guest = Guest::new();
    std::fs::write(guest.dir.path().join("secret"), "outside").unwrap();
    std::os::unix::fs::symlink(guest.dir.path(), guest.host(r"C:\link")).unwrap();
    for line in [
        r"cmd /c type C:\..\..\secret",
        r"cmd /c type C:\link\secret",
        r"cmd /c type \\host\share\x",
        r"cmd /c type E:\x",
    ] {
        let (code, output) = guest.run(line);
        assert!(
            code == 1 && !output.contains("outside"),
            "{line}: {code} {output}"
        );
    }
}
