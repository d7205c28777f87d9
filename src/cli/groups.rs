//! `winimg --help` with its commands under headings, which clap supports only for flags.

use std::fmt::Write as _;

/// Every command, grouped by task.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Recipes",
        &["init", "validate", "plan", "targets", "schema"],
    ),
    ("Inputs", &["pin", "lock", "fetch", "outdated", "bundle"]),
    (
        "Builds",
        &["build", "matrix", "watch", "attach", "screen", "cache"],
    ),
    (
        "Images",
        &[
            "export", "publish", "verify", "try", "report", "sign", "inspect", "diff",
        ],
    ),
    (
        "This host",
        &["doctor", "trust", "completions", "man", "help"],
    ),
];

/// Replaces the help template by one that lists the commands by group.
pub fn group_commands(mut command: clap::Command) -> clap::Command {
    // `help` exists only after building.
    command.build();
    let style = command.get_styles().clone();
    let (header, literal) = (style.get_header(), style.get_literal());
    let mut listed = String::new();
    for (group, names) in GROUPS {
        let _ = write!(listed, "\n\n{header}{group}:{header:#}");
        for name in *names {
            let about = command
                .find_subcommand(name)
                .and_then(|c| c.get_about())
                .map(ToString::to_string)
                .unwrap_or_default();
            let _ = write!(listed, "\n  {literal}{name:<11}{literal:#}  {about}");
        }
    }
    let template = format!(
        "{{about-with-newline}}
{{usage-heading}} {{usage}}{listed}

{header}Options:{header:#}
{{options}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_stands_under_one_heading_in_one_line() {
        let mut command = group_commands(Cli::command());
        let help = command.render_long_help().to_string();
        for each in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let line = format!("\n  {:<11}  ", each.get_name());
            assert_eq!(
                help.matches(&line).count(),
                1,
                "{}\n{help}",
                each.get_name()
            );
        }
        let listed = help.split("\n\nOptions:").next().unwrap_or_default();
        for line in listed.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(!help.contains('{'), "{help}");
    }
}
