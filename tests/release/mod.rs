//! What makes a release: the workflows, the scripts that they call on a hosted runner and here, and the crates as they are published. GitHub is not asked:
//! `gh` is a stand-in that knows the calls of these scripts and no other.
#![cfg(unix)]

mod crates;
mod fetched;
mod here;
mod hosted;
mod packed;
mod parts;
mod signed;
mod told;
mod workflows;

use std::path::Path;
use std::process::{Command, Output};

use support::tree::root;

/// A script of `release/`.
fn script(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    started(&root().join("release").join(name), arguments, environment)
}

/// A script with nothing of the caller's environment but where programs are found.
fn started(script: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(script);
    command.args(arguments).current_dir(root()).env_clear();
    for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command.envs(environment.iter().copied());
    command.output().expect("a script")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The version of every crate.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// `PATH` with a program of this text before all others.
fn before_path(folder: &Path, name: &str, program: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let file = folder.join(name);
    std::fs::write(&file, program).expect("a program");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, mode).expect("a mode");
    let path = std::env::var("PATH").expect("PATH");
    format!("{}:{path}", folder.display())
}
