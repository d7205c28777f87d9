//! Runs `qemu-img` and `qemu-io` without a shell; they end on cancellation and with this process.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{remove_secrets, spawn};

const INSTALL: &str = if cfg!(windows) {
    "install QEMU for Windows, and put its folder on the PATH"
} else {
    "install it: apt-get install qemu-utils"
};

/// Runs `qemu-img ARGUMENTS` and returns its standard output. A non-zero status is an error with
/// the last lines of its standard error.
pub fn run(arguments: &[&OsStr], cancel: &Cancel) -> Result<Vec<u8>> {
    run_program("qemu-img", arguments, cancel)
}

/// An image as an argument of QEMU's programs.
#[derive(Clone, Debug)]
pub struct QemuImageArg {
    /// Format for `-f`; `None` if the name includes it.
    pub format: Option<&'static str>,
    pub name: OsString,
}

impl QemuImageArg {
    pub fn from_path(path: &Path, format: &'static str) -> Self {
        Self {
            format: Some(format),
            name: file_name(path),
        }
    }

    /// Describes an image and its backing files (QEMU: QMP reference, `BlockdevOptions`).
    pub fn from_node(node: &Value) -> Self {
        Self {
            format: None,
            name: format!("json:{node}").into(),
        }
    }

    /// Returns the arguments: `-f` and the format, if needed, then the name.
    pub fn to_arguments(&self) -> Vec<&OsStr> {
        let format = self.format.map(|f| ["-f", f].map(OsStr::new));
        format.into_iter().flatten().chain([&*self.name]).collect()
    }
}

/// Describes a file to QEMU by the driver for its format (QEMU: QMP reference, `BlockdevOptions`).
pub fn build_node(driver: &str, file: &Path) -> Value {
    json!({"driver": driver, "file": {"driver": "file", "filename": file}})
}

/// Runs `qemu-img info` or `qemu-img map` and parses its JSON.
pub fn ask<T: DeserializeOwned>(what: &str, image: &QemuImageArg, cancel: &Cancel) -> Result<T> {
    let arguments = [what, "--output=json"].map(OsStr::new);
    let output = run(&[&arguments[..], &image.to_arguments()].concat(), cancel)?;
    serde_json::from_slice(&output).map_err(|e| unknown_form(what, image, e))
}

fn unknown_form(what: &str, image: &QemuImageArg, why: serde_json::Error) -> Error {
    Error::new(
        Kind::Host,
        format!("cannot parse the output of qemu-img {what}"),
    )
    .at(image.name.display())
    .because(why)
    .cure("use QEMU 7.2 or later")
}

/// Counts reported by `qemu-img check` for one image file.
#[derive(Debug, Default, Deserialize)]
pub struct QemuCheckCounts {
    /// Misplaced or doubly used clusters and tables.
    #[serde(default)]
    pub corruptions: u64,
    /// Parts that could not be checked.
    #[serde(default, rename = "check-errors")]
    pub errors: u64,
}

/// Runs `qemu-img check`. Its exit status is 2 for corruptions and 3 for leaked clusters, which
/// only waste space.
pub fn check(image: &QemuImageArg, cancel: &Cancel) -> Result<QemuCheckCounts> {
    let words = ["check", "--output=json"].map(OsStr::new);
    let arguments = [&words[..], &image.to_arguments()].concat();
    let output = run_until("qemu-img", &arguments, &[0, 2, 3], cancel)?;
    serde_json::from_slice(&output).map_err(|e| unknown_form("check", image, e))
}

/// Copies an image into a single uncompressed qcow2.
pub fn flatten(image: &QemuImageArg, to: &Path, cancel: &Cancel) -> Result<()> {
    let arguments = ["convert", "-O", "qcow2"].map(OsStr::new);
    let to = file_name(to);
    run(
        &[&arguments[..], &image.to_arguments(), &[&to]].concat(),
        cancel,
    )
    .map(drop)
}

/// Zeroes ranges of a qcow2 (bytes, whole sectors) and frees their space. The image must not be in
/// use. Backing files are not written: zero clusters of the overlay hide their data.
pub fn write_zeros(qcow2: &QemuImageArg, ranges: &[Range<u64>], cancel: &Cancel) -> Result<()> {
    // Keeps command lines short enough.
    for ranges in ranges.chunks(500) {
        let writes: Vec<String> = ranges
            .iter()
            .map(|r| format!("write -z -u {} {}", r.start, r.end - r.start))
            .collect();
        let arguments: Vec<&OsStr> = writes
            .iter()
            .flat_map(|w| ["-c", w].map(OsStr::new))
            .chain(qcow2.to_arguments())
            .collect();
        run_program("qemu-io", &arguments, cancel)?;
    }
    Ok(())
}

fn run_program(program: &str, arguments: &[&OsStr], cancel: &Cancel) -> Result<Vec<u8>> {
    run_until(program, arguments, &[0], cancel)
}

/// Runs a program; an exit status that is not in `good` is an error.
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
    let stderr = complaint.join().unwrap_or_default();
    let complaint = String::from_utf8_lossy(&stderr);
    let lines: Vec<&str> = complaint.lines().collect();
    let shown = &lines[lines.len().saturating_sub(8)..];
    let fact = format!("{program} {} failed", arguments[0].display());
    let error = Error::failed(fact)
        .at(command_line(program, arguments))
        .found(match status {
            Some(code) => format!("exit status {code}"),
            None => "killed by a signal".into(),
        })
        .lines(shown.iter().copied());
    Err(
        if complaint.contains("Failed to get") && complaint.contains("lock") {
            error.cure("another program has the image open; stop that VM first")
        } else {
            error
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
    remove_secrets(&mut command);
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

/// Reads a pipe to its end in a thread, so that a full pipe cannot block the program.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Output read before an error is still useful.
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

/// Returns `path` as an argument: `file:` prevents a colon or `json:` in a name from being read as
/// a protocol.
pub fn file_name(path: &Path) -> OsString {
    let mut name = OsString::from("file:");
    name.push(path);
    name
}
