//! An overlay and the files below it, each found and judged before any of them is read.
//!
//! A qcow2 names its backing file in its header, and that name comes from the image's author: followed blindly, an image
//! from elsewhere reads any file of this machine. So backing files are followed only where the caller says so, only below one
//! folder, only plain files, and only as qcow2 or raw as the header states it; no format is guessed and no protocol is
//! spoken (QEMU: docs/interop/qcow2, "Backing file format name"). QEMU then gets every file by its place, and reads
//! no other. The parents of a VHDX, which [`super::vhdx`] reads itself, keep to the same rule.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::qemu_img::{self, Named};
use super::{COPY_AGAIN, Image};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io;

/// Files in a chain, the overlay among them.
pub const DEEPEST: usize = 64;

const QCOW2: &str = "qcow2";
const RAW: &str = "raw";

/// A qcow2 and what lies below it, the qcow2 first; at least that one.
#[derive(Clone, Debug)]
pub struct Chain {
    /// With QEMU's name of each one's format: qcow2 or raw.
    files: Vec<(PathBuf, &'static str)>,
    /// Bytes of the virtual disk.
    pub len: u64,
}

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "virtual-size")]
    virtual_size: u64,
    #[serde(rename = "backing-filename")]
    backing: Option<String>,
    #[serde(rename = "backing-filename-format")]
    backing_format: Option<String>,
    #[serde(default)]
    encrypted: bool,
    #[serde(rename = "format-specific")]
    specific: Option<Specific>,
}

#[derive(Deserialize)]
struct Specific {
    data: SpecificData,
}

#[derive(Deserialize)]
struct SpecificData {
    #[serde(rename = "data-file")]
    data_file: Option<String>,
    #[serde(default)]
    corrupt: bool,
}

impl Chain {
    /// Looks at the headers only. Refuses what can't be read, and a backing file that the image may not have.
    pub fn of(image: Image<'_>, cancel: &Cancel) -> Result<Self> {
        let mut files = vec![(image.file.to_owned(), QCOW2)];
        let mut seen = HashSet::from([canonical(image.file)?]);
        let mut len = None;
        loop {
            let (overlay, format) = &files[files.len() - 1];
            if *format == RAW {
                break;
            }
            // `info` opens no backing file.
            let info: Info = qemu_img::ask("info", &Named::file(overlay, "qcow2"), cancel)?;
            len.get_or_insert(info.virtual_size);
            readable(overlay, &info)?;
            let Some(name) = &info.backing else { break };
            let Some(within) = image.layers else {
                return Err(Error::failed(format!("{} is an overlay over {name}", overlay.display()),
                )
                .expected("an image that names no other file: such a name can be any file of this machine")
                .cure(format!(
                    "if you trust it, flatten it first: {}",
                    flatten(overlay)
                )));
            };
            let below = below(overlay, name, info.backing_format.as_deref(), within)?;
            if !seen.insert(below.0.clone()) {
                return Err(refused(overlay, name)
                    .expected("a chain with an end")
                    .found("a file that stands above it"));
            }
            if files.len() == DEEPEST {
                return Err(refused(overlay, name)
                    .expected(format!("at most {DEEPEST} files in a chain"))
                    .found("more")
                    .cure(format!("flatten it: {}", flatten(image.file))));
            }
            files.push(below);
        }
        let len = len.unwrap_or_default();
        Ok(Self { files, len })
    }

    /// The files, the overlay first: as `qemu-img map` counts them in `depth`.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Refuses a chain in which a qcow2 is damaged: cut short, or with tables that contradict each other. QEMU reads what lies
    /// behind the end of such a file as zeros.
    pub fn check(&self, cancel: &Cancel) -> Result<()> {
        let is_alone = self.files.len() == 1;
        for (path, _) in self.files.iter().filter(|(_, format)| *format == QCOW2) {
            let image = match (is_alone, path.to_str()) {
                // A file without a backing file, by a name that need not be Unicode.
                (true, _) | (_, None) => Named::file(path, QCOW2),
                (false, Some(name)) => Named::node(&json!({
                    "driver": QCOW2,
                    "file": {"driver": "file", "filename": name},
                    "backing": null,
                })),
            };
            let found = qemu_img::check(&image, cancel)?;
            let errors = found.corruptions + found.errors;
            if errors > 0 {
                return Err(Error::failed(format!("{} is damaged", path.display()))
                    .expected("a whole qcow2")
                    .found(format!("{errors} errors of `qemu-img check`"))
                    .cure(COPY_AGAIN));
            }
        }
        Ok(())
    }

    /// The image as QEMU gets it: every file by its place, whatever the headers say.
    pub fn named(&self) -> Result<Named> {
        if let [(only, format)] = self.files.as_slice() {
            return Ok(Named::file(only, format));
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
        Ok(Named::node(&node))
    }
}

fn readable(path: &Path, info: &Info) -> Result<()> {
    let specific = info.specific.as_ref().map(|s| &s.data);
    if specific.is_some_and(|s| s.corrupt) {
        return Err(
            Error::failed(format!("{} is marked corrupt", path.display()))
                .cure("look at it with qemu-img check; build the image again"),
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
            flatten(path)
        )),
    )
}

/// The backing file of `overlay`, when it is one that may be read.
fn below(
    overlay: &Path,
    name: &str,
    format: Option<&str>,
    within: &Path,
) -> Result<(PathBuf, &'static str)> {
    // QEMU takes a colon before the first slash for the end of a protocol's name.
    let first = name.split('/').next().unwrap_or_default();
    if first.contains(':') {
        return Err(refused(overlay, name)
            .expected("the name of a file")
            .found("a protocol, or a description in JSON"));
    }
    let format = match format {
        Some(QCOW2) => QCOW2,
        Some(RAW) => RAW,
        other => {
            return Err(refused(overlay, name)
                .expected("qcow2 or raw as the format of the backing file")
                .found(other.unwrap_or("a header that does not say it"))
                .cure("name the format when the overlay is made: qemu-img create -F qcow2"));
        }
    };
    let folder = overlay.parent().unwrap_or(Path::new(""));
    let path = folder.join(name);
    let path = io::canonicalize(&path).map_err(|e| {
        let refused = refused(overlay, name).expected("a file");
        refused.found(format!("{}: {e}", path.display()))
    })?;
    plain_below(&path, within).map_err(|why| {
        refused(overlay, name)
            .expected(why.expected)
            .found(why.found)
    })?;
    Ok((path, format))
}

/// Why a file may not be read as part of a chain.
pub struct Unfit {
    pub expected: String,
    pub found: String,
}

/// Whether `path`, which has no links in it any more, is a plain file below the folder `within`.
pub fn plain_below(path: &Path, within: &Path) -> Result<(), Unfit> {
    let unfit = |expected: String, found: String| Unfit { expected, found };
    let below = format!("a file below {}", within.display());
    let within = within
        .canonicalize()
        .map_err(|e| unfit(below, e.to_string()))?;
    if !path.starts_with(&within) {
        let below = format!("a file below {}", within.display());
        return Err(unfit(below, path.display().to_string()));
    }
    let found = match path.metadata() {
        Ok(metadata) if metadata.is_file() => return Ok(()),
        Ok(metadata) if metadata.is_dir() => "a folder".to_string(),
        Ok(_) => "a device, a pipe or a socket".to_string(),
        Err(e) => e.to_string(),
    };
    Err(unfit("a plain file".to_string(), found))
}

fn refused(overlay: &Path, name: &str) -> Error {
    Error::failed(format!("the backing file {name:?} is refused")).at(overlay.display())
}

pub(super) fn canonical(path: &Path) -> Result<PathBuf> {
    io::canonicalize(path).map_err(|e| Error::io("find", path, e))
}

fn flatten(path: &Path) -> String {
    format!(
        "qemu-img convert -f qcow2 -O qcow2 {} flat.qcow2",
        path.display()
    )
}
