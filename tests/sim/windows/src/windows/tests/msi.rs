use std::path::PathBuf;
use std::process::Command;

use super::guest::Guest;

const CODE: &str = "{11111111-2222-3333-4444-555555555555}";
const EXE: &[u8] = b"MZ demo service";

/// A package built by wixl from a template; its path on C: is `C:\p.msi`.
fn package(guest: &Guest, extra: &str, service: bool, tables: &[(&str, &str)]) {
    build(
        guest,
        "p",
        extra,
        service,
        tables,
        ("1.2.3", CODE.trim_matches(['{', '}'])),
    );
}

fn build(
    guest: &Guest,
    name: &str,
    extra: &str,
    service: bool,
    tables: &[(&str, &str)],
    (version, code): (&str, &str),
) {
    let dir = guest.dir.path().join("wix");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(
        dir.join("demo.exe"),
        if service { EXE } else { b"not a program" },
    )
    .unwrap();
    std::fs::write(dir.join("read me.txt"), "hello").unwrap();
    let source = include_str!("demo.wxs")
        .replace("<!--extra-->", extra)
        .replace("@VERSION@", version)
        .replace("@CODE@", code);
    std::fs::write(dir.join("p.wxs"), source).unwrap();
    let run = |command: &mut Command| {
        let out = command
            .current_dir(&dir)
            .output()
            .expect("wixl and msibuild (packages wixl, msitools)");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
    };
    run(Command::new("wixl").args(["-a", "x64", "-o", "p.msi", "p.wxs"]));
    for (table, text) in tables {
        let file: PathBuf = dir.join(format!("{table}.idt"));
        std::fs::write(&file, text).unwrap();
        run(Command::new("msibuild").arg("p.msi").arg("-i").arg(&file));
    }
    guest.put(
        &format!(r"C:\{name}.msi"),
        &std::fs::read(dir.join("p.msi")).unwrap(),
    );
}

const PATH_ROW: (&str, &str) = (
    "Environment",
    "Environment\tName\tValue\tComponent_\r\ns72\tl255\tL255\ts72\r\nEnvironment\tEnvironment\r\nenv\t=-*PATH\t[~];[INSTALLDIR]bin\tMain\r\n",
);

fn log(guest: &Guest, path: &str) -> String {
    let bytes = guest.get(path);
    let units: Vec<u16> = bytes[2..]
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]))
        .collect();
    String::from_utf16(&units).unwrap()
}

#[test]
fn the_target_directory_follows_its_property() {
    let guest = Guest::new();
    package(&guest, "", true, &[]);
    assert_eq!(
        guest.run(r#"msiexec /i "C:\p.msi" /quiet INSTALLDIR="C:\k 8s" ADDLOCAL=ALL"#),
        (0, String::new())
    );
    assert_eq!(guest.get(r"C:\k 8s\demo.exe"), EXE);
}

#[test]
fn an_administrative_installation_only_unpacks() {
    let guest = Guest::new();
    package(&guest, "", true, &[]);
    assert_eq!(
        guest.run(r"msiexec /a C:\p.msi /qn TARGETDIR=C:\out"),
        (0, String::new())
    );
    let files: Vec<_> = guest
        .run(r"cmd /c dir /s /b C:\out")
        .1
        .lines()
        .filter(|line| line.contains("demo.exe"))
        .map(str::to_owned)
        .collect();
    assert_eq!(files, [r"C:\out\PFiles64\Demo Agent\demo.exe"]);
    assert_eq!(guest.run("sc query demo-agent").0, 1060);
}

#[test]
fn failures_have_the_installers_codes() {
    let guest = Guest::new();
    package(&guest, "", true, &[]);
    guest.put(r"C:\bad.msi", b"not an installer database");
    for (line, code) in [
        (r"msiexec /i C:\nope.msi /qn", 1619),
        (r"msiexec /i C:\bad.msi /qn", 1620),
        (r"msiexec /i C:\p.msi /qn NOPE=1", 1603),
        (r"msiexec /i C:\p.msi /qn ADDLOCAL=Nope", 1603),
        (r#"msiexec /i C:\p.msi /qn "TIER=a b""#, 1639),
        (r"msiexec /i C:\p.msi /qn tier=a", 1639),
        (r"msiexec /i C:\p.msi /qn /bogus", 1639),
        (r"msiexec /qn", 1639),
        (r"msiexec /i C:\p.msi", 1602),
        (r"msiexec /i C:\p.msi /qn /l*v C:\no\such\dir.log", 1622),
    ] {
        let (got, output) = guest.run(line);
        assert_eq!(got, code, "{line}: {output}");
    }
    assert!(!guest.host(r"C:\Program Files\Demo Agent").exists());
}

#[test]
fn a_service_that_does_not_start_rolls_everything_back() {
    let guest = Guest::new();
    package(&guest, "", false, &[PATH_ROW]);
    let path = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
    let before = guest.windows.value(path, "Path");
    assert_eq!(guest.run(r"msiexec /i C:\p.msi /qn /l*v C:\i.log").0, 1603);
    assert!(log(&guest, r"C:\i.log").contains("Error 1920. Service 'demo-agent'"));
    assert!(!guest.host(r"C:\Program Files\Demo Agent").exists());
    assert_eq!(guest.run("sc query demo-agent").0, 1060);
    assert_eq!(guest.run(r"reg query HKLM\SOFTWARE\Example").0, 1);
    assert_eq!(guest.windows.value(path, "Path"), before);
}

#[test]
fn what_is_not_modelled_fails_and_is_named() {
    let guest = Guest::new();
    let row = (
        "IniFile",
        "IniFile\tFileName\tDirProperty\tSection\tKey\tValue\tAction\tComponent_\r\ns72\tl255\tS72\tl96\tl128\tl255\ti2\ts72\r\nIniFile\tIniFile\r\nx\tx.ini\tINSTALLDIR\ts\tk\tv\t0\tMain\r\n",
    );
    package(&guest, "", true, &[row]);
    assert_eq!(guest.run(r"msiexec /i C:\p.msi /qn /l*v C:\i.log").0, 1603);
    assert!(
        log(&guest, r"C:\i.log")
            .contains("the stand-in's Windows Installer does not know the table IniFile")
    );
}

#[test]
fn another_version_of_a_product_is_refused() {
    let guest = Guest::new();
    package(&guest, "", true, &[]);
    build(
        &guest,
        "q",
        "",
        true,
        &[],
        ("1.2.4", CODE.trim_matches(['{', '}'])),
    );
    assert_eq!(guest.run(r"msiexec /i C:\p.msi /qn").0, 0);
    assert_eq!(guest.run(r"msiexec /i C:\q.msi /qn").0, 1638);
}
