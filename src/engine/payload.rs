//! The payload disc: every file that a step copies into the guest, and the scripts that copy them.
//!
//! Written before the VM starts, only from verified blobs, unpacked trees and the recipe's own
//! text.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::BuildInputs;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::text::to_crlf;
use winimg_formats::archive::UnpackedFile;
use winimg_formats::iso::{self, DiscSource, DiscTree};
use winimg_recipe::ops::Encoding;
use winimg_recipe::plan::{
    BuildPlan, DriverFolder, ExitRule, PayloadEntry, PayloadScript, PlannedOp, PlannedStep,
    SettleWait,
};
use winimg_supply::store::{StoredBlob, UnpackedTree};

/// The file at the disc's root by which `payload.cmd` identifies the disc.
const MARK: &str = "winimg.payload";

/// Returns the script that only shows that the disc is present. Script 0 is free, because steps are
/// counted from 1.
pub fn make_ready_script() -> PayloadScript {
    PayloadScript {
        script: 0,
        part: 0,
        text: "@echo off\nexit /b 0\n".into(),
        exit: ExitRule::Zero,
        timeout: Duration::from_secs(60),
    }
}

/// Writes the disc for the steps from `first` on (counted from 0) and returns its path.
pub fn write(
    plan: &BuildPlan,
    first: usize,
    inputs: &BuildInputs,
    work: &Path,
    epoch: i64,
    cancel: &Cancel,
) -> Result<PathBuf> {
    let mut tree = DiscTree::new("WINIMG_PAYLOAD").with_stamp(epoch);
    tree.add(MARK, encode_batch("Files of a winimg build.\n"));
    let steps = plan.steps.get(first..).unwrap_or_default();
    for put in collect_scripts(steps) {
        tree.add(format!("s/{}.cmd", put.number()), encode_batch(&put.text));
    }
    for (number, entry) in plan.payload.iter().enumerate() {
        cancel.check()?;
        let is_used = steps
            .iter()
            .any(|step| step.entries.iter().any(|n| *n as usize == number));
        if !is_used {
            continue;
        }
        add(&mut tree, number, entry, inputs, work)?;
    }
    let file = work.join("payload.iso");
    iso::write(&tree, &file)?;
    Ok(file)
}

fn collect_scripts(steps: &[PlannedStep]) -> Vec<PayloadScript> {
    let ops = steps.iter().flat_map(|step| &step.ops);
    let steps = ops.filter_map(|op| match op {
        PlannedOp::Put(put) => Some(put.clone()),
        _ => None,
    });
    [make_ready_script(), SettleWait::question()]
        .into_iter()
        .chain(steps)
        .collect()
}

/// Converts line ends to CRLF: cmd.exe misses labels in batch files without it.
fn encode_batch(text: &str) -> DiscSource {
    DiscSource::Bytes(to_crlf(text).into_bytes())
}

fn add(
    tree: &mut DiscTree,
    number: usize,
    entry: &PayloadEntry,
    inputs: &BuildInputs,
    work: &Path,
) -> Result<()> {
    let folder = format!("p/{number:04}");
    if let PayloadEntry::Image { image: name } = entry {
        let image = inputs
            .find_image(name)
            .ok_or_else(|| report_missing(name))?;
        let file = work.join(format!("{number:04}.tar"));
        image.write(&file)?;
        tree.add(format!("{folder}/{name}.tar"), DiscSource::Path(file));
    }
    for file in list_files(number, entry, inputs)? {
        let source = match file.content {
            PayloadSource::Blob(blob) => DiscSource::Verified {
                path: blob.path().into(),
                sha256: file.sha256,
            },
            PayloadSource::Unpacked(path) => DiscSource::Verified {
                path,
                sha256: file.sha256,
            },
            PayloadSource::Bytes(bytes) => DiscSource::Bytes(bytes),
        };
        tree.add(format!("{folder}/{}", file.path), source);
    }
    Ok(())
}

pub(super) struct PayloadFile<'i> {
    /// Relative to the entry, with slashes.
    pub path: String,
    pub size: u64,
    pub sha256: Digest,
    content: PayloadSource<'i>,
}

enum PayloadSource<'i> {
    Blob(&'i StoredBlob),
    Unpacked(PathBuf),
    Bytes(Vec<u8>),
}

impl<'i> PayloadFile<'i> {
    fn of_unpacked(tree: &UnpackedTree, file: &UnpackedFile) -> Self {
        Self {
            path: file.path.clone(),
            size: file.size,
            sha256: file.sha256.clone(),
            content: PayloadSource::Unpacked(tree.path().join(&file.path)),
        }
    }

    fn of_blob(path: &str, blob: &'i StoredBlob) -> Self {
        Self {
            path: path.into(),
            size: blob.size(),
            sha256: blob.digest().clone(),
            content: PayloadSource::Blob(blob),
        }
    }
}

/// Returns the files of an entry. A container image has none: no step copies its archive as it is.
pub(super) fn list_files<'i>(
    number: usize,
    entry: &PayloadEntry,
    inputs: &'i BuildInputs,
) -> Result<Vec<PayloadFile<'i>>> {
    match entry {
        PayloadEntry::Image { .. } => Ok(Vec::new()),
        PayloadEntry::Component { component, file } => {
            let blob = inputs.find_component(component);
            let blob = blob.ok_or_else(|| report_missing(component))?;
            Ok(vec![PayloadFile::of_blob(file, blob)])
        }
        PayloadEntry::Tree { component, .. } => {
            let tree = inputs.trees.get(&number);
            let tree = tree.ok_or_else(|| report_missing(component))?;
            let files = tree.files().iter();
            Ok(files
                .map(|file| PayloadFile::of_unpacked(tree, file))
                .collect())
        }
        PayloadEntry::Drivers {
            from: DriverFolder::Component(component),
            ..
        } => {
            let tree = inputs.trees.get(&number);
            let tree = tree.ok_or_else(|| report_missing(component))?;
            let chosen = inputs.drivers.get(&number);
            let chosen = chosen.ok_or_else(|| report_missing(component))?;
            let files = tree.files().iter();
            let files = files.filter(|file| chosen.contains(&file.path));
            Ok(files
                .map(|file| PayloadFile::of_unpacked(tree, file))
                .collect())
        }
        PayloadEntry::Local { path }
        | PayloadEntry::Drivers {
            from: DriverFolder::Local(path),
            ..
        } => {
            let own = inputs.own.get(&number);
            let own = own.ok_or_else(|| report_missing(&path.display().to_string()))?;
            Ok(own
                .files()
                .map(|(path, blob)| PayloadFile::of_blob(path, blob))
                .collect())
        }
        PayloadEntry::Text {
            file,
            text,
            encoding,
        } => {
            let bytes = encode_text(text, *encoding);
            Ok(vec![PayloadFile {
                path: file.clone(),
                size: bytes.len() as u64,
                sha256: Digest::sha256_of(&bytes),
                content: PayloadSource::Bytes(bytes),
            }])
        }
    }
}

/// Reports a bug in winimg: the plan names only fetched inputs.
pub(super) fn report_missing(what: &str) -> Error {
    Error::new(Kind::Failed, format!("{what} was planned but not fetched"))
}

fn encode_text(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Utf8Bom => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        Encoding::Utf16 => {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            units.flat_map(u16::to_le_bytes).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_carry_their_marks() {
        assert_eq!(encode_text("ż", Encoding::Utf8), "ż".as_bytes());
        assert_eq!(encode_text("a", Encoding::Utf8Bom), b"\xef\xbb\xbfa");
        assert_eq!(
            encode_text("ża", Encoding::Utf16),
            [0xff, 0xfe, 0x7c, 0x01, b'a', 0]
        );
    }

    #[test]
    fn scripts_have_windows_line_ends_once() {
        let DiscSource::Bytes(bytes) = encode_batch("a\r\nb\nc") else {
            unreachable!()
        };
        assert_eq!(bytes, b"a\r\nb\r\nc");
    }
}
