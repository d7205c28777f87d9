//! Which files of an archive are wanted, and under which paths.

use std::collections::HashMap;

use glob::{MatchOptions, Pattern};

use winimg_base::error::{Error, Kind, Result};

use super::survey::{Names, Survey, verdict};
use super::{Member, Packed};

/// What to take of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Leading path segments to drop; what has no more than these is left out.
    pub strip: usize,
    /// Glob patterns over the paths that remain; empty: all. `*` stays within a segment, `**` does not, case does not
    /// count, and a pattern that names a folder takes what is in it.
    pub only: Vec<String>,
}

impl Filter {
    /// Whether `only` takes the path `a/b.inf`. The error names a malformed pattern.
    pub fn takes(&self, path: &str) -> std::result::Result<bool, String> {
        let mut taken = self.only.is_empty();
        for text in &self.only {
            taken |= matches(&pattern(text)?, path);
        }
        Ok(taken)
    }
}

const CASE_BLIND: MatchOptions = MatchOptions {
    case_sensitive: false,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The paths to write, by the entries' numbers.
pub(super) struct Selection {
    wanted: HashMap<usize, Member>,
}

impl Selection {
    /// Refuses patterns that are malformed or match nothing, and paths that become one by stripping.
    pub fn new(filter: &Filter, survey: &Survey, archive: &Packed) -> Result<Self> {
        let mut patterns = Vec::new();
        for text in &filter.only {
            let pattern = pattern(text).map_err(|fact| Error::new(Kind::Recipe, fact))?;
            patterns.push((text, pattern, false));
        }
        let mut wanted = HashMap::new();
        let mut names = Names::default();
        let mut problems = Vec::new();
        for entry in survey.entries() {
            let Some(path) = stripped(&entry.member.path, filter.strip) else {
                continue;
            };
            let mut take = patterns.is_empty();
            for (_, pattern, matched) in &mut patterns {
                if matches(pattern, path) {
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
            let member = Member {
                path: path.to_string(),
                ..entry.member.clone()
            };
            wanted.insert(entry.number, member);
        }
        if survey.is_clean() {
            verdict(archive, &problems)?;
            let unmatched = patterns.iter().filter(|(_, _, matched)| !matched);
            let unmatched: Vec<&str> = unmatched.map(|(text, ..)| text.as_str()).collect();
            none_missing(&unmatched, &wanted, filter, survey, archive)?;
        }
        Ok(Self { wanted })
    }

    pub fn get(&self, number: usize) -> Option<&Member> {
        self.wanted.get(&number)
    }
}

fn none_missing(
    unmatched: &[&str],
    wanted: &HashMap<usize, Member>,
    filter: &Filter,
    survey: &Survey,
    archive: &Packed,
) -> Result<()> {
    let name = archive.name;
    let fact = match filter.strip {
        _ if !unmatched.is_empty() => {
            format!("{name} holds nothing that matches {}", unmatched.join(", "))
        }
        _ if !wanted.is_empty() => return Ok(()),
        0 => format!("{name} is empty"),
        n => format!("{name} holds nothing below its first {n} folders"),
    };
    let files = survey.members().filter(|m| !m.is_folder);
    let files: Vec<&str> = files
        .filter_map(|m| stripped(&m.path, filter.strip))
        .collect();
    let more = files.len().saturating_sub(20);
    let more = (more > 0).then(|| format!("and {more} more"));
    Err(Error::new(Kind::Recipe, fact).lines(
        files
            .into_iter()
            .take(20)
            .map(|f| format!("it holds {f}"))
            .chain(more),
    ))
}

fn stripped(path: &str, segments: usize) -> Option<&str> {
    let mut rest = path;
    for _ in 0..segments {
        rest = rest.split_once('/')?.1;
    }
    Some(rest)
}

fn pattern(text: &str) -> std::result::Result<Pattern, String> {
    Pattern::new(&text.replace('\\', "/"))
        .map_err(|e| format!("the pattern {text} is malformed: {}", e.msg))
}

/// The path or one of the folders it is in.
fn matches(pattern: &Pattern, path: &str) -> bool {
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
            assert_eq!(matches(&compiled, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn stripping_leaves_out_what_is_too_short() {
        assert_eq!(stripped("a/b/c", 1), Some("b/c"));
        assert_eq!(stripped("a", 1), None);
        assert_eq!(stripped("a", 0), Some("a"));
    }
}
