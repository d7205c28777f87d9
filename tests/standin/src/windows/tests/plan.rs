//! Scripts that winimg's plan writes (`tests/plan/windows.txt`), run by the stand-in's cmd.

use super::guest::Guest;

/// The script `s\NAME.cmd` of the plan's text.
fn script(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plan/windows.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let head = format!("             s\\{name}.cmd\n");
    let (_, rest) = text.split_once(&head).unwrap();
    let lines = rest
        .lines()
        .map_while(|line| line.strip_prefix("             |"));
    let lines: Vec<&str> = lines.map(|line| line.trim_start_matches(' ')).collect();
    lines.join("\n") + "\n"
}

const PENDING: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending";

#[test]
fn cleanup_empties_folders_and_leaves_them() {
    let guest = Guest::new();
    let files = [
        r"C:\var\log\kubelet\a.log",
        r"C:\var\log\kubelet\deep er\b & c.log",
        r"C:\k\x.zip",
        r"C:\Windows\Temp\x 1.tmp",
        r"C:\Windows\Temp\sub\y.tmp",
        r"C:\Windows\SoftwareDistribution\Download\ab\cd.cab",
        r"C:\Users\Administrator\AppData\Local\Temp\z.tmp",
        r"C:\Users\Administrator\AppData\Local\Temp\sub\z.tmp",
        r"C:\Windows\Panther\setupact.log",
        r"C:\Windows\Logs\CBS\CBS.log",
        r"C:\Windows\INF\setupapi.dev.log",
    ];
    let kept = [r"C:\k\y.zip", r"C:\var\log\other.log"];
    for file in files.iter().chain(&kept) {
        guest.put(file, b"x");
    }
    // A second time there is nothing left to do, which is fine.
    for _ in 0..2 {
        let (code, said) = guest.batch(&script("017-2"));
        assert_eq!(code, 0, "{said}");
        for file in files {
            assert!(!guest.host(file).exists(), "{file}\n{said}");
        }
    }
    for path in kept.iter().chain(&[
        r"C:\var\log\kubelet",
        r"C:\Windows\Temp",
        r"C:\Windows\SoftwareDistribution\Download",
    ]) {
        assert!(guest.host(path).exists(), "{path}");
    }
}

#[test]
fn a_pending_restart_is_seen() {
    let guest = Guest::new();
    for name in ["012-3", "017"] {
        assert_eq!(guest.batch(&script(name)).0, 0, "{name}");
    }
    assert_eq!(guest.run(&format!("reg.exe add \"{PENDING}\" /f")).0, 0);
    for name in ["012-3", "017"] {
        let (code, said) = guest.batch(&script(name));
        assert_eq!(
            (code, said.as_str()),
            (3010, "Windows waits for a restart\n")
        );
    }
}

#[test]
fn features_are_enabled_together_and_by_name() {
    let guest = Guest::new();
    let line = |names: &str| {
        format!(
            r"C:\Windows\System32\dism.exe /online /enable-feature {names} /all /norestart /quiet"
        )
    };
    let two = line("/featurename:Containers /featurename:Microsoft-Hyper-V-Management-PowerShell");
    assert_eq!(guest.run(&two).0, 3010);
    assert_eq!(guest.run(&two).0, 3010, "a second time");
    assert_eq!(guest.run(&line("/featurename:Contaners")).0, 0x800f_080c);
}
