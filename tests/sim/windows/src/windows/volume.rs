//! Windows paths and the host directories that stand for drives.
//!
//! `C:` can be written, every other drive is a CD and can't. Lookup ignores case and keeps the case of what is there.
//! Refused: characters and names Windows refuses, UNC paths, links of any kind (they could lead outside the drive).

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use super::attribute;
use super::error::*;

/// Where each drive letter's files are on the host.
#[derive(Clone, Debug, Default)]
pub struct Volumes(BTreeMap<char, PathBuf>);

/// What a path names.
#[derive(Clone, Debug)]
pub enum Place {
    Null,
    Serial,
    File(Box<Located>),
}

/// A file or directory, or the place where one could be made.
#[derive(Clone, Debug)]
pub struct Located {
    /// The full Windows path, e.g. `C:\Program Files\x`.
    pub name: String,
    pub host: PathBuf,
    /// None when nothing is there.
    pub meta: Option<Metadata>,
    /// The directory above is missing too.
    pub orphan: bool,
    pub read_only: bool,
}

/// The current directory: a full path; drives that are not the current one are always at their root.
#[derive(Clone, Debug)]
pub struct Cwd(pub String);

impl Located {
    pub fn is_dir(&self) -> bool {
        self.meta.as_ref().is_some_and(Metadata::is_dir)
    }

    pub fn is_file(&self) -> bool {
        self.meta.as_ref().is_some_and(Metadata::is_file)
    }

    pub fn missing(&self) -> Win32 {
        if self.orphan {
            PATH_NOT_FOUND
        } else {
            FILE_NOT_FOUND
        }
    }

    /// Fails when it isn't there.
    pub fn existing(self) -> Result<Located, Win32> {
        if self.meta.is_some() {
            Ok(self)
        } else {
            Err(self.missing())
        }
    }

    /// Fails when it can't be written: read-only drive or file, no directory above, a directory itself.
    pub fn writable(self) -> Result<Located, Win32> {
        match () {
            () if self.read_only => Err(WRITE_PROTECT),
            () if self.orphan => Err(PATH_NOT_FOUND),
            () if self.is_dir() => Err(ACCESS_DENIED),
            () if self.is_file() && attribute::get(&self.host) & attribute::READ_ONLY != 0 => {
                Err(ACCESS_DENIED)
            }
            () => Ok(self),
        }
    }

    pub fn file_name(&self) -> &str {
        self.name.rsplit('\\').next().unwrap_or("")
    }
}

impl Volumes {
    pub fn new(c_root: &Path, drives: &[(char, PathBuf)]) -> Volumes {
        let mut map: BTreeMap<char, PathBuf> = drives
            .iter()
            .map(|(letter, root)| (letter.to_ascii_uppercase(), root.clone()))
            .collect();
        map.insert('C', c_root.to_owned());
        Volumes(map)
    }

    pub fn resolve(&self, cwd: &Cwd, path: &str) -> Result<Place, Win32> {
        if let Some(device) = device(path) {
            return device;
        }
        let full = absolute(cwd, path)?;
        self.locate(&full).map(|found| Place::File(Box::new(found)))
    }

    /// Only files and directories; a device is refused.
    pub fn file(&self, cwd: &Cwd, path: &str) -> Result<Located, Win32> {
        match self.resolve(cwd, path)? {
            Place::File(located) => Ok(*located),
            Place::Null | Place::Serial => Err(INVALID_NAME),
        }
    }

    fn locate(&self, full: &str) -> Result<Located, Win32> {
        let letter = full.chars().next().unwrap_or(' ');
        let root = self.0.get(&letter).ok_or(PATH_NOT_FOUND)?;
        let mut host = root.clone();
        let mut name = format!("{letter}:");
        let names: Vec<&str> = full[2..]
            .split('\\')
            .filter(|part| !part.is_empty())
            .collect();
        let mut meta = std::fs::symlink_metadata(&host).ok();
        let mut absent = 0;
        for part in &names {
            let found = if meta.as_ref().is_some_and(Metadata::is_dir) {
                entry(&host, part)
            } else {
                None
            };
            let part = found.as_ref().map_or(*part, |(actual, _)| actual);
            host.push(part);
            name.push('\\');
            name.push_str(part);
            meta = found.map(|(_, meta)| meta);
            absent += usize::from(meta.is_none());
            if meta.as_ref().is_some_and(Metadata::is_symlink) {
                return Err(CANT_ACCESS_FILE);
            }
        }
        if names.is_empty() {
            name.push('\\');
        }
        Ok(Located {
            name,
            host,
            meta,
            orphan: absent > 1,
            read_only: letter != 'C',
        })
    }
}

/// The entry of `dir` called `name`, in any case: its real name and metadata.
fn entry(dir: &Path, name: &str) -> Option<(String, Metadata)> {
    if let Ok(meta) = std::fs::symlink_metadata(dir.join(name)) {
        return Some((name.to_owned(), meta));
    }
    let actual = std::fs::read_dir(dir)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|entry| super::regf::same(entry, name))?;
    let meta = std::fs::symlink_metadata(dir.join(&actual)).ok()?;
    Some((actual, meta))
}

/// NUL, CON, COM1 and the like, with or without `\\.\`, an extension or a colon; other reserved names are refused.
fn device(path: &str) -> Option<Result<Place, Win32>> {
    let path = path.strip_prefix(r"\\.\").unwrap_or(path);
    let last = path.rsplit(['\\', '/']).next().unwrap_or("");
    let stem = last
        .split(['.', ':'])
        .next()
        .unwrap_or("")
        .trim_end()
        .to_ascii_uppercase();
    let numbered = |port: &str| {
        stem.strip_prefix(port)
            .is_some_and(|n| n.len() == 1 && n.chars().all(|c| c.is_ascii_digit() && c != '0'))
    };
    match stem.as_str() {
        "NUL" => Some(Ok(Place::Null)),
        "COM1" | "COM2" => Some(Ok(Place::Serial)),
        "CON" | "PRN" | "AUX" | "CONIN$" | "CONOUT$" => Some(Err(INVALID_NAME)),
        _ if numbered("COM") || numbered("LPT") => Some(Err(FILE_NOT_FOUND)),
        _ => None,
    }
}

/// `path` as `X:\a\b`: made absolute, dots resolved, slashes turned, trailing dots and blanks of names dropped.
pub fn absolute(cwd: &Cwd, path: &str) -> Result<String, Win32> {
    let path = path.replace('/', "\\");
    let path = path.strip_prefix(r"\\?\").unwrap_or(&path);
    if path.starts_with(r"\\") {
        return Err(BAD_NETPATH);
    }
    if path.is_empty() {
        return Err(PATH_NOT_FOUND);
    }
    let current = cwd.0.chars().next().unwrap_or('C');
    let (letter, rest) = match path.as_bytes() {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => {
            (char::from(letter.to_ascii_uppercase()), &path[2..])
        }
        _ => (current, path),
    };
    let mut names: Vec<&str> = Vec::new();
    if !rest.starts_with('\\') && letter == current {
        names.extend(cwd.0[2..].split('\\').filter(|part| !part.is_empty()));
    }
    for part in rest.split('\\') {
        match part {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            part => {
                let trimmed = part.trim_end_matches(['.', ' ']);
                let illegal = |c: char| c < ' ' || "<>\"|?*:".contains(c);
                if trimmed.is_empty() || part.contains(illegal) {
                    return Err(INVALID_NAME);
                }
                names.push(trimmed);
            }
        }
    }
    Ok(format!("{letter}:\\{}", names.join("\\")))
}

/// Whether a file name fits a pattern with `*` and `?` (`*.*` fits every name, as in Windows).
pub fn fits(pattern: &str, name: &str) -> bool {
    fn walk(pattern: &[char], name: &[char]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some('*'), _) => {
                walk(&pattern[1..], name) || (!name.is_empty() && walk(pattern, &name[1..]))
            }
            (Some('?'), Some(_)) => walk(&pattern[1..], &name[1..]),
            (Some(p), Some(n)) => p == n && walk(&pattern[1..], &name[1..]),
            _ => false,
        }
    }
    let chars = |text: &str| text.to_uppercase().chars().collect::<Vec<_>>();
    let (pattern, name) = (chars(pattern), chars(name));
    // A dot at the end of a pattern fits names without one: `*.*`, `*.`
    walk(&pattern, &name)
        || (!name.contains(&'.')
            && pattern.ends_with(&['.', '*'])
            && walk(&pattern[..pattern.len() - 2], &name))
        || (!name.contains(&'.')
            && pattern.ends_with(&['.'])
            && walk(&pattern[..pattern.len() - 1], &name))
}

/// Names in a directory, sorted as NTFS lists them (upper-cased order).
pub fn list(dir: &Path) -> Vec<(String, Metadata)> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut found: Vec<(String, Metadata)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = std::fs::symlink_metadata(entry.path()).ok()?;
            let usable = meta.is_dir() || meta.is_file();
            usable.then_some((entry.file_name().into_string().ok()?, meta))
        })
        .collect();
    found.sort_by_key(|(name, _)| name.to_uppercase());
    found
}
