//! docs/cli.md, made of the command line's own definitions.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use support::golden;

const HEAD: &str = "# The command line

Made of the program's own definitions: `--help` after a command says the same. What each command ends with: [exit-status.md](exit-status.md).
Variables beside those named here: [environment.md](environment.md).
";

#[test]
fn the_reference_of_commands_is_made_of_their_definitions() {
    let mut command = winimg::cli::Cli::command();
    command.build();
    let mut text = HEAD.to_owned();
    text += "\n## With every command\n";
    text += &table(command.get_arguments().filter(|a| a.is_global_set()));
    for below in command.get_subcommands() {
        section(below, &mut text);
    }
    golden::whole("docs/cli.md", &text);
}

/// One command and those below it.
fn section(command: &Command, to: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().expect("a built command");
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(|about| paragraphs(&about.to_string()).join("\n\n"));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = about.unwrap_or_default();
    write!(to, "\n## `{name}`\n\n{about}\n\n    {usage}\n").expect("text");
    *to += &table(command.get_arguments().filter(|a| !a.is_global_set()));
    for below in command.get_subcommands() {
        section(below, to);
    }
}

/// As in the help, by heading and in the order of the definitions; nothing where there is no argument.
fn table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let shown = |a: &&Arg| !a.is_hide_set() && !["help", "version"].contains(&a.get_id().as_str());
    let arguments: Vec<&Arg> = arguments.filter(shown).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in &arguments {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    // What has no heading comes first.
    headings.sort_by_key(Option::is_some);
    let mut text = String::new();
    for heading in headings {
        writeln!(
            text,
            "\n| {} | | default |\n|---|---|---|",
            heading.unwrap_or("argument")
        )
        .expect("text");
        for argument in arguments.iter().filter(|a| a.get_help_heading() == heading) {
            text += &row(argument);
        }
    }
    text
}

fn row(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let (help, said) = without_default(&help);
    let mut help = sentences(&help).replace('|', "\\|");
    let takes = argument.get_action().takes_values();
    let defaults = argument.get_default_values().iter().filter(|_| takes);
    let defaults: Vec<String> = defaults
        .map(|v| format!("`{}`", v.to_string_lossy()))
        .collect();
    let default = said.unwrap_or_else(|| defaults.join(", "));
    let values = argument
        .get_possible_values()
        .into_iter()
        .filter(|_| takes)
        .filter(|v| !v.is_hide_set());
    let values: Vec<String> = values
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        help += &format!(": {}", values.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        help += &format!(" (`{}`)", variable.to_string_lossy());
    }
    format!("| {} | {help} | {default} |\n", written(argument))
}

/// The help text without `[default: …]`, which has a column of its own, and what stands in that.
fn without_default(help: &str) -> (String, Option<String>) {
    let parts = help.split_once(" [default: ");
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(']')?)));
    match parts {
        Some((before, (said, after))) => (format!("{before}{after}"), Some(said.to_owned())),
        None => (help.to_owned(), None),
    }
}

/// `-o`, `--output DIR`
fn written(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let value = if argument.get_action().takes_values() {
        names.join(" ")
    } else {
        String::new()
    };
    let short = argument.get_short().map(|short| format!("`-{short}`, "));
    match argument.get_long() {
        Some(long) => format!(
            "{}`{}`",
            short.unwrap_or_default(),
            format!("--{long} {value}").trim_end()
        ),
        None => format!("`{value}`"),
    }
}

/// The paragraphs of a help text, each with its full stop; lines are not broken within one.
fn paragraphs(text: &str) -> Vec<String> {
    let paragraphs = text.split("\n\n").filter(|p| !p.trim().is_empty());
    let whole = |p: &str| {
        let words = p.split_whitespace().collect::<Vec<_>>().join(" ");
        let ends = words.ends_with(['.', ':', ']']);
        if ends { words } else { words + "." }
    };
    paragraphs.map(whole).collect()
}

/// The same in one line; what is one statement alone has no full stop.
fn sentences(text: &str) -> String {
    match &paragraphs(text)[..] {
        [one] => one.trim_end_matches('.').to_owned(),
        several => several.join(" "),
    }
}
