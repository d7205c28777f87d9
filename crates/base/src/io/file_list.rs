//! Lists the files below a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Lists the files below a folder, relative to it with `/` between names, sorted. Links are
/// followed.
pub fn files_below(folder: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(
        folder,
        "",
        &mut LinkPolicy::Followed(Vec::new()),
        &mut files,
    )?;
    files.sort();
    Ok(files)
}

/// Lists only regular files below a folder, without following links.
pub fn own_files_below(folder: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    collect(folder, "", &mut LinkPolicy::Own, &mut files)?;
    files.sort();
    Ok(files)
}

/// Maximum depth; intentionally created folders are not nested deeper.
const MAX_DEPTH: usize = 64;

/// Treatment of links while a folder is listed.
enum LinkPolicy {
    /// Links are skipped.
    Own,
    /// Links are followed. These resolved folders are being listed: a link back to one would never
    /// end.
    Followed(Vec<PathBuf>),
}

fn collect(
    folder: &Path,
    above: &str,
    visited: &mut LinkPolicy,
    files: &mut Vec<String>,
) -> io::Result<()> {
    if above.matches('/').count() > MAX_DEPTH {
        return Err(refuse(folder, "is nested too deep"));
    }
    if let LinkPolicy::Followed(open) = visited {
        let real = fs::canonicalize(folder)?;
        if open.contains(&real) {
            return Err(refuse(folder, "is a link to a folder above it"));
        }
        open.push(real);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{above}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        let is_followed = kind.is_symlink() && matches!(visited, LinkPolicy::Followed(_));
        if kind.is_dir() || is_followed && entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), visited, files)?;
        } else if kind.is_file() || matches!(visited, LinkPolicy::Followed(_)) {
            files.push(name);
        }
    }
    if let LinkPolicy::Followed(open) = visited {
        open.pop();
    }
    Ok(())
}

fn refuse(folder: &Path, what: &str) -> io::Error {
    io::Error::other(format!("{} {what}", folder.display()))
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
