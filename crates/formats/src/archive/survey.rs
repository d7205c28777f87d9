//! What an archive holds and everything that is wrong with it, before a byte is written.

use std::collections::HashMap;

use winimg_base::error::{Error, Kind, Result};

use super::{Limits, Member, Packed, name};

/// Problems listed before the rest is only counted.
const LISTED: usize = 50;

/// An entry as the archive has it, by its number there.
pub(super) struct Entry {
    pub number: usize,
    pub member: Member,
}

/// Collects entries and problems in the archive's order.
pub(super) struct Survey {
    entries: Vec<Entry>,
    problems: Vec<String>,
    names: Names,
    limits: Limits,
    total: u64,
    allowed: (u64, String),
    /// Too much was found: the rest was not looked at.
    stopped: bool,
}

/// What an entry is, as far as that matters.
pub(super) enum What {
    File(u64),
    Folder,
    /// Refused, with words that fit after the name.
    Refused(String),
}

impl Survey {
    pub fn new(limits: &Limits, archive_size: u64) -> Self {
        Self {
            entries: Vec::new(),
            problems: Vec::new(),
            names: Names::default(),
            limits: limits.clone(),
            total: 0,
            allowed: limits.allowed(archive_size),
            stopped: false,
        }
    }

    /// Adds the entry with this number. `false`: enough was seen, stop reading.
    pub fn add(&mut self, number: usize, raw: &[u8], what: What) -> bool {
        if number >= self.limits.entries {
            return self.stop(format!("it has more than {} entries", self.limits.entries));
        }
        let path = match name::normalise(raw) {
            Ok(path) => path,
            Err(problem) => {
                self.problem(raw, &problem);
                return true;
            }
        };
        let (size, is_folder) = match what {
            What::File(size) => (size, false),
            What::Folder => (0, true),
            What::Refused(problem) => {
                self.problem(raw, &problem);
                return true;
            }
        };
        if path.is_empty() {
            // `./` is the root itself.
            if !is_folder {
                self.problem(raw, "has no name");
            }
            return true;
        }
        self.total = self.total.saturating_add(size);
        if self.total > self.allowed.0 {
            return self.too_much();
        }
        if let Err(problem) = self.names.add(&path, is_folder) {
            self.problem(raw, &problem);
            return true;
        }
        let member = Member {
            path,
            size,
            is_folder,
        };
        self.entries.push(Entry { number, member });
        true
    }

    fn problem(&mut self, raw: &[u8], problem: &str) {
        self.problems
            .push(format!("{} {problem}", name::shown(raw)));
    }

    /// A problem of the whole archive.
    pub fn whole(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// A problem that ends the reading.
    pub fn stop(&mut self, problem: impl Into<String>) -> bool {
        if !self.stopped {
            self.whole(problem);
        }
        self.stopped = true;
        false
    }

    /// It unpacks to more than is allowed.
    pub fn too_much(&mut self) -> bool {
        let why = format!("it {}", self.allowed.1);
        self.stop(why)
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.entries.iter().map(|e| &e.member)
    }

    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// All problems as one error.
    pub fn verdict(&self, archive: &Packed) -> Result<()> {
        verdict(archive, &self.problems)
    }
}

pub(super) fn verdict(archive: &Packed, problems: &[String]) -> Result<()> {
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

/// Finds names that are one to Windows.
#[derive(Default)]
pub(super) struct Names {
    /// By folded path: how it was first spelt, whether it is a folder, whether an entry of its own named it.
    known: HashMap<String, (String, bool)>,
    files: std::collections::HashSet<String>,
    /// By folded and composed path: how it was first spelt. Only what is not ASCII can be spelt in two ways.
    spelt: HashMap<String, String>,
}

impl Names {
    /// Words that fit after the name when it clashes.
    pub fn add(&mut self, path: &str, is_folder: bool) -> std::result::Result<(), String> {
        for (at, _) in path.match_indices('/') {
            self.add_one(&path[..at], true)?;
        }
        if !is_folder && !self.files.insert(name::folded(path)) {
            return match self.known.get(&name::folded(path)) {
                Some((first, _)) if first != path => {
                    Err(format!("differs from {first} only in case"))
                }
                _ => Err("is there twice".into()),
            };
        }
        self.add_one(path, is_folder)
    }

    fn add_one(&mut self, path: &str, is_folder: bool) -> std::result::Result<(), String> {
        let folded = name::folded(path);
        if !path.is_ascii() {
            let spelt = self.spelt.entry(name::composed(&folded));
            let first = spelt.or_insert_with(|| path.to_string());
            if name::folded(first) != folded {
                return Err(format!(
                    "differs from {first} only in how Unicode spells it"
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
