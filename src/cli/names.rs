//! Name and recipe of a command, for the first line of its events.

use std::iter;
use std::path::Path;

use super::{CacheCommand, CliCommand, MatrixCommand, TrustCommand};
use winimg_base::argv;

impl CliCommand {
    /// Command as typed after `winimg`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Validate(_) => "validate",
            Self::Plan(_) => "plan",
            Self::Targets(_) => "targets",
            Self::Build(_) => "build",
            Self::Matrix { command } => match command {
                MatrixCommand::Plan(_) => "matrix plan",
                MatrixCommand::Lock(_) => "matrix lock",
                MatrixCommand::Build(_) => "matrix build",
                MatrixCommand::Report(_) => "matrix report",
                MatrixCommand::Render(_) => "matrix render",
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
                CacheCommand::Ls(_) => "cache ls",
                CacheCommand::Explain(_) => "cache explain",
                CacheCommand::Prune(_) => "cache prune",
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
                command: TrustCommand::Update(_),
            } => "trust update",
            Self::Schema { .. } => "schema",
            Self::Relay { .. } => "relay",
            Self::Man { .. } => "man",
            Self::Completions { .. } => "completions",
        }
    }

    /// The recipe's file, if the command takes one.
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
                command: CacheCommand::Explain(args),
            } => &args.recipe,
            Self::Matrix { command } => return Some(command.file()),
            _ => return None,
        };
        Some(&recipe.recipe)
    }
}

/// Returns the command line, quoted for the shell of this host. It may contain secrets.
pub fn quote_command_line() -> String {
    let arguments = std::env::args_os()
        .skip(1)
        .map(|word| quote_word(&word.to_string_lossy()));
    iter::once("winimg".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

fn quote_word(word: &str) -> String {
    if cfg!(windows) {
        argv::quote_argument(word)
    } else {
        argv::quote_posix(word)
    }
}
