//! The files and flags that a recipe was read from, and where their relative paths start.
//!
//! Refuses paths that lead out of a bundle.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Options, ReadFile, Root};
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::io;
use winimg_base::text::{Place, Source};

/// Every file and flag that was read, in that order, each with the folder that its relative paths start from.
#[derive(Debug, Default)]
pub struct Sources {
    said: Vec<Said>,
    /// The files that were opened or named, in that order.
    files: RefCell<Vec<ReadFile>>,
    /// Paths that stand elsewhere now.
    moved: Vec<(PathBuf, PathBuf)>,
    /// Nothing is read outside of it.
    within: Option<PathBuf>,
    /// Where packs and targets are looked for when they are not beside the file that names them.
    search: Vec<PathBuf>,
    /// Those of `search` that come with winimg.
    shipped: Vec<PathBuf>,
    /// Folders whose files may be quoted.
    quotable: Quotable,
    /// What keyless signatures are judged by where the recipe does not say.
    pub sigstore_root: Option<Vec<u8>>,
}

/// The folders whose files messages may show lines of, where they are named relative to them: the recipe's own, and those that the
/// user has includes looked for in. A stranger's recipe can name any file of the host, and messages end up in logs.
#[derive(Clone, Default)]
pub struct Quotable(Vec<PathBuf>);

/// Without the folders, which are another machine's elsewhere.
impl fmt::Debug for Quotable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotable").finish_non_exhaustive()
    }
}

impl Quotable {
    pub fn of<'p>(folders: impl IntoIterator<Item = &'p Path>) -> Self {
        let folders = folders.into_iter().map(|folder| match folder.as_os_str() {
            empty if empty.is_empty() => Path::new("."),
            _ => folder,
        });
        Self(folders.filter_map(|f| io::canonicalize(f).ok()).collect())
    }

    /// Whether a file that `root` leads to is in one of the folders, with its links resolved.
    pub fn allows(&self, file: &Path, root: &Root) -> bool {
        let is_named = matches!(root, Root::Named(_));
        let within = |file: PathBuf| self.0.iter().any(|folder| file.starts_with(folder));
        !is_named && io::canonicalize(file).is_ok_and(within)
    }

    /// The same of one of the files that a recipe was read from. What no recipe's text named may be quoted.
    pub fn allows_one_of(&self, file: &Path, files: &[ReadFile]) -> bool {
        let read = files.iter().find(|read| read.path == file);
        read.is_none_or(|read| self.allows(file, &read.root))
    }
}

/// A pack or a target that was found.
pub struct LookedUp {
    pub path: PathBuf,
    pub root: Root,
    /// As messages call it: `winimg:packs/x.toml` for what comes with winimg, wherever that lies; else the path.
    pub name: String,
}

/// What is wrong with a path that leads out of a bundle.
pub const OUTSIDE: &str = "a bundle reads nothing outside of itself";
pub const OUTSIDE_HELP: &str = "put the file beside the recipe and make the bundle again; a path given with --var or --set is refused, too";

#[derive(Debug)]
struct Said {
    source: Arc<Source>,
    folder: PathBuf,
    root: Root,
}

impl Sources {
    /// `recipe`: the file that everything is read from.
    pub fn of(options: &Options, recipe: &Path) -> Self {
        let own = io::folder_of(recipe);
        let search = options.search.iter().map(PathBuf::as_path);
        Self {
            quotable: Quotable::of(std::iter::once(own).chain(search)),
            moved: options.moved.clone(),
            within: options.within.clone(),
            search: options.search.clone(),
            shipped: options.shipped.clone(),
            sigstore_root: options.sigstore_root.clone(),
            ..Self::default()
        }
    }

    /// The text of a flag or of the environment.
    pub fn add(&mut self, name: impl Into<String>, text: String, folder: PathBuf) -> Arc<Source> {
        self.add_file(name, text, folder, Root::Flag)
    }

    /// The text of a file.
    pub fn add_file(
        &mut self,
        name: impl Into<String>,
        text: String,
        folder: PathBuf,
        root: Root,
    ) -> Arc<Source> {
        self.add_source(Source::new(name, text), folder, root)
    }

    /// The text of a file that a recipe names, which is quoted only from some folders.
    pub fn source_of(
        &self,
        name: impl Into<String>,
        text: String,
        (file, root): (&Path, &Root),
    ) -> Source {
        let source = Source::new(name, text);
        if self.quotable.allows(file, root) {
            source
        } else {
            source.unquotable()
        }
    }

    /// Whether messages may show lines of a file that the recipe names.
    pub fn may_quote(&self, file: &Path) -> bool {
        self.quotable.allows_one_of(file, &self.files.borrow())
    }

    pub fn quotable(&self) -> Quotable {
        self.quotable.clone()
    }

    /// Remembers a text.
    pub fn add_source(&mut self, source: Source, folder: PathBuf, root: Root) -> Arc<Source> {
        let source = Arc::new(source);
        self.said.push(Said {
            source: Arc::clone(&source),
            folder,
            root,
        });
        source
    }

    fn find(&self, place: &Place) -> Option<&Said> {
        let mut said = self.said.iter();
        said.find(|s| Arc::ptr_eq(&s.source, &place.source))
    }

    /// The folder that a path written at `place` is relative to.
    pub fn folder(&self, place: &Place) -> &Path {
        self.find(place).map_or(Path::new(""), |s| &s.folder)
    }

    /// What leads to a path that is written at `place`.
    pub fn root(&self, place: &Place, text: &str) -> Root {
        match self.find(place).map(|s| &s.root) {
            Some(root) if *root != Root::Flag && !Path::new(text).is_absolute() => root.clone(),
            _ => Root::Named(text.to_string()),
        }
    }

    /// A local path that is written at `place`, noted if it is there. It may lead [outside](Self::is_outside).
    pub fn local(&self, place: &Place, text: &str) -> PathBuf {
        let path = self.stands(self.folder(place).join(text));
        if !self.is_outside(&path) && path.exists() {
            self.note(&path, self.root(place, text));
        }
        path
    }

    /// Whether the path leads out of the bundle that the recipe came in, by itself or by a link.
    pub fn is_outside(&self, path: &Path) -> bool {
        let Some(within) = &self.within else {
            return false;
        };
        // Its text first: Windows connects to the host of `\\host\share` as soon as it is asked about such a path.
        if !tidy(path).starts_with(within) {
            return true;
        }
        match (io::canonicalize(path), io::canonicalize(within)) {
            (Ok(real), Ok(within)) => !real.starts_with(within),
            // Nothing is there.
            (Err(_), _) => false,
            (Ok(_), Err(_)) => true,
        }
    }

    /// Where an input stands that a recipe names by its path: in a bundle it comes by its digest in the lock, and whatever
    /// this machine has at such a place is not looked at.
    pub fn input(&self, path: PathBuf) -> PathBuf {
        match &self.within {
            Some(within) if self.is_outside(&path) => within
                .join("inputs")
                .join(path.file_name().unwrap_or_default()),
            _ => path,
        }
    }

    /// Where what is named at `place` is looked for, in that order.
    pub fn folders(&self, place: &Place) -> Vec<PathBuf> {
        let own = self.folder(place).to_path_buf();
        std::iter::once(own).chain(self.search.clone()).collect()
    }

    /// Beside the file that names it first, then in the folders of the options. The complaint has no place yet.
    pub fn look_up(&self, wanted: &str, place: &Place) -> Result<LookedUp, Diagnostic> {
        let folders = self.folders(place);
        let candidates = folders.iter().map(|f| tidy(&f.join(wanted)));
        let candidates: Vec<PathBuf> = candidates.map(|p| self.stands(p)).collect();
        let (outside, inside): (Vec<_>, Vec<_>) =
            (0..candidates.len()).partition(|at| self.is_outside(&candidates[*at]));
        if let Some(found) = inside.into_iter().find(|at| candidates[*at].is_file()) {
            let root = match found {
                0 => self.root(place, wanted),
                n => Root::Search(n - 1),
            };
            let path = candidates[found].clone();
            let name = self.called(&path, &root);
            return Ok(LookedUp { path, root, name });
        }
        if !outside.is_empty() {
            return Err(Diagnostic::error(OUTSIDE).help(OUTSIDE_HELP));
        }
        let mut diagnostic = Diagnostic::error(format!("there is no file {wanted}"));
        let siblings: Vec<String> = candidates
            .iter()
            .flat_map(|p| siblings(p, wanted))
            .collect();
        let siblings: Vec<&str> = siblings.iter().map(String::as_str).collect();
        if !siblings.is_empty() {
            diagnostic = diagnostic.help(suggestion(wanted, &siblings, "files there"));
        }
        let looked = (0..).zip(&candidates).map(|(n, path)| match n {
            0 => shown(path),
            n => self.called(path, &Root::Search(n - 1)),
        });
        let looked: Vec<String> = looked.collect();
        Err(diagnostic.help(format!("looked for {}", looked.join(", "))))
    }

    fn called(&self, path: &Path, root: &Root) -> String {
        let folder = match root {
            Root::Search(number) => self.search.get(*number),
            _ => None,
        };
        let own = folder.filter(|folder| self.shipped.contains(folder));
        match own.and_then(|folder| path.strip_prefix(tidy(folder)).ok()) {
            Some(within) => format!("winimg:{}", shown(within)),
            None => shown(path),
        }
    }

    /// The path, or where it stands now.
    pub fn stands(&self, path: PathBuf) -> PathBuf {
        let moved = self.moved.iter().find(|(from, _)| *from == path);
        moved.map_or(path, |(_, to)| to.clone())
    }

    /// Remembers a file or folder that the recipe is read from.
    pub fn note(&self, path: &Path, root: Root) {
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

    pub fn order(&self) -> Vec<Arc<Source>> {
        self.said.iter().map(|s| Arc::clone(&s.source)).collect()
    }
}

/// The TOML files in the folder of a candidate, written as the name would be.
fn siblings(candidate: &Path, wanted: &str) -> Vec<String> {
    let prefix = wanted.rfind('/').map_or("", |at| &wanted[..=at]);
    let folder = match candidate.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|n| n.ends_with(".toml")).collect();
    names.sort();
    names.iter().map(|n| format!("{prefix}{n}")).collect()
}

/// With `/` everywhere, as the recipe writes it.
fn shown(path: &Path) -> String {
    path.display().to_string().replace('\\', "/")
}

/// `a/b/../c` is `a/c`, without asking the file system.
pub fn tidy(path: &Path) -> PathBuf {
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

/// UTF-8, with or without a byte order mark.
pub fn read_text(path: &Path) -> Result<String, String> {
    decoded(io::read_limited(path, io::limit::TEXT).map_err(|error| error.to_string())?)
}

/// The same for a file that the user gave on the command line.
pub fn read_given_text(path: &Path) -> Result<String, String> {
    decoded(io::read_given(path, io::limit::TEXT).map_err(|error| error.to_string())?)
}

pub fn decoded(bytes: Vec<u8>) -> Result<String, String> {
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

    fn within(folder: &Path) -> Sources {
        Sources {
            within: Some(folder.to_path_buf()),
            ..Sources::default()
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
        // A link to the bundle from outside: its text leads elsewhere, so nothing is asked about it.
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
