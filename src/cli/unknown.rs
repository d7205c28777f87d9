//! Tips for command names that other programs use.
//!
//! Gives only tips: no such name is an alias.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

const PRUNE: &str = "`winimg cache prune` removes what is no longer used";
const HELP: &str =
    "`winimg --help` lists the commands, `winimg COMMAND --help` describes one of them";
const LIST: &str =
    "`winimg cache ls` lists the cache, `winimg init --help` names the recipes to start from";
const BUILD: &str = "`winimg build RECIPE` builds the image";
const VALIDATE: &str =
    "`winimg validate RECIPE` checks a recipe, `winimg verify IMAGE` a finished image";

const WORDS: &[(&[&str], &str)] = &[
    (&["clean", "clear", "gc", "purge", "remove", "rm"], PRUNE),
    (&["manual", "usage"], HELP),
    (&["list", "ls"], LIST),
    (&["apply", "create", "make", "run"], BUILD),
    (&["check", "lint", "test"], VALIDATE),
    (&["new"], "`winimg init` writes a recipe to start from"),
    (
        &["pull", "download"],
        "`winimg fetch RECIPE` downloads the inputs",
    ),
    (
        &["convert"],
        "`winimg export IMAGE --to FORMAT` writes other formats",
    ),
    (
        &["console", "shell", "ssh"],
        "`winimg attach` opens a shell in the guest of a paused build",
    ),
    (&["version"], "`winimg --version` prints the version"),
];

/// Adds a tip to the error if the unknown command is one that other programs have.
pub fn with_tip(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let known = WORDS
        .iter()
        .find(|(names, _)| names.contains(&word.as_str()));
    if let Some((_, tip)) = known {
        // A similarly spelled command is not what was meant.
        error.remove(ContextKind::SuggestedSubcommand);
        let tips = vec![StyledStr::from(*tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    fn rendered(arguments: &[&str]) -> String {
        let all = ["winimg"].iter().chain(arguments);
        let error = Cli::try_parse_from(all).expect_err("no such command");
        with_tip(error).to_string()
    }

    #[test]
    fn words_of_other_programs_lead_to_the_command() {
        for (arguments, tip) in [
            (&["cache", "clean"][..], PRUNE),
            (&["clean"], PRUNE),
            (&["manual"], HELP),
            (&["list"], LIST),
            (&["cache", "list"], LIST),
        ] {
            let rendered = rendered(arguments);
            assert!(rendered.contains(&format!("  tip: {tip}\n")), "{rendered}");
            assert_eq!(rendered.matches("tip:").count(), 1, "{rendered}");
        }
        let slip = rendered(&["biuld"]);
        assert!(slip.contains("'build'"), "{slip}");
    }

    #[test]
    fn no_word_of_the_table_is_a_command() {
        let command = Cli::command();
        for word in WORDS.iter().flat_map(|(words, _)| *words) {
            assert!(command.find_subcommand(word).is_none(), "{word}");
        }
    }
}
