use std::process::Command;

use super::guest::{Guest, facts};
use crate::windows::regf::{self, Key};
use crate::windows::{ImageFacts, create_image};

#[test]
fn a_fresh_image_is_read_by_libhivex() {
    let dir = tempfile::tempdir().unwrap();
    create_image(dir.path(), &facts()).unwrap();
    let xml = |hive: &str| {
        let file = dir.path().join("Windows/System32/config").join(hive);
        let out = Command::new("hivexml")
            .arg(file)
            .output()
            .expect("hivexml (package libhivex-bin)");
        assert!(
            out.status.success(),
            "{hive}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    for hive in ["SYSTEM", "SOFTWARE", "SAM", "SECURITY", "DEFAULT"] {
        let (root, _) = regf::parse(
            &std::fs::read(dir.path().join("Windows/System32/config").join(hive)).unwrap(),
        )
        .unwrap();
        fn count(key: &Key) -> (usize, usize) {
            key.subkeys
                .values()
                .map(count)
                .fold((1, key.values.len()), |a, b| (a.0 + b.0, a.1 + b.1))
        }
        let text = xml(hive);
        assert_eq!(
            count(&root),
            (
                text.matches("<node ").count(),
                text.matches("<value ").count()
            ),
            "{hive}"
        );
    }
}

#[test]
fn reg_refuses_what_windows_refuses() {
    let guest = Guest::new();
    let not_found = "ERROR: The system was unable to find the specified registry key or value.\n";
    for (line, output) in [
        (
            r"reg add HKLM\SOFTWARE\A /v V /d 1",
            "The operation completed successfully.\n",
        ),
        (
            r"reg add HKLM\SOFTWARE\A /v V /d 2",
            "Value V exists, overwrite(Yes/No)? (nobody is there to answer: give /f)\n",
        ),
        (
            r"reg add HKLM\SOFTWARE\A /v N /t REG_DWORD /d ten",
            "ERROR: Invalid data for REG_DWORD: ten\n",
        ),
        (
            r"reg add HKLM\SOFTWARE\A /v N /t REG_DWORD /d 4294967296",
            "ERROR: Invalid data for REG_DWORD: 4294967296\n",
        ),
        (
            r"reg add HKLM\SOFTWARE\A /v N /t DWORD /d 1",
            "ERROR: Invalid syntax. Specify valid type: DWORD\n",
        ),
        (
            r"reg add HKLM\SOFTWARE\A /bogus",
            "ERROR: Invalid syntax. Unknown option: /bogus\nType \"REG /?\" for usage.\n",
        ),
        (
            r"reg add HKXX\A /v V",
            "ERROR: Invalid key name.\nType \"REG /?\" for usage.\n",
        ),
        (r"reg query HKLM\SOFTWARE\Nope", not_found),
        (r"reg query HKLM\SOFTWARE\A /v Nope", not_found),
        (r"reg delete HKLM\SOFTWARE\A /v Nope /f", not_found),
        (
            r"reg delete HKLM\SOFTWARE\A",
            "Permanently delete (Yes/No)? (nobody is there to answer: give /f)\n",
        ),
        (r"reg bogus", "reg: the stand-in does not know: bogus\n"),
    ] {
        let code = u32::from(!output.starts_with("The operation"));
        assert_eq!(guest.run(line), (code, output.to_owned()), "{line}");
    }
}

#[test]
fn an_exported_key_imports_as_it_was() {
    let guest = Guest::new();
    guest.run(r#"reg add HKLM\SOFTWARE\A /v "quo\"te\\s" /d "C:\a b""#);
    guest.run(r"reg add HKLM\SOFTWARE\A\B /v M /t REG_MULTI_SZ /d x\0y");
    assert_eq!(guest.run(r"reg export HKLM\SOFTWARE\A C:\a.reg").0, 0);
    let before = guest.run(r"reg query HKLM\SOFTWARE\A /s");
    assert_eq!(guest.run(r"reg delete HKLM\SOFTWARE\A /f").0, 0);
    assert_eq!(guest.run(r"reg import C:\a.reg").0, 0);
    assert_eq!(guest.run(r"reg query HKLM\SOFTWARE\A /s"), before);
    guest.put(r"C:\b.reg", b"Windows Registry Editor Version 5.00\r\n\r\n[HKEY_LOCAL_MACHINE\\SOFTWARE\\A]\r\n\"x\"=dword:zz\r\n");
    assert_eq!(
        guest.run(r"reg import C:\b.reg"),
        (
            1,
            "ERROR: C:\\b.reg, line 4: not a dword: \"x\"=dword:zz\n".into()
        )
    );
}

#[test]
fn a_users_hive_is_loaded_changed_and_unloaded() {
    let guest = Guest::new();
    for (line, code) in [
        (r"reg load HKU\Def C:\Users\Default\NTUSER.DAT", 0),
        (r"reg load HKU\Def C:\Users\Default\NTUSER.DAT", 1),
        (r"reg add HKU\Def\Software\Example /v Tier /d gold", 0),
        (r"reg unload HKU\Def", 0),
        (r"reg unload HKU\Def", 1),
        (r"reg unload HKLM\SYSTEM", 1),
        (r"reg query HKU\Def", 1),
    ] {
        assert_eq!(guest.run(line).0, code, "{line}");
    }
    let file = guest.host(r"C:\Users\Default\NTUSER.DAT");
    let out = Command::new("hivexget")
        .arg(file)
        .args([r"\Software\Example", "Tier"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "gold\n");
}

#[test]
fn a_damaged_hive_is_refused() {
    let mut bytes = regf::serialize(&Key::new("ROOT"), "X", 1, 0);
    assert!(regf::parse(&bytes).is_ok());
    bytes[4] ^= 1;
    assert!(
        regf::parse(&bytes)
            .unwrap_err()
            .starts_with("hive header checksum is")
    );
    bytes.truncate(4096);
    assert!(regf::parse(&bytes).is_err());
}

#[test]
fn each_release_has_its_own_version_values() {
    const KEY: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";
    for (build, release, id, name) in [
        (17763, "1809", "1809", None),
        (20348, "21H2", "2009", Some("21H2")),
        (26100, "24H2", "2009", Some("24H2")),
    ] {
        let guest = Guest::of(&ImageFacts {
            build,
            release: release.into(),
            ..facts()
        });
        let registry = guest.windows.machine.registry();
        assert_eq!(registry.text(KEY, "ReleaseId").as_deref(), Some(id));
        assert_eq!(registry.text(KEY, "DisplayVersion").as_deref(), name);
    }
}
