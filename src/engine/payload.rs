//! The payload disc: every file that a step puts into the guest, and the scripts that put them.
//!
//! Made before the machine starts, from proved blobs, unpacked trees and the recipe's own text; nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Inputs;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::text::crlf;
use winimg_formats::iso::{self, Source, Tree};
use winimg_recipe::plan::{Entry, ExitRule, Op, Plan, PlannedStep, Put};
use winimg_recipe::recipe::Encoding;
use winimg_supply::store::Blob;

/// The file at the disc's root by which `payload.cmd` knows it.
const MARK: &str = "winimg.payload";

/// The script that only says that the disc is there. Steps are counted from 1.
pub fn ready() -> Put {
    Put {
        script: 0,
        part: 0,
        text: "@echo off\nexit /b 0\n".into(),
        exit: ExitRule::Zero,
        timeout: Duration::from_secs(60),
    }
}

/// Writes the disc for the steps from `first` on (counted from 0); its path.
pub fn write(
    plan: &Plan,
    first: usize,
    inputs: &Inputs,
    work: &Path,
    epoch: i64,
    cancel: &Cancel,
) -> Result<PathBuf> {
    let mut tree = Tree::new("WINIMG_PAYLOAD").stamp(epoch);
    tree.add(MARK, text("Files of a winimg build.\n"));
    let steps = plan.steps.get(first..).unwrap_or_default();
    for put in puts(steps) {
        tree.add(format!("s/{}.cmd", put.number()), text(&put.text));
    }
    for (number, entry) in plan.payload.iter().enumerate() {
        cancel.check()?;
        let is_used = |step: &PlannedStep| step.entries.iter().any(|n| *n as usize == number);
        if !steps.iter().any(is_used) {
            continue;
        }
        add(&mut tree, number, entry, inputs, work)?;
    }
    let file = work.join("payload.iso");
    iso::write(&tree, &file)?;
    Ok(file)
}

fn puts(steps: &[PlannedStep]) -> Vec<Put> {
    let ops = steps.iter().flat_map(|step| &step.ops);
    let steps = ops.filter_map(|op| match op {
        Op::Put(put) => Some(put.clone()),
        _ => None,
    });
    std::iter::once(ready()).chain(steps).collect()
}

/// Batch files have CRLF line ends: cmd.exe loses labels in files that have not.
fn text(text: &str) -> Source {
    Source::Bytes(crlf(text).into_bytes())
}

fn add(tree: &mut Tree, number: usize, entry: &Entry, inputs: &Inputs, work: &Path) -> Result<()> {
    let folder = format!("p/{number:04}");
    if let Entry::Image { image: name } = entry {
        let image = inputs.image(name).ok_or_else(|| missing(name))?;
        let file = work.join(format!("{number:04}.tar"));
        image.write(&file)?;
        tree.add(format!("{folder}/{name}.tar"), Source::Path(file));
    }
    for file in files(number, entry, inputs)? {
        let source = match file.content {
            Content::Blob(blob) => Source::Proved {
                path: blob.path().into(),
                sha256: file.sha256,
            },
            Content::Unpacked(path) => Source::Proved {
                path,
                sha256: file.sha256,
            },
            Content::Bytes(bytes) => Source::Bytes(bytes),
        };
        tree.add(format!("{folder}/{}", file.path), source);
    }
    Ok(())
}

pub(super) struct File<'i> {
    /// Relative to the entry, with slashes.
    pub path: String,
    pub size: u64,
    pub sha256: Digest,
    content: Content<'i>,
}

enum Content<'i> {
    Blob(&'i Blob),
    Unpacked(PathBuf),
    Bytes(Vec<u8>),
}

impl<'i> File<'i> {
    fn of_blob(path: &str, blob: &'i Blob) -> Self {
        Self {
            path: path.into(),
            size: blob.size(),
            sha256: blob.digest().clone(),
            content: Content::Blob(blob),
        }
    }
}

/// The files of an entry; none of a container image, whose archive no step copies as it is.
pub(super) fn files<'i>(number: usize, entry: &Entry, inputs: &'i Inputs) -> Result<Vec<File<'i>>> {
    match entry {
        Entry::Image { .. } => Ok(Vec::new()),
        Entry::Component { component, file } => {
            let blob = inputs.component(component);
            let blob = blob.ok_or_else(|| missing(component))?;
            Ok(vec![File::of_blob(file, blob)])
        }
        Entry::Tree { component, .. } => {
            let tree = inputs.trees.get(&number);
            let tree = tree.ok_or_else(|| missing(component))?;
            let files = tree.files().iter().map(|file| File {
                path: file.path.clone(),
                size: file.size,
                sha256: file.sha256.clone(),
                content: Content::Unpacked(tree.path().join(&file.path)),
            });
            Ok(files.collect())
        }
        Entry::Local { path } => {
            let own = inputs.own.get(&number);
            let own = own.ok_or_else(|| missing(&path.display().to_string()))?;
            Ok(own
                .files()
                .map(|(path, blob)| File::of_blob(path, blob))
                .collect())
        }
        Entry::Text {
            file,
            text,
            encoding,
        } => {
            let bytes = encoded(text, *encoding);
            Ok(vec![File {
                path: file.clone(),
                size: bytes.len() as u64,
                sha256: Digest::sha256_of(&bytes),
                content: Content::Bytes(bytes),
            }])
        }
    }
}

/// The plan names only what was fetched; anything else is a fault of winimg.
pub(super) fn missing(what: &str) -> Error {
    Error::new(Kind::Failed, format!("{what} was planned but not fetched"))
}

fn encoded(text: &str, encoding: Encoding) -> Vec<u8> {
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
        assert_eq!(encoded("ż", Encoding::Utf8), "ż".as_bytes());
        assert_eq!(encoded("a", Encoding::Utf8Bom), b"\xef\xbb\xbfa");
        assert_eq!(
            encoded("ża", Encoding::Utf16),
            [0xff, 0xfe, 0x7c, 0x01, b'a', 0]
        );
    }

    #[test]
    fn scripts_have_windows_line_ends_once() {
        let Source::Bytes(bytes) = text("a\r\nb\nc") else {
            unreachable!()
        };
        assert_eq!(bytes, b"a\r\nb\r\nc");
    }
}
