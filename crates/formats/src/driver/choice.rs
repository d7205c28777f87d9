//! Which files of a folder its driver packages consist of. Pure but for the INFs that it asks for.

use std::collections::BTreeSet;

use super::inf::Inf;
use winimg_base::error::Result;
use winimg_base::problem::Problem;

/// The processor of every Windows that winimg builds, as decorations name it.
const PROCESSOR: &str = "amd64";
/// Decorations of sections for other processors.
const OTHER_PROCESSORS: [&str; 3] = [".ntx86", ".ntia64", ".ntarm"];
const VERSION: &str = "Version";
/// What an INF for any Windows since 2000 says it is.
const SIGNATURES: [&str; 2] = ["$windows nt$", "$chicago$"];

/// A driver package, by paths below the folder, with `/` between folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub inf: String,
    pub catalog: String,
    /// Without the two above, sorted.
    pub files: Vec<String>,
}

impl Package {
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().map(String::as_str);
        [self.inf.as_str(), self.catalog.as_str()]
            .into_iter()
            .chain(files)
    }
}

/// The driver packages of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// In the order of their INFs' paths; never none.
    pub packages: Vec<Package>,
    /// The files of the folder that belong to no package, sorted.
    pub left_out: Vec<String>,
}

impl Chosen {
    /// The files of all packages, sorted; one that two packages share is there once.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.packages.iter().flat_map(Package::paths).collect()
    }
}

/// Why a folder has no complete driver package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the INF; none where the folder has no INF of a driver.
    pub inf: Option<String>,
    pub problem: Problem,
}

pub fn is_inf(path: &str) -> bool {
    path.to_ascii_lowercase().ends_with(".inf")
}

/// The packages of the INFs that `is_wanted` takes, and of those that these copy (CopyINF). An
/// `.inf` file that is not the INF of a driver, such as `autorun.inf`, belongs to no package. Names
/// are compared without case.
pub(super) fn choose(
    paths: &[&str],
    is_wanted: impl Fn(&str) -> bool,
    mut read: impl FnMut(&str) -> Result<Vec<u8>>,
) -> Result<std::result::Result<Chosen, Vec<Fault>>> {
    let all = Folder(paths);
    let (mut packages, mut faults, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut waiting: Vec<String> = Vec::new();
    for path in paths.iter().filter(|path| is_inf(path) && is_wanted(path)) {
        waiting.push((*path).to_owned());
    }
    waiting.sort();
    let mut at = 0;
    while let Some(path) = waiting.get(at).cloned() {
        at += 1;
        let inf = Inf::parse(&read(&path)?);
        let signature = inf.value(VERSION, "Signature").unwrap_or_default();
        if !SIGNATURES.contains(&signature.to_lowercase().as_str()) {
            others.push(path);
            continue;
        }
        let named = Named {
            all: &all,
            inf: &path,
        };
        match named.package(&inf, &mut faults) {
            Some(package) => packages.push(package),
            None => continue,
        }
        for copied in named.copied(&inf, &mut faults) {
            if !waiting.contains(&copied) {
                waiting.push(copied);
            }
        }
    }
    if packages.is_empty() && faults.is_empty() {
        faults.push(no_package(&others));
    }
    if !faults.is_empty() {
        return Ok(Err(faults));
    }
    packages.sort_by(|a: &Package, b| a.inf.cmp(&b.inf));
    let mut chosen = Chosen {
        packages,
        left_out: Vec::new(),
    };
    let taken = chosen.paths();
    let mut left_out = Vec::new();
    for path in paths.iter().filter(|path| !taken.contains(**path)) {
        left_out.push((*path).to_owned());
    }
    left_out.sort();
    chosen.left_out = left_out;
    Ok(Ok(chosen))
}

fn no_package(others: &[String]) -> Fault {
    let problem = match others {
        [] => Problem::new("this driver folder has no .inf file")
            .cure("give the folder that the driver's INF is in"),
        _ => Problem::new("this driver folder has no INF of a driver")
            .expected("a [Version] section with Signature = \"$Windows NT$\"")
            .found(others.join(", ")),
    };
    Fault { inf: None, problem }
}

/// All files of a folder.
struct Folder<'f>(&'f [&'f str]);

impl Folder<'_> {
    /// The file as the folder spells it.
    fn find(&self, path: &str) -> Option<&str> {
        let wanted = path.to_lowercase();
        let exact = self.0.iter().find(|known| **known == path);
        exact
            .or_else(|| self.0.iter().find(|known| known.to_lowercase() == wanted))
            .copied()
    }
}

/// What one INF names.
struct Named<'n> {
    all: &'n Folder<'n>,
    inf: &'n str,
}

impl Named<'_> {
    /// The package of the INF, or its faults.
    fn package(&self, inf: &Inf, faults: &mut Vec<Fault>) -> Option<Package> {
        let before = faults.len();
        let catalog = self.catalog(inf, faults);
        let mut files = BTreeSet::new();
        for (name, path) in sources(inf) {
            if let Some(file) = self.find(&name, &path, faults) {
                files.insert(file);
            }
        }
        if faults.len() > before {
            return None;
        }
        let catalog = catalog?;
        files.retain(|file| *file != catalog && file != self.inf);
        Some(Package {
            inf: self.inf.to_owned(),
            catalog,
            files: files.into_iter().collect(),
        })
    }

    /// The INF's catalog for this processor: the entry with the narrowest decoration.
    fn catalog(&self, inf: &Inf, faults: &mut Vec<Fault>) -> Option<String> {
        let keys = ["CatalogFile.NTamd64", "CatalogFile.NT", "CatalogFile"];
        let named = keys.iter().find_map(|key| inf.value(VERSION, key));
        match named.filter(|name| !name.is_empty()) {
            Some(name) => self.find(name, name, faults),
            None => {
                let problem = Problem::new(format!("{} names no catalog", self.inf))
                    .expected("CatalogFile in its [Version] section")
                    .cure("take the signed package of the driver: 64-bit Windows refuses others");
                faults.push(self.fault(problem));
                None
            }
        }
    }

    /// The other INFs of the folder that are installed with this one.
    fn copied(&self, inf: &Inf, faults: &mut Vec<Fault>) -> Vec<String> {
        let mut copied = Vec::new();
        for (section, line) in inf.lines_of_key("CopyINF") {
            let section = section.to_lowercase();
            if OTHER_PROCESSORS.iter().any(|other| section.contains(other)) {
                continue;
            }
            for name in line.fields.iter().filter(|name| !name.is_empty()) {
                copied.extend(self.find(name, name, faults));
            }
        }
        copied
    }

    /// The file at `path` below the folder of the INF. `name` is what the INF calls it.
    fn find(&self, name: &str, path: &str, faults: &mut Vec<Fault>) -> Option<String> {
        let Some(path) = inside(path) else {
            let problem = Problem::new(format!("{} names a file outside its folder", self.inf))
                .found(path.trim_start_matches('\\'))
                .cure("take the package from the driver's publisher");
            faults.push(self.fault(problem));
            return None;
        };
        let path = match self.inf.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{path}"),
            None => path,
        };
        if let Some(found) = self.all.find(&path) {
            return Some(found.to_owned());
        }
        let fact = format!("{} names {name}, which is not in the folder", self.inf);
        let mut problem = Problem::new(fact).expected(&path);
        problem = match self.all.find(&compressed(&path)) {
            Some(found) => problem
                .found(format!("{found}, a compressed file"))
                .cure("unpack it with expand.exe or msexpand"),
            None => problem.cure("give the whole package, as its publisher has it"),
        };
        faults.push(self.fault(problem));
        None
    }

    fn fault(&self, problem: Problem) -> Fault {
        Fault {
            inf: Some(self.inf.to_owned()),
            problem,
        }
    }
}

/// The files of SourceDisksFiles, each by its name and its path below the INF's folder. A section
/// for this processor counts more than the one for all.
fn sources(inf: &Inf) -> Vec<(String, String)> {
    let decorated = |section: &str| [format!("{section}.{PROCESSOR}"), section.to_owned()];
    let mut found: Vec<(String, String)> = Vec::new();
    for section in decorated("SourceDisksFiles") {
        for line in inf.lines(&section) {
            let name = line.key.as_deref().unwrap_or(line.field(0));
            let is_known = found
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(name));
            if name.is_empty() || is_known {
                continue;
            }
            let (disk, subfolder) = match line.key {
                Some(_) => (line.field(0), line.field(1)),
                None => ("", ""),
            };
            let disks = decorated("SourceDisksNames");
            let mut disks = disks.iter().flat_map(|section| inf.lines(section));
            let disk = disks.find(|line| line.key.as_deref() == Some(disk));
            // Description, tag or cabinet, unused, path.
            let above = disk.map_or("", |line| line.field(3));
            let cabinet = disk.map_or("", |line| line.field(1));
            found.push(if cabinet.to_lowercase().ends_with(".cab") {
                (cabinet.to_owned(), format!("{above}\\{cabinet}"))
            } else {
                (name.to_owned(), format!("{above}\\{subfolder}\\{name}"))
            });
        }
    }
    found
}

/// A path below the folder with `/` between its parts; `None` for one that leads elsewhere.
fn inside(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split(['\\', '/']) {
        match part {
            "" | "." => {}
            ".." => return None,
            part if part.contains(':') => return None,
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        None
    } else {
        Some(parts.join("/"))
    }
}

/// `netkvm.sys` as a compressed file is called: `netkvm.sy_`.
fn compressed(path: &str) -> String {
    let mut name: Vec<char> = path.chars().collect();
    name.pop();
    name.into_iter().chain(['_']).collect()
}
