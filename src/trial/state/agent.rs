//! Parses cloudbase-init's configuration and logs.
//!
//! Pure. Sources: cloudbase-init 1.1.9 `init.py`, `conf/default.py`, `metadata/factory.py`;
//! oslo.config's grammar.

use super::line::AgentLogLine;
use super::user_data::UserDataLogParser;
use super::{AgentRun, RunEnd};

/// Maximum number of kept errors of one run, the last ones.
const MAX_ERRORS: usize = 20;

/// The options of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSettings {
    values: Vec<(String, String)>,
}

impl AgentSettings {
    /// Parses the options of `[DEFAULT]`. The last option of a name wins; a line with a leading
    /// space continues the line before.
    pub fn parse(text: &str) -> Self {
        let mut settings = Self::default();
        let mut inside = false;
        for line in text.trim_start_matches('\u{feff}').lines() {
            let plain = line.trim();
            match plain.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                Some(section) => inside = section.trim() == "DEFAULT",
                None if !inside || plain.is_empty() || plain.starts_with(['#', ';']) => {}
                None if line.starts_with([' ', '\t']) => {
                    if let Some((_, value)) = settings.values.last_mut() {
                        value.push_str(plain);
                    }
                }
                None => {
                    let (name, value) = plain.split_once(['=', ':']).unwrap_or((plain, ""));
                    let pair = (name.trim().to_owned(), value.trim().to_owned());
                    settings.values.push(pair);
                }
            }
        }
        settings
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().rev().find(|(n, _)| n == name)?;
        Some(&found.1)
    }

    /// Returns true if a plugin is enabled. Without the option, all of cloudbase-init's own are.
    pub fn has_plugin(&self, class: &str) -> bool {
        self.get("plugins").is_none_or(|list| {
            let mut plugins = list.split(',');
            plugins.any(|plugin| plugin.trim().rsplit('.').next() == Some(class))
        })
    }

    /// Returns the path of the log, below C:. `default`: the file name if none is configured.
    pub fn log(&self, folder: &str, default: &str) -> String {
        let name = self.get("log_file").unwrap_or(default);
        if name.contains(':') {
            return name.to_owned();
        }
        let folder = self.get("log_dir").unwrap_or(folder).trim_end_matches('\\');
        format!(r"{folder}\{name}")
    }
}

/// Parses the runs in a log, in order.
pub fn parse_runs(text: &str) -> Vec<AgentRun> {
    let mut runs: Vec<AgentRun> = Vec::new();
    let mut began = false;
    let mut user_data = UserDataLogParser::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(line) = AgentLogLine::parse(line) else {
            continue;
        };
        let begins = line.message.starts_with("Cloudbase-Init version:");
        if runs.is_empty() || (begins && began) {
            runs.push(AgentRun::default());
            user_data = UserDataLogParser::default();
        }
        began |= begins;
        if let Some(run) = runs.last_mut() {
            note(&line, run);
            user_data.note(&line, lines.peek().copied(), &mut run.user_data);
        }
    }
    runs
}

fn note(line: &AgentLogLine<'_>, run: &mut AgentRun) {
    let message = line.message;
    if let Some(service) = message.strip_prefix("Metadata service loaded: ") {
        run.metadata = Some(service.trim_matches('\'').to_owned());
        // Other services that did not load are no fault if one did.
        run.errors.retain(|error| !error.starts_with(METADATA));
    }
    match message {
        "Plugins execution done" => run.end = RunEnd::Done,
        "Rebooting" => run.end = RunEnd::Restart,
        _ => {}
    }
    if matches!(line.level, "ERROR" | "CRITICAL") {
        // The exception repeats the line before.
        let exception = message.split(": ").next().unwrap_or(message);
        let repeats = run.errors.last().is_some_and(|e| e.contains(exception));
        if !repeats {
            run.errors.push(format!("{}: {message}", line.module));
        }
        let too_many = run.errors.len().saturating_sub(MAX_ERRORS);
        run.errors.drain(..too_many);
    }
}

const METADATA: &str = "metadata.";
