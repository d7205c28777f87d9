//! Sets the results of an earlier image aside while another build uses the output folder.
//!
//! A job that uploads `out/NAME/*.json` after a failed build must not find the manifest of an
//! earlier image there. The results are moved into a subfolder until a build succeeds; nothing is
//! copied. Files that winimg did not write stay in place.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::evidence;
use crate::page::REPORT;
use crate::usage;
use winimg_base::error::{Error, Result};
use winimg_base::io;

/// The folder for the results, below the output folder.
pub const FOLDER: &str = "earlier";
/// The record that marks a finished image.
pub const MANIFEST: &str = "manifest.json";
pub const CYCLONEDX: &str = "sbom.cdx.json";
pub const SPDX: &str = "sbom.spdx.json";
pub const PROVENANCE: &str = "provenance.intoto.json";
pub const MANIFEST_SIG: &str = "manifest.json.sig";
pub const MANIFEST_MINISIG: &str = "manifest.json.minisig";
pub const PROVENANCE_MINISIG: &str = "provenance.intoto.json.minisig";
pub const PROVENANCE_DSSE: &str = "provenance.dsse.json";
pub const PROVENANCE_BUNDLE: &str = "provenance.sigstore.json";
pub const PACKER_MANIFEST: &str = "packer-manifest.json";
pub const PUBLISHED: &str = "published.json";
/// All signatures of the records.
pub const SIGNATURES: [&str; 5] = [
    MANIFEST_SIG,
    MANIFEST_MINISIG,
    PROVENANCE_MINISIG,
    PROVENANCE_DSSE,
    PROVENANCE_BUNDLE,
];
/// Records that accumulate across images.
const CONTINUED: [&str; 2] = [PACKER_MANIFEST, PUBLISHED];
/// Results other than the artifacts, the signatures and the manifest.
const OTHERS: [&str; 8] = [
    CYCLONEDX,
    SPDX,
    PROVENANCE,
    usage::FILE,
    REPORT,
    "logs",
    evidence::SCREENS,
    "try",
];

/// The parts of a finished image's manifest that are read here; it may be of another version.
#[derive(Deserialize)]
struct EarlierImage {
    schema: String,
    #[serde(default)]
    finished: String,
    #[serde(default)]
    artifacts: Vec<EarlierArtifact>,
}

#[derive(Deserialize)]
struct EarlierArtifact {
    file: String,
}

impl EarlierImage {
    /// Reads the image whose results are in `folder`, if there is one.
    fn read(folder: &Path) -> Option<Self> {
        let text = io::read_text_limited(&folder.join(MANIFEST), io::limit::RECORD).ok()?;
        let image: Self = serde_json::from_str(&text).ok()?;
        image
            .schema
            .starts_with("winimg/manifest/")
            .then_some(image)
    }

    /// Returns the names of the results' files and folders, the manifest last.
    fn list_results(&self) -> Vec<&str> {
        let artifacts = self.artifacts.iter();
        let records = OTHERS.into_iter().chain(SIGNATURES).chain(CONTINUED);
        let mut names: Vec<&str> = artifacts
            .filter_map(|artifact| entry_of(&artifact.file))
            .collect();
        names.extend(records.chain([MANIFEST]));
        names
    }
}

/// Returns the entry of the output folder with an artifact: its file, or its folder, which may have
/// more files than the manifest lists. `None` for a path that leads elsewhere.
fn entry_of(file: &str) -> Option<&str> {
    let mut parts = Path::new(file).components();
    let Some(Component::Normal(first)) = parts.next() else {
        return None;
    };
    let is_below = parts.all(|part| matches!(part, Component::Normal(_)));
    first.to_str().filter(|name| is_below && *name != FOLDER)
}

/// Moves the results of the finished image in `output` aside, replacing those of an older image.
/// Without a finished image in `output`, the older one stays.
pub fn set_aside(output: &Path) -> Result<()> {
    let Some(image) = EarlierImage::read(output) else {
        return Ok(());
    };
    let aside = output.join(FOLDER);
    // Without a manifest the folder is part of this image: an earlier move was interrupted.
    if aside.join(MANIFEST).exists() {
        io::remove_folder_if_exists(&aside)?;
    }
    io::create_folders(&aside)?;
    for name in image.list_results() {
        move_over(&output.join(name), &aside.join(name))?;
    }
    io::sync_folder(&aside)?;
    io::sync_folder(output)
}

/// Restores the results that were set aside.
pub fn put_back(output: &Path) -> Result<()> {
    let aside = output.join(FOLDER);
    let entries = fs::read_dir(&aside).map_err(|e| Error::io("read", &aside, e))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("read", &aside, e))?;
        names.push(entry.file_name());
    }
    // The manifest last: it marks the image as complete.
    names.sort_by_key(|name| name == MANIFEST);
    for name in names {
        move_over(&aside.join(&name), &output.join(&name))?;
    }
    io::remove_folder_if_exists(&aside)?;
    io::sync_folder(output)
}

/// Restores the records that accumulate across images.
pub fn continue_records(output: &Path) -> Result<()> {
    let aside = output.join(FOLDER);
    for name in CONTINUED {
        if !output.join(name).exists() {
            move_over(&aside.join(name), &output.join(name))?;
        }
    }
    Ok(())
}

/// Removes the results that were set aside.
pub fn remove(output: &Path) -> Result<()> {
    io::remove_folder_if_exists(&output.join(FOLDER))
}

/// Describes the image that was set aside: its finish time and its folder.
pub fn describe(output: &Path) -> Option<String> {
    let aside = output.join(FOLDER);
    let image = EarlierImage::read(&aside)?;
    Some(format!(
        "the earlier image, finished at {}, is in {} until a build succeeds",
        image.finished,
        aside.display()
    ))
}

/// Returns the folders that may have the manifest of an earlier image.
pub fn list_folders(output: &Path) -> [PathBuf; 2] {
    [output.to_path_buf(), output.join(FOLDER)]
}

/// Moves a file or folder, if it exists, replacing the target.
fn move_over(from: &Path, to: &Path) -> Result<()> {
    if fs::symlink_metadata(from).is_err() {
        return Ok(());
    }
    if fs::symlink_metadata(to).is_ok_and(|about| about.is_dir()) {
        io::remove_folder_if_exists(to)?;
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
    fn an_artifact_in_a_folder_is_moved_with_its_folder_and_back() {
        let image = IMAGE.replace("node.vhd", "node.ami/import-image.json");
        let site = folder(&[
            ("manifest.json", image.as_str()),
            ("node.ami/import-image.json", "{}"),
            ("node.ami/HOWTO.md", "how"),
            ("notes.txt", "mine"),
        ]);
        let output = site.path().join("out");
        let inside = ["HOWTO.md", "import-image.json"];
        set_aside(&output).unwrap();
        assert_eq!(names(&output), ["earlier", "notes.txt"]);
        assert_eq!(names(&output.join("earlier/node.ami")), inside);
        put_back(&output).unwrap();
        assert_eq!(names(&output), ["manifest.json", "node.ami", "notes.txt"]);
        assert_eq!(names(&output.join("node.ami")), inside);
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
