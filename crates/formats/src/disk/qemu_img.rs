//! `qemu-img` and `qemu-io`, run without a shell, watched for cancel, and gone with us.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{spawn, without_secrets};

const INSTALL: &str = match cfg!(windows) {
    true => "install QEMU for Windows, and put its folder on the PATH",
    false => "install it: apt-get install qemu-utils",
};

/// Runs `qemu-img ARGUMENTS` to its end and gives its standard output. A non-zero status is an error with its last lines.
pub fn run(arguments: &[&OsStr], cancel: &Cancel) -> Result<Vec<u8>> {
    run_program("qemu-img", arguments, cancel)
}

/// An image as QEMU's programs get it.
#[derive(Clone, Debug)]
pub struct Named {
    /// What goes before: `-f qcow2`, or nothing where the name says the format.
    pub format: Option<&'static str>,
    pub name: OsString,
}

impl Named {
    pub fn file(path: &Path, format: &'static str) -> Self {
        Self {
            format: Some(format),
            name: file_name(path),
        }
    }

    /// A description of the image and the files below it (QEMU: QMP reference, `BlockdevOptions`).
    pub fn node(node: &Value) -> Self {
        Self {
            format: None,
            name: format!("json:{node}").into(),
        }
    }

    /// As arguments: `-f` and the format, where it has to be said, then the name.
    pub fn arguments(&self) -> Vec<&OsStr> {
        let format = self.format.map(|f| ["-f", f].map(OsStr::new));
        format.into_iter().flatten().chain([&*self.name]).collect()
    }
}

/// Runs `qemu-img info|map` and reads the JSON.
pub fn ask<T: DeserializeOwned>(what: &str, image: &Named, cancel: &Cancel) -> Result<T> {
    let arguments = [what, "--output=json"].map(OsStr::new);
    let output = run(&[&arguments[..], &image.arguments()].concat(), cancel)?;
    serde_json::from_slice(&output).map_err(|e| unknown_form(what, image, e))
}

fn unknown_form(what: &str, image: &Named, why: serde_json::Error) -> Error {
    Error::new(
        Kind::Host,
        format!("qemu-img {what} answered in a form unknown to winimg"),
    )
    .at(image.name.display())
    .because(why)
    .cure("use QEMU 7.2 or later")
}

/// What `qemu-img check` counts in one image file.
#[derive(Debug, Default, Deserialize)]
pub struct Checked {
    /// Clusters and tables that are not where the file says, or that two owners share.
    #[serde(default)]
    pub corruptions: u64,
    /// Parts that could not be looked at.
    #[serde(default, rename = "check-errors")]
    pub errors: u64,
}

/// Runs `qemu-img check`. Its exit status is 2 for corruptions and 3 for leaked clusters, which only waste space.
pub fn check(image: &Named, cancel: &Cancel) -> Result<Checked> {
    let words = ["check", "--output=json"].map(OsStr::new);
    let arguments = [&words[..], &image.arguments()].concat();
    let output = run_until("qemu-img", &arguments, &[0, 2, 3], cancel)?;
    serde_json::from_slice(&output).map_err(|e| unknown_form("check", image, e))
}

/// Copies an image into a qcow2 of one file, nothing compressed.
pub fn flatten(image: &Named, to: &Path, cancel: &Cancel) -> Result<()> {
    let arguments = ["convert", "-O", "qcow2"].map(OsStr::new);
    let to = file_name(to);
    run(
        &[&arguments[..], &image.arguments(), &[&to]].concat(),
        cancel,
    )
    .map(drop)
}

/// Makes ranges of a qcow2 read as zeros and gives their space back; bytes, whole sectors. The image must not be in use.
/// Files below an overlay are not written: zero clusters of the overlay hide what they hold.
pub fn write_zeros(qcow2: &Named, ranges: &[Range<u64>], cancel: &Cancel) -> Result<()> {
    // As many as a command line holds with ease.
    for ranges in ranges.chunks(500) {
        let writes = ranges
            .iter()
            .map(|r| format!("write -z -u {} {}", r.start, r.end - r.start));
        let writes: Vec<String> = writes.collect();
        let orders = writes.iter().flat_map(|w| ["-c", w].map(OsStr::new));
        let arguments: Vec<&OsStr> = orders.chain(qcow2.arguments()).collect();
        run_program("qemu-io", &arguments, cancel)?;
    }
    Ok(())
}

fn run_program(program: &str, arguments: &[&OsStr], cancel: &Cancel) -> Result<Vec<u8>> {
    run_until(program, arguments, &[0], cancel)
}

/// Runs a program to its end; an exit status that is not in `good` is an error.
fn run_until(
    program: &str,
    arguments: &[&OsStr],
    good: &[i32],
    cancel: &Cancel,
) -> Result<Vec<u8>> {
    let mut child = start(program, arguments)?;
    let (output, complaint) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait(program, &mut child, cancel)?;
    if status.is_some_and(|status| good.contains(&status)) {
        return Ok(output.join().unwrap_or_default());
    }
    let complaint = complaint.join().unwrap_or_default();
    let complaint = String::from_utf8_lossy(&complaint);
    let lines: Vec<&str> = complaint.lines().collect();
    let shown = &lines[lines.len().saturating_sub(8)..];
    let fact = format!("{program} {} failed", arguments[0].display());
    let error = Error::failed(fact)
        .at(command_line(program, arguments))
        .found(match status {
            Some(code) => format!("exit status {code}"),
            None => "ended by a signal".into(),
        })
        .lines(shown.iter().copied());
    Err(
        match complaint.contains("Failed to get") && complaint.contains("lock") {
            true => error.cure("another program has the image open: end that machine first"),
            false => error,
        },
    )
}

fn start(program: &str, arguments: &[&OsStr]) -> Result<Child> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    without_secrets(&mut command);
    let child = spawn(&mut command).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            Error::new(Kind::Host, format!("{program} is not installed")).cure(INSTALL)
        }
        _ => Error::io("run", program, e),
    })?;
    tracing::debug!(
        command = command_line(program, arguments),
        pid = child.id(),
        "started a program"
    );
    Ok(child)
}

/// Reads a pipe to its end beside the wait, so that a full pipe can't stop the program.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read until an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(program: &str, child: &mut Child, cancel: &Cancel) -> Result<Option<i32>> {
    let mut pause = Duration::from_millis(1);
    loop {
        let ended = child
            .try_wait()
            .map_err(|e| Error::io("wait for", program, e))?;
        if let Some(status) = ended {
            return Ok(status.code());
        }
        if let Err(e) = cancel.sleep(pause) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(e);
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn command_line(program: &str, arguments: &[&OsStr]) -> String {
    let mut line = OsString::from(program);
    for argument in arguments {
        line.push(" ");
        line.push(argument);
    }
    line.to_string_lossy().into_owned()
}

/// `path` as qemu-img must be given it: `file:` keeps a colon or a `json:` in a name from being read as a protocol.
pub fn file_name(path: &Path) -> OsString {
    let mut name = OsString::from("file:");
    name.push(path);
    name
}
