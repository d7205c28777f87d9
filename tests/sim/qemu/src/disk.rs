//! The image files of the machine: opened and locked as QEMU does, and written where the guest would write.
//!
//! The guest's own state lies on the disk, in the reserved partition of the disks that tests make, so that it lives and dies with the
//! image: an overlay, a layer and a copy bring their Windows along, and an empty disk boots nothing.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::lock::{self, Use};

/// Where the state lies: 2 MiB in, at most 1 MiB.
const PLACE: u64 = 2 << 20;
const ROOM: u64 = 1 << 20;
const MARK: &[u8; 8] = b"FAKEWIN1";
/// Where Setup leaves the installation's number, which the state repeats: a state over another installation is a torn disk.
const NUMBER_PLACE: u64 = 3 << 20;

/// An opened image with its backing files; dropping it gives the locks back.
pub struct Image {
    _files: Vec<File>,
}

impl Image {
    /// The error is what QEMU says of such a file.
    pub fn open(path: &Path, format: &str, readonly: bool) -> Result<Self, String> {
        let mut files = Vec::new();
        open_chain(path, format, readonly, &mut files)?;
        Ok(Self { _files: files })
    }
}

fn open_chain(
    path: &Path,
    format: &str,
    readonly: bool,
    files: &mut Vec<File>,
) -> Result<(), String> {
    if files.len() > 64 {
        return Err(format!("'{}': too many backing files", path.display()));
    }
    let shown = path.display();
    let cannot = |e: std::io::Error| {
        let text = e.to_string();
        format!(
            "Could not open '{shown}': {}",
            text.split(" (os").next().unwrap_or(&text)
        )
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(!readonly)
        .open(path)
        .map_err(cannot)?;
    if file.metadata().map_err(cannot)?.is_dir() {
        return Err(format!(
            "Could not open '{shown}': A regular file was expected by the 'file' driver, but something else was given"
        ));
    }
    let what = if readonly { Use::Reads } else { Use::Writes };
    lock::take(&file, what).map_err(|why| format!("{why} [{shown}]?"))?;
    let below = match format {
        "qcow2" => backing(&mut file, path)?,
        _ => None,
    };
    files.push(file);
    if let Some((name, format)) = below {
        let folder = path.parent().unwrap_or(Path::new("."));
        open_chain(&folder.join(name), &format, true, files)
            .map_err(|why| format!("Could not open backing file: {why}"))?;
    }
    Ok(())
}

/// Name and format of the backing file (QEMU: docs/interop/qcow2).
fn backing(file: &mut File, path: &Path) -> Result<Option<(PathBuf, String)>, String> {
    let bad = |_| {
        format!(
            "Could not open '{}': Image is not in qcow2 format",
            path.display()
        )
    };
    let mut head = vec![0; 72];
    file.read_exact(&mut head).map_err(bad)?;
    if !head.starts_with(b"QFI\xfb") {
        return Err(bad(std::io::ErrorKind::InvalidData.into()));
    }
    let offset = u64::from_be_bytes(head[8..16].try_into().unwrap_or_default());
    let size = u32::from_be_bytes(head[16..20].try_into().unwrap_or_default()).min(1023);
    if offset == 0 {
        return Ok(None);
    }
    let rendered = tool(
        "qemu-img",
        &[
            "info".as_ref(),
            "-U".as_ref(),
            "--output=json".as_ref(),
            path.as_os_str(),
        ],
    )?;
    let rendered: serde_json::Value =
        serde_json::from_slice(&rendered).map_err(|e| e.to_string())?;
    let name = rendered["backing-filename"].as_str().unwrap_or_default();
    let format = rendered["backing-filename-format"].as_str();
    match (size, format) {
        (1.., Some(format)) => Ok(Some((name.into(), format.into()))),
        _ => Err(format!(
            "Could not open '{}': this stand-in wants the backing file's format named",
            path.display()
        )),
    }
}

/// What is on the disk beside its bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Windows {
    /// Of this installation.
    pub number: u64,
    /// How often it was started.
    pub boots: u32,
    /// By lower-case path.
    pub files: BTreeMap<String, Bytes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        BASE64
            .decode(text)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

/// The Windows on a closed disk; `None` when there is none. `scratch` is a folder to work in.
pub fn load(disk: &Path, scratch: &Path) -> Result<Option<Windows>, String> {
    // `count` counts from the file's start, whatever `skip` says.
    let copy = scratch.join("fake-state.raw");
    let of = format!("of={}", copy.display());
    let from = format!("if={}", disk.display());
    let (skip, count) = (
        format!("skip={}", PLACE >> 20),
        format!("count={}", (NUMBER_PLACE + ROOM) >> 20),
    );
    let arguments = [
        "dd", "-U", "-f", "qcow2", "-O", "raw", "bs=1M", &skip, &count, &from, &of,
    ];
    let read = tool("qemu-img", &arguments.map(AsRef::as_ref));
    let bytes = std::fs::read(&copy);
    let _ = std::fs::remove_file(&copy);
    read?;
    let bytes = bytes.map_err(|e| e.to_string())?;
    let Some(rest) = bytes.strip_prefix(MARK) else {
        return Ok(None);
    };
    let length = rest
        .get(..8)
        .and_then(|b| b.try_into().ok())
        .map(u64::from_le_bytes);
    let text = length.and_then(|n| rest.get(8..8 + usize::try_from(n).ok()?));
    let text = text.ok_or("the guest's state on the disk is cut")?;
    let windows: Windows =
        serde_json::from_slice(text).map_err(|e| format!("the guest's state on the disk: {e}"))?;
    let number = bytes.get(ROOM as usize..ROOM as usize + 8);
    if number == Some(&windows.number.to_le_bytes()) {
        Ok(Some(windows))
    } else {
        Err("the disk is a mixture of two installations".into())
    }
}

/// Writes it to a disk that nobody has open; with its number, when Setup has just made it.
pub fn save(disk: &Path, windows: &Windows, scratch: &Path, fresh: bool) -> Result<(), String> {
    let text = serde_json::to_vec(windows).map_err(|e| e.to_string())?;
    let mut bytes = MARK.to_vec();
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text);
    if bytes.len() as u64 > ROOM {
        return Err("the guest's state is larger than its place on the disk".into());
    }
    write(disk, bytes, PLACE, scratch)?;
    if fresh {
        write(
            disk,
            windows.number.to_le_bytes().to_vec(),
            NUMBER_PLACE,
            scratch,
        )
    } else {
        Ok(())
    }
}

fn write(disk: &Path, mut bytes: Vec<u8>, place: u64, scratch: &Path) -> Result<(), String> {
    // A multiple of what qemu-io writes without reading first.
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    let file = scratch.join("fake-state.raw");
    std::fs::write(&file, &bytes).map_err(|e| e.to_string())?;
    let order = format!("write -s {} {place} {}", file.display(), bytes.len());
    let arguments = ["-f", "qcow2", "-t", "unsafe", "-c", &order];
    let mut arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    arguments.push(disk.as_os_str());
    let done = tool("qemu-io", &arguments);
    let _ = std::fs::remove_file(&file);
    done.map(|_| ())
}

/// Setup's work: everything of `from` onto the machine's disk.
pub fn apply(from: &Path, disk: &Path) -> Result<(), String> {
    let arguments = [
        "convert", "-n", "-f", "qcow2", "-O", "qcow2", "-t", "unsafe",
    ];
    let mut arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    arguments.extend([from.as_os_str(), disk.as_os_str()]);
    tool("qemu-img", &arguments).map(|_| ())
}

/// Runs a tool that dies with us; its stdout, or its complaint.
fn tool(program: &str, arguments: &[&std::ffi::OsStr]) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env("LC_ALL", "C");
    // SAFETY: prctl is a plain system call.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        )
    };
    let output = command.output().map_err(|e| format!("{program}: {e}"))?;
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).trim().to_string();
    // qemu-io reports a failed write in words alone.
    if output.status.success() && !said.contains("write failed") {
        Ok(output.stdout)
    } else {
        Err(format!("{program}: {said}"))
    }
}
