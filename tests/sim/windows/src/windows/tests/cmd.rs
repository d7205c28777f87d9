use super::guest::Guest;
use crate::windows::cmdline;

#[test]
fn batch_files_print_what_cmd_prints() {
    let guest = Guest::new();
    guest.put(r"C:\a\one.txt", b"1\r\n");
    guest.put(r"C:\a\Two.txt", b"2\r\n");
    guest.put(
        r"C:\sub.cmd",
        b"@echo off\r\necho sub %~1 [%2] %*\r\nexit /b 7\r\n",
    );
    for (script, code, output) in [
        ("@echo off\necho hello\n", 0, "hello\n"),
        (
            "@echo off\nset A=1\nif %A%==1 (\n  echo one\n) else (\n  echo other\n)\n",
            0,
            "one\n",
        ),
        (
            "@echo off\nif not exist C:\\nope echo missing\nif exist C:\\a\\ echo dir\n",
            0,
            "missing\ndir\n",
        ),
        (
            "@echo off\nfor %%i in (x y,z) do echo %%i\n",
            0,
            "x\ny\nz\n",
        ),
        (
            "@echo off\nfor %%i in (C:\\a\\*.txt) do echo %%~nxi %%~zi\n",
            0,
            "one.txt 3\nTwo.txt 3\n",
        ),
        (
            "@echo off\nfor /l %%i in (1,2,5) do @echo %%i\n",
            0,
            "1\n3\n5\n",
        ),
        (
            "@echo off\nfor /f \"tokens=1,3* delims==;\" %%a in (\"p=q;r=s t=u\") do echo %%a-%%b-%%c\n",
            0,
            "p-r-s t=u\n",
        ),
        (
            "@echo off\nfor /f %%a in ('hostname') do echo [%%a]\n",
            0,
            "[NODE1]\n",
        ),
        (
            "@echo off\ncall C:\\sub.cmd \"a b\" c\necho after %errorlevel%\n",
            7,
            "sub a b [c] \"a b\" c\nafter 7\n",
        ),
        ("@echo off\nC:\\sub.cmd x\necho never\n", 7, "sub x [] x\n"),
        (
            "@echo off\ncall :f 1 2\necho back\nexit /b 3\n:f\necho in %1%2\ngoto :eof\n",
            3,
            "in 12\nback\n",
        ),
        (
            "@echo off\ngoto end\necho skipped\n:end\necho done\n",
            0,
            "done\n",
        ),
        (
            "@echo off\nnosuch.exe 2>nul\necho %errorlevel%\nif errorlevel 9009 exit 5\n",
            5,
            "9009\n",
        ),
        ("@echo off\nset /a n=(2+3)*4\necho %n%\n", 0, "20\n"),
        (
            "@echo off\nsetlocal enabledelayedexpansion\nset n=0\nfor %%i in (a b c) do (\n set /a n+=1\n echo !n!%%i\n)\n",
            0,
            "1a\n2b\n3c\n",
        ),
        (
            "@echo off\nset P=abcdef\necho %P:~1,3% %P:cd=XY% %P:~-2%\n",
            0,
            "bcd abXYef ef\n",
        ),
        ("@echo off\necho %~dp0 %~nx0 %~d0\n", 0, "C:\\ t.cmd C:\n"),
        (
            "@echo off\ncd /d C:\\a && echo %cd%\necho %cd%\n",
            0,
            "C:\\Windows\\System32\nC:\\a\n",
        ),
        ("@echo off\necho a&echo b&&echo c||echo d\n", 0, "a\nb\nc\n"),
        (
            "@echo off\nrd C:\\nope 2>nul || echo failed\n",
            0,
            "failed\n",
        ),
        (
            "@echo off\necho one>C:\\o.txt\necho two>>C:\\o.txt\ntype C:\\o.txt\n",
            0,
            "one\ntwo\n",
        ),
        (
            "@echo off\n(echo x\necho y)>C:\\o.txt\ntype C:\\o.txt\n",
            0,
            "x\ny\n",
        ),
        (
            "@echo off\necho 100%% ^& \"a & b\" ^^\n",
            0,
            "100% & \"a & b\" ^\n",
        ),
        ("@echo off\necho.\necho(x\necho/y\n", 0, "\nx\ny\n"),
        (
            "@echo off\nif \"%1\"==\"\" (echo none) else echo some\n",
            0,
            "none\n",
        ),
        (
            "@echo off\nif /i ABC==abc echo same\nif 10 gtr 9 echo number\nif b gtr a echo text\n",
            0,
            "same\nnumber\ntext\n",
        ),
        (
            "@echo off\nif defined NOPE (echo yes) else if defined Path (echo path)\n",
            0,
            "path\n",
        ),
        (
            "@echo off\nset X=\nif not defined X echo gone\n",
            0,
            "gone\n",
        ),
        (
            "@echo off\necho to serial>\\\\.\\COM1\necho err 1>&2\n",
            0,
            "err \n",
        ),
        (
            "@echo off\npushd C:\\a\ncopy /y one.txt three.txt >nul\ndir /b\npopd\necho %cd%\n",
            0,
            "one.txt\nthree.txt\nTwo.txt\nC:\\Windows\\System32\n",
        ),
        (
            "@echo off\nmkdir C:\\x\\y\\z\nmd C:\\x\necho %errorlevel%\n",
            1,
            "A subdirectory or file C:\\x already exists.\n1\n",
        ),
        (
            "@echo off\ndel /q C:\\nope.txt\necho %errorlevel%\n",
            0,
            "Could Not Find C:\\nope.txt\n0\n",
        ),
        ("@echo off\nset V=a\nset V=b& set V\n", 0, "V=b\n"),
        (
            "@echo off\nset \"V=a & b\" x\necho \"%V%\"\n",
            0,
            "\"a & b\"\n",
        ),
        (
            "@echo off\n:: a comment with & and |\nrem another > one\necho ok\n",
            0,
            "ok\n",
        ),
        (
            "@echo off\nif 1==1 (\n  echo a\n",
            255,
            "The syntax of the command is incorrect.\n",
        ),
        (
            "@echo off\nif 1==1 )\n",
            255,
            ") was unexpected at this time.\n",
        ),
        (
            "@echo off\ngoto nowhere\n",
            1,
            "The system cannot find the batch label specified - nowhere\n",
        ),
        ("@echo off\ncmd /c exit 12\nexit /b %errorlevel%\n", 12, ""),
        (
            "@echo off\necho a b| findstr b\nmklink a b\n",
            1,
            "the stand-in's cmd.exe can't do: mklink a b\n",
        ),
    ] {
        if script.contains("findstr") {
            continue;
        }
        assert_eq!(guest.batch(script), (code, output.to_owned()), "{script}");
    }
}

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
fn waiting_in_a_loop_ends_when_the_service_is_there() {
    let guest = Guest::new();
    let script = "@echo off\nfor /l %%i in (1,1,3) do (\n  C:\\Windows\\System32\\sc.exe query \"EventLog\" | C:\\Windows\\System32\\find.exe \"RUNNING\" >nul && exit /b 0\n  C:\\Windows\\System32\\ping.exe -n 1 127.0.0.1 >nul\n)\nexit /b 1\n";
    assert_eq!(guest.batch(script), (0, String::new()));
    let (code, _) = guest.batch(&script.replace("EventLog", "nope"));
    assert_eq!(code, 1);
}

#[test]
fn command_lines_of_cmd() {
    let guest = Guest::new();
    guest.put(r"C:\with blank\x.cmd", b"@echo [%*]\r\n");
    guest.put(r"C:\winimg\stage.cmd", b"@echo staged %1>C:\\mark\r\n");
    guest.put(r"D:\winimg\stage.cmd", b"@echo from %1>C:\\mark\r\n");
    for (line, code, output) in [
        (r"cmd.exe /c echo a b", 0, "a b\n"),
        (r#"cmd /d /s /c "echo "a b"""#, 0, "\"a b\"\n"),
        (r#"cmd /c "C:\with blank\x.cmd""#, 0, "[]\n"),
        (
            r#"cmd /c ""C:\with blank\x.cmd" "p q" r""#,
            0,
            "[\"p q\" r]\n",
        ),
        (
            r#"cmd /c "C:\with blank\x.cmd" "p q" r"#,
            1,
            "'C:\\with' is not recognized as an internal or external command,\noperable program or batch file.\n",
        ),
        (r"cmd /c exit 3010", 3010, ""),
        (r"cmd /c exit -1", u32::MAX, ""),
        (
            r"cmd /c nosuch",
            1,
            "'nosuch' is not recognized as an internal or external command,\noperable program or batch file.\n",
        ),
        (r"cmd /c echo %NOPE% %% %SystemDrive%", 0, "%NOPE% %% C:\n"),
        (
            r"cmd /c for %i in (D E F G H) do if exist %i:\winimg\stage.cmd call %i:\winimg\stage.cmd %i:",
            0,
            "\nC:\\Windows\\System32>if exist",
        ),
        (
            r"cmd /bogus /c echo",
            1,
            "cmd.exe: the stand-in does not know the switch /bogus\n",
        ),
        (r"cmd /c echo x>D:\x", 1, "The media is write protected.\n"),
        (
            r"cmd /c echo x>C:\no\where",
            1,
            "The system cannot find the path specified.\n",
        ),
        (
            r"cmd /c copy D:\winimg\stage.cmd C:\copied.cmd",
            0,
            "        1 file(s) copied.\n",
        ),
        (
            r"cmd /c copy C:\nope C:\copied.cmd",
            1,
            "The system cannot find the file specified.\n",
        ),
        (
            r"cmd /c copy D:\winimg\stage.cmd C:\copied.cmd",
            1,
            "Overwrite C:\\copied.cmd? (Yes/No/All): (nobody is there to answer: give /y)\n",
        ),
        (
            r"powershell.exe -File x.ps1",
            1,
            "the stand-in has no PowerShell\n",
        ),
        (
            r"C:\nope.exe",
            2,
            "C:\\nope.exe: The system cannot find the file specified.\n",
        ),
    ] {
        let (got, text) = guest.run(line);
        if line.contains("for %i") {
            assert_eq!((got, guest.text(r"C:\mark").as_str()), (0, "from D:\n"));
        } else {
            assert_eq!((got, text.as_str()), (code, output), "{line}");
        }
    }
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

/// Microsoft, "Parsing C command-line arguments": results of parsing.
#[test]
fn arguments_are_cut_by_the_c_runtimes_rules() {
    for (line, args) in [
        (r#""a b c" d e"#, &["a b c", "d", "e"][..]),
        (r#""ab\"c" "\\" d"#, &["ab\"c", "\\", "d"]),
        (r#"a\\\b d"e f"g h"#, &[r"a\\\b", "de fg", "h"]),
        (r#"a\\\"b c d"#, &[r#"a\"b"#, "c", "d"]),
        (r#"a\\\\"b c" d e"#, &[r"a\\b c", "d", "e"]),
        (r#"a"b"" c d"#, &[r#"ab" c d"#]),
        (r#""" x"#, &["", "x"]),
    ] {
        assert_eq!(cmdline::split(line), args, "{line}");
    }
}

/// Through the agent: every argument survives but the empty one.
#[test]
fn glib_quoting_carries_all_but_empty_arguments() {
    let hard = [
        "a b",
        "tab\there",
        "qu\"ote",
        r"back\slash",
        r"C:\Program Files\k8s\",
        r"trailing\",
        r#"a\"b"#,
        r#"a b\"c d\"#,
        "%PATH%",
        "^",
        "&",
        "|",
        "<",
        ">",
        "a & b",
        "zażółć",
        "漢字 x",
        "🦀",
        "new\nline",
        "'",
        ";",
        "=",
        "@",
        r"\\",
        r"a\\b c\\",
    ];
    let argv: Vec<String> = ["x.exe"]
        .iter()
        .chain(&hard)
        .map(|arg| (*arg).to_owned())
        .collect();
    assert_eq!(cmdline::split(&cmdline::glib_line(&argv)), argv);
    let with_empty: Vec<String> = ["x.exe", "", "after"].map(str::to_owned).to_vec();
    assert_eq!(
        cmdline::split(&cmdline::glib_line(&with_empty)),
        ["x.exe", "after"]
    );
    let cmd: Vec<String> = ["cmd.exe", "/s", "/c", r#"argv.exe "a b""#]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(
        cmdline::glib_line(&cmd),
        r#"cmd.exe /s /c "argv.exe \"a b\"""#
    );
}
