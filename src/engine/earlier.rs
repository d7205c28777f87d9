//! The results of an earlier image in a build's folder, set aside while another build works there.
//!
//! A job that uploads `out/NAME/*.json` after a failed build must not find the manifest of an
//! earlier image there. Its results are renamed into a folder of their own until a build succeeds;
//! nothing is copied. Files that winimg did not write stay where they are.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::evidence;
use crate::page::REPORT;
use crate::usage;
use winimg_base::error::{Error, Result};
use winimg_base::io;

/// The folder of the results, below the build's own.
pub const FOLDER: &str = "earlier";
/// The record that makes a folder that of a finished image.
pub const MANIFEST: &str = "manifest.json";
/// Records that go on from one image to the next.
const CONTINUED: [&str; 2] = ["packer-manifest.json", "published.json"];
/// What lies beside the artifacts and the manifest.
const RECORDS: [&str; 13] = [
    "sbom.cdx.json",
    "sbom.spdx.json",
    "provenance.intoto.json",
    "manifest.json.sig",
    "manifest.json.minisig",
    "provenance.intoto.json.minisig",
    "provenance.dsse.json",
    "provenance.sigstore.json",
    usage::FILE,
    REPORT,
    "logs",
    evidence::SCREENS,
    "try",
];

/// A finished image, as far as its manifest has to be understood: it may be of another version.
#[derive(Deserialize)]
struct Image {
    schema: String,
    #[serde(default)]
    finished: String,
    #[serde(default)]
    artifacts: Vec<Artifact>,
}

#[derive(Deserialize)]
struct Artifact {
    file: String,
}

impl Image {
    /// Reads the image whose results lie in `folder`, if there is one.
    fn read(folder: &Path) -> Option<Self> {
        let text = io::read_text_limited(&folder.join(MANIFEST), io::limit::RECORD).ok()?;
        let image: Self = serde_json::from_str(&text).ok()?;
        image
            .schema
            .starts_with("winimg/manifest/")
            .then_some(image)
    }

    /// The names of its results, that of the manifest last.
    fn results(&self) -> Vec<&str> {
        let artifacts = self.artifacts.iter().map(|artifact| artifact.file.as_str());
        let records = RECORDS.into_iter().chain(CONTINUED);
        let mut names: Vec<&str> = artifacts.filter(|name| is_plain(name)).collect();
        names.extend(records.chain([MANIFEST]));
        names
    }
}

/// Returns true for the name of a file in the folder itself that is none of winimg's own folders.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let is_one = matches!(parts.next(), Some(Component::Normal(part)) if part == name);
    is_one && parts.next().is_none() && name != FOLDER
}

/// Moves the results of the finished image in `output` aside. One that was set aside before is
/// older, and makes room; without a finished image it stays.
pub fn set_aside(output: &Path) -> Result<()> {
    let Some(image) = Image::read(output) else {
        return Ok(());
    };
    let aside = output.join(FOLDER);
    // Without its manifest it is a part of this image: a process was killed in between.
    if aside.join(MANIFEST).exists() {
        io::remove_folder_if_there(&aside)?;
    }
    io::create_folders(&aside)?;
    for name in image.results() {
        move_over(&output.join(name), &aside.join(name))?;
    }
    io::sync_folder(&aside)?;
    io::sync_folder(output)
}

/// Moves what was set aside back to its place.
pub fn put_back(output: &Path) -> Result<()> {
    let aside = output.join(FOLDER);
    let entries = fs::read_dir(&aside).map_err(|e| Error::io("read", &aside, e))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("read", &aside, e))?;
        names.push(entry.file_name());
    }
    // The manifest last: with it the image is whole.
    names.sort_by_key(|name| name == MANIFEST);
    for name in names {
        move_over(&aside.join(&name), &output.join(&name))?;
    }
    io::remove_folder_if_there(&aside)?;
    io::sync_folder(output)
}

/// Moves the records that the next image continues back to their place.
pub fn continue_records(output: &Path) -> Result<()> {
    let aside = output.join(FOLDER);
    for name in CONTINUED {
        if !output.join(name).exists() {
            move_over(&aside.join(name), &output.join(name))?;
        }
    }
    Ok(())
}

/// Removes what was set aside.
pub fn remove(output: &Path) -> Result<()> {
    io::remove_folder_if_there(&output.join(FOLDER))
}

/// Says where the image is that was set aside, and when it was finished.
pub fn describe(output: &Path) -> Option<String> {
    let aside = output.join(FOLDER);
    let image = Image::read(&aside)?;
    Some(format!(
        "the earlier image, finished at {}, is in {} until a build succeeds",
        image.finished,
        aside.display()
    ))
}

/// The folders below which the manifest of an earlier image may be.
pub fn folders(output: &Path) -> [PathBuf; 2] {
    [output.to_path_buf(), output.join(FOLDER)]
}

/// Renames a file or folder, if there is one, in place of what has that name.
fn move_over(from: &Path, to: &Path) -> Result<()> {
    if fs::symlink_metadata(from).is_err() {
        return Ok(());
    }
    if fs::symlink_metadata(to).is_ok_and(|about| about.is_dir()) {
        io::remove_folder_if_there(to)?;
    }
    io::rename(from, to).map_err(|e| Error::io("move", from, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = r#"{"schema": "winimg/manifest/1", "finished": "2026-01-02T03:04:05Z",
        "artifacts": [{"file": "node.vhd"}, {"file": "../outside"}, {"file": "logs/../x"}]}"#;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        for (name, text) in files {
            let path = output.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(folder.path().join("outside"), "").unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_results_of_a_finished_image_are_moved_there_and_back() {
        let site = folder(&[
            ("manifest.json", IMAGE),
            ("node.vhd", "disk"),
            ("sbom.cdx.json", "{}"),
            ("logs/01-a.log", "first"),
            ("notes.txt", "mine"),
            ("events.jsonl", "{}"),
        ]);
        let output = site.path().join("out");
        set_aside(&output).unwrap();
        assert_eq!(names(&output), ["earlier", "events.jsonl", "notes.txt"]);
        let aside = output.join(FOLDER);
        let moved = ["logs", "manifest.json", "node.vhd", "sbom.cdx.json"];
        assert_eq!(names(&aside), moved);
        assert!(site.path().join("outside").exists());
        let line = format!(
            "the earlier image, finished at 2026-01-02T03:04:05Z, is in {} until a build succeeds",
            aside.display()
        );
        assert_eq!(describe(&output).as_deref(), Some(line.as_str()));

        // A second failure leaves it where it is.
        fs::create_dir(output.join("logs")).unwrap();
        fs::write(output.join("logs/02-b.log"), "second").unwrap();
        set_aside(&output).unwrap();
        assert_eq!(names(&aside), moved);
        put_back(&output).unwrap();
        assert_eq!(names(&output.join("logs")), ["01-a.log"]);
        assert!(output.join("node.vhd").exists() && !aside.exists());
    }

    #[test]
    fn an_interrupted_move_is_finished_and_a_newer_image_takes_the_place() {
        let site = folder(&[
            ("manifest.json", IMAGE),
            ("earlier/node.vhd", "moved before it was killed"),
        ]);
        let output = site.path().join("out");
        set_aside(&output).unwrap();
        assert_eq!(names(&output.join(FOLDER)), ["manifest.json", "node.vhd"]);
        fs::write(output.join("manifest.json"), IMAGE).unwrap();
        set_aside(&output).unwrap();
        assert_eq!(names(&output.join(FOLDER)), ["manifest.json"]);
    }

    #[test]
    fn another_programs_manifest_moves_nothing() {
        for text in ["{}", "{\"schema\": \"other/1\"}", "no JSON"] {
            let site = folder(&[("manifest.json", text), ("node.vhd", "disk")]);
            let output = site.path().join("out");
            set_aside(&output).unwrap();
            assert_eq!(names(&output), ["manifest.json", "node.vhd"], "{text}");
            assert_eq!(describe(&output), None);
        }
    }
}
