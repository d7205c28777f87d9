//! On a real NTFS volume (mounted by ntfs-3g, as in the stand-in's guest).

use std::path::Path;
use std::process::Command;

use winimg_test_support::ntfs::mounted;

use super::guest::facts;
use crate::windows::{Config, Windows, create_image};

fn tool(command: &mut Command) -> String {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e} (package ntfs-3g)"));
    assert!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn effects_are_in_the_volume() {
    // SAFETY: no arguments, no memory.
    if unsafe { libc::geteuid() } != 0 || !Path::new("/dev/fuse").exists() {
        eprintln!("not run: mounting NTFS needs root and /dev/fuse");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    tool(Command::new("mkntfs").args(["-F", "-Q", "-q"]).arg(&image));
    mounted(&image, &[], in_the_guest);
    assert_eq!(
        tool(Command::new("ntfscat").arg(&image).arg("/K/Sub/File.txt")),
        "hello\r\n"
    );
    let facts = tool(
        Command::new("ntfsinfo")
            .arg(&image)
            .args(["-F", "/K/other.txt"]),
    );
    assert!(
        facts.contains("READONLY") && facts.contains("HIDDEN"),
        "{facts}"
    );
    // The file that was made later has what its folder passes on.
    for path in ["/K", "/K/later.txt"] {
        let secured = tool(
            Command::new("ntfssecaudit")
                .arg("-vv")
                .arg(&image)
                .arg(path),
        );
        assert!(
            secured.contains("S-1-5-18") && !secured.contains("S-1-5-32-545"),
            "{secured}"
        );
    }
    let hive = dir.path().join("SOFTWARE");
    let bytes = Command::new("ntfscat")
        .arg(&image)
        .arg("/Windows/System32/config/SOFTWARE")
        .output()
        .unwrap()
        .stdout;
    std::fs::write(&hive, bytes).unwrap();
    assert_eq!(
        tool(
            Command::new("hivexget")
                .arg(hive)
                .args([r"\Example", "Tier"])
        ),
        "gold\n"
    );
}

fn in_the_guest(c_root: &Path) {
    create_image(c_root, &facts()).unwrap();
    let windows = Windows::open(Config {
        c_root: c_root.into(),
        computer_name: "NODE1".into(),
        ..Config::default()
    })
    .unwrap();
    for (line, code) in [
        (r"cmd /c mkdir C:\K\Sub", 0),
        (r"cmd /c echo hello>c:\k\SUB\File.txt", 0),
        (r"cmd /c copy /y C:\K\sub\FILE.TXT C:\k\other.txt", 0),
        (
            r#"icacls C:\k /inheritance:r /grant "NT AUTHORITY\SYSTEM:(OI)(CI)F" /T"#,
            0,
        ),
        (r"cmd /c echo later>C:\k\later.txt", 0),
        (r"cmd /c attrib +r +h C:\k\other.txt", 0),
        // Hidden, so not found, which is no error.
        (r"cmd /c del C:\k\other.txt", 0),
        (r"reg add HKLM\SOFTWARE\Example /v Tier /d gold", 0),
    ] {
        let mut out = Vec::new();
        assert_eq!(
            windows.run(line, &mut out),
            code,
            "{line}: {}",
            String::from_utf8_lossy(&out)
        );
    }
    windows.close().unwrap();
}
