//! The packs and recipes that come with winimg, as files: a recipe includes them by `packs/NAME.toml` wherever the
//! program stands.
//!
//! They are laid down once a version in the cache, under the digest of their content. A recipe's own folder,
//! `WINIMG_RECIPES` and an installation's `share/winimg/recipes` are looked at before.

use std::fs;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::error::{Error, Result};
use winimg_base::io;

use super::Context;

static RECIPES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/recipes");

/// The folder that holds them; made when it is not there.
pub fn folder(context: &Context) -> Result<PathBuf> {
    let digest = digest();
    let folder = context.cache_folder()?.join("recipes").join(&digest[..16]);
    if folder.is_dir() {
        return Ok(folder);
    }
    let parent = folder.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
    let beside = tempfile::tempdir_in(parent).map_err(|e| Error::io("create", parent, e))?;
    for file in files(&RECIPES) {
        let path = beside.path().join(file.path());
        let within = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(within).map_err(|e| Error::io("create", within, e))?;
        io::write_atomically(&path, file.contents())?;
    }
    let made = beside.keep();
    match fs::rename(&made, &folder) {
        Ok(()) => Ok(folder),
        // Another winimg was faster; what it laid down is the same.
        Err(_) if folder.is_dir() => {
            fs::remove_dir_all(&made).map_err(|e| Error::io("remove", &made, e))?;
            Ok(folder)
        }
        Err(e) => Err(Error::io("rename", &made, e)),
    }
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
