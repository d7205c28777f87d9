//! Resolves names of files listed in a folder's own records, and refuses those outside the folder.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use super::canonicalize;

/// A regular file of a folder, links resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainedFile {
    /// Path of the file, without links.
    pub path: PathBuf,
    /// The same path relative to the folder.
    pub below: PathBuf,
}

impl ContainedFile {
    /// Returns true if the name of the file or of a folder above it starts with a dot.
    pub fn is_hidden(&self) -> bool {
        self.below
            .iter()
            .any(|name| name.to_string_lossy().starts_with('.'))
    }
}

/// The reason why a name is not that of a file in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainedFileError {
    Missing,
    /// The name or a link leads out of the folder.
    Outside,
    /// A folder, a named pipe or a device.
    NotRegular,
}

impl fmt::Display for ContainedFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::Outside => "is outside the folder of the record that lists it",
            Self::NotRegular => "is not a regular file",
        })
    }
}

/// Finds the file `name` in or below `folder`. The name is checked first, then its path with links
/// resolved.
pub fn find_contained_file(
    folder: &Path,
    name: impl AsRef<Path>,
) -> Result<ContainedFile, ContainedFileError> {
    let name = name.as_ref();
    if !is_plain(name) {
        return Err(ContainedFileError::Outside);
    }
    let folder = canonicalize(folder).map_err(|_| ContainedFileError::Missing)?;
    let path = canonicalize(&folder.join(name)).map_err(|_| ContainedFileError::Missing)?;
    let below = path
        .strip_prefix(&folder)
        .map_err(|_| ContainedFileError::Outside)?;
    if path.metadata().is_ok_and(|about| about.is_file()) {
        Ok(ContainedFile {
            below: below.to_owned(),
            path,
        })
    } else {
        Err(ContainedFileError::NotRegular)
    }
}

/// Returns true if a name is relative and has no `..`. Backslashes are refused everywhere, since
/// they are separators on Windows.
fn is_plain(name: &Path) -> bool {
    let text = name.to_string_lossy();
    let mut parts = name.components();
    !text.is_empty()
        && !text.contains(['\\', '\0'])
        && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused_whether_the_file_exists_or_not() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("out");
        fs::create_dir_all(folder.join("logs")).unwrap();
        fs::write(folder.join("a.ova"), "a").unwrap();
        fs::write(folder.join("logs/1.log"), "1").unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        let absolute = outer.path().join("secret").display().to_string();
        for (name, expected) in [
            ("a.ova", Ok("a.ova")),
            ("./logs/1.log", Ok("logs/1.log")),
            ("none", Err(ContainedFileError::Missing)),
            ("logs", Err(ContainedFileError::NotRegular)),
            ("", Err(ContainedFileError::Outside)),
            ("../secret", Err(ContainedFileError::Outside)),
            ("../none", Err(ContainedFileError::Outside)),
            ("../out/a.ova", Err(ContainedFileError::Outside)),
            ("logs/../a.ova", Err(ContainedFileError::Outside)),
            (r"..\secret", Err(ContainedFileError::Outside)),
            (&absolute, Err(ContainedFileError::Outside)),
        ] {
            let found = find_contained_file(&folder, name);
            let below = found.as_ref().map(|found| found.below.as_path());
            assert_eq!(below, expected.as_ref().map(|e| Path::new(*e)), "{name}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_link_is_judged_by_where_it_leads() {
        use std::os::unix::fs::symlink;

        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("out");
        fs::create_dir_all(folder.join(".work")).unwrap();
        fs::write(folder.join("a"), "a").unwrap();
        fs::write(folder.join(".work/answers.xml"), "").unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        symlink("a", folder.join("inner")).unwrap();
        symlink("../secret", folder.join("outer")).unwrap();
        symlink(outer.path(), folder.join("above")).unwrap();
        symlink(".work/answers.xml", folder.join("shown")).unwrap();
        symlink("/dev/zero", folder.join("zero")).unwrap();
        assert!(!find_contained_file(&folder, "inner").unwrap().is_hidden());
        assert!(find_contained_file(&folder, "shown").unwrap().is_hidden());
        for name in ["outer", "above/secret", "zero"] {
            assert_eq!(
                find_contained_file(&folder, name),
                Err(ContainedFileError::Outside),
                "{name}"
            );
        }
        // The folder itself may be reached by a link.
        symlink(&folder, outer.path().join("linked")).unwrap();
        assert!(find_contained_file(&outer.path().join("linked"), "a").is_ok());
    }
}
