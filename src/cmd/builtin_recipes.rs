//! The built-in packs and recipes as files, so that recipes can include `packs/NAME.toml` without
//! an installation.
//!
//! Each version writes them to the cache once, under the digest of their content, and checks them
//! against the embedded copies on each use, so that write access to the cache cannot change
//! winimg's packs. A recipe's own folder, `WINIMG_RECIPES` and an installation's
//! `share/winimg/recipes` take precedence.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::error::{Error, Result};
use winimg_base::io;

use super::CommandContext;

static RECIPES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/recipes");

/// Returns a folder with exactly the embedded files. Falls back to a temporary folder of this
/// process if the cache is not writable, because most commands do not need the cache.
pub fn ensure_folder(context: &CommandContext) -> Result<PathBuf> {
    match ensure_in_cache(context) {
        Ok(folder) => Ok(folder),
        Err(error) => {
            tracing::debug!(%error, "cannot write winimg's recipes to the cache");
            create_temporary(context)
        }
    }
}

fn ensure_in_cache(context: &CommandContext) -> Result<PathBuf> {
    let digest = compute_digest();
    let parent = context.cache_folder()?.join("recipes");
    let folder = parent.join(&digest[..16]);
    if io::is_link(&parent) {
        let fact = "the recipe folder in the cache is a symbolic link";
        return Err(Error::failed(fact).at(parent.display()));
    }
    if is_intact(&folder) {
        return Ok(folder);
    }
    let existed = fs::symlink_metadata(&folder).is_ok();
    fs::create_dir_all(&parent).map_err(|e| Error::io("create", &parent, e))?;
    let staging = tempfile::tempdir_in(&parent).map_err(|e| Error::io("create", &parent, e))?;
    let fresh = staging.path().join("new");
    write_files(&fresh)?;
    if existed {
        let aside = staging.path().join("old");
        fs::rename(&folder, &aside).map_err(|e| Error::io("rename", &folder, e))?;
        context.sink.warn(format!(
            "the built-in recipes in the cache were modified and are replaced: {}",
            folder.display()
        ));
    }
    match fs::rename(&fresh, &folder) {
        // Another winimg process was faster.
        Err(_) if is_intact(&folder) => Ok(folder),
        renamed => renamed
            .map(|()| folder)
            .map_err(|e| Error::io("rename", &fresh, e)),
    }
}

fn create_temporary(context: &CommandContext) -> Result<PathBuf> {
    if let Some(made) = context.recipes.get() {
        return Ok(made.path().to_owned());
    }
    let made = tempfile::Builder::new()
        .prefix("winimg-recipes-")
        .tempdir()
        .map_err(|e| Error::io("create a folder in", std::env::temp_dir(), e))?;
    write_files(made.path())?;
    Ok(context.recipes.get_or_init(|| made).path().to_owned())
}

fn write_files(folder: &Path) -> Result<()> {
    for file in list_files(&RECIPES) {
        let path = folder.join(file.path());
        io::create_folders(io::folder_of(&path))?;
        io::write_atomically(&path, file.contents())?;
    }
    Ok(())
}

/// Checks that a folder contains the embedded files and nothing else. Does not follow links.
fn is_intact(folder: &Path) -> bool {
    let mut missing: BTreeMap<PathBuf, &[u8]> = list_files(&RECIPES)
        .into_iter()
        .map(|file| (folder.join(file.path()), file.contents()))
        .collect();
    contains_only(folder, &mut missing) && missing.is_empty()
}

/// Removes the files that it finds from `missing`; returns false at the first entry that is not
/// expected or differs.
fn contains_only(folder: &Path, missing: &mut BTreeMap<PathBuf, &[u8]>) -> bool {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir());
    let Some(entries) = is_folder.then(|| fs::read_dir(folder).ok()).flatten() else {
        return false;
    };
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|e| Ok(e?.path())).collect();
    let mut paths = paths.unwrap_or_default().into_iter();
    paths.all(|path| match missing.remove(&path) {
        Some(expected) => !io::is_link(&path) && is_equal(&path, expected),
        None => contains_only(&path, missing),
    })
}

fn is_equal(path: &Path, expected: &[u8]) -> bool {
    io::read_limited(path, expected.len() as u64).is_ok_and(|found| found == expected)
}

/// Returns the names of the built-in recipes, without `demo` and `starter`, which is the template
/// of `winimg init`.
pub fn list_recipes() -> Vec<String> {
    RECIPES
        .files()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| name != "demo" && name != "starter")
        .collect()
}

fn list_files(dir: &'static Dir<'static>) -> Vec<&'static include_dir::File<'static>> {
    let mut found: Vec<_> = dir.files().collect();
    found.extend(dir.dirs().flat_map(list_files));
    found
}

/// Returns the digest of all names and contents in hexadecimal.
fn compute_digest() -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    for file in list_files(&RECIPES) {
        hasher.update(io::to_slashes(file.path()).as_bytes());
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
            write_files(&folder).unwrap();
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
        write_files(&other).unwrap();
        for name in ["packs/node-services.toml", "packs", ""] {
            let _ = fs::remove_file(&folder);
            let _ = fs::remove_dir_all(&folder);
            write_files(&folder).unwrap();
            let path = folder.join(name);
            let path = if name.is_empty() {
                folder.clone()
            } else {
                path
            };
            io::remove_recursively(&path).unwrap();
            std::os::unix::fs::symlink(other.join(name), &path).unwrap();
            assert!(!is_intact(&folder), "{name}");
        }
    }
}
