//! Log commands for GitHub and GitLab: collapsible groups and, on GitHub, annotations at a line of
//! the recipe.
//!
//! Only builds text; the terminal writes it. Text of others (a guest, a server) never becomes a
//! command. Sources: docs.github.com, "Workflow commands for GitHub Actions"; actions/runner,
//! `ActionCommand.cs`; docs.gitlab.com, "Custom collapsible sections".

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use winimg_base::diag::{self, DiagnosticRecord};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, FindingSeverity, Phase, ProblemDetails};
use winimg_base::io;

/// The variable that overrides the detection.
pub const VARIABLE: &str = "WINIMG_CI";

/// The CI system that reads standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CiSystem {
    #[default]
    None,
    GitHub,
    GitLab,
}

impl CiSystem {
    /// Detects the CI system by environment variables; empty ones count as unset.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        match variable(VARIABLE).as_deref() {
            None | Some("") => {
                if variable("GITHUB_ACTIONS").is_some_and(|value| !value.is_empty()) {
                    Ok(Self::GitHub)
                } else if variable("GITLAB_CI").is_some_and(|value| !value.is_empty()) {
                    Ok(Self::GitLab)
                } else {
                    Ok(Self::None)
                }
            }
            Some("none") => Ok(Self::None),
            Some("github") => Ok(Self::GitHub),
            Some("gitlab") => Ok(Self::GitLab),
            Some(other) => Err(Error::new(Kind::Recipe, format!("{VARIABLE} is invalid"))
                .expected("none, github or gitlab")
                .found(other)),
        }
    }

    /// Returns the command that starts a group; `now` is in Unix seconds.
    pub fn begin_group(self, phase: Phase, now: i64) -> String {
        match self {
            Self::None => String::new(),
            Self::GitHub => format!("::group::{phase}\n"),
            Self::GitLab => {
                format!("\x1b[0Ksection_start:{now}:winimg_{phase}\r\x1b[0K{phase}\n")
            }
        }
    }

    pub fn end_group(self, phase: Phase, now: i64) -> String {
        match self {
            Self::None => String::new(),
            Self::GitHub => "::endgroup::\n".into(),
            Self::GitLab => format!("\x1b[0Ksection_end:{now}:winimg_{phase}\r\x1b[0K\n"),
        }
    }

    /// Escapes whole lines that GitHub's runner would read as commands: `::` at the start of a
    /// line, also after whitespace, and `##[` anywhere in it. GitLab's sections need an escape and
    /// a carriage return, which the terminal never writes.
    pub fn escape_commands(self, text: &str) -> Cow<'_, str> {
        if self != Self::GitHub || !(text.contains("##[") || text.lines().any(is_command)) {
            return text.into();
        }
        text.split_inclusive('\n')
            .map(|line| {
                if is_command(line) {
                    line.replacen("::", ": :", 1)
                } else {
                    line.into()
                }
            })
            .collect::<String>()
            .replace("##[", "# #[")
            .into()
    }

    /// Returns the commands that annotate the event's complaints.
    pub fn render_annotations(self, event: &Event, workspace: &CiWorkspace) -> String {
        match self {
            Self::GitHub => collect_annotations(event)
                .iter()
                .map(|annotation| annotation.render(workspace))
                .collect(),
            Self::None | Self::GitLab => String::new(),
        }
    }
}

fn is_command(line: &str) -> bool {
    line.trim_start().starts_with("::")
}

/// Resolves file names to the paths that GitHub knows: relative to the repository.
#[derive(Clone, Debug)]
pub struct CiWorkspace {
    here: PathBuf,
    root: Option<PathBuf>,
}

impl CiWorkspace {
    pub fn of_process() -> Self {
        Self {
            here: std::env::current_dir().unwrap_or_default(),
            root: std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from),
        }
    }

    /// Returns `None` if there is no such file: a recipe on standard input or a built-in pack.
    fn find_name(&self, file: &str) -> Option<String> {
        let path = self.here.join(file);
        if !path.is_file() {
            return None;
        }
        // GitHub does not resolve `..`.
        let path = io::canonicalize(&path).unwrap_or(path);
        let root = self.root.as_deref().unwrap_or(Path::new(""));
        let root = io::canonicalize(root).unwrap_or_default();
        let path = path.strip_prefix(root).unwrap_or(&path);
        Some(path.display().to_string().replace('\\', "/"))
    }
}

/// One annotation.
#[derive(Debug, PartialEq, Eq)]
struct CiAnnotation {
    /// `error` or `warning`.
    level: &'static str,
    title: String,
    message: String,
    /// The file as messages name it, and the properties of the position.
    place: Option<(String, Vec<(&'static str, usize)>)>,
}

impl CiAnnotation {
    fn render(&self, workspace: &CiWorkspace) -> String {
        let mut properties = Vec::new();
        let mut message = self.message.clone();
        if let Some((file, numbers)) = &self.place {
            match workspace.find_name(file) {
                Some(name) => {
                    properties.push(format!("file={}", escape_property(&name)));
                    properties.extend(numbers.iter().map(|(name, n)| format!("{name}={n}")));
                }
                None => message += &format!("\nrecipe: {file}"),
            }
        }
        properties.push(format!("title={}", escape_property(&self.title)));
        format!(
            "::{} {}::{}\n",
            self.level,
            properties.join(","),
            escape_data(message.trim_start())
        )
    }
}

fn collect_annotations(event: &Event) -> Vec<CiAnnotation> {
    match event {
        Event::Diagnostics { found, .. } => {
            found.diagnostics.iter().map(convert_complaint).collect()
        }
        Event::Finding {
            severity, problem, ..
        } => match severity {
            FindingSeverity::Error => vec![convert_problem("error", problem)],
            FindingSeverity::Warning => vec![convert_problem("warning", problem)],
            FindingSeverity::Unknown => Vec::new(),
        },
        Event::Failed {
            reported: false,
            problem,
            ..
        } => vec![convert_problem("error", problem)],
        _ => Vec::new(),
    }
}

fn convert_complaint(complaint: &DiagnosticRecord) -> CiAnnotation {
    let label = Some(&complaint.label).filter(|label| !label.is_empty());
    let lines: Vec<&str> = label
        .into_iter()
        .chain(&complaint.help)
        .map(String::as_str)
        .collect();
    let place = complaint.place.as_ref().map(|place| {
        let mut numbers = vec![("line", place.line)];
        // GitHub accepts columns only for a single line.
        if place.line == place.end_line {
            numbers.extend([("col", place.column), ("endColumn", place.end_column)])
        } else {
            numbers.push(("endLine", place.end_line))
        }
        (place.source.clone(), numbers)
    });
    CiAnnotation {
        level: match complaint.severity {
            diag::Severity::Error => "error",
            diag::Severity::Warning => "warning",
        },
        title: complaint.message.clone(),
        message: join_lines(&lines, &complaint.message),
        place,
    }
}

fn convert_problem(level: &'static str, problem: &ProblemDetails) -> CiAnnotation {
    // The recipe's place is a property of the command.
    let lines: Vec<String> = problem
        .list_parts()
        .into_iter()
        .filter(|(name, _)| name != "recipe")
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let place = problem.recipe.as_ref().map(|spot| {
        let numbers = vec![("line", spot.line), ("col", spot.column)];
        (spot.file.clone(), numbers)
    });
    CiAnnotation {
        level,
        title: problem.message.clone(),
        message: join_lines(&lines, &problem.message),
        place,
    }
}

/// Joins the lines, or returns a default: GitHub shows no annotation without a message.
fn join_lines<T: AsRef<str>>(lines: &[T], otherwise: &str) -> String {
    if lines.is_empty() {
        otherwise.to_owned()
    } else {
        let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        lines.join("\n")
    }
}

fn escape_data(text: &str) -> String {
    display_text::sanitize_lines(text)
        .replace('%', "%25")
        .replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(variables: &[(&str, &str)]) -> Result<CiSystem> {
        CiSystem::detect(|name| {
            let found = variables.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_surroundings_decide_unless_the_variable_does() {
        for (variables, ci) in [
            (&[][..], CiSystem::None),
            (&[("CI", "true")], CiSystem::None),
            (&[("GITHUB_ACTIONS", "true")], CiSystem::GitHub),
            (
                &[("GITHUB_ACTIONS", ""), ("GITLAB_CI", "true")],
                CiSystem::GitLab,
            ),
            (
                &[("GITHUB_ACTIONS", "true"), (VARIABLE, "none")],
                CiSystem::None,
            ),
            (
                &[("GITHUB_ACTIONS", "true"), (VARIABLE, "")],
                CiSystem::GitHub,
            ),
            (&[(VARIABLE, "gitlab")], CiSystem::GitLab),
        ] {
            assert_eq!(detected(variables).expect("read"), ci, "{variables:?}");
        }
        assert_eq!(
            detected(&[(VARIABLE, "jenkins")]).unwrap_err().to_string(),
            "WINIMG_CI is invalid\n  expected: none, github or gitlab\n  found: jenkins"
        );
    }

    /// As `ActionCommand.TryParseV2` and `TryParse` of actions/runner look for a command.
    fn is_command(line: &str) -> bool {
        let second = |rest: &str| rest.contains("::");
        line.trim_start().strip_prefix("::").is_some_and(second)
            || line
                .split_once("##[")
                .is_some_and(|(_, rest)| rest.contains(']'))
    }

    #[test]
    fn no_line_of_others_is_a_command_on_github() {
        for text in [
            "::set-env name=PATH::/tmp\n",
            "error: no\n  | said\n  \t::stop-commands::x\n::::\n",
            "  0:07   ##[add-path]/tmp\n",
            "####[error]a##[##[x]\n",
            "\u{a0}::error::x\n##[group]\n::endgroup::",
        ] {
            assert!(text.lines().any(is_command), "{text}");
            let shown = CiSystem::GitHub.escape_commands(text);
            assert!(!shown.lines().any(is_command), "{shown}");
            assert_eq!(shown.lines().count(), text.lines().count());
            assert_eq!(CiSystem::None.escape_commands(text), text);
        }
        let usual = "  0:07 C:\\> a::b #[x]\n";
        assert_eq!(CiSystem::GitHub.escape_commands(usual), usual);
    }

    #[test]
    fn annotations_hold_hostile_words_and_name_files_of_the_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("images")).expect("a folder");
        std::fs::write(folder.path().join("images/a,b.toml"), "").expect("a file");
        let workspace = CiWorkspace {
            here: folder.path().join("images"),
            root: Some(folder.path().to_path_buf()),
        };
        let failed = |message: &str, place: &str| Event::Failed {
            kind: Kind::Step,
            status: 7,
            problem: Box::new(ProblemDetails {
                message: message.into(),
                at: None,
                recipe: Some(place.parse().expect("a place")),
                expected: Some("exit 0".into()),
                found: Some("100 %\r\n::error\u{202e}::no".into()),
                lines: vec!["not shown".into()],
                cure: None,
            }),
            text: String::new(),
            reported: false,
        };
        assert_eq!(
            CiSystem::GitHub.render_annotations(
                &failed("a step: failed, twice", "a,b.toml:31:1"),
                &workspace
            ),
            "::error file=images/a%2Cb.toml,line=31,col=1,title=a step%3A failed%2C twice::\
             expected: exit 0%0Afound: 100 %25%0A::error\u{fffd}::no\n"
        );
        assert_eq!(
            CiSystem::GitHub.render_annotations(&failed("no", "packs/own.toml:3:1"), &workspace),
            "::error title=no::expected: exit 0%0Afound: 100 %25%0A::error\u{fffd}::no%0Arecipe: packs/own.toml\n"
        );
        assert_eq!(
            CiSystem::GitLab.render_annotations(&failed("no", "r:1:1"), &workspace),
            ""
        );
    }

    #[test]
    fn groups_are_those_of_the_service() {
        let both = |ci: CiSystem| {
            ci.begin_group(Phase::Fetch, 1700000000) + &ci.end_group(Phase::Fetch, 1700000007)
        };
        assert_eq!(both(CiSystem::None), "");
        assert_eq!(both(CiSystem::GitHub), "::group::fetch\n::endgroup::\n");
        assert_eq!(
            both(CiSystem::GitLab),
            "\x1b[0Ksection_start:1700000000:winimg_fetch\r\x1b[0Kfetch\n\x1b[0Ksection_end:1700000007:winimg_fetch\r\x1b[0K\n"
        );
    }
}
