//! An overlay and its backing files, all resolved and checked before any of them is read.
//!
//! A qcow2 names its backing file in its header, and that name comes from the image's author: if it
//! were followed blindly, a foreign image could read any file of this machine. So backing files are
//! followed only if the caller allows it, only below one folder, only plain files, and only as the
//! qcow2 or raw that the header states; no format is guessed and no protocol is used (QEMU:
//! docs/interop/qcow2, "Backing file format name"). QEMU then gets the path of every file and reads
//! no other. The same rule applies to the parents of a VHDX, which [`super::vhdx`] reads itself.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::qemu_img::{self, QemuImageArg};
use super::{COPY_AGAIN, DiskImage};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io;

/// Maximum number of files in a chain, including the overlay.
pub const DEEPEST: usize = 64;

const QCOW2: &str = "qcow2";
const RAW: &str = "raw";

/// A qcow2 and its backing files, the qcow2 first; never empty.
#[derive(Clone, Debug)]
pub struct BackingChain {
    /// Each with QEMU's name of its format: qcow2 or raw.
    files: Vec<(PathBuf, &'static str)>,
    /// Bytes of the virtual disk.
    pub len: u64,
}

#[derive(Deserialize)]
struct QemuImageInfo {
    #[serde(rename = "virtual-size")]
    virtual_size: u64,
    #[serde(rename = "backing-filename")]
    backing: Option<String>,
    #[serde(rename = "backing-filename-format")]
    backing_format: Option<String>,
    #[serde(default)]
    encrypted: bool,
    #[serde(rename = "format-specific")]
    specific: Option<QemuFormatSpecific>,
}

#[derive(Deserialize)]
struct QemuFormatSpecific {
    data: QemuFormatData,
}

#[derive(Deserialize)]
struct QemuFormatData {
    #[serde(rename = "data-file")]
    data_file: Option<String>,
    #[serde(default)]
    corrupt: bool,
}

impl BackingChain {
    /// Reads only the headers. Refuses unreadable images, and backing files that the image may not
    /// have.
    pub fn resolve(image: DiskImage<'_>, cancel: &Cancel) -> Result<Self> {
        let mut files = vec![(image.file.to_owned(), QCOW2)];
        let mut seen = HashSet::from([resolve_path(image.file)?]);
        let mut len = None;
        loop {
            let (overlay, format) = &files[files.len() - 1];
            if *format == RAW {
                break;
            }
            // `info` opens no backing file.
            let info: QemuImageInfo =
                qemu_img::ask("info", &QemuImageArg::from_path(overlay, "qcow2"), cancel)?;
            len.get_or_insert(info.virtual_size);
            check_readable(overlay, &info)?;
            let Some(name) = &info.backing else { break };
            let Some(within) = image.layers else {
                let fact = format!("{} is an overlay over {name}", overlay.display());
                return Err(Error::failed(fact)
                    .expected(
                        "an image without a backing file, which could be any file of this machine",
                    )
                    .cure(format!(
                        "if you trust it, flatten it first: {}",
                        render_flatten_command(overlay)
                    )));
            };
            let below = resolve_backing(overlay, name, info.backing_format.as_deref(), within)?;
            if !seen.insert(below.0.clone()) {
                return Err(refuse_backing(overlay, name)
                    .expected("a chain without cycles")
                    .found("a file that is already in the chain"));
            }
            if files.len() == DEEPEST {
                return Err(refuse_backing(overlay, name)
                    .expected(format!("at most {DEEPEST} files in a chain"))
                    .found("more")
                    .cure(format!(
                        "flatten it: {}",
                        render_flatten_command(image.file)
                    )));
            }
            files.push(below);
        }
        let len = len.unwrap_or_default();
        Ok(Self { files, len })
    }

    /// Returns the files, the overlay first, in the order of `depth` in `qemu-img map`.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Refuses a chain with a damaged qcow2: truncated, or with contradicting tables. QEMU reads
    /// zeros beyond the end of such a file.
    pub fn check(&self, cancel: &Cancel) -> Result<()> {
        let is_alone = self.files.len() == 1;
        for (path, _) in self.files.iter().filter(|(_, format)| *format == QCOW2) {
            let image = match (is_alone, path.to_str()) {
                // A file without a backing file, whose name need not be Unicode.
                (true, _) | (_, None) => QemuImageArg::from_path(path, QCOW2),
                (false, Some(name)) => QemuImageArg::from_node(&json!({
                    "driver": QCOW2,
                    "file": {"driver": "file", "filename": name},
                    "backing": null,
                })),
            };
            let found = qemu_img::check(&image, cancel)?;
            let errors = found.corruptions + found.errors;
            if errors > 0 {
                return Err(Error::failed(format!("{} is damaged", path.display()))
                    .expected("an intact qcow2")
                    .found(format!("{errors} errors in `qemu-img check`"))
                    .cure(COPY_AGAIN));
            }
        }
        Ok(())
    }

    /// Describes the image to QEMU with the path of every file, regardless of the headers.
    pub fn to_image_arg(&self) -> Result<QemuImageArg> {
        if let [(only, format)] = self.files.as_slice() {
            return Ok(QemuImageArg::from_path(only, format));
        }
        let mut node = Value::Null;
        for (path, format) in self.files.iter().rev() {
            let Some(name) = path.to_str() else {
                return Err(Error::failed(
                    "an image with a backing file has a path that is not Unicode",
                )
                .at(path.display()));
            };
            let file = json!({"driver": "file", "filename": name});
            node = match *format {
                RAW => json!({"driver": RAW, "file": file}),
                _ => json!({"driver": QCOW2, "file": file, "backing": node}),
            };
        }
        Ok(QemuImageArg::from_node(&node))
    }
}

fn check_readable(path: &Path, info: &QemuImageInfo) -> Result<()> {
    let specific = info.specific.as_ref().map(|s| &s.data);
    if specific.is_some_and(|s| s.corrupt) {
        return Err(
            Error::failed(format!("{} is marked corrupt", path.display()))
                .cure("inspect it with qemu-img check, or rebuild the image"),
        );
    }
    let why = match specific.and_then(|s| s.data_file.as_ref()) {
        _ if info.encrypted => "is encrypted".to_string(),
        Some(data) => format!("keeps its data in {data}"),
        None => return Ok(()),
    };
    Err(
        Error::failed(format!("{} {why}, so it can't be read", path.display())).cure(format!(
            "if you trust it, make a plain copy first: {}",
            render_flatten_command(path)
        )),
    )
}

/// Resolves the backing file of `overlay`, if it may be read.
fn resolve_backing(
    overlay: &Path,
    name: &str,
    format: Option<&str>,
    within: &Path,
) -> Result<(PathBuf, &'static str)> {
    // To QEMU a colon before the first slash ends a protocol's name.
    let first = name.split('/').next().unwrap_or_default();
    if first.contains(':') {
        return Err(refuse_backing(overlay, name)
            .expected("a file name")
            .found("a protocol, or a description in JSON"));
    }
    let format = match format {
        Some(QCOW2) => QCOW2,
        Some(RAW) => RAW,
        other => {
            return Err(refuse_backing(overlay, name)
                .expected("qcow2 or raw as the format of the backing file")
                .found(other.unwrap_or("no format in the header"))
                .cure("state the format when creating the overlay: qemu-img create -F qcow2"));
        }
    };
    let folder = overlay.parent().unwrap_or(Path::new(""));
    let joined = folder.join(name);
    let path = io::canonicalize(&joined).map_err(|e| {
        refuse_backing(overlay, name)
            .expected("a file")
            .found(format!("{}: {e}", joined.display()))
    })?;
    plain_below(&path, within).map_err(|why| {
        refuse_backing(overlay, name)
            .expected(why.expected)
            .found(why.found)
    })?;
    Ok((path, format))
}

/// The reason why a file may not be read as part of a chain.
pub struct UnfitBackingFile {
    pub expected: String,
    pub found: String,
}

/// Checks that `path`, with all links resolved, is a plain file below the folder `within`.
pub fn plain_below(path: &Path, within: &Path) -> Result<(), UnfitBackingFile> {
    let within = within.canonicalize().map_err(|e| UnfitBackingFile {
        expected: format!("a file below {}", within.display()),
        found: e.to_string(),
    })?;
    if !path.starts_with(&within) {
        return Err(UnfitBackingFile {
            expected: format!("a file below {}", within.display()),
            found: path.display().to_string(),
        });
    }
    let found = match path.metadata() {
        Ok(metadata) if metadata.is_file() => return Ok(()),
        Ok(metadata) if metadata.is_dir() => "a folder".to_string(),
        Ok(_) => "a device, a pipe or a socket".to_string(),
        Err(e) => e.to_string(),
    };
    Err(UnfitBackingFile {
        expected: "a plain file".to_string(),
        found,
    })
}

fn refuse_backing(overlay: &Path, name: &str) -> Error {
    Error::failed(format!("the backing file {name:?} is refused")).at(overlay.display())
}

pub(super) fn resolve_path(path: &Path) -> Result<PathBuf> {
    io::canonicalize(path).map_err(|e| Error::io("find", path, e))
}

fn render_flatten_command(path: &Path) -> String {
    format!(
        "qemu-img convert -f qcow2 -O qcow2 {} flat.qcow2",
        path.display()
    )
}
