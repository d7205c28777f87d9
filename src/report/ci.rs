//! What GitHub and GitLab read in a job's log: groups that fold and, on GitHub, annotations at a line of the recipe.
//!
//! Decides and puts text together; the terminal writes it. What others say (a guest, a server) never becomes a command.
//! Sources: docs.github.com, "Workflow commands for GitHub Actions"; actions/runner, `ActionCommand.cs`; docs.gitlab.com,
//! "Custom collapsible sections".

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use winimg_base::diag::{self, Complaint};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Details, Event, Phase, Severity};
use winimg_base::io;
use winimg_base::unseen;

/// The variable that decides where the surroundings would.
pub const VARIABLE: &str = "WINIMG_CI";

/// Whose log standard error is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ci {
    #[default]
    None,
    GitHub,
    GitLab,
}

impl Ci {
    /// By the variables of the environment; an empty one is as good as none.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        match set(VARIABLE).as_deref() {
            Some("none") => Ok(Self::None),
            Some("github") => Ok(Self::GitHub),
            Some("gitlab") => Ok(Self::GitLab),
            Some(other) => Err(
                Error::new(Kind::Recipe, format!("{VARIABLE} cannot be read"))
                    .expected("none, github or gitlab")
                    .found(other),
            ),
            None if set("GITHUB_ACTIONS").is_some() => Ok(Self::GitHub),
            None if set("GITLAB_CI").is_some() => Ok(Self::GitLab),
            None => Ok(Self::None),
        }
    }

    /// Begins a group; `now` in seconds since 1970.
    pub fn begin(self, phase: Phase, now: i64) -> String {
        match self {
            Self::None => String::new(),
            Self::GitHub => format!("::group::{phase}\n"),
            Self::GitLab => {
                format!("\x1b[0Ksection_start:{now}:winimg_{phase}\r\x1b[0K{phase}\n")
            }
        }
    }

    pub fn end(self, phase: Phase, now: i64) -> String {
        match self {
            Self::None => String::new(),
            Self::GitHub => "::endgroup::\n".into(),
            Self::GitLab => format!("\x1b[0Ksection_end:{now}:winimg_{phase}\r\x1b[0K\n"),
        }
    }

    /// Whole lines, none of which is a command. GitHub's runner takes `::` at the start of a line, after blanks too, and `##[`
    /// anywhere in it. GitLab's sections need an escape and a carriage return, which the terminal lets nobody write.
    pub fn harmless(self, text: &str) -> Cow<'_, str> {
        let starts = |line: &str| line.trim_start().starts_with("::");
        if self != Self::GitHub || !(text.contains("##[") || text.lines().any(starts)) {
            return text.into();
        }
        let lines = text.split_inclusive('\n').map(|line| match starts(line) {
            true => line.replacen("::", ": :", 1),
            false => line.into(),
        });
        lines.collect::<String>().replace("##[", "# #[").into()
    }

    /// The commands that mark what the event complains about.
    pub fn annotations(self, event: &Event, workspace: &Workspace) -> String {
        match self {
            Self::GitHub => annotations(event)
                .iter()
                .map(|annotation| annotation.command(workspace))
                .collect(),
            Self::None | Self::GitLab => String::new(),
        }
    }
}

/// Where files are, for the paths that GitHub knows: relative to the repository.
#[derive(Clone, Debug)]
pub struct Workspace {
    here: PathBuf,
    root: Option<PathBuf>,
}

impl Workspace {
    pub fn of_process() -> Self {
        Self {
            here: std::env::current_dir().unwrap_or_default(),
            root: std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from),
        }
    }

    /// `None` for what is no file, such as a recipe on standard input or one of winimg's own packs.
    fn name_of(&self, file: &str) -> Option<String> {
        let path = self.here.join(file);
        if !path.is_file() {
            return None;
        }
        // Without the `..` that GitHub does not follow.
        let path = io::canonicalize(&path).unwrap_or(path);
        let root = self.root.as_deref().unwrap_or(Path::new(""));
        let root = io::canonicalize(root).unwrap_or_default();
        let path = path.strip_prefix(root).unwrap_or(&path);
        Some(path.display().to_string().replace('\\', "/"))
    }
}

/// One mark.
#[derive(Debug, PartialEq, Eq)]
struct Annotation {
    /// `error` or `warning`.
    level: &'static str,
    title: String,
    message: String,
    /// The file as messages name it, and properties of the command.
    place: Option<(String, Vec<(&'static str, usize)>)>,
}

impl Annotation {
    fn command(&self, workspace: &Workspace) -> String {
        let mut properties = Vec::new();
        let mut message = self.message.clone();
        if let Some((file, numbers)) = &self.place {
            match workspace.name_of(file) {
                Some(name) => {
                    properties.push(format!("file={}", property(&name)));
                    properties.extend(numbers.iter().map(|(name, n)| format!("{name}={n}")));
                }
                None => message += &format!("\nrecipe: {file}"),
            }
        }
        properties.push(format!("title={}", property(&self.title)));
        format!(
            "::{} {}::{}\n",
            self.level,
            properties.join(","),
            data(message.trim_start())
        )
    }
}

fn annotations(event: &Event) -> Vec<Annotation> {
    match event {
        Event::Diagnostics { found, .. } => found.diagnostics.iter().map(of_complaint).collect(),
        Event::Finding {
            severity, problem, ..
        } => match severity {
            Severity::Error => vec![of_problem("error", problem)],
            Severity::Warning => vec![of_problem("warning", problem)],
            Severity::Unknown => Vec::new(),
        },
        Event::Failed {
            reported: false,
            problem,
            ..
        } => vec![of_problem("error", problem)],
        _ => Vec::new(),
    }
}

fn of_complaint(complaint: &Complaint) -> Annotation {
    let label = Some(&complaint.label).filter(|label| !label.is_empty());
    let lines: Vec<&str> = label
        .into_iter()
        .chain(&complaint.help)
        .map(String::as_str)
        .collect();
    let place = complaint.place.as_ref().map(|place| {
        let mut numbers = vec![("line", place.line)];
        // GitHub takes columns of one line alone.
        match place.line == place.end_line {
            true => numbers.extend([("col", place.column), ("endColumn", place.end_column)]),
            false => numbers.push(("endLine", place.end_line)),
        }
        (place.source.clone(), numbers)
    });
    Annotation {
        level: match complaint.severity {
            diag::Severity::Error => "error",
            diag::Severity::Warning => "warning",
        },
        title: complaint.message.clone(),
        message: said(&lines, &complaint.message),
        place,
    }
}

fn of_problem(level: &'static str, problem: &Details) -> Annotation {
    // The recipe's place is a property of the command.
    let parts = problem
        .parts()
        .into_iter()
        .filter(|(name, _)| name != "recipe");
    let lines: Vec<String> = parts
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let place = problem.recipe.as_ref().map(|spot| {
        let numbers = vec![("line", spot.line), ("col", spot.column)];
        (spot.file.clone(), numbers)
    });
    Annotation {
        level,
        title: problem.message.clone(),
        message: said(&lines, &problem.message),
        place,
    }
}

/// GitHub shows no annotation without a message.
fn said<T: AsRef<str>>(lines: &[T], otherwise: &str) -> String {
    match lines.is_empty() {
        true => otherwise.to_owned(),
        false => {
            let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
            lines.join("\n")
        }
    }
}

fn data(text: &str) -> String {
    unseen::lines(text).replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(variables: &[(&str, &str)]) -> Result<Ci> {
        Ci::detect(|name| {
            let found = variables.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_surroundings_decide_unless_the_variable_does() {
        for (variables, ci) in [
            (&[][..], Ci::None),
            (&[("CI", "true")], Ci::None),
            (&[("GITHUB_ACTIONS", "true")], Ci::GitHub),
            (&[("GITHUB_ACTIONS", ""), ("GITLAB_CI", "true")], Ci::GitLab),
            (&[("GITHUB_ACTIONS", "true"), (VARIABLE, "none")], Ci::None),
            (&[("GITHUB_ACTIONS", "true"), (VARIABLE, "")], Ci::GitHub),
            (&[(VARIABLE, "gitlab")], Ci::GitLab),
        ] {
            assert_eq!(detected(variables).expect("read"), ci, "{variables:?}");
        }
        assert_eq!(
            detected(&[(VARIABLE, "jenkins")]).unwrap_err().to_string(),
            "WINIMG_CI cannot be read\n  expected: none, github or gitlab\n  found: jenkins"
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
            let shown = Ci::GitHub.harmless(text);
            assert!(!shown.lines().any(is_command), "{shown}");
            assert_eq!(shown.lines().count(), text.lines().count());
            assert_eq!(Ci::None.harmless(text), text);
        }
        let usual = "  0:07 C:\\> a::b #[x]\n";
        assert_eq!(Ci::GitHub.harmless(usual), usual);
    }

    #[test]
    fn annotations_hold_hostile_words_and_name_files_of_the_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("images")).expect("a folder");
        std::fs::write(folder.path().join("images/a,b.toml"), "").expect("a file");
        let workspace = Workspace {
            here: folder.path().join("images"),
            root: Some(folder.path().to_path_buf()),
        };
        let failed = |message: &str, place: &str| Event::Failed {
            kind: Kind::Step,
            status: 7,
            problem: Box::new(Details {
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
            Ci::GitHub.annotations(
                &failed("a step: failed, twice", "a,b.toml:31:1"),
                &workspace
            ),
            "::error file=images/a%2Cb.toml,line=31,col=1,title=a step%3A failed%2C twice::\
             expected: exit 0%0Afound: 100 %25%0A::error\u{fffd}::no\n"
        );
        assert_eq!(
            Ci::GitHub.annotations(&failed("no", "packs/own.toml:3:1"), &workspace),
            "::error title=no::expected: exit 0%0Afound: 100 %25%0A::error\u{fffd}::no%0Arecipe: packs/own.toml\n"
        );
        assert_eq!(
            Ci::GitLab.annotations(&failed("no", "r:1:1"), &workspace),
            ""
        );
    }

    #[test]
    fn groups_are_those_of_the_service() {
        let both = |ci: Ci| ci.begin(Phase::Fetch, 1700000000) + &ci.end(Phase::Fetch, 1700000007);
        assert_eq!(both(Ci::None), "");
        assert_eq!(both(Ci::GitHub), "::group::fetch\n::endgroup::\n");
        assert_eq!(
            both(Ci::GitLab),
            "\x1b[0Ksection_start:1700000000:winimg_fetch\r\x1b[0Kfetch\n\x1b[0Ksection_end:1700000007:winimg_fetch\r\x1b[0K\n"
        );
    }
}
