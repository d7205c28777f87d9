//! Selects the files of a folder that make up its driver packages. Pure, except that it reads the
//! INFs through a callback.

use std::collections::BTreeSet;

use super::inf::InfFile;
use winimg_base::error::Result;
use winimg_base::problem::Problem;

/// The decoration for the processor of every Windows that winimg builds.
const PROCESSOR: &str = "amd64";
/// Decorations of sections for other processors.
const OTHER_PROCESSORS: [&str; 3] = [".ntx86", ".ntia64", ".ntarm"];
const VERSION: &str = "Version";
/// Signatures of INFs for any Windows since 2000.
const SIGNATURES: [&str; 2] = ["$windows nt$", "$chicago$"];

/// A driver package, by paths below the folder, with `/` between folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverPackage {
    pub inf: String,
    pub catalog: String,
    /// All other files, sorted.
    pub files: Vec<String>,
}

impl DriverPackage {
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().map(String::as_str);
        [self.inf.as_str(), self.catalog.as_str()]
            .into_iter()
            .chain(files)
    }
}

/// The driver packages of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverSelection {
    /// Sorted by the INFs' paths; never empty.
    pub packages: Vec<DriverPackage>,
    /// The files of the folder that belong to no package, sorted.
    pub left_out: Vec<String>,
}

impl DriverSelection {
    /// Returns the files of all packages, sorted and without duplicates.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.packages
            .iter()
            .flat_map(DriverPackage::paths)
            .collect()
    }
}

/// A reason why a folder has no complete driver package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverPackageFault {
    /// Path of the INF; `None` if the folder has no driver INF.
    pub inf: Option<String>,
    pub problem: Problem,
}

pub fn is_inf(path: &str) -> bool {
    path.to_ascii_lowercase().ends_with(".inf")
}

/// Selects the packages of the INFs that `is_wanted` accepts, and of the INFs that they copy
/// (CopyINF). An `.inf` file that is not the INF of a driver, such as `autorun.inf`, belongs to no
/// package. Names are compared without case. A package with a file for which `is_empty` is true is
/// refused.
pub(super) fn choose(
    paths: &[&str],
    is_wanted: impl Fn(&str) -> bool,
    is_empty: impl Fn(&str) -> bool,
    mut read: impl FnMut(&str) -> Result<Vec<u8>>,
) -> Result<std::result::Result<DriverSelection, Vec<DriverPackageFault>>> {
    let all = DriverFolderFiles {
        paths,
        is_empty: &is_empty,
    };
    let (mut packages, mut faults, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut queue: Vec<String> = Vec::new();
    for path in paths.iter().filter(|path| is_inf(path) && is_wanted(path)) {
        queue.push((*path).to_owned());
    }
    queue.sort();
    let mut at = 0;
    while let Some(path) = queue.get(at).cloned() {
        at += 1;
        let inf = InfFile::parse(&read(&path)?);
        let signature = inf.value(VERSION, "Signature").unwrap_or_default();
        if !SIGNATURES.contains(&signature.to_lowercase().as_str()) {
            others.push(path);
            continue;
        }
        let resolver = InfResolver {
            all: &all,
            inf: &path,
        };
        match resolver.resolve_package(&inf, &mut faults) {
            Some(package) => packages.push(package),
            None => continue,
        }
        for copied in resolver.find_copied_infs(&inf, &mut faults) {
            if !queue.contains(&copied) {
                queue.push(copied);
            }
        }
    }
    if packages.is_empty() && faults.is_empty() {
        faults.push(no_package(&others));
    }
    if !faults.is_empty() {
        return Ok(Err(faults));
    }
    packages.sort_by(|a: &DriverPackage, b| a.inf.cmp(&b.inf));
    let mut chosen = DriverSelection {
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

fn no_package(others: &[String]) -> DriverPackageFault {
    let problem = match others {
        [] => Problem::new("this driver folder has no .inf file")
            .cure("specify the folder that contains the driver's INF"),
        _ => Problem::new("this driver folder has no driver INF")
            .expected("a [Version] section with Signature = \"$Windows NT$\"")
            .found(others.join(", ")),
    };
    DriverPackageFault { inf: None, problem }
}

/// All files of a folder.
struct DriverFolderFiles<'f> {
    paths: &'f [&'f str],
    is_empty: &'f dyn Fn(&str) -> bool,
}

impl DriverFolderFiles<'_> {
    /// Finds a file and returns its path as the folder spells it.
    fn find(&self, path: &str) -> Option<&str> {
        let wanted = path.to_lowercase();
        let exact = self.paths.iter().find(|known| **known == path);
        exact
            .or_else(|| {
                self.paths
                    .iter()
                    .find(|known| known.to_lowercase() == wanted)
            })
            .copied()
    }
}

/// Resolves the files that one INF references.
struct InfResolver<'n> {
    all: &'n DriverFolderFiles<'n>,
    inf: &'n str,
}

impl InfResolver<'_> {
    /// Returns the package of the INF; otherwise adds its faults.
    fn resolve_package(
        &self,
        inf: &InfFile,
        faults: &mut Vec<DriverPackageFault>,
    ) -> Option<DriverPackage> {
        let before = faults.len();
        let catalog = self.find_catalog(inf, faults);
        let mut files = BTreeSet::new();
        for (name, path) in list_source_files(inf) {
            if let Some(file) = self.find(&name, &path, faults) {
                files.insert(file);
            }
        }
        if faults.len() > before {
            return None;
        }
        let catalog = catalog?;
        files.retain(|file| *file != catalog && file != self.inf);
        Some(DriverPackage {
            inf: self.inf.to_owned(),
            catalog,
            files: files.into_iter().collect(),
        })
    }

    /// Finds the INF's catalog for this processor: the entry with the most specific decoration.
    fn find_catalog(&self, inf: &InfFile, faults: &mut Vec<DriverPackageFault>) -> Option<String> {
        let keys = ["CatalogFile.NTamd64", "CatalogFile.NT", "CatalogFile"];
        let named = keys.iter().find_map(|key| inf.value(VERSION, key));
        match named.filter(|name| !name.is_empty()) {
            Some(name) => self.find(name, name, faults),
            None => {
                let problem = Problem::new(format!("{} names no catalog", self.inf))
                    .expected("CatalogFile in its [Version] section")
                    .cure("use the driver's signed package; 64-bit Windows rejects others");
                faults.push(self.make_fault(problem));
                None
            }
        }
    }

    /// Finds the other INFs of the folder that are installed with this one.
    fn find_copied_infs(&self, inf: &InfFile, faults: &mut Vec<DriverPackageFault>) -> Vec<String> {
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

    /// Finds the file at `path` below the folder of the INF, which calls it `name`.
    fn find(&self, name: &str, path: &str, faults: &mut Vec<DriverPackageFault>) -> Option<String> {
        let Some(path) = normalize_relative(path) else {
            let problem = Problem::new(format!("{} names a file outside its folder", self.inf))
                .found(path.trim_start_matches('\\'))
                .cure("get the package from the driver's publisher");
            faults.push(self.make_fault(problem));
            return None;
        };
        let path = match self.inf.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{path}"),
            None => path,
        };
        if let Some(found) = self.all.find(&path) {
            if !(self.all.is_empty)(found) {
                return Some(found.to_owned());
            }
            let problem = Problem::new(format!("{} names {name}, which is empty", self.inf))
                .found(format!("{found}, 0 bytes"))
                .cure("provide the complete package, as published");
            faults.push(self.make_fault(problem));
            return None;
        }
        let fact = format!("{} names {name}, which is not in the folder", self.inf);
        let mut problem = Problem::new(fact).expected(&path);
        problem = match self.all.find(&to_compressed_name(&path)) {
            Some(found) => problem
                .found(format!("{found}, a compressed file"))
                .cure("unpack it with expand.exe or msexpand"),
            None => problem.cure("provide the complete package, as published"),
        };
        faults.push(self.make_fault(problem));
        None
    }

    fn make_fault(&self, problem: Problem) -> DriverPackageFault {
        DriverPackageFault {
            inf: Some(self.inf.to_owned()),
            problem,
        }
    }
}

/// Lists the files of SourceDisksFiles, each by its name and its path below the INF's folder. A
/// section for this processor takes precedence over the one for all.
fn list_source_files(inf: &InfFile) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for section in decorated_names("SourceDisksFiles") {
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
            let disks = decorated_names("SourceDisksNames");
            let mut disks = disks.iter().flat_map(|section| inf.lines(section));
            let disk = disks.find(|line| line.key.as_deref() == Some(disk));
            // Description, tag or cabinet, unused, path.
            let folder = disk.map_or("", |line| line.field(3));
            let cabinet = disk.map_or("", |line| line.field(1));
            found.push(if cabinet.to_lowercase().ends_with(".cab") {
                (cabinet.to_owned(), format!("{folder}\\{cabinet}"))
            } else {
                (name.to_owned(), format!("{folder}\\{subfolder}\\{name}"))
            });
        }
    }
    found
}

/// Returns the names of a section: the one for this processor, then the one for all.
fn decorated_names(section: &str) -> [String; 2] {
    [format!("{section}.{PROCESSOR}"), section.to_owned()]
}

/// Normalizes a path below the folder to `/` separators; `None` if it leads elsewhere.
fn normalize_relative(path: &str) -> Option<String> {
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

/// Returns the name of the compressed file: `netkvm.sys` becomes `netkvm.sy_`.
fn to_compressed_name(path: &str) -> String {
    let mut name: Vec<char> = path.chars().collect();
    name.pop();
    name.into_iter().chain(['_']).collect()
}
