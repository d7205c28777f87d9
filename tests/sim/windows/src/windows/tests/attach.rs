//! The batch file of `winimg attach`, run by the stand-in's cmd.

use super::guest::Guest;

const SCRIPT: &str = include_str!("../../../../../../src/engine/console/attach.cmd");

/// Output, exit code, and the folder where the line ended.
fn attached(guest: &Guest, folder: &str, line: &str) -> String {
    let script = SCRIPT.replace("{folder}", folder).replace("{line}", line);
    let (code, output) = guest.batch(&script);
    let left = guest.host(r"C:\winimg\attach.cwd");
    let left = std::fs::read_to_string(left).unwrap_or("none".into());
    format!("{output}[{code}] {}", left.trim_end())
}

#[test]
fn each_line_ends_with_its_code_and_leaves_its_folder() {
    let guest = Guest::new();
    guest.put(r"C:\winimg\here", b"");
    guest.put(
        r"C:\a b\one.cmd",
        b"@echo one %1\r\n@cd ..\r\n@exit /b 7\r\n",
    );
    for (folder, line, expected) in [
        (r"C:\", "echo hello", "hello\n[0] C:\\"),
        (r"C:\", "cd \"a b\"", "[0] C:\\a b"),
        // Without `call`: what follows in the batch file is carried out nevertheless.
        (r"C:\a b", "one.cmd x", "one x\n[7] C:\\"),
        (r"C:\a b", "exit /b 5", "[5] C:\\a b"),
        (r"C:\a b", "exit 6", "[6] none"),
        (
            r"C:\gone",
            "echo never",
            "The system cannot find the path specified.\n[1] C:\\",
        ),
    ] {
        assert_eq!(attached(&guest, folder, line), expected, "{folder}: {line}");
    }
}
