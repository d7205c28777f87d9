//! Other people's programs: what they say of a text.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use support::tree;

/// Whether `tests/record/judge.py` takes the text, or the first line of why not.
pub fn judge(kind: &str, text: &str, more: &[&Path]) -> Result<(), String> {
    let root = tree::root();
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        let made = run(Command::new(root.join("tests/record/venv.sh")));
        assert!(made.status.success(), "{}", said(&made));
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record.json");
    std::fs::write(&file, text).unwrap();
    let mut python = Command::new(root.join("target/record-venv/bin/python"));
    python.arg(root.join("tests/record/judge.py")).arg(kind);
    let output = run_with(&mut python, file.as_path(), more);
    match output.status.code() {
        Some(0) => Ok(()),
        // A judge that falls over ends with 1, too, but says so elsewhere.
        Some(1) if output.stderr.is_empty() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Err(text.lines().next().unwrap_or_default().to_owned())
        }
        _ => panic!("{}", said(&output)),
    }
}

fn run_with(command: &mut Command, file: &Path, more: &[&Path]) -> Output {
    command.arg(file).args(more).output().expect("a judge")
}

pub fn run(mut command: Command) -> Output {
    let name = format!("{command:?}");
    command.output().unwrap_or_else(|e| {
        panic!("{name}: {e}; tests/install-packages.sh installs what is missing")
    })
}

/// `program arguments` in a folder; whether it ended well.
pub fn ends_well(folder: &Path, program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.current_dir(folder).args(arguments);
    run(command).status.success()
}

pub fn must(folder: &Path, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.current_dir(folder).args(arguments);
    let output = run(command);
    assert!(output.status.success(), "{program}: {}", said(&output));
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}
