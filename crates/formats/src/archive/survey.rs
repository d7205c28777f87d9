//! The content of an archive and all its problems, collected before a byte is written.

use std::collections::HashMap;

use winimg_base::error::{Error, Kind, Result};

use super::{ArchiveFile, ArchiveMember, UnpackLimits, name};

/// Maximum number of problems listed; the others are counted.
const LISTED: usize = 50;

/// An entry with its number in the archive.
pub(super) struct SurveyedEntry {
    pub number: usize,
    pub member: ArchiveMember,
}

/// Collects entries and problems in the archive's order.
pub(super) struct ArchiveSurvey {
    entries: Vec<SurveyedEntry>,
    problems: Vec<String>,
    names: NameClashes,
    limits: UnpackLimits,
    total: u64,
    allowed: (u64, String),
    /// A limit was exceeded, so the remaining entries were not read.
    stopped: bool,
}

/// Kind of an entry.
pub(super) enum EntryKind {
    File(u64),
    Folder,
    /// Refused, with a reason worded to follow the name.
    Refused(String),
}

impl ArchiveSurvey {
    pub fn new(limits: &UnpackLimits, archive_size: u64) -> Self {
        Self {
            entries: Vec::new(),
            problems: Vec::new(),
            names: NameClashes::default(),
            limits: limits.clone(),
            total: 0,
            allowed: limits.compute_max_size(archive_size),
            stopped: false,
        }
    }

    /// Adds the entry with this number. Returns false if reading should stop.
    pub fn add(&mut self, number: usize, raw: &[u8], what: EntryKind) -> bool {
        if number >= self.limits.entries {
            return self.stop(format!("it has more than {} entries", self.limits.entries));
        }
        let path = match name::normalize_path(raw) {
            Ok(path) => path,
            Err(problem) => {
                self.add_problem(raw, &problem);
                return true;
            }
        };
        let (size, is_folder) = match what {
            EntryKind::File(size) => (size, false),
            EntryKind::Folder => (0, true),
            EntryKind::Refused(problem) => {
                self.add_problem(raw, &problem);
                return true;
            }
        };
        if path.is_empty() {
            // `./` is the root itself.
            if !is_folder {
                self.add_problem(raw, "has no name");
            }
            return true;
        }
        self.total = self.total.saturating_add(size);
        if self.total > self.allowed.0 {
            return self.too_much();
        }
        if let Err(problem) = self.names.add(&path, is_folder) {
            self.add_problem(raw, &problem);
            return true;
        }
        let member = ArchiveMember {
            path,
            size,
            is_folder,
        };
        self.entries.push(SurveyedEntry { number, member });
        true
    }

    fn add_problem(&mut self, raw: &[u8], problem: &str) {
        self.problems
            .push(format!("{} {problem}", name::escape_name(raw)));
    }

    /// Adds a problem of the whole archive.
    pub fn add_archive_problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// Adds a problem that ends the reading.
    pub fn stop(&mut self, problem: impl Into<String>) -> bool {
        if !self.stopped {
            self.add_archive_problem(problem);
        }
        self.stopped = true;
        false
    }

    /// Reports that the archive unpacks to more than is allowed, and ends the reading.
    pub fn too_much(&mut self) -> bool {
        let why = format!("it {}", self.allowed.1);
        self.stop(why)
    }

    pub fn entries(&self) -> &[SurveyedEntry] {
        &self.entries
    }

    pub fn members(&self) -> impl Iterator<Item = &ArchiveMember> {
        self.entries.iter().map(|e| &e.member)
    }

    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Reports all problems as one error.
    pub fn check_clean(&self, archive: &ArchiveFile) -> Result<()> {
        check_problems(archive, &self.problems)
    }
}

pub(super) fn check_problems(archive: &ArchiveFile, problems: &[String]) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let more = problems.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("and {more} more"));
    Err(Error::new(
        Kind::Unproved,
        format!("{} is not unpacked", archive.name),
    )
    .lines(problems.iter().take(LISTED).cloned().chain(more))
    .cure("ask the publisher for an archive of plain files and folders, or make one and host it"))
}

/// Finds names that are the same to Windows.
#[derive(Default)]
pub(super) struct NameClashes {
    /// By folded path: its first spelling, and true if it is a folder.
    known: HashMap<String, (String, bool)>,
    files: std::collections::HashSet<String>,
    /// By folded and composed path: its first spelling. Only non-ASCII names have several
    /// spellings.
    spelt: HashMap<String, String>,
}

impl NameClashes {
    /// Adds a name. The error, if it clashes with another, is worded to follow the name.
    pub fn add(&mut self, path: &str, is_folder: bool) -> std::result::Result<(), String> {
        for (at, _) in path.match_indices('/') {
            self.add_one(&path[..at], true)?;
        }
        if !is_folder && !self.files.insert(name::fold_case(path)) {
            return match self.known.get(&name::fold_case(path)) {
                Some((first, _)) if first != path => {
                    Err(format!("differs from {first} only in case"))
                }
                _ => Err("appears twice".into()),
            };
        }
        self.add_one(path, is_folder)
    }

    fn add_one(&mut self, path: &str, is_folder: bool) -> std::result::Result<(), String> {
        let folded = name::fold_case(path);
        if !path.is_ascii() {
            let spelt = self.spelt.entry(name::compose_unicode(&folded));
            let first = spelt.or_insert_with(|| path.to_string());
            if name::fold_case(first) != folded {
                return Err(format!(
                    "differs from {first} only in its Unicode normalization"
                ));
            }
        }
        let (first, was_folder) = self
            .known
            .entry(folded)
            .or_insert_with(|| (path.to_string(), is_folder));
        if *was_folder != is_folder {
            return Err(format!("needs {first} to be both a file and a folder"));
        }
        if first != path {
            return Err(format!("differs from {first} only in case"));
        }
        Ok(())
    }
}
