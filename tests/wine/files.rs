//! `copy`, `file`, `directory`, `remove`, `cmd`, `assert` on files: run by cmd.exe, looked at in the prefix's files.

use winimg_base::error::Kind;

use crate::wine::glib::Glib;
use crate::wine::node::Node;
use crate::wine::prefix::Prefix;

#[test]
#[ignore = "needs Wine: make wine"]
fn files_lie_where_the_recipe_says() {
    let mut node = Node::new(Glib::New);
    insta::assert_snapshot!(
        "files",
        &node.twice(
            "files",
            include_str!("recipes/files.toml"),
            &Prefix::untouched(),
        ),
    );
    assert_eq!(
        node.prefix.read(r"C:\notes\argv.txt").as_deref(),
        Some("two words\x00100%\0^\0")
    );
    let wide = std::fs::read(node.prefix.host(r"C:\etc\wide.txt")).expect("a file");
    assert_eq!(wide, b"\xff\xfew\0i\0d\0e\0\n\0");
}

/// A step that fails stops the build, at its line, with what the guest said.
#[test]
#[ignore = "needs Wine: make wine"]
fn failures_are_seen() {
    let mut node = Node::new(Glib::Old);
    let cases = [
        (
            "folder",
            r"remove = { path = 'C:\Program Files\Common Files' }",
            "is a folder, and the step does not say recursive",
        ),
        (
            "missing",
            r"assert = { exists = 'C:\nothing here' }",
            "\"C:\\nothing here\" does not exist",
        ),
        (
            "there",
            r"assert = { missing = 'C:\windows\system32' }",
            "\"C:\\windows\\system32\" exists",
        ),
        (
            "service",
            r#"assert = { service_running = "nobody" }"#,
            "\"nobody\" is not running",
        ),
        (
            "code",
            r#"cmd = { script = "echo said\nexit /b 3010" }"#,
            "exit code 3010",
        ),
        (
            "hresult",
            r#"cmd = { script = "exit /b -2146498529" }"#,
            "exit code -2146498529 (0x800f081f)",
        ),
        (
            "registry",
            r#"assert = { registry = { key = 'HKLM\SYSTEM\CurrentControlSet\Services\EventLog', name = "Start", type = "dword", data = 9 } }"#,
            "\"Start\" is not \"REG_DWORD 0x9\"",
        ),
    ];
    for (name, verb, expected) in cases {
        let text = format!("[[steps]]\nname = \"{name}\"\n{verb}\n");
        let error = node.build(name, &text).expect_err(name);
        assert_eq!(error.kind(), Kind::Step, "{error}");
        let said = error.to_string();
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// `extract` is robocopy's work, which Wine does not have: its command line and its codes.
#[test]
#[ignore = "needs Wine: make wine"]
fn extract_is_given_to_robocopy_and_its_codes_are_understood() {
    let mut node = Node::new(Glib::New);
    let steps = include_str!("recipes/extract.toml");
    node.prefix.script("robocopy.exe 3 C:\\opt\\cni\n");
    let told = node
        .build("extract", steps)
        .expect("3: files copied, and others there");
    insta::assert_snapshot!("extract", &format!("{told}\n{}", node.prefix.trace()));
    node.prefix.script("robocopy.exe 8 C:\\opt\\cni\n");
    let error = node
        .build("extract", steps)
        .expect_err("8: some files were not copied");
    assert!(error.to_string().contains("exit code 8"), "{error}");
}
