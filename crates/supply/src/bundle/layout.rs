//! Where the files that a recipe was read from stand in a bundle: so that each relative path leads to the same file.
//!
//! Files that reach each other by relative paths keep their distances below one folder; what is named by an absolute
//! path or on the command line gets a folder of its own, and the index says where it was looked for.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::index::{Index, Moved, relative};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::recipe::{Options, ReadFile, Root};

/// The files that lead to each other.
struct Group<'a> {
    /// The folder that they are counted from, absolute.
    anchor: PathBuf,
    /// In the bundle: `recipe`, `search/0`.
    prefix: String,
    files: Vec<(&'a ReadFile, PathBuf)>,
}

/// Decides it, and lists the files of every folder that is named. Writes it into the index, all but the files; where each of
/// those is now is returned.
pub fn of(
    files: &[ReadFile],
    options: &Options,
    index: &mut Index,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut members = BTreeMap::new();
    let groups = groups(files, options)?;
    for (root, group) in &groups {
        let top = group.top();
        let member = |path: &Path| group.member(&top, path);
        for (file, path) in &group.files {
            let name = member(path)?;
            if path.is_dir() {
                let below = io::files_below(path).map_err(|e| Error::io("read", path, e))?;
                for inner in below {
                    members.insert(format!("{name}/{inner}"), path.join(&inner));
                }
                index.folders.push(name.clone());
            } else {
                members.insert(name.clone(), path.clone());
            }
            if matches!(root, Root::Named(_)) && file.path == group.files[0].0.path {
                index.moved.push(Moved {
                    from: file.path.display().to_string(),
                    to: name,
                });
            }
        }
        let first = group.files.first().map(|(_, path)| member(path));
        match (root, first) {
            (Root::Recipe, Some(first)) => index.recipe = first?,
            (Root::Search(_), _) => index.search.push(member(&group.anchor)?),
            _ => {}
        }
    }
    let named = |paths: &[PathBuf]| -> Result<Vec<String>> {
        let groups = paths.iter().filter_map(|path| {
            let root = Root::Vars(path.clone());
            groups.iter().find(|(r, _)| *r == root).map(|(_, g)| g)
        });
        groups.map(|g| g.member(&g.top(), &g.files[0].1)).collect()
    };
    index.var_files = named(&options.var_files)?;
    index.image_builder_vars = named(&options.image_builder_vars)?;
    for name in members.keys().chain(&index.folders) {
        if let Err(why) = relative(name) {
            let fact = format!("{name:?} {why}, so it cannot go into a bundle");
            return Err(Error::new(Kind::Recipe, fact).cure("give the file another name"));
        }
    }
    Ok(members)
}

/// By what leads to them, in the order of the first of each.
fn groups<'a>(files: &'a [ReadFile], options: &Options) -> Result<Vec<(Root, Group<'a>)>> {
    let mut roots: Vec<&Root> = Vec::new();
    for file in files {
        if !roots.contains(&&file.root) {
            roots.push(&file.root);
        }
    }
    // Searched in the order in which they were given, whichever was used first.
    let number = |root: &Root| match root {
        Root::Search(n) => *n,
        _ => 0,
    };
    roots.sort_by_key(|root| number(root));
    let mut counts = BTreeMap::new();
    let mut groups = Vec::new();
    for root in roots {
        let own = files.iter().filter(|f| f.root == *root);
        let own = own.map(|f| Ok((f, absolute(&f.path)?)));
        let own: Vec<(&ReadFile, PathBuf)> = own.collect::<Result<_>>()?;
        let Some((_, first)) = own.first() else {
            continue;
        };
        let anchor = match root {
            Root::Search(n) => match options.search.get(*n) {
                Some(folder) => absolute(folder)?,
                None => continue,
            },
            _ => first.parent().unwrap_or(first).to_path_buf(),
        };
        let kind = match root {
            Root::Recipe => "recipe",
            Root::Search(_) => "search",
            Root::Vars(_) => "vars",
            Root::Named(_) | Root::Flag => "named",
        };
        let count = counts.entry(kind).or_insert(0);
        let prefix = match root {
            Root::Recipe => kind.to_string(),
            _ => format!("{kind}/{count}"),
        };
        *count += 1;
        let group = Group {
            anchor,
            prefix,
            files: own,
        };
        groups.push((root.clone(), group));
    }
    Ok(groups)
}

impl Group<'_> {
    /// The lowest folder that holds the anchor and all the files.
    fn top(&self) -> PathBuf {
        let mut top = self.anchor.clone();
        for (_, path) in &self.files {
            let folder = path.parent().unwrap_or(path);
            while !folder.starts_with(&top) && top.pop() {}
        }
        top
    }

    fn member(&self, top: &Path, path: &Path) -> Result<String> {
        let mut name = self.prefix.clone();
        let below = path.strip_prefix(top).unwrap_or(path);
        for part in below.components() {
            let Component::Normal(part) = part else {
                continue;
            };
            let Some(part) = part.to_str() else {
                let fact = format!("{} is not UTF-8", path.display());
                return Err(Error::new(Kind::Recipe, fact).cure("give the file another name"));
            };
            name.push('/');
            name.push_str(part);
        }
        Ok(name)
    }
}

/// Absolute, without `.` and `..`.
fn absolute(path: &Path) -> Result<PathBuf> {
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
