//! The files and flags that a recipe was read from, and the base folders of their relative paths.
//!
//! Refuses paths outside a bundle.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{PathRoot, ReadFile, ReadOptions};
use winimg_base::diag::{Diagnostic, suggest};
use winimg_base::io;
use winimg_base::text::{Place, SourceText};

/// Every file and flag that was read, in that order, with the base folder of its relative paths.
#[derive(Debug, Default)]
pub struct RecipeSources {
    said: Vec<SourceEntry>,
    /// The files that were opened or named, in that order.
    files: RefCell<Vec<ReadFile>>,
    /// Relocated paths.
    moved: Vec<(PathBuf, PathBuf)>,
    /// Nothing outside this folder is read.
    within: Option<PathBuf>,
    /// Search path of packs and targets, after the folder of the file that names them.
    search: Vec<PathBuf>,
    /// Built-in folders of `search`.
    shipped: Vec<PathBuf>,
    /// Folders whose files may be quoted.
    quotable: Quotable,
    /// Trust root of keyless signatures, unless the recipe sets one.
    pub sigstore_root: Option<Vec<u8>>,
}

/// The folders whose files messages may quote, if they are named by relative paths: the recipe's
/// own, and those of the search path. An untrusted recipe can name any file of the host, and
/// messages end up in logs.
#[derive(Clone, Default)]
pub struct Quotable(Vec<PathBuf>);

/// Omits the folders, which differ per machine.
impl fmt::Debug for Quotable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotable").finish_non_exhaustive()
    }
}

impl Quotable {
    pub fn from_folders<'p>(folders: impl IntoIterator<Item = &'p Path>) -> Self {
        let folders = folders
            .into_iter()
            .map(|folder| match folder.as_os_str() {
                empty if empty.is_empty() => Path::new("."),
                _ => folder,
            })
            .filter_map(|folder| io::canonicalize(folder).ok())
            .collect();
        Self(folders)
    }

    /// Returns true if a file relative to `root` is in one of the folders, with its links resolved.
    pub fn allows(&self, file: &Path, root: &PathRoot) -> bool {
        !matches!(root, PathRoot::Named(_))
            && io::canonicalize(file)
                .is_ok_and(|file| self.0.iter().any(|folder| file.starts_with(folder)))
    }

    /// Like [`Self::allows`], for one of the files that a recipe was read from. Other files may be
    /// quoted.
    pub fn allows_one_of(&self, file: &Path, files: &[ReadFile]) -> bool {
        let read = files.iter().find(|read| read.path == file);
        read.is_none_or(|read| self.allows(file, &read.root))
    }
}

/// A pack or a target that was found.
pub struct FoundFile {
    pub path: PathBuf,
    pub root: PathRoot,
    /// Name in messages: `winimg:packs/x.toml` for a built-in file, otherwise the path.
    pub name: String,
}

/// Error about a path outside a bundle.
pub const OUTSIDE: &str = "the path leads outside the bundle";
pub const OUTSIDE_HELP: &str = "put the file beside the recipe and recreate the bundle; paths in \
                                --var and --set are refused, too";

#[derive(Debug)]
struct SourceEntry {
    source: Arc<SourceText>,
    folder: PathBuf,
    root: PathRoot,
}

impl RecipeSources {
    /// Makes sources for the file `recipe`.
    pub fn from_options(options: &ReadOptions, recipe: &Path) -> Self {
        let own = io::folder_of(recipe);
        let search = options.search.iter().map(PathBuf::as_path);
        Self {
            quotable: Quotable::from_folders(std::iter::once(own).chain(search)),
            moved: options.moved.clone(),
            within: options.within.clone(),
            search: options.search.clone(),
            shipped: options.shipped.clone(),
            sigstore_root: options.sigstore_root.clone(),
            ..Self::default()
        }
    }

    /// Adds the text of a flag or of the environment.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        text: String,
        folder: PathBuf,
    ) -> Arc<SourceText> {
        self.add_file(name, text, folder, PathRoot::Flag)
    }

    /// Adds the text of a file.
    pub fn add_file(
        &mut self,
        name: impl Into<String>,
        text: String,
        folder: PathBuf,
        root: PathRoot,
    ) -> Arc<SourceText> {
        self.add_source(SourceText::new(name, text), folder, root)
    }

    /// Makes a source for a file that a recipe names; messages quote it only from some folders.
    pub fn source_of(
        &self,
        name: impl Into<String>,
        text: String,
        (file, root): (&Path, &PathRoot),
    ) -> SourceText {
        let source = SourceText::new(name, text);
        if self.quotable.allows(file, root) {
            source
        } else {
            source.into_unquotable()
        }
    }

    /// Returns true if messages may show lines of a file that the recipe names.
    pub fn may_quote(&self, file: &Path) -> bool {
        self.quotable.allows_one_of(file, &self.files.borrow())
    }

    pub fn quotable(&self) -> Quotable {
        self.quotable.clone()
    }

    /// Adds a source.
    pub fn add_source(
        &mut self,
        source: SourceText,
        folder: PathBuf,
        root: PathRoot,
    ) -> Arc<SourceText> {
        let source = Arc::new(source);
        self.said.push(SourceEntry {
            source: Arc::clone(&source),
            folder,
            root,
        });
        source
    }

    fn find(&self, place: &Place) -> Option<&SourceEntry> {
        self.said
            .iter()
            .find(|s| Arc::ptr_eq(&s.source, &place.source))
    }

    /// Returns the base folder of a path at `place`.
    pub fn find_folder(&self, place: &Place) -> &Path {
        self.find(place).map_or(Path::new(""), |s| &s.folder)
    }

    /// Returns the root of a path at `place`.
    pub fn find_root(&self, place: &Place, text: &str) -> PathRoot {
        match self.find(place).map(|s| &s.root) {
            Some(root) if *root != PathRoot::Flag && !Path::new(text).is_absolute() => root.clone(),
            _ => PathRoot::Named(text.to_string()),
        }
    }

    /// Resolves a local path at `place`, and notes it if it exists. It may be
    /// [outside](Self::is_outside).
    pub fn resolve_local(&self, place: &Place, text: &str) -> PathBuf {
        let path = self.relocate(self.find_folder(place).join(text));
        if !self.is_outside(&path) && path.exists() {
            self.note(&path, self.find_root(place, text));
        }
        path
    }

    /// Returns true if the path leads out of the recipe's bundle, by itself or by a link.
    pub fn is_outside(&self, path: &Path) -> bool {
        let Some(within) = &self.within else {
            return false;
        };
        // Its text first: Windows connects to the host of `\\host\share` on any access to the path.
        if !normalize(path).starts_with(within) {
            return true;
        }
        match (io::canonicalize(path), io::canonicalize(within)) {
            (Ok(real), Ok(within)) => !real.starts_with(within),
            // The path does not exist.
            (Err(_), _) => false,
            (Ok(_), Err(_)) => true,
        }
    }

    /// Returns the path of an input. A bundle has its inputs by digest in the lock, so a path
    /// outside the bundle is ignored.
    pub fn resolve_input(&self, path: PathBuf) -> PathBuf {
        match &self.within {
            Some(within) if self.is_outside(&path) => within
                .join("inputs")
                .join(path.file_name().unwrap_or_default()),
            _ => path,
        }
    }

    /// Returns the search path of a name at `place`.
    pub fn list_folders(&self, place: &Place) -> Vec<PathBuf> {
        let own = self.find_folder(place).to_path_buf();
        std::iter::once(own).chain(self.search.clone()).collect()
    }

    /// Finds a file: first beside the file that names it, then in the search path. The error has no
    /// place yet.
    pub fn look_up(&self, wanted: &str, place: &Place) -> Result<FoundFile, Diagnostic> {
        let candidates: Vec<PathBuf> = self
            .list_folders(place)
            .iter()
            .map(|folder| self.relocate(normalize(&folder.join(wanted))))
            .collect();
        let (outside, inside): (Vec<_>, Vec<_>) =
            (0..candidates.len()).partition(|at| self.is_outside(&candidates[*at]));
        if let Some(found) = inside.into_iter().find(|at| candidates[*at].is_file()) {
            let root = match found {
                0 => self.find_root(place, wanted),
                n => PathRoot::Search(n - 1),
            };
            let path = candidates[found].clone();
            let name = self.render_name(&path, &root);
            return Ok(FoundFile { path, root, name });
        }
        if !outside.is_empty() {
            return Err(Diagnostic::error(OUTSIDE).help(OUTSIDE_HELP));
        }
        let mut diagnostic = Diagnostic::error(format!("no such file: {wanted}"));
        let siblings: Vec<String> = candidates
            .iter()
            .flat_map(|p| list_siblings(p, wanted))
            .collect();
        let siblings: Vec<&str> = siblings.iter().map(String::as_str).collect();
        if !siblings.is_empty() {
            diagnostic = diagnostic.help(suggest(wanted, &siblings, "files there"));
        }
        let looked: Vec<String> = (0..)
            .zip(&candidates)
            .map(|(n, path)| match n {
                0 => render_path(path),
                n => self.render_name(path, &PathRoot::Search(n - 1)),
            })
            .collect();
        Err(diagnostic.help(format!("looked for {}", looked.join(", "))))
    }

    fn render_name(&self, path: &Path, root: &PathRoot) -> String {
        let folder = match root {
            PathRoot::Search(number) => self.search.get(*number),
            _ => None,
        };
        let own = folder.filter(|folder| self.shipped.contains(folder));
        match own.and_then(|folder| path.strip_prefix(normalize(folder)).ok()) {
            Some(within) => format!("winimg:{}", render_path(within)),
            None => render_path(path),
        }
    }

    /// Returns the path, or its new location.
    pub fn relocate(&self, path: PathBuf) -> PathBuf {
        let moved = self.moved.iter().find(|(from, _)| *from == path);
        moved.map_or(path, |(_, to)| to.clone())
    }

    /// Notes a file or folder that the recipe is read from.
    pub fn note(&self, path: &Path, root: PathRoot) {
        let file = ReadFile {
            path: path.to_path_buf(),
            root,
        };
        let mut files = self.files.borrow_mut();
        if !files.contains(&file) {
            files.push(file);
        }
    }

    pub fn files(&self) -> Vec<ReadFile> {
        self.files.borrow().clone()
    }

    pub fn order(&self) -> Vec<Arc<SourceText>> {
        self.said.iter().map(|s| Arc::clone(&s.source)).collect()
    }
}

/// Lists the TOML files in the folder of a candidate, in the form of `wanted`.
fn list_siblings(candidate: &Path, wanted: &str) -> Vec<String> {
    let prefix = wanted.rfind('/').map_or("", |at| &wanted[..=at]);
    let folder = match candidate.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    names.iter().map(|n| format!("{prefix}{n}")).collect()
}

/// Renders a path with `/`, as in recipes.
fn render_path(path: &Path) -> String {
    path.display().to_string().replace('\\', "/")
}

/// Normalizes `a/b/../c` to `a/c`, without using the file system.
pub fn normalize(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
            {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Reads a UTF-8 file, with or without a byte order mark.
pub fn read_text(path: &Path) -> Result<String, String> {
    decode(io::read_limited(path, io::limit::TEXT).map_err(|error| error.to_string())?)
}

/// Like [`read_text`], for a file named on the command line.
pub fn read_given_text(path: &Path) -> Result<String, String> {
    decode(io::read_argument(path, io::limit::TEXT).map_err(|error| error.to_string())?)
}

pub fn decode(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("it is UTF-16; save it as UTF-8".into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("byte {at} is not UTF-8")
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn within(folder: &Path) -> RecipeSources {
        RecipeSources {
            within: Some(folder.to_path_buf()),
            ..RecipeSources::default()
        }
    }

    #[test]
    fn paths_lead_out_of_a_bundle_by_their_text_and_by_links() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("bundle");
        fs::create_dir(&bundle).unwrap();
        fs::write(bundle.join("own"), "").unwrap();
        fs::write(folder.path().join("host"), "").unwrap();
        symlink("../host", bundle.join("link")).unwrap();
        // A link to the bundle from outside: its text leads elsewhere, so nothing is asked about
        // it.
        symlink("bundle/own", folder.path().join("in")).unwrap();
        let sources = within(&bundle);
        for inside in ["own", "none", "a/../own", "."] {
            assert!(!sources.is_outside(&bundle.join(inside)), "{inside}");
        }
        for outside in ["../host", "../none", "link", "../in", "/etc/passwd", ""] {
            let path = match outside {
                "" => PathBuf::new(),
                _ => bundle.join(outside),
            };
            assert!(sources.is_outside(&path), "{outside}");
        }
    }

    #[test]
    fn bundles_below_a_link_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("large-disk");
        fs::create_dir_all(real.join("key")).unwrap();
        fs::write(real.join("key/own"), "").unwrap();
        symlink(&real, folder.path().join("bundles")).unwrap();
        let place = folder.path().join("bundles/key");
        let sources = within(&place);
        assert!(!sources.is_outside(&place.join("own")));
        assert!(sources.is_outside(&place.join("../../host")));
    }
}
