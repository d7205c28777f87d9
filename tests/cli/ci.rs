//! The logs of continuous integration: the same build in a pipe, on GitHub and on GitLab.

use crate::cli::site::{BUILD, Outcome, SEAL, Site};

const STEP: &str = "[[steps]]\nname = \"hello\"\ncmd = \"echo hello\"\n";
/// Of a guest that speaks to the runner.
const HOSTILE: &str = "[[run]]\ncommand = '*\\steps\\001.cmd'\nexit = 5\n\
    output = \"::set-output name=x::y\\r\\n##[add-path]/tmp\\r\\n\\u001b[0Ksection_end:1:winimg_provision\\r\\n\"\n";

const SURROUNDINGS: [(&str, &[(&str, &str)]); 3] = [
    ("pipe", &[]),
    ("github", &[("GITHUB_ACTIONS", "true")]),
    ("gitlab", &[("GITLAB_CI", "true")]),
];

fn run<'s>(site: &'s Site, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome<'s> {
    let mut command = site.command(arguments);
    command
        .envs(variables.iter().copied())
        .env("GITHUB_WORKSPACE", site.path(""));
    site.outcome(command)
}

/// Standard error, with the characters that a log shows not.
fn log(outcome: &Outcome<'_>) -> String {
    let seconds = regex::Regex::new(r"(section_\w+):\d{10}:").expect("a pattern");
    let said = outcome.stderr();
    let said = seconds.replace_all(&said, "$1:[second]:");
    said.replace('\u{1b}', "<ESC>").replace('\r', "<CR>")
}

#[test]
fn the_log_of_a_good_build() {
    for (name, variables) in SURROUNDINGS {
        let site = Site::new(&format!("{STEP}\n{SEAL}"));
        let outcome = run(&site, &BUILD, variables).ended_well();
        insta::assert_snapshot!(format!("good_{name}"), log(&outcome));
    }
}

#[test]
fn the_log_of_a_build_whose_guest_speaks_to_the_runner() {
    for (name, variables) in SURROUNDINGS {
        let site = Site::new(&format!("{STEP}\n{SEAL}"));
        site.machine("", HOSTILE);
        let outcome = run(&site, &BUILD, variables);
        assert_eq!(outcome.status(), Some(7));
        insta::assert_snapshot!(format!("hostile_{name}"), log(&outcome));
    }
}

#[test]
fn the_log_of_a_recipe_that_is_wrong() {
    for (name, variables) in SURROUNDINGS {
        let site = Site::new("[[steps]]\nname = \"later\"\nfirewal = { port = 10250 }\n");
        let outcome = run(&site, &["validate", "recipe.toml"], variables);
        assert_eq!(outcome.status(), Some(2));
        insta::assert_snapshot!(format!("wrong_{name}"), log(&outcome));
    }
}

#[test]
fn no_line_of_events_is_a_command_of_github() {
    let site = Site::new(&format!("{STEP}\n{SEAL}"));
    site.machine("", HOSTILE);
    let outcome = site.build(&["--log-format", "json"]);
    let text = String::from_utf8_lossy(&outcome.output.stderr).into_owned();
    assert!(!text.contains("##["), "{text}");
    let read = winimg::report::stream::parse_stream(&text).expect("a stream");
    let last = format!("{:?}", read.last());
    assert!(last.contains("##[add-path]/tmp"), "{last}");
}

#[test]
fn the_variable_decides_and_a_wrong_one_is_refused() {
    let site = Site::new(SEAL);
    let github = ("GITHUB_ACTIONS", "true");
    let outcome = run(&site, &BUILD, &[github, ("WINIMG_CI", "none")]).ended_well();
    assert!(
        !outcome.stderr().contains("::group::"),
        "{}",
        outcome.stderr()
    );
    let outcome = run(
        &site,
        &["validate", "recipe.toml"],
        &[("WINIMG_CI", "jenkins")],
    );
    assert_eq!(outcome.status(), Some(2));
    assert_eq!(
        outcome.stderr(),
        "error: WINIMG_CI is invalid\n  expected: none, github or gitlab\n  found: jenkins\n"
    );
}
