//! A folder to unpack in, and a look at what was left there.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use winimg_base::error::Error;
use winimg_formats::archive::{
    ArchiveFile, ArchiveFilter, ArchiveFormat, UnpackLimits, UnpackedFile, unpack,
};

pub fn packed(file: &Path, format: ArchiveFormat) -> ArchiveFile<'_> {
    ArchiveFile {
        file,
        format,
        name: "containerd",
    }
}

pub struct Bench {
    pub folder: TempDir,
    pub limits: UnpackLimits,
    pub filter: ArchiveFilter,
}

impl Bench {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            limits: UnpackLimits::default(),
            filter: ArchiveFilter::default(),
        }
    }

    pub fn unpack(&self, bytes: &[u8], format: ArchiveFormat) -> Result<Vec<UnpackedFile>, Error> {
        let inner = self.folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let archive = self.folder.path().join("containerd");
        fs::write(&archive, bytes).unwrap();
        let result = unpack(
            &packed(&archive, format),
            &inner.join("out"),
            &self.limits,
            &self.filter,
        );
        fs::remove_file(&archive).unwrap();
        result
    }

    /// The message of a refusal, after a look whether anything was left or escaped.
    pub fn refusal(bytes: &[u8], format: ArchiveFormat) -> String {
        Self::new().refused(bytes, format)
    }

    pub fn refused(&self, bytes: &[u8], format: ArchiveFormat) -> String {
        let error = self.unpack(bytes, format).unwrap_err();
        assert!(
            files(self.folder.path()).is_empty(),
            "{:?}",
            files(self.folder.path())
        );
        error.to_string()
    }

    /// The lines of a refusal.
    pub fn problems(bytes: &[u8], format: ArchiveFormat) -> Vec<String> {
        let text = Self::refusal(bytes, format);
        assert!(text.starts_with("containerd is not unpacked\n"), "{text}");
        text.lines()
            .filter_map(|l| l.strip_prefix("  | "))
            .map(String::from)
            .collect()
    }
}

/// All files below a folder, relative to it, with what they hold.
pub fn files(folder: &Path) -> Vec<(String, String)> {
    fn walk(root: &Path, folder: &Path, into: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                walk(root, &path, into);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                into.push((name, fs::read_to_string(&path).unwrap_or_default()));
            }
        }
    }
    let mut all = Vec::new();
    walk(folder, folder, &mut all);
    all.sort();
    all
}

pub fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(a, b)| (a.to_string(), b.to_string()))
        .collect()
}
