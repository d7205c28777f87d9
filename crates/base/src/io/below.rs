//! The files of a folder and of those in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files below a folder, relative to it with `/` between names, sorted.
pub fn files_below(folder: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(folder, "", &mut Visited::Followed(Vec::new()), &mut files)?;
    files.sort();
    Ok(files)
}

/// The same without links: only regular files, in folders that are no links.
pub fn own_files_below(folder: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(folder, "", &mut Visited::Own, &mut files)?;
    files.sort();
    Ok(files)
}

/// No folder is nested deeper that somebody made on purpose.
const DEEPEST: usize = 64;

/// How links are treated while a folder is listed.
enum Visited {
    /// They are passed over.
    Own,
    /// They are followed. These folders are being listed, without links: one that leads back to them would never end.
    Followed(Vec<PathBuf>),
}

fn collect(
    folder: &Path,
    above: &str,
    visited: &mut Visited,
    files: &mut Vec<String>,
) -> io::Result<()> {
    let refused = |what: &str| io::Error::other(format!("{} {what}", folder.display()));
    if above.matches('/').count() > DEEPEST {
        return Err(refused("is nested too deep"));
    }
    if let Visited::Followed(open) = visited {
        let real = fs::canonicalize(folder)?;
        if open.contains(&real) {
            return Err(refused("is a link to a folder above it"));
        }
        open.push(real);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{above}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        let is_followed = kind.is_symlink() && matches!(visited, Visited::Followed(_));
        if kind.is_dir() || is_followed && entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), visited, files)?;
        } else if kind.is_file() || matches!(visited, Visited::Followed(_)) {
            files.push(name);
        }
    }
    if let Visited::Followed(open) = visited {
        open.pop();
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_or_passed_over_and_never_in_a_circle() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(a.join("c")).unwrap();
        fs::create_dir(&b).unwrap();
        for file in ["a/1", "a/c/2", "b/3"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        symlink("../b", a.join("linked")).unwrap();
        symlink("1", a.join("file")).unwrap();
        assert_eq!(files_below(&a).unwrap(), ["1", "c/2", "file", "linked/3"]);
        assert_eq!(own_files_below(&a).unwrap(), ["1", "c/2"]);
        symlink("../a", b.join("back")).unwrap();
        let error = files_below(&a).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("is a link to a folder above it"),
            "{error}"
        );
        assert_eq!(own_files_below(&a).unwrap(), ["1", "c/2"]);
    }
}
