//! Batch text of the shapes that winimg's steps have.

use super::guest::Guest;

#[test]
fn an_access_list_is_set_for_a_folder_and_for_a_file() {
    let guest = Guest::new();
    guest.put(r"C:\k\a b\x.txt", b"x");
    for (path, list) in [
        (r"C:\k\a b", "P(A;OICI;0x1f01ff;;;S-1-5-18)"),
        (r"C:\k\a b\x.txt", "P(A;;0x1f01ff;;;S-1-5-18)"),
    ] {
        let text = format!(
            r#"@echo off
if not exist "{path}" echo "{path}" is not there
if not exist "{path}" exit /b 1
set "below="
if exist "{path}\" set "below=(OI)(CI)"
C:\Windows\System32\icacls.exe "{path}" /reset /t /q || (C:\Windows\System32\takeown.exe /f "{path}" /a && C:\Windows\System32\icacls.exe "{path}" /reset /t /q) || exit /b 1
C:\Windows\System32\icacls.exe "{path}" /grant:r "*S-1-5-18:%below%F" /q || exit /b 1
C:\Windows\System32\icacls.exe "{path}" /inheritance:r /q || exit /b 1
"#
        );
        let (code, said) = guest.batch(&text);
        assert_eq!(code, 0, "{said}");
        let (_, shown) = guest.run(&format!("icacls \"{path}\""));
        assert!(shown.contains(list), "{shown}");
    }
    let (code, said) = guest.batch("@echo off\nif not exist \"C:\\no\" exit /b 1\n");
    assert_eq!((code, said.as_str()), (1, ""));
}

#[test]
fn what_an_image_need_not_carry_goes() {
    let guest = Guest::new();
    for path in [
        r"C:\Windows\Temp\a\b.txt",
        r"C:\Windows\Temp\c.txt",
        r"C:\Users\Default\AppData\Local\Temp\d\e.txt",
        r"C:\Users\Default\AppData\Local\Temp\f.txt",
        r"C:\Windows\SoftwareDistribution\Download\g\h.cab",
        r"C:\var\log\kubelet\kubelet.log",
    ] {
        guest.put(path, b"x");
    }
    assert_eq!(guest.run("attrib +h +r C:\\Windows\\Temp\\c.txt").0, 0);
    assert_eq!(guest.run("sc start wuauserv").0, 0);
    let (code, said) = guest.batch(
        r#"@echo off
if exist "C:\var\log\kubelet\" for /f "delims=" %%e in ('dir /b /a:d "C:\var\log\kubelet" 2^>nul') do rd /s /q "C:\var\log\kubelet\%%e"
if exist "C:\var\log\kubelet\" del /f /q /a "C:\var\log\kubelet\*"
if not exist "C:\var\log\kubelet\" if exist "C:\var\log\kubelet" del /f /q /a "C:\var\log\kubelet"
set left=
if exist "C:\var\log\kubelet" for /f "delims=" %%e in ('dir /b /a "C:\var\log\kubelet" 2^>nul') do set left=%%e
if defined left dir /a "C:\var\log\kubelet"
if defined left exit /b 1
if exist "C:\Windows\Temp\" for /f "delims=" %%e in ('dir /b /a:d "C:\Windows\Temp" 2^>nul') do rd /s /q "C:\Windows\Temp\%%e"
if exist "C:\Windows\Temp\" del /f /q /a "C:\Windows\Temp\*"
for /d %%u in ("C:\Users\*") do if exist "%%u\AppData\Local\Temp\" for /d %%e in ("%%u\AppData\Local\Temp\*") do rd /s /q "%%e"
for /d %%u in ("C:\Users\*") do if exist "%%u\AppData\Local\Temp\" for %%e in ("%%u\AppData\Local\Temp\*") do del /f /q /a "%%e"
set wuauserv=
C:\Windows\System32\sc.exe query wuauserv | C:\Windows\System32\find.exe "RUNNING" >nul && set wuauserv=1
if defined wuauserv C:\Windows\System32\net.exe stop wuauserv /y
if defined wuauserv if errorlevel 1 echo wuauserv does not stop
set bits=
C:\Windows\System32\sc.exe query bits | C:\Windows\System32\find.exe "RUNNING" >nul && set bits=1
if exist "C:\Windows\SoftwareDistribution\Download\" for /f "delims=" %%e in ('dir /b /a:d "C:\Windows\SoftwareDistribution\Download" 2^>nul') do rd /s /q "C:\Windows\SoftwareDistribution\Download\%%e"
if exist "C:\Windows\SoftwareDistribution\Download\" dir /a "C:\Windows\SoftwareDistribution\Download"
set failed=
if defined wuauserv C:\Windows\System32\net.exe start wuauserv
if defined wuauserv if errorlevel 1 C:\Windows\System32\sc.exe query wuauserv | C:\Windows\System32\find.exe "RUNNING" >nul || set failed=wuauserv
if defined failed exit /b 1
for /f "delims=" %%l in ('C:\Windows\System32\wevtutil.exe el') do C:\Windows\System32\wevtutil.exe cl "%%l" >nul 2>&1
C:\Windows\System32\wevtutil.exe cl System || exit /b 1
"#,
    );
    assert_eq!(code, 0, "{said}");
    for gone in [
        r"C:\Windows\Temp\a",
        r"C:\Windows\Temp\c.txt",
        r"C:\Users\Default\AppData\Local\Temp\d",
        r"C:\Users\Default\AppData\Local\Temp\f.txt",
        r"C:\Windows\SoftwareDistribution\Download\g",
        r"C:\var\log\kubelet\kubelet.log",
    ] {
        assert!(!guest.host(gone).exists(), "{gone}: {said}");
    }
    assert!(guest.run("sc query wuauserv").1.contains("RUNNING"));
}
