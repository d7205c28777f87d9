//! Selects the files of an archive to unpack, and their paths.

use std::collections::HashMap;

use glob::{MatchOptions, Pattern};

use winimg_base::error::{Error, Kind, Result};

use super::survey::{ArchiveSurvey, NameClashes, check_problems};
use super::{ArchiveFile, ArchiveMember};

/// Files to select from an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveFilter {
    /// Leading path segments to drop; entries with no other segments are left out.
    pub strip: usize,
    /// Glob patterns over the remaining paths; empty: all. `*` matches within a segment, `**`
    /// across segments. Case is ignored, and a pattern that matches a folder selects its content.
    pub only: Vec<String>,
}

impl ArchiveFilter {
    /// Returns true if `only` selects the path `a/b.inf`. The error names a malformed pattern.
    pub fn should_include(&self, path: &str) -> std::result::Result<bool, String> {
        let mut taken = self.only.is_empty();
        for text in &self.only {
            taken |= is_match(&parse_pattern(text)?, path);
        }
        Ok(taken)
    }
}

const CASE_BLIND: MatchOptions = MatchOptions {
    case_sensitive: false,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The paths to write, by entry number.
pub(super) struct ArchiveSelection {
    wanted: HashMap<usize, ArchiveMember>,
}

impl ArchiveSelection {
    /// Refuses patterns that are malformed or match nothing, and paths that collide after
    /// stripping.
    pub fn new(
        filter: &ArchiveFilter,
        survey: &ArchiveSurvey,
        archive: &ArchiveFile,
    ) -> Result<Self> {
        let mut patterns = Vec::new();
        for text in &filter.only {
            let pattern = parse_pattern(text).map_err(|fact| Error::new(Kind::Recipe, fact))?;
            patterns.push((text, pattern, false));
        }
        let mut wanted = HashMap::new();
        let mut names = NameClashes::default();
        let mut problems = Vec::new();
        for entry in survey.entries() {
            let Some(path) = strip_segments(&entry.member.path, filter.strip) else {
                continue;
            };
            let mut take = patterns.is_empty();
            for (_, pattern, matched) in &mut patterns {
                if is_match(pattern, path) {
                    *matched = true;
                    take = true;
                }
            }
            if !take {
                continue;
            }
            if let Err(problem) = names.add(path, entry.member.is_folder) {
                problems.push(format!(
                    "{} {problem}, without its first {} segments",
                    entry.member.path, filter.strip
                ));
            }
            let member = ArchiveMember {
                path: path.to_string(),
                ..entry.member.clone()
            };
            wanted.insert(entry.number, member);
        }
        if survey.is_clean() {
            check_problems(archive, &problems)?;
            let unmatched: Vec<&str> = patterns
                .iter()
                .filter(|(_, _, matched)| !matched)
                .map(|(text, ..)| text.as_str())
                .collect();
            none_missing(&unmatched, &wanted, filter, survey, archive)?;
        }
        Ok(Self { wanted })
    }

    pub fn get(&self, number: usize) -> Option<&ArchiveMember> {
        self.wanted.get(&number)
    }
}

fn none_missing(
    unmatched: &[&str],
    wanted: &HashMap<usize, ArchiveMember>,
    filter: &ArchiveFilter,
    survey: &ArchiveSurvey,
    archive: &ArchiveFile,
) -> Result<()> {
    let name = archive.name;
    let fact = match filter.strip {
        _ if !unmatched.is_empty() => {
            format!("nothing in {name} matches {}", unmatched.join(", "))
        }
        _ if !wanted.is_empty() => return Ok(()),
        0 => format!("{name} is empty"),
        n => format!("{name} has nothing below its first {n} folders"),
    };
    let files: Vec<&str> = survey
        .members()
        .filter(|m| !m.is_folder)
        .filter_map(|m| strip_segments(&m.path, filter.strip))
        .collect();
    let more = files.len().saturating_sub(20);
    let more = (more > 0).then(|| format!("and {more} more"));
    Err(Error::new(Kind::Recipe, fact).lines(
        files
            .into_iter()
            .take(20)
            .map(|f| format!("it contains {f}"))
            .chain(more),
    ))
}

fn strip_segments(path: &str, segments: usize) -> Option<&str> {
    let mut rest = path;
    for _ in 0..segments {
        rest = rest.split_once('/')?.1;
    }
    Some(rest)
}

fn parse_pattern(text: &str) -> std::result::Result<Pattern, String> {
    Pattern::new(&text.replace('\\', "/"))
        .map_err(|e| format!("the pattern {text} is malformed: {}", e.msg))
}

/// Returns true if the pattern matches the path or one of its parent folders.
fn is_match(pattern: &Pattern, path: &str) -> bool {
    pattern.matches_with(path, CASE_BLIND)
        || path
            .match_indices('/')
            .any(|(at, _)| pattern.matches_with(&path[..at], CASE_BLIND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_follow_segments_and_folders() {
        for (pattern, path, expected) in [
            ("*.exe", "a.EXE", true),
            ("*.exe", "bin/a.exe", false),
            ("**/*.exe", "bin/x/a.exe", true),
            ("**/*.exe", "a.exe", true),
            ("bin", "bin/x/a.exe", true),
            ("bin/*", "bin/x/a.exe", true),
            ("bin/*.exe", "bin/x/a.exe", false),
        ] {
            let compiled = Pattern::new(pattern).unwrap();
            assert_eq!(is_match(&compiled, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn stripping_leaves_out_what_is_too_short() {
        assert_eq!(strip_segments("a/b/c", 1), Some("b/c"));
        assert_eq!(strip_segments("a", 1), None);
        assert_eq!(strip_segments("a", 0), Some("a"));
    }
}
