//! What a failed build leaves for the person who has to find out: one directory and one page that explains it.
//!
//! Copies, reads and names; never changes the error's meaning, never lets a failing copy hide it, writes to no disk image and
//! lets no secret of the build into any file here.

use std::fs;
use std::path::Path;

use crate::error::{Error, Kind};
use crate::event::{Cancel, Sink};
use crate::text::Secret;

/// The directory's name in the output directory.
pub const FOLDER: &str = "failure";

/// What the machine leaves in its run directory that is worth keeping. Sockets and firmware variables are not.
const WORTH: &[&str] = &["png", "log", "txt", "jsonl"];

/// Where a build was when it failed.
pub struct Scene<'a> {
    /// The build's output directory; the evidence goes below it.
    pub output: &'a Path,
    /// Of the machine: `screens/`, `serial.log`, `seabios.log`, `qemu.log`, `agent.log`.
    pub run_dir: &'a Path,
    /// The machine's disk, closed or paused. `None`: nothing was started.
    pub disk: Option<&'a Path>,
    /// The steps' whole output: `NN-name.log`.
    pub logs: &'a Path,
    /// The step that ran: its number and name.
    pub step: Option<(usize, &'a str)>,
    /// The recipe's name.
    pub recipe: &'a str,
    /// The phase that did not end; empty where `events.jsonl` knows it.
    pub phase: &'a str,
    /// What no file of the evidence may hold.
    pub secrets: &'a [Secret],
}

/// Keeps the evidence in `<output>/failure` and adds its path to the error. An interrupt keeps nothing.
pub fn keep(error: Error, scene: &Scene, sink: &dyn Sink, _cancel: &Cancel) -> Error {
    if error.kind() == Kind::Cancelled {
        return error;
    }
    let failure = scene.output.join(FOLDER);
    let _ = fs::remove_dir_all(&failure);
    let kept = copy(scene.run_dir, &failure).unwrap_or_else(|e| {
        sink.warn(format!("the evidence could not be kept: {e}"));
        0
    });
    let error = error.moved(scene.run_dir, &failure);
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
