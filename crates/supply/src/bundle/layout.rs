//! Layout of the recipe's files in a bundle, so that each relative path leads to the same file.
//!
//! Files that refer to each other by relative paths keep their relative positions below one folder.
//! Files from absolute paths or the command line get their own folder, and the index has the
//! original path.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::index::{BundleIndex, MovedFile, check_relative};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::{PathRoot, ReadFile, ReadOptions};

/// Files that refer to each other.
struct FileGroup<'a> {
    /// Absolute folder that their paths are relative to.
    anchor: PathBuf,
    /// Folder in the bundle, such as `recipe` or `search/0`.
    prefix: String,
    files: Vec<(&'a ReadFile, PathBuf)>,
}

/// Plans the layout, including the files in referenced folders. Fills the index except for the
/// files, and returns the current path of each of them.
pub fn plan_layout(
    files: &[ReadFile],
    options: &ReadOptions,
    index: &mut BundleIndex,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut members = BTreeMap::new();
    let groups = group_files(files, options)?;
    for (root, group) in &groups {
        let top = group.find_top();
        for (file, path) in &group.files {
            let name = group.name_member(&top, path)?;
            if path.is_dir() {
                let below = io::files_below(path).map_err(|e| Error::io("read", path, e))?;
                for inner in below {
                    members.insert(format!("{name}/{inner}"), path.join(&inner));
                }
                index.folders.push(name.clone());
            } else {
                members.insert(name.clone(), path.clone());
            }
            if matches!(root, PathRoot::Named(_)) && file.path == group.files[0].0.path {
                index.moved.push(MovedFile {
                    from: file.path.display().to_string(),
                    to: name,
                });
            }
        }
        match (root, group.files.first()) {
            (PathRoot::Recipe, Some((_, path))) => index.recipe = group.name_member(&top, path)?,
            (PathRoot::Search(_), _) => index.search.push(group.name_member(&top, &group.anchor)?),
            _ => {}
        }
    }
    index.var_files = name_var_files(&groups, &options.var_files)?;
    index.image_builder_vars = name_var_files(&groups, &options.image_builder_vars)?;
    for name in members.keys().chain(&index.folders) {
        if let Err(why) = check_relative(name) {
            let fact = format!("{name:?} {why}, so it cannot be bundled");
            return Err(Error::new(Kind::Recipe, fact).cure("rename the file"));
        }
    }
    Ok(members)
}

/// Returns the names of variable files in the bundle.
fn name_var_files(groups: &[(PathRoot, FileGroup<'_>)], paths: &[PathBuf]) -> Result<Vec<String>> {
    paths
        .iter()
        .filter_map(|path| {
            let root = PathRoot::Vars(path.clone());
            groups.iter().find(|(known, _)| *known == root)
        })
        .map(|(_, group)| group.name_member(&group.find_top(), &group.files[0].1))
        .collect()
}

/// Groups the files by their root, in the order of the first file of each.
fn group_files<'a>(
    files: &'a [ReadFile],
    options: &ReadOptions,
) -> Result<Vec<(PathRoot, FileGroup<'a>)>> {
    let mut roots: Vec<&PathRoot> = Vec::new();
    for file in files {
        if !roots.contains(&&file.root) {
            roots.push(&file.root);
        }
    }
    // Search folders are numbered in their given order, not in the order of use.
    roots.sort_by_key(|root| match root {
        PathRoot::Search(n) => *n,
        _ => 0,
    });
    let mut counts = BTreeMap::new();
    let mut groups = Vec::new();
    for root in roots {
        let own = files.iter().filter(|f| f.root == *root);
        let own = own.map(|f| Ok((f, resolve_absolute(&f.path)?)));
        let own: Vec<(&ReadFile, PathBuf)> = own.collect::<Result<_>>()?;
        let Some((_, first)) = own.first() else {
            continue;
        };
        let anchor = match root {
            PathRoot::Search(n) => match options.search.get(*n) {
                Some(folder) => resolve_absolute(folder)?,
                None => continue,
            },
            _ => first.parent().unwrap_or(first).to_path_buf(),
        };
        let kind = match root {
            PathRoot::Recipe => "recipe",
            PathRoot::Search(_) => "search",
            PathRoot::Vars(_) => "vars",
            PathRoot::Named(_) | PathRoot::Flag => "named",
        };
        let count = counts.entry(kind).or_insert(0);
        let prefix = match root {
            PathRoot::Recipe => kind.to_string(),
            _ => format!("{kind}/{count}"),
        };
        *count += 1;
        let group = FileGroup {
            anchor,
            prefix,
            files: own,
        };
        groups.push((root.clone(), group));
    }
    Ok(groups)
}

impl FileGroup<'_> {
    /// Returns the deepest folder that contains the anchor and all files.
    fn find_top(&self) -> PathBuf {
        let mut top = self.anchor.clone();
        for (_, path) in &self.files {
            let folder = path.parent().unwrap_or(path);
            while !folder.starts_with(&top) && top.pop() {}
        }
        top
    }

    fn name_member(&self, top: &Path, path: &Path) -> Result<String> {
        let mut name = self.prefix.clone();
        let below = path.strip_prefix(top).unwrap_or(path);
        for part in below.components() {
            let Component::Normal(part) = part else {
                continue;
            };
            let Some(part) = part.to_str() else {
                let fact = format!("{} is not UTF-8", path.display());
                return Err(Error::new(Kind::Recipe, fact).cure("rename the file"));
            };
            name.push('/');
            name.push_str(part);
        }
        Ok(name)
    }
}

/// Returns the absolute path without `.` and `..`.
fn resolve_absolute(path: &Path) -> Result<PathBuf> {
    let whole = std::path::absolute(path).map_err(|e| Error::io("find", path, e))?;
    let mut tidy = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                tidy.pop();
            }
            part => tidy.push(part),
        }
    }
    Ok(tidy)
}
