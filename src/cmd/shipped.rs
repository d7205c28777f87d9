//! The packs and recipes that come with winimg, as files: a recipe includes them by `packs/NAME.toml` wherever the
//! program stands.
//!
//! They are laid down once a version in the cache, under the digest of their content, and compared with the program's own each time
//! they are used: whoever can write to the cache must not decide what a pack of winimg's does. A recipe's own folder,
//! `WINIMG_RECIPES` and an installation's `share/winimg/recipes` are looked at before.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::error::{Error, Result};
use winimg_base::io;

use super::Context;

static RECIPES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/recipes");

/// The folder that holds them, with exactly the program's own content. Where the cache cannot be written, as for a command that needs
/// nothing else from it, the folder is a temporary one of this process.
pub fn folder(context: &Context) -> Result<PathBuf> {
    match folder_in_cache(context) {
        Ok(folder) => Ok(folder),
        Err(error) => {
            tracing::debug!(%error, "winimg's recipes cannot be in the cache");
            temporary(context)
        }
    }
}

fn folder_in_cache(context: &Context) -> Result<PathBuf> {
    let digest = digest();
    let parent = context.cache_folder()?.join("recipes");
    let folder = parent.join(&digest[..16]);
    if io::is_link(&parent) {
        return Err(Error::failed("the cache's folder of recipes is a link").at(parent.display()));
    }
    if is_intact(&folder) {
        return Ok(folder);
    }
    let was_there = fs::symlink_metadata(&folder).is_ok();
    fs::create_dir_all(&parent).map_err(|e| Error::io("create", &parent, e))?;
    let beside = tempfile::tempdir_in(&parent).map_err(|e| Error::io("create", &parent, e))?;
    let made = beside.path().join("new");
    lay_down(&made)?;
    if was_there {
        let aside = beside.path().join("old");
        fs::rename(&folder, &aside).map_err(|e| Error::io("rename", &folder, e))?;
        context.sink.warn(format!(
            "winimg's own recipes in the cache were changed; they are replaced: {}",
            folder.display()
        ));
    }
    match fs::rename(&made, &folder) {
        // Another winimg was faster.
        Err(_) if is_intact(&folder) => Ok(folder),
        renamed => renamed
            .map(|()| folder)
            .map_err(|e| Error::io("rename", &made, e)),
    }
}

fn temporary(context: &Context) -> Result<PathBuf> {
    if let Some(made) = context.recipes.get() {
        return Ok(made.path().to_owned());
    }
    let made = tempfile::Builder::new().prefix("winimg-recipes-").tempdir();
    let made = made.map_err(|e| Error::io("create a folder in", std::env::temp_dir(), e))?;
    lay_down(made.path())?;
    Ok(context.recipes.get_or_init(|| made).path().to_owned())
}

fn lay_down(folder: &Path) -> Result<()> {
    for file in files(&RECIPES) {
        let path = folder.join(file.path());
        io::create_folders(io::folder_of(&path))?;
        io::write_atomically(&path, file.contents())?;
    }
    Ok(())
}

/// Whether a folder holds the program's own files and nothing else. Links are not followed.
fn is_intact(folder: &Path) -> bool {
    let mut missing: BTreeMap<PathBuf, &[u8]> = files(&RECIPES)
        .into_iter()
        .map(|file| (folder.join(file.path()), file.contents()))
        .collect();
    holds_only(folder, &mut missing) && missing.is_empty()
}

/// Whether a folder holds nothing but these files; those that it holds are taken out of `missing`.
fn holds_only(folder: &Path, missing: &mut BTreeMap<PathBuf, &[u8]>) -> bool {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir());
    let Some(entries) = is_folder.then(|| fs::read_dir(folder).ok()).flatten() else {
        return false;
    };
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|e| Ok(e?.path())).collect();
    let mut paths = paths.unwrap_or_default().into_iter();
    paths.all(|path| match missing.remove(&path) {
        Some(expected) => !io::is_link(&path) && holds(&path, expected),
        None => holds_only(&path, missing),
    })
}

fn holds(path: &Path, expected: &[u8]) -> bool {
    io::read_limited(path, expected.len() as u64).is_ok_and(|found| found == expected)
}

/// The names of the whole recipes among them, but for the demo and the starting point of `winimg init`.
pub fn recipes() -> Vec<String> {
    let files = RECIPES.files().map(|file| file.path());
    let whole = files.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    let names = whole.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    names
        .filter(|name| name != "demo" && name != "starter")
        .collect()
}

fn files(dir: &'static Dir<'static>) -> Vec<&'static include_dir::File<'static>> {
    let mut found: Vec<_> = dir.files().collect();
    found.extend(dir.dirs().flat_map(files));
    found
}

/// Hexadecimal, over names and contents.
fn digest() -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    for file in files(&RECIPES) {
        hasher.update(io::slashed(file.path()).as_bytes());
        hasher.update(&[0]);
        hasher.update(&(file.contents().len() as u64).to_le_bytes());
        hasher.update(file.contents());
    }
    hasher.finish().hex()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_intact_with_the_own_files_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("recipes");
        let pack = folder.join("packs/node-services.toml");
        let changes: [(&str, &dyn Fn()); 6] = [
            ("a changed file", &|| {
                let text = fs::read_to_string(&pack).unwrap();
                fs::write(&pack, text.replacen("[[steps]]", "[[step2]]", 1)).unwrap();
            }),
            ("a longer file", &|| {
                let text = fs::read_to_string(&pack).unwrap();
                fs::write(&pack, text + "\n").unwrap();
            }),
            ("a missing file", &|| fs::remove_file(&pack).unwrap()),
            ("one more file", &|| {
                fs::write(folder.join("targets/evil.toml"), "").unwrap();
            }),
            ("one more folder", &|| {
                fs::create_dir_all(folder.join("packs/packs")).unwrap();
                fs::write(folder.join("packs/packs/x.toml"), "").unwrap();
            }),
            ("nothing", &|| fs::remove_dir_all(&folder).unwrap()),
        ];
        for (what, change) in changes {
            let _ = fs::remove_dir_all(&folder);
            lay_down(&folder).unwrap();
            assert!(is_intact(&folder));
            change();
            assert!(!is_intact(&folder), "{what}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_to_equal_files_and_folders_are_no_own_files() {
        let place = tempfile::tempdir().unwrap();
        let (folder, other) = (place.path().join("recipes"), place.path().join("other"));
        lay_down(&other).unwrap();
        for name in ["packs/node-services.toml", "packs", ""] {
            let _ = fs::remove_file(&folder);
            let _ = fs::remove_dir_all(&folder);
            lay_down(&folder).unwrap();
            let path = folder.join(name);
            let path = if name.is_empty() {
                folder.clone()
            } else {
                path
            };
            io::remove_whole(&path).unwrap();
            std::os::unix::fs::symlink(other.join(name), &path).unwrap();
            assert!(!is_intact(&folder), "{name}");
        }
    }
}
