//! winimg.exe and the stand-in's programs, as `make windows-exe` builds them, started under Wine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree;

/// The folder of the Windows build.
pub fn dir() -> PathBuf {
    tree::root().join("target/windows")
}

pub fn program(name: &str) -> PathBuf {
    let folder = dir().join("target/x86_64-pc-windows-gnu/debug");
    let program = folder.join(name);
    let shown = program.display();
    assert!(program.exists(), "{shown}: run `make windows-calls`");
    program
}

/// winimg.exe, in the Wine prefix of a folder.
pub fn winimg(dir: &Path) -> Command {
    started("winimg.exe", dir)
}

/// One of the programs, in the Wine prefix of a folder.
pub fn started(name: &str, dir: &Path) -> Command {
    let script = tree::root().join("tests/windows/wine.sh");
    let mut command = Command::new(script);
    command.arg(program(name)).env("WINIMG_WINDOWS_DIR", dir);
    command
}

/// As Windows programs under Wine name it.
pub fn named(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}
