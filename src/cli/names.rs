//! What a command is called, and which recipe it is about: the first line of its events.

use std::path::Path;

use super::{Cache, Command, Matrix, Trust};
use winimg_base::argv;

impl Command {
    /// As it is typed after `winimg`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Validate(_) => "validate",
            Self::Plan(_) => "plan",
            Self::Targets(_) => "targets",
            Self::Build(_) => "build",
            Self::Matrix { command } => match command {
                Matrix::Plan(_) => "matrix plan",
                Matrix::Lock(_) => "matrix lock",
                Matrix::Build(_) => "matrix build",
                Matrix::Report(_) => "matrix report",
                Matrix::Render(_) => "matrix render",
            },
            Self::Attach(_) => "attach",
            Self::Screen(_) => "screen",
            Self::Watch(_) => "watch",
            Self::Pin(_) => "pin",
            Self::Lock(_) => "lock",
            Self::Fetch(_) => "fetch",
            Self::Outdated(_) => "outdated",
            Self::Bundle(_) => "bundle",
            Self::Cache { command } => match command {
                Cache::Ls(_) => "cache ls",
                Cache::Explain(_) => "cache explain",
                Cache::Prune(_) => "cache prune",
            },
            Self::Export(_) => "export",
            Self::Publish(_) => "publish",
            Self::Verify(_) => "verify",
            Self::Try(_) => "try",
            Self::Report(_) => "report",
            Self::Diff(_) => "diff",
            Self::Sign(_) => "sign",
            Self::Inspect(_) => "inspect",
            Self::Doctor(_) => "doctor",
            Self::Trust {
                command: Trust::Update(_),
            } => "trust update",
            Self::Schema { .. } => "schema",
            Self::Relay { .. } => "relay",
            Self::Man { .. } => "man",
            Self::Completions { .. } => "completions",
        }
    }

    /// The recipe's file, where it is about one.
    pub fn recipe(&self) -> Option<&Path> {
        let recipe = match self {
            Self::Validate(args) => &args.recipe,
            Self::Plan(args) => &args.recipe,
            Self::Build(args) => &args.recipe,
            Self::Pin(args) => &args.recipe,
            Self::Lock(args) => &args.recipe,
            Self::Fetch(args) => &args.recipe,
            Self::Outdated(args) => &args.recipe,
            Self::Bundle(args) => &args.recipe,
            Self::Cache {
                command: Cache::Explain(args),
            } => &args.recipe,
            Self::Matrix { command } => return Some(command.file()),
            _ => return None,
        };
        Some(&recipe.recipe)
    }
}

/// What was typed, as one line for the shell of this host. It may hold secrets.
pub fn typed() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| shell_word(&word.to_string_lossy()));
    let all: Vec<String> = ["winimg".to_owned()].into_iter().chain(words).collect();
    all.join(" ")
}

fn shell_word(word: &str) -> String {
    match cfg!(windows) {
        true => argv::quoted(word),
        false => argv::posix(word),
    }
}
