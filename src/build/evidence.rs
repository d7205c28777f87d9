//! What a failed build leaves for the person who has to find out: screens, QEMU's own words, the serial log.
//!
//! Copies and names; never changes the error's meaning, and never lets a failing copy hide it.

use std::fs;
use std::path::Path;

use crate::error::{Error, Kind};
use crate::event::Sink;

/// What the machine leaves in its run directory that is worth keeping. Sockets and firmware variables are not.
const WORTH: &[&str] = &["png", "log", "txt"];

/// Copies the evidence to `<output>/failure` and adds its path to the error. An interrupt keeps nothing.
pub fn keep(error: Error, output: &Path, run_dir: &Path, sink: &dyn Sink) -> Error {
    if error.kind() == Kind::Cancelled {
        return error;
    }
    let failure = output.join("failure");
    let _ = fs::remove_dir_all(&failure);
    let kept = copy(run_dir, &failure).unwrap_or_else(|e| {
        sink.warn(format!("the evidence could not be kept: {e}"));
        0
    });
    let error = error.moved(run_dir, &failure);
    let told = fs::write(failure.join("error.txt"), format!("{error}\n"));
    if kept == 0 || told.is_err() {
        return error;
    }
    error.lines([format!(
        "screens and logs of the machine: {}",
        failure.display()
    )])
}

fn copy(from: &Path, to: &Path) -> std::io::Result<usize> {
    let mut kept = 0;
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        if path.is_dir() {
            kept += copy(&path, &to.join(name))?;
        } else if path
            .extension()
            .is_some_and(|e| WORTH.iter().any(|w| e == *w))
            && path.is_file()
        {
            fs::copy(&path, to.join(name))?;
            kept += 1;
        }
    }
    Ok(kept)
}
